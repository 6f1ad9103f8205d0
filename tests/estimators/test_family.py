"""The family: identities, descent, published rules, what the methods are for."""

from __future__ import annotations

import io
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.callback import ProgressBar
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold._locally_linear import barycenter_kneighbors_graph
from sklearn.metrics import normalized_mutual_info_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import dspnmf
import reference
from dspnmf import DSPNMF, FRNMF, GDNMF, GNMF, NMF, NPE, NPNMF, NSNMF, ONMF, SDNMF, SPNMF, SymNMF, graphs
from dspnmf.paper.methods import methods

MONOTONE: dict[str, dict[str, Any]] = {
    "GNMF": {},
    "NPNMF": {},
    "SPNMF": {},
    "GDNMF": {},
    "SymNMF": {},
    "NSNMF": {},
    "FRNMF": {},
    "DSPNMF cosine": {"similarity": "cosine"},
    "DSPNMF diffused": {"similarity": "diffused"},
    "DSPNMF knn": {"similarity": "knn"},
    "DSPNMF self-tuned": {"similarity": "self-tuned"},
}
JOINTLY = (
    "codes of the training rows are found jointly over the graph, symmetric in both directions; those of transform "
    "see the neighbours of the new row only"
)
RULE = "the rule's codes obey a constraint (orthogonality, transport) that codes of single new rows need not"


def make(name: str, k: int, **parameters: Any) -> Any:
    """An estimator by the name above."""
    return getattr(dspnmf, name.split()[0])(k, **MONOTONE.get(name, {}), **parameters)


def labels_for(name: str, n: int) -> np.ndarray | None:
    """Half of the rows labelled."""
    return np.where(np.arange(n) % 2 == 0, np.arange(n) % 3, -1) if name == "GDNMF" else None


def expected_failures(estimator: Any) -> dict[str, str]:
    """Checks that cannot pass for a reason that lies in the method."""
    consistent = ("check_transformer_general", "check_transformer_data_not_an_array")
    if isinstance(estimator, NSNMF):
        return dict.fromkeys(consistent, JOINTLY)
    if isinstance(estimator, ONMF | SDNMF):
        return dict.fromkeys(consistent, RULE)
    return {}


