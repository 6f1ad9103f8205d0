"""What the solver, the terms and the estimators ask of rows, wherever they live.

Requirements of a Rows class: it owns X (n x m) and the codes U (n x k), and looks at every row once per request. What
goes in and comes out is small (`RowModel`, `Sums`), in float64, in the unit `scale`, and lives where `small` says. A
step is remembered and taken when a row is next looked at. Rows know nothing of the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from dspnmf.backends.row_model import RandomCodes, RowModel, Slope, Sums
from dspnmf.backends.small_arrays import Scalar, Small


class Rows(Protocol):
    """Samples and their codes."""

    scale: float  # the unit X is measured in
    shape: tuple[int, int]
    k: int
    dtype: np.dtype[Any]
    product_cost: float  # operations of one product of X with k columns
    sweep_cost: float  # and of one sweep over the codes
    cg_steps: tuple[int, int]  # fewest and most conjugate-gradient steps worth taking
    small: Small

    @property
    def data(self) -> Any:
        """X as it was given."""

    @property
    def codes(self) -> Any:
        """The codes U (n x k), all steps taken."""

    def draw(self, start: RandomCodes) -> Any:
        """Codes for `begin`, drawn at random: the same numbers wherever the rows live."""

    def save_codes(self, codes: Any = None) -> Iterator[Any]:
        """Codes for the host, in blocks of rows: those given, or the current ones, all steps taken."""

    def restore_codes(self, blocks: Iterable[Any]) -> Any:
        """Codes for `begin`, from blocks of rows of the host in their order."""

    def begin(self, codes: Any) -> None:
        """Start from these codes; they are changed in place."""

    def release(self) -> None:
        """Give back the memory only a descent needs."""

    def sums(self) -> tuple[Any, Any, tuple[Any, ...]]:
        """P = X'U, Q = U'U, and U'LU for every operator."""

    def step(self, t: Scalar) -> None:
        """U += t D."""

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """Leave in D the direction of `sweeps` sweeps of the model; the sums along it."""

    def face(self, model: RowModel, sweeps: int) -> tuple[Slope, Slope, Any]:
        """First pass of newton-cg: in D the direction of a few sweeps; the model along D, along its part A, and D'A."""

    def preconditioner(self, model: RowModel, floor: float) -> Any:
        """Inverse of the curvature common to rows."""

    def cg_start(self, tau: Scalar, sigma: Scalar, model: RowModel, UD: Any, inverse: Any) -> Slope:
        """Shorten D by tau, its part A by sigma; the residual on the free entries, preconditioned."""

    def cg_step(self, alpha: Scalar, beta: Scalar, model: RowModel, Uu: Any, inverse: Any) -> Slope:
        """One conjugate-gradient step."""

    def project(self) -> tuple[Slope, Any, tuple[Any, ...]]:
        """Make z the direction to the projection of U + D + z; the model along it, D'z and D'Lz."""

    def combine(self, tau: Scalar, stretch: float = 1.0) -> Sums:
        """Second pass: D += tau z, times `stretch`; the sums along it."""

    def map(self, rule: Callable[[Any, Any, Any], Any], model: RowModel) -> tuple[Any, ...]:
        """Replace every block of codes by ``rule(U, gain, loss)``; the sums of the new codes."""

    def solve(self, model: RowModel, extra: Any = None, delta: Any = None, kappa: Any = None) -> Any:
        """Codes that minimise the model row by row, solved to rounding."""

    def mean(self) -> float:
        """The mean of X."""

    def norm2(self) -> float:
        """||X||^2."""

    def gram_norm2(self) -> float:
        """||XX'||^2."""

    def residual2(self, Vt: Any) -> float | None:
        """||X - UV||^2 from the residuals themselves; None where that is out of reach."""

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 from the residuals; None where that is out of reach."""
