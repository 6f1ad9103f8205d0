"""HALS sweeps over blocks of rows, samples side by side so that they vectorise; the `hals` model in one look."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source, add_gram, features_scratch, no_sums, pull, push


@compiled
def inverse_diagonal(S: Array, rounding: float) -> Any:
    """1 / S_aa, and 0 where a component is `rounding` of the largest, or too small: such an entry is left as it is."""
    k = S.shape[0]
    inverse = np.zeros(k, S.dtype)
    largest = 0.0
    for a in range(k):
        largest = max(largest, S[a, a])
    least = max(rounding * largest, smallest_curvature(S))
    for a in range(k):
        if S[a, a] > least:
            inverse[a] = 1 / S[a, a]
    return inverse


@compiled
def inverse_diagonals(S: Array) -> Any:
    """`inverse_diagonal` of the curvatures of several starts (r x k x k), for sweeps of codes."""
    inverse = np.empty((S.shape[0], S.shape[1]), S.dtype)
    for q in range(S.shape[0]):
        own = inverse_diagonal(S[q], 1e-14 if S.itemsize == 4 else 1e-30)
        for a in range(own.size):  # assigning the whole row takes seconds to compile
            inverse[q, a] = own[a]
    return inverse


@compiled
def smallest_curvature(S: Array) -> float:
    """What a curvature must exceed for its inverse, times numbers of ordinary size, to be a number."""
    return 1e-34 if S.itemsize == 4 else 1e-300


@compiled
def total(values: Array) -> float:
    """The sum of an array, in eight sums that do not wait for each other."""
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    e = 0
    while e + 8 <= values.size:
        s0 += values[e]
        s1 += values[e + 1]
        s2 += values[e + 2]
        s3 += values[e + 3]
        s4 += values[e + 4]
        s5 += values[e + 5]
        s6 += values[e + 6]
        s7 += values[e + 7]
        e += 8
    while e < values.size:
        s0 += values[e]
        e += 1
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@compiled
def add_transposed(E: Array, i: int, width: int, Gt: Array) -> None:
    """``Gt += E[i : i + width]'``."""
    for b in range(width):
        for a in range(E.shape[1]):
            Gt[a, b] += E[i + b, a]


@compiled
def sweep(
    Yt: Array,
    Gt: Array,
    S: Array,
    inverse: Array,
    delta: Array | None,
    kappa: Array | None,
    at: int,
    rest: Array,
    width: int,
) -> float:
    """One HALS sweep over a transposed block (k x width, samples side by side); returns the squared change.

    `delta` (a number for every row, this block's from `at` on) adds ``delta diag(kappa)`` to the curvature; None or no
    numbers add nothing.
    """
    k, least = S.shape[0], smallest_curvature(S)
    change = 0.0
    for a in range(k):
        for b in range(width):
            rest[b] = Gt[a, b]
        c = 0
        while c + 4 <= k:
            s0, s1, s2, s3 = S[a, c], S[a, c + 1], S[a, c + 2], S[a, c + 3]
            y0, y1, y2, y3 = Yt[c], Yt[c + 1], Yt[c + 2], Yt[c + 3]
            for b in range(width):
                rest[b] -= s0 * y0[b] + s1 * y1[b] + s2 * y2[b] + s3 * y3[b]
            c += 4
        while c < k:
            s0, y0 = S[a, c], Yt[c]
            for b in range(width):
                rest[b] -= s0 * y0[b]
            c += 1
        scale, y = inverse[a], Yt[a]
        if delta is not None:
            if delta.size > 0:
                scale = rest.dtype.type(1)
                for b in range(width):  # a step of its own for every row
                    more = delta[at + b] * kappa[a]  # type: ignore[index]  # given wherever delta is
                    curvature = S[a, a] + more
                    rest[b] = (rest[b] - more * y[b]) / curvature if curvature > least else rest.dtype.type(0)
        for b in range(width):
            new = max(y[b] + rest[b] * scale, rest.dtype.type(0))
            rest[b] = (new - y[b]) * (new - y[b])
            y[b] = new
        change += total(rest[:width])
    return change


