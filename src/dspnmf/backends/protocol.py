"""The seam: what a backend, its data and its rows offer, and which parts of that are optional.

    X ──▶ Backend.check ──▶ Data: facts about X ──▶ Data.rows ──▶ Rows: X and the codes

- A **Backend** is a kind of array (memory, file, device, cluster). It checks X once and says what it is capable of.
- **Data** is a checked X: its shape, type, largest entry and norms, from as few passes as possible. It makes Rows.
- **Rows** own X (n x m) and the codes U (n x k), and look at every row once per request. What goes in and comes out is
  small (`RowModel`, `Sums`), in float64, in the unit `scale`, and lives where `small` says. A step is remembered and
  taken when a row is next looked at. Rows know nothing of the objective.

Every Rows class has the core (`Rows`). `ConjugateGradientRows` and `MultiplicativeRows` are extensions; a backend lists
those it has among its `capabilities`, with what else it can do. What a fit needs and a backend lacks is refused by name
before any work (`dspnmf._validation.check_backend`), never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dspnmf._typing import Array, ArrayLike, Codes, Matrix, Scalar, SmallArray, Sparse
from dspnmf.backends.row_model import (
    Block,
    BlockNorms,
    Completion,
    DivergenceModel,
    DivergenceSums,
    Operator,
    RandomCodes,
    RowModel,
    Slope,
    Sums,
    Ties,
)
from dspnmf.backends.small_arrays import Small

Capability = Literal[
    "newton-cg",  # Rows are `ConjugateGradientRows`
    "multiplicative",  # Rows are `MultiplicativeRows`
    "divergences",  # Data makes `DivergenceRows`
    "operators",  # Rows take operators: graphs, masks
    "features",  # Data can be widened by further columns
    "graphs",  # Data gives X to the host, where neighbours are searched
    "missing",  # NaN may mean a missing cell
    "svd",  # singular vectors of X
    "batches",  # partial_fit
    "whole matrix",  # X is an array in memory: methods that are not written for rows
]


class Request(NamedTuple):
    """A look at X that a start asks for: a method of its rows, and all that this takes."""

    method: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def rows(self) -> Any:
        """The rows that are asked."""
        return self.method.__self__  # type: ignore[attr-defined]  # it is bound

    @property
    def name(self) -> str:
        """Of the method."""
        return self.method.__name__


class Rows(Protocol):
    """X and the codes of its rows: the core that every backend has."""

    scale: float  # the unit X is measured in
    shape: tuple[int, int]
    k: int
    dtype: np.dtype[Any]
    product_cost: float  # operations of one product of X with k columns
    sweep_cost: float  # and of one sweep over the codes
    rounding: float  # of the sums of a look, in a number made of all of them (`dspnmf.solvers.descent.SumsRounding`)
    small: Small
    completes: bool = False  # whether X has missing cells that `refresh` completes

    # -- codes

    @property
    def codes(self) -> Codes:
        """The codes U, all steps taken, as `begin` takes them."""

    def draw(self, start: RandomCodes) -> Codes:
        """Codes for `begin`, drawn at random: the same numbers on every backend."""

    def scaled(self, codes: Codes, factors: Array | float) -> Codes:
        """Codes times a number, or a number for every component; they may be changed in place."""

    def save_codes(self, codes: Codes | None = None) -> Iterator[Array]:
        """Codes for the host (n x k), in blocks of rows: those given, or the current ones, all steps taken."""

    def some_codes(self, rows: NDArray[np.intp]) -> Array:
        """Codes of some rows for the host, in float64 (capability "batches")."""

    def restore_codes(self, blocks: Iterable[Array]) -> Codes:
        """Codes for `begin`, from blocks of rows of the host in their order."""

    def begin(self, codes: Codes) -> None:
        """Start from these codes (or n x k of the host); they are changed in place."""

    def restart(self) -> None:
        """Forget what an earlier start has done to X (missing cells)."""
        return

    def release(self) -> None:
        """Free the memory that only a descent needs."""

    # -- several starts

    def several(self, wanted: int) -> Sequence[Self]:
        """Rows for as many of the `wanted` starts as share their looks at X; itself where none do."""
        return [self]

    def own_codes(self, codes: Codes) -> Codes:
        """Codes of one of several starts, without the arrays that these share."""
        return codes

    def together(self, requests: Sequence[Request]) -> list[Any]:
        """The answers to requests of one kind by starts that share X (`several`)."""
        return [request.method(*request.arguments) for request in requests]

    def measure(self, starts: Sequence[Self]) -> None:
        """Make the sums of starts that share X (`several`) with one look at it: `sums` then has them."""
        return

    # -- one look at every row

    def sums(self) -> tuple[SmallArray, SmallArray, tuple[SmallArray, ...]]:
        """P = X'U, Q = U'U, and U'LU for every operator."""

    def step(self, t: Scalar) -> Scalar:
        """U += t D, at the next look; t as the codes take it, rounded to their type."""

    def look(self, model: RowModel, sweeps: Scalar, stretch: Scalar = 1.0) -> Sums:
        """Leave in D the direction of `sweeps` sweeps of the model (without coupling); the sums along it.

        The direction is taken times `stretch`, cut off where codes would become negative.
        """

    def solve(self, model: RowModel, ties: Ties | None = None, completion: Completion | None = None) -> Codes:
        """Codes that minimise the model row by row (without coupling and operators), solved to rounding.

        New rows bring their own `ties`; `completion` says how cells that they miss are completed.
        """

    def refresh(self, Vt: SmallArray) -> Mapping[str, BlockNorms] | None:
        """Called after every iteration: bring an X that depends on the factors up to date (missing cells).

        None: X is as it was. Otherwise the norms of its blocks as they are now; the sums are to be recomputed.
        """
        return None

    def residual2(self, Vt: SmallArray) -> float | None:
        """||X - UV||^2 from the residuals themselves; None where that is out of reach."""

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 from the residuals; None where that is out of reach."""


class ConjugateGradientRows(Rows, Protocol):
    """What newton-cg asks of rows in addition: the same look in two passes, conjugate gradients between them."""

    cg_steps: tuple[int, int]  # fewest and most conjugate-gradient steps worth taking

    def face(self, model: RowModel, sweeps: int) -> tuple[Slope, Slope, SmallArray]:
        """First pass: in D the direction of a few sweeps; the model along D, along its part A at zero, and D'A."""

    def common_curvature(self, model: RowModel) -> SmallArray:
        """The curvature common to rows: S, and the means of what operators add to it."""

    def cg_start(self, tau: Scalar, sigma: Scalar, model: RowModel, UD: SmallArray, inverse: SmallArray) -> SmallArray:
        """Shorten D by tau, its part A by sigma; U'r of the residual r on the free entries."""

    def cg_step(self, alpha: Scalar, beta: Scalar, model: RowModel, Uu: SmallArray, inverse: SmallArray) -> SmallArray:
        """One conjugate-gradient step; U'r of the residual it leaves."""

    def cg_last(self, alpha: Scalar, beta: Scalar) -> None:
        """The last conjugate-gradient step: z only, no residual."""

    def couple(self, C: SmallArray) -> Slope:
        """Precondition the residual: u is r inverse + U C on the free entries; the model along u."""

    def project(self) -> tuple[Slope, SmallArray, tuple[SmallArray, ...]]:
        """Make z the direction to the projection of U + D + z; the model along it, D'z and D'Lz."""

    def combine(self, tau: Scalar, stretch: Scalar = 1.0) -> Sums:
        """Second pass: D += tau z, times `stretch`; the sums along it."""