@parametrize_with_checks(
    [GNMF(3), NPNMF(3), SPNMF(3), GDNMF(3), SymNMF(3), NSNMF(3), FRNMF(3), ONMF(3), SDNMF(3, max_iter=20), NPE(2)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """All of scikit-learn's estimator checks, but those whose reason to fail lies in the method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize("solver", ["auto", "hals"])
@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("data", ["wine", "digits", "cancer"])
@pytest.mark.parametrize("name", MONOTONE)
def test_never_up(name: str, data: str, k: int, solver: str, request: pytest.FixtureRequest) -> None:
    """No method raises its objective, with the default solver or hals."""
    X = request.getfixturevalue(data)[:600]
    model = make(name, k, solver=solver, random_state=0, max_iter=25, tol=0).fit(X, labels_for(name, len(X)))
    history = model.objective_history_
    assert history[-1] < history[0]
    assert np.diff(history).max() <= 1e-12 * (abs(history[0]) + np.sum(X**2) + np.sum((X.T @ X) ** 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*MONOTONE, "NMF", "DSPNMF", "ONMF", "SDNMF"])
def test_the_history_ends_with_the_objective(name: str, dtype: Any, wine: np.ndarray) -> None:
    """The last entry is the objective at the codes and components that the fit returns, exactly, and no rise."""
    for k in (2, 12):
        model = make(name, k, random_state=0, max_iter=40, tol=0).fit(wine.astype(dtype), labels_for(name, len(wine)))
        assert model.objective_history_[-1] == model.objective_ >= 0
        if name not in ("ONMF", "SDNMF"):
            assert model.objective_ <= model.objective_history_[-2]


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "hals"])
@pytest.mark.parametrize("name", MONOTONE)
def test_never_up_everywhere(
    name: str, solver: str, wine: np.ndarray, digits: np.ndarray, cancer: np.ndarray, coil: np.ndarray
) -> None:
    """The same on four data sets, ranks 2 to 20, three seeds."""
    for X in (wine, digits, cancer, coil):
        scale = np.sum(X**2) + np.sum((X.T @ X) ** 2)
        for k in (2, 5, 10, 20):
            for seed in range(3):
                model = make(name, k, solver=solver, random_state=seed, max_iter=30, tol=0)
                history = model.fit(X, labels_for(name, len(X))).objective_history_
                assert np.diff(history).max() <= 1e-12 * (abs(history[0]) + scale)


def objective_of(model: Any, X: np.ndarray, Z: np.ndarray, L: Any) -> float:
    """GNMF's objective, written out."""
    return float(np.sum((X - Z @ model.components_) ** 2) + model.beta * np.trace(Z.T @ (L @ Z)))


def test_gnmf_objective_is_what_it_says(wine: np.ndarray) -> None:
    """objective_ is ||X - UV||^2 + beta tr(U'LU) of the codes and unit-length components returned."""
    model = GNMF(3, beta=5.0, random_state=0, max_iter=50, tol=0)
    Z = model.fit_transform(wine)
    A = graphs.knn(wine, 5)
    L = sparse.diags_array(np.asarray(A.sum(axis=1)).ravel()) - A
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-12)
    assert model.objective_ == pytest.approx(objective_of(model, wine, Z, L), rel=1e-9)
    assert model.objective_ == pytest.approx(model.objective_history_[-1], rel=1e-9)


def test_symnmf_objective(wine: np.ndarray) -> None:
    """objective_ is ||A - UU'||^2, and structure_err_ its root."""
    model = SymNMF(3, random_state=0)
    Z = model.fit_transform(wine)
    A = graphs.self_tuned(wine).toarray()
    assert model.objective_ == pytest.approx(np.sum((A - Z @ Z.T) ** 2), rel=1e-9)
    assert model.structure_err_ == pytest.approx(np.linalg.norm(A - Z @ Z.T), rel=1e-9)


def test_nsnmf_objective(wine: np.ndarray) -> None:
    """objective_ is alpha ||A - UU'||^2 + weight ||X - UV||^2 + gamma (||U||^2 + ||V||^2), in any unit of X."""
    X = 7.0 * wine
    model = NSNMF(3, reconstruction_weight=0.3, gamma=0.2, alpha=2.0, random_state=0)
    Z, V = model.fit_transform(X), model.components_
    A = graphs.spanning_tree(X).toarray()
    expected = 2 * np.sum((A - Z @ Z.T) ** 2) + 0.3 * np.sum((X - Z @ V) ** 2) + 0.2 * (np.sum(Z**2) + np.sum(V**2))
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(X - Z @ V), rel=1e-9)


def test_gdnmf_objective(wine: np.ndarray) -> None:
    """Labels enter as label_weight ||Y - UB||^2 over the labelled rows, in any unit of X."""
    X, y = 3.0 * wine, labels_for("GDNMF", len(wine))
    model = GDNMF(4, label_weight=2.0, beta=1.5, random_state=0, max_iter=30, tol=0)
    Z = model.fit_transform(X, y)
    A = graphs.knn(X, 5)
    L = sparse.diags_array(np.asarray(A.sum(axis=1)).ravel()) - A
    Y = (y[:, None] == model.classes_).astype(float)
    gap = np.sum((Y - Z @ model.label_components_)[y != -1] ** 2)
    assert model.objective_ == pytest.approx(objective_of(model, X, Z, L) + 2.0 * gap, rel=1e-8)


