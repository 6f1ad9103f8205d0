"""The loops BLAS cannot do, compiled once and cached.

Every kernel works on the rows ``lo:hi`` of arrays that all have n rows, block by block, so that a block of X is read
from memory once and its pull, its sweeps and its sums are done while it is in cache. Kernels release the GIL; who
splits the rows among threads is none of their business. Block products run in X's precision, what leaves a kernel is
summed in float64.

========  =======  ================================================================
U, D, g   n x k    codes, a direction for them, half the gradient of the model
X         n x m    an array, or the tuple ``(data, indices, indptr)`` of a CSR matrix
M         m x k    pull of the model, ``G = X M``
S         k x k    curvature of the model, common to all rows
========  =======  ================================================================

Shapes and formulas are those of the solver (`dspnmf.solver`); what a kernel computes is said in its first line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.extending import overload

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

SPARE = 8  # inner solves beyond 3 k after which an active set keeps the feasible point it has
DEPENDENT = 1e150  # stands for an infinite pivot


def compiled(function: Kernel) -> Kernel:
    """Compile without the GIL; sums may be reordered and fused, NaN and infinity keep their meaning."""
    return cast(Kernel, njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})(function))


# -- the two products with a block of X: the only lines that know how X is stored ---------------------------------


def pull(X: Any, M: Any, lo: int, hi: int, out: Any) -> None:
    """``out = X[lo:hi] @ M``."""


def push(X: Any, D: Any, lo: int, hi: int, work: Any, total: Any) -> None:
    """``total += X[lo:hi].T @ D`` for the block ``D``; `work` is k x m scratch."""


def features_scratch(X: Any, D: Any) -> Any:
    """The scratch array `push` needs."""


@overload(pull)
def _pull(X: Any, M: Any, lo: Any, hi: Any, out: Any) -> Any:
    if isinstance(X, types.BaseTuple):

        def sparse(X: Any, M: Any, lo: Any, hi: Any, out: Any) -> None:
            data, indices, indptr = X
            for i in range(lo, hi):
                row = out[i - lo]
                row[:] = 0
                for q in range(indptr[i], indptr[i + 1]):
                    x = data[q]
                    weights = M[indices[q]]
                    for a in range(row.size):
                        row[a] += x * weights[a]

        return sparse
    if X.layout == "C":

        def contiguous(X: Any, M: Any, lo: Any, hi: Any, out: Any) -> None:
            np.dot(X[lo:hi], M, out)

        return contiguous

    def strided(X: Any, M: Any, lo: Any, hi: Any, out: Any) -> None:
        np.dot(X[lo:hi].copy(), M, out)

    return strided


@overload(push)
def _push(X: Any, D: Any, lo: Any, hi: Any, work: Any, total: Any) -> Any:
    if isinstance(X, types.BaseTuple):

        def sparse(X: Any, D: Any, lo: Any, hi: Any, work: Any, total: Any) -> None:
            data, indices, indptr = X
            for i in range(lo, hi):
                row = D[i - lo]
                for q in range(indptr[i], indptr[i + 1]):
                    x = data[q]
                    sums = total[indices[q]]
                    for a in range(row.size):
                        sums[a] += x * row[a]

        return sparse
    if X.layout == "C":

        def contiguous(X: Any, D: Any, lo: Any, hi: Any, work: Any, total: Any) -> None:
            np.dot(D.T, X[lo:hi], work)
            for a in range(work.shape[0]):
                for j in range(work.shape[1]):
                    total[j, a] += work[a, j]

        return contiguous

    def strided(X: Any, D: Any, lo: Any, hi: Any, work: Any, total: Any) -> None:
        np.dot(D.T, X[lo:hi].copy(), work)
        for a in range(work.shape[0]):
            for j in range(work.shape[1]):
                total[j, a] += work[a, j]

    return strided


@overload(features_scratch)
def _features_scratch(X: Any, D: Any) -> Any:
    if isinstance(X, types.BaseTuple):

        def none(X: Any, D: Any) -> Any:
            return np.empty((0, 0), D.dtype)

        return none

    def block(X: Any, D: Any) -> Any:
        return np.empty((D.shape[1], X.shape[1]), D.dtype)

    return block


# -- pieces of a block ---------------------------------------------------------------------------------------------


@compiled
def add_gram(A: Any, B: Any, work: Any, total: Any) -> None:
    """``total += A' B`` for two blocks of k columns."""
    np.dot(A.T, B, work)
    for a in range(work.shape[0]):
        for b in range(work.shape[1]):
            total[a, b] += work[a, b]


