"""What one pass over X says of it, chunk by chunk: the largest entry, sums, and the first cell that is not allowed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf import _validation
from dspnmf._threads import spread
from dspnmf._typing import Matrix
from dspnmf.backends.norms import read_only

ORDINARY = 2.0**40  # sizes up to this, and down to its inverse, have squares that float32 holds


def unit_near(size: float, dtype: np.dtype[Any]) -> float:
    """The power of two nearest to a size, among those the type holds; 1 where there is no size."""
    if not size > 0:
        return 1.0
    known = np.finfo(dtype)
    return float(2.0 ** np.clip(np.round(np.log2(size)), known.minexp - known.nmant, known.maxexp - 1))


def ordinary_unit(size: float, dtype: np.dtype[Any]) -> float:
    """1, or a unit near `size` where squares of such numbers leave the range of float32."""
    ordinary = size == 0 or 1 / ORDINARY <= size <= ORDINARY
    return 1.0 if ordinary else unit_near(size, dtype)


@dataclass(frozen=True)
class ChunkFacts:
    """Facts about some rows; added up, those of all of them. Sums are in a unit near the largest entry: finite."""

    largest: float = 0.0
    unit: float = float(np.finfo(np.float64).tiny)
    total: float = 0.0  # of X / unit
    squares: float = 0.0  # of (X / unit)^2
    stored: int = 0
    bad: tuple[int, int, float] | None = None  # row, column and value of the first negative, NaN or infinite cell

    def __add__(self, other: ChunkFacts) -> ChunkFacts:
        largest, unit = max(self.largest, other.largest), max(self.unit, other.unit)
        mine, theirs = self.unit / unit, other.unit / unit
        total, squares = self.total * mine + other.total * theirs, self.squares * mine**2 + other.squares * theirs**2
        bad = min((cell for cell in (self.bad, other.bad) if cell), default=None)
        return ChunkFacts(largest, unit, total, squares, self.stored + other.stored, bad)

    @classmethod
    def of(cls, X: Matrix, first_row: int = 0) -> ChunkFacts:
        """The facts of a chunk; `first_row` is the number of its first row in all of X."""
        from dspnmf.backends import kernels

        values: Any = np.asarray(X.data)[:, None] if sparse.issparse(X) else X
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        if not (low >= 0 and high < np.inf):
            row, column, value = _validation.first_bad_cell(X)
            return cls(stored=values.size, bad=(first_row + row, column, value))
        unit = unit_near(high, values.dtype) if high > 0 else cls.unit
        total, squares = spread(partial(kernels.moments, read_only(values), unit), len(values), 4.0 * values.size)
        return cls(high, unit, total, squares, values.size)

    def check(self, method: str) -> ChunkFacts:
        """Itself, or an error that names the bad cell."""
        if self.bad is not None:
            raise ValueError(_validation.bad_cell(method, *self.bad))
        return self

    def norm2(self, scale: float) -> float:
        """||X||^2 in the unit `scale`."""
        return self.squares * (self.unit / scale) ** 2


def norm2(X: Matrix, scale: float = 1.0) -> float:
    """||X / scale||^2 of a matrix in memory."""
    return ChunkFacts.of(X).norm2(scale)
