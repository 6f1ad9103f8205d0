"""Rows of X averaged with others, step by step: ``(1 - own) R^steps X + own X``, R sparse (n x n), its rows of sum 1.

Dense X is averaged some columns at a time, so that no step needs a second X. Sparse X fills in with every step; how far
is estimated from some rows before any is computed, and what would take most of the machine's memory is refused.
"""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse

from dspnmf import _validation
from dspnmf._threads import spread, team
from dspnmf._typing import Array, Matrix, Sparse

_COLUMNS = 32  # averaged at once
_SAMPLED = 64  # rows from which the entries of sparse results are estimated
_SHARE = 0.5  # of the machine's memory that results may take
_COPIES = 2  # of them that a fit holds: by themselves, and next to X


def averaged(X: Matrix, R: Sparse, steps: int, own: float = 0.0, out: Array | None = None) -> Matrix:
    """The averages in X's precision, sparse where X is; dense ones go to `out` where that is given."""
    R, share = sparse.csr_array(R, dtype=X.dtype), X.dtype.type(own)
    if sparse.issparse(X):
        check_memory(X, R, steps)
        average = X
        for _ in range(steps):
            average = sparse.csr_array(R @ average)
        return sparse.csr_array((1 - share) * average + share * X) if own > 0 else average
    result = np.empty(X.shape, X.dtype) if out is None else out

    def task(lo: int, hi: int) -> None:
        for j in range(lo, hi, _COLUMNS):
            columns = np.ascontiguousarray(X[:, j : min(j + _COLUMNS, hi)])
            for _ in range(steps):
                columns = R @ columns
            into = result[:, j : j + columns.shape[1]]
            np.multiply(columns, 1 - share, out=into)
            into += share * X[:, j : j + columns.shape[1]]

    with team():
        spread(task, X.shape[1], 2.0 * steps * R.nnz * X.shape[1], _COLUMNS)
    return result


def check_memory(X: Sparse, R: Sparse, steps: int) -> None:
    """Refuse averages of sparse X that would take most of the machine's memory."""
    number = X.dtype.itemsize + X.indices.dtype.itemsize
    entries, limit = stored_entries(X, R, steps), _SHARE * physical_memory()
    if (needed := _COPIES * entries * number) > limit:
        (n, m), dense = X.shape, _COPIES * X.shape[0] * X.shape[1] * X.dtype.itemsize
        raise ValueError(
            _validation.FILLS_UP.format(
                steps=steps, share=entries / (n * m), needed=needed / 1e9, limit=limit / 1e9, dense=dense / 1e9
            )
        )


def stored_entries(X: Sparse, R: Sparse, steps: int) -> float:
    """Entries that ``R^steps X`` will store, estimated from some of its rows."""
    n = X.shape[0]
    some = np.unique(np.linspace(0, n - 1, _SAMPLED).astype(int))
    reached = sparse.eye_array(n, format="csr", dtype=np.float32)[some]
    for _ in range(steps):
        reached = reached @ R
    return float((sparse.csr_array(reached) @ X).nnz) / len(some) * n


def physical_memory() -> float:
    """Bytes of memory of this machine; unlimited where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")
