"""Which rank predicts cells it has not seen? Cells are held out at random, plain NMF is fitted to the others.

Every fold holds out its share of every row of a dense X; all folds together hold out every cell once. Of a sparse X a
fold holds out cells drawn at random, zeros like the others, and at most as many as X stores: what is held out has to be
stored. An error is the mean square of ``X - UV`` over the held-out cells, as a share of the mean square of X: 0 is
perfect, 1 is no better than predicting zeros.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspnmf._threads import alone
from dspnmf._typing import Array
from dspnmf.backends.norms import norm2
from dspnmf.estimators.nmf import NMF
from dspnmf.selection.folds import Indices

_BLOCK = 2**20  # cells predicted at once


class Speckled(NamedTuple):
    """How well one rank predicted the cells of one fold."""

    error: float
    n_iter: int
    seconds: float
    components: Array


def held_out(X: Any, fold: int, n_folds: int, seed: int) -> tuple[Indices, Indices]:
    """Rows and columns of the cells that a fold holds out."""
    n, m = X.shape
    rng = np.random.default_rng(seed)
    if sparse.issparse(X):
        count = min(n * m // n_folds, X.nnz)
        cells = np.unique(rng.spawn(n_folds)[fold].integers(n * m, size=max(count, 1)))
        return cells // m, cells % m
    # a row's cells go to the folds in turn, beginning anywhere, in random order: no row loses more than its share
    turns = (np.arange(m + n_folds) % n_folds).astype(np.min_scalar_type(n_folds))
    of = np.lib.stride_tricks.sliding_window_view(turns, m)[rng.integers(n_folds, size=n)]
    rows, columns = np.nonzero(rng.permuted(of, axis=1) == fold)
    return rows, columns


def without(X: Any, rows: Indices, columns: Indices) -> Any:
    """X with NaN in these cells."""
    if not sparse.issparse(X):
        masked = np.array(X)
        masked[rows, columns] = np.nan
        return masked
    X = X.tocoo()
    cells = np.append(X.row.astype(np.int64) * X.shape[1] + X.col, rows * X.shape[1] + columns)
    values = np.append(X.data, np.full(len(rows), np.nan, X.dtype))
    last = len(cells) - 1 - np.unique(cells[::-1], return_index=True)[1]  # a held-out cell comes after its value
    where = (cells[last] // X.shape[1], cells[last] % X.shape[1])
    return sparse.csr_array((values[last], where), X.shape)


def predict(
    X: Any, k: int, fold: int, n_folds: int, *, speckle: int, seed: int, n_init: int, max_iter: int, tol: float
) -> Speckled:
    """Fit rank k without the cells of a fold, and compare these; `speckle` says which cells, `seed` the start."""
    rows, columns = held_out(X, fold, n_folds, speckle)
    begin = time.perf_counter()
    model = NMF(k, missing="mask", n_init=n_init, max_iter=max_iter, tol=tol, random_state=seed)
    with alone():
        Z = model.fit_transform(without(X, rows, columns))
    V = model.components_
    wrong, size = 0.0, norm2(X) / (X.shape[0] * X.shape[1])
    for i in range(0, len(rows), _BLOCK // k):
        here = slice(i, i + _BLOCK // k)
        cells = np.asarray(X[rows[here], columns[here]], dtype=np.float64).ravel()
        wrong += float(np.sum((cells - np.einsum("ij,ji->i", Z[rows[here]], V[:, columns[here]])) ** 2)) / len(rows)
    error = wrong / size if size > 0 else float(wrong > 0)
    return Speckled(error, model.n_iter_, time.perf_counter() - begin, V.astype(np.float32))