@compiled
def inverse_diagonal(S: Any) -> Any:
    """1 / S_aa, and 0 where a component has no curvature: such an entry of the codes is left as it is."""
    k = S.shape[0]
    inverse = np.zeros(k, S.dtype)
    largest = 0.0
    for a in range(k):
        largest = max(largest, S[a, a])
    floor = largest * (1e-20 if S.itemsize == 4 else 1e-200)
    for a in range(k):
        if S[a, a] > floor:
            inverse[a] = 1 / S[a, a]
    return inverse


@compiled
def sweep(Yt: Any, Gt: Any, S: Any, inverse: Any, rest: Any, width: int) -> float:
    """One HALS sweep over a transposed block (k x width, samples side by side); returns the squared change."""
    k = S.shape[0]
    change = 0.0
    for a in range(k):
        for b in range(width):
            rest[b] = Gt[a, b]
        c = 0
        while c + 4 <= k:
            s0, s1, s2, s3 = S[a, c], S[a, c + 1], S[a, c + 2], S[a, c + 3]
            y0, y1, y2, y3 = Yt[c], Yt[c + 1], Yt[c + 2], Yt[c + 3]
            for b in range(width):
                rest[b] -= s0 * y0[b] + s1 * y1[b] + s2 * y2[b] + s3 * y3[b]
            c += 4
        while c < k:
            s0, y0 = S[a, c], Yt[c]
            for b in range(width):
                rest[b] -= s0 * y0[b]
            c += 1
        scale, y = inverse[a], Yt[a]
        moved = rest.dtype.type(0)
        for b in range(width):
            new = max(y[b] + rest[b] * scale, rest.dtype.type(0))
            moved += (new - y[b]) * (new - y[b])
            y[b] = new
        change += moved
    return change


# -- one look at every row: the hals model -------------------------------------------------------------------------


@compiled
def look(X: Any, U: Any, D: Any, t: float, M: Any, S: Any, lo: int, hi: int, block: int, sweeps: int) -> Any:
    """Take the pending step ``U += t D``, sweep, leave the new direction in D; sums X'D, U'D, D'D and changes."""
    m, k = M.shape
    PD, UD, DD = np.zeros((m, k)), np.zeros((k, k)), np.zeros((k, k))
    work, square = features_scratch(X, U), np.empty((k, k), U.dtype)
    G, Gt, Yt, rest = np.empty((block, k), U.dtype), np.empty((k, block), U.dtype), np.empty((k, block), U.dtype), np.empty(block, U.dtype)
    inverse, step = inverse_diagonal(S), U.dtype.type(t)
    first, last = 0.0, 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ub, Db, Gb = U[i:j], D[i:j], G[:width]
        pull(X, M, i, j, Gb)
        for b in range(width):
            for a in range(k):
                u = max(Ub[b, a] + step * Db[b, a], U.dtype.type(0))
                Ub[b, a] = u
                Yt[a, b] = u
                Gt[a, b] = Gb[b, a]
        for s in range(sweeps):
            change = sweep(Yt, Gt, S, inverse, rest, width)
            if s == 0:
                first += change
            if s == sweeps - 1:
                last += change
        for b in range(width):
            for a in range(k):
                Db[b, a] = Yt[a, b] - Ub[b, a]
        push(X, Db, i, j, work, PD)
        add_gram(Ub, Db, square, UD)
        add_gram(Db, Db, square, DD)
    return PD, UD, DD, first, last


