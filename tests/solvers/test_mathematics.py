"""What must hold because the mathematics says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import NMF as ScikitNMF  # noqa: N811 -- an acronym, not a constant

from dspnmf import DSPNMF, NMF


@pytest.mark.parametrize("solver", ["newton-cg", "hals", "mm"])
@pytest.mark.parametrize("lam", [1e-2, 7.0, 1e3, 1e8])
def test_lam_is_a_unit(solver: str, lam: float, wine: np.ndarray) -> None:
    """A fit at lam is the fit at 1 with codes over sqrt(lam) and components times it; the objective is the same."""
    one = DSPNMF(3, solver=solver, random_state=0, max_iter=30, tol=0)
    other = DSPNMF(3, lam=lam, solver=solver, random_state=0, max_iter=30, tol=0)
    Z, Y = one.fit_transform(wine), other.fit_transform(wine)
    np.testing.assert_allclose(other.objective_history_, one.objective_history_, rtol=1e-9)
    np.testing.assert_allclose(Y * np.sqrt(lam), Z, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.components_ / np.sqrt(lam), one.components_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.transform(wine) * np.sqrt(lam), one.transform(wine), rtol=1e-9, atol=1e-12)
    assert other.structure_err_ == pytest.approx(np.linalg.norm(wine @ wine.T - lam * Y @ Y.T), rel=1e-9)


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
def test_alpha_zero_is_plain_nmf(name: str, request: pytest.FixtureRequest) -> None:
    """Alpha = 0 reaches, from the same start, the objective scikit-learn's NMF converges to."""
    X = request.getfixturevalue(name)
    rng = np.random.default_rng(0)
    W, H = rng.random((len(X), 2)), rng.random((2, X.shape[1]))
    ours = DSPNMF(2, alpha=0.0, init="custom", tol=0, max_iter=500).fit(X, W=W, H=H)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = ScikitNMF(2, init="custom", tol=1e-12, max_iter=3000).fit(X, W=W.copy(), H=H.copy())
        peer.fit_transform(X, W=W.copy(), H=H.copy())
    assert ours.objective_ == pytest.approx(peer.reconstruction_err_**2, rel=1e-6)
    plain = NMF(2, init="custom", tol=0, max_iter=500).fit(X, W=W, H=H)
    np.testing.assert_array_equal(plain.objective_history_, ours.objective_history_)


