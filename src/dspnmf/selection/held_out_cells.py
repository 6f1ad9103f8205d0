"""Which rank predicts cells it has not seen? Cells are held out at random, plain NMF is fitted to the others.

Every fold holds out its share of every row of a dense X; all folds together hold out every cell once. Of a sparse X a
fold holds out cells drawn at random, zeros like the others, and at most as many as X stores: what is held out has to be
stored. An error is the mean square of ``X - UV`` over the held-out cells, as a share of the mean square of X: 0 is
perfect, 1 is no better than predicting zeros.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from dspnmf._threads import alone
from dspnmf._typing import Matrix
from dspnmf.backends.chunk_facts import norm2
from dspnmf.estimators.nmf import NMF
from dspnmf.selection.held_out_rows import Indices
from dspnmf.selection.results import Outcome

_BLOCK = 2**20  # cells predicted at once


def held_out(X: Matrix, fold: int, n_folds: int, seed: int) -> tuple[Indices, Indices]:
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


def without(X: Matrix, rows: Indices, columns: Indices) -> Matrix:
    """X with NaN in these cells."""
    if sparse.issparse(X):
        missing = sparse.csr_array((np.full(len(rows), np.nan, X.dtype), (rows, columns)), X.shape)
        return sparse.csr_array(X) + missing
    masked = np.array(X)
    masked[rows, columns] = np.nan
    return masked


def predict(X: Matrix, model: NMF, fold: int, n_folds: int, seed: int) -> Outcome:
    """Fit without the cells of a fold, and return the error of predicting them; `seed` decides which cells."""
    rows, columns = held_out(X, fold, n_folds, seed)
    begin = time.perf_counter()
    with alone():
        Z = model.fit_transform(without(X, rows, columns))
    V, block = model.components_, _BLOCK // model.n_components
    wrong, size = 0.0, norm2(X) / (X.shape[0] * X.shape[1])
    for i in range(0, len(rows), block):
        here = slice(i, i + block)
        cells = np.asarray(X[rows[here], columns[here]], dtype=np.float64).ravel()
        wrong += float(np.sum((cells - np.einsum("ij,ji->i", Z[rows[here]], V[:, columns[here]])) ** 2)) / len(rows)
    error = wrong / size if size > 0 else float(wrong > 0)
    return Outcome(error, model.n_iter_, time.perf_counter() - begin, V.astype(np.float32))
