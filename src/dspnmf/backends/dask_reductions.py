"""Orders that ask a lane something about X and the codes, and change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf import _validation
from dspnmf.backends.dask_partition import Chunk, Lane, Order, as_block
from dspnmf.backends.memory import _kernels, _locked
from dspnmf.backends.row_model import Array

_SLAB = 2**13  # rows multiplied at once where products are summed in float64


@dataclass(frozen=True)
class Facts:
    """What one pass over X says of it; sums are in a unit near its largest entry, so that squares are finite."""

    high: float
    unit: float
    total: float  # of X / unit
    squares: float  # of (X / unit)^2
    stored: int
    bad: tuple[int, int, float] | None = None  # the first cell that is negative, NaN or infinite

    def __add__(self, other: Facts) -> Facts:
        unit = max(self.unit, other.unit)
        mine, theirs = self.unit / unit, other.unit / unit
        total, squares = self.total * mine + other.total * theirs, self.squares * mine**2 + other.squares * theirs**2
        bad = min((cell for cell in (self.bad, other.bad) if cell), default=None)
        return Facts(max(self.high, other.high), unit, total, squares, self.stored + other.stored, bad)

    @classmethod
    def of(cls, X: Any, first_row: int = 0) -> Facts:
        """Of a chunk."""
        values = X.data[:, None] if sparse.issparse(X) else X
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        if not (low >= 0 and high < np.inf):
            row, column, value = _validation.first_bad_cell(X)
            return cls(0.0, 1.0, 0.0, 0.0, values.size, (first_row + row, column, value))
        unit = float(2.0 ** np.round(np.log2(high))) if high > 0 else float(np.finfo(X.dtype).tiny)
        total, squares = _kernels().moments(_locked(values), unit, 0, len(values))
        return cls(high, unit, total, squares, values.size)


class AskFacts(Order):
    """Look for negative, missing and infinite values."""

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """With row numbers of all of X."""
        return (Facts.of(as_block(X), lane.spans[number][0]),)


@dataclass(frozen=True)
class CodeSums(Order):
    """P = X'U and Q = U'U."""

    scale: float

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """Of a chunk."""
        U = lane.U[number]
        return Chunk(X, U.shape[1], self.scale, U).sums()[:2]


@dataclass(frozen=True)
class Residual2(Order):
    """||X - UV||^2."""

    Vt: Array
    scale: float

    @property
    def nbytes(self) -> int:
        """That of the components."""
        return int(self.Vt.nbytes)

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """Of a chunk."""
        U = lane.U[number]
        return (Chunk(X, U.shape[1], self.scale, U).residual2(self.Vt),)


class Triangle:
    """The triangular factor R of some rows; adding rows to it is a factorization of both."""

    def __init__(self, R: Any) -> None:
        self.R = R

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle(np.linalg.qr(np.vstack([self.R, other.R]), mode="r"))


@dataclass(frozen=True)
class Triangular(Order):
    """The triangular factor of [X U]."""

    scale: float

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """Of a chunk, slab by slab."""
        X, U = as_block(X), lane.U[number]
        R = Triangle(np.empty((0, X.shape[1] + U.shape[1])))
        for i in range(0, len(U), _SLAB):
            slab = X[i : i + _SLAB]
            slab = (slab.toarray() if sparse.issparse(slab) else slab).astype(np.float64) / self.scale
            R = R + Triangle(np.hstack([slab, U[i : i + _SLAB]]))
        return (R,)


@dataclass(frozen=True)
class GramStripe(Order):
    """Columns `lo` to `hi` of X'X, from row `lo` down; sparse where X is."""

    lo: int
    hi: int
    scale: float

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """Of a chunk."""
        X = as_block(X)
        if sparse.issparse(X):
            A = X.astype(np.float64).tocsc()
            return (A[:, self.lo :].T @ A[:, self.lo : self.hi] / self.scale**2,)
        stripe = np.zeros((X.shape[1] - self.lo, self.hi - self.lo))
        for i in range(0, len(X), _SLAB):
            stripe += X[i : i + _SLAB, self.lo :].T @ X[i : i + _SLAB, self.lo : self.hi]
        return (stripe / self.scale**2,)

    def norm2(self, stripe: Any) -> float:
        """What the stripe contributes to ||X'X||^2: what lies below the diagonal block counts twice."""
        if sparse.issparse(stripe):
            stripe = stripe.tocsr()
            square, below = stripe[: self.hi - self.lo].data, stripe[self.hi - self.lo :].data
        else:
            square, below = stripe[: self.hi - self.lo], stripe[self.hi - self.lo :]
        return float(np.vdot(square, square)) + 2 * float(np.vdot(below, below))
