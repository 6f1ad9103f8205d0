"""The newton-cg model: X once for the pull and once for the sums, in between only n x k arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source, add_gram, features_scratch, pull, push
from dspnmf.backends.kernels.sweeps import inverse_diagonal, sweep


@compiled
def face(
    X: Source,
    E: Array | None,
    delta: Array | None,
    U: Array,
    D: Array,
    g: Array,
    kappa: Array,
    t: float,
    M: Array,
    S: Array,
    lo: int,
    hi: int,
    block: int,
    sweeps: int,
) -> Any:
    """Take the pending step, leave half the gradient in g and the direction of a few sweeps in D.

    M and S are float64: near the end the gradient is far smaller than the two products it is the difference of.
    Returns <g,D>, U'D, D'D and <g,A>, U'A, A'A, D'A for the part A of D that ends at zero.
    """
    k = S.shape[0]
    UD, DD, UA, AA, DA = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    square = np.empty((k, k), U.dtype)
    Gt, Yt, rest = np.empty((k, block), U.dtype), np.empty((k, block), U.dtype), np.empty(block, U.dtype)
    G, US, A = np.empty((block, k)), np.empty((block, k)), np.empty((block, k), U.dtype)
    curvature, step, zero = S.astype(U.dtype), U.dtype.type(t), U.dtype.type(0)
    inverse = inverse_diagonal(curvature, 1e-14 if U.itemsize == 4 else 1e-30)
    slope, slope_A = 0.0, 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ub, Db, gb, Gb, Ab, USb = U[i:j], D[i:j], g[i:j], G[:width], A[:width], US[:width]
        pull(X, M, i, j, Gb)
        for b in range(width):
            for a in range(k):
                u = max(Ub[b, a] + step * Db[b, a], zero)
                Ub[b, a] = u
                Yt[a, b] = u
                if E is not None:
                    Gb[b, a] += E[i + b, a]
                Gt[a, b] = Gb[b, a]
        np.dot(Ub.astype(np.float64), S, USb)
        for b in range(width):
            for a in range(k):
                gb[b, a] = USb[b, a] - Gb[b, a]
                if delta is not None:
                    gb[b, a] += delta[i + b] * kappa[a] * Ub[b, a]
        for _ in range(sweeps):
            sweep(Yt, Gt, curvature, inverse, delta, kappa, i, rest, width)
        for b in range(width):
            for a in range(k):
                y = Yt[a, b]
                Db[b, a] = y - Ub[b, a]
                Ab[b, a] = Db[b, a] if y == 0 else zero
                slope += gb[b, a] * Db[b, a]
                slope_A += gb[b, a] * Ab[b, a]
        add_gram(Ub, Db, square, UD)
        add_gram(Db, Db, square, DD)
        add_gram(Ub, Ab, square, UA)
        add_gram(Ab, Ab, square, AA)
        add_gram(Db, Ab, square, DA)
    return slope, UD, DD, slope_A, UA, AA, DA


@compiled
def precondition(r: Array, free: NDArray[np.bool_], T: Array, u: Array) -> float:
    """``u = r T`` on the free entries of a block; returns <r,u>."""
    np.dot(r, T, u)
    rf, uf, ff = r.reshape(-1), u.reshape(-1), free.reshape(-1)
    energy = 0.0
    for e in range(uf.size):
        uf[e] = uf[e] if ff[e] else 0
        energy += rf[e] * uf[e]
    return energy


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
    """Shorten D by tau, its part that ends at zero by sigma; the residual there, preconditioned.

    r is the negative gradient of the model (``A[D] = D S + U C + W``) on the free entries, u = r T; <r,u>, U'u, u'u.
    """
    k = S.shape[0]
    Uu, uu, energy = np.zeros((k, k)), np.zeros((k, k)), 0.0
    square = np.empty((k, k), U.dtype)
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
        energy += precondition(rb, fb, T, ub)
        add_gram(Ub, ub, square, Uu)
        add_gram(ub, ub, square, uu)
    return energy, Uu, uu


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
    """One preconditioned conjugate-gradient step in one look (q = A[p] by recurrence, Chronopoulos & Gear 1989).

    ``A[u] = u S + U C + W``; W may be None.
    """
    k = S.shape[0]
    Uu, uu, energy = np.zeros((k, k)), np.zeros((k, k)), 0.0
    square = np.empty((k, k), U.dtype)
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
        energy += precondition(rb, fb, T, ub)
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
                slope += gb[b, a] * zb[b, a]
        add_gram(Db, zb, square, Dz)
        add_gram(Ub, zb, square, Uz)
        add_gram(zb, zb, square, zz)
    return slope, Dz, Uz, zz


@compiled
def combine(
    X: Source, U: Array, D: Array, z: Array, tau: float, stretch: float, m: int, lo: int, hi: int, block: int
) -> Any:
    """``D += tau z``, times `stretch`, cut off where codes would become negative; the sums X'D, U'D, D'D."""
    k = D.shape[1]
    PD, UD, DD = np.zeros((m, k)), np.zeros((k, k)), np.zeros((k, k))
    work, square = features_scratch(X, D), np.empty((k, k))
    scale, longer = D.dtype.type(tau), D.dtype.type(stretch)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Ub, Db, zb = U[i:j], D[i:j], z[i:j]
        for b in range(j - i):
            for a in range(k):
                Db[b, a] = max(longer * (Db[b, a] + scale * zb[b, a]), -Ub[b, a])
        push(X, Db, i, j, work, PD)
        wide = Db.astype(np.float64)
        add_gram(Ub.astype(np.float64), wide, square, UD)
        add_gram(wide, wide, square, DD)
    return PD, UD, DD
