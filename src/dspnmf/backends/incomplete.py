"""Missing cells: an X with NaN in it (dense, or a CSR matrix that stores NaN; what it does not store is 0).

Missing cells are completed: first by the mean of their column, then, after every iteration, by the product UV as it
stands. With cells completed by UV, ``||X - UV||^2`` counts the known cells only; and since completing lowers it, a
descent on completed rows descends on the known cells (the EM view of missing data).

Where similarities are to be preserved too, rows hold X twice, as blocks "X" and "similarities": the first is completed
anew after every iteration, the second, whose similarities are the goal, after iterations 1, 2, 4, 8, ...: a goal must
stand still for a while. Between two of these the objective never rises.

`CompletesCells` is what rows of any backend add for this; `Cells` is all it asks of a backend. The cells of matrices in
memory are here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf import _validation
from dspnmf._threads import spread
from dspnmf._typing import Array, Codes, Matrix, SmallArray, Sparse
from dspnmf.backends import norms
from dspnmf.backends.memory import MemoryData
from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.protocol import Backend
from dspnmf.backends.row_model import BlockNorms, Completion, Operator, RowModel, Ties
from dspnmf.backends.small_arrays import with_rows

SIMILARITIES = "similarities"  # the block that holds X a second time
_BLOCK = 2**18  # cells completed at once
_ROUNDS = 200  # of coding and completing new rows, at most, while their goal stands still
_GOALS = 8  # times that goal is renewed
_SETTLED = {4: 1e-5, 8: 1e-8}  # change of the codes, relative, that ends them (by the bytes of X's numbers)


class Cells(Protocol):
    """The missing cells of what rows hold: in block "X", and in block "similarities" where that is held too."""

    def fill(self, means: Array) -> None:
        """Every missing cell becomes the mean of its column, in both blocks."""

    def complete(self, U: Codes, Vt: SmallArray, similarities: bool) -> None:
        """Missing cells of block "X" become those of UV (V' in the unit of X), if asked those of the other too."""

    def squares(self) -> float:
        """The sum of squares of the completed cells of block "X"."""

    def gram_norm2(self, scale: float, block: str) -> float:
        """||XX'||^2 of one of the blocks as it is."""

    def pull(self, M: SmallArray) -> Any:
        """X M of block "X", as `Ties` take a pull."""


class CompletesCells(MemoryRows if TYPE_CHECKING else object):  # type: ignore[misc]
    """What rows with missing cells do in addition; stands before the class of rows among the bases."""

    completes = True
    _known: Any  # sums that rows in memory keep: no longer right when X has changed

    def hold(self, cells: Cells, means: Array, norm2: float, *, twice: bool) -> None:
        """Begin with cells that are at their column means; `norm2` is ||X||^2 with them."""
        self._cells, self._means, self._twice = cells, means, twice
        self._known2 = norm2 - cells.squares() / self.scale**2
        self._iterations, self._gram_norm2 = 0, 0.0

    def restart(self) -> None:
        """Missing cells are at the means of their columns again."""
        self._cells.fill(self._means)
        self._iterations, self._known = 0, None

    def refresh(self, Vt: SmallArray) -> Mapping[str, BlockNorms] | None:
        """Missing cells become those of UV, those of the similarities after iterations 1, 2, 4, 8, ..."""
        return self._norms(self._complete(Vt))

    def _complete(self, Vt: SmallArray) -> bool:
        """Complete the cells after one more iteration; whether those of the similarities, too."""
        self._iterations += 1
        renewed = self._twice and self._iterations & (self._iterations - 1) == 0
        self._cells.complete(self.codes, Vt[: len(self._means)] * self.scale, renewed)
        self._known = None
        return renewed

    def _norms(self, renewed: bool) -> dict[str, BlockNorms]:
        """Norms of the blocks as they are."""
        gram_norm2 = partial(self._cells.gram_norm2, self.scale)
        if renewed:
            self._gram_norm2 = gram_norm2(SIMILARITIES)
        now = self._gram_norm2
        X = BlockNorms(self._known2 + self._cells.squares() / self.scale**2, partial(gram_norm2, "X"))
        return {"X": X, **({SIMILARITIES: BlockNorms(0.0, lambda: now)} if self._twice else {})}

    def solve(self, model: RowModel, ties: Ties | None = None, completion: Completion | None = None) -> Codes:
        """Codes of new rows and completed cells that fit each other.

        As in a fit, the rows whose similarities are the goal stand still while the others are completed: that is a
        convex problem per row. Then they are renewed, a few times.
        """
        if completion is None:
            return super().solve(model, ties)
        adopt, fetch, of_X = self.small.adopt, self.small.fetch, slice(len(completion.Vt))
        Vt, M = adopt(completion.Vt), adopt(model.M)
        own = with_rows(M, of_X, completion.weight * Vt)
        goal, filled = M[of_X] - own[of_X], Vt * self.scale
        self._cells.fill(completion.column_means)
        codes, last = self._new_codes_of_a_goal(model.S, own, goal, filled), np.inf
        for _ in range(_GOALS - 1 if fetch([abs(goal).max()])[0] > 0 else 0):
            renewed = self._new_codes_of_a_goal(model.S, own, goal, filled)
            change, size = fetch([abs(renewed - codes).max(), abs(codes).max()])
            if change > min(last, size):  # codes and goal drive each other away: a model that has not converged
                break
            codes, last = renewed, change
        return codes

    def _new_codes_of_a_goal(self, S: SmallArray, own: SmallArray, goal: SmallArray, filled: SmallArray) -> Codes:
        """Codes of new rows whose goal is that of the cells as they are now; the cells are completed by them."""
        tied = Ties(self._cells.pull(goal / self.scale))
        self.begin(super().solve(RowModel(S, own), tied))
        for _ in range(_ROUNDS):
            before = self.codes
            self._cells.complete(before, filled, False)
            self.begin(super().solve(RowModel(S, own), tied))
            change, size = self.small.fetch([abs(self.codes - before).max(), abs(self.codes).max()])
            if change <= _SETTLED[self.dtype.itemsize] * size:
                break
        return self.codes


class DataWithMissingCells(MemoryData if TYPE_CHECKING else object):  # type: ignore[misc]
    """What data with missing cells do in addition; stands before the class of data among the bases."""

    _means: Array  # of the known cells of every column
    _rows_class: type[CompletesCells]

    def _completed(self, X: Matrix, twice: bool) -> Any:
        """The missing cells of a copy of what holds X once or twice, and other columns; they are at the means."""
        raise NotImplementedError

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2, missing cells at the means of their columns."""
        return super().gram_norm2(scale, "X" if block == SIMILARITIES else block)

    def with_similarity_block(self) -> tuple[Self, str]:
        """X twice."""
        return self._with_block(SIMILARITIES, self.blocks["X"]), SIMILARITIES

    def with_unit_rows(self, scale: float) -> NoReturn:
        """Refused: only complete rows have a length."""
        raise ValueError(_validation.INCOMPLETE_ROWS)

    def with_averaged_rows(self, R: Sparse, steps: int, own: float = 0.0) -> NoReturn:
        """Refused: neighbours are searched among complete rows."""
        raise ValueError(_validation.INCOMPLETE_ROWS)

    def on_host(self) -> NoReturn:
        """Refused: neighbours are searched among complete rows."""
        raise ValueError(_validation.INCOMPLETE_ROWS)

    def column_means(self) -> Array:
        """Means of the known cells of every column."""
        return self._means

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> CompletesCells:
        """Rows that complete their cells."""
        twice = SIMILARITIES in self.blocks
        cells = self._completed(self._together(), twice)
        rows = self._rows_class(cells.X, k, scale / self.unit, operators)
        rows.hold(cells, self._means, self.norm2(scale), twice=twice)
        return rows


class IncompleteRows(CompletesCells, MemoryRows):
    """X in memory, completed, and its codes."""


class IncompleteData(DataWithMissingCells, MemoryData):
    """A checked X in memory with NaN in it."""

    _rows_class = IncompleteRows

    def __init__(self, X: Matrix, backend: Backend, largest: float) -> None:
        super().__init__(X, backend, largest)
        cells = (SparseCells if sparse.issparse(X) else DenseCells)(X.copy(), X.shape[1], False)
        self._means = cells.means()
        cells.fill(self._means)
        self._filled = cells.X.astype(X.dtype, copy=False)

    @property
    def _X(self) -> Matrix:
        """X, missing cells at the means of their columns."""
        return self._filled

    def _completed(self, X: Matrix, twice: bool) -> DenseCells | SparseCells:
        kind = SparseCells if sparse.issparse(X) else DenseCells
        cells = kind(X.copy() if X is self.blocks["X"] else X, self.shape[1], twice)
        cells.fill(self._means)
        return cells


class _MatrixCells:
    """Missing cells of a matrix that holds X (m columns) once or twice, and other columns."""

    def __init__(self, X: Matrix, m: int, twice: bool) -> None:
        self.X, self._m, self._twice = X, m, twice

    def gram_norm2(self, scale: float, block: str) -> float:
        """||XX'||^2 of one of the blocks as it is."""
        first = self._m if block == SIMILARITIES else 0
        return norms.gram_norm2(self.X[:, first : first + self._m], scale)

    def pull(self, M: Array) -> Array:
        """X M."""
        return np.ascontiguousarray(self.X[:, : self._m] @ M.astype(self.X.dtype))


class DenseCells(_MatrixCells):
    """Where cells are missing in an array."""

    def __init__(self, X: Array, m: int, twice: bool) -> None:
        super().__init__(X, m, twice)
        self._missing = np.isnan(X[:, :m])
        self._step = max(1, _BLOCK // m)

    def means(self) -> Array:
        """Of the known cells of every column."""
        known = np.where(self._missing, 0, self.X[:, : self._m])
        return means_of_known(known.sum(axis=0, dtype=np.float64), (~self._missing).sum(axis=0))

    def fill(self, means: Array) -> None:
        """Every missing cell becomes the mean of its column."""
        for first in (0, self._m)[: 1 + self._twice]:
            np.copyto(self.X[:, first : first + self._m], means.astype(self.X.dtype), where=self._missing)

    def squares(self) -> float:
        """The sum of squares of completed cells."""
        parts = ((slice(i, i + self._step)) for i in range(0, len(self.X), self._step))
        cells = (self.X[part, : self._m][self._missing[part]] for part in parts)
        return float(sum(np.square(part, dtype=np.float64).sum() for part in cells))

    def complete(self, U: Array, Vt: Array, similarities: bool) -> None:
        """Missing cells become those of UV."""
        X, m, V = self.X, self._m, Vt.astype(self.X.dtype).T

        def task(lo: int, hi: int) -> None:
            for i in range(lo, hi, self._step):
                j = min(i + self._step, hi)
                product = U[i:j] @ V
                for first in (0, m)[: 1 + similarities]:
                    np.copyto(X[i:j, first : first + m], product, where=self._missing[i:j])

        spread(task, len(X), 2.0 * m * len(X) * U.shape[1])


class SparseCells(_MatrixCells):
    """Where a CSR matrix stores NaN."""

    def __init__(self, X: Sparse, m: int, twice: bool) -> None:
        super().__init__(X, m, twice)
        where = np.flatnonzero(np.isnan(X.data))
        rows, columns = np.searchsorted(X.indptr, where, side="right") - 1, X.indices[where]
        first = columns < m
        self._where, self._second = where[first], where[~first]
        self._rows, self._columns = rows[first], columns[first]

    def means(self) -> Array:
        """Of the known cells of every column, zeros that are not stored included."""
        X, m = self.X[:, : self._m].tocoo(), self._m
        known = ~np.isnan(X.data)
        sums = np.bincount(X.col[known], X.data[known], minlength=m)
        return means_of_known(sums, X.shape[0] - np.bincount(self._columns, minlength=m))

    def fill(self, means: Array) -> None:
        """Every missing cell becomes the mean of its column."""
        self.X.data[self._where] = means[self._columns]
        self.X.data[self._second] = means[self._columns[: len(self._second)]]

    def squares(self) -> float:
        """The sum of squares of completed cells."""
        return float(np.square(self.X.data[self._where], dtype=np.float64).sum())

    def complete(self, U: Array, Vt: Array, similarities: bool) -> None:
        """Missing cells become those of UV."""
        Vt, step = Vt.astype(self.X.dtype), max(1, _BLOCK // U.shape[1])
        for i in range(0, len(self._where), step):
            some = slice(i, i + step)
            product = np.einsum("ij,ij->i", U[self._rows[some]], Vt[self._columns[some]])
            self.X.data[self._where[some]] = product
            if similarities:
                self.X.data[self._second[some]] = product


def means_of_known(sums: NDArray[Any], counts: NDArray[np.integer]) -> Array:
    """Means of columns; that of all known cells where a column has none."""
    overall = float(sums.sum()) / max(int(counts.sum()), 1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), overall)
