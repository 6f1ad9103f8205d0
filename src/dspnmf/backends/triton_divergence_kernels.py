"""Triton kernels for the Kullback-Leibler divergence of dense rows: an entry of UV is made, used and forgotten.

x and y are entries of X (in the solver's unit) and of UV. Codes are k x n, components V are KP x m, padded with zeros,
and so are the products of pairs of components (PP x m). MODE as in `dspnmf.backends.triton_kernels`.
"""
# mypy: disable-error-code="attr-defined,no-untyped-def,no-untyped-call,operator,index,call-overload,misc"

from __future__ import annotations

import triton
import triton.language as tl

from dspnmf.backends.triton_kernels import _product


@triton.jit
def _codes(U, rows, n, K: tl.constexpr, KP: tl.constexpr):
    """Codes of some rows, a row for each."""
    a = tl.arange(0, KP)
    here = a[None, :].to(tl.int64) * n + rows[:, None]
    return tl.load(U + here, mask=(rows[:, None] < n) & (a[None, :] < K), other=0.0)


@triton.jit
def _entries(X, rows, cols, n, m, stride, unit):
    """A tile of X."""
    mask = (rows[:, None] < n) & (cols[None, :] < m)
    return tl.load(X + rows[:, None] * stride + cols[None, :], mask=mask, other=0.0) * unit


@triton.jit
def _rows_of(V, cols, m, first, WIDTH: tl.constexpr):
    """Some rows of a small matrix of m columns."""
    a = first + tl.arange(0, WIDTH)
    return tl.load(V + a[:, None] * m + cols[None, :], mask=cols[None, :] < m, other=0.0)


@triton.jit
def _distance(x, ratio):
    """Of every row of a tile, the sum of ``x log(x / y) - x`` in float64."""
    each = tl.where(x > 0.0, x * tl.log(tl.where(x > 0.0, ratio, 1.0)), 0.0)
    return tl.sum((each - x).to(tl.float64), axis=1)


@triton.jit
def distances(
    X, U, V, ROWS, n, m, stride, unit, floor,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """Of every row, the sum of ``x log(x / y) - x`` in float64."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    u = _codes(U, rows, n, K, KP)
    total = tl.zeros([BM], tl.float64)
    for c in range(0, m, BN):
        cols = c + tl.arange(0, BN)
        x = _entries(X, rows, cols, n, m, stride, unit)
        inverse = 1.0 / (_product(u, _rows_of(V, cols, m, 0, KP), MODE) + floor)
        total += _distance(x, x * inverse)  # as in `derivatives`: they are compared
    tl.store(ROWS + rows, total, mask=rows < n)


@triton.jit
def derivatives(
    X, U, V, VV, PULL, H, ROWS, n, m, stride, unit, floor,
    K: tl.constexpr, KP: tl.constexpr, PAIRS: tl.constexpr, PP: tl.constexpr, PB: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """PULL = V (x / y)', H = VV (x / y^2)' for VV of products of components, and distances.

    PB pairs a program, of which the first also makes the others; neighbouring programs share rows. Curvature needs few
    digits: steps by it are taken only where the distance does not rise.
    """
    blocks: tl.constexpr = PP // PB
    rows = (tl.program_id(0) // blocks).to(tl.int64) * BM + tl.arange(0, BM)
    block = tl.program_id(0) % blocks
    u = _codes(U, rows, n, K, KP)
    pull, curves, total = tl.zeros([BM, KP], tl.float32), tl.zeros([BM, PB], tl.float32), tl.zeros([BM], tl.float64)
    for c in range(0, m, BN):
        cols = c + tl.arange(0, BN)
        x, v = _entries(X, rows, cols, n, m, stride, unit), _rows_of(V, cols, m, 0, KP)
        inverse = 1.0 / (_product(u, v, MODE) + floor)
        ratio = x * inverse
        if block == 0:
            pull += _product(ratio, tl.trans(v), MODE)
            total += _distance(x, ratio)
        curves += _product(ratio * inverse, tl.trans(_rows_of(VV, cols, m, block * PB, PB)), "tf32")
    a = tl.arange(0, KP)
    if block == 0:
        here = a[None, :].to(tl.int64) * n + rows[:, None]
        tl.store(PULL + here, pull, mask=(rows[:, None] < n) & (a[None, :] < K))
        tl.store(ROWS + rows, total, mask=rows < n)
    b = block * PB + tl.arange(0, PB)
    here = b[None, :].to(tl.int64) * n + rows[:, None]
    tl.store(H + here, curves, mask=(rows[:, None] < n) & (b[None, :] < PAIRS))


@triton.jit
def sums(
    X, U, V, OUT, n, m, stride, unit, floor, span,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MODE: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """(x / y)'U over `span` rows, added up in float64; neighbouring programs share rows. SUMS is the MODE of that."""
    wide = tl.cdiv(m, BN)
    cols = tl.program_id(0) % wide * BN + tl.arange(0, BN)
    part = (tl.program_id(0) // wide).to(tl.int64)
    v = _rows_of(V, cols, m, 0, KP)
    total = tl.zeros([BN, KP], tl.float64)
    for r in range(0, span, BM):
        rows = part * span + r + tl.arange(0, BM)
        u = _codes(U, rows, n, K, KP)
        ratio = _entries(X, rows, cols, n, m, stride, unit) / (_product(u, v, MODE) + floor)
        total += _product(tl.trans(ratio), u, SUMS)
    a = tl.arange(0, KP)
    tl.store(OUT + part * m * KP + cols[:, None] * KP + a[None, :], total, mask=cols[:, None] < m)


@triton.jit
def swept(
    U, G, H, NUMBER, OUT, CHANGE, n, l1, l2, sweeps,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Sweeps over a model with slopes G and curvature H: the codes; of every row their squared change and size in H.

    Steps are those of `dspnmf.backends.tensor_divergence.stepped`: Newton's in a code where it grows, in its inverse
    where it falls. NUMBER says where pairs of components stand in H.
    """
    a, cols = tl.arange(0, KP), tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    mask = (a[:, None] < K) & (cols[None, :] < n)
    here = a[:, None].to(tl.int64) * n + cols[None, :]
    start, slopes = tl.load(U + here, mask=mask, other=0.0), tl.load(G + here, mask=mask, other=0.0)
    Y = start
    for _ in range(sweeps):
        for i in range(K):
            at, pairs = (a == i)[:, None], tl.load(NUMBER + i * KP + a).to(tl.int64)
            h = tl.load(H + pairs[:, None] * n + cols[None, :], mask=mask, other=0.0)
            u = tl.sum(tl.where(at, Y, 0.0), axis=0)
            slope = tl.sum(tl.where(at, slopes, 0.0), axis=0) + l1 + l2 * u
            curve = tl.sum(tl.where(at, h, 0.0), axis=0) + l2
            new = tl.where(slope < 0.0, u - slope / curve, u * (u * curve) / (u * curve + slope))
            new = tl.where(new < float("inf"), new, u)  # also where it is no number
            slopes += h * (new - u)[None, :]
            Y = tl.where(at, new[None, :], Y)
    pairs = tl.load(NUMBER + a * KP + a).to(tl.int64)
    h = tl.load(H + pairs[:, None] * n + cols[None, :], mask=mask, other=0.0).to(tl.float64) + l2
    moved, size = (Y - start).to(tl.float64), Y.to(tl.float64)
    tl.store(OUT + here, Y, mask=mask)
    tl.store(CHANGE + cols, tl.sum(moved * moved * h, axis=0), mask=cols < n)
    tl.store(CHANGE + n + cols, tl.sum(size * size * h, axis=0), mask=cols < n)
