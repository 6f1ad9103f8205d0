"""Triton kernels for codes of few components: each holds all of a tile on the chip, and adds up what a look leaves.

As `dspnmf.backends.triton_kernels`: codes are stored k x n, KP is k rounded up. A program goes over many tiles and
leaves its share of the sums, `SUMS` squares (KP x KP) and a number, in float64. MODE says how products are made, SUMMED
how those of sums that only say how far to go along a direction, or how its rows are coupled: these need few digits.
"""
# mypy: disable-error-code="attr-defined,no-untyped-def,no-untyped-call,operator,index,call-overload,misc"

from __future__ import annotations

import triton
import triton.language as tl

from dspnmf.backends.triton_kernels import _product, _tile


@triton.jit
def _square(A, number: tl.constexpr, KP: tl.constexpr):
    """One of the small squares that conjugate gradients take."""
    a = tl.arange(0, KP)
    return tl.load(A + number * KP * KP + a[:, None] * KP + a[None, :])


@triton.jit
def _keep(OUT, number: tl.constexpr, total, SUMS: tl.constexpr, KP: tl.constexpr):
    """A program's share of a sum."""
    a = tl.arange(0, KP)
    out = OUT + tl.program_id(0) * (SUMS * KP * KP + 1) + number * KP * KP
    tl.store(out + a[:, None] * KP + a[None, :], total)


@triton.jit
def _keep_number(OUT, number, SUMS: tl.constexpr, KP: tl.constexpr):
    """A program's share of the number that comes last."""
    tl.store(OUT + tl.program_id(0) * (SUMS * KP * KP + 1) + SUMS * KP * KP, number)


@triton.jit
def _marked(r, free):
    """A residual on the free entries, -0.0 on the others: by that `_free` tells them apart, and sums do not see it."""
    bits = tl.where(r == 0.0, 0, r.to(tl.int32, bitcast=True))  # as bits, because Triton writes -0.0 as 0.0
    return tl.where(free, bits, -0x80000000).to(tl.float32, bitcast=True)


@triton.jit
def _free(r):
    """Which entries of a marked residual are free."""
    return r.to(tl.int32, bitcast=True) != -0x80000000


@triton.jit
def cg_start(
    U, D, G, R, A, STEPS, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, SUMMED: tl.constexpr, LONG: tl.constexpr,
    SUMS: tl.constexpr,
):  # fmt: skip
    """Shorten D; the residual R, marked; U R'. A holds S, and S + C."""
    kind: tl.constexpr = U.dtype.element_ty
    tau, sigma = tl.load(STEPS).to(kind), tl.load(STEPS + 1).to(kind)
    S, SC, UR = _square(A, 0, KP), _square(A, 1, KP), tl.zeros([KP, KP], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM), tl.num_programs(0)):
        here, mask = _tile(n, K, KP, BM, tile, 0, LONG)
        u, d = tl.load(U + here, mask=mask, other=0.0), tl.load(D + here, mask=mask, other=0.0)
        g = tl.load(G + here, mask=mask, other=0.0)
        d *= tl.where(u + d == 0.0, sigma, tau)
        tl.store(D + here, d, mask=mask)
        r = g - (_product(SC, u, MODE) + _product(S, d, MODE)).to(kind)
        r = _marked(r, (u + d > 0.0) | (r > 0.0))
        tl.store(R + here, r, mask=mask)
        UR += _product(u, tl.trans(r), SUMMED)
    _keep(OUT, 0, UR, SUMS, KP)


@triton.jit
def cg_step(
    U, R, W, Z, P, Q, MORE, A, STEPS, BEFORE, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, SUMMED: tl.constexpr, LONG: tl.constexpr,
    SUMS: tl.constexpr, DONE: tl.constexpr, OPERATORS: tl.constexpr,
):  # fmt: skip
    """One preconditioned conjugate-gradient step (Chronopoulos & Gear 1989) and U R'; DONE have been taken.

    A holds S and C. With OPERATORS, MORE is what these add to the curvature along W. The first leaves P and Z to the
    second: W becomes P, and Z is P times the length of that step (BEFORE). A third or later one of length zero means
    that all is done: nothing is read.
    """
    kind: tl.constexpr = U.dtype.element_ty
    alpha, beta, length = tl.load(STEPS).to(kind), tl.load(STEPS + 1).to(kind), tl.load(BEFORE).to(kind)
    if DONE > 1:
        if alpha == 0.0:
            return
    S, C, UR = _square(A, 0, KP), _square(A, 1, KP), tl.zeros([KP, KP], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM), tl.num_programs(0)):
        here, mask = _tile(n, K, KP, BM, tile, 0, LONG)
        u, w = tl.load(U + here, mask=mask, other=0.0), tl.load(W + here, mask=mask, other=0.0)
        q = (_product(S, w, MODE) + _product(C, u, MODE)).to(kind)
        if OPERATORS:
            q += tl.load(MORE + here, mask=mask, other=0.0)
        r = tl.load(R + here, mask=mask, other=0.0)
        free = _free(r)
        q = tl.where(free, q, 0.0)
        if DONE > 0:
            last = tl.load(P + here, mask=mask, other=0.0)
            p = w + beta * last
            q += beta * tl.load(Q + here, mask=mask, other=0.0)
            if DONE == 1:
                z = length * last
            else:
                z = tl.load(Z + here, mask=mask, other=0.0)
            tl.store(P + here, p, mask=mask)
            tl.store(Z + here, z + alpha * p, mask=mask)
        r = _marked(r - alpha * q, free)
        tl.store(Q + here, q, mask=mask)
        tl.store(R + here, r, mask=mask)
        UR += _product(u, tl.trans(r), SUMMED)
    _keep(OUT, 0, UR, SUMS, KP)


