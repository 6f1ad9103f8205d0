"""The newton-cg model: X once for the pull and once for the sums, in between only n x k arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source, add_gram, features_scratch, no_sums, pull, push
from dspnmf.backends.kernels.sweeps import inverse_diagonals, sweep


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
    UD, DD, UA, AA, DA = np.zeros(S.shape), np.zeros(S.shape), np.zeros(S.shape), np.zeros(S.shape), np.zeros(S.shape)
    square, rest = np.empty((k, k), U.dtype), np.empty(block, U.dtype)
    Gt, Yt, A = np.empty((k, block), U.dtype), np.empty((k, block), U.dtype), np.empty((block, k), U.dtype)
    wide, US = np.empty((block, r * k)), np.empty((block, k))
    curvature = S.astype(U.dtype)
    inverse = inverse_diagonals(curvature)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ab, USb = A[:width], US[:width]
        pull(X, M, i, j, wide[:width])
        for q in range(r):
            step, column = U.dtype.type(t[q]), q * k
            Ub, Db, gb = U[starts[q]][i:j], D[starts[q]][i:j], g[starts[q]][i:j]
            for b in range(width):
                for a in range(k):
                    u = max(Ub[b, a] + step * Db[b, a], zero)
                    Ub[b, a] = u
                    Yt[a, b] = u
                    if E is not None:
                        wide[b, column + a] += E[q, i + b, a]
                    Gt[a, b] = wide[b, column + a]
            np.dot(Ub.astype(np.float64), S[q], USb)
            curve = None if kappa is None else kappa[q]
            for b in range(width):
                for a in range(k):
                    gb[b, a] = USb[b, a] - wide[b, column + a]
            if delta is not None:
                if delta.size > 0:
                    for b in range(width):
                        for a in range(k):
                            gb[b, a] += delta[i + b] * curve[a] * Ub[b, a]
            for _ in range(sweeps[q]):
                sweep(Yt, Gt, curvature[q], inverse[q], delta, curve, i, rest, width)
            for b in range(width):
                for a in range(k):
                    y = Yt[a, b]
                    Db[b, a] = y - Ub[b, a]
                    Ab[b, a] = Db[b, a] if y == 0 else zero
            slope[q] += inner(gb, Db)
            slope_A[q] += inner(gb, Ab)
            add_gram(Ub, Db, square, UD[q])
            add_gram(Db, Db, square, DD[q])
            add_gram(Ub, Ab, square, UA[q])
            add_gram(Ab, Ab, square, AA[q])
            add_gram(Db, Ab, square, DA[q])
    return slope, UD, DD, slope_A, UA, AA, DA


@compiled
def inner(A: Array, B: Array) -> float:
    """<A, B> of two blocks, in four sums that do not wait for each other."""
    af, bf = A.reshape(-1), B.reshape(-1)
    s0, s1, s2, s3, e = 0.0, 0.0, 0.0, 0.0, 0
    while e + 4 <= af.size:
        s0 += af[e] * bf[e]
        s1 += af[e + 1] * bf[e + 1]
        s2 += af[e + 2] * bf[e + 2]
        s3 += af[e + 3] * bf[e + 3]
        e += 4
    while e < af.size:
        s0 += af[e] * bf[e]
        e += 1
    return (s0 + s1) + (s2 + s3)


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
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ub, Db, gb, rb, ub, fb = U[i:j], D[i:j], g[i:j], r[i:j], u[i:j], free[i:j]
        for b in range(width):
            for a in range(k):
                Db[b, a] *= scale_A if Ub[b, a] + Db[b, a] == 0 else scale
        np.dot(Db, S, DS[:width])
        np.dot(Ub, C, UC[:width])
        for b in range(width):
            for a in range(k):
                slope = gb[b, a] + DS[b, a] + UC[b, a]
                if W is not None:
                    slope += W[i + b, a]
                is_free = Ub[b, a] + Db[b, a] > 0 or slope < 0
                fb[b, a] = is_free
                rb[b, a] = -slope if is_free else zero
        np.dot(rb, T, ub)
        add_gram(Ub, rb, square, Ur)
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
        Ub, rb, ub, fb = U[i:j], r[i:j], u[i:j], free[i:j]
        np.dot(ub, S, uS[: j - i])
        np.dot(Ub, C, UC[: j - i])
        if W is not None:
            for b in range(j - i):
                for a in range(k):
                    UC[b, a] += W[i + b, a]
        rf, uf, ff = rb.reshape(-1), ub.reshape(-1), fb.reshape(-1)
        pf, qf, zf = p[i:j].reshape(-1), q[i:j].reshape(-1), z[i:j].reshape(-1)
        for e in range(rf.size):
            pf[e] = uf[e] + mix * pf[e]
            qf[e] = (uSf[e] + UCf[e] if ff[e] else zero) + mix * qf[e]
            zf[e] += step * pf[e]
            rf[e] -= step * qf[e]
        np.dot(rb, T, ub)
        add_gram(Ub, rb, square, Ur)
    return Ur


@compiled
def couple(U: Array, r: Array, u: Array, free: NDArray[np.bool_], C: Array, lo: int, hi: int, block: int) -> Any:
    """``u + U C`` on the free entries, zero on the others; <r,u>, U'u, u'u."""
    k = C.shape[0]
    Uu, uu, energy = np.zeros((k, k)), np.zeros((k, k)), 0.0
    square, UC, zero = np.empty((k, k), U.dtype), np.empty((block, k), U.dtype), U.dtype.type(0)
    UCf = UC.reshape(-1)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, ub = U[i:j], u[i:j]
        np.dot(Ub, C, UC[: j - i])
        uf, ff = ub.reshape(-1), free[i:j].reshape(-1)
        for e in range(uf.size):
            uf[e] = uf[e] + UCf[e] if ff[e] else zero
        energy += inner(r[i:j], ub)
        add_gram(Ub, ub, square, Uu)
        add_gram(ub, ub, square, uu)
    return energy, Uu, uu


@compiled
def project(U: Array, D: Array, g: Array, z: Array, lo: int, hi: int, block: int) -> Any:
    """Replace z by ``max(0, U + D + z) - (U + D)``; <g,z>, D'z, U'z, z'z."""
    k = U.shape[1]
    Dz, Uz, zz = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    square, zero = np.empty((k, k), U.dtype), U.dtype.type(0)
    slope = 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, Db, gb, zb = U[i:j], D[i:j], g[i:j], z[i:j]
        for b in range(j - i):
            for a in range(k):
                here = Ub[b, a] + Db[b, a]
                zb[b, a] = max(here + zb[b, a], zero) - here
        slope += inner(gb, zb)
        add_gram(Db, zb, square, Dz)
        add_gram(Ub, zb, square, Uz)
        add_gram(zb, zb, square, zz)
    return slope, Dz, Uz, zz


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
    wide, square = np.empty((block, r * k), D.dtype), np.empty((k, k))
    work = features_scratch(X, wide)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        for q in range(r):
            scale, longer, column = D.dtype.type(tau[q]), D.dtype.type(stretch[q]), q * k
            Ub, Db, zb = U[starts[q]][i:j], D[starts[q]][i:j], z[starts[q]][i:j]
            for b in range(j - i):
                for a in range(k):
                    d = max(longer * (Db[b, a] + scale * zb[b, a]), -Ub[b, a])
                    Db[b, a] = d
                    wide[b, column + a] = d
            precise = Db.astype(np.float64)
            add_gram(Ub.astype(np.float64), precise, square, UD[q])
            add_gram(precise, precise, square, DD[q])
        push(X, wide[: j - i], i, j, work, PD)
    return PD, UD, DD
