"""Errors measured by a beta divergence: never up, as low as scikit-learn's, zeros, missing cells, structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from scipy import sparse
from sklearn import decomposition
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import reference
from divergent import check_never_up, counts, fitted, powers, problems, start
from dspnmf import DSPNMF, NMF, MiniBatchNMF, load, save
from dspnmf.backends.kernels import divergence as kernel
from dspnmf.backends.kernels import divergence_arithmetic as loop
from dspnmf.solvers import divergence as solver

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problems())
def test_the_objective_never_rises(problem: tuple[Any, dict[str, Any]]) -> None:
    """No iteration raises the objective, whatever the loss, weights and data."""
    check_never_up(problem)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems())
def test_the_objective_never_rises_in_many_cases(problem: tuple[Any, dict[str, Any]]) -> None:
    """The same in many more cases."""
    check_never_up(problem)


def words(seed: int = 0, dtype: str = "float64") -> Any:
    """Counts of which 2 % are positive, with rows and columns of zeros."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.05, 1.0, (150, 5)) @ rng.gamma(0.05, 1.0, (5, 200))).astype(dtype)


KL, IS = "kullback-leibler", "itakura-saito"
COMPARED = {  # data of several kinds, the loss, what holds the data, and the type of the numbers
    "counts": (counts, KL, np.asarray, "float64"),
    "counts, float32": (counts, KL, np.asarray, "float32"),
    "counts, CSR": (counts, KL, sparse.csr_array, "float64"),
    "counts, CSC, float32": (counts, KL, sparse.csc_matrix, "float32"),
    "words": (words, KL, np.asarray, "float64"),
    "words, CSR": (words, KL, sparse.csr_array, "float64"),
    "powers, KL": (powers, KL, np.asarray, "float64"),
    "powers": (powers, IS, np.asarray, "float64"),
    "powers, float32": (powers, IS, np.asarray, "float32"),
    "powers, CSR": (powers, IS, sparse.csr_array, "float64"),
    "counts, 1.5": (counts, 1.5, np.asarray, "float64"),
    "powers, 0.5": (powers, 0.5, np.asarray, "float64"),
    "words, 0.5": (words, 0.5, np.asarray, "float64"),
    "words, 0.5, CSR": (words, 0.5, sparse.csr_array, "float64"),
}


@pytest.mark.parametrize("case", COMPARED)
@pytest.mark.parametrize("iterations", [1, 5, 40])
def test_as_low_as_scikit_learn_from_the_same_start_after_as_many_iterations(case: str, iterations: int) -> None:
    """From the same starts, as many iterations reach at most the divergence scikit-learn's reach.

    From every start after a few iterations, in the median after many: which minimum is found, nobody can say of one
    start. From where scikit-learn ended, never a higher one.
    """
    made, loss, held, dtype = COMPARED[case]
    slack, ours, theirs = 1e-4 if dtype == "float32" else 1e-9, [], []  # what scikit-learn's sums in float32 resolve
    for seed in range(5):
        X = held(made(seed=seed, dtype=dtype))
        W, H = start(X, 3)
        peer = decomposition.NMF(3, init="custom", solver="mu", beta_loss=loss, max_iter=iterations, tol=0)
        there = peer.fit_transform(X, W=W.copy(), H=H.copy())
        model = NMF(3, init="custom", beta_loss=loss, max_iter=iterations, tol=0)
        ours.append(model.fit(X, W=W, H=H).reconstruction_err_)
        theirs.append(peer.reconstruction_err_)
        ahead = clone(model).fit(X, W=there, H=peer.components_)
        assert ahead.reconstruction_err_ <= theirs[-1] * (1 + slack)
    ratios = np.array(ours) / np.array(theirs)
    assert (ratios.max() if iterations <= 5 else np.median(ratios)) <= 1 + slack


