"""Rows in the memory of one machine: dense, SciPy sparse or memory-mapped.

Requirements: X is n x m, float32 or float64, any layout, read-only allowed; CSR is the sparse form the kernels know.
Nothing here makes sparse X dense (a few rows at a time where residuals are wanted) or holds an n x n array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf._threads import spread
from dspnmf.rows._model import GROUP, Array, Operator, RandomCodes, RowModel, Slope, Sums
from dspnmf.rows.graph import GraphSide
from dspnmf.rows.small import HOST, Small

_BLOCK_BYTES = 2**19  # a block of X that stays in a core's second-level cache
_TILE = 1024  # width of the tiles in which a Gram matrix is formed and forgotten
_TRIANGLE = 2048  # features up to which a triangular factor is worth its m^2 numbers
_RESIDUAL = 2**20  # entries of X whose residuals are formed at once
_TRANSFORM_SWEEPS = 8  # sweeps that find most of a row's face before its active set is solved exactly


class ArrayRows:
    """X and the codes U of its rows; `scale` is the unit X is measured in (every sum returned is in that unit).

    Steps are taken when a row is next looked at: `step` only remembers them, `codes` settles what is pending.
    """

    cg_steps = (8, 24)
    small: Small = HOST

    def __init__(self, X: Any, k: int, scale: float = 1.0, operators: Sequence[Operator] = ()) -> None:
        self.scale = scale
        self.shape: tuple[int, int] = X.shape
        self.k = k
        self.dtype = X.dtype
        self._X = X
        self._source = _kernel_view(X)
        self._U = self._D = np.empty((0, k), X.dtype)
        self._pending = 0.0
        self._newton: dict[str, Any] = {}
        self._graphs = GraphSide(operators, X.dtype)
        wide = 1 if sparse.issparse(X) else self.shape[1]
        self._block = int(np.clip(_BLOCK_BYTES // (wide * self.dtype.itemsize), 32, 128))
        stored = X.nnz if sparse.issparse(X) else X.size
        self.product_cost = 2.0 * stored * self.k  # operations of one product of X with k columns
        self.sweep_cost = 2.0 * self.shape[0] * self.k**2  # and of one sweep over the codes

    @property
    def data(self) -> Any:
        """X as it was given."""
        return self._X

    def draw(self, start: RandomCodes) -> Array:
        """Codes drawn at random, a group at a time."""
        U = np.empty((self.shape[0], self.k), self.dtype)
        for i in range(0, len(U), GROUP):
            U[i : i + GROUP] = start(i, min(i + GROUP, len(U)))
        return U

    def begin(self, codes: Array) -> None:
        """Start from these codes (n x k, C order, X's dtype); they are changed in place."""
        self._U = codes
        self._D = np.zeros_like(codes) if self._D.shape != codes.shape else self._D
        self._D.fill(0)
        self._pending = 0.0

    @property
    def codes(self) -> Array:
        """The codes U (n x k), all steps taken."""
        if self._pending:
            self._U += self.dtype.type(self._pending) * self._D
            np.maximum(self._U, 0, out=self._U)
            self._pending = 0.0
        return self._U

    def release(self) -> None:
        """Give back the memory only a descent needs."""
        self._U = self.codes
        self._newton = {}

    def sums(self) -> tuple[Array, Array, tuple[Array, ...]]:
        """P = X'U, Q = U'U, and U'LU for every operator."""
        U = self.codes
        parts = self._spread(_kernels().sums, self.product_cost, self._source, U, self.shape[1])
        return _total(parts, 0) / self.scale, _total(parts, 1), self._graphs.between(U, U)

    def step(self, t: float) -> None:
        """U += t D."""
        self._pending = t

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """Leave in D the direction of `sweeps` sweeps of the model; the sums along it.

        The direction is taken times `stretch`, cut off where codes would become negative.
        """
        S, M, *beside = self._cast(model)
        work = 2 * self.product_cost + sweeps * self.sweep_cost
        arrays = (self._source, *beside, self._U, self._D)
        parts = self._spread(_kernels().look, work, *arrays, self._pending, M, S, last=(sweeps, stretch))
        self._pending = 0.0
        first, last = float(_total(parts, 3)), float(_total(parts, 4))
        settled = (last / first) ** 0.5 if first > 0 else 0.0
        return Sums(_total(parts, 0) / self.scale, _total(parts, 1), _total(parts, 2), *self._along(), settled)

    # -- newton-cg: the same look in two passes, conjugate gradients between them -------------------------------

    def face(self, model: RowModel, sweeps: int) -> tuple[Slope, Slope, Array]:
        """First pass: half the gradient g, and in D the direction of a few sweeps.

        Returns the model along D, along its part A that ends at zero, and D'A.
        """
        if not self._newton:
            self._newton = {name: np.empty_like(self._U) for name in ("g", "z", "r", "u", "p", "q")}
            self._newton["free"] = np.empty(self._U.shape, np.bool_)
        S, M, *beside = self._cast(model)
        work = self.product_cost + sweeps * self.sweep_cost
        arrays = (self._source, *beside, self._U, self._D, self._newton["g"])
        parts = self._spread(_kernels().face, work, *arrays, self._pending, M, S, last=(sweeps,))
        self._pending = 0.0
        total = [_total(parts, which) for which in range(7)]
        D = Slope(total[0], total[1], total[2], self._graphs.between(self._D, self._D))
        return D, Slope(total[3], total[4], total[5]), total[6]

    def cg_start(self, tau: float, sigma: float, model: RowModel, UD: Array, inverse: Array) -> Slope:
        """Shorten D by tau, its part A by sigma; r = residual on the free entries, u = r inverse; <r,u>, U'u, u'u."""
        w = self._newton
        for name in ("z", "p", "q"):
            w[name].fill(0)
        W = self._graphs.curved(model, self._D, tau)
        arrays = (W, self._U, self._D, w["g"], w["r"], w["u"], w["free"])
        return self._cg(_kernels().cg_start, model, UD, inverse, *arrays, tau, sigma)

    def cg_step(self, alpha: float, beta: float, model: RowModel, Uu: Array, inverse: Array) -> Slope:
        """P = u + beta p, z += alpha p, r -= alpha A[p], u = r inverse; <r,u>, U'u, u'u."""
        w = self._newton
        arrays = (self._graphs.curved(model, w["u"]), self._U, w["z"], w["r"], w["u"], w["p"], w["q"], w["free"])
        return self._cg(_kernels().cg_step, model, Uu, inverse, *arrays, alpha, beta)

    def project(self) -> tuple[Slope, Array, tuple[Array, ...]]:
        """Make z the direction from U + D to the projection of U + D + z; the model along it, D'z and D'Lz."""
        w = self._newton
        parts = self._spread(_kernels().project, 3 * self.sweep_cost, self._U, self._D, w["g"], w["z"])
        total = [_total(parts, which) for which in range(4)]
        z, D = w["z"], self._D
        return Slope(total[0], total[2], total[3], self._graphs.between(z, z)), total[1], self._graphs.between(D, z)

    def combine(self, tau: float, stretch: float = 1.0) -> Sums:
        """Second pass: D += tau z, times `stretch` as in `look`; the sums along it."""
        arrays = (self._source, self._U, self._D, self._newton["z"])
        parts = self._spread(_kernels().combine, self.product_cost, *arrays, tau, stretch, self.shape[1])
        return Sums(_total(parts, 0) / self.scale, _total(parts, 1), _total(parts, 2), *self._along())

    def _cg(self, kernel: Any, model: RowModel, cross: Array, inverse: Array, *arguments: Any) -> Slope:
        small = [A.astype(self.dtype) for A in (model.S, model.coupling * cross.T, inverse)]
        parts = self._spread(kernel, 5 * self.sweep_cost, *arguments, *small)
        u = self._newton["u"]
        return Slope(float(_total(parts, 0)), _total(parts, 1), _total(parts, 2), self._graphs.between(u, u))

    def preconditioner(self, model: RowModel, floor: float) -> Array:
        """Inverse of the curvature common to rows, its eigenvalues kept above `floor` of the largest."""
        S, delta, kappa = self._graphs.curvature(model)
        if delta is not None and kappa is not None:
            S = S + float(delta.mean()) * np.diag(kappa.astype(np.float64))
        return self.small.inverse(S, floor, 1e4 * float(np.finfo(self.dtype).tiny))

    # -- everything but descent ----------------------------------------------------------------------------------

    def map(self, rule: Callable[[Array, Array, Array], Array], model: RowModel) -> tuple[Any, ...]:
        """Replace every block of codes by ``rule(U, gain, loss)``; the sums of the new codes.

        `gain` is X M and what operators pull, `loss` what they push (entries of ``L_j U pulls[j]`` by their sign).
        """
        U, pull = self.codes, (model.M / self.scale).astype(self.dtype)
        gain, loss = self._graphs.split(model, U)

        def task(lo: int, hi: int) -> None:
            for i in range(lo, hi, 4096):
                part = slice(i, min(i + 4096, hi))
                U[part] = rule(U[part], self._X[part] @ pull + gain[part], loss[part])

        spread(task, self.shape[0], self.product_cost)
        return self.sums()

    def solve(
        self, model: RowModel, extra: Array | None = None, delta: Array | None = None, kappa: Array | None = None
    ) -> Array:
        """Codes that minimise the model row by row, coupling left out (it is convex: solved to rounding).

        Operators are not looked at: new rows bring their own pull `extra` (n x k) and curvature ``delta diag(kappa)``.
        """
        pull = (model.M / self.scale).astype(self.dtype)
        work = self.product_cost + _TRANSFORM_SWEEPS * self.sweep_cost
        codes = np.empty((self.shape[0], self.k), self.dtype)
        arguments = (self._source, extra, delta, kappa, codes, pull, np.ascontiguousarray(model.S))
        self._spread(_kernels().solve_rows, work, *arguments, last=(_TRANSFORM_SWEEPS,))
        return codes

    def mean(self) -> float:
        """The mean of X, summed in float64."""
        values = self._X.data if sparse.issparse(self._X) else self._X
        return float(values.sum(dtype=np.float64)) / (self.shape[0] * self.shape[1])

    def norm2(self) -> float:
        """||X||^2."""
        values = _locked(self._X.data[:, None] if sparse.issparse(self._X) else self._X)
        kernel = _kernels().squares
        return float(sum(spread(lambda lo, hi: kernel(values, self.scale, lo, hi), len(values), 2.0 * values.size)))

    def gram_norm2(self) -> float:
        """||XX'||^2 = ||X'X||^2, in tiles on the cheaper side."""
        tiles = _sparse_tiles if sparse.issparse(self._X) else _dense_tiles
        return float(sum(tiles(self._X, self.scale**2)))

    def residual2(self, Vt: Array) -> float:
        """||X - UV||^2 from the residuals themselves."""
        U, V = self.codes, Vt.T.astype(self.dtype)
        block = max(1, _RESIDUAL // self.shape[1])

        def task(lo: int, hi: int) -> float:
            total = 0.0
            for i in range(lo, hi, block):
                R = U[i : min(i + block, hi)] @ V
                R -= self._dense(i, min(i + block, hi)) / self.dtype.type(self.scale)
                total += float(np.vdot(R, R))
            return total

        return float(sum(spread(task, self.shape[0], 2.0 * self.shape[0] * self.shape[1] * self.k)))

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 from the residuals, or None where there are too many features for it.

        With R the triangular factor of [X U] (built block by block), this is ``||R_x R_x' - R_u R_u'||^2``: the large
        numbers cancel before they are squared.
        """
        n, m = self.shape
        if m > _TRIANGLE:
            return None
        U = self.codes
        R: Any = np.empty((0, m + self.k))
        for i in range(0, n, 4 * _TRIANGLE):
            j = min(i + 4 * _TRIANGLE, n)
            X = self._dense(i, j).astype(np.float64) / self.scale
            R = np.linalg.qr(np.vstack([R, np.hstack([X, U[i:j]])]), mode="r")
        return float(np.linalg.norm(R[:, :m] @ R[:, :m].T - R[:, m:] @ R[:, m:].T)) ** 2

    def _dense(self, lo: int, hi: int) -> Array:
        """A block of rows as an array."""
        X = self._X[lo:hi]
        return X.toarray() if sparse.issparse(X) else X

    def _cast(self, model: RowModel) -> tuple[Any, ...]:
        """The model in X's precision: S, M, and what operators contribute at the codes as they are."""
        S, delta, kappa = self._graphs.curvature(model)
        extra = self._graphs.pull(model, self.codes) if model.pulls else None
        return S.astype(self.dtype), (model.M / self.scale).astype(self.dtype), extra, delta, kappa

    def _along(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """U'LD and D'LD for every operator."""
        return self._graphs.between(self._U, self._D), self._graphs.between(self._D, self._D)

    def _spread(self, kernel: Any, work: float, *arguments: Any, last: tuple[float, ...] = ()) -> list[Any]:
        """Run a kernel on all rows, split among the threads."""
        block = self._block
        return spread(lambda lo, hi: kernel(*arguments, lo, hi, block, *last), self.shape[0], work, block)


def _kernels() -> Any:
    """The compiled loops; imported at the first fit, because numba takes longer to import than all else together."""
    from dspnmf import kernels

    return kernels


def _total(parts: list[Any], which: int) -> Any:
    """Sum one result over the threads; a kernel with one result returns it bare."""
    return sum(part[which] if isinstance(part, tuple) else part for part in parts)


def _locked(array: Array) -> Array:
    """A read-only view: one compiled signature serves writable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


def _kernel_view(X: Any) -> Any:
    """X as the kernels take it: an array, or the three arrays of a CSR matrix."""
    if sparse.issparse(X):
        return _locked(X.data), _locked(X.indices), _locked(X.indptr)
    return _locked(np.asarray(X))


def _dense_tiles(X: Array, unit: float) -> Iterator[float]:
    """Squared norms of the tiles of X'X (or XX' where that is smaller); what lies below the diagonal counts twice."""
    A = X if X.shape[0] >= X.shape[1] else X.T
    for i in range(0, A.shape[1], _TILE):
        for j in range(0, i + 1, _TILE):
            left, right = A[:, i : i + _TILE], A[:, j : j + _TILE]
            tile = np.zeros((left.shape[1], right.shape[1]))
            for row in range(0, A.shape[0], 8 * _TILE):
                rows = slice(row, row + 8 * _TILE)
                tile += left[rows].T @ right[rows]
            tile /= unit
            yield (1 if i == j else 2) * float(np.vdot(tile, tile))


def _sparse_tiles(X: Any, unit: float) -> Iterator[float]:
    """The same for sparse X, on the side with fewer multiplications."""
    per_row = np.diff(X.indptr).astype(np.float64)
    per_column = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
    A = X.astype(np.float64)
    if per_row @ per_row < per_column @ per_column:
        A = A.T.tocsr()
    other = A.T.tocsr()
    for i in range(0, A.shape[0], _TILE):
        tile = (A[i : i + _TILE] @ other).data / unit
        yield float(tile @ tile)
