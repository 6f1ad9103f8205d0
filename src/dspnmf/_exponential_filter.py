"""Products with ``exp(-c |i - j|)`` in one pass forwards and one backwards, in place of a matrix for every axis."""

from __future__ import annotations

from dspnmf._compiled import compiled
from dspnmf._typing import Array


@compiled
def exponential_filter(A: Array, ratio: float, scale: float, carry: Array, out: Array) -> None:
    """``out[l, i] = scale sum_j ratio^|i - j| A[l, j]`` for A of shape (l, i, x); `carry` has the size of x.

    All terms are non-negative where A is, so nothing cancels.
    """
    outer, length, inner = A.shape
    for a in range(outer):
        for x in range(inner):
            carry[x] = 0.0
        for i in range(length):
            for x in range(inner):
                carry[x] = A[a, i, x] + ratio * carry[x]
                out[a, i, x] = carry[x]
        for x in range(inner):
            carry[x] = 0.0
        for i in range(length - 1, -1, -1):
            for x in range(inner):
                out[a, i, x] = scale * (out[a, i, x] + carry[x])
                carry[x] = ratio * (A[a, i, x] + carry[x])


@compiled
def weight_columns(A: Array, weights: Array, peak: Array) -> None:
    """Multiply A by weights, entry by entry, then divide every column by its largest entry, which `peak` receives."""
    rows, columns = A.shape
    for x in range(columns):
        peak[x] = 0.0
    for i in range(rows):
        for x in range(columns):
            A[i, x] *= weights[i, x]
            peak[x] = max(peak[x], A[i, x])
    inverse = 1.0 / peak
    for i in range(rows):
        for x in range(columns):
            A[i, x] *= inverse[x]