class MultiplicativeRows(Rows, Protocol):
    """What multiplicative rules ask of rows in addition."""

    def map(
        self, rule: Callable[[Array, Array, Array], Array], model: RowModel
    ) -> tuple[Array, Array, tuple[Array, ...]]:
        """Replace every block of codes by ``rule(U, gain, loss)``; the sums of the new codes.

        `gain` is X M and what operators pull, `loss` what they push (entries of ``L_j U pulls[j]`` by their sign).
        """


class DivergenceRows(Rows, Protocol):
    """What errors measured by a beta divergence ask of rows in addition. Missing cells have no weight there."""

    def improve(self, model: DivergenceModel, sweeps: int) -> DivergenceSums:
        """One look: sweep every row's codes a few times while it is at hand, never up; the sums they leave."""

    def solve_divergence(self, model: DivergenceModel, *, fresh: bool) -> Codes:
        """Codes that minimise the model row by row, to rounding; P and Q are those of other rows.

        `fresh`: start from the best constant, otherwise from the codes as they are.
        """

    def remember(self) -> None:
        """Keep the codes as they are, for `recall`."""

    def recall(self) -> None:
        """Back to the codes that were kept."""


class Data(Protocol):
    """A checked X: non-negative, finite (or with missing cells), float32 or float64."""

    backend: Backend
    shape: tuple[int, int]  # samples, and features of X alone
    dtype: np.dtype[Any]
    largest: float  # entry of X
    unit: float  # the user's X over the one held: sizes and units that are passed and returned are the user's

    def of_ordinary_size(self, scale: float) -> Data:
        """Itself, or X divided by `scale` where squares of numbers of that size leave the range of float32."""

    def mean(self) -> float:
        """The mean of X."""

    def norm2(self, scale: float) -> float:
        """||X||^2 in the unit `scale`."""

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2, or that of another block, in the unit `scale`."""

    def block(self, name: str = "X") -> Block:
        """The columns of a block in what `rows` hold."""

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> Rows:
        """X and whatever it was widened by, with codes of k components."""

    def has_zeros(self) -> bool:
        """Whether a cell of X is zero (capability "divergences")."""

    def divergence_rows(self, k: int, scale: float) -> DivergenceRows:
        """X, its missing cells without weight, with codes of k components (capability "divergences")."""

    def with_similarity_block(self) -> tuple[Data, str]:
        """Data for a fit that preserves similarities, and the block they are those of.

        That is X itself, unless cells are missing: then a second X, so that the similarities stand still while the
        first is completed.
        """

    def widened(self, name: str, columns: Matrix) -> Data:
        """X with further columns (of the host), a block of that name (capability "features")."""

    def with_ones(self, scale: float) -> Data:
        """X with a column that is 1 in the unit `scale` as block "ones": its sums are those of the codes."""

    def with_unit_rows(self, scale: float) -> Data:
        """X with its rows at unit length (times `scale`) as block "unit rows" (capability "features")."""

    def with_averaged_rows(self, R: Sparse, steps: int, own: float = 0.0) -> Data:
        """X with ``(1 - own) R^steps X + own X`` as block "averaged rows" (capability "graphs"); R is of the host."""

    def without_features(self) -> Data:
        """One empty column in place of X, for methods that look at graphs only (capability "graphs")."""

    def transposed(self) -> Data:
        """X' (capability "whole matrix")."""

    def as_float64(self) -> Data:
        """X in float64 (capability "whole matrix")."""

    def some_rows(self, rows: NDArray[np.intp], block: str = "X") -> Array:
        """Some rows of a block for the host, dense, in float64 (capability "batches")."""

    def on_host(self) -> Matrix:
        """X as a NumPy array or CSR matrix (capability "graphs")."""

    def column_means(self) -> Array:
        """Means of the columns over known cells (capability "missing")."""

    def singular_vectors(self, k: int, rng: np.random.RandomState) -> tuple[Array, Array, Array]:
        """Left vectors (n x k), singular values, right vectors (k x m), by a randomised method (capability "svd")."""


class Backend(Protocol):
    """A kind of array: how it is checked, what it is capable of, what comes back to the user."""

    name: str  # as in "X is {name}"
    capabilities: frozenset[Capability]
    solvers: tuple[str, ...]  # those that work here; "auto" takes the first where rows are coupled

    def storing(self, codes_path: Path | None) -> Backend:
        """The same backend for a fit whose codes go to a file (None: they do not); an error where they cannot."""

    def check(self, estimator: Any, X: ArrayLike, *, reset: bool) -> Data:
        """X checked; `reset` remembers its width in the estimator, otherwise it is compared."""

    def codes(self, codes: Codes) -> ArrayLike:
        """Codes as the user gets them."""

    def components(self, V: Array) -> ArrayLike:
        """Components as the user gets them."""

    def samples(self, Z: ArrayLike, V: ArrayLike) -> ArrayLike:
        """``Z V``, where the user's codes Z are."""