@pytest.mark.parametrize("case", [case for case in COMPARED if "0.5" not in case])
@pytest.mark.parametrize(
    "weights", [{}, {"alpha_W": 0.02, "alpha_H": 0.0, "l1_ratio": 0.5}], ids=["plain", "penalized"]
)
def test_transform_is_as_low_as_scikit_learns(case: str, weights: dict[str, float]) -> None:
    """Codes of new rows, for the same components, have no higher objective than scikit-learn's after 2,000 steps."""
    made, loss, held, dtype = COMPARED[case]
    X = held(made(dtype=dtype))
    model, _ = fitted(X, beta_loss=loss, max_iter=20, **weights)
    V, new = model.components_, held(made(dtype=dtype)[5:25])
    theirs, _, _ = decomposition.non_negative_factorization(
        new, H=V, n_components=3, update_H=False, solver="mu", beta_loss=loss, max_iter=2000, tol=1e-9, **weights
    )
    beta = {KL: 1, IS: 0}.get(loss, loss)  # type: ignore[call-overload]
    dense = (new.toarray() if sparse.issparse(new) else new).astype(np.float64)

    def objective(U: Any) -> float:
        U = U.astype(np.float64)
        penalty = weights.get("alpha_W", 0) * X.shape[1] * (0.5 * U.sum() + 0.25 * np.square(U).sum())
        return reference.divergence(dense, np.maximum(U @ V.astype(np.float64), 1e-50), beta) + float(penalty)

    slack = 1e-4 if dtype == "float32" else 1e-6
    assert objective(model.transform(new)) <= objective(theirs) * (1 + slack) + 1e-9


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_parts_of_the_compiled_loop(dtype: Any) -> None:
    """Logarithms, gathered columns and moves of UV are what NumPy says, over all sizes of numbers."""
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [np.exp(rng.uniform(-700, 700, 1000)), 1 + 1e-9 * rng.standard_normal(100), [1.0, 2.3e-308]]
    )
    found = values.copy()
    loop.logarithms(found, found.view(np.int64), np.empty_like(found))
    np.testing.assert_allclose(found, np.log(values), rtol=5e-15, atol=1e-16)
    total = loop.sum_of_logarithms(found := values.copy(), found.view(np.int64))
    assert total == pytest.approx(float(np.log(values).sum()), rel=1e-13)
    V, columns = rng.random((4, 30)).astype(dtype), rng.permutation(30)[:11]
    G = np.empty((4, 11), dtype)
    loop.gather(np.ascontiguousarray(V.T), columns, 11, G)
    np.testing.assert_array_equal(G, V[:, columns])
    x, y = rng.random(11).astype(dtype), rng.random(11).astype(dtype)
    expected = np.maximum(y - dtype(0.7) * G[2], dtype(1e-15))
    slope, curve = kernel.derivatives(G, 3, x, y, 1.0, 2.0, 1e-15, 2, -0.7)
    np.testing.assert_allclose(y, expected, rtol=0, atol=np.finfo(dtype).eps)
    assert (y == dtype(1e-15)).any()
    exact = expected.astype(np.float64)
    assert slope == pytest.approx(2.0 - float((x / exact * G[3]).sum()), rel=1e-4)
    assert curve == pytest.approx(float((x * np.square(G[3] / exact)).sum()), rel=1e-4)


def test_powers_by_roots() -> None:
    """A power in eighths is the power."""
    A = np.random.default_rng(0).random((3, 4)) * 10
    for eighths in range(17):
        np.testing.assert_allclose(solver._to_eighths(A, eighths), A ** (eighths / 8), rtol=1e-14)


