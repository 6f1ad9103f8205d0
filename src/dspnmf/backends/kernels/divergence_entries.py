"""The entries of a row that a divergence sees: all known ones, or the positive ones where zeros count in sums alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source

_DENSE = 0.6  # share of positive entries above which a row is not gathered

# The bodies below serve NUMBA_DISABLE_JIT; compiled code takes the overloads.


def load(X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]) -> tuple[int, int]:
    """Known entries of row i and their columns, positive ones only unless `zeros` count.

    Returns how many there are, and how many cells are missing; the columns of these are at the end of `columns`.
    """
    return (_load_sparse if isinstance(X, tuple) else _load_dense)(X, i, m, unit, zeros, x, columns)


def longest(X: Source, lo: int, hi: int, m: int, zeros: bool) -> int:
    """The most entries `load` may find in a row."""
    return _longest_sparse(X, lo, hi, m, zeros) if isinstance(X, tuple) else m


def _longest_sparse(X: Source, lo: int, hi: int, m: int, zeros: bool) -> int:
    most = 0
    for i in range(lo, hi):
        most = max(most, X[2][i + 1] - X[2][i])
    return m if zeros else most


def _longest_dense(X: Source, lo: int, hi: int, m: int, zeros: bool) -> int:
    return m


def _load_dense(
    X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]
) -> tuple[int, int]:
    p, missing, row = 0, 0, X[i]
    if not zeros:
        positive = 0
        for j in range(m):
            positive += row[j] > 0
        zeros = positive > _DENSE * m
    for j in range(m):
        value = row[j]
        if np.isnan(value):
            missing += 1
            columns[len(columns) - missing] = j
        elif zeros or value > 0:
            x[p] = value * unit
            columns[p] = j
            p += 1
    return p, missing


def _load_sparse(
    X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]
) -> tuple[int, int]:
    data, indices, indptr = X
    missing, p, first = 0, 0, indptr[i]
    if not zeros:
        for e in range(first, indptr[i + 1]):
            if np.isnan(data[e]):
                missing += 1
                columns[len(columns) - missing] = indices[e]
            elif data[e] > 0:
                x[p] = data[e] * unit
                columns[p] = indices[e]
                p += 1
        return p, missing
    for j in range(m):
        x[j] = 0
    for e in range(first, indptr[i + 1]):
        x[indices[e]] = data[e] * unit
    for j in range(m):
        if np.isnan(x[j]):
            missing += 1
            columns[len(columns) - missing] = j
        else:
            x[p] = x[j]
            columns[p] = j
            p += 1
    return p, missing


@overload(load)
def _load(X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]) -> Any:
    return _load_sparse if isinstance(X, types.BaseTuple) else _load_dense


@overload(longest)
def _longest(X: Source, lo: int, hi: int, m: int, zeros: bool) -> Any:
    return _longest_sparse if isinstance(X, types.BaseTuple) else _longest_dense
