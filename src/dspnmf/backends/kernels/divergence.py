"""Codes of a row, and the sums for the components, when errors are measured by a beta divergence.

A row is in cache while its codes are swept several times, one code after another. With g the derivative of the
objective in one code u and g' > 0 the curvature of its bound, the step is Newton's in a power of u:

    g < 0:  u (1 - r g / (g' u))^(1/r),     g > 0:  u (1 + q g / (g' u))^(-1/q)

In s = u^r, and less it in s = u^-q, the derivative g (of the bound that has tangents in place of what is concave, as in
Fevotte and Idier, Neural Computation 23(9), 2011) is a concave function of s. So Newton's step in s ends before the
minimum: the objective never rises, and no step size is needed. r = max(1, beta - 1), and at least 3 where a structure
term is bounded; q = max(1, 2 - beta). The multiplicative rule has a chord in place of the tangent, and where codes fall
its steps are never longer.

Where x = 0 the Kullback-Leibler divergence is linear: only the positive entries of a row are touched. Missing cells
(NaN) have no weight. Arithmetic is that of V, sums that leave the kernel are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from dspnmf._compiled import compiled_reordering
from dspnmf._typing import Array
from dspnmf.backends.kernels.divergence_arithmetic import (
    ROWS,
    add_rows,
    distance,
    gather,
    multiply,
    reconstruct,
    scatter,
    update,
    weights,
)
from dspnmf.backends.kernels.products import Source

_DENSE = 0.6  # share of positive entries above which a row is not gathered
_LARGEST = 1e30  # of a constant that rows begin at: components may be as small as float32 can be
_STILL, _REST = 0.01, 6  # share of the tolerance below which a code is left alone, and for how many sweeps


# The bodies below serve NUMBA_DISABLE_JIT; compiled code takes the overloads.


def load(X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]) -> tuple[int, int]:
    """Known entries of row i and their columns, positive ones only unless `zeros` count.

    Returns how many there are, and how many cells are missing; the columns of these are at the end of `columns`.
    """
    return (_load_sparse if isinstance(X, tuple) else _load_dense)(X, i, m, unit, zeros, x, columns)


def longest(X: Source, lo: int, hi: int, m: int, zeros: bool) -> int:
    """The most entries `load` may find in a row."""
    return _longest_sparse(X, lo, hi, m, zeros) if isinstance(X, tuple) else m


def _longest_sparse(X: Source, lo: int, hi: int, m: int, zeros: bool) -> int:
    most = 0
    for i in range(lo, hi):
        most = max(most, X[2][i + 1] - X[2][i])
    return m if zeros else most


def _longest_dense(X: Source, lo: int, hi: int, m: int, zeros: bool) -> int:
    return m


def _load_dense(
    X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]
) -> tuple[int, int]:
    p, missing, row = 0, 0, X[i]
    if not zeros:
        positive = 0
        for j in range(m):
            positive += row[j] > 0
        zeros = positive > _DENSE * m
    for j in range(m):
        value = row[j]
        if np.isnan(value):
            missing += 1
            columns[len(columns) - missing] = j
        elif zeros or value > 0:
            x[p] = value * unit
            columns[p] = j
            p += 1
    return p, missing


def _load_sparse(
    X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]
) -> tuple[int, int]:
    data, indices, indptr = X
    missing, p, first = 0, 0, indptr[i]
    if not zeros:
        for e in range(first, indptr[i + 1]):
            if np.isnan(data[e]):
                missing += 1
                columns[len(columns) - missing] = indices[e]
            elif data[e] > 0:
                x[p] = data[e] * unit
                columns[p] = indices[e]
                p += 1
        return p, missing
    for j in range(m):
        x[j] = 0
    for e in range(first, indptr[i + 1]):
        x[indices[e]] = data[e] * unit
    for j in range(m):
        if np.isnan(x[j]):
            missing += 1
            columns[len(columns) - missing] = j
        else:
            x[p] = x[j]
            columns[p] = j
            p += 1
    return p, missing


@overload(load)
def _load(X: Source, i: int, m: int, unit: float, zeros: bool, x: Array, columns: NDArray[np.intp]) -> Any:
    return _load_sparse if isinstance(X, types.BaseTuple) else _load_dense


@overload(longest)
def _longest(X: Source, lo: int, hi: int, m: int, zeros: bool) -> Any:
    return _longest_sparse if isinstance(X, types.BaseTuple) else _longest_dense


@compiled_reordering
def derivatives(G: Array, a: int, x: Array, y: Array, beta: float, known: float) -> Any:
    """Derivative of the divergence in code a, and the curvature of its bound; `known`: sum of G[a] for beta = 1."""
    g, zero = G[a], G.dtype.type(0)
    pull, push, curve = zero, zero, zero
    p = g.size
    if beta == 1:
        for e in range(p):
            w = g[e] / y[e]
            t = x[e] * w
            pull += t
            curve += t * w
        return known - pull, np.float64(curve)
    if beta == 0:
        for e in range(p):
            w = g[e] / y[e]
            t = x[e] * w / y[e]
            push += w
            pull += t
            curve += t * w
        return np.float64(push) - pull, 2.0 * curve
    power = g.dtype.type(beta - 2)
    convex, concave = g.dtype.type(min(max(beta - 1, 0.0), 1.0)), g.dtype.type(min(max(2 - beta, 0.0), 1.0))
    if beta < 1:
        convex, concave = zero, g.dtype.type(2 - beta)
    elif beta > 2:
        convex, concave = g.dtype.type(beta - 1), zero
    for e in range(p):
        if beta == 1.5:
            z = 1 / np.sqrt(y[e])
        elif beta == 0.5:
            z = 1 / (y[e] * np.sqrt(y[e]))
        else:
            z = y[e] ** power
        t = g[e] * z
        ratio = x[e] / y[e]
        push += t * y[e]
        pull += t * x[e]
        curve += t * g[e] * (convex + concave * ratio)
    return np.float64(push) - pull, np.float64(curve)


@compiled_reordering
def stepped(u: float, slope: float, curve: float, rising: float, falling: float) -> float:
    """One code after a Newton step in a power of it (`rising`: r, `falling`: q above)."""
    if not curve > 0:
        return 0.0 if slope > 0 else u
    if slope < 0:
        if rising == 1:
            return u - slope / curve
        return u * (1 - rising * slope / (curve * u)) ** (1 / rising) if u * curve > 0 else u
    if u <= 0 or u * curve <= 0:
        return 0.0
    more = slope / (u * curve)
    if falling == 1:
        return u / (1 + more)
    if falling == 2:
        return u / np.sqrt(1 + 2 * more)
    return u * (1 + falling * more) ** (-1 / falling)


@compiled_reordering
def improve(
    X: Source,
    U: Array,
    Vt: Array,
    V: Array,
    totals: Array,
    P: Array,
    S: Array,
    anchored: bool,
    unit: float,
    beta: float,
    l1: float,
    l2: float,
    floor: float,
    sweeps: int,
    tol: float,
    fresh: bool,
    summed: bool,
    incomplete: bool,
    lo: int,
    hi: int,
    block: int,
) -> Any:
    """Sweep the codes of every row until one changes by less than `tol` of it, at most `sweeps` times; sums of them.

    `totals` are the sums of the rows of V (k); `unit` multiplies X. With a structure term P (m x k) and S (k x k) are
    ``4 alpha X'U`` and ``4 alpha U'U``: its derivative at the codes U is ``U S - X P``. It is a quadratic in the codes
    of a row, or, if it is `anchored`, a quartic of all of them that is bounded at the codes as they are (Yang and Oja,
    2011). `fresh` rows begin at their best constant. Returns the divergence, the sums for V (m x k) that pull and push,
    sums and sums of squares of the codes, X'U and U'U. Where beta = 1, push is what missing cells take away.
    """
    m, k = Vt.shape
    zeros, structured = beta != 1, len(P) > 0
    rising, falling = max(1.0, beta - 1), max(1.0, 2 - beta)
    if structured and anchored:
        rising = max(rising, 3.0)
    most = longest(X, lo, hi, m, zeros)
    x, y, columns = np.empty(most, V.dtype), np.empty(most, V.dtype), np.empty(max(most, m), np.intp)
    gathered, ratio, powers = np.empty(k * most, V.dtype), np.empty(most), np.empty(most)
    u, start, own, drawn, uS = np.empty(k, V.dtype), np.empty(k), np.empty(k), np.zeros(k), np.zeros(k)
    waits = np.zeros(k, np.intp)
    pull, push = np.empty((ROWS, most), V.dtype), np.empty((ROWS, most), V.dtype)
    held, rows = np.zeros((ROWS, k), V.dtype), 0
    N, E = np.zeros((m if summed else 0, k)), np.zeros((m if summed and (zeros or incomplete) else 0, k))
    whole = most == m and summed
    Nt, Et = np.zeros((k, m if whole else 0)), np.zeros((k, m if whole and zeros else 0))
    XU, UU = np.zeros((m if structured and summed else 0, k)), np.zeros((k, k))
    ones, squares, value = np.zeros(k), np.zeros(k), 0.0
    for i in range(lo, hi):
        p, missing = load(X, i, m, unit, zeros, x, columns)
        xs, ys = x[:p], y[:p]
        complete = p == m
        G = V
        if not complete:
            G = gathered[: k * p].reshape(k, p)
            gather(Vt, columns, p, G)
        for a in range(k):
            own[a] = totals[a]
            u[a] = U[i, a]
        if missing and not zeros:
            for e in range(missing):
                v = Vt[columns[len(columns) - 1 - e]]
                for a in range(k):
                    own[a] -= v[a]
            for a in range(k):
                own[a] = max(own[a], 0.0)
        if fresh:
            best_constant(G, xs, ys, own, beta, floor, u)
        if structured:
            for a in range(k):
                drawn[a], start[a] = 0.0, u[a]
            for e in range(p):
                pulls, xe = P[columns[e]], xs[e]
                for a in range(k):
                    drawn[a] += xe * pulls[a]
            multiply(start, S, uS)
        reconstruct(G, u, floor, ys)
        largest, full = 0.0, True
        for a in range(k):
            waits[a] = 0
        for s in range(sweeps):
            change, size, full = 0.0, 0.0, True
            for a in range(k):
                if waits[a] > s:
                    full = False
                    continue
                slope, curve = derivatives(G, a, xs, ys, beta, own[a])
                before = np.float64(u[a])
                slope += l1 + 2 * l2 * before
                curve += 2 * l2
                if structured and anchored:
                    if not start[a] > 0:
                        continue
                    t = before / start[a]
                    slope += uS[a] * t * t * t - drawn[a]
                    curve += 3 * uS[a] * t * t / start[a]
                elif structured:
                    slope += uS[a] - drawn[a]
                    curve += S[a, a]
                new = u.dtype.type(stepped(before, slope, curve, rising, falling))
                if not np.isfinite(new):
                    continue
                step = new - u[a]
                if step != 0:
                    u[a] = new
                    update(ys, step, G, a, floor)
                    if structured and not anchored:
                        for c in range(k):
                            uS[c] += step * S[a, c]
                moved = step * step * curve
                change += moved
                size += new * new * curve
                if moved <= _STILL * tol * tol * largest:
                    waits[a] = s + _REST
            largest = max(size, largest)
            if s % 8 == 7:
                reconstruct(G, u, floor, ys)
            if change <= tol * tol * largest:
                if full:
                    break
                for a in range(k):
                    waits[a] = 0
        for a in range(k):
            U[i, a] = u[a]
        if not summed:
            continue
        reconstruct(G, u, floor, ys)
        value += distance(xs, ys, p, beta, ratio, ratio.view(np.int64), powers)
        if not complete and not zeros:
            rest = 0.0
            for a in range(k):
                rest += own[a] * u[a]
            for e in range(p):
                rest -= ys[e]
            value += max(rest, 0.0)
        weights(xs, ys, p, beta, pull[rows], push[rows])
        if complete:
            for a in range(k):
                held[rows, a] = u[a]
            rows += 1
            if rows == ROWS:
                add_rows(held, pull, rows, Nt)
                if zeros:
                    add_rows(held, push, rows, Et)
                rows = 0
        else:
            scatter(pull[rows], u, columns, p, N)
            if zeros:
                scatter(push[rows], u, columns, p, E)
        if missing and not zeros:
            for e in range(missing):
                sums = E[columns[len(columns) - 1 - e]]
                for a in range(k):
                    sums[a] -= u[a]
        if structured:
            scatter(xs, u, columns, p, XU)
            for a in range(k):
                for c in range(k):
                    UU[a, c] += np.float64(u[a]) * u[c]
        for a in range(k):
            ones[a] += u[a]
            squares[a] += np.float64(u[a]) * u[a]
    if rows:
        add_rows(held, pull, rows, Nt)
        if zeros:
            add_rows(held, push, rows, Et)
    if whole:
        N += Nt.T
    if whole and zeros:
        E += Et.T
    return value, N, E, ones, squares, XU, UU


@compiled_reordering
def best_constant(G: Array, x: Array, y: Array, totals: Array, beta: float, floor: float, u: Array) -> None:
    """Codes that are all alike, and as large as is best."""
    k, p = G.shape
    for a in range(k):
        u[a] = 1
    reconstruct(G, u, floor, y)
    above, below = 0.0, 0.0
    if beta == 1:
        for e in range(p):
            above += x[e]
        for a in range(k):
            below += totals[a]
    else:
        for e in range(p):
            above += x[e] * np.float64(y[e]) ** (beta - 1)
            below += np.float64(y[e]) ** beta
    best = min(above / below, _LARGEST) if below > 0 else 0.0
    for a in range(k):
        u[a] = best
