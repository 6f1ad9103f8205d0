"""Data in extreme units and components without features: each once led to wrong numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dspnmf import DSPNMF, FRNMF, GDNMF, GNMF, NMF, NPNMF, NSNMF, ONMF, SDNMF, SPNMF, SymNMF, graphs

B = np.random.default_rng(0).random((40, 7)) + 0.1


def fitted(model: Any, X: Any, y: Any = None) -> tuple[Any, np.ndarray]:
    """A model and its codes, however far from converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model, model.fit_transform(X, y)


def documented(model: Any, X: np.ndarray, Z: np.ndarray, y: np.ndarray | None = None) -> float:
    """The objective of GNMF and GDNMF as their docstrings have it."""
    degrees, A = graphs.laplacian(graphs.knn(X, model.n_neighbors))
    value = np.sum((X - Z @ model.components_) ** 2) + model.beta * np.sum(Z * (degrees[:, None] * Z - A @ Z))
    if y is not None:
        Y = (y[:, None] == model.classes_).astype(float)
        value += model.label_weight * np.sum((Y - Z @ model.label_components_)[y != -1] ** 2)
    return float(value)


def test_components_that_know_labels_only_are_held_to_the_graph() -> None:
    """60 x 5 of rank 2, 4 classes, k = 8: `objective_` was 30 where the formula gave 4,123."""
    rng = np.random.default_rng(3)
    X, y = rng.random((60, 2)) @ rng.random((2, 5)), rng.integers(-1, 4, 60)
    model, Z = fitted(GDNMF(8, random_state=0), X, y)
    assert model.objective_ == pytest.approx(documented(model, X, Z, y), rel=1e-9)
    counted = min(model.label_weight, X.max() ** 2)
    lengths = np.sum(model.components_**2, axis=1) + counted * np.sum(model.label_components_**2, axis=1)
    np.testing.assert_allclose(lengths[Z.any(axis=0)], 1, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_codes_of_components_without_features_are_zero(seed: int) -> None:
    """Also where rows of X are zero, and by `transform` as by the fit."""
    rng = np.random.default_rng(seed)
    X = np.outer(rng.random(20), rng.random(5))
    X[::4] = 0
    model, Z = fitted(GNMF(8, beta=0.1, random_state=seed, max_iter=10, tol=0, solver="hals"), X)
    dead = ~model.components_.any(axis=1)
    assert not Z[:, dead].any()
    assert not model.transform(X)[:, dead].any()
    assert model.objective_ == pytest.approx(documented(model, X, Z), rel=1e-9)


UNITS = [(np.float32, -100), (np.float32, 66), (np.float32, 100), (np.float64, -399), (np.float64, 260)]
MODELS = [
    lambda u: DSPNMF(3, alpha=1 / u**2),
    lambda u: DSPNMF(3, alpha=1 / u**2, solver="hals"),
    lambda u: DSPNMF(3, alpha=u**2, similarity="cosine"),
    lambda u: DSPNMF(3, alpha=1 / u**2, solver="mm", max_iter=20),
    lambda u: NMF(3),
    lambda u: NMF(3, init="nndsvda"),
    lambda u: GNMF(3),
    lambda u: NPNMF(3),
    lambda u: SPNMF(3),
    lambda u: NSNMF(3, reconstruction_weight=1 / u**2, gamma=0),
    lambda u: FRNMF(3, alpha=1 / u**2),
    lambda u: ONMF(3, max_iter=30),
    lambda u: SymNMF(3),
]


@pytest.mark.parametrize(("dtype", "power"), UNITS)
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_the_unit_of_x_changes_nothing_but_units(number: int, dtype: Any, power: int) -> None:
    """X times a power of two has the codes of X, up to a factor, and the same of every row for `transform`."""
    u = 2.0**power
    X = B.astype(dtype)
    (small, Z), (large, L) = (fitted(MODELS[number](s).set_params(random_state=0), X * dtype(s)) for s in (1.0, u))
    close = {"rtol": 2e-3 if dtype is np.float32 else 1e-8, "atol": 1e-4}
    pairs = [(Z, L)]
    if not isinstance(small, SymNMF):
        pairs.append((small.transform(X[:9]), large.transform(X[:9] * dtype(u))))
    for of_one, of_u in pairs:
        assert np.isfinite(of_u).all()
        np.testing.assert_allclose(of_u / of_u.max(), of_one / of_one.max(), **close)
    history = large.objective_history_
    assert ((history >= 0) & (history < np.inf)).all()
    assert len(history) == len(small.objective_history_)


@pytest.mark.parametrize("power", [-99, 99])
@pytest.mark.parametrize("kind", [DSPNMF, NMF, GNMF, NSNMF, FRNMF, SDNMF, SPNMF])
def test_published_rules_in_extreme_units(kind: Any, power: int) -> None:
    """They stay finite in float32, sparse or dense, and so does `transform`."""
    X = (B * 2.0**power).astype(np.float32)
    for form in (X, sparse.csr_array(X)):
        if kind in (FRNMF, SDNMF) and sparse.issparse(form):
            continue
        model, Z = fitted(kind(2, solver="paper", max_iter=15, tol=0, random_state=0), form)
        for factor in (Z, model.components_, model.transform(form)):
            assert np.isfinite(factor).all()


def test_graphs_do_not_depend_on_the_unit() -> None:
    """Nor do new rows far from a training set of zeros overflow."""
    X = B.astype(np.float32)
    for build in (graphs.knn, graphs.self_tuned, graphs.spanning_tree, graphs.lle_weights, graphs.farthest):
        np.testing.assert_allclose(build(X * np.float32(2.0**95)).toarray(), build(X).toarray(), rtol=1e-5, atol=1e-12)
    assert graphs.mean_distance(X * np.float32(2.0**-95)) == pytest.approx(graphs.mean_distance(X) * 2.0**-95, rel=1e-5)
    assert graphs.neighbours_in(X * np.float32(2.0**95), np.zeros_like(X), 1).sum() == len(X)
