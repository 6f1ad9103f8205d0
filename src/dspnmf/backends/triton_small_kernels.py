"""Triton kernels for small arrays: components, the exact step, and the small side of conjugate gradients.

Arrays are k x k or m x k in float64; KP is k rounded up to a power of two. All but the sweeps are one program
each, or one for every row.
"""
# mypy: disable-error-code="attr-defined,no-untyped-def,no-untyped-call,operator,index,call-overload,misc"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def component_sweep(
    V, P, OFF, INV, CHANGE, m, number, settled,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, PROGRAMS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Sweep `number` over components (m x k, float64) in place, unless the one before changed little enough."""
    parts = tl.arange(0, PROGRAMS)
    if number > 0:
        before = tl.sum(tl.load(CHANGE + (number - 1) * PROGRAMS + parts), axis=0)
        if before <= settled * tl.sum(tl.load(CHANGE + parts), axis=0):
            return
    a = tl.arange(0, KP)
    change = tl.zeros([BM, KP], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(m, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        here, mask = rows[:, None] * K + a[None, :], (rows[:, None] < m) & (a[None, :] < K)
        old, g = tl.load(V + here, mask=mask, other=0.0), tl.load(P + here, mask=mask, other=0.0)
        Y = old
        for i in tl.range(0, K, num_stages=STAGES):
            inverse = tl.load(INV + i)
            rest = tl.sum(tl.where((a == i)[None, :], g, -tl.load(OFF + i * KP + a)[None, :] * Y), axis=1)
            moves = (a == tl.where(inverse > 0.0, i, -1))[None, :]
            Y = tl.where(moves, tl.maximum(rest * inverse, 0.0)[:, None], Y)
        change += (Y - old) * (Y - old)
        tl.store(V + here, Y, mask=mask)
    tl.store(CHANGE + number * PROGRAMS + tl.program_id(0), tl.sum(change))


@triton.jit
def curvature(
    S, down, across, OFF, INV, BETWEEN, ROUNDING: tl.constexpr, LEAST: tl.constexpr,
    K: tl.constexpr, KP: tl.constexpr, WIDE: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A row of S without its diagonal, and that diagonal's inverse; in BETWEEN without its block of KB too.

    All padded to WIDE. The inverse is 0 where the entry is `ROUNDING` of the largest, or below LEAST.
    """
    kind: tl.constexpr = OFF.dtype.element_ty
    i, a = tl.program_id(0), tl.arange(0, KP)
    row = tl.load(S + i * down + a * across, mask=(a < K) & (i < K), other=0.0).to(kind)
    diagonal = tl.load(S + a * (down + across), mask=a < K, other=0.0).to(kind)
    own = tl.sum(tl.where(a == i, diagonal, 0.0), axis=0)
    enough = own > tl.maximum(ROUNDING * tl.max(diagonal, axis=0), LEAST)
    tl.store(OFF + i * WIDE + a, tl.where(a == i, 0.0, row), mask=a < WIDE)
    tl.store(INV + i, tl.where(enough, 1.0 / tl.where(enough, own, 1.0), 0.0).to(kind))
    if KB > 0:
        tl.store(BETWEEN + i * WIDE + a, tl.where(a // KB == i // KB, 0.0, row), mask=a < WIDE)


@triton.jit
def quartic_step(C, T, END: tl.constexpr, POINTS: tl.constexpr):
    """The lowest point of a quartic on [0, 1], on [0, END], and it at the first; 0 where nothing lies below zero."""
    t = _lowest(C, 1.0, POINTS)
    tl.store(T, t)
    tl.store(T + 1, _lowest(C, END, POINTS))
    c1, c2, c3, c4 = tl.load(C), tl.load(C + 1), tl.load(C + 2), tl.load(C + 3)
    tl.store(T + 2, t * (c1 + t * (c2 + t * (c3 + t * c4))))


@triton.jit
def _lowest(C, END: tl.constexpr, POINTS: tl.constexpr):
    """By ever finer grids, then Newton's method between the neighbours of the best point."""
    c1, c2, c3, c4 = tl.load(C), tl.load(C + 1), tl.load(C + 2), tl.load(C + 3)
    grid = tl.arange(0, POINTS).to(tl.float64) / (POINTS - 1)
    low, width = tl.zeros([], tl.float64), tl.full([], END, tl.float64)
    t = low
    for _ in range(3):
        x = low + width * grid
        best = tl.argmin(x * (c1 + x * (c2 + x * (c3 + x * c4))), axis=0)
        t = low + width * (best.to(tl.float64) / (POINTS - 1))
        end = tl.minimum(t + width / (POINTS - 1), END)
        low = tl.maximum(t - width / (POINTS - 1), 0.0)
        width = end - low
    for _ in range(3):
        slope, curve = c1 + t * (2 * c2 + t * (3 * c3 + t * 4 * c4)), 2 * c2 + t * (6 * c3 + t * 12 * c4)
        t = tl.where(curve > 0.0, tl.minimum(tl.maximum(t - slope / curve, low), low + width), t)
    return tl.where(t * (c1 + t * (c2 + t * (c3 + t * c4))) < 0.0, t, 0.0)


@triton.jit
def _small(A, stride, K: tl.constexpr, KP: tl.constexpr):
    """A k x k array, padded with zeros."""
    a = tl.arange(0, KP)
    return tl.load(A + a[:, None] * stride + a[None, :], mask=(a[:, None] < K) & (a[None, :] < K), other=0.0)


@triton.jit
def coupling_part(UR, stride, PRECONDITIONER, OUT, K: tl.constexpr, KP: tl.constexpr):
    """`dspnmf.backends.small_arrays.coupling_part`, in one program."""
    B = _small(PRECONDITIONER + K * K, K, K, KP)
    F, H = _small(PRECONDITIONER + 2 * K * K, K, K, KP), _small(PRECONDITIONER + 3 * K * K, K, K, KP)
    W = tl.dot(tl.trans(B), tl.dot(_small(UR, stride, K, KP), B))
    C = tl.dot(tl.dot(B, F * (H * W - tl.trans(W))), tl.trans(B))
    a = tl.arange(0, KP)
    tl.store(OUT + a[:, None] * K + a[None, :], C, mask=(a[:, None] < K) & (a[None, :] < K))


@triton.jit(do_not_specialize=["reduction2", "eps"])
def conjugate_step(
    SLOPE, UW, of_UW, WW, of_WW, S, of_S, COUPLING, BEFORE, OUT, reduction2, eps,
    K: tl.constexpr, KP: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """`dspnmf.backends.small_arrays.conjugate_step`: OUT and BEFORE hold the five numbers of a step."""
    slope, across = tl.load(SLOPE), _small(UW, of_UW, K, KP)
    curvature = tl.sum(_small(WW, of_WW, K, KP) * _small(S, of_S, K, KP))
    curvature += tl.load(COUPLING) * tl.sum(across * tl.trans(across))
    beta, start, going = slope * 0.0, slope, True
    if not FIRST:
        alpha, going = tl.load(BEFORE), tl.load(BEFORE + 4) != 0.0
        beta, start = tl.where(going, slope / tl.load(BEFORE + 3), 0.0), tl.load(BEFORE + 2)
        curvature -= beta * slope / alpha
    going = (slope > reduction2 * start) & (curvature > eps * slope) & going
    tl.store(OUT, tl.where(going, slope / curvature, 0.0))
    tl.store(OUT + 1, beta)
    tl.store(OUT + 2, start)
    tl.store(OUT + 3, slope)
    tl.store(OUT + 4, tl.where(going, 1.0, 0.0))