def test_labels_pull_classes_apart() -> None:
    """With labels the codes of GDNMF predict the classes of rows whose label was hidden better than chance by far."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    known = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    model = GDNMF(5, beta=1.0, label_weight=10.0, random_state=0, tol=1e-3).fit(X, known)
    hidden = known == -1
    guess = model.classes_[(model.transform(X) @ model.label_components_).argmax(axis=1)]
    assert (guess[hidden] == y[hidden]).mean() > 0.8


def test_frnmf_is_dspnmf_of_the_transpose(wine: np.ndarray) -> None:
    """FRNMF(X) has the history of DSPNMF(X'), and its components are the codes there."""
    ours, theirs = FRNMF(3, random_state=0, max_iter=30, tol=0), DSPNMF(3, random_state=0, max_iter=30, tol=0)
    ours.fit(wine)
    codes = theirs.fit_transform(np.ascontiguousarray(wine.T))
    np.testing.assert_allclose(ours.objective_history_[:-1], theirs.objective_history_[:-1], rtol=1e-10)
    assert ours.objective_ <= theirs.objective_, "the last step solves the codes exactly"
    np.testing.assert_allclose(ours.components_, codes.T, rtol=1e-8)


def test_without_their_terms_all_are_nmf(wine: np.ndarray) -> None:
    """GNMF(beta=0) = NPNMF(mu=0) = NSNMF(alpha=0, gamma=0) = SPNMF(0, 0, 0) = NMF, from the same start."""
    rng = np.random.default_rng(0)
    start = {"W": rng.random((len(wine), 3)), "H": rng.random((3, 13))}
    common = {"init": "custom", "solver": "hals", "max_iter": 20, "tol": 0}
    plain = NMF(3, **common).fit(wine, **start).objective_history_
    for model in (
        GNMF(3, beta=0.0, **common),
        NPNMF(3, mu=0.0, **common),
        NSNMF(3, alpha=0.0, gamma=0.0, **common),
        SPNMF(3, beta=0.0, repulsion=0.0, overlap=0.0, **common),
    ):
        np.testing.assert_allclose(model.fit(wine, **start).objective_history_, plain, rtol=1e-9)


def test_gdnmf_without_labels_is_gnmf(wine: np.ndarray) -> None:
    """No label, no difference."""
    one = GDNMF(3, random_state=0, max_iter=20, tol=0).fit(wine, np.full(len(wine), -1))
    other = GNMF(3, random_state=0, max_iter=20, tol=0).fit(wine)
    np.testing.assert_array_equal(one.objective_history_, other.objective_history_)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_precomputed_gram_matrix(stored: Any, wine: np.ndarray) -> None:
    """DSPNMF(similarity=XX') is DSPNMF: the same objective at the start, and the same stationary points."""
    gram = DSPNMF(3, alpha=0.5, lam=2.0, random_state=0, max_iter=400, tol=0)
    Z = gram.fit_transform(wine)
    given = DSPNMF(3, alpha=0.5, lam=2.0, similarity=stored(wine @ wine.T), random_state=0, max_iter=40, tol=0)
    assert given.fit(wine).objective_history_[0] == pytest.approx(gram.objective_history_[0], rel=1e-9)
    given.set_params(init="custom").fit(wine, W=Z, H=gram.components_)
    assert given.objective_history_[0] == pytest.approx(gram.objective_, rel=1e-9)
    assert given.objective_ == pytest.approx(gram.objective_, rel=1e-7), "where one ends, the other gains nothing"
    assert given.structure_err_ == pytest.approx(gram.structure_err_, rel=1e-4)


def test_cosine_similarity(wine: np.ndarray) -> None:
    """similarity="cosine" preserves the cosines: the objective written out, dense and sparse, transform included."""
    model = DSPNMF(3, alpha=0.7, lam=2.0, similarity="cosine", random_state=0, max_iter=40, tol=0)
    Z = model.fit_transform(5.0 * wine)
    unit = wine / np.linalg.norm(wine, axis=1, keepdims=True)
    expected = np.sum((5 * wine - Z @ model.components_) ** 2) + 0.7 * np.sum((unit @ unit.T - 2 * Z @ Z.T) ** 2)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(model.transform(5.0 * wine), Z, rtol=1e-9, atol=1e-12)
    again = DSPNMF(3, alpha=0.7, lam=2.0, similarity="cosine", random_state=0, max_iter=40, tol=0)
    np.testing.assert_allclose(again.fit_transform(sparse.csr_array(5.0 * wine)), Z, rtol=1e-6, atol=1e-9)


def test_npe_against_lle_weights(wine: np.ndarray) -> None:
    """NPE minimises ||(I - R) X A|| with scikit-learn's LLE weights: the smallest generalised eigenvalues."""
    model = NPE(2, n_neighbors=5).fit(wine)
    Z = model.transform(wine)
    R = barycenter_kneighbors_graph(wine, n_neighbors=5, reg=1e-3).toarray()
    centred = wine - wine.mean(axis=0)
    lost = centred - R @ centred
    values = np.sort(np.linalg.eigvals(np.linalg.solve(centred.T @ centred, lost.T @ lost)).real)
    np.testing.assert_allclose(Z.T @ Z, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(np.sum((Z - R @ Z) ** 2, axis=0), values[:2], rtol=1e-8)


def test_published_rules_step_by_step() -> None:
    """Five iterations of every published rule agree with loops over the printed formulas to 1e-10."""
    rng = np.random.default_rng(0)
    X, W, H = rng.random((14, 6)), 0.1 + rng.random((14, 3)), 0.1 + rng.random((3, 6))
    A = graphs.knn(X, 3)
    R = graphs.lle_weights(X, 3)
    dense, M = A.toarray(), (np.eye(14) - R.toarray()).T @ (np.eye(14) - R.toarray())
    cases = {
        "GNMF": (
            GNMF(3, beta=2.0, graph=A, **PAPER),
            lambda U, V: reference.graph_rule(X, U, V, 2.0, dense, np.diag(dense.sum(1))),
        ),
        "NPNMF": (
            NPNMF(3, mu=2.0, graph=R, **PAPER),
            lambda U, V: reference.graph_rule(X, U, V, 2.0, np.maximum(-M, 0), np.maximum(M, 0)),
        ),
        "ONMF": (ONMF(3, init="custom", tol=0), lambda U, V: reference.orthogonal_rule(X, U, V)),
        "NSNMF": (
            NSNMF(3, reconstruction_weight=0.5, gamma=0.3, graph=A, **PAPER),
            lambda U, V: reference.neighbourhood_rule(X, U, V, dense, 0.5, 0.3),
        ),
    }
    for model, rule in cases.values():
        U, V = W, H
        for iterations in range(1, 6):
            U, V = rule(U, V)
            Z = model.set_params(max_iter=iterations).fit_transform(X, W=W, H=H)
            length = np.linalg.norm(V, axis=1) if isinstance(model, GNMF | NPNMF) else 1.0  # unit length at the end
            np.testing.assert_allclose(Z, U * length, rtol=1e-10)
            np.testing.assert_allclose(model.components_.T, V.T / length, rtol=1e-10)


PAPER: dict[str, Any] = {"solver": "paper", "init": "custom", "tol": 0}


@pytest.mark.parametrize("data", ["digits", "wine"])
def test_default_against_the_published_rule(data: str, request: pytest.FixtureRequest) -> None:
    """50 iterations reach what 500 of the published rule do: GNMF by far, SymNMF to a part in a thousand."""
    X = request.getfixturevalue(data)[:900]
    for cls, allowed in ((GNMF, 0.9), (SymNMF, 1.001)):
        ratios = []
        for k in (5, 10):
            published = cls(k, solver="paper", max_iter=500, tol=0, random_state=0).fit(X).objective_
            ratios.append(cls(k, max_iter=50, tol=0, random_state=0).fit(X).objective_ / published)
        assert np.exp(np.mean(np.log(ratios))) <= allowed


def best_nmi(make_model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Best of five seeds, k-means on the codes."""
    k = len(np.unique(y))
    scores = []
    for seed in range(5):
        Z = make_model(k, seed).fit_transform(X)
        scores.append(normalized_mutual_info_score(y, KMeans(k, n_init=10, random_state=seed).fit_predict(Z)))
    return max(scores)


@pytest.mark.slow
def test_clustering_of_digits(digits: np.ndarray) -> None:
    """At rank 10, k-means on the codes of SymNMF reaches an NMI of 0.85 on digits (published maximum: 0.88)."""
    assert best_nmi(lambda k, seed: SymNMF(k, random_state=seed), digits, load_digits().target) >= 0.85


@pytest.mark.slow
def test_clustering_of_coil(coil: np.ndarray) -> None:
    """At rank 20, k-means on the codes of GNMF reaches an NMI of 0.75 on COIL-20 (published maximum: 0.63)."""
    assert best_nmi(lambda k, seed: GNMF(k, random_state=seed), coil, np.repeat(np.arange(20), 72)) >= 0.75


@pytest.mark.parametrize("cls", [GNMF, NPNMF, NSNMF, GDNMF, SPNMF, ONMF, FRNMF, SDNMF])
def test_transform_of_new_rows(cls: type, digits: np.ndarray) -> None:
    """Codes of new rows are finite, non-negative, and rebuild them better than nothing."""
    parameters = {"max_iter": 30, "tol": 0, "random_state": 0}
    model = cls(8, **parameters).fit(digits[:500], np.arange(500) % 3 if cls is GDNMF else None)
    Z = model.transform(digits[500:600])
    assert Z.shape == (100, 8)
    assert np.isfinite(Z).all()
    assert (Z >= 0).all()
    assert np.linalg.norm(digits[500:600] - Z @ model.components_) < np.linalg.norm(digits[500:600])


def test_gnmf_transform_solves_its_problem(digits: np.ndarray) -> None:
    """A new row of GNMF minimises ||x - uV||^2 + beta sum_j a_j ||u - u_j||^2 over its training neighbours."""
    model = GNMF(5, beta=3.0, random_state=0, max_iter=40, tol=0)
    U, new = model.fit_transform(digits[:400]), digits[400:450]
    Z, V = model.transform(new), model.components_
    A = graphs.neighbours_in(new, digits[:400], 5).toarray()
    slope = Z @ (V @ V.T) - new @ V.T + 3.0 * (A.sum(axis=1, keepdims=True) * Z - A @ U)
    assert np.abs(slope[Z > 1e-12]).max() < 1e-8 * np.abs(new @ V.T).max()
    assert slope.min() > -1e-8 * np.abs(new @ V.T).max()


def test_no_transform_without_ties(wine: np.ndarray) -> None:
    """Where new rows have no similarities, transform says why and what to use instead."""
    A = graphs.knn(wine, 4)
    common = {"random_state": 0, "tol": 1e-2}
    with pytest.raises(ValueError, match=r"GNMF was fitted with graph=a matrix.*or graph = 'knn'"):
        GNMF(2, graph=A, **common).fit(wine).transform(wine)
    with pytest.raises(ValueError, match="similarity='self-tuned', which says nothing about new rows"):
        DSPNMF(2, similarity="self-tuned", **common).fit(wine).transform(wine)
    with pytest.raises(AttributeError, match="SymNMF has no transform: it factorizes the similarities"):
        SymNMF(2, **common).fit(wine).transform(wine)
    assert not hasattr(SymNMF(2), "transform")


def test_bad_graphs(wine: np.ndarray) -> None:
    """Graphs of the wrong shape, sign or symmetry are refused."""
    A = graphs.knn(wine, 4)
    with pytest.raises(ValueError, match="shape"):
        GNMF(2, graph=A[:5, :5]).fit(wine)
    with pytest.raises(ValueError, match="symmetric"):
        GNMF(2, graph=sparse.triu(A, format="csr")).fit(wine)
    with pytest.raises(ValueError, match="must be >= 0"):
        SymNMF(2, graph=-A).fit(wine)
    with pytest.raises(ValueError, match="positive semi-definite"):
        DSPNMF(2, similarity="knn", solver="mm").fit(wine)
    with pytest.raises(ValueError, match="y has 3 labels, but X has 178 rows"):
        GDNMF(2).fit(wine, [0, 1, -1])
    with pytest.raises(ValueError, match="has 12 pixels, but X has 13 features"):
        SDNMF(2, metric=(3, 4)).fit(wine)


def test_sdnmf_descends(digits: np.ndarray) -> None:
    """The default loop of SDNMF was never seen to rise; components sum to one."""
    model = SDNMF(5, metric=(8, 8), random_state=0, max_iter=25, tol=0).fit(digits[:200])
    assert np.diff(model.objective_history_).max() <= 0
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-9)


def test_float32_family(digits: np.ndarray) -> None:
    """Graph methods keep float32."""
    X = digits[:200].astype(np.float32)
    for cls in (GNMF, NPNMF, SPNMF, SymNMF, NSNMF, FRNMF, ONMF, SDNMF):
        assert cls(3, random_state=0, max_iter=5, tol=0).fit_transform(X).dtype == np.float32


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "UMAP" else []) for name in sorted(methods())]
)
def test_registry(name: str, wine: np.ndarray) -> None:
    """Every method of the comparison, manifold methods included, is made by name and embeds the data."""
    if name == "UMAP":
        pytest.importorskip("umap", reason="umap-learn is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries, and of fits that need more iterations than the default
        Z = methods()[name](2, 0).fit_transform(wine)
    assert Z.shape == (len(wine), wine.shape[1] if name == "All" else 2)


def test_registry_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without umap-learn, asking for UMAP says what to install."""
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match="install it with"):
        methods()["UMAP"](2, 0)


def test_spnmf_has_a_minimum(wine: np.ndarray) -> None:
    """Components of SPNMF have unit length and none of them takes over: the graph term cannot be had for nothing."""
    model = SPNMF(3, beta=1.0, random_state=0, max_iter=300, tol=0).fit(wine)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-9)
    assert abs(model.objective_history_[-2] - model.objective_history_[-1]) < 1e-4 * model.objective_


def test_spnmf_objective(wine: np.ndarray) -> None:
    """objective_ is the one in the docstring, for the unit-length components returned."""
    model = SPNMF(3, beta=2.0, repulsion=0.7, overlap=0.4, random_state=0, max_iter=40, tol=0)
    Z, V = model.fit_transform(wine), model.components_
    A, far = graphs.knn(wine, 5), graphs.farthest(wine, 5)
    L = sparse.diags_array(np.asarray(A.sum(axis=1)).ravel()) - A
    shared = (Z.T @ Z) * (V @ V.T)
    expected = (
        objective_of(model, wine, Z, L) + 0.7 * np.trace(Z.T @ (far @ Z)) + 0.4 * (shared.sum() - np.trace(shared))
    )
    assert model.objective_ == pytest.approx(expected, rel=1e-9)


def test_refit_forgets(wine: np.ndarray) -> None:
    """A refit with other parameters is a fresh fit: no ties of an earlier one are left."""
    model = DSPNMF(3, similarity="knn", random_state=0, tol=1e-3).fit(wine)
    again = model.set_params(alpha=0.0).fit(wine).transform(wine)
    np.testing.assert_array_equal(
        again, DSPNMF(3, similarity="knn", alpha=0.0, random_state=0, tol=1e-3).fit(wine).transform(wine)
    )


@pytest.mark.parametrize("name", ["GNMF", "NPNMF", "NSNMF", "DSPNMF knn", "DSPNMF cosine", "DSPNMF diffused"])
def test_fitted_models_stand_alone(name: str, wine: np.ndarray) -> None:
    """Neither overwriting the training data nor setting parameters after the fit changes transform."""
    X = wine.copy()
    model = make(name, 3, random_state=0, tol=1e-2, max_iter=500).fit(X)
    before = model.transform(wine[:20])
    X[:] = 1.0
    changes = {"beta": 0.0, "mu": 0.0, "alpha": 9.0, "similarity": "gram", "n_neighbors": 2}
    model.set_params(**{k: v for k, v in changes.items() if k in model.get_params()})
    np.testing.assert_array_equal(model.transform(wine[:20]), before)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e-6), (np.float64, 1e-100), (np.float64, 1e100)])
