"""Triton kernels for float32 rows on a CUDA device: each reads what it needs of a tile once.

Codes and everything of their shape are stored transposed (k x n), so that neighbouring threads hold neighbouring
samples; KP is k rounded up to a power of two. Products run on the tensor units with float32 accuracy ("tf32x3": three
products of rounded halves), or in plain TF32 where Torch's own switch allows it. A program sums over a few thousand
rows in float32; what it leaves is added up in float64.
"""
# mypy: disable-error-code="attr-defined,no-untyped-def,no-untyped-call,operator,index,call-overload,misc"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, tile):
    """Where the entries of a tile of codes are, and which of them exist."""
    a, cols = tl.arange(0, KP), tile.to(tl.int64) * BM + tl.arange(0, BM)
    return a[:, None] * n.to(tl.int64) + cols[None, :], (a[:, None] < K) & (cols[None, :] < n)


@triton.jit
def pull(
    X, M, G, n, m, stride, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, MODE: tl.constexpr
):
    """G = (X M)'."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    a = tl.arange(0, KP)
    total = tl.zeros([BM, KP], tl.float32)
    for c in range(0, m, BK):
        cols = c + tl.arange(0, BK)
        x = tl.load(
            X + rows[:, None] * stride + cols[None, :], mask=(rows[:, None] < n) & (cols[None, :] < m), other=0.0
        )
        w = tl.load(M + cols[:, None] * KP + a[None, :], mask=cols[:, None] < m, other=0.0)
        total += tl.dot(x, w, input_precision=MODE)  # added here, because the tensor units cut off where they add
    here = a[:, None] * n.to(tl.int64) + rows[None, :]
    tl.store(G + here, tl.trans(total), mask=(a[:, None] < K) & (rows[None, :] < n))


@triton.jit
def push(
    X, D, PD, n, m, stride, span,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MODE: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """X'D over `span` rows."""
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    begin = tl.program_id(1).to(tl.int64) * span
    a = tl.arange(0, KP)
    total = tl.zeros([BN, KP], SUM)
    for r in range(0, span, BM):
        rows = begin + r + tl.arange(0, BM)
        x = tl.load(
            X + rows[:, None] * stride + cols[None, :], mask=(rows[:, None] < n) & (cols[None, :] < m), other=0.0
        )
        here = a[:, None] * n.to(tl.int64) + rows[None, :]
        d = tl.load(D + here, mask=(a[:, None] < K) & (rows[None, :] < n), other=0.0)
        total += tl.dot(tl.trans(x), tl.trans(d), input_precision=MODE)
    out = PD + tl.program_id(1).to(tl.int64) * m * KP
    tl.store(out + cols[:, None] * KP + a[None, :], total, mask=cols[:, None] < m)


@triton.jit
def gram(
    A, B, C, GOING, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, TWO: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """A C', C C' and, if TWO, B C'. PART: A are codes, B a direction, C the part of it that ends at zero."""
    if tl.load(GOING) == 0.0:
        return
    a = tl.arange(0, KP)
    square = a[:, None] * KP + a[None, :]
    AC, CC, BC = tl.zeros([KP, KP], tl.float64), tl.zeros([KP, KP], tl.float64), tl.zeros([KP, KP], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM), tl.num_programs(0)):
        here, mask = _tile(n, K, KP, BM, tile)
        x = tl.load(A + here, mask=mask, other=0.0)
        if TWO:
            y = tl.load(B + here, mask=mask, other=0.0)
        z = tl.where(x + y == 0.0, y, 0.0) if PART else tl.load(C + here, mask=mask, other=0.0)
        across = tl.trans(z)
        AC += tl.dot(x, across, input_precision=MODE)
        CC += tl.dot(z, across, input_precision=MODE)
        if TWO:
            BC += tl.dot(y, across, input_precision=MODE)
    out = OUT + tl.program_id(0) * (3 * KP * KP)
    tl.store(out + square, AC)
    tl.store(out + KP * KP + square, CC)
    tl.store(out + 2 * KP * KP + square, BC)


@triton.jit
def _moved(Y, g, OFF, INV, i, a, KP: tl.constexpr):
    """Component i of a tile at its best: OFF is the curvature without its diagonal, INV that diagonal's inverse."""
    at, inverse = (a == i)[:, None], tl.load(INV + i)
    rest = tl.sum(tl.where(at, g, -tl.load(OFF + i * KP + a)[:, None] * Y), axis=0)
    return tl.where(at & (inverse > 0.0), tl.maximum(rest * inverse, 0.0)[None, :], Y)


