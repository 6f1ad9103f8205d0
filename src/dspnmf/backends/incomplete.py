"""Rows with missing cells, in memory: dense X with NaN, or a CSR matrix that stores NaN (what it does not store is 0).

Missing cells are completed: first by the mean of their column, then, whenever asked, by the product UV as it stands.
With cells completed by UV, ``||X - UV||^2`` counts the known cells only; and since completing lowers it, a descent on
completed rows descends on the known cells (the EM view of missing data).

Where similarities are to be preserved too, the rows hold X twice, ``[X | X]``: the left half is completed anew after
every iteration, the right half, whose similarities are the goal, only when asked: a goal must stand still for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf._threads import spread
from dspnmf.backends.memory import ArrayRows
from dspnmf.backends.row_model import Array, Operator, RowModel

_BLOCK = 2**18  # cells completed at once
_ROUNDS = 200  # of coding and completing new rows, at most, while their goal stands still
_GOALS = 8  # times that goal is renewed
_SETTLED = {4: 1e-5, 8: 1e-8}  # change of the codes, relative, that ends them (by the bytes of X's numbers)


class Incomplete:
    """A checked X with NaN in it, as its Rows take it."""

    def __init__(self, X: Any, place: Any) -> None:
        self.X = X
        self.place = place
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype


class IncompleteRows(ArrayRows):
    """X completed, and its codes.

    `twice`: once more, for similarities; `beside`: columns that miss nothing; `means`: of the columns, if they are
    those of other rows.
    """

    def __init__(
        self,
        X: Incomplete,
        k: int,
        scale: float = 1.0,
        operators: Sequence[Operator] = (),
        *,
        twice: bool = False,
        beside: Any = None,
        means: Array | None = None,
    ) -> None:
        self._m = X.shape[1]
        self._twice = twice
        parts = [X.X] * (1 + twice) + ([] if beside is None else [beside])
        together = sparse.csr_array(sparse.hstack(parts), copy=True) if sparse.issparse(X.X) else np.hstack(parts)
        self._cells = _SparseCells(together, self._m) if sparse.issparse(X.X) else _DenseCells(together, self._m)
        self.means = self._cells.means(together) if means is None else means
        self._cells.fill(together, self.means, twice)
        super().__init__(together.astype(X.dtype, copy=False), k, scale, operators)
        self._filled = self._gram = 0.0
        self._begin = self._cells.squares(self._X) / scale**2, self.similarity_norm2() if twice else 0.0

    def restart(self) -> None:
        """Missing cells are at the means of their columns again."""
        self._cells.fill(self._X, self.means, self._twice)
        self._filled = self._gram = 0.0

    @property
    def completed(self) -> Any:
        """X alone, completed."""
        return self._X[:, : self._m]

    def norm2(self) -> float:
        """||X||^2, completed."""
        return ArrayRows(self.completed, 1, self.scale).norm2()

    def similarity_norm2(self) -> float:
        """||XX'||^2 of the half whose similarities are the goal."""
        goal = self._X[:, self._m : 2 * self._m] if self._twice else self.completed
        return ArrayRows(goal, 1, self.scale).gram_norm2()

    def complete(self, Vt: Array, *, similarities: bool = False) -> tuple[float, ...]:
        """Missing cells become those of UV, if asked also in the goal of the similarities.

        By how much this has changed ``||X||^2`` and ``||XX'||^2`` since the beginning.
        """
        again, V = similarities and self._twice, (Vt[: self._m] * self.scale).astype(self.dtype)
        self._filled = self._cells.complete(self._X, self.codes, V, again) / self.scale**2
        if again:
            self._gram = self.similarity_norm2() - self._begin[1]
        return (self._filled - self._begin[0], *([self._gram] if self._twice else []))

    def solve_incomplete(self, S: Array, data: Array, goal: Array, Vt: Array) -> Array:
        """Codes of new rows and completed cells that fit each other, for a model with these two pulls.

        As in a fit, the rows whose similarities are the goal stand still while the others are completed: that is a
        convex problem a row. Then they are renewed, a few times.
        """
        model = RowModel(S, data)
        for _ in range(_GOALS if goal.any() else 1):
            extra = np.ascontiguousarray(np.asarray(self.completed @ (goal / self.scale).astype(self.dtype)))
            self.begin(self.solve(model, extra))
            for _ in range(_ROUNDS):
                before = self.codes
                self.complete(Vt)
                self.begin(self.solve(model, extra))
                change = np.abs(self.codes - before).max(initial=0.0)
                if change <= _SETTLED[self.dtype.itemsize] * np.abs(self.codes).max(initial=0.0):
                    break
        return self.codes


