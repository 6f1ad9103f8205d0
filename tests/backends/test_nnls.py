"""Codes that are solved for: the conditions of an optimum hold, whatever the curvature is like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dspnmf.backends.kernels import products
from dspnmf.backends.memory_rows import _WELL_CONDITIONED, MemoryRows, _inverse
from dspnmf.backends.row_model import RowModel, Ties

N = 300


def curvature(kind: str, k: int) -> np.ndarray:
    """S of k components that are different, much alike, in different units, dependent, or of which one is empty."""
    rng = np.random.default_rng(k)
    V = rng.random((k, 2 * k + 5)) ** 4
    if kind == "alike":
        V = V[:1] + 1e-4 * V
    if kind == "in other units":
        V *= np.logspace(0, 8, k)[:, None]
    if kind == "dependent":
        V[k // 2 :] = V[: k - k // 2]
    if kind == "one is empty":
        V[k // 2] = 0.0
    return V @ V.T


def pulls(S: np.ndarray, zeros: float) -> np.ndarray:
    """Pulls of rows with some share of zeros among their codes, about."""
    rng = np.random.default_rng(1)
    Y = rng.random((N, len(S))) / np.sqrt(np.maximum(S.diagonal(), 1e-300))
    Y = np.where(rng.random(Y.shape) < zeros, 0.0, Y)
    slopes = np.where(Y == 0, rng.standard_normal(Y.shape), 0.0) * 0.3 * np.sqrt(S.diagonal())
    half = len(S) // 2
    if np.allclose(S[half:], S[: len(S) - half]):  # components that are the same have the same pull
        slopes[:, half:] = slopes[:, : len(S) - half]
    G = Y @ S - slopes
    G[0] = 0.0
    return G


@pytest.mark.parametrize("kind", ["different", "alike", "in other units", "dependent", "one is empty"])
@pytest.mark.parametrize(("k", "zeros"), [(1, 0.2), (7, 0.0), (20, 0.2), (20, 0.8), (40, 0.5)])
@pytest.mark.parametrize("tied", [False, True])
def test_every_row_is_at_its_optimum(kind: str, k: int, zeros: float, tied: bool) -> None:
    """Codes are non-negative, the slope is zero where they are positive, and nowhere below zero."""
    S = curvature(kind, k)
    G, weight, lengths = pulls(S, zeros), np.linspace(0, 1, N), S.diagonal().copy()
    Y = MemoryRows(G, k).solve(RowModel(S, np.eye(k)), Ties(None, weight, lengths) if tied else None)
    slope = Y @ S - G + (weight[:, None] * lengths * Y if tied else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(S.diagonal() > 0, slope / np.sqrt(S.diagonal()), 0.0)
        size = np.nanmax(np.where(S.diagonal() > 0, abs(G) / np.sqrt(S.diagonal()), 0.0), axis=1, keepdims=True)
    assert np.isfinite(Y).all()
    assert (Y >= 0).all()
    assert (relative >= -1e-9 * size).all()
    assert (abs(relative[Y > 0]) <= 1e-9 * np.broadcast_to(size, Y.shape)[Y > 0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_and_without_the_inverse(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inverse of a well conditioned curvature saves time and changes nothing beyond rounding."""
    S = curvature("different", 20)
    assert _inverse(S, _WELL_CONDITIONED[8]).size
    assert not _inverse(curvature("alike", 20), _WELL_CONDITIONED[8]).size
    G, found = pulls(S, 0.3).astype(dtype), []
    for limit in (1e-8, np.inf):
        monkeypatch.setitem(_WELL_CONDITIONED, np.dtype(dtype).itemsize, limit)
        found.append(MemoryRows(G, 20).solve(RowModel(S, np.eye(20))))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=100 * float(np.finfo(dtype).eps) * found[1].max())


def test_a_vanishing_component_does_not_blunt_the_others() -> None:
    """A component of hardly any curvature, pulled below zero, leaves the other codes of a row at their optimum."""
    rng = np.random.default_rng(0)
    V = rng.random((6, 20)) * (rng.random((6, 20)) < 0.5)
    V[2] *= 1e-13
    X = np.hstack([rng.random((50, 20)), np.ones((50, 1))])
    S, M = V @ V.T, np.vstack([V.T, np.full(6, -0.5)])
    Y = MemoryRows(X, 6).solve(RowModel(S, M))
    slopes = X @ M - Y @ S
    assert (Y[:, 2] == 0).all()
    assert slopes[Y == 0].max() < 1e-9
    assert np.abs(slopes[Y > 0]).max() < 1e-9


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_products_without_compilation(stored: Any) -> None:
    """Where numba compiles nothing (NUMBA_DISABLE_JIT), the products with X are plain Python."""
    rng = np.random.default_rng(0)
    X, M, D = rng.random((9, 5)) * (rng.random((9, 5)) < 0.5), rng.random((5, 3)), rng.random((4, 3))
    kept = stored(X)
    source = X if stored is np.asarray else (kept.data, kept.indices, kept.indptr)
    out, total = np.empty((4, 3)), np.ones((5, 3))
    products.pull(source, M, 2, 6, out)
    products.push(source, D.T, 2, 6, products.push_scratch(source, 3, D), total)
    np.testing.assert_allclose(out, X[2:6] @ M)
    np.testing.assert_allclose(total, 1 + X[2:6].T @ D)