@compiled
def look(
    X: Source,
    E: Array | None,
    delta: Array | None,
    U: Array,
    D: Array,
    kappa: Array,
    t: Array,
    M: Array,
    S: Array,
    starts: NDArray[np.intp],
    lo: int,
    hi: int,
    block: int,
    sweeps: NDArray[np.intp],
    stretch: Array,
) -> Any:
    """Take the pending step ``U += t D``, sweep, leave the new direction in D; sums X'D, U'D, D'D and changes.

    E (r x n x k) is added to X M, ``delta diag(kappa)`` (n, r x k) to S; all may be None, delta may have no
    numbers. D is the direction of the sweeps times `stretch`, cut off where codes would become negative.
    """
    r, k = S.shape[0], S.shape[1]
    PD, UD, DD = no_sums(X, M.shape[0], r * k), np.zeros(S.shape), np.zeros(S.shape)
    first, last = np.zeros(r), np.zeros(r)
    square, rest = np.empty((k, k)), np.empty(block, U.dtype)
    Gt, Yt = np.empty((k, block), U.dtype), np.empty((k, block), U.dtype)
    wide = np.empty((block, r * k), U.dtype)  # X M of all starts, then their directions
    work, inverse = features_scratch(X, wide), inverse_diagonals(S)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        pull(X, M, i, j, wide[:width])
        for q in range(r):
            step, longer, column = U.dtype.type(t[q]), U.dtype.type(stretch[q]), q * k
            Ub, Db = U[starts[q]][i:j], D[starts[q]][i:j]
            for b in range(width):
                for a in range(k):
                    u = max(Ub[b, a] + step * Db[b, a], U.dtype.type(0))
                    Ub[b, a] = u
                    Yt[a, b] = u
                    Gt[a, b] = wide[b, column + a]
            if E is not None:
                add_transposed(E[q], i, width, Gt)
            curve = None if kappa is None else kappa[q]
            for s in range(sweeps[q]):
                change = sweep(Yt, Gt, S[q], inverse[q], delta, curve, i, rest, width)
                if s == 0:
                    first[q] += change
                if s == sweeps[q] - 1:
                    last[q] += change
            for b in range(width):
                for a in range(k):
                    d = max(longer * (Yt[a, b] - Ub[b, a]), -Ub[b, a])
                    Db[b, a] = d
                    wide[b, column + a] = d
            precise = Db.astype(np.float64)
            add_gram(Ub.astype(np.float64), precise, square, UD[q])
            add_gram(precise, precise, square, DD[q])
        push(X, wide[:width], i, j, work, PD)
    return PD, UD, DD, first, last


@compiled
def take_step(U: Array, D: Array, t: float, lo: int, hi: int) -> None:
    """``U += t D``, rounded as where a look takes the step."""
    step, zero = U.dtype.type(t), U.dtype.type(0)
    for i in range(lo, hi):
        for a in range(U.shape[1]):
            U[i, a] = max(U[i, a] + step * D[i, a], zero)


@compiled
def sweep_mixture(T: Array, pull: Array, Q: Array, S: Array, alive: NDArray[np.intp], rounding: float) -> float:
    """One HALS sweep in place of ``1/2 <Q T S, T> - <pull, T>`` over T >= 0 (some rows); the squared change."""
    k, change = S.shape[0], 0.0
    others, rest = np.empty(k), np.empty((1, k))
    for a in alive:
        others[:], rest[0] = 0.0, pull[a] / Q[a, a]
        for c in range(k):
            if c != a:
                for b in range(k):
                    others[b] += Q[a, c] / Q[a, a] * T[c, b]
        for c in range(k):
            for b in range(k):
                rest[0, b] -= others[c] * S[c, b]
        change += sweep_rows(T[a : a + 1], rest, S, rounding, 1)
    return change


@compiled
def sweep_rows(Y: Array, G: Array, S: Array, rounding: float, block: int) -> float:
    """One HALS sweep in place over rows whose pull G is given; returns the squared change."""
    k = S.shape[0]
    Gt, Yt, rest = np.empty((k, block), Y.dtype), np.empty((k, block), Y.dtype), np.empty(block, Y.dtype)
    inverse = inverse_diagonal(S, rounding)
    change = 0.0
    for i in range(0, len(Y), block):
        j = min(i + block, len(Y))
        for b in range(j - i):
            for a in range(k):
                Yt[a, b], Gt[a, b] = Y[i + b, a], G[i + b, a]
        change += sweep(Yt, Gt, S, inverse, None, None, i, rest, j - i)
        for b in range(j - i):
            for a in range(k):
                Y[i + b, a] = Yt[a, b]
    return change
