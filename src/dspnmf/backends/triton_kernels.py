"""Triton kernels for rows on a CUDA device: each reads what it needs of a tile once.

Codes and everything of their shape are stored transposed (k x n), so that neighbouring threads hold neighbouring
samples. Components come in blocks of KB, a power of two; KP is k rounded up to whole blocks. MODE says how products are
made: in "float64" (tiles are widened where they are used: sums of float32 products are exact to float64), or of float32
on the tensor units, as "tf32x3" (three products of rounded halves: float32 accuracy) or plain "tf32".
"""
# mypy: disable-error-code="attr-defined,no-untyped-def,no-untyped-call,operator,index,call-overload,misc"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, tile, row=0, LONG: tl.constexpr = True):
    """Where KP rows of a tile of codes are, and which entries exist; LONG: there may be 2^31 of them or more."""
    a, cols = row + tl.arange(0, KP), tile * BM + tl.arange(0, BM)
    mask = (a[:, None] < K) & (cols[None, :] < n)
    if LONG:
        here = a[:, None].to(tl.int64) * n + cols[None, :]
    else:
        here = a[:, None] * n + cols[None, :]
    return here, mask


@triton.jit
def _product(x, y, MODE: tl.constexpr):
    """The product of two tiles."""
    if MODE == "float64":
        product = tl.dot(x.to(tl.float64), y.to(tl.float64))
    else:
        product = tl.dot(x, y, input_precision=MODE)
    return product


@triton.jit
def _widened(x, MODE: tl.constexpr):
    """A tile as `_product` takes it: widened once where several products follow."""
    if MODE == "float64":
        x = x.to(tl.float64)
    return x