@triton.jit
def couple(
    U, R, W, A, GOING, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, SUMMED: tl.constexpr, LONG: tl.constexpr,
    SUMS: tl.constexpr, EMPTY: tl.constexpr,
):  # fmt: skip
    """W = T R + C U on the free entries, zero on the others: W W', U W', <R,W>. A holds T and C last of four.

    Nothing if GOING is 0, unless W is still empty, as the first step leaves it.
    """
    if not EMPTY:
        if tl.load(GOING) == 0.0:
            return
    kind: tl.constexpr = U.dtype.element_ty
    T, C = _square(A, 2, KP), _square(A, 3, KP)
    WW, UW, energy = tl.zeros([KP, KP], tl.float64), tl.zeros([KP, KP], tl.float64), tl.zeros([KP, BM], kind)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM), tl.num_programs(0)):
        here, mask = _tile(n, K, KP, BM, tile, 0, LONG)
        u, r = tl.load(U + here, mask=mask, other=0.0), tl.load(R + here, mask=mask, other=0.0)
        w = (_product(T, r, MODE) + _product(C, u, MODE)).to(kind)
        w = tl.where(_free(r), w, 0.0)
        tl.store(W + here, w, mask=mask)
        across = tl.trans(w)
        WW += _product(w, across, SUMMED)
        UW += _product(u, across, SUMMED)
        energy += r * w
    _keep(OUT, 0, WW, SUMS, KP)
    _keep(OUT, 1, UW, SUMS, KP)
    _keep_number(OUT, tl.sum(energy.to(tl.float64)), SUMS, KP)


@triton.jit
def project(
    U, D, G, Z, W, P, STEPS, BEFORE, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, SUMMED: tl.constexpr, LONG: tl.constexpr,
    SUMS: tl.constexpr, DONE: tl.constexpr,
):  # fmt: skip
    """The last conjugate-gradient step, Z += alpha (W + beta P); Z = max(0, U + D + Z) - (U + D).

    Sums: Z Z', D Z', U Z', <G,Z>. DONE steps before it have left P, or P and Z, as in `cg_step`.
    """
    kind: tl.constexpr = U.dtype.element_ty
    alpha, beta, length = tl.load(STEPS).to(kind), tl.load(STEPS + 1).to(kind), tl.load(BEFORE).to(kind)
    ZZ, DZ, UZ = tl.zeros([KP, KP], tl.float64), tl.zeros([KP, KP], tl.float64), tl.zeros([KP, KP], tl.float64)
    along = tl.zeros([KP, BM], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM), tl.num_programs(0)):
        here, mask = _tile(n, K, KP, BM, tile, 0, LONG)
        u, d = tl.load(U + here, mask=mask, other=0.0), tl.load(D + here, mask=mask, other=0.0)
        p = tl.load(W + here, mask=mask, other=0.0)
        z = tl.zeros_like(p)
        if DONE > 0:
            last = tl.load(P + here, mask=mask, other=0.0)
            p += beta * last
            if DONE == 1:
                z = length * last
            else:
                z = tl.load(Z + here, mask=mask, other=0.0)
        z = tl.maximum(u + d + (z + alpha * p), 0.0) - (u + d)
        tl.store(Z + here, z, mask=mask)
        across = tl.trans(z)
        ZZ += _product(z, across, SUMMED)
        DZ += _product(d, across, SUMMED)
        UZ += _product(u, across, MODE)
        along += (tl.load(G + here, mask=mask, other=0.0) * z).to(tl.float64)
    _keep(OUT, 0, ZZ, SUMS, KP)
    _keep(OUT, 1, DZ, SUMS, KP)
    _keep(OUT, 2, UZ, SUMS, KP)
    _keep_number(OUT, tl.sum(along), SUMS, KP)


@triton.jit
def combine(
    U, D, Z, STEPS, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, LONG: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """D = stretch (D + tau Z), cut off where codes would become negative: D D', U D'. STEPS: tau, stretch."""
    kind: tl.constexpr = U.dtype.element_ty
    tau, stretch = tl.load(STEPS).to(kind), tl.load(STEPS + 1).to(kind)
    DD, UD = tl.zeros([KP, KP], tl.float64), tl.zeros([KP, KP], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM), tl.num_programs(0)):
        here, mask = _tile(n, K, KP, BM, tile, 0, LONG)
        u, d = tl.load(U + here, mask=mask, other=0.0), tl.load(D + here, mask=mask, other=0.0)
        d = tl.maximum(stretch * (d + tau * tl.load(Z + here, mask=mask, other=0.0)), -u)
        tl.store(D + here, d, mask=mask)
        across = tl.trans(d)
        DD += _product(d, across, MODE)
        UD += _product(u, across, MODE)
    _keep(OUT, 0, DD, SUMS, KP)
    _keep(OUT, 1, UD, SUMS, KP)