@triton.jit
def _sweep(Y, g, OFF, INV, K: tl.constexpr, KP: tl.constexpr):
    """One HALS sweep of a tile (KP x BM) whose pull is g."""
    a = tl.arange(0, KP)
    if KP <= 32:
        for i in tl.static_range(K):
            Y = _moved(Y, g, OFF, INV, i, a, KP)
    else:
        for i in range(K):
            Y = _moved(Y, g, OFF, INV, i, a, KP)
    return Y


@triton.jit
def look(G, U, D, OFF, INV, T, OUT, n, sweeps, stretch, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr):
    """Take the pending step T, sweep, leave the direction in D; the first and the last sweep's squared change."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    u = tl.load(U + here, mask=mask, other=0.0) + tl.load(T).to(tl.float32) * tl.load(D + here, mask=mask, other=0.0)
    u = tl.maximum(u, 0.0)
    g = tl.load(G + here, mask=mask, other=0.0)
    Y, first, last = u, 0.0, 0.0
    for i in range(sweeps):
        before = Y
        Y = _sweep(Y, g, OFF, INV, K, KP)
        last = tl.sum((Y - before) * (Y - before))
        first = tl.where(i == 0, last, first)
    tl.store(U + here, u, mask=mask)
    tl.store(D + here, tl.maximum(stretch * (Y - u), -u), mask=mask)
    tl.store(OUT + 2 * tl.program_id(0), first)
    tl.store(OUT + 2 * tl.program_id(0) + 1, last)


@triton.jit
def face(G, U, D, OFF, INV, T, OUT, n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, SWEEPS: tl.constexpr):
    """Take the pending step, leave the direction of the sweeps in D; <G,D>, <G,A> for its part A that ends at zero."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    u = tl.load(U + here, mask=mask, other=0.0) + tl.load(T).to(tl.float32) * tl.load(D + here, mask=mask, other=0.0)
    u = tl.maximum(u, 0.0)
    g = tl.load(G + here, mask=mask, other=0.0)
    Y = u
    for _ in tl.static_range(SWEEPS):
        Y = _sweep(Y, g, OFF, INV, K, KP)
    d = Y - u
    tl.store(U + here, u, mask=mask)
    tl.store(D + here, d, mask=mask)
    tl.store(OUT + 2 * tl.program_id(0), tl.sum(g * d))
    tl.store(OUT + 2 * tl.program_id(0) + 1, tl.sum(tl.where(Y == 0.0, g * d, 0.0)))


