"""Codes of a row, and the sums for the components, when errors are measured by a beta divergence.

A row is in cache while its codes are swept several times, one code after another. With g the derivative of the
objective in one code u and g' > 0 the curvature of its bound, the step is Newton's in a power of u:

    g < 0:  u (1 - r g / (g' u))^(1/r),     g > 0:  u (1 + q g / (g' u))^(-1/q)

In s = u^r, and less it in s = u^-q, the derivative g (of the bound that has tangents in place of what is concave, as in
Fevotte and Idier, Neural Computation 23(9), 2011) is a concave function of s. So Newton's step in s ends before the
minimum: the objective never rises, and no step size is needed. r = max(1, beta - 1), and at least 3 where a structure
term is bounded; q = max(1, 2 - beta). The multiplicative rule has a chord in place of the tangent, and where codes fall
its steps are never longer.

Outside 1 <= beta <= 2 the bound is too steep: where X is about UV, its curvature is max(2 - beta, beta - 1) times that
of the divergence. There codes take steps with the curvature divided by that, at most by 2, up to which such steps still
lead to the same codes. A row that loses by them goes back, and takes the guaranteed steps.

Codes that are solved for are extrapolated now and then, where that loses nothing.

Where x = 0 the Kullback-Leibler divergence is linear: only the positive entries of a row are touched. Missing cells
(NaN) have no weight. Arithmetic is that of V, sums that leave the kernel are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
    weights,
)
from dspnmf.backends.kernels.divergence_entries import load, longest
from dspnmf.backends.kernels.products import Source

_LARGEST = 1e30  # of a constant that rows begin at: components may be as small as float32 can be
_DRIFT = 8  # sweeps after which UV is made anew
_LEAP = 4  # sweeps after which codes that are solved for are extrapolated, where changes shrink slowly:
_SLOW, _SLOWEST = 0.7, 0.95  # by no smaller factor than the first, and taken for no larger than the second
_KEPT = 0.1  # of a code, at least
_APART = 128  # numbers on either side of memory in which a loop writes what it also adds up
_STILL, _REST = 0.01, 6  # share of the tolerance below which a code is left alone, and for how many sweeps


@compiled_reordering
def derivatives(
    G: Array, a: int, x: Array, y: Array, beta: float, known: float, floor: float, last: int, step: float
) -> Any:
    """Derivative of the divergence in code a, and the curvature of its bound; `known`: sum of G[a] for beta = 1.

    In the same pass, and before, y takes the step of the code before it: ``y += step G[last]``, not below the floor.
    """
    g, before, zero, by, least = G[a], G[last], G.dtype.type(0), G.dtype.type(step), G.dtype.type(floor)
    pull, push, curve = zero, zero, zero
    p = g.size
    if beta == 1:
        for e in range(p):
            now = max(y[e] + by * before[e], least)
            y[e] = now
            w = g[e] / now
            t = x[e] * w
            pull += t
            curve += t * w
        return known - pull, np.float64(curve)
    if beta == 0:
        for e in range(p):
            now = max(y[e] + by * before[e], least)
            y[e] = now
            w = g[e] / now
            t = x[e] * w / now
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
        now = max(y[e] + by * before[e], least)
        y[e] = now
        if beta == 1.5:
            z = 1 / np.sqrt(now)
        elif beta == 0.5:
            z = 1 / (now * np.sqrt(now))
        else:
            z = now**power
        t = g[e] * z
        push += t * now
        pull += t * x[e]
        curve += t * g[e] * (convex + concave * (x[e] / now))
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
def decay(u: Array, was: Array, shift: Array) -> float:
    """By what factor the changes of the codes shrink from sweep to sweep; `shift`: those of the sweep before."""
    above, below = 0.0, 0.0
    for a in range(u.size):
        above += (u[a] - was[a]) * shift[a]
        below += shift[a] * shift[a]
    return min(above / below, _SLOWEST) if below > 0 else 0.0


@compiled_reordering
def leapt(
    G: Array,
    x: Array,
    y: Array,
    beta: float,
    own: Array,
    l1: float,
    l2: float,
    floor: float,
    structured: bool,
    S: Array,
    drawn: Array,
    u: Array,
    was: Array,
    rate: float,
    tried: Array,
    ratio: Array,
    powers: Array,
) -> bool:
    """Whether codes went to where changes that go on to shrink at this rate would lead, because less is lost there."""
    reconstruct(G, u, floor, y)
    before = objective_of_row(x, y, beta, own, l1, l2, structured, S, drawn, u, ratio, powers)
    for a in range(u.size):
        tried[a] = max(u[a] + (u[a] - was[a]) * rate / (1 - rate), _KEPT * u[a])
    reconstruct(G, tried, floor, y)
    better = objective_of_row(x, y, beta, own, l1, l2, structured, S, drawn, tried, ratio, powers) <= before
    if better:
        u[:] = tried
    else:
        reconstruct(G, u, floor, y)
    return better


@compiled_reordering
def objective_of_row(
    x: Array,
    y: Array,
    beta: float,
    own: Array,
    l1: float,
    l2: float,
    structured: bool,
    S: Array,
    drawn: Array,
    u: Array,
    ratio: Array,
    powers: Array,
) -> float:
    """Divergence of one row, penalties and the quadratic of a structure term, up to a constant."""
    value = distance(x, y, x.size, beta, ratio, ratio.view(np.int64), powers)
    if beta == 1:
        for e in range(x.size):
            value -= y[e]
        for a in range(u.size):
            value += own[a] * u[a]
    if l1 > 0 or l2 > 0:
        for a in range(u.size):
            value += (l1 + l2 * u[a]) * u[a]
    if structured:
        for a in range(u.size):
            slope = -drawn[a]
            for c in range(u.size):
                slope += S[a, c] * u[c] / 2
            value += slope * u[a]
    return value


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
    x, columns, gathered = np.empty(most, V.dtype), np.empty(max(most, m), np.intp), np.empty(k * most, V.dtype)
    # Next to other memory a compiled loop would not work on several numbers at once, and sums would round otherwise.
    y = np.empty(most + 2 * _APART, V.dtype)[_APART : _APART + most]
    ratio, powers = np.empty(most + 2 * _APART)[_APART : _APART + most], np.empty(most)
    u, start, own, drawn, uS = np.empty(k, V.dtype), np.empty(k), np.empty(k), np.zeros(k), np.zeros(k)
    waits, was, shift = np.zeros(k, np.intp), np.empty(k), np.zeros(k)
    tried, kept, lost = np.empty(k, V.dtype), np.empty(k, V.dtype), 0.0
    longer = 1.0 if structured else min(max(1.0, 2 - beta, beta - 1), 2.0)
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
        step, last = u.dtype.type(0), 0
        for a in range(k):
            waits[a] = 0
        relaxed, s = 1.0, 0
        if longer > 1 and sweeps > 0:
            relaxed, kept[:] = longer, u
            lost = objective_of_row(xs, ys, beta, own, l1, l2, structured, S, drawn, u, ratio, powers)
        while s < sweeps:
            for a in range(k):
                was[a] = u[a]
            change, size, full = 0.0, 0.0, True
            for a in range(k):
                if waits[a] > s:
                    full = False
                    continue
                slope, curve = derivatives(G, a, xs, ys, beta, own[a], floor, last, float(step))
                step, last = u.dtype.type(0), a
                before = np.float64(u[a])
                slope += l1 + 2 * l2 * before
                curve = curve / relaxed + 2 * l2
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
                    if structured and not anchored:
                        for c in range(k):
                            uS[c] += step * S[a, c]
                moved = step * step * curve
                change += moved
                size += new * new * curve
                if moved <= _STILL * tol * tol * largest:
                    waits[a] = s + _REST
            largest, s = max(size, largest), s + 1
            still = change <= tol * tol * largest
            ends = relaxed > 1 and (still or s == sweeps or s % _LEAP == 0)
            if ends or s % _DRIFT == 0:
                reconstruct(G, u, floor, ys)
                step = u.dtype.type(0)
            if ends:
                now = objective_of_row(xs, ys, beta, own, l1, l2, structured, S, drawn, u, ratio, powers)
                if not now <= lost:
                    u[:], waits[:], relaxed, largest, s = kept, 0, 1.0, 0.0, 0
                    reconstruct(G, u, floor, ys)
                    continue
                kept[:], lost = u, now
            if still and full:
                break
            if still:
                waits[:] = 0
            if tol > 0 and s % _LEAP == 0 and s > _LEAP:
                rate = decay(u, was, shift)
                if rate > _SLOW:
                    if leapt(
                        G, xs, ys, beta, own, l1, l2, floor, structured, S, drawn, u, was, rate, tried, ratio, powers
                    ):
                        for a in range(k):
                            start[a] = u[a]
                        multiply(start, S, uS)
                    step = u.dtype.type(0)
            for a in range(k):
                shift[a] = u[a] - was[a]
        for a in range(k):
            U[i, a] = u[a]
        if not summed:
            continue
        if sweeps > 0 and relaxed == 1:
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
