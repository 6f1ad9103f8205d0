"""Penalties in the methods with graphs: exact in value, in descent and in transform; without a graph, those of NMF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import dspnmf
from dspnmf import GDNMF, GNMF, NMF, NPNMF, NSNMF, SPNMF, graphs

PENALTIES: list[dict[str, float]] = [
    {"alpha_W": 2e-3, "alpha_H": 2e-3, "l1_ratio": 0.5},
    {"alpha_W": 1e-3, "alpha_H": 5e-4, "l1_ratio": 1.0},
    {"alpha_W": 2e-3, "alpha_H": 1e-3, "l1_ratio": 0.0},
]
penalized = pytest.mark.parametrize("penalties", PENALTIES, ids=lambda given: str(list(given.values())))
Y = np.arange(60) % 3
Y[40:] = -1


def data(dtype: Any = np.float64) -> np.ndarray:
    """60 rows of three kinds."""
    rng = np.random.default_rng(0)
    return (rng.random((60, 3)) ** 3 @ rng.random((3, 12)) ** 2 + 0.1 * rng.random((60, 12))).astype(dtype)


def penalty(W: np.ndarray, H: np.ndarray, alpha_W: float, alpha_H: float, l1_ratio: float) -> float:
    """Twice scikit-learn's, as its documentation writes it."""
    n, m = len(W), H.shape[1]
    return float(
        2 * l1_ratio * (alpha_W * m * np.abs(W).sum() + alpha_H * n * np.abs(H).sum())
        + (1 - l1_ratio) * (alpha_W * m * np.sum(W**2) + alpha_H * n * np.sum(H**2))
    )


def smoothness(A: Any, lengths: np.ndarray, W: np.ndarray) -> float:
    """tr(U'LU) of the codes at unit length, edge by edge."""
    A, U, total = sparse.csr_array(A).toarray(), W * lengths, 0.0
    for i in range(len(U)):
        for j in range(len(U)):
            total += A[i, j] * float(np.sum((U[i] - U[j]) ** 2)) / 2
    return total


def gnmf(X: np.ndarray, W: np.ndarray, model: Any) -> float:
    """The graph's term of GNMF."""
    return 3.0 * smoothness(graphs.knn(X, 4), np.linalg.norm(model.components_, axis=1), W)


def gdnmf(X: np.ndarray, W: np.ndarray, model: Any) -> float:
    """That of GDNMF, with the labels, which count in the lengths."""
    B, H = model.label_components_, model.components_
    lengths = np.sqrt((H**2).sum(axis=1) + min(2.0, X.max() ** 2) * (B**2).sum(axis=1))
    labelled = Y >= 0
    labels = 2.0 * float(np.sum((np.eye(3)[Y[labelled]] - W[labelled] @ B) ** 2))
    return 3.0 * smoothness(graphs.knn(X, 4), lengths, W) + labels


def npnmf(X: np.ndarray, W: np.ndarray, model: Any) -> float:
    """Codes rebuilt by the neighbours of their rows."""
    U = W * np.linalg.norm(model.components_, axis=1)
    return 2.0 * float(np.sum((U - graphs.lle_weights(X, 4) @ U) ** 2))


def spnmf(X: np.ndarray, W: np.ndarray, model: Any) -> float:
    """Attraction, repulsion and overlap."""
    H = model.components_
    lengths = np.linalg.norm(H, axis=1)
    U, far = W * lengths, graphs.farthest(X, 3).toarray()
    shared = (W.T @ W) * (H @ H.T)
    return gnmf(X, W, model) + 0.3 * float(np.sum(far * (U @ U.T))) + 0.2 * float(shared.sum() - np.trace(shared))


def nsnmf(X: np.ndarray, W: np.ndarray, model: Any) -> float:
    """The tree's similarity and the ridge; the reconstruction has a weight of 3."""
    A, H = graphs.spanning_tree(X).toarray(), model.components_
    rest = 0.5 * np.sum((A - W @ W.T) ** 2) + 0.1 * (np.sum(W**2) + np.sum(H**2))
    return float(rest + 2.0 * np.sum((X - W @ H) ** 2))


METHODS: dict[str, tuple[Any, dict[str, Any], Callable[..., float]]] = {
    "GNMF": (GNMF, {"beta": 3.0, "n_neighbors": 4}, gnmf),
    "GDNMF": (GDNMF, {"beta": 3.0, "n_neighbors": 4, "label_weight": 2.0}, gdnmf),
    "NPNMF": (NPNMF, {"mu": 2.0, "n_neighbors": 4}, npnmf),
    "SPNMF": (SPNMF, {"beta": 3.0, "n_neighbors": 4, "repulsion": 0.3, "overlap": 0.2, "n_distant": 3}, spnmf),
    "NSNMF": (NSNMF, {"alpha": 0.5, "reconstruction_weight": 3.0, "gamma": 0.1}, nsnmf),
}
everywhere = pytest.mark.parametrize("name", METHODS)


