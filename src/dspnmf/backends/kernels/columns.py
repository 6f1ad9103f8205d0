"""Small work on a block of rows that lies transposed (k x width): its samples are side by side, so that it vectorises.

Arrays may be wider than the block, whose `width` is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dspnmf._compiled import compiled, compiled_reordering
from dspnmf._typing import Array

# arguments: a plain 0, False or True is a type of its own, and what takes it would be compiled twice
FIRST: Any = np.int64(0)
DIFFERENT: Any = np.bool_(False)
SAME: Any = np.bool_(True)
MANY = 32  # components up to which loops are faster than BLAS


@compiled
def transpose(A: Array, column: int, width: int, At: Array) -> None:
    """``At = A[:width, column : column + k]'``; A is in C order."""
    entries, apart = A.reshape(-1), A.shape[1]
    for a in range(len(At)):
        row, e = At[a], column + a
        for b in range(width):
            row[b] = entries[e]
            e += apart


@compiled
def add_transposed(E: Array, i: int, width: int, Gt: Array) -> None:
    """``Gt += E[i : i + width]'``."""
    for b in range(width):
        for a in range(E.shape[1]):
            Gt[a, b] += E[i + b, a]


@compiled
def subtract_mixture(g: Array, weights: Array, Yt: Array, width: int, rest: Array) -> None:
    """``rest = g - weights Yt``, four components at a time, after those that are left over."""
    k, zero = len(Yt), weights.dtype.type(0)
    c = k % 4
    s0, s1, s2 = weights[0] if c > 0 else zero, weights[1] if c > 1 else zero, weights[2] if c > 2 else zero
    y0, y1, y2 = Yt[0], Yt[min(1, k - 1)], Yt[min(2, k - 1)]
    for b in range(width):
        rest[b] = g[b] - s0 * y0[b] - s1 * y1[b] - s2 * y2[b]
    while c < k:
        s0, s1, s2, s3 = weights[c], weights[c + 1], weights[c + 2], weights[c + 3]
        y0, y1, y2, y3 = Yt[c], Yt[c + 1], Yt[c + 2], Yt[c + 3]
        for b in range(width):
            rest[b] -= s0 * y0[b] + s1 * y1[b] + s2 * y2[b] + s3 * y3[b]
        c += 4


@compiled_reordering
def inner(x: Array, y: Array, size: int) -> float:
    """The inner product of the first entries of two arrays, in float64."""
    value = 0.0
    for e in range(size):
        value += np.float64(x[e]) * np.float64(y[e])
    return value


@compiled_reordering
def add_gram(At: Array, Bt: Array, width: int, same: bool, square: Array, total: Array) -> None:
    """``total += A'B`` in float64; where A is B (`same`), half of the sums are enough. `square` is k x k scratch."""
    k, last = len(At), len(At) - 1
    for a in range(0, k, 2):
        a1 = min(a + 1, last)
        x0, x1 = At[a], At[a1]
        for c in range(0, a1 + 1 if same else k, 2):
            c1 = min(c + 1, last)
            y0, y1 = Bt[c], Bt[c1]
            s00, s01, s10, s11 = 0.0, 0.0, 0.0, 0.0
            for b in range(width):
                p0, p1, q0, q1 = np.float64(x0[b]), np.float64(x1[b]), np.float64(y0[b]), np.float64(y1[b])
                s00 += p0 * q0
                s01 += p0 * q1
                s10 += p1 * q0
                s11 += p1 * q1
            square[a, c], square[a, c1], square[a1, c], square[a1, c1] = s00, s01, s10, s11
    for a in range(k):
        for c in range(k):
            total[a, c] += square[max(a, c), min(a, c)] if same else square[a, c]


@compiled
def add_rounded_gram(At: Array, Bt: Array, width: int, same: bool, square: Array, total: Array) -> None:
    """As `add_gram`; the sums of many components are rounded in the precision of the blocks, whose rest is lost."""
    if len(At) <= MANY:
        add_gram(At, Bt, width, same, square, total)
        return
    for a in range(len(At)):
        for b in range(width, At.shape[1]):
            At[a, b] = Bt[a, b] = At.dtype.type(0)
    product = np.dot(At, Bt.T)
    for a in range(len(At)):
        for c in range(len(At)):
            total[a, c] += product[a, c]
