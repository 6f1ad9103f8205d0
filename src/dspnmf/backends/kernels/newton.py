"""The newton-cg model: X once for the pull and once for the sums, in between only n x k arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.columns import (
    DIFFERENT,
    FIRST,
    SAME,
    add_gram,
    add_rounded_gram,
    add_transposed,
    inner,
    subtract_mixture,
    transpose,
)
from dspnmf.backends.kernels.products import Source, no_sums, pull, push, push_scratch
from dspnmf.backends.kernels.sweeps import inverse_diagonal, rounding_of_diagonal, sweep, take_step


@compiled
def face(
    X: Source,
    E: Array | None,
    delta: Array | None,
    U: Array,
    D: Array,
    g: Array,
    kappa: Array,
    t: Array,
    M: Array,
    S: Array,
    starts: NDArray[np.intp],
    lo: int,
    hi: int,
    block: int,
    sweeps: NDArray[np.intp],
) -> Any:
    """Take the pending step, leave half the gradient in g and the direction of a few sweeps in D.

    M and S are float64: near the end the gradient is far smaller than the two products it is the difference of.
    Returns <g,D>, U'D, D'D and <g,A>, U'A, A'A, D'A for the part A of D that ends at zero.
    """
    r, k = S.shape[0], S.shape[1]
    slope, slope_A, zero = np.zeros(r), np.zeros(r), U.dtype.type(0)
    square, rest, descent = np.empty((k, k)), np.empty(block, U.dtype), np.empty(block)
    Wt, grams = np.empty((6, k, block), U.dtype), np.zeros((3, 3, r, k, k))  # products of the first three
    Ut, Dt, At, Yt, Gt, gt = Wt[0], Wt[1], Wt[2], Wt[3], Wt[4], Wt[5]
    pulls, precise = np.empty((block, r * k)), np.empty((k, block))
    curvature = S.astype(U.dtype)
    rounding = rounding_of_diagonal(curvature)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        pull(X, M, i, j, pulls[:width])
        for q in range(r):
            Uq, Dq, gq = U[starts[q]], D[starts[q]], g[starts[q]]
            take_step(Uq, Dq, t[q], i, j)
            transpose(Uq[i:j], FIRST, width, Ut)
            transpose(pulls, q * k, width, precise)
            if E is not None:
                add_transposed(E[q], i, width, precise)
            curve = None if kappa is None else kappa[q]
            for a in range(k):
                subtract_mixture(precise[a], S[q, a], Ut, width, descent)
                for b in range(width):
                    Yt[a, b], Gt[a, b], gt[a, b] = Ut[a, b], precise[a, b], -descent[b]
            if delta is not None:
                if delta.size > 0:
                    for a in range(k):
                        for b in range(width):
                            gt[a, b] += delta[i + b] * curve[a] * Ut[a, b]
            inverse = inverse_diagonal(curvature[q], rounding)
            for _ in range(sweeps[q]):
                sweep(Yt, Gt, curvature[q], inverse, delta, curve, i, rest, width)
            for a in range(k):
                for b in range(width):
                    d = Yt[a, b] - Ut[a, b]
                    Dt[a, b] = d
                    At[a, b] = d if Yt[a, b] == 0 else zero
                slope[q] += inner(gt[a], Dt[a], width)
                slope_A[q] += inner(gt[a], At[a], width)
            for b in range(width):
                for a in range(k):
                    gq[i + b, a], Dq[i + b, a] = gt[a, b], Dt[a, b]
            for c in range(1, 3):
                for a in range(c + 1):
                    add_gram(Wt[a], Wt[c], width, a == c, square, grams[a, c, q])
    return slope, grams[0, 1], grams[1, 1], slope_A, grams[0, 2], grams[2, 2], grams[1, 2]


@compiled
def cg_start(
    W: Array | None,
    U: Array,
    D: Array,
    g: Array,
    r: Array,
    u: Array,
    free: NDArray[np.bool_],
    tau: float,
    sigma: float,
    S: Array,
    C: Array,
    T: Array,
    lo: int,
    hi: int,
    block: int,
) -> Any:
    """Shorten D by tau, its part that ends at zero by sigma; the residual there: U'r.

    r is the negative gradient of the model (``A[D] = D S + U C + W``) on the free entries, u = r T on all of them.
    """
    k = S.shape[0]
    Ur, square = np.zeros((k, k)), np.empty((k, k), U.dtype)
    DS, UC = np.empty((block, k), U.dtype), np.empty((block, k), U.dtype)
    scale, scale_A, zero = U.dtype.type(tau), U.dtype.type(sigma), U.dtype.type(0)
    DSf, UCf = DS.reshape(-1), UC.reshape(-1)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, Db, rb = U[i:j], D[i:j], r[i:j]
        Uf, Df, gf, rf, ff = Ub.reshape(-1), Db.reshape(-1), g[i:j].reshape(-1), rb.reshape(-1), free[i:j].reshape(-1)
        for e in range(Df.size):
            Df[e] *= scale_A if Uf[e] + Df[e] == 0 else scale
        np.dot(Db, S, DS[: j - i])
        np.dot(Ub, C, UC[: j - i])
        if W is not None:
            Wf = W[i:j].reshape(-1)
            for e in range(Wf.size):
                UCf[e] += Wf[e]
        for e in range(rf.size):
            slope = gf[e] + DSf[e] + UCf[e]
            is_free = Uf[e] + Df[e] > 0 or slope < 0
            ff[e] = is_free
            rf[e] = -slope if is_free else zero
        np.dot(rb, T, u[i:j])
        np.dot(Ub.T, rb, square)
        for a in range(k):
            for c in range(k):
                Ur[a, c] += square[a, c]
    return Ur


@compiled
def cg_step(
    W: Array | None,
    U: Array,
    z: Array,
    r: Array,
    u: Array,
    p: Array,
    q: Array,
    free: NDArray[np.bool_],
    alpha: float,
    beta: float,
    S: Array,
    C: Array,
    T: Array,
    lo: int,
    hi: int,
    block: int,
) -> Any:
    """One preconditioned conjugate-gradient step in one look (q = A[p] by recurrence, Chronopoulos & Gear 1989): U'r.

    ``A[u] = u S + U C + W``; W may be None. Leaves u = r T on all entries.
    """
    k = S.shape[0]
    Ur, square = np.zeros((k, k)), np.empty((k, k), U.dtype)
    uS, UC = np.empty((block, k), U.dtype), np.empty((block, k), U.dtype)
    step, mix, zero = U.dtype.type(alpha), U.dtype.type(beta), U.dtype.type(0)
    uSf, UCf = uS.reshape(-1), UC.reshape(-1)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, rb, ub = U[i:j], r[i:j], u[i:j]
        np.dot(ub, S, uS[: j - i])
        np.dot(Ub, C, UC[: j - i])
        if W is not None:
            Wf = W[i:j].reshape(-1)
            for e in range(Wf.size):
                UCf[e] += Wf[e]
        rf, uf, ff = rb.reshape(-1), ub.reshape(-1), free[i:j].reshape(-1)
        pf, qf, zf = p[i:j].reshape(-1), q[i:j].reshape(-1), z[i:j].reshape(-1)
        for e in range(rf.size):
            pf[e] = uf[e] + mix * pf[e]
            qf[e] = (uSf[e] + UCf[e] if ff[e] else zero) + mix * qf[e]
            zf[e] += step * pf[e]
            rf[e] -= step * qf[e]
        np.dot(rb, T, u[i:j])
        np.dot(Ub.T, rb, square)
        for a in range(k):
            for c in range(k):
                Ur[a, c] += square[a, c]
    return Ur


@compiled
def couple(U: Array, r: Array, u: Array, free: NDArray[np.bool_], C: Array, lo: int, hi: int, block: int) -> Any:
    """``u + U C`` on the free entries, zero on the others; <r,u>, U'u, u'u."""
    k = C.shape[0]
    grams, energy = np.zeros((2, k, k)), 0.0
    square, UC, zero = np.empty((k, k)), np.empty((block, k), U.dtype), U.dtype.type(0)
    Wt = np.empty((2, k, block), U.dtype)
    UCf = UC.reshape(-1)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, ub = U[i:j], u[i:j]
        np.dot(Ub, C, UC[: j - i])
        uf, ff = ub.reshape(-1), free[i:j].reshape(-1)
        for e in range(uf.size):
            uf[e] = uf[e] + UCf[e] if ff[e] else zero
        energy += inner(r[i:j].reshape(-1), uf, uf.size)
        transpose(Ub, FIRST, j - i, Wt[0])
        transpose(ub, FIRST, j - i, Wt[1])
        for a in range(2):
            add_rounded_gram(Wt[a], Wt[1], j - i, a == 1, square, grams[a])
    return energy, grams[0], grams[1]


@compiled
def project(U: Array, D: Array, g: Array, z: Array, lo: int, hi: int, block: int) -> Any:
    """Replace z by ``max(0, U + D + z) - (U + D)``; <g,z>, D'z, U'z, z'z."""
    k = U.shape[1]
    grams, Wt = np.zeros((3, k, k)), np.empty((3, k, block), U.dtype)
    square, zero, slope = np.empty((k, k)), U.dtype.type(0), 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, Db, zb = U[i:j], D[i:j], z[i:j]
        Uf, Df, zf = Ub.reshape(-1), Db.reshape(-1), zb.reshape(-1)
        for e in range(zf.size):
            here = Uf[e] + Df[e]
            zf[e] = max(here + zf[e], zero) - here
        slope += inner(g[i:j].reshape(-1), zf, zf.size)
        transpose(Db, FIRST, j - i, Wt[0])
        transpose(Ub, FIRST, j - i, Wt[1])
        transpose(zb, FIRST, j - i, Wt[2])
        for a in range(3):
            add_rounded_gram(Wt[a], Wt[2], j - i, a == 2, square, grams[a])
    return slope, grams[0], grams[1], grams[2]


