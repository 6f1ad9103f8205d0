"""The two products with a block of X, and the sums they make: the only kernels that know how X is stored."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.columns import FIRST, SAME, add_gram, transpose

Source: TypeAlias = Any  # X: an array, or the tuple (data, indices, indptr) of a CSR matrix


# The bodies below serve NUMBA_DISABLE_JIT; compiled code takes the overloads.


def pull(X: Source, M: Array, lo: int, hi: int, out: Array) -> None:
    """``out = X[lo:hi] @ M``, in M's precision."""
    out[:] = _rows(X, len(M), lo, hi) @ M


def push(X: Source, Dt: Array, lo: int, hi: int, work: Array, total: Array) -> None:
    """``total += X[lo:hi].T @ Dt.T`` for the block ``Dt`` (k x rows), in its precision; `work`: `push_scratch`."""
    total += _rows(X, len(total), lo, hi).T @ Dt.T


def push_scratch(X: Source, k: int, D: Array) -> Any:
    """The scratch array `push` needs for k columns of D's type."""
    return np.empty((0, 0), D.dtype)


def no_sums(X: Source, m: int, k: int) -> Array:
    """Zeros (m x k, float64) in the order in memory in which `push` adds to them fastest."""
    return np.zeros((m, k))


def _rows(X: Source, m: int, lo: int, hi: int) -> Any:
    if not isinstance(X, tuple):
        return X[lo:hi]
    data, indices, indptr = X
    some = slice(indptr[lo], indptr[hi])
    return csr_array((data[some], indices[some], indptr[lo : hi + 1] - indptr[lo]), shape=(hi - lo, m))


@overload(pull)
def _pull(X: Source, M: Array, lo: int, hi: int, out: Array) -> Any:
    if isinstance(X, types.BaseTuple):

        def sparse(X: Source, M: Array, lo: int, hi: int, out: Array) -> None:
            data, indices, indptr = X
            for i in range(lo, hi):
                row = out[i - lo]
                for a in range(row.size):
                    row[a] = 0
                for q in range(indptr[i], indptr[i + 1]):
                    x = data[q]
                    weights = M[indices[q]]
                    for a in range(row.size):
                        row[a] += x * weights[a]

        return sparse

    same = X.dtype == M.dtype

    def dense(X: Source, M: Array, lo: int, hi: int, out: Array) -> None:
        np.dot(np.ascontiguousarray(X[lo:hi]) if same else X[lo:hi].astype(M.dtype), M, out)

    return dense


@overload(push)
def _push(X: Source, Dt: Array, lo: int, hi: int, work: Array, total: Array) -> Any:
    if isinstance(X, types.BaseTuple):

        def sparse(X: Source, Dt: Array, lo: int, hi: int, work: Array, total: Array) -> None:
            data, indices, indptr = X
            row = work[0]
            for i in range(lo, hi):
                for a in range(row.size):
                    row[a] = Dt[a, i - lo]
                for q in range(indptr[i], indptr[i + 1]):
                    x = data[q]
                    sums = total[indices[q]]
                    for a in range(row.size):
                        sums[a] += x * row[a]

        return sparse

    same = X.dtype == Dt.dtype

    def dense(X: Source, Dt: Array, lo: int, hi: int, work: Array, total: Array) -> None:
        np.dot(Dt, np.ascontiguousarray(X[lo:hi]) if same else X[lo:hi].astype(Dt.dtype), work)
        for a in range(work.shape[0]):
            for j in range(work.shape[1]):
                total[j, a] += work[a, j]

    return dense


@overload(no_sums)
def _no_sums(X: Source, m: int, k: int) -> Any:
    if isinstance(X, types.BaseTuple):

        def rows_together(X: Source, m: int, k: int) -> Any:
            return np.zeros((m, k))

        return rows_together

    def columns_together(X: Source, m: int, k: int) -> Any:
        return np.zeros((k, m)).T

    return columns_together


@overload(push_scratch)
def _push_scratch(X: Source, k: int, D: Array) -> Any:
    if isinstance(X, types.BaseTuple):

        def one_row(X: Source, k: int, D: Array) -> Any:
            return np.empty((1, k), D.dtype)

        return one_row

    def all_features(X: Source, k: int, D: Array) -> Any:
        return np.empty((k, X.shape[1]), D.dtype)

    return all_features


@compiled
def sums(X: Source, U: Array, m: int, starts: NDArray[np.intp], lo: int, hi: int, block: int) -> Any:
    """X'U and U'U, to float64 rounding also where X and U are float32: products of two such numbers are exact."""
    r, k = len(starts), U.shape[2]
    P, Q, square = no_sums(X, m, r * k), np.zeros((r, k, k)), np.empty((k, k))
    work, codes = push_scratch(X, r * k, P), np.empty(r * k * block)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ut = codes[: r * k * width].reshape((r * k, width))
        for q in range(r):
            own = Ut[q * k : (q + 1) * k]
            transpose(U[starts[q]][i:j], FIRST, width, own)
            add_gram(own, own, width, SAME, square, Q[q])
        push(X, Ut, i, j, work, P)
    return P, Q


@compiled
def moments(values: Array, scale: float, lo: int, hi: int) -> Any:
    """Sums of ``values / scale`` and of its squares over rows `lo` to `hi`; rows are added by Kahan's sum."""
    total, total2, lost2 = 0.0, 0.0, 0.0
    for i in range(lo, hi):
        row, row2 = 0.0, 0.0
        for j in range(values.shape[1]):
            value = values[i, j] / scale
            row += value
            row2 += value * value
        total += row
        row2 -= lost2
        lost2 = (total2 + row2 - total2) - row2
        total2 += row2
    return total, total2


@compiled
def checksum(words: NDArray[np.unsignedinteger]) -> np.uint64:
    """A sum modulo 2^64 that changes with any word, and with their order: weights are odd and all different."""
    total = np.uint64(0)
    for i in range(words.size):
        total += np.uint64(words[i]) * np.uint64(2 * i + 1)
    return total
