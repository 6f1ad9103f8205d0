"""Codes of rows under a convex model: what surrounds the compiled pivoting (`dspnmf.backends.kernels.nnls`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dspnmf._typing import Array

GROUP = 1000  # rows that are held side by side; no power of two, for the sake of the cache


def solve_rows(
    X: Any,  # an array, or the three arrays of a CSR matrix
    E: Array | None,
    delta: Array | None,
    out: Array,
    kappa: Array,
    M: Array,
    S: Array,
    inverse: Array,
    lo: int,
    hi: int,
    block: int,
) -> None:
    """Non-negative least squares for every row, in float64 whatever X and the codes are.

    E (n x k) is added to X M, ``delta diag(kappa)`` (n, k) to S; each may be None. `inverse` is that of S, or has no
    entries where that is not to be trusted. What is long is compiled once for all kinds of X, and only if it is needed.
    `block` is what every kernel is given; here rows come in groups of their own.
    """
    from dspnmf.backends import kernels

    k, lanes = len(S), kernels.LANES
    wide, wide_inverse = _widened(S), _widened(inverse) if inverse.size else np.empty((0, 0))
    members, L, pivots = np.empty((k, lanes), np.intp), np.empty((k, k, lanes)), np.empty((k, lanes))
    for i in range(lo, hi, GROUP):
        part = slice(i, min(i + GROUP, hi))
        G = np.empty((part.stop - i, k), out.dtype)
        kernels.pulled(X, M, i, part.stop, G)
        Gt = np.ascontiguousarray(G.T, np.float64)
        if E is not None:
            Gt += E[part].T
        Ct = np.zeros_like(Gt) if delta is None else np.outer(kappa, delta[part]).astype(np.float64)
        if inverse.size:
            Yt = inverse @ Gt
            left, Ht = np.flatnonzero((Yt <= 0).any(axis=0)), -Yt
            np.maximum(Yt, 0, out=Yt)
        else:
            Yt, Ht, left = np.zeros_like(Gt), np.zeros_like(Gt), np.arange(len(G))
            kernels.guess(Yt, Gt, S, None if delta is None else delta[part], kappa)
        count = kernels.exchange(
            wide, wide_inverse, Gt, Ht, Ct, Yt, left, left.size, inverse.size > 0, members, L, pivots
        )
        if count:
            kernels.finish(S, Gt, Ct, Yt, left[:count])
        out[part] = Yt.T


def _widened(A: Array) -> Array:
    """A with one more code, which has nothing to do with the others."""
    wide = np.pad(A, (0, 1))
    wide[-1, -1] = 1.0
    return wide