@compiled
def sweep_rows(Y: Any, G: Any, S: Any, lo: int, hi: int, block: int, sweeps: int) -> Any:
    """HALS sweeps in place over rows whose pull G is given; squared change of the first and of the last sweep."""
    k = S.shape[0]
    Gt, Yt, rest = np.empty((k, block), Y.dtype), np.empty((k, block), Y.dtype), np.empty(block, Y.dtype)
    inverse = inverse_diagonal(S)
    first, last = 0.0, 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Yt[:, : j - i] = Y[i:j].T
        Gt[:, : j - i] = G[i:j].T
        for s in range(sweeps):
            change = sweep(Yt, Gt, S, inverse, rest, j - i)
            if s == 0:
                first += change
            if s == sweeps - 1:
                last += change
        Y[i:j] = Yt[:, : j - i].T
    return first, last


@compiled
def sums(X: Any, U: Any, m: int, lo: int, hi: int, block: int) -> Any:
    """X'U and U'U."""
    k = U.shape[1]
    P, Q = np.zeros((m, k)), np.zeros((k, k))
    work, square = features_scratch(X, U), np.empty((k, k), U.dtype)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        push(X, U[i:j], i, j, work, P)
        add_gram(U[i:j], U[i:j], square, Q)
    return P, Q


@compiled
def squares(values: Any, scale: float, lo: int, hi: int) -> float:
    """Sum of ``(values / scale)^2`` over rows `lo` to `hi`."""
    total = 0.0
    for i in range(lo, hi):
        for j in range(values.shape[1]):
            total += (values[i, j] / scale) * (values[i, j] / scale)
    return total


# -- the newton-cg model: X once for the pull and once for the sums, in between only n x k arrays ------------------


@compiled
def face(
    X: Any, U: Any, D: Any, g: Any, t: float, M: Any, S: Any, lo: int, hi: int, block: int, sweeps: int
) -> Any:
    """Take the pending step, leave half the gradient in g and the direction of a few sweeps in D.

    Returns <g,D>, U'D, D'D and <g,A>, U'A, A'A, D'A for the part A of D that ends at zero.
    """
    k = S.shape[0]
    UD, DD, UA, AA, DA = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    square = np.empty((k, k), U.dtype)
    Gt, Yt, rest = np.empty((k, block), U.dtype), np.empty((k, block), U.dtype), np.empty(block, U.dtype)
    G, A = np.empty((block, k), U.dtype), np.empty((block, k), U.dtype)
    inverse, step, zero = inverse_diagonal(S), U.dtype.type(t), U.dtype.type(0)
    slope, slope_A = 0.0, 0.0
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        width = j - i
        Ub, Db, gb, Gb, Ab = U[i:j], D[i:j], g[i:j], G[:width], A[:width]
        pull(X, M, i, j, Gb)
        for b in range(width):
            for a in range(k):
                u = max(Ub[b, a] + step * Db[b, a], zero)
                Ub[b, a] = u
                Yt[a, b] = u
                Gt[a, b] = Gb[b, a]
        np.dot(Ub, S, gb)
        for _ in range(sweeps):
            sweep(Yt, Gt, S, inverse, rest, width)
        for b in range(width):
            for a in range(k):
                y = Yt[a, b]
                gb[b, a] -= Gb[b, a]
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
def precondition(r: Any, free: Any, T: Any, u: Any) -> float:
    """``u = r T`` on the free entries of a block; returns <r,u>."""
    np.dot(r, T, u)
    rf, uf, ff = r.reshape(-1), u.reshape(-1), free.reshape(-1)
    energy = 0.0
    for e in range(uf.size):
        uf[e] = uf[e] if ff[e] else 0
        energy += rf[e] * uf[e]
    return energy


@compiled
def cg_start(U: Any, D: Any, g: Any, r: Any, u: Any, free: Any, tau: float, sigma: float, S: Any, C: Any, T: Any, lo: int, hi: int, block: int) -> Any:
    """Shorten D by tau, its part that ends at zero by sigma; residual r of the model there on the free entries
    (``A[D] = D S + U C``), u = r T; <r,u>, U'u, u'u."""
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
                is_free = Ub[b, a] + Db[b, a] > 0 or slope < 0
                fb[b, a] = is_free
                rb[b, a] = -slope if is_free else zero
        energy += precondition(rb, fb, T, ub)
        add_gram(Ub, ub, square, Uu)
        add_gram(ub, ub, square, uu)
    return energy, Uu, uu