@triton.jit
def pull(
    X, M, G, n, m, stride,
    K: tl.constexpr, KP: tl.constexpr, KA: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    MODE: tl.constexpr,
):  # fmt: skip
    """G = (X M)', KA + KB components a program; programs with neighbouring numbers share rows of X."""
    blocks: tl.constexpr = KP // (KA + KB)
    kind: tl.constexpr = tl.float64 if MODE == "float64" else tl.float32
    rows = (tl.program_id(0) // blocks).to(tl.int64) * BM + tl.arange(0, BM)
    a = (tl.program_id(0) % blocks) * (KA + KB) + tl.arange(0, KA)
    total = tl.zeros([BM, KA], kind)
    if KB > 0:
        b = (tl.program_id(0) % blocks) * (KA + KB) + KA + tl.arange(0, KB)
        more = tl.zeros([BM, KB], kind)
    for c in range(0, m, BK):
        cols = c + tl.arange(0, BK)
        x = tl.load(
            X + rows[:, None] * stride + cols[None, :], mask=(rows[:, None] < n) & (cols[None, :] < m), other=0.0
        )
        x = _widened(x, MODE)
        w = tl.load(M + cols[:, None] * KP + a[None, :], mask=cols[:, None] < m, other=0.0)
        total += _product(x, w, MODE)  # added here, because the tensor units cut off where they add
        if KB > 0:
            w = tl.load(M + cols[:, None] * KP + b[None, :], mask=cols[:, None] < m, other=0.0)
            more += _product(x, w, MODE)
    here = a[:, None].to(tl.int64) * n + rows[None, :]
    tl.store(G + here, tl.trans(total).to(G.dtype.element_ty), mask=(a[:, None] < K) & (rows[None, :] < n))
    if KB > 0:
        here = b[:, None].to(tl.int64) * n + rows[None, :]
        tl.store(G + here, tl.trans(more).to(G.dtype.element_ty), mask=(b[:, None] < K) & (rows[None, :] < n))


@triton.jit
def push(
    X, D, OUT, n, m, stride, span,
    K: tl.constexpr, KP: tl.constexpr, KA: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    MODE: tl.constexpr,
):  # fmt: skip
    """X'D over `span` rows, added up in float64, KA + KB components a program; neighbouring programs share rows."""
    blocks: tl.constexpr = KP // (KA + KB)
    wide = tl.cdiv(m, BN)
    cols = (tl.program_id(0) % wide) * BN + tl.arange(0, BN)
    a = (tl.program_id(0) // wide % blocks) * (KA + KB) + tl.arange(0, KA)
    part = (tl.program_id(0) // (wide * blocks)).to(tl.int64)
    total = tl.zeros([BN, KA], tl.float64)
    if KB > 0:
        b = (tl.program_id(0) // wide % blocks) * (KA + KB) + KA + tl.arange(0, KB)
        more = tl.zeros([BN, KB], tl.float64)
    for r in range(0, span, BM):
        rows = part * span + r + tl.arange(0, BM)
        x = tl.load(
            X + rows[:, None] * stride + cols[None, :], mask=(rows[:, None] < n) & (cols[None, :] < m), other=0.0
        )
        x = tl.trans(_widened(x, MODE))
        here = a[:, None].to(tl.int64) * n + rows[None, :]
        d = tl.load(D + here, mask=(a[:, None] < K) & (rows[None, :] < n), other=0.0)
        total += _product(x, tl.trans(d), MODE)
        if KB > 0:
            here = b[:, None].to(tl.int64) * n + rows[None, :]
            d = tl.load(D + here, mask=(b[:, None] < K) & (rows[None, :] < n), other=0.0)
            more += _product(x, tl.trans(d), MODE)
    out = OUT + part * m * KP + cols[:, None] * KP
    tl.store(out + a[None, :], total, mask=cols[:, None] < m)
    if KB > 0:
        tl.store(out + b[None, :], more, mask=cols[:, None] < m)


@triton.jit
def gram(
    C, A, B, GOING, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr, LEFT: tl.constexpr,
    PART: tl.constexpr,
):  # fmt: skip
    """C C', and with LEFT of 1 and 2 A C' and B C'. PART: A are codes, B a direction, C its part that ends at zero."""
    if tl.load(GOING) == 0.0:
        return
    blocks: tl.constexpr = KP // KB
    b = tl.arange(0, KB)
    i, j = tl.program_id(0) // blocks % blocks * KB + b, tl.program_id(0) % blocks * KB + b
    CC, AC, BC = tl.zeros([KB, KB], tl.float64), tl.zeros([KB, KB], tl.float64), tl.zeros([KB, KB], tl.float64)
    programs = tl.num_programs(0) // (blocks * blocks)
    number = tl.program_id(0) // (blocks * blocks)
    for tile in range(number, tl.cdiv(n, BM), programs):
        cols = (tile * BM + tl.arange(0, BM)).to(tl.int64)
        first, second = i[:, None].to(tl.int64) * n + cols[None, :], j[:, None].to(tl.int64) * n + cols[None, :]
        one, two = (i[:, None] < K) & (cols[None, :] < n), (j[:, None] < K) & (cols[None, :] < n)
        if LEFT > 0:
            x = tl.load(A + first, mask=one, other=0.0)
        if LEFT > 1:
            y = tl.load(B + first, mask=one, other=0.0)
        if PART:
            z = tl.where(x + y == 0.0, y, 0.0)
        else:
            z = tl.load(C + first, mask=one, other=0.0)
        if blocks == 1:
            across = tl.trans(z)
        elif PART:
            d = tl.load(B + second, mask=two, other=0.0)
            across = tl.trans(tl.where(tl.load(A + second, mask=two, other=0.0) + d == 0.0, d, 0.0))
        else:
            across = tl.trans(tl.load(C + second, mask=two, other=0.0))
        CC += _product(z, across, MODE)
        if LEFT > 0:
            AC += _product(x, across, MODE)
        if LEFT > 1:
            BC += _product(y, across, MODE)
    out = OUT + number * ((1 + LEFT) * KP * KP) + i[:, None] * KP + j[None, :]
    tl.store(out, CC)
    if LEFT > 0:
        tl.store(out + KP * KP, AC)
    if LEFT > 1:
        tl.store(out + 2 * KP * KP, BC)


@triton.jit
def facts(X, OUT, n, m, stride, BM: tl.constexpr, BN: tl.constexpr):
    """Of a share of X: the largest entry, the sums of entries and of squares, and how many are not allowed."""
    most, total = tl.full([BM, BN], 0.0, X.dtype.element_ty), tl.zeros([BM, BN], tl.float64)
    squares, bad = tl.zeros([BM, BN], tl.float64), tl.zeros([BM, BN], tl.int32)
    wide = tl.cdiv(m, BN)
    for tile in range(tl.program_id(0), tl.cdiv(n, BM) * wide, tl.num_programs(0)):
        rows, cols = (tile // wide * BM + tl.arange(0, BM)).to(tl.int64), tile % wide * BN + tl.arange(0, BN)
        mask = (rows[:, None] < n) & (cols[None, :] < m)
        x = tl.load(X + rows[:, None] * stride + cols[None, :], mask=mask, other=0.0)
        good = (x >= 0.0) & (x < float("inf"))
        bad += tl.where(good, 0, 1)
        most = tl.where(good & (x > most), x, most)
        total += x.to(tl.float64)
        squares += x.to(tl.float64) * x.to(tl.float64)
    tl.store(OUT + 4 * tl.program_id(0), tl.max(tl.max(most, axis=1), axis=0).to(tl.float64))
    tl.store(OUT + 4 * tl.program_id(0) + 1, tl.sum(total))
    tl.store(OUT + 4 * tl.program_id(0) + 2, tl.sum(squares))
    tl.store(OUT + 4 * tl.program_id(0) + 3, tl.sum(bad).to(tl.float64))


@triton.jit
def _moved(Y, g, OFF, INV, i, a, KP: tl.constexpr):
    """Component i of a tile at its best: OFF is the curvature without its diagonal, INV that diagonal's inverse."""
    inverse = tl.load(INV + i)
    rest = tl.sum(tl.where((a == i)[:, None], g, -tl.load(OFF + i * KP + a)[:, None] * Y), axis=0)
    moves = (a == tl.where(inverse > 0.0, i, -1))[:, None]
    return tl.where(moves, tl.maximum(rest * inverse, 0.0)[None, :], Y)


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
def _stepped(U, D, T, here, mask):
    """Codes of a tile after the pending step."""
    u = tl.load(U + here, mask=mask, other=0.0)
    return tl.maximum(u + tl.load(T).to(u.dtype) * tl.load(D + here, mask=mask, other=0.0), 0.0)


@triton.jit
def look(G, U, D, OFF, INV, T, STRETCH, SWEEPS, OUT, n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr):
    """Take the pending step T, sweep, leave the direction in D.

    Sums: the first and the last sweep's squared change, <G,D>, and <G,A> for the part A of D that ends at zero.
    """
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    u = _stepped(U, D, T, here, mask)
    g = tl.load(G + here, mask=mask, other=0.0)
    Y, first, last = u, tl.sum(u) * 0.0, tl.sum(u) * 0.0
    for i in range(tl.load(SWEEPS).to(tl.int32)):
        tl.debug_barrier()  # otherwise all of OFF is loaded before the loop, into more registers than there are
        before = Y
        Y = _sweep(Y, g, OFF, INV, K, KP)
        last = tl.sum((Y - before) * (Y - before))
        first = tl.where(i == 0, last, first)
    tl.store(U + here, u, mask=mask)
    d = tl.maximum(tl.load(STRETCH).to(u.dtype) * (Y - u), -u)
    tl.store(D + here, d, mask=mask)
    out = OUT + 4 * tl.program_id(0)
    tl.store(out, first)
    tl.store(out + 1, last)
    tl.store(out + 2, tl.sum(g * d))
    tl.store(out + 3, tl.sum(tl.where(u + d == 0.0, g * d, 0.0)))


@triton.jit
def block_look(
    G, U, D, S, OFF, INV, T, STRETCH, SWEEPS, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, KB: tl.constexpr, KO: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """As `look`, block of components by block; S is zero within a block, OFF is the curvature without its diagonal.

    What the other blocks pull is one product, KO components at a time; within a block components follow each other. The
    codes of a tile stay in the cache between blocks, in D.
    """
    o, b, cols = tl.arange(0, KO), tl.arange(0, KB), tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    for block in range(0, KP, KB):
        here = (block + b)[:, None].to(tl.int64) * n + cols[None, :]
        mask = ((block + b)[:, None] < K) & (cols[None, :] < n)
        u = _stepped(U, D, T, here, mask)
        tl.store(U + here, u, mask=mask)
        tl.store(D + here, u, mask=mask)
    tl.debug_barrier()
    kind: tl.constexpr = U.dtype.element_ty
    first, last = tl.zeros([], kind), tl.zeros([], kind)
    for sweep in range(tl.load(SWEEPS).to(tl.int32)):
        last = tl.zeros([], kind)
        for block in range(0, KP, KB):
            here = (block + b)[:, None].to(tl.int64) * n + cols[None, :]
            mask = ((block + b)[:, None] < K) & (cols[None, :] < n)
            g = tl.load(G + here, mask=mask, other=0.0).to(tl.float64 if MODE == "float64" else tl.float32)
            for other in range(0, KP, KO):
                there = (other + o)[:, None].to(tl.int64) * n + cols[None, :]
                y = tl.load(D + there, mask=((other + o)[:, None] < K) & (cols[None, :] < n), other=0.0)
                pulled = tl.load(
                    S + (block + b)[:, None] * KP + (other + o)[None, :], mask=(other + o)[None, :] < KP, other=0.0
                )
                g -= _product(pulled, y, MODE)
            g, old = g.to(kind), tl.load(D + here, mask=mask, other=0.0)
            new = old
            for i in tl.static_range(KB):
                new = _moved(new, g, OFF + block * KP + block, INV + block, i, b, KP)
            tl.store(D + here, new, mask=mask)
            tl.debug_barrier()
            last += tl.sum((new - old) * (new - old))
        first = tl.where(sweep == 0, last, first)
    along, ending = tl.zeros([], kind), tl.zeros([], kind)
    for block in range(0, KP, KB):
        here = (block + b)[:, None].to(tl.int64) * n + cols[None, :]
        mask = ((block + b)[:, None] < K) & (cols[None, :] < n)
        u, g = tl.load(U + here, mask=mask, other=0.0), tl.load(G + here, mask=mask, other=0.0)
        d = tl.maximum(tl.load(STRETCH).to(u.dtype) * (tl.load(D + here, mask=mask, other=0.0) - u), -u)
        tl.store(D + here, d, mask=mask)
        along += tl.sum(g * d)
        ending += tl.sum(tl.where(u + d == 0.0, g * d, 0.0))
    out = OUT + 4 * tl.program_id(0)
    tl.store(out, first)
    tl.store(out + 1, last)
    tl.store(out + 2, along)
    tl.store(out + 3, ending)


@triton.jit
def _times(
    total, A, B, n, tile, row,
    K: tl.constexpr, KP: tl.constexpr, KR: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """Add rows of A B to a total, KR from `row` on, for a square A (KP x KP) and a tile that B holds."""
    a = row + tl.arange(0, KR)
    for c in range(0, K, KB):
        there, mask = _tile(n, K, KB, BM, tile, c, LONG)
        block = tl.load(B + there, mask=mask, other=0.0)
        total += _product(tl.load(A + a[:, None] * KP + (c + tl.arange(0, KB))[None, :]), block, MODE)
    return total


@triton.jit
def cg_start(
    U, D, G, R, FREE, A, STEPS, n,
    K: tl.constexpr, KP: tl.constexpr, KR: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """Shorten D; residual R on the free entries. A holds S and S + C as codes are stored."""
    kind: tl.constexpr = U.dtype.element_ty
    tile = tl.program_id(0)
    tau, sigma = tl.load(STEPS).to(kind), tl.load(STEPS + 1).to(kind)
    for row in range(0, K, KR):
        here, mask = _tile(n, K, KR, BM, tile, row, LONG)
        u, d = tl.load(U + here, mask=mask, other=0.0), tl.load(D + here, mask=mask, other=0.0)
        tl.store(D + here, d * tl.where(u + d == 0.0, sigma, tau), mask=mask)
    tl.debug_barrier()
    for row in range(0, K, KR):
        here, mask = _tile(n, K, KR, BM, tile, row, LONG)
        slope = tl.zeros([KR, BM], tl.float64 if MODE == "float64" else tl.float32)
        slope = _times(slope, A + KP * KP, U, n, tile, row, K, KP, KR, KB, BM, MODE, LONG)
        slope = _times(slope, A, D, n, tile, row, K, KP, KR, KB, BM, MODE, LONG).to(kind)
        slope -= tl.load(G + here, mask=mask, other=0.0)
        end = tl.load(U + here, mask=mask, other=0.0) + tl.load(D + here, mask=mask, other=0.0)
        free = (end > 0.0) | (slope < 0.0)
        tl.store(FREE + here, free.to(tl.int8), mask=mask)
        tl.store(R + here, tl.where(free, -slope, 0.0), mask=mask)


@triton.jit
def cg_step(
    U, R, W, FREE, Z, P, Q, MORE, A, STEPS, n,
    K: tl.constexpr, KP: tl.constexpr, KR: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
    LONG: tl.constexpr, FIRST: tl.constexpr, OPERATORS: tl.constexpr,
):  # fmt: skip
    """One preconditioned conjugate-gradient step in one look (Chronopoulos & Gear 1989).

    A holds S and C. With OPERATORS, MORE is what these add to the curvature along W. The first step finds Z, P and Q
    empty. A later one of length zero means that all is done: nothing is read.
    """
    kind: tl.constexpr = U.dtype.element_ty
    tile = tl.program_id(0)
    alpha, beta = tl.load(STEPS).to(kind), tl.load(STEPS + 1).to(kind)
    if not FIRST:
        if alpha == 0.0:
            return
    for row in range(0, K, KR):
        here, mask = _tile(n, K, KR, BM, tile, row, LONG)
        curved = tl.zeros([KR, BM], tl.float64 if MODE == "float64" else tl.float32)
        curved = _times(curved, A, W, n, tile, row, K, KP, KR, KB, BM, MODE, LONG)
        curved = _times(curved, A + KP * KP, U, n, tile, row, K, KP, KR, KB, BM, MODE, LONG).to(kind)
        if OPERATORS:
            curved += tl.load(MORE + here, mask=mask, other=0.0)
        w = tl.load(W + here, mask=mask, other=0.0)
        p, z = w, alpha * w
        q = tl.where(tl.load(FREE + here, mask=mask, other=0) != 0, curved, 0.0)
        if not FIRST:
            p += beta * tl.load(P + here, mask=mask, other=0.0)
            q += beta * tl.load(Q + here, mask=mask, other=0.0)
            z = tl.load(Z + here, mask=mask, other=0.0) + alpha * p
        tl.store(P + here, p, mask=mask)
        tl.store(Q + here, q, mask=mask)
        tl.store(Z + here, z, mask=mask)
        tl.store(R + here, tl.load(R + here, mask=mask, other=0.0) - alpha * q, mask=mask)


@triton.jit
def couple(
    U, R, W, FREE, A, GOING, OUT, n,
    K: tl.constexpr, KP: tl.constexpr, KR: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """W = T R + C U on the free entries, zero on the others; A holds T and C last of four. Sum: <R,W>.

    Nothing if GOING is 0.
    """
    if tl.load(GOING) == 0.0:
        return
    tile, energy = tl.program_id(0), tl.zeros([], tl.float64)
    for row in range(0, K, KR):
        here, mask = _tile(n, K, KR, BM, tile, row, LONG)
        w = tl.zeros([KR, BM], tl.float64 if MODE == "float64" else tl.float32)
        w = _times(w, A + 2 * KP * KP, R, n, tile, row, K, KP, KR, KB, BM, MODE, LONG)
        w = _times(w, A + 3 * KP * KP, U, n, tile, row, K, KP, KR, KB, BM, MODE, LONG).to(U.dtype.element_ty)
        w = tl.where(tl.load(FREE + here, mask=mask, other=0) != 0, w, 0.0)
        tl.store(W + here, w, mask=mask)
        energy += tl.sum(tl.load(R + here, mask=mask, other=0.0) * w).to(tl.float64)
    tl.store(OUT + tile, energy)


@triton.jit
def project(
    U, D, G, Z, W, P, STEPS, OUT, n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, FIRST: tl.constexpr
):  # fmt: skip
    """The last conjugate-gradient step, Z += alpha (W + beta P); Z = max(0, U + D + Z) - (U + D). Sum: <G,Z>."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    there = tl.load(U + here, mask=mask, other=0.0) + tl.load(D + here, mask=mask, other=0.0)
    alpha, beta = tl.load(STEPS).to(there.dtype), tl.load(STEPS + 1).to(there.dtype)
    p = tl.load(W + here, mask=mask, other=0.0)
    if FIRST:
        z = alpha * p
    else:
        z = tl.load(Z + here, mask=mask, other=0.0) + alpha * (p + beta * tl.load(P + here, mask=mask, other=0.0))
    z = tl.maximum(there + z, 0.0) - there
    tl.store(Z + here, z, mask=mask)
    tl.store(OUT + tl.program_id(0), tl.sum(tl.load(G + here, mask=mask, other=0.0) * z))


@triton.jit
def combine(U, D, Z, TAU, STRETCH, n, K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr):
    """D = stretch (D + tau Z), cut off where codes would become negative."""
    here, mask = _tile(n, K, KP, BM, tl.program_id(0))
    longer = tl.load(D + here, mask=mask, other=0.0)
    longer += tl.load(TAU).to(longer.dtype) * tl.load(Z + here, mask=mask, other=0.0)
    longer = tl.load(STRETCH).to(longer.dtype) * longer
    tl.store(D + here, tl.maximum(longer, -tl.load(U + here, mask=mask, other=0.0)), mask=mask)


@triton.jit(do_not_specialize=["key"])
def draw(U, FACTOR, key, n, MIDDLE: tl.constexpr, BM: tl.constexpr):
    """Random codes, as `dspnmf.backends.kernels.philox.draw` makes them."""
    column = tl.program_id(1)
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    low, high = (rows & 0xFFFFFFFF).to(tl.uint32), (rows >> 32).to(tl.uint32)
    a, b, c, d = tl.philox(key, low, high, (low * 0 + column).to(tl.uint32), low * 0)
    total = a.to(tl.int64) + b.to(tl.int64) + c.to(tl.int64) + d.to(tl.int64)
    codes = tl.load(FACTOR) * tl.abs(total - MIDDLE).to(tl.float64)
    tl.store(U + column.to(tl.int64) * n + rows, codes.to(U.dtype.element_ty), mask=rows < n)
