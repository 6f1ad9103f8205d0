"""similarity="diffused": what is preserved, what transform does, and what it takes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons, make_swiss_roll
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import minmax_scale

from dspnmf import DSPNMF, graphs
from dspnmf.backends import averaging


def weights_by_loops(X: np.ndarray, k: int, mutual: bool) -> np.ndarray:
    """R as documented: self-tuned edges, 1 on the diagonal, rows of sum 1."""
    n = len(X)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1)
    s = np.sort(D, axis=1)[:, 6]
    A = np.eye(n)
    for i, j in itertools.product(range(n), repeat=2):
        one, other = j in order[i, :k], i in order[j, :k]
        if (one and other) if mutual else (one or other):
            A[i, j] = np.exp(-(D[i, j] ** 2) / (s[i] * s[j]))
    return A / A.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("mutual", [False, True])
def test_weights_of_a_step(mutual: bool, wine: np.ndarray) -> None:
    """The weights of a step are those of loops over the definition."""
    R = graphs.diffusion(wine, 4, mutual)
    np.testing.assert_allclose(R.toarray(), weights_by_loops(wine, 4, mutual), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_objective_written_out(form: Any, wine: np.ndarray) -> None:
    """The objective is that of the averaged rows, formed here as an n x n matrix; transform finds the codes again."""
    X = 5.0 * wine
    parameters: dict[str, Any] = {"n_neighbors": 4, "diffusion_steps": 3, "mutual": True, "alpha": 0.02, "lam": 2.0}
    model = DSPNMF(3, similarity="diffused", **parameters, random_state=0, max_iter=40, tol=0)
    Z = model.fit_transform(form(X))
    Xd = 0.8 * np.linalg.matrix_power(weights_by_loops(X, 4, True), 3) @ X + 0.2 * X
    structure = np.sum((Xd @ Xd.T - 2 * Z @ Z.T) ** 2)
    expected = np.sum((X - Z @ model.components_) ** 2) + 0.02 * structure
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    assert model.structure_err_ == pytest.approx(np.sqrt(structure), rel=1e-7)
    assert (np.diff(model.objective_history_) <= 1e-12 * model.objective_history_[0]).all()
    np.testing.assert_allclose(model.transform(form(X)), Z, rtol=1e-8, atol=1e-10 * Z.max())


def test_new_rows_are_interpolated() -> None:
    """A new row's pull is that of averaged training rows, weighted by 1 / distance^2: written out for one row."""
    rng = np.random.default_rng(0)
    X, x = rng.random((40, 5)), rng.random((1, 5))
    chosen: dict[str, Any] = {"n_neighbors": 3, "diffusion_steps": 8, "mutual": False}
    model = DSPNMF(2, similarity="diffused", **chosen, alpha=0.1, random_state=0, tol=1e-9).fit(X)
    d = np.linalg.norm(X - x, axis=1)
    near = np.argsort(d)[:3]
    w = d[near] ** -2.0 / (d[near] ** -2.0).sum()
    Xd = 0.8 * np.linalg.matrix_power(weights_by_loops(X, 3, False), 8) @ X + 0.2 * X
    xd, Z, V = w @ Xd[near], model.transform(X), model.components_
    S = V @ V.T + 0.2 * Z.T @ Z
    pull = x @ V.T + 0.2 * (xd @ Xd.T @ Z)
    z = model.transform(x)
    slope = z @ S - pull
    assert np.abs(np.minimum(z, slope)).max() <= 1e-5 * np.abs(pull).max(), "the conditions of a minimum over z >= 0"


@pytest.mark.parametrize("shape", ["circles", "moons", "roll"])
def test_curved_clusters_are_found_again(shape: str) -> None:
    """Circles, moons and slices of a rolled sheet, mixed by similarities of rows, are clusters of diffused ones."""
    X, y = curved(shape)
    nearness = rbf_kernel(X, X[::10], gamma=50.0)  # circles around one centre differ in these features, not in means
    found = {}
    far: dict[str, Any] = {"n_neighbors": 10, "diffusion_steps": 1000, "alpha": 100.0}
    for similarity, more in (("gram", {}), ("diffused", far)):
        Z = DSPNMF(y.max() + 1, similarity=similarity, normalize=True, random_state=0, **more).fit_transform(nearness)
        clusters = KMeans(y.max() + 1, n_init=10, random_state=0).fit_predict(Z)
        found[similarity] = normalized_mutual_info_score(y, clusters)
    assert found["gram"] < 0.5
    assert found["diffused"] > 0.9


def curved(shape: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows in two or three dimensions, from 0 to 1, and their clusters."""
    if shape == "circles":
        X, y = make_circles(600, factor=0.5, noise=0.03, random_state=0)
    elif shape == "moons":
        X, y = make_moons(600, noise=0.05, random_state=0)
    else:
        X, t = make_swiss_roll(900, noise=0.05, random_state=0)
        cuts = np.quantile(t, [1 / 3, 2 / 3])
        kept = (np.abs(t[:, None] - cuts) > 0.4).all(axis=1)
        X, y = X[kept], np.digitize(t, cuts)[kept]
    return minmax_scale(X), y


def test_sparse_rows_that_fill_up_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sparse rows would grow to is estimated from some of them first; beyond the memory it is refused."""
    X = sparse.random_array((300, 400), density=0.01, format="csr", rng=0)
    R = graphs.diffusion(X, 5, mutual=False)
    assert averaging.stored_entries(X, R, 3) == pytest.approx(averaging.averaged(X, R, 3).nnz, rel=0.2)
    monkeypatch.setattr(averaging, "physical_memory", lambda: 1e5)
    with pytest.raises(ValueError, match=r"diffusion_steps=3 steps would fill \d+% of its cells.*Use fewer steps"):
        DSPNMF(3, similarity="diffused", n_neighbors=5, diffusion_steps=3, mutual=False).fit(X)


def test_float32_stays(wine: np.ndarray) -> None:
    """Codes in float32 are those of float64, and of its type."""
    X = wine.astype(np.float32)
    parameters: dict[str, Any] = {"diffusion_steps": 32, "alpha": "auto", "random_state": 0, "tol": 1e-7}
    single, double = (DSPNMF(3, similarity="diffused", **parameters) for _ in range(2))
    Z = single.fit_transform(X)
    assert Z.dtype == single.components_.dtype == np.float32
    np.testing.assert_allclose(Z, double.fit_transform(X.astype(float)), atol=2e-3 * Z.max())