@triton.jit
def cg_start(
    U, D, G, R, W, FREE, S, C, T, STEPS, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """Shorten D; residual R on the free entries, W = T R. Sum: <R,W>."""
    a = tl.arange(0, KP)
    square = a[:, None] * KP + a[None, :]
    tau, sigma = tl.load(STEPS).to(tl.float32), tl.load(STEPS + 1).to(tl.float32)
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    u, d = tl.load(U + here, mask=mask, other=0.0), tl.load(D + here, mask=mask, other=0.0)
    d *= tl.where(u + d == 0.0, sigma, tau)
    tl.store(D + here, d, mask=mask)
    slope = tl.dot(tl.load(S + square), u + d, input_precision=MODE) - tl.load(G + here, mask=mask, other=0.0)
    slope += tl.dot(tl.load(C + square), u, input_precision=MODE)
    free = ((u + d > 0.0) | (slope < 0.0)) & mask
    tl.store(FREE + here, free.to(tl.int8), mask=mask)
    r = tl.where(free, -slope, 0.0)
    tl.store(R + here, r, mask=mask)
    w = tl.where(free, tl.dot(tl.load(T + square), r, input_precision=MODE), 0.0)
    tl.store(W + here, w, mask=mask)
    tl.store(OUT + tl.program_id(0), tl.sum(r * w))


@triton.jit
def cg_step(
    U, R, W, FREE, Z, P, Q, A, S, C, T, STEPS, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, FIRST: tl.constexpr,
    OPERATORS: tl.constexpr,
):  # fmt: skip
    """One preconditioned conjugate-gradient step in one look (Chronopoulos & Gear 1989). Sum: <R,W>.

    With OPERATORS, A is what these add to the curvature along W. The first step finds Z, P and Q empty. A later one of
    length zero means that all is done: nothing is read.
    """
    alpha, beta = tl.load(STEPS).to(tl.float32), tl.load(STEPS + 1).to(tl.float32)
    if not FIRST:
        if alpha == 0.0:
            return
    a = tl.arange(0, KP)
    square = a[:, None] * KP + a[None, :]
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    w = tl.load(W + here, mask=mask, other=0.0)
    curved = tl.dot(tl.load(S + square), w, input_precision=MODE)
    curved += tl.dot(tl.load(C + square), tl.load(U + here, mask=mask, other=0.0), input_precision=MODE)
    if OPERATORS:
        curved += tl.load(A + here, mask=mask, other=0.0)
    free = tl.load(FREE + here, mask=mask, other=0) != 0
    p, q, z = w, tl.where(free, curved, 0.0), alpha * w
    if not FIRST:
        p += beta * tl.load(P + here, mask=mask, other=0.0)
        q += beta * tl.load(Q + here, mask=mask, other=0.0)
        z = tl.load(Z + here, mask=mask, other=0.0) + alpha * p
    tl.store(P + here, p, mask=mask)
    tl.store(Q + here, q, mask=mask)
    tl.store(Z + here, z, mask=mask)
    r = tl.load(R + here, mask=mask, other=0.0) - alpha * q
    tl.store(R + here, r, mask=mask)
    w = tl.where(free, tl.dot(tl.load(T + square), r, input_precision=MODE), 0.0)
    tl.store(W + here, w, mask=mask)
    tl.store(OUT + tl.program_id(0), tl.sum(r * w))


@triton.jit
def project(U, D, G, Z, OUT, n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr):
    """Z = max(0, U + D + Z) - (U + D). Sum: <G,Z>."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    there = tl.load(U + here, mask=mask, other=0.0) + tl.load(D + here, mask=mask, other=0.0)
    z = tl.maximum(there + tl.load(Z + here, mask=mask, other=0.0), 0.0) - there
    tl.store(Z + here, z, mask=mask)
    tl.store(OUT + tl.program_id(0), tl.sum(tl.load(G + here, mask=mask, other=0.0) * z))


@triton.jit
def combine(U, D, Z, STEPS, n, stretch, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr):
    """D = stretch (D + tau Z), cut off where codes would become negative."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    longer = tl.load(D + here, mask=mask, other=0.0)
    longer += tl.load(STEPS).to(tl.float32) * tl.load(Z + here, mask=mask, other=0.0)
    tl.store(D + here, tl.maximum(stretch * longer, -tl.load(U + here, mask=mask, other=0.0)), mask=mask)


@triton.jit
def solve(G, U, OFF, INV, n, most, tol, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr):
    """Codes of every sample under its convex model, from zero, by sweeps until a tile changes no more."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    Y, g = tl.zeros([KP, BM], tl.float32), tl.load(G + here, mask=mask, other=0.0)
    done, going = 0, 1
    while (done < most) & (going > 0):
        before = Y
        Y = _sweep(Y, g, OFF, INV, K, KP)
        done += 1
        going = (tl.sum((Y - before) * (Y - before)) > tol * tl.sum(Y * Y)).to(tl.int32)
    tl.store(U + here, Y, mask=mask)


@triton.jit
def component_sweep(
    V, P, OFF, INV, CHANGE, m, number, settled,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, PROGRAMS: tl.constexpr,
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
        for i in range(K):
            at, inverse = (a == i)[None, :], tl.load(INV + i)
            rest = tl.sum(tl.where(at, g, -tl.load(OFF + i * KP + a)[None, :] * Y), axis=1)
            Y = tl.where(at & (inverse > 0.0), tl.maximum(rest * inverse, 0.0)[:, None], Y)
        change += (Y - old) * (Y - old)
        tl.store(V + here, Y, mask=mask)
    tl.store(CHANGE + number * PROGRAMS + tl.program_id(0), tl.sum(change))


@triton.jit
def quartic_step(C, T, END: tl.constexpr, POINTS: tl.constexpr):
    """The lowest point of a quartic on [0, 1], and on [0, END]; 0 where nothing lies below zero."""
    tl.store(T, _lowest(C, 1.0, POINTS))
    tl.store(T + 1, _lowest(C, END, POINTS))


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