@pytest.mark.parametrize("beta", [1, 0, 0.5, 1.5, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_the_objective_is_what_the_formula_says(beta: float, alpha: float) -> None:
    """Objective and errors agree with slow loops from the formulas."""
    X = powers()
    model, Z = fitted(X, beta_loss=beta, alpha=alpha, lam=2.0)
    divergence = reference.divergence(X, Z @ model.components_, beta)
    structure = float(np.square(X @ X.T - 2.0 * Z @ Z.T).sum())
    assert model.objective_ == pytest.approx(divergence + alpha * structure, rel=1e-8)
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(2 * divergence), rel=1e-8)
    assert model.structure_err_ == pytest.approx(np.sqrt(structure), rel=1e-8)


@pytest.mark.parametrize("beta", [1, 0, 1.5])
def test_penalties_stand_next_to_the_divergence_as_in_scikit_learn(beta: float) -> None:
    """The objective has scikit-learn's penalties with its weights, and ends no higher than its rule's in the median."""
    weights = {"alpha_W": 0.02, "alpha_H": 0.01, "l1_ratio": 0.3}
    names, ratios = {0: IS, 1: KL, 1.5: 1.5}, []

    def objective(U: Any, V: Any) -> float:
        penalty = 0.02 * X.shape[1] * (0.3 * U.sum() + 0.35 * np.square(U).sum())
        penalty += 0.01 * X.shape[0] * (0.3 * V.sum() + 0.35 * np.square(V).sum())
        return reference.divergence(X, U @ V, beta) + float(penalty)

    for seed in range(5):
        X = powers(seed=seed) * 7
        W, H = start(X, 3)
        peer = decomposition.NMF(3, init="custom", solver="mu", beta_loss=names[beta], max_iter=60, tol=0, **weights)
        codes = peer.fit_transform(X, W=W.copy(), H=H.copy())
        model, Z = fitted(X, beta_loss=beta, max_iter=60, **weights)
        assert model.objective_ == pytest.approx(objective(Z, model.components_), rel=1e-8)
        ahead = clone(model).fit(X, W=codes, H=peer.components_)
        assert ahead.objective_ <= objective(codes, peer.components_) * (1 + 1e-9)
        ratios.append(model.objective_ / objective(codes, peer.components_))
        same = np.isclose(model.transform(X), Z, atol=2e-4 * Z.max()).all(axis=1)
        assert same.mean() >= (1.0 if beta >= 1 else 0.9)  # below 1 a row's problem may have several minima
    assert np.median(ratios) <= 1


@pytest.mark.parametrize("beta", [1, 1.5])
def test_sparse_x_gives_what_dense_x_gives(beta: float) -> None:
    """Storage changes nothing."""
    X = counts()
    dense, Z = fitted(X, beta_loss=beta, alpha=0.1)
    sparse_model, Z_sparse = fitted(sparse.csr_array(X), beta_loss=beta, alpha=0.1)
    np.testing.assert_allclose(Z_sparse, Z, rtol=1e-6, atol=1e-9)
    assert sparse_model.objective_ == pytest.approx(dense.objective_, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_transform_gives_training_rows_their_codes_and_no_code_can_be_improved(alpha: float) -> None:
    """Codes of training rows are those of the fit, and fulfil the conditions of a minimum."""
    X = counts()
    model, Z = fitted(X, beta_loss=1, alpha=alpha, max_iter=1000 if alpha else 20)
    codes = model.transform(X)
    np.testing.assert_allclose(codes, Z, atol=(1e-2 if alpha else 2e-4) * Z.max())
    if alpha == 0:
        V = model.components_
        slope = V.sum(axis=1) - (X / np.maximum(codes @ V, 1e-300)) @ V.T
        assert (np.abs(slope * codes) <= 1e-4 * X.sum(axis=1, keepdims=True)).all()
        assert (slope >= -1e-3 * V.sum(axis=1)).all()


def test_missing_cells_have_no_weight() -> None:
    """The objective counts known cells only, and never rises."""
    X = counts()
    holes = np.random.default_rng(0).random(X.shape) < 0.2
    with_holes = np.where(holes, np.nan, X)
    for matrix in (with_holes, sparse.csr_array(with_holes)):
        for beta in (1, 1.5):
            model, Z = fitted(matrix, beta_loss=beta, missing="mask")
            UV = Z @ model.components_
            assert model.objective_ == pytest.approx(reference.divergence(X[~holes], UV[~holes], beta), rel=1e-8)
            assert (np.diff(model.objective_history_) <= 0).all()
            np.testing.assert_allclose(model.transform(matrix), Z, atol=2e-4 * Z.max())


def test_a_file_gives_what_memory_gives(tmp_path: Any) -> None:
    """Rows read in slabs end where rows in memory end, with and without missing cells."""
    X = counts()
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    for number, (matrix, parameters) in enumerate(((X, {"alpha": 0.05}), (holes, {"missing": "mask"}))):
        stored = zarr.create_array(str(tmp_path / f"{number}.zarr"), shape=X.shape, chunks=(7, 11), dtype=X.dtype)
        stored[:] = matrix
        there, Z = fitted(matrix, beta_loss=1, **parameters)
        W, H = start(matrix, 3)
        here = clone(there)
        np.testing.assert_allclose(here.fit_transform(stored, W=W, H=H), Z, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(here.transform(stored), there.transform(matrix), rtol=1e-6, atol=1e-9)


def test_zeros_where_they_have_no_divergence_are_an_error_as_in_scikit_learn() -> None:
    """Itakura-Saito refuses zeros, stored or not, before any work."""
    for X in (counts(), sparse.csr_array(counts())):
        with pytest.raises(ValueError, match="When beta_loss <= 0 and X contains zeros, the solver may diverge"):
            NMF(3, beta_loss="itakura-saito").fit(X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["zero rows and columns", "tiny", "huge", "both"])
def test_extreme_entries_leave_finite_factors(kind: str, dtype: str) -> None:
    """Zero rows and columns, entries of 1e-30 and 1e30: factors are finite and not negative."""
    X = counts(dtype=dtype)
    X[3], X[:, 4] = 0, 0
    if kind in ("tiny", "both"):
        X[:20] *= X.dtype.type(1e-30)
    if kind in ("huge", "both"):
        X[20:] *= X.dtype.type(1e30)
    for beta in (1, 1.5):
        model, Z = fitted(X, beta_loss=beta)
        assert np.isfinite(Z).all()
        assert np.isfinite(model.components_).all()
        assert (Z >= 0).all()
        assert (model.components_ >= 0).all()
        assert np.isfinite(model.objective_history_).all()
        assert Z.dtype == model.components_.dtype == dtype
    IS = powers(dtype=dtype)
    IS[:20] *= IS.dtype.type(1e-20)
    model, Z = fitted(IS, beta_loss=0)
    assert np.isfinite(Z).all()
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("beta", [1, 0, 1.5, 2])
def test_extreme_units_and_rows_in_batches_and_under_penalties(beta: float, dtype: str) -> None:
    """The unit of X changes nothing but that of the codes; rows too different for one precision are a clear error."""
    X = powers(dtype=dtype)
    expected = MiniBatchNMF(2, beta_loss=beta, batch_size=20, random_state=0, max_iter=3).fit(X).components_
    for power in (-90, 90):
        model = MiniBatchNMF(2, beta_loss=beta, batch_size=20, random_state=0, max_iter=3)
        Z = model.fit_transform(X * X.dtype.type(2.0**power))
        np.testing.assert_allclose(model.components_, expected, rtol=1e-3, atol=1e-5 * expected.max())
        assert np.isfinite(Z).all()
        assert Z.dtype == dtype
    mixed = counts(dtype=dtype) + X.dtype.type(beta == 0)
    mixed[:20] *= X.dtype.type(1e-30)
    assert np.isfinite(MiniBatchNMF(2, beta_loss=beta, batch_size=20, max_iter=3).fit_transform(mixed)).all()
    penalized = NMF(3, beta_loss=beta, alpha_W=1e-2, l1_ratio=0.5, random_state=0, max_iter=10)
    assert np.isfinite(penalized.fit(X * X.dtype.type(1e-30)).transform(X * X.dtype.type(1e-30))).all()


def test_rows_that_no_batch_can_follow_are_an_error() -> None:
    """Where factors leave the range of float32, an error says so."""
    X = counts(dtype="float32") + np.float32(1)
    X[20:] *= np.float32(1e30)
    with pytest.raises(ValueError, match=r"leave the range of X.s precision: pass X.astype"):
        MiniBatchNMF(2, beta_loss=1, batch_size=10, random_state=0, max_iter=10, tol=0).fit(X)


def test_a_saved_model_gives_the_same_codes(tmp_path: Any) -> None:
    """A model file holds all that transform needs."""
    X = counts()
    model, _ = fitted(X, beta_loss=1, alpha=0.05)
    save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load(tmp_path / "model.skops").transform(X), model.transform(X))


def test_what_does_not_go_with_a_divergence_is_an_error_that_says_what_does() -> None:
    """Parameters that contradict each other are named."""
    X = counts()
    for parameters in ({"solver": "newton-cg"}, {"similarity": "cosine"}, {"label_weight": 1.0}):
        with pytest.raises(ValueError, match=r"cannot be combined with beta_loss='kullback-leibler'.*use"):
            DSPNMF(3, beta_loss="kullback-leibler", **parameters).fit(X, np.zeros(len(X), int))
    with pytest.raises(ValueError, match="only complete rows have similarities"):
        DSPNMF(3, beta_loss=1, missing="mask").fit(X)
    with pytest.raises(ValueError, match="beta_loss='kl' is not allowed"):
        NMF(3, beta_loss="kl").fit(X)
    with pytest.warns(UserWarning, match="nndsvda"), pytest.warns(ConvergenceWarning):
        NMF(3, beta_loss=1, init="nndsvd", max_iter=2).fit(X)


def test_the_best_of_several_starts_is_kept() -> None:
    """More starts end no higher than the first of them."""
    X = counts()
    model = NMF(3, beta_loss=1, n_init=3, random_state=0, max_iter=20, tol=0).fit(X)
    single = NMF(3, beta_loss=1, n_init=1, random_state=0, max_iter=20, tol=0).fit(X)
    assert model.objective_ <= single.objective_ * (1 + 1e-9)
    assert model.stability_.shape == (3,)