@compiled
def combine(
    X: Source,
    U: Array,
    D: Array,
    z: Array,
    tau: Array,
    stretch: Array,
    m: int,
    starts: NDArray[np.intp],
    lo: int,
    hi: int,
    block: int,
) -> Any:
    """``D += tau z``, times `stretch`, cut off where codes would become negative; the sums X'D, U'D, D'D."""
    r, k = len(tau), D.shape[2]
    PD, UD, DD = no_sums(X, m, r * k), np.zeros((r, k, k)), np.zeros((r, k, k))
    square, Ut, directions = np.empty((k, k)), np.empty((k, block), D.dtype), np.empty(r * k * block, D.dtype)
    work = push_scratch(X, r * k, D)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Dt = directions[: r * k * width].reshape((r * k, width))
        for q in range(r):
            scale, longer, own = D.dtype.type(tau[q]), D.dtype.type(stretch[q]), Dt[q * k : (q + 1) * k]
            Ub, Db = U[starts[q]][i:j], D[starts[q]][i:j]
            Uf, Df, zf = Ub.reshape(-1), Db.reshape(-1), z[starts[q]][i:j].reshape(-1)
            for e in range(Df.size):
                Df[e] = max(longer * (Df[e] + scale * zf[e]), -Uf[e])
            transpose(Ub, FIRST, width, Ut)
            transpose(Db, FIRST, width, own)
            add_gram(Ut, own, width, DIFFERENT, square, UD[q])
            add_gram(own, own, width, SAME, square, DD[q])
        push(X, Dt, i, j, work, PD)
    return PD, UD, DD
