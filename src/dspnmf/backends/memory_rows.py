"""Rows in the memory of one machine: dense or SciPy sparse.

Requirements: X is n x m, float32 or float64, any layout, read-only allowed; CSR is the sparse form the kernels know.
Nothing here makes sparse X dense (a few rows at a time where residuals are wanted) or holds an n x n array.

X is touched in two ways only: by a kernel (`_with_X`), and slab by slab (`_slabs`; in memory all of X is one). Arrays
of the codes' shape come from `_new`. Rows whose X or codes lie in a file override these three.

Rows of several starts (`several`) share X, and their codes are slices of common arrays, so that one reading of X serves
all of them: what has the shape r x n x k below, and m x r k where pulls or sums of all starts stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf._threads import spread
from dspnmf._typing import Array, Matrix
from dspnmf.backends.norms import read_only
from dspnmf.backends.operators import Operators
from dspnmf.backends.protocol import ConjugateGradientRows, MultiplicativeRows, Request
from dspnmf.backends.row_codes import solve_rows
from dspnmf.backends.row_model import GROUP, Completion, Operator, RandomCodes, RowModel, Slope, Sums, Ties
from dspnmf.backends.small_arrays import HOST, Small

Arrays = Sequence[Any]  # each has a row for every row of X, or is None
_BLOCK_BYTES = 2**19  # a block of X that stays in a core's second-level cache
_BLOCK_ROWS = 32, 128  # of a block; twice as many at most where several starts share it
TRIANGLE = 2048  # features up to which a triangular factor is worth its m^2 numbers
_TRIANGLE_OPERATIONS = 2.0**32  # of factorizing one block of rows
_RESIDUAL = 2**20  # entries of X whose residuals are formed at once
_SPARSE_COST = 5.0  # time of an operation on sparse X over that of one on dense X, about
_WELL_CONDITIONED = {4: 1e-8, 8: 1e-5}  # eigenvalues, smallest over largest, of a curvature whose inverse is precise
MOST_STARTS = 16  # that share a reading of X: more are no faster
STARTS_BYTES = 2.0**28  # that the arrays of starts which share a reading may take, or as much as X
STARTS_ARRAYS = 8  # of the codes' shape, for every start


@dataclass(frozen=True)
class Triangle:
    """The triangular factor R of [X U] for some rows; a sum is the factor of the rows of both."""

    R: Any  # an array

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle(np.linalg.qr(np.vstack([self.R, other.R]), mode="r"))

    def residual2(self, m: int) -> float:
        """||XX' - UU'||^2 as ``||R_x R_x' - R_u R_u'||^2``: large numbers cancel before they are squared."""
        R = self.R
        return float(np.linalg.norm(R[:, :m] @ R[:, :m].T - R[:, m:] @ R[:, m:].T)) ** 2


class MemoryRows(ConjugateGradientRows, MultiplicativeRows):
    """X and the codes U of its rows; `scale` is the unit X is measured in (every sum returned is in that unit).

    Steps are taken when a row is next looked at: `step` only remembers them, `codes` settles what is pending.
    """

    cg_steps = (4, 17)
    small: Small = HOST
    _known: tuple[Array, Array, tuple[Array, ...]] | None  # the sums of X and the codes as they are

    def __init__(self, X: Matrix, k: int, scale: float = 1.0, operators: Sequence[Operator] = ()) -> None:
        self.scale, self.k = scale, k
        self.shape, self.dtype = X.shape, X.dtype
        self._X, self._source = X, _kernel_view(X)
        self._U = self._D = np.empty((0, k), X.dtype)
        self._pending, self._known = 0.0, None
        self._newton: dict[str, Any] = {}
        self._common: Mapping[str, Array] = {}  # arrays of several starts, of which this one has a slice
        self._start = 0  # which
        self._operators = Operators(operators, X.dtype)
        wide = 1 if sparse.issparse(X) else self.shape[1]
        self._cached_rows = _BLOCK_BYTES // (wide * self.dtype.itemsize)
        self._block = int(np.clip(self._cached_rows, *_BLOCK_ROWS))
        stored = X.nnz if sparse.issparse(X) else X.size
        self.product_cost = 2.0 * stored * self.k  # operations of one product of X with k columns
        self.sweep_cost = 2.0 * self.shape[0] * self.k**2  # and of one sweep over the codes
        self.rounding = rounding_of_looks(self.dtype, stored * self.k)

    def several(self, wanted: int) -> Sequence[Self]:
        """Rows for up to `wanted` starts that share X; fewer where their codes would take more memory than X."""
        each = STARTS_ARRAYS * float(self.shape[0]) * self.k * self.dtype.itemsize
        most = max(STARTS_BYTES, self.product_cost / (2 * self.k) * self.dtype.itemsize) / each
        size = int(min(wanted, MOST_STARTS, most))
        if size < 2 or self.completes:
            return [self]
        common = {name: np.zeros((size, self.shape[0], self.k), self.dtype) for name in ("U", "D", "g", "z")}
        made = [copy(self) for _ in range(size)]
        for start, rows in enumerate(made):
            rows._common, rows._start, rows._newton = common, start, {}
            rows._block = max(self._block, min(self._cached_rows, 2 * _BLOCK_ROWS[1]))
            rows._U, rows._D = common["U"][start], common["D"][start]
        return made

    def own_codes(self, codes: Array) -> Array:
        """A copy."""
        return codes.copy()

    def together(self, requests: Sequence[Request]) -> list[Any]:
        """Look at X once for all starts."""
        kinds: dict[str, Callable[..., list[Any]]]
        kinds = {"look": self._looks, "face": self._faces, "combine": self._combined}
        joint = kinds[requests[0].name]
        return joint([request.rows for request in requests], *zip(*(r.arguments for r in requests), strict=True))

    def measure(self, starts: Sequence[MemoryRows]) -> None:
        """One reading of X for all; the sums of a single start are made when they are asked for."""
        if len(starts) > 1:
            self._measure(starts)

    def _measure(self, starts: Sequence[MemoryRows]) -> None:
        codes = [rows.codes for rows in starts]
        work = len(starts) * self.product_cost
        P, Q = self._with_X(_kernels().sums, work, _stacked(starts, "U"), self.shape[1], _numbers(starts))
        for rows, U, *own in zip(starts, codes, self._apart(P, len(starts)), Q, strict=True):
            rows._known = *own, rows._operators.between(U, U)

    def draw(self, start: RandomCodes) -> Array:
        """Codes drawn at random, a group at a time."""
        return self.restore_codes(start(group.start, group.stop) for group in self._groups())

    def scaled(self, codes: Array, factors: Array | float) -> Array:
        """Codes times a number, or a number for every component, in place."""
        for group in self._groups():  # multiplied in float64: a factor alone may leave the range of float32
            np.multiply(codes[group], np.asarray(factors, np.float64), out=codes[group], casting="same_kind")
        return codes

    def save_codes(self, codes: Array | None = None) -> Iterator[Array]:
        """Codes in blocks of rows: those given, or the current ones (their step taken as a look would take it)."""
        if codes is None:
            for group in self._groups() if self._pending else ():
                _kernels().take_step(self._U, self._D, self._pending, group.start, group.stop)
            codes, self._pending = self._U, 0.0
        for group in self._groups():
            yield codes[group]

    def some_codes(self, rows: NDArray[np.intp]) -> Array:
        """Codes of some rows."""
        return self.codes[rows].astype(np.float64)

    def restore_codes(self, blocks: Iterable[Array]) -> Array:
        """Codes for `begin`, from blocks of rows in their order."""
        U, i = self._new(), 0
        for block in blocks:
            U[i : i + len(block)] = block
            i += len(block)
        return U

    def begin(self, codes: Array) -> None:
        """Start from these codes (n x k, C order, X's dtype); they are changed in place, or copied to a slice."""
        if self._common:
            self._U[:] = codes
        else:
            self._U = codes
        self._pending, self._known = 0.0, None
        if self._D.shape != codes.shape:
            self._D = self._new()
            return
        for group in self._groups():
            self._D[group] = 0

    @property
    def codes(self) -> Array:
        """The codes U (n x k), all steps taken."""
        if self._pending:
            for group in self._groups():
                U = self._U[group]
                U += self.dtype.type(self._pending) * self._D[group]
                np.maximum(U, 0, out=U)
            self._pending = 0.0
        return self._U

    def release(self) -> None:
        """Free the memory that only a descent needs."""
        self._U = self.codes
        self._newton, self._D = {}, np.empty((0, self.k), self.dtype)

    def sums(self) -> tuple[Array, Array, tuple[Array, ...]]:
        """P = X'U, Q = U'U, and U'LU for every operator; asked twice, they are made once."""
        if self._known is None:
            self._measure([self])
            assert self._known is not None
        return self._known

    def step(self, t: float) -> float:
        """U += t D."""
        self._pending, self._known = float(self.dtype.type(t)), None
        return self._pending

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """Sweeps by the compiled loops, block by block."""
        return self._looks([self], [model], [sweeps], [stretch])[0]

    def swept(self, model: RowModel, sweeps: int, stretch: float) -> tuple[Array, Array, Array, float, float]:
        """The work of `look`: X'D, U'D, D'D, and the squared changes of the first and of the last sweep."""
        return self._swept([self], [model], [sweeps], [stretch])[0]

    def _looks(self, starts: Starts, models: Models, sweeps: Sequence[int], stretch: Sequence[float]) -> list[Sums]:
        """`look` for several starts."""
        return [
            Sums(PD, UD, DD, *rows._along(), (last / first) ** 0.5 if first > 0 else 0.0)
            for rows, (PD, UD, DD, first, last) in zip(
                starts, self._swept(starts, models, sweeps, stretch), strict=True
            )
        ]

    def _swept(
        self, starts: Starts, models: Models, sweeps: Sequence[int], stretch: Sequence[float]
    ) -> list[tuple[Array, Array, Array, float, float]]:
        S, M, extra, delta, kappa, pending = _cast(starts, models, self.dtype)
        work = 2 * len(starts) * self.product_cost + sum(sweeps) * self.sweep_cost
        arrays, which = (extra, delta, *_stacked(starts, "U", "D")), _numbers(starts)
        last = np.array(sweeps, np.intp), np.array(stretch, np.float64)
        total = self._with_X(_kernels().look, work, arrays, kappa, pending, M, S, which, last=last)
        PD, *rest = total
        return list(zip(self._apart(PD, len(starts)), *rest, strict=True))

    # -- newton-cg: the same look in two passes, conjugate gradients between them -------------------------------

    def face(self, model: RowModel, sweeps: int) -> tuple[Slope, Slope, Array]:
        """First pass, which also leaves half the gradient g."""
        return self._faces([self], [model], [sweeps])[0]

    def _faces(self, starts: Starts, models: Models, sweeps: Sequence[int]) -> list[tuple[Slope, Slope, Array]]:
        """`face` for several starts."""
        for rows in starts:
            if not rows._newton:
                own = {name: rows._new() for name in ("r", "u", "p", "q")}
                rows._newton = {name: rows._common_array(name) for name in ("g", "z")} | own
                rows._newton["free"] = rows._new(np.bool_)
        S, M, extra, delta, kappa, pending = _cast(starts, models, np.dtype(np.float64))
        work = len(starts) * self.product_cost + sum(sweeps) * self.sweep_cost
        arrays, which = (extra, delta, *_stacked(starts, "U", "D", "g")), _numbers(starts)
        last = (np.array(sweeps, np.intp),)
        total = self._with_X(_kernels().face, work, arrays, kappa, pending, M, S, which, last=last)
        return [
            (Slope(slope, UD, DD, rows._operators.between(rows._D, rows._D)), Slope(*of_A), DA)
            for rows, slope, UD, DD, *of_A, DA in zip(starts, *total, strict=True)
        ]

    def cg_start(self, tau: float, sigma: float, model: RowModel, UD: Array, inverse: Array) -> Array:
        """Shorten D by tau, its part A by sigma; r = residual on the free entries, u = r inverse; U'r."""
        w = self._newton
        for name in ("z", "p", "q"):
            w[name].fill(0)
        W = self._operators.curved(model, self._D, tau)
        arrays = (W, self._U, self._D, w["g"], w["r"], w["u"], w["free"])
        return self._cg(_kernels().cg_start, model, UD, inverse, arrays, tau, sigma)

    def cg_step(self, alpha: float, beta: float, model: RowModel, Uu: Array, inverse: Array) -> Array:
        """P = u + beta p, z += alpha p, r -= alpha A[p], u = r inverse; U'r."""
        w = self._newton
        arrays = (self._operators.curved(model, w["u"]), self._U, w["z"], w["r"], w["u"], w["p"], w["q"], w["free"])
        return self._cg(_kernels().cg_step, model, Uu, inverse, arrays, alpha, beta)

    def project(self) -> tuple[Slope, Array, tuple[Array, ...]]:
        """Make z the direction from U + D to the projection of U + D + z; the model along it, D'z and D'Lz."""
        w = self._newton
        arrays = (self._U, self._D, w["g"], w["z"])
        slope, Dz, Uz, zz = self._spread(_kernels().project, 3 * self.sweep_cost, arrays)
        z, between = w["z"], self._operators.between
        return Slope(slope, Uz, zz, between(z, z)), Dz, between(self._D, z)

    def combine(self, tau: float, stretch: float = 1.0) -> Sums:
        """Second pass: D += tau z, times `stretch` as in `look`; the sums along it."""
        return self._combined([self], [tau], [stretch])[0]

    def _combined(self, starts: Starts, tau: Sequence[float], stretch: Sequence[float]) -> list[Sums]:
        """`combine` for several starts."""
        small = np.array(tau, np.float64), np.array(stretch, np.float64), self.shape[1], _numbers(starts)
        work = len(starts) * self.product_cost
        PD, *rest = self._with_X(_kernels().combine, work, _stacked(starts, "U", "D", "z"), *small)
        each = zip(starts, self._apart(PD, len(starts)), *rest, strict=True)
        return [Sums(PD, UD, DD, *rows._along()) for rows, PD, UD, DD in each]

    def _cg(self, kernel: Any, model: RowModel, cross: Array, inverse: Array, arrays: Arrays, *steps: float) -> Any:
        small = [A.astype(self.dtype) for A in (model.S, model.coupling * cross.T, inverse)]
        return self._spread(kernel, 4 * self.sweep_cost, arrays, *steps, *small)

    def cg_last(self, alpha: float, beta: float) -> None:
        """Z += alpha (u + beta p)."""
        u, p, z = (self._newton[name] for name in ("u", "p", "z"))
        step, mix = self.dtype.type(alpha), self.dtype.type(beta)

        def task(lo: int, hi: int) -> None:
            z[lo:hi] += step * (u[lo:hi] + mix * p[lo:hi])

        spread(task, self.shape[0], self.sweep_cost)

    def couple(self, C: Array) -> Slope:
        """Add U C to u on the free entries; <r,u>, U'u, u'u."""
        w = self._newton
        arrays = (self._U, w["r"], w["u"], w["free"])
        energy, Uu, uu = self._spread(_kernels().couple, 3 * self.sweep_cost, arrays, C.astype(self.dtype))
        return Slope(float(energy), Uu, uu, self._operators.between(w["u"], w["u"]))

    def common_curvature(self, model: RowModel) -> Array:
        """S, and the means of what operators add."""
        S, delta, kappa = self._operators.curvature(model)
        if delta is not None and kappa is not None:
            S = S + float(delta.mean()) * np.diag(kappa.astype(np.float64))
        return S

    # -- everything but descent ----------------------------------------------------------------------------------

    def map(self, rule: Callable[[Array, Array, Array], Array], model: RowModel) -> tuple[Any, ...]:
        """Some thousand rows at a time."""
        U, pull = self.codes, (model.M / self.scale).astype(self.dtype)
        gain, loss = self._operators.split(model, U)

        def task(X: Any, at: int, lo: int, hi: int) -> None:
            for i in range(lo, hi, 4096):
                j = min(i + 4096, hi)
                part = slice(at + i, at + j)
                U[part] = rule(U[part], X[i:j] @ pull + gain[part], loss[part])

        for at, X in self._slabs():
            spread(partial(task, X, at), X.shape[0], self.product_cost)
        self._known = None
        return self.sums()

    def solve(self, model: RowModel, ties: Ties | None = None, completion: Completion | None = None) -> Array:
        """Codes that minimise the model row by row, without coupling and operators (convex: solved to rounding)."""
        M, S = (model.M / self.scale).astype(self.dtype), np.ascontiguousarray(model.S, np.float64)
        ties = ties or Ties(None)
        inverse = np.empty((0, 0)) if ties.weight is not None else _inverse(S, _WELL_CONDITIONED[self.dtype.itemsize])
        work = self.product_cost + (self.k if inverse.size == 0 else 4.0) * self.sweep_cost
        codes = self._new()
        self._with_X(solve_rows, work, (ties.pull, ties.weight, codes), ties.lengths, M, S, inverse)
        return codes

    def residual2(self, Vt: Array) -> float:
        """||X - UV||^2 from the residuals themselves."""
        U, V = self.codes, Vt.T.astype(self.dtype)
        block = max(1, _RESIDUAL // self.shape[1])

        def task(X: Any, at: int, lo: int, hi: int) -> float:
            total = 0.0
            for i in range(lo, hi, block):
                j = min(i + block, hi)
                R = U[at + i : at + j] @ V
                R -= _dense(X[i:j]) / self.dtype.type(self.scale)
                total += float(np.vdot(R, R))
            return total

        work = 2.0 * self.shape[1] * self.k
        return sum(spread(partial(task, X, at), X.shape[0], work * X.shape[0]) for at, X in self._slabs())

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 from the residuals, or None where there are too many features for it."""
        return None if self.shape[1] > TRIANGLE else self.triangle().residual2(self.shape[1])

    def triangle(self) -> Triangle:
        """The triangular factor of [X U], built block by block."""
        U, width = self.codes, self.shape[1] + self.k
        step = int(np.clip(_TRIANGLE_OPERATIONS / width**2, 512, 8192))

        def task(X: Any, at: int, lo: int, hi: int) -> Triangle:
            total = Triangle(np.empty((0, width)))
            for i in range(lo, hi, step):
                here = _dense(X[i : min(i + step, hi)]).astype(np.float64) / self.scale
                total += Triangle(np.hstack([here, U[at + i : at + i + len(here)]]))
            return total

        parts = (spread(partial(task, X, at), X.shape[0], 4.0 * len(U) * width**2, step) for at, X in self._slabs())
        return reduce(add, parts)

    def _cast(
        self, model: RowModel, dtype: np.dtype[Any]
    ) -> tuple[Array, Array, Array | None, Array | None, Array | None, float]:
        """The model in a precision: S, M, and what operators contribute at the codes; and the step to be taken."""
        if len(self._U) != self.shape[0]:  # the kernels do not check
            raise RuntimeError(f"Rows have codes for {len(self._U)} of {self.shape[0]} samples: call begin first.")
        if len(self._D) != self.shape[0]:  # released
            self._D = self._new()
        S, delta, kappa = self._operators.curvature(model)
        extra = self._operators.pull(model, self.codes) if model.pulls or model.curves else None
        pending, self._pending = self._pending, 0.0
        return S.astype(dtype), (model.M / self.scale).astype(dtype), extra, delta, kappa, pending

    def _apart(self, PD: Array, r: int) -> Iterator[Array]:
        """The sums X'D of every start, in the unit of X."""
        for part in np.split(PD, r, axis=1):
            yield np.ascontiguousarray(part) / self.scale

    def _along(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """U'LD and D'LD for every operator."""
        return self._operators.between(self._U, self._D), self._operators.between(self._D, self._D)

    def _new(self, dtype: Any = None) -> Array:
        """An array of the codes' shape, zeros."""
        return np.zeros((self.shape[0], self.k), dtype or self.dtype)

    def _common_array(self, name: str) -> Array:
        """An array that all starts share, or one of its own."""
        return self._common[name][self._start] if self._common else self._new()

    def _groups(self) -> Iterator[slice]:
        """All rows, a group at a time."""
        for i in range(0, self.shape[0], GROUP):
            yield slice(i, min(i + GROUP, self.shape[0]))

    def _slabs(self) -> Iterator[tuple[int, Any]]:
        """Rows of X in their order: the number of the first one, and as many as are at hand at once."""
        yield 0, self._X

    def _with_X(self, kernel: Any, work: float, arrays: Arrays, *small: Any, last: Arrays = ()) -> Any:
        """Run a kernel on X and on arrays with a row for each of X's; what it returns, added up."""
        slow = _SPARSE_COST if sparse.issparse(self._X) else 1.0
        return self._spread(kernel, slow * work, (self._source, *arrays), *small, last=last)

    def _spread(self, kernel: Any, work: float, arrays: Arrays, *small: Any, last: Arrays = ()) -> Any:
        """Run a kernel on all rows, split among the threads; what it returns, added up."""
        block = self._block
        return spread(lambda lo, hi: kernel(*arrays, *small, lo, hi, block, *last), self.shape[0], work, block)


Starts = Sequence[MemoryRows]  # that share X
Models = Sequence[RowModel]


def _cast(starts: Starts, models: Models, dtype: np.dtype[Any]) -> list[Any]:
    """The models of several starts as kernels take them (`MemoryRows._cast`), and the steps to be taken."""
    S, M, extra, delta, kappa, pending = zip(
        *(rows._cast(m, dtype) for rows, m in zip(starts, models, strict=True)), strict=True
    )
    E, varying, curve = _stack(extra), delta[0], _stack(kappa)
    if E is not None and varying is None:  # no numbers: kernels are compiled once for all models with operators
        varying, curve = np.empty(0, E.dtype), np.empty((len(starts), 0), E.dtype)
    steps = np.array(pending, np.float64)
    return [np.stack(S), M[0] if len(M) == 1 else np.hstack(M), E, varying, curve, steps]


def _stack(parts: Sequence[Array | None]) -> Array | None:
    """An array for every start in one, without a copy where there is one start; None where they have none."""
    if parts[0] is None:
        return None
    return parts[0][None] if len(parts) == 1 else np.stack([part for part in parts if part is not None])


def _stacked(starts: Starts, *names: str) -> list[Array]:
    """Arrays r x n x k of all starts that share X; of a single one without the others."""
    if len(starts) > 1:
        return [starts[0]._common[name] for name in names]
    own = {"U": starts[0]._U, "D": starts[0]._D, **starts[0]._newton}
    return [own[name][None] for name in names]


def _numbers(starts: Starts) -> NDArray[np.intp]:
    """Which part of what `_stacked` returns belongs to each start."""
    return np.array([rows._start if len(starts) > 1 else 0 for rows in starts], np.intp)


def rounding_of_looks(dtype: np.dtype[Any], products: float) -> float:
    """Rounding of the sums of a look: mostly that of X'D, which adds up to 128 rows in X's precision (measured)."""
    return 32 * float(np.finfo(dtype).eps) / max(products, 1.0) ** 0.5


def _inverse(S: Array, well_conditioned: float) -> Array:
    """The inverse of a curvature, or no numbers where rounding would spoil it."""
    if not (S.diagonal().min() > 0 and np.isfinite(S).all()):
        return np.empty((0, 0))
    units = np.sqrt(S.diagonal())
    if units.min() < 1e-6 * units.max():  # a component that vanishes: its codes, far below zero, would drown the others
        return np.empty((0, 0))
    values, vectors = np.linalg.eigh(S / units / units[:, None])
    if not values[0] > well_conditioned * values[-1]:
        return np.empty((0, 0))
    vectors /= units[:, None]
    return (vectors / values) @ vectors.T


def _kernels() -> Any:
    """The compiled loops; imported at the first fit, because numba takes longer to import than all else together."""
    from dspnmf.backends import kernels

    return kernels


def _dense(X: Any) -> Array:
    """A block of rows as an array."""
    return X.toarray() if sparse.issparse(X) else X


def _kernel_view(X: Any) -> Any:
    """X as the kernels take it: an array, or the three arrays of a CSR matrix."""
    if sparse.issparse(X):
        return read_only(X.data), read_only(X.indices), read_only(X.indptr)
    return read_only(np.asarray(X))