def test_cosine_in_any_unit(dtype: Any, unit: float, wine: np.ndarray) -> None:
    """The cosines of tiny rows are cosines too."""
    X = wine.astype(dtype)
    one, other = (
        DSPNMF(3, alpha=alpha, similarity="cosine", random_state=0, max_iter=30, tol=0).fit(data)
        for alpha, data in ((1.0, X), (unit**2, (X.astype(np.float64) * unit).astype(dtype)))
    )
    assert other.structure_err_ == pytest.approx(one.structure_err_, rel=1e-3)


def test_frnmf_keeps_the_index() -> None:
    """A data frame in, a data frame with its index out, and no warning on the way."""
    X, _ = load_wine(return_X_y=True, as_frame=True)
    X.index = [f"r{i}" for i in range(len(X))]
    Z = FRNMF(3, random_state=0, tol=1e-3).set_output(transform="pandas").fit_transform(X / X.max())
    assert list(Z.index) == list(X.index)


def test_unknown_labels_of_any_type(wine: np.ndarray) -> None:
    """-1 means unknown in numbers, objects and strings."""
    for y in (np.array([-1, 1] * 89), np.array([-1, 1] * 89, object), np.array([-1, "a"] * 89, object)):
        assert len(GDNMF(2, random_state=0, tol=1e-2).fit(wine, y).classes_) == 1