@penalized
@everywhere
@pytest.mark.parametrize("solver", ["newton-cg", "hals"])
def test_the_objective_is_what_the_formula_says(name: str, solver: str, penalties: dict[str, float]) -> None:
    """Of the factors returned, for X in any unit; it never rises; the error is that of X - UV alone."""
    method, options, rest = METHODS[name]
    X = 5 * data()
    model = method(3, solver=solver, random_state=0, max_iter=25, tol=0, **options, **penalties)
    W = model.fit_transform(X, Y)
    error2 = float(np.sum((X - W @ model.components_) ** 2))
    expected = error2 + rest(X, W, model) + penalty(W, model.components_, **penalties)
    history = model.objective_history_
    assert model.objective_ == pytest.approx(expected, rel=1e-8)
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(error2), rel=1e-8)
    assert np.diff(history).max() <= 1e-12 * history[0]


@penalized
@pytest.mark.parametrize("method", [GNMF, NPNMF, SPNMF, GDNMF])
def test_without_the_graph_they_are_those_of_nmf(method: Any, penalties: dict[str, float]) -> None:
    """With no weight on anything else, fit and transform are those of NMF from the same start."""
    X, weights = data(), ("beta", "mu", "repulsion", "overlap", "label_weight")
    model = method(3, solver="hals", random_state=0, max_iter=30, tol=0, **penalties)
    model.set_params(**{name: 0.0 for name in weights if name in model.get_params()})
    plain = NMF(3, solver="hals", random_state=0, max_iter=30, tol=0, **penalties)
    np.testing.assert_allclose(model.fit_transform(X), plain.fit_transform(X), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(model.components_, plain.components_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(model.transform(X[:7]), plain.transform(X[:7]), rtol=1e-3, atol=1e-4)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-6)


@penalized
@pytest.mark.parametrize("name", ["GNMF", "NSNMF"])
def test_transform_is_the_optimum_of_a_row(name: str, penalties: dict[str, float]) -> None:
    """No code of a new row is better than that of transform, by a search that knows nothing but the formula."""
    method, options, _ = METHODS[name]
    X, new = data()[:50], data()[50:54]
    model = method(3, random_state=0, max_iter=100, **options, **penalties)
    W = model.fit_transform(X)
    H, m = model.components_, X.shape[1]
    lengths = np.linalg.norm(H, axis=1)

    def value(u: np.ndarray, x: np.ndarray, ties: np.ndarray) -> float:
        found = 2 * penalties["l1_ratio"] * u.sum() + (1 - penalties["l1_ratio"]) * np.sum(u**2)
        found = np.sum((x - u @ H) ** 2) * (3 if name == "NSNMF" else 1) + penalties["alpha_W"] * m * found
        if name == "GNMF":
            return float(found + 3.0 * np.sum(ties[:, None] * ((u - W) * lengths) ** 2))
        pull = 2 * 0.5 * ties @ W  # the model's: -2 alpha a'U u, and the curvature of all training rows
        return float(found + 0.1 * np.sum(u**2) + 2 * 0.5 * u @ (W.T @ W) @ u - 2 * pull @ u)

    Z = model.transform(new)
    if name == "GNMF":
        A = graphs.neighbours_in(new, X, 4).toarray()
    else:
        A = graphs.neighbours_in(new, X, 1, "heat", model._transform_state.training.edge_length).toarray()
    for x, z, ties in zip(new, Z, A, strict=True):
        best = minimize(value, z + 0.1, (x, ties), bounds=[(0, None)] * 3, method="L-BFGS-B", options={"ftol": 1e-14})
        assert value(z, x, ties) <= best.fun * (1 + 1e-7) + 1e-9


@everywhere
def test_storage_precision_and_model_files(name: str, tmp_path: Any) -> None:
    """Sparse X and float32 come to the same; a saved model gives the same codes; too much L1 leaves none."""
    method, options, _ = METHODS[name]
    given = {"random_state": 0, "max_iter": 20, "tol": 0, **options, **PENALTIES[1]}
    model = method(3, **given).fit(data(), Y)
    for X, close in ((sparse.csr_array(data()), 1e-6), (data(np.float32), 1e-2)):
        other = method(3, **given)
        Z = other.fit_transform(X, Y)
        assert Z.dtype == X.dtype
        assert other.objective_ == pytest.approx(model.objective_, rel=close)
    dspnmf.save(model, tmp_path / "model.skops")
    Z = model.transform(data()[:9])
    np.testing.assert_array_equal(dspnmf.load(tmp_path / "model.skops").transform(data()[:9]), Z)
    assert not method(3, **{**given, "alpha_W": 1e3}).fit_transform(data(), Y).any()


@pytest.mark.parametrize("method", [GNMF, NSNMF])
def test_the_published_rule_sees_them(method: Any) -> None:
    """Where the graph has no weight, the rule of the paper comes near the objective of the default."""
    given = {"random_state": 0, "tol": 0, **PENALTIES[0], **({"beta": 0.0} if method is GNMF else {"alpha": 0.0})}
    best = method(3, max_iter=100, **given).fit(data())
    rule = method(3, max_iter=400, solver="paper", **given).fit(data())
    assert best.objective_ <= 1.001 * rule.objective_ <= 1.05 * best.objective_


def test_too_large_ones_are_refused() -> None:
    """Penalties that are no numbers in this unit are an error before any work."""
    with pytest.raises(ValueError, match=r"alpha_W=1e\+308 .* too large"):
        GNMF(2, alpha_W=1e308).fit(1e-3 * data())
