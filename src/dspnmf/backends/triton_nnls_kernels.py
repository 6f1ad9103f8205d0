"""Triton kernels for non-negative least squares: the small systems of many rows, every thread its own.

Arrays of the codes' shape are k x n, all numbers float64. Neighbouring threads hold neighbouring rows, so that their
systems lie side by side in memory; four rows and four columns are worked on at a time, in registers.
"""
# mypy: disable-error-code="attr-defined,no-untyped-def,no-untyped-call,operator,index,call-overload,misc"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _code(CODES, i, count, R: tl.constexpr):
    """The number of every row's i-th code."""
    return tl.load(CODES + i * R, mask=i < count, other=0)


@triton.jit
def _given(A, first, second, i, j, count, K: tl.constexpr):
    """Entries of the systems; those beyond their sizes are of the identity."""
    inside = (i < count) & (j < count)
    return tl.load(A + first * K + second, mask=inside, other=tl.where(i == j, 1.0, 0.0).to(tl.float64))


@triton.jit
def _begin(i, R: tl.constexpr):
    """Where row i of a triangle begins."""
    return (i * (i + 1) // 2) * R


@triton.jit
def _inverse_root(pivot):
    """Of a pivot; 0 where the system is singular."""
    return tl.where(pivot > 0.0, 1.0 / tl.sqrt(tl.where(pivot > 0.0, pivot, 1.0)), 0.0)


@triton.jit(do_not_specialize=["n", "rows", "most"])
def eliminate(
    A, F, B, Z, ROWS, COUNT, TRIANGLES, SIDES, CODES, n, rows, most,
    K: tl.constexpr, R: tl.constexpr, AMONG: tl.constexpr,
):  # fmt: skip
    """Z: for every row listed the solution of ``A z = b`` for the codes where F is AMONG: COUNT of them.

    By Cholesky's factorization. R rows are worked on at once; they should have about as many codes, up to `most`.
    Programs keep triangles, right sides and numbers of codes in memory of their own. Z keeps what it has elsewhere.
    """
    lane, program = tl.arange(0, R), tl.program_id(0).to(tl.int64)
    L = TRIANGLES + program * (most * (most + 1) // 2 * R) + lane  # inverses on the diagonal
    Y, CODES = SIDES + program * (most * R) + lane, CODES + program * (most * R) + lane
    for group in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        here = group * R + lane < rows
        row = tl.load(ROWS + group * R + lane, mask=here, other=0)
        count = tl.load(COUNT + group * R + lane, mask=here, other=0).to(tl.int32)
        wide = tl.cdiv(tl.max(count, axis=0), 4) * 4
        at = tl.zeros([R], tl.int32)
        for i in range(K):
            there = row + i * n.to(tl.int64)
            chosen = here & ((tl.load(F + there, mask=here, other=0) != 0) == AMONG)
            tl.store(CODES + at * R, i, mask=chosen)
            tl.store(Y + at * R, tl.load(B + there, mask=chosen, other=0.0), mask=chosen)
            at += chosen.to(tl.int32)
        for i in range(tl.min(count, axis=0), wide):
            tl.store(Y + i * R, 0.0, mask=i >= count)
        tl.debug_barrier()
        for J in range(0, wide, 4):
            j0, j1 = _code(CODES, J, count, R), _code(CODES, J + 1, count, R)
            j2, j3 = _code(CODES, J + 2, count, R), _code(CODES, J + 3, count, R)
            J0, J1, J2, J3 = L + _begin(J, R), L + _begin(J + 1, R), L + _begin(J + 2, R), L + _begin(J + 3, R)
            s00, s11 = _given(A, j0, j0, J, J, count, K), _given(A, j1, j1, J + 1, J + 1, count, K)
            s22, s33 = _given(A, j2, j2, J + 2, J + 2, count, K), _given(A, j3, j3, J + 3, J + 3, count, K)
            s10, s20 = _given(A, j1, j0, J + 1, J, count, K), _given(A, j2, j0, J + 2, J, count, K)
            s30, s21 = _given(A, j3, j0, J + 3, J, count, K), _given(A, j2, j1, J + 2, J + 1, count, K)
            s31, s32 = _given(A, j3, j1, J + 3, J + 1, count, K), _given(A, j3, j2, J + 3, J + 2, count, K)
            y0, y1 = tl.load(Y + J * R), tl.load(Y + (J + 1) * R)
            y2, y3 = tl.load(Y + (J + 2) * R), tl.load(Y + (J + 3) * R)
            for c in range(J):
                b0, b1, b2, b3 = tl.load(J0 + c * R), tl.load(J1 + c * R), tl.load(J2 + c * R), tl.load(J3 + c * R)
                y = tl.load(Y + c * R)
                s00 -= b0 * b0
                s10 -= b1 * b0
                s11 -= b1 * b1
                s20 -= b2 * b0
                s21 -= b2 * b1
                s22 -= b2 * b2
                s30 -= b3 * b0
                s31 -= b3 * b1
                s32 -= b3 * b2
                s33 -= b3 * b3
                y0 -= b0 * y
                y1 -= b1 * y
                y2 -= b2 * y
                y3 -= b3 * y
            d0 = _inverse_root(s00)
            l10, l20, l30 = s10 * d0, s20 * d0, s30 * d0
            d1 = _inverse_root(s11 - l10 * l10)
            l21, l31 = (s21 - l20 * l10) * d1, (s31 - l30 * l10) * d1
            d2 = _inverse_root(s22 - l20 * l20 - l21 * l21)
            l32 = (s32 - l30 * l20 - l31 * l21) * d2
            d3 = _inverse_root(s33 - l30 * l30 - l31 * l31 - l32 * l32)
            y0 *= d0
            y1 = (y1 - l10 * y0) * d1
            y2 = (y2 - l20 * y0 - l21 * y1) * d2
            y3 = (y3 - l30 * y0 - l31 * y1 - l32 * y2) * d3
            tl.store(Y + J * R, y0)
            tl.store(Y + (J + 1) * R, y1)
            tl.store(Y + (J + 2) * R, y2)
            tl.store(Y + (J + 3) * R, y3)
            tl.store(J0 + J * R, d0)
            tl.store(J1 + J * R, l10)
            tl.store(J1 + (J + 1) * R, d1)
            tl.store(J2 + J * R, l20)
            tl.store(J2 + (J + 1) * R, l21)
            tl.store(J2 + (J + 2) * R, d2)
            tl.store(J3 + J * R, l30)
            tl.store(J3 + (J + 1) * R, l31)
            tl.store(J3 + (J + 2) * R, l32)
            tl.store(J3 + (J + 3) * R, d3)
            for below in range(J + 4, wide, 4):
                i0, i1 = _code(CODES, below, count, R), _code(CODES, below + 1, count, R)
                i2, i3 = _code(CODES, below + 2, count, R), _code(CODES, below + 3, count, R)
                I0, I1, I2, I3 = (
                    L + _begin(below, R),
                    L + _begin(below + 1, R),
                    L + _begin(below + 2, R),
                    L + _begin(below + 3, R),
                )
                s00, s01 = _given(A, i0, j0, below, J, count, K), _given(A, i0, j1, below, J + 1, count, K)
                s02, s03 = _given(A, i0, j2, below, J + 2, count, K), _given(A, i0, j3, below, J + 3, count, K)
                s10, s11 = _given(A, i1, j0, below + 1, J, count, K), _given(A, i1, j1, below + 1, J + 1, count, K)
                s12, s13 = _given(A, i1, j2, below + 1, J + 2, count, K), _given(A, i1, j3, below + 1, J + 3, count, K)
                s20, s21 = _given(A, i2, j0, below + 2, J, count, K), _given(A, i2, j1, below + 2, J + 1, count, K)
                s22, s23 = _given(A, i2, j2, below + 2, J + 2, count, K), _given(A, i2, j3, below + 2, J + 3, count, K)
                s30, s31 = _given(A, i3, j0, below + 3, J, count, K), _given(A, i3, j1, below + 3, J + 1, count, K)
                s32, s33 = _given(A, i3, j2, below + 3, J + 2, count, K), _given(A, i3, j3, below + 3, J + 3, count, K)
                for c in range(J):
                    b0, b1, b2, b3 = tl.load(J0 + c * R), tl.load(J1 + c * R), tl.load(J2 + c * R), tl.load(J3 + c * R)
                    a0, a1, a2, a3 = tl.load(I0 + c * R), tl.load(I1 + c * R), tl.load(I2 + c * R), tl.load(I3 + c * R)
                    s00 -= a0 * b0
                    s01 -= a0 * b1
                    s02 -= a0 * b2
                    s03 -= a0 * b3
                    s10 -= a1 * b0
                    s11 -= a1 * b1
                    s12 -= a1 * b2
                    s13 -= a1 * b3
                    s20 -= a2 * b0
                    s21 -= a2 * b1
                    s22 -= a2 * b2
                    s23 -= a2 * b3
                    s30 -= a3 * b0
                    s31 -= a3 * b1
                    s32 -= a3 * b2
                    s33 -= a3 * b3
                _store_row(I0 + J * R, s00, s01, s02, s03, d0, d1, d2, d3, l10, l20, l30, l21, l31, l32, R)
                _store_row(I1 + J * R, s10, s11, s12, s13, d0, d1, d2, d3, l10, l20, l30, l21, l31, l32, R)
                _store_row(I2 + J * R, s20, s21, s22, s23, d0, d1, d2, d3, l10, l20, l30, l21, l31, l32, R)
                _store_row(I3 + J * R, s30, s31, s32, s33, d0, d1, d2, d3, l10, l20, l30, l21, l31, l32, R)
            tl.debug_barrier()
        for back in range(4, wide + 4, 4):
            J = wide - back
            J0, J1, J2, J3 = L + _begin(J, R), L + _begin(J + 1, R), L + _begin(J + 2, R), L + _begin(J + 3, R)
            z3 = tl.load(Y + (J + 3) * R) * tl.load(J3 + (J + 3) * R)
            z2 = (tl.load(Y + (J + 2) * R) - tl.load(J3 + (J + 2) * R) * z3) * tl.load(J2 + (J + 2) * R)
            z1 = tl.load(Y + (J + 1) * R) - tl.load(J3 + (J + 1) * R) * z3 - tl.load(J2 + (J + 1) * R) * z2
            z1 *= tl.load(J1 + (J + 1) * R)
            z0 = tl.load(Y + J * R) - tl.load(J3 + J * R) * z3 - tl.load(J2 + J * R) * z2 - tl.load(J1 + J * R) * z1
            z0 *= tl.load(J0 + J * R)
            for c in range(J):
                more = tl.load(J0 + c * R) * z0 + tl.load(J1 + c * R) * z1
                more += tl.load(J2 + c * R) * z2 + tl.load(J3 + c * R) * z3
                tl.store(Y + c * R, tl.load(Y + c * R) - more)
            _store_code(Z, CODES, row, n, J, count, z0, R)
            _store_code(Z, CODES, row, n, J + 1, count, z1, R)
            _store_code(Z, CODES, row, n, J + 2, count, z2, R)
            _store_code(Z, CODES, row, n, J + 3, count, z3, R)
            tl.debug_barrier()


@triton.jit
def _store_row(OUT, s0, s1, s2, s3, d0, d1, d2, d3, l10, l20, l30, l21, l31, l32, R: tl.constexpr):
    """Four entries of a row of the triangle, from what is left of the system there and the square above."""
    x0 = s0 * d0
    x1 = (s1 - x0 * l10) * d1
    x2 = (s2 - x0 * l20 - x1 * l21) * d2
    x3 = (s3 - x0 * l30 - x1 * l31 - x2 * l32) * d3
    tl.store(OUT, x0)
    tl.store(OUT + R, x1)
    tl.store(OUT + 2 * R, x2)
    tl.store(OUT + 3 * R, x3)


@triton.jit
def _store_code(Z, CODES, row, n, i, count, z, R: tl.constexpr):
    """A code of every row."""
    code = _code(CODES, i, count, R).to(tl.int64)
    tl.store(Z + code * n + row, z, mask=i < count)


@triton.jit(do_not_specialize=["n", "precision"])
def judge(G, SLOPE, Y, F, DIAGONAL, WRONG, COUNT, SHORT, n, precision, K: tl.constexpr, R: tl.constexpr):
    """`dspnmf.backends.tensor_nnls.Problem.wrong`."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    here = row < n
    largest, count, short = tl.zeros([R], tl.float64), tl.zeros([R], tl.int64), tl.zeros([R], tl.int32)
    for a in range(K):
        largest = tl.maximum(largest, tl.abs(tl.load(Y + a * n.to(tl.int64) + row, mask=here, other=0.0)))
    for a in range(K):
        there = a * n.to(tl.int64) + row
        free, y = tl.load(F + there, mask=here, other=0) != 0, tl.load(Y + there, mask=here, other=0.0)
        slope = tl.load(SLOPE + there, mask=here, other=0.0)
        g = tl.load(G + there, mask=here, other=0.0)
        enough = precision * (tl.abs(g) + tl.abs(g - slope))
        least = tl.where(tl.load(DIAGONAL + a) > 0.0, 10 * enough, float("inf"))
        wrong = tl.where(free, -y > 10 * precision * largest, slope > least)
        tl.store(WRONG + there, wrong, mask=here)
        count += wrong.to(tl.int64)
        short |= (free & (tl.abs(slope) > enough)).to(tl.int32)
    tl.store(COUNT + row, count, mask=here)
    tl.store(SHORT + row, short != 0, mask=here)


@triton.jit
def _gain(Y, SLOPE, F, WRONG, OF_CODES, OF_SLOPES, a, there, here):
    """What the exchange of a code would gain, about; 0 where it is not wrong."""
    free, wrong = tl.load(F + there, mask=here, other=0) != 0, tl.load(WRONG + there, mask=here, other=0) != 0
    y, slope = tl.load(Y + there, mask=here & wrong, other=0.0), tl.load(SLOPE + there, mask=here & wrong, other=0.0)
    return tl.where(free, y * y * tl.load(OF_CODES + a), slope * slope * tl.load(OF_SLOPES + a)), free, wrong


@triton.jit(do_not_specialize=["n"])
def exchange(F, Y, SLOPE, WRONG, OF_CODES, OF_SLOPES, EVERYTHING, SHARE, OUT, n, K: tl.constexpr, R: tl.constexpr):
    """`dspnmf.backends.tensor_nnls.Problem.exchanged`; OF_CODES and OF_SLOPES are what squares are multiplied by."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    here = row < n
    everything = tl.load(EVERYTHING + row, mask=here, other=0) != 0
    least = tl.zeros([R], tl.float64)
    for a in range(K):
        gain, free, wrong = _gain(Y, SLOPE, F, WRONG, OF_CODES, OF_SLOPES, a, a * n.to(tl.int64) + row, here)
        least = tl.maximum(least, gain)
    least *= tl.load(SHARE + row, mask=here, other=0.0)
    for a in range(K):
        there = a * n.to(tl.int64) + row
        gain, free, wrong = _gain(Y, SLOPE, F, WRONG, OF_CODES, OF_SLOPES, a, there, here)
        tl.store(OUT + there, free != (wrong & ((gain >= least) | everything)), mask=here)