def test_callbacks_in_the_family(wine: np.ndarray) -> None:
    """Progress bars show every fit."""
    for model in (SDNMF(2, max_iter=3, tol=0), FRNMF(2, max_iter=3, tol=0), GNMF(2, max_iter=3, tol=0)):
        out = io.StringIO()
        with redirect_stdout(out):
            model.set_callbacks(ProgressBar()).fit(wine)
        assert "NMF" in out.getvalue()


def test_more_published_rules_step_by_step() -> None:
    """SPNMF's rule, FR-NMF's loop and SymNMF's alternating least squares agree with their formulas written out."""
    rng = np.random.default_rng(0)
    X, W, H = rng.random((14, 6)), 0.1 + rng.random((14, 3)), 0.1 + rng.random((3, 6))
    A, far = graphs.knn(X, 3).toarray(), graphs.farthest(X, 2).toarray()
    model = SPNMF(3, beta=2.0, repulsion=0.5, overlap=0.3, n_neighbors=3, n_distant=2, **PAPER)
    U, V = W, H
    for iterations in range(1, 6):
        U, V = reference.separated_rule(X, U, V, A, far, 2.0, 0.5, 0.3)
        model.set_params(max_iter=iterations).fit(X, W=W, H=H)
        np.testing.assert_allclose(model.components_.T, V.T / np.linalg.norm(V, axis=1), rtol=1e-10)
    U, V = W, H
    for iterations in range(1, 6):
        U, V = reference.feature_rule(X, U, V, 0.7, 2.0)
        fitted = FRNMF(3, alpha=0.7, lam=2.0, max_iter=iterations, **PAPER).fit(X, W=W, H=H)
        np.testing.assert_allclose(fitted.components_, V, rtol=1e-10)
    S = graphs.self_tuned(X)
    sym = SymNMF(3, graph=S, solver="paper", max_iter=1, tol=0, random_state=0)
    U = 2 * np.sqrt(S.mean() / 3) * np.random.RandomState(0).random_sample((14, 3))
    for iterations in range(1, 6):
        U = reference.alternating_least_squares(S.toarray(), U)
        np.testing.assert_allclose(sym.set_params(max_iter=iterations).fit_transform(X), U, rtol=1e-8, atol=1e-10)
