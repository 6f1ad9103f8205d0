"""HALS sweeps over blocks of rows, samples side by side so that they vectorise; the `hals` model in one look."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled, compiled_reordering
from dspnmf._typing import Array
from dspnmf.backends.kernels.columns import (
    DIFFERENT,
    FIRST,
    SAME,
    add_gram,
    add_transposed,
    subtract_mixture,
    transpose,
)
from dspnmf.backends.kernels.products import Source, no_sums, pull, push, push_scratch


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
def rounding_of_diagonal(S: Array) -> float:
    """What `inverse_diagonal` takes for rounding in sweeps of codes."""
    return 1e-14 if S.itemsize == 4 else 1e-30


@compiled
def smallest_curvature(S: Array) -> float:
    """What a curvature must exceed for its inverse, times numbers of ordinary size, to be a number."""
    return 1e-34 if S.itemsize == 4 else 1e-300


@compiled_reordering
def improve_component(y: Array, rest: Array, scale: float, width: int) -> float:
    """``y = max(y + scale rest, 0)``; the squared change."""
    change, zero = 0.0, y.dtype.type(0)
    for b in range(width):
        new = max(y[b] + rest[b] * scale, zero)
        step = np.float64(new - y[b])
        change += step * step
        y[b] = new
    return change


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
    least, change = smallest_curvature(S), 0.0
    for a in range(len(S)):
        scale, y = inverse[a], Yt[a]
        subtract_mixture(Gt[a], S[a], Yt, width, rest)
        if delta is not None:
            if delta.size > 0:
                scale = rest.dtype.type(1)
                for b in range(width):  # a step of its own for every row
                    more = delta[at + b] * kappa[a]  # type: ignore[index]  # given wherever delta is
                    curvature = S[a, a] + more
                    rest[b] = (rest[b] - more * y[b]) / curvature if curvature > least else rest.dtype.type(0)
        change += improve_component(y, rest, scale, width)
    return change


@compiled
def take_step(U: Array, D: Array, t: float, lo: int, hi: int) -> None:
    """``U += t D``, rounded as where a look takes the step."""
    step, zero = U.dtype.type(t), U.dtype.type(0)
    u, d = U[lo:hi].reshape(-1), D[lo:hi].reshape(-1)
    for e in range(u.size):
        u[e] = max(u[e] + step * d[e], zero)


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
    Ut, Yt = np.empty((k, block), U.dtype), np.empty((k, block), U.dtype)
    pulls, directions = np.empty((block, r * k), U.dtype), np.empty(r * k * block, U.dtype)  # of all starts
    work, rounding = push_scratch(X, r * k, U), rounding_of_diagonal(S)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Dt = directions[: r * k * width].reshape((r * k, width))
        pull(X, M, i, j, pulls[:width])
        for q in range(r):
            Uq, Dq, Gt = U[starts[q]], D[starts[q]], Dt[q * k : (q + 1) * k]  # the pull, then the direction
            take_step(Uq, Dq, t[q], i, j)
            transpose(Uq[i:j], FIRST, width, Ut)
            transpose(pulls, q * k, width, Gt)
            for a in range(k):
                for b in range(width):
                    Yt[a, b] = Ut[a, b]
            if E is not None:
                add_transposed(E[q], i, width, Gt)
            curve, inverse = None if kappa is None else kappa[q], inverse_diagonal(S[q], rounding)
            for s in range(sweeps[q]):
                change = sweep(Yt, Gt, S[q], inverse, delta, curve, i, rest, width)
                if s == 0:
                    first[q] += change
                if s == sweeps[q] - 1:
                    last[q] += change
            longer = U.dtype.type(stretch[q])
            for a in range(k):
                for b in range(width):
                    Gt[a, b] = max(longer * (Yt[a, b] - Ut[a, b]), -Ut[a, b])
            for b in range(width):
                for a in range(k):
                    Dq[i + b, a] = Gt[a, b]
            add_gram(Ut, Gt, width, DIFFERENT, square, UD[q])
            add_gram(Gt, Gt, width, SAME, square, DD[q])
        push(X, Dt, i, j, work, PD)
    return PD, UD, DD, first, last


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