@pytest.mark.parametrize("solver", ["newton-cg", "hals", "mm"])
def test_permutations(solver: str, wine: np.ndarray) -> None:
    """Permuting samples permutes codes, permuting features permutes component columns."""
    rng = np.random.default_rng(0)
    W, H = rng.random((len(wine), 3)), rng.random((3, 13))
    rows, columns = rng.permutation(len(wine)), rng.permutation(13)
    model = DSPNMF(3, solver=solver, init="custom", max_iter=20, tol=0)
    Z = model.fit_transform(wine, W=W, H=H)
    V = model.components_
    Y = model.fit_transform(wine[rows][:, columns], W=W[rows], H=H[:, columns])
    np.testing.assert_allclose(Y, Z[rows], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.components_, V[:, columns], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("solver", ["newton-cg", "hals", "mm"])
@pytest.mark.parametrize("s", [1e-5, 3.0, 1e6])
def test_scaling_law(solver: str, s: float, wine: np.ndarray) -> None:
    """X scaled by s with alpha / s^2 scales the objective by s^2 and the codes by s."""
    one = DSPNMF(3, solver=solver, random_state=0, max_iter=20, tol=0)
    other = DSPNMF(3, alpha=1 / s**2, solver=solver, random_state=0, max_iter=20, tol=0)
    Z, Y = one.fit_transform(wine), other.fit_transform(s * wine)
    np.testing.assert_allclose(other.objective_history_, s**2 * one.objective_history_, rtol=1e-9)
    np.testing.assert_allclose(Y, s * Z, rtol=1e-7, atol=1e-9 * s)


@pytest.mark.parametrize(("cls", "iterations"), [(DSPNMF, 600), (NMF, 4000)])
@pytest.mark.parametrize("name", ["wine", "cancer"])
def test_transform_of_the_training_data(cls: type, iterations: int, name: str, request: pytest.FixtureRequest) -> None:
    """After a converged fit, transform(X) is the codes: the model is V, P and Q, no training data kept."""
    X = request.getfixturevalue(name)
    model = cls(4, random_state=0, tol=0, max_iter=iterations)
    Z = model.fit_transform(X)
    assert np.linalg.norm(model.transform(X) - Z) < 1e-6 * np.linalg.norm(Z)


def test_transform_solves_its_problem(digits: np.ndarray) -> None:
    """New rows minimise ||x - uV||^2 + 2 alpha ||X_train x' - lam U_train u'||^2 (optimality conditions)."""
    train, new = digits[:1000], digits[1000:]
    model = DSPNMF(5, alpha=0.5, lam=3.0, random_state=0, max_iter=400, tol=0)
    U = model.fit_transform(train)
    V = model.components_
    Z = model.transform(new)
    S = V @ V.T + 2 * 0.5 * 3.0**2 * U.T @ U
    slope = Z @ S - new @ (V.T + 2 * 0.5 * 3.0 * train.T @ U)
    size = np.abs(Z @ S).max()
    assert np.abs(slope[Z > 1e-12]).max() < 1e-9 * size
    assert slope.min() > -1e-9 * size


def test_theorem_2() -> None:
    """The better X = UV and the structure term are met, the closer VV' is to lam I."""
    rng = np.random.default_rng(0)
    groups = np.kron(np.eye(4), np.ones((1, 5))) / np.sqrt(5)
    codes = rng.random((120, 4))
    distance = []
    for noise in (0.3, 0.1, 0.0):
        X = codes @ groups + noise * rng.random((120, 20))
        model = DSPNMF(4, lam=2.0, random_state=0, tol=0, max_iter=300).fit(X)
        VV = model.components_ @ model.components_.T
        distance.append(np.linalg.norm(VV / 2.0 - np.eye(4)))
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 1e-3


def test_sparse_equals_dense(digits: np.ndarray) -> None:
    """CSR, CSC and dense X have the same history, codes and transform."""
    dense = DSPNMF(6, random_state=0, max_iter=25, tol=0)
    Z = dense.fit_transform(digits)
    for stored in (sparse.csr_matrix(digits), sparse.csc_array(digits)):
        model = DSPNMF(6, random_state=0, max_iter=25, tol=0)
        np.testing.assert_allclose(model.fit_transform(stored), Z, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.objective_history_, dense.objective_history_, rtol=1e-9)
        np.testing.assert_allclose(model.transform(stored), dense.transform(digits), rtol=1e-6, atol=1e-8)


def test_normalize(wine: np.ndarray) -> None:
    """Unit-length components, the same product, the same transform up to the lengths."""
    plain = DSPNMF(3, random_state=0)
    unit = DSPNMF(3, normalize=True, random_state=0)
    Z, Y = plain.fit_transform(wine), unit.fit_transform(wine)
    np.testing.assert_allclose(np.linalg.norm(unit.components_, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(Y @ unit.components_, Z @ plain.components_, rtol=1e-9)
    lengths = np.linalg.norm(plain.components_, axis=1)
    np.testing.assert_allclose(unit.transform(wine), plain.transform(wine) * lengths, rtol=1e-9, atol=1e-12)


def test_errors_are_what_they_say(wine: np.ndarray) -> None:
    """reconstruction_err_ and structure_err_ are Frobenius norms of the residuals; objective_ is their sum."""
    model = DSPNMF(3, alpha=0.3, random_state=0)
    Z = model.fit_transform(wine)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(wine - model.inverse_transform(Z)), rel=1e-9)
    assert model.structure_err_ == pytest.approx(np.linalg.norm(wine @ wine.T - Z @ Z.T), rel=1e-9)
    assert model.objective_ == pytest.approx(model.reconstruction_err_**2 + 0.3 * model.structure_err_**2, rel=1e-12)
