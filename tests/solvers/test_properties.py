"""Properties over random shapes, precisions, scales and sparsity (Hypothesis)."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspnmf import DSPNMF, NMF

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def matrices(draw: Any) -> Any:
    """Non-negative X of random shape, precision, unit, sparsity and storage."""
    n, m = draw(st.integers(1, 30)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.random((n, m)) * (rng.random((n, m)) >= draw(st.sampled_from([0.0, 0.5, 0.9])))
    X = (X * 10.0 ** draw(st.integers(-6, 6))).astype(draw(st.sampled_from([np.float32, np.float64])))
    return sparse.csr_matrix(X) if draw(st.booleans()) else X


@QUICK
@given(
    X=matrices(),
    k=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    penalty=st.sampled_from([0.0, 0.0, 1e-6, 1e-2, 1.0]),
    l1_ratio=st.sampled_from([0.0, 0.5, 1.0]),
    solver=st.sampled_from(["newton-cg", "hals", "mm"]),
    seed=st.integers(0, 1000),
)
def test_fit(X: Any, k: int, alpha: float, penalty: float, l1_ratio: float, solver: str, seed: int) -> None:
    """Shapes, precision, signs, finiteness and descent hold for any data and parameters."""
    penalties = {"alpha_W": penalty, "l1_ratio": l1_ratio}
    model = DSPNMF(k, alpha=alpha, solver=solver, max_iter=12, tol=0, random_state=seed, **penalties)
    Z = model.fit_transform(X)
    assert Z.shape == (X.shape[0], k)
    assert model.components_.shape == (k, X.shape[1])
    assert Z.dtype == model.components_.dtype == X.dtype
    assert np.isfinite(Z).all()
    assert (Z >= 0).all()
    assert (model.components_ >= 0).all()
    assert np.isfinite(model.components_).all()
    dense = (X.toarray() if sparse.issparse(X) else X).astype(np.float64)
    scale = np.sum(dense**2) + alpha * np.sum((dense.T @ dense) ** 2) + penalty * model.objective_history_[0]
    rise = np.diff(model.objective_history_).max()
    assert rise <= (1e-12 if X.dtype == np.float64 else 1e-6) * scale


@QUICK
@given(X=matrices(), k=st.integers(1, 4), seed=st.integers(0, 1000))
def test_transform(X: Any, k: int, seed: int) -> None:
    """Transform is deterministic, non-negative, row by row, and never worse than zero codes."""
    model = NMF(k, max_iter=12, tol=0, random_state=seed).fit(X)
    Z = model.transform(X)
    assert (Z >= 0).all()
    np.testing.assert_array_equal(Z, model.transform(X))
    dense = (X.toarray() if sparse.issparse(X) else X).astype(np.float64)
    residual = np.linalg.norm(dense - Z.astype(np.float64) @ model.components_, axis=1)
    assert (residual <= np.linalg.norm(dense, axis=1) * (1 + 1e-5)).all()
    lengths = np.linalg.norm(model.components_.astype(np.float64), axis=1)  # a tiny component may have any code
    first, known = model.transform(X[:1]) * lengths, Z[:1] * lengths
    np.testing.assert_allclose(first, known, rtol=1e-4, atol=1e-5 * max(float((Z * lengths).max()), 1e-30))


@QUICK
@given(X=matrices(), factor=st.sampled_from([2.0**-20, 0.5, 8.0, 2.0**30]))
def test_powers_of_two_are_exact(X: Any, factor: float) -> None:
    """Scaling X by a power of two changes no digit of the components (plain NMF), but for entries that underflow."""
    one = NMF(2, max_iter=6, tol=0, random_state=0).fit(X)
    other = NMF(2, max_iter=6, tol=0, random_state=0).fit(X * X.dtype.type(factor))
    np.testing.assert_allclose(one.components_, other.components_, rtol=0, atol=1e-30)