@compiled
def cg_step(
    U: Any, z: Any, r: Any, u: Any, p: Any, q: Any, free: Any, alpha: float, beta: float, S: Any, C: Any, T: Any, lo: int, hi: int, block: int
) -> Any:
    """One preconditioned conjugate-gradient step in one look (q = A[p] by recurrence, Chronopoulos & Gear 1989)."""
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
def project(U: Any, D: Any, g: Any, z: Any, lo: int, hi: int, block: int) -> Any:
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
def combine(X: Any, D: Any, z: Any, tau: float, m: int, lo: int, hi: int, block: int) -> Any:
    """``D += tau z`` and the sum X'D."""
    k = D.shape[1]
    PD, work, scale = np.zeros((m, k)), features_scratch(X, D), D.dtype.type(tau)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        Db, zb = D[i:j], z[i:j]
        for b in range(j - i):
            for a in range(k):
                Db[b, a] += scale * zb[b, a]
        push(X, Db, i, j, work, PD)
    return PD


# -- transform: every row to its optimum ---------------------------------------------------------------------------


@compiled
def solve_free(S: Any, g: Any, members: Any, size: int, L: Any, z: Any) -> None:
    """Cholesky solution of ``S_FF z_F = g_F`` for the first `size` `members`; a dependent one gets (almost) 0."""
    for p in range(size):
        a = members[p]
        for q in range(p + 1):
            value = S[a, members[q]]
            for c in range(q):
                value -= L[p, c] * L[q, c]
            if p > q:
                L[p, q] = value / L[q, q]
            else:
                L[p, p] = np.sqrt(value) if value > 1e-13 * S[a, a] else DEPENDENT
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
def active_set(S: Any, g: Any, y: Any, members: Any, L: Any, z: Any, tolerance: float) -> None:
    """Minimise ``1/2 y S y' - g y`` over y >= 0 from the feasible y (active set of Bro & de Jong 1997); never uphill."""
    k = S.shape[0]
    for _ in range(3 * k + SPARE):
        size = 0
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
        best, entering = 0.0, -1
        for a in range(k):
            if y[a] == 0 and S[a, a] > 0:
                rise = g[a]
                for c in range(k):
                    rise -= S[a, c] * y[c]
                if rise * rise > best * S[a, a] and rise > tolerance * np.sqrt(S[a, a]):
                    best, entering = rise * rise / S[a, a], a
        if entering < 0:
            return
        rise = g[entering]
        for c in range(k):
            rise -= S[entering, c] * y[c]
        y[entering] = rise / S[entering, entering]


@compiled
def solve_rows(X: Any, out: Any, M: Any, S: Any, lo: int, hi: int, block: int, sweeps: int) -> None:
    """Non-negative least squares for every row: sweeps from zero, then an exact active set."""
    k = S.shape[0]
    Gt, Yt, rest = np.empty((k, block)), np.empty((k, block)), np.empty(block)
    G, L, z = np.empty((block, k), out.dtype), np.empty((k, k)), np.empty(k)
    y, g, members, inverse = np.empty(k), np.empty(k), np.empty(k, np.int64), inverse_diagonal(S)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        pull(X, M, i, j, G[: j - i])
        Gt[:, : j - i] = G[: j - i].T
        Yt[:] = 0
        for _ in range(sweeps):
            sweep(Yt, Gt, S, inverse, rest, j - i)
        for b in range(j - i):
            y[:], g[:] = Yt[:, b], Gt[:, b]
            size = 0.0
            for a in range(k):
                if S[a, a] > 0:
                    size = max(size, abs(g[a]) / np.sqrt(S[a, a]))
            active_set(S, g, y, members, L, z, 1e-12 * size)
            out[i + b] = y

