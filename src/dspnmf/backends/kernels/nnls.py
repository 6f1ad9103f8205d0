"""Transform: every row to its optimum under a convex model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled
from dspnmf._typing import Array
from dspnmf.backends.kernels.products import Source, pull
from dspnmf.backends.kernels.sweeps import add_transposed, inverse_diagonal, sweep

SPARE = 8  # inner solves beyond 3 k after which an active set keeps the feasible point it has
DEPENDENT = 1e150  # stands for an infinite pivot


@compiled
def solve_free(S: Array, g: Array, members: NDArray[np.intp], size: int, L: Array, z: Array) -> None:
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
def active_set(S: Array, g: Array, y: Array, members: NDArray[np.intp], L: Array, z: Array, tolerance: float) -> None:
    """Minimise ``1/2 y S y' - g y`` over y >= 0 from the feasible y, never uphill (Bro & de Jong 1997)."""
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
def solve_rows(
    X: Source,
    E: Array | None,
    delta: Array | None,
    out: Array,
    kappa: Array,
    M: Array,
    S: Array,
    lo: int,
    hi: int,
    block: int,
    sweeps: int,
) -> None:
    """Non-negative least squares for every row: sweeps from zero, then an exact active set.

    E (n x k) is added to X M, ``delta diag(kappa)`` (n, k) to S; each may be None.
    """
    k = S.shape[0]
    Gt, Yt, rest = np.empty((k, block)), np.empty((k, block)), np.empty(block)
    G, L, z, C = np.empty((block, k), out.dtype), np.empty((k, k)), np.empty(k), S.copy()
    y, g, members = np.empty(k), np.empty(k), np.empty(k, np.int64)
    inverse = inverse_diagonal(S, 1e-30)
    for i in range(lo, hi, block):
        j = min(i + block, hi)
        pull(X, M, i, j, G[: j - i])
        for b in range(j - i):
            for a in range(k):
                Gt[a, b], Yt[a, b] = G[b, a], 0.0
        if E is not None:
            add_transposed(E, i, j - i, Gt)
        for _ in range(sweeps):
            sweep(Yt, Gt, S, inverse, delta, kappa, i, rest, j - i)
        for b in range(j - i):
            size = 0.0
            for a in range(k):
                y[a], g[a] = Yt[a, b], Gt[a, b]
                if delta is not None:
                    C[a, a] = S[a, a] + delta[i + b] * kappa[a]
                if C[a, a] > 0:
                    size = max(size, abs(g[a]) / np.sqrt(C[a, a]))
            active_set(C, g, y, members, L, z, 1e-12 * size)
            for a in range(k):
                out[i + b, a] = y[a]