class _DenseCells:
    """Where cells are missing in an array."""

    def __init__(self, X: Array, m: int) -> None:
        self._missing = np.isnan(X[:, :m])
        self._m = m

    def means(self, X: Array) -> Array:
        """Of the known cells of every column."""
        known = np.where(self._missing, 0, X[:, : self._m])
        return _means(known.sum(axis=0, dtype=np.float64), (~self._missing).sum(axis=0))

    def fill(self, X: Array, means: Array, twice: bool) -> None:
        """Every missing cell becomes that of its column."""
        for half in range(1 + twice):
            np.copyto(X[:, half * self._m : (half + 1) * self._m], means.astype(X.dtype), where=self._missing)

    def squares(self, X: Array) -> float:
        """The sum of squares of completed cells."""
        step = max(1, _BLOCK // self._m)
        cells = (X[i : i + step, : self._m][self._missing[i : i + step]] for i in range(0, len(X), step))
        return float(sum(np.square(part, dtype=np.float64).sum() for part in cells))

    def complete(self, X: Array, U: Array, V: Array, again: bool) -> float:
        """Missing cells become those of UV; the sum of their squares."""
        m, step = self._m, max(1, _BLOCK // self._m)

        def task(lo: int, hi: int) -> float:
            total = 0.0
            for i in range(lo, hi, step):
                j = min(i + step, hi)
                missing, product = self._missing[i:j], U[i:j] @ V.T
                np.copyto(X[i:j, :m], product, where=missing)
                if again:
                    np.copyto(X[i:j, m : 2 * m], product, where=missing)
                total += float(np.square(product[missing], dtype=np.float64).sum())
            return total

        return float(sum(spread(task, len(X), 2.0 * m * len(X) * U.shape[1])))


class _SparseCells:
    """Where a CSR matrix stores NaN."""

    def __init__(self, X: Any, m: int) -> None:
        where = np.flatnonzero(np.isnan(X.data))
        rows, columns = np.searchsorted(X.indptr, where, side="right") - 1, X.indices[where]
        left = columns < m
        self._where, self._again = where[left], where[~left]
        self._rows, self._columns, self._m = rows[left], columns[left], m

    def means(self, X: Any) -> Array:
        """Of the known cells of every column, zeros that are not stored included."""
        first, m = X[:, : self._m].tocoo(), self._m
        known = ~np.isnan(first.data)
        sums = np.bincount(first.col[known], first.data[known], minlength=m)
        return _means(sums, X.shape[0] - np.bincount(self._columns, minlength=m))

    def fill(self, X: Any, means: Array, twice: bool) -> None:
        """Every missing cell becomes that of its column."""
        X.data[self._where] = means[self._columns]
        X.data[self._again] = means[self._columns[: len(self._again)]]

    def squares(self, X: Any) -> float:
        """The sum of squares of completed cells."""
        return float(np.square(X.data[self._where], dtype=np.float64).sum())

    def complete(self, X: Any, U: Array, V: Array, again: bool) -> float:
        """Missing cells become those of UV; the sum of their squares."""
        step = max(1, _BLOCK // U.shape[1])
        for i in range(0, len(self._where), step):
            some = slice(i, i + step)
            product = np.einsum("ij,ij->i", U[self._rows[some]], V[self._columns[some]])
            X.data[self._where[some]] = product
            if again:
                X.data[self._again[some]] = product
        return self.squares(X)


def _means(sums: Any, counts: Any) -> Array:
    """Means of columns; that of all known cells where a column has none."""
    overall = float(sums.sum()) / max(int(counts.sum()), 1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), overall)
