"""HALS sweeps over blocks of rows, samples side by side so that they vectorise; the `hals` model in one look."""

from __future__ import annotations

from typing import Any

import numpy as np

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source, add_gram, features_scratch, pull, push


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
def smallest_curvature(S: Array) -> float:
    """What a curvature must exceed for its inverse, times numbers of ordinary size, to be a number."""
    return 1e-34 if S.itemsize == 4 else 1e-300


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

    `delta` (a number for every row, this block's from `at` on) adds ``delta diag(kappa)`` to the curvature, None none.
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
        moved = rest.dtype.type(0)
        if delta is not None:
            scale = rest.dtype.type(1)
            for b in range(width):  # a step of its own for every row
                more = delta[at + b] * kappa[a]  # type: ignore[index]  # given wherever delta is
                curvature = S[a, a] + more
                rest[b] = (rest[b] - more * y[b]) / curvature if curvature > least else rest.dtype.type(0)
        for b in range(width):
            new = max(y[b] + rest[b] * scale, rest.dtype.type(0))
            moved += (new - y[b]) * (new - y[b])
            y[b] = new
        change += moved  # type: ignore[assignment]  # a float64, or a float32 that is added to one
    return change


@compiled
def look(
    X: Source,
    E: Array | None,
    delta: Array | None,
    U: Array,
    D: Array,
    kappa: Array,
    t: float,
    M: Array,
    S: Array,
    lo: int,
    hi: int,
    block: int,
    sweeps: int,
    stretch: float,
) -> Any:
    """Take the pending step ``U += t D``, sweep, leave the new direction in D; sums X'D, U'D, D'D and changes.

    E (n x k) is added to X M, ``delta diag(kappa)`` (n, k) to S; each may be None. D is the direction of the
    sweeps times `stretch`, cut off where codes would become negative.
    """
    m, k = M.shape
    PD, UD, DD = np.zeros((m, k)), np.zeros((k, k)), np.zeros((k, k))
    work, square = features_scratch(X, U), np.empty((k, k))
    Gt, Yt, rest = np.empty((k, block), U.dtype), np.empty((k, block), U.dtype), np.empty(block, U.dtype)
    G = np.empty((block, k), U.dtype)
    inverse, step = inverse_diagonal(S, 1e-14 if S.itemsize == 4 else 1e-30), U.dtype.type(t)
    longer = U.dtype.type(stretch)
    first, last = 0.0, 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ub, Db, Gb = U[i:j], D[i:j], G[:width]
        pull(X, M, i, j, Gb)
        for b in range(width):
            for a in range(k):
                u = max(Ub[b, a] + step * Db[b, a], U.dtype.type(0))
                Ub[b, a] = u
                Yt[a, b] = u
                Gt[a, b] = Gb[b, a]
        if E is not None:
            add_transposed(E, i, width, Gt)
        for s in range(sweeps):
            change = sweep(Yt, Gt, S, inverse, delta, kappa, i, rest, width)
            if s == 0:
                first += change
            if s == sweeps - 1:
                last += change
        for b in range(width):
            for a in range(k):
                Db[b, a] = max(longer * (Yt[a, b] - Ub[b, a]), -Ub[b, a])
        push(X, Db, i, j, work, PD)
        wide = Db.astype(np.float64)
        add_gram(Ub.astype(np.float64), wide, square, UD)
        add_gram(wide, wide, square, DD)
    return PD, UD, DD, first, last


@compiled
def take_step(U: Array, D: Array, t: float, lo: int, hi: int) -> None:
    """``U += t D``, rounded as where a look takes the step."""
    step, zero = U.dtype.type(t), U.dtype.type(0)
    for i in range(lo, hi):
        for a in range(U.shape[1]):
            U[i, a] = max(U[i, a] + step * D[i, a], zero)


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
        change += sweep(Yt, Gt, S, inverse, None, None, 0, rest, j - i)
        for b in range(j - i):
            for a in range(k):
                Y[i + b, a] = Yt[a, b]
    return change
