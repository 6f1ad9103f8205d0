"""Transform: every row to its optimum under a convex model.

A row's codes y >= 0 minimise ``1/2 y S y' - g y``. A guess of its face (the codes that are positive) is corrected by
block principal pivoting (Kim & Park, SIAM Journal on Scientific Computing 33(6), 2011): solve for the codes on the face
alone, exchange those that came out negative with those that should grow, until there are none. Where S is well
conditioned, the first guess is where ``S^-1 g`` is positive (it is the answer where that is everywhere), and where few
codes are zero, the slopes at these are solved for in place of the others. Where it is not, the guess comes from
sweeps. Some rows are solved side by side, so that their Cholesky factors vectorise. A row that exchanges without
progress goes to an active set that never goes uphill.

========  =============  ===========================================================
Gt, Yt    k x width      pull and codes of some rows, side by side
Ct        k x width      what the rows' own curvature adds to the diagonal of S
F         k x width      the faces
C, y, z   ... x LANES    the same of those rows whose systems are solved together
========  =============  ===========================================================

Matrices and C have one entry more than there are codes: a code of its own, with which systems of several sizes are
filled up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source, pull
from dspnmf.backends.kernels.sweeps import inverse_diagonal, sweep

LANES = 16
SWEEPS = 8  # where S^-1 is not to be trusted
PATIENCE = 3  # exchanges without progress before a row goes to the active set
SPARE = 8  # inner solves beyond 3 k after which an active set keeps the feasible point it has
DEPENDENT = 1e-150  # stands for the inverse of an infinite pivot
SINGULAR = 1e-13  # of a diagonal entry: what is left of it in a factor is rounding
SLOPE = 1e-12  # of a row's pull: a slope below it is rounding
NEGATIVE = 1e-13  # of a row's largest code: a code above minus that is zero


@compiled
def solve_lanes(S: Array, C: Array, members: NDArray[np.intp], size: int, L: Array, pivots: Array, z: Array) -> None:
    """Cholesky solution of ``(S + diag(C_b))_FF z = z`` for all lanes b, in place; a dependent code gets (almost) 0.

    F are the first `size` members of a lane; S and C have one more entry than there are codes, which fills lanes up.
    """
    lanes = z.shape[1]
    sums = np.empty(lanes)
    for p in range(size):
        for q in range(p + 1):
            for b in range(lanes):
                sums[b] = S[members[p, b], members[q, b]]
            if p == q:
                for b in range(lanes):
                    sums[b] += C[members[p, b], b]
                    pivots[p, b] = SINGULAR * sums[b]
            c = 0
            while c + 4 <= q:
                for b in range(lanes):
                    sums[b] -= (
                        L[p, c, b] * L[q, c, b]
                        + L[p, c + 1, b] * L[q, c + 1, b]
                        + L[p, c + 2, b] * L[q, c + 2, b]
                        + L[p, c + 3, b] * L[q, c + 3, b]
                    )
                c += 4
            while c < q:
                for b in range(lanes):
                    sums[b] -= L[p, c, b] * L[q, c, b]
                c += 1
            if p > q:
                for b in range(lanes):
                    L[p, q, b] = sums[b] * pivots[q, b]
            else:
                for b in range(lanes):
                    pivots[p, b] = 1 / np.sqrt(sums[b]) if sums[b] > pivots[p, b] else DEPENDENT
    for p in range(size):
        for c in range(p):
            for b in range(lanes):
                z[p, b] -= L[p, c, b] * z[c, b]
        for b in range(lanes):
            z[p, b] *= pivots[p, b]
    for p in range(size - 1, -1, -1):
        for b in range(lanes):
            z[p, b] *= pivots[p, b]
        for c in range(p):
            for b in range(lanes):
                z[c, b] -= L[p, c, b] * z[p, b]


@compiled
def take_lanes(
    R: Array, F: NDArray[np.bool_], left: NDArray[np.intp], first: int, last: int, zeros: bool, size: int,
    members: NDArray[np.intp], z: Array,
) -> None:  # fmt: skip
    """What `solve_lanes` solves for the columns ``left[first:last]``: on their faces, or off them (`zeros`)."""
    k = F.shape[0]
    for b in range(z.shape[1]):
        p = 0
        if first + b < last:
            row = left[first + b]
            for a in range(k):
                if F[a, row] != zeros:
                    members[p, b], z[p, b] = a, R[a, row]
                    p += 1
        for rest in range(p, size):
            members[rest, b], z[rest, b] = k, 0.0


@compiled
def place_lanes(T: Array, members: NDArray[np.intp], size: int, z: Array, y: Array, r: Array) -> None:
    """The solutions z at their places in y, and r = T y."""
    for a in range(y.shape[0]):
        for b in range(y.shape[1]):
            y[a, b] = 0.0
    for p in range(size):
        for b in range(y.shape[1]):
            y[members[p, b], b] = z[p, b]
    np.dot(T, y, r)


@compiled
def sort_by_size(
    F: NDArray[np.bool_], left: NDArray[np.intp], count: int, inverted: bool, keys: NDArray[np.intp]
) -> None:
    """Sort the first `count` of `left` (columns of F) by the size of their systems, kept in `keys`.

    Those of which the codes at zero are solved for (`inverted`, where they are fewer) come last, with k + 1 more.
    """
    k = F.shape[0]
    begin, order = np.zeros(2 * k + 3, np.int64), np.empty(count, np.int64)
    for i in range(count):
        order[i] = left[i]
        size = 0
        for a in range(k):
            size += F[a, order[i]]
        keys[order[i]] = 2 * k + 1 - size if inverted and 2 * size > k else size
        begin[keys[order[i]] + 1] += 1
    for key in range(2 * k + 2):
        begin[key + 1] += begin[key]
    for i in range(count):
        key = keys[order[i]]
        left[begin[key]] = order[i]
        begin[key] += 1


@compiled
def exchange(
    S: Array, inverse: Array, Gt: Array, Ht: Array, Ct: Array, Yt: Array, left: NDArray[np.intp], count: int,
    inverted: bool, members: NDArray[np.intp], L: Array, pivots: Array,
) -> int:  # fmt: skip
    """Block principal pivoting for the first `count` columns of `left`, from the faces of Yt.

    Solved columns of Yt are replaced. The others remain in `left`, their number is returned. Ht is ``-S^-1 Gt``, if
    there is an inverse (`inverted`).
    """
    k, width, lanes = Yt.shape[0], Yt.shape[1], pivots.shape[1]
    F, flip, keys = np.zeros((k, width), np.bool_), np.empty(k, np.bool_), np.empty(width, np.int64)
    fewest, patience, steepest = np.empty(width, np.int64), np.empty(width, np.int64), np.zeros(width)
    z, y, r, C = np.empty((k, lanes)), np.empty((k + 1, lanes)), np.empty((k + 1, lanes)), np.zeros((k + 1, lanes))
    code, given_up = np.empty(k), 0
    for i in range(count):
        row = left[i]
        fewest[row], patience[row] = k + 1, PATIENCE
        for a in range(k):
            curvature = S[a, a] + Ct[a, row]
            F[a, row] = Yt[a, row] > 0 and curvature > 0
            if curvature > 0 and Gt[a, row] > 0:  # what is pulled below zero never moves
                steepest[row] = max(steepest[row], Gt[a, row] * Gt[a, row] / curvature)
    hopeless = np.empty(count, np.int64)
    while count > 0:
        sort_by_size(F, left, count, inverted, keys)
        first, kept = int(np.int64(0)), 0  # a plain 0 is a type of its own: what takes it would be compiled twice
        while first < count:
            zeros, last = keys[left[first]] > k, min(first + lanes, count)
            while keys[left[last - 1]] > k and not zeros:
                last -= 1
            largest_key = keys[left[last - 1]]
            T, R, size = (inverse, Ht, largest_key - k - 1) if zeros else (S, Gt, largest_key)
            for b in range(last - first):
                for a in range(k):
                    C[a, b] = Ct[a, left[first + b]]
            take_lanes(R, F, left, first, last, zeros, size, members, z)
            solve_lanes(T, C, members, size, L, pivots, z)
            place_lanes(T, members, size, z, y, r)
            for b in range(last - first):
                row, largest, wrong = left[first + b], 0.0, 0  # what is kept is written to entries that have been read
                for a in range(k):
                    rest = R[a, row] - r[a, b] - C[a, b] * y[a, b]
                    code[a] = (-rest if zeros else y[a, b]) if F[a, row] else 0.0
                    r[a, b] = -y[a, b] if zeros else rest  # along which the model falls
                    largest = max(largest, abs(code[a]))
                for a in range(k):
                    if F[a, row]:
                        flip[a] = code[a] < -NEGATIVE * largest
                    else:
                        least = SLOPE * SLOPE * steepest[row] * (S[a, a] + C[a, b])
                        flip[a] = r[a, b] > 0 and r[a, b] * r[a, b] > least and S[a, a] + C[a, b] > 0
                    wrong += flip[a]
                if wrong == 0:
                    for a in range(k):
                        Yt[a, row] = max(code[a], 0.0)
                    continue
                patience[row] = PATIENCE if wrong < fewest[row] else patience[row] - 1
                fewest[row] = min(fewest[row], wrong)
                if patience[row] < 0:
                    hopeless[given_up] = row
                    given_up += 1
                    continue
                for a in range(k):
                    F[a, row] = F[a, row] != flip[a]
                left[kept] = row
                kept += 1
            first = last
        count = kept
    for i in range(given_up):
        left[i] = hopeless[i]
    return given_up


@compiled
def solve_free(S: Array, g: Array, members: NDArray[np.intp], size: int, L: Array, z: Array) -> None:
    """As `solve_lanes`, for one row."""
    for p in range(size):
        a = members[p]
        for q in range(p + 1):
            value = S[a, members[q]]
            for c in range(q):
                value -= L[p, c] * L[q, c]
            if p > q:
                L[p, q] = value / L[q, q]
            else:
                L[p, p] = np.sqrt(value) if value > SINGULAR * S[a, a] else 1 / DEPENDENT
    for p in range(size):
        value = g[members[p]]
        for c in range(p):
            value -= L[p, c] * z[c]
        z[p] = value / L[p, p]
    for p in range(size - 1, -1, -1):
        value = z[p]
        for c in range(p + 1, size):
            value -= L[c, p] * z[c]
        z[p] = value / L[p, p]


@compiled
def active_set(S: Array, g: Array, y: Array, members: NDArray[np.intp], L: Array, z: Array) -> None:
    """Minimise ``1/2 y S y' - g y`` over y >= 0 from the feasible y, never uphill (Bro & de Jong 1997)."""
    k, steepest = g.size, 0.0
    for a in range(k):
        if S[a, a] > 0 and g[a] > 0:
            steepest = max(steepest, g[a] / np.sqrt(S[a, a]))
    for _ in range(3 * k + SPARE):
        size = int(np.int64(0))
        for a in range(k):
            if y[a] > 0:
                members[size] = a
                size += 1
        solve_free(S, g, members, size, L, z)
        step, blocking = 1.0, -1
        for p in range(size):
            here = y[members[p]]
            if z[p] <= 0 and here <= step * (here - z[p]):
                step, blocking = here / (here - z[p]), p
        for p in range(size):
            y[members[p]] = max(y[members[p]] + step * (z[p] - y[members[p]]), 0.0)
        if blocking >= 0:
            y[members[blocking]] = 0.0
            continue
        best, entering, largest = 0.0, -1, 0.0
        for a in range(k):
            if y[a] == 0 and S[a, a] > 0:
                rise = g[a]
                for c in range(k):
                    rise -= S[a, c] * y[c]
                if rise * rise > best * S[a, a] and rise > SLOPE * steepest * np.sqrt(S[a, a]):
                    best, entering, largest = rise * rise / S[a, a], a, rise
        if entering < 0:
            return
        y[entering] = largest / S[entering, entering]


@compiled
def finish(S: Array, Gt: Array, Ct: Array, Yt: Array, left: NDArray[np.intp]) -> None:
    """Replace the columns `left` of the codes Yt by the answers of `active_set`."""
    k = len(S)
    y, g, z, own = np.empty(k), np.empty(k), np.empty(k), S.copy()
    members, factor = np.empty(k, np.int64), np.empty((k, k))
    for b in left:
        for a in range(k):
            y[a], g[a], own[a, a] = Yt[a, b], Gt[a, b], S[a, a] + Ct[a, b]
        active_set(own, g, y, members, factor, z)
        for a in range(k):
            Yt[a, b] = y[a]


@compiled
def guess(Yt: Array, Gt: Array, S: Array, delta: Array | None, kappa: Array) -> None:
    """Some sweeps over the codes Yt."""
    inverse, rest = inverse_diagonal(S, 1e-30), np.empty(Yt.shape[1])
    for _ in range(SWEEPS):
        sweep(Yt, Gt, S, inverse, delta, kappa, int(np.int64(0)), rest, Yt.shape[1])


@compiled
def pulled(X: Source, M: Array, lo: int, hi: int, out: Array) -> None:
    """`pull`, for callers that are not compiled."""
    pull(X, M, lo, hi, out)
