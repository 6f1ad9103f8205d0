"""Missing cells: they carry no weight, and are completed as the factors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.preprocessing import minmax_scale

from dspnmf import DSPNMF, GNMF, NMF

K = 3


def holes(dtype: Any = np.float64, share: float = 0.3, noise: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Data of rank 3 and a little noise; complete, and with cells missing."""
    rng = np.random.default_rng(0)
    X = rng.random((50, K)) ** 3 @ rng.random((K, 24)) ** 3 + noise * rng.random((50, 24))
    A = X.copy()
    A[rng.random(X.shape) < share] = np.nan
    return X.astype(dtype), A.astype(dtype)


def natural(X: np.ndarray) -> float:
    """The weight at which both terms have the same size at U = 0."""
    return float(np.linalg.norm(X) ** 2 / np.linalg.norm(X @ X.T) ** 2)


def stored(A: np.ndarray) -> Any:
    """A CSR matrix that stores NaN; zeros are not stored."""
    return sparse.csr_array(A)


@pytest.mark.parametrize("solver", ["auto", "newton-cg", "mm"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_error_of_known_cells_never_rises(solver: str, dtype: Any) -> None:
    """Plain NMF lowers the error of the known cells in every iteration, and reports just that."""
    X, A = holes(dtype)
    model = NMF(K, solver=solver, missing="mask", random_state=0, max_iter=60, tol=0)
    Z = model.fit_transform(A)
    slack = 1e-12 if dtype == np.float64 else 1e-6
    assert (np.diff(model.objective_history_) <= slack * model.objective_history_[0]).all()
    known = ~np.isnan(A)
    error = np.linalg.norm((X - Z @ model.components_)[known])
    assert model.reconstruction_err_ == pytest.approx(error, rel=1e-6 if dtype == np.float64 else 1e-3)
    assert model.objective_ == pytest.approx(error**2, rel=1e-6 if dtype == np.float64 else 2e-3)
    assert Z.dtype == dtype


def test_known_cells_are_all_that_counts() -> None:
    """At the end the gradient of the known cells' error vanishes where factors are positive, else it points in."""
    X, A = holes()
    model = NMF(K, missing="mask", random_state=0, max_iter=1500, tol=0)
    Z, V = model.fit_transform(A), model.components_
    rest = np.where(np.isnan(A), 0, Z @ V - X)
    for factor, gradient in ((Z, rest @ V.T), (V, Z.T @ rest)):
        size = np.abs(X).sum() * 1e-5
        assert np.abs(gradient[factor > 1e-8]).max() < size
        assert gradient.min() > -size


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_cells_are_found_again(share: float) -> None:
    """Where the data have low rank, the product of the factors is close to the cells nobody saw."""
    X, A = holes(share=share, noise=0.001)
    model = NMF(K, missing="mask", random_state=0, max_iter=300, tol=0)
    completed = model.inverse_transform(model.fit_transform(A))
    hidden = np.isnan(A)
    assert np.linalg.norm((completed - X)[hidden]) < (0.05 if share < 0.5 else 0.15) * np.linalg.norm(X[hidden])


def test_the_structure_is_that_of_completed_rows() -> None:
    """DSP-NMF falls but for the iterations that renew its goal, and ends near the similarities of the complete data."""
    X, A = holes(noise=0.001)
    model = DSPNMF(K, alpha=natural(X), missing="mask", random_state=0, max_iter=300, tol=0)
    Z = model.fit_transform(A)
    rises = np.flatnonzero(np.diff(model.objective_history_) > 1e-12 * model.objective_history_[:-1]) + 1
    assert set(rises) <= {2**j for j in range(10)}
    gram = X @ X.T
    assert np.linalg.norm(gram - Z @ Z.T) < 0.1 * np.linalg.norm(gram)
    known = ~np.isnan(A)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm((X - Z @ model.components_)[known]), rel=1e-6)
    total = model.reconstruction_err_**2 + natural(X) * model.structure_err_**2
    assert model.objective_ == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("cls", [NMF, DSPNMF])
def test_sparse_and_dense_agree(cls: type) -> None:
    """NaN stored in a sparse matrix means what it means in an array; cells that are not stored are known zeros."""
    _, A = holes()
    A[:, :4] *= np.random.default_rng(1).random((50, 4)) < 0.4  # zeros, NaN stays NaN
    fits = [cls(K, missing="mask", random_state=0, max_iter=40, tol=0) for _ in range(2)]
    Z, Y = fits[0].fit_transform(A), fits[1].fit_transform(stored(A))
    np.testing.assert_allclose(fits[1].objective_history_, fits[0].objective_history_, rtol=1e-9)
    np.testing.assert_allclose(Y, Z, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fits[1].transform(stored(A)), fits[0].transform(A), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("cls", [NMF, DSPNMF])
def test_complete_data_are_fitted_as_ever(cls: type) -> None:
    """Without NaN, missing="mask" changes nothing at all."""
    X, _ = holes()
    one, other = cls(K, random_state=0, tol=1e-3), cls(K, missing="mask", random_state=0, tol=1e-3)
    np.testing.assert_array_equal(one.fit_transform(X), other.fit_transform(X))


@pytest.mark.parametrize(("cls", "slack"), [(NMF, 1e-4), (DSPNMF, 0.02)])
def test_codes_of_the_rows_fitted(cls: type, slack: float) -> None:
    """Transform of the training rows gives the codes of the fit; complete rows get codes too."""
    X, A = holes(noise=0.001)
    weight = {"alpha": natural(X)} if cls is DSPNMF else {}
    model = cls(K, missing="mask", random_state=0, max_iter=800, tol=0, **weight)
    Z = model.fit_transform(A)
    np.testing.assert_allclose(model.transform(A), Z, atol=slack * Z.max())
    complete = model.inverse_transform(model.transform(X))
    assert np.linalg.norm(complete - X) < (0.05 if cls is NMF else 0.2) * np.linalg.norm(X)


@pytest.mark.parametrize("share", [0.6, 0.9])
@pytest.mark.parametrize("complete", [True, False], ids=["fitted on complete rows", "on incomplete ones"])
def test_codes_stay_bounded_however_little_is_known(share: float, complete: bool) -> None:
    """With few cells left and a heavy structure term, codes of new rows are about as large as those of the fit."""
    X = minmax_scale(load_wine().data)
    A = np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)
    model = DSPNMF(5, missing="mask", random_state=0, tol=1e-3, max_iter=500)
    Z = model.fit_transform(X if complete else A)
    assert model.transform(A).max() < 1.5 * Z.max()


def test_codes_do_not_depend_on_the_company() -> None:
    """A row gets the same codes alone as among others."""
    X = minmax_scale(load_wine().data)
    A = np.where(np.random.default_rng(0).random(X.shape) < 0.5, np.nan, X)[:20]
    model = NMF(5, missing="mask", random_state=0, tol=1e-3).fit(X)
    alone = np.vstack([model.transform(row[None]) for row in A])
    together = model.transform(A)
    np.testing.assert_allclose(alone, together, atol=0.01 * together.max())


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_several_starts_are_independent(alpha: float) -> None:
    """The best of several starts reports its own errors, those of its codes and components on the known cells."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.random((30, 12))
        A = np.where(rng.random(X.shape) < 0.4, np.nan, X)
        model = DSPNMF(4, alpha=alpha, missing="mask", n_init=4, random_state=seed, max_iter=40, tol=0)
        Z = model.fit_transform(A)
        completed = np.where(np.isnan(A), Z @ model.components_, X)
        assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(completed - Z @ model.components_), rel=1e-6)
        assert model.objective_ == pytest.approx(model.objective_history_[-1], rel=1e-9)
        if alpha == 0:
            gap = np.linalg.norm(completed @ completed.T - Z @ Z.T)
            assert model.structure_err_ == pytest.approx(gap, rel=1e-6)


def test_batches_do_not_go_on_from_missing_cells() -> None:
    """Sums of completed rows are no beginning for batches, and that is said."""
    X, A = holes()
    model = NMF(K, missing="mask", random_state=0, max_iter=5, tol=0).fit(A).set_params(missing="error")
    with pytest.raises(ValueError, match="began with missing cells or with labels"):
        model.partial_fit(X)


def test_a_model_of_complete_data_takes_incomplete_rows() -> None:
    """New rows may miss cells though none was missing in the fit: known cells then decide."""
    X, A = holes(noise=0.0)
    model = NMF(K, missing="mask", random_state=0, max_iter=400, tol=0).fit(X)
    assert np.linalg.norm(model.inverse_transform(model.transform(A)) - X) < 0.02 * np.linalg.norm(X)


@pytest.mark.parametrize("init", ["nndsvd", "nndsvda", "custom"])
def test_starts(init: str) -> None:
    """Every start works, from rows completed by column means."""
    _, A = holes()
    rng = np.random.default_rng(0)
    given = {"W": rng.random((50, K)), "H": rng.random((K, 24))} if init == "custom" else {}
    model = DSPNMF(K, init=init, missing="mask", random_state=0, max_iter=30, tol=0)
    assert np.isfinite(model.fit_transform(A, **given)).all()
    assert model.objective_history_[-1] < model.objective_history_[0]


def test_rows_and_columns_without_a_value() -> None:
    """A row or a column of which nothing is known does no harm to the others."""
    X, A = holes(noise=0.0)
    A[3], A[:, 5] = np.nan, np.nan
    model = NMF(K, missing="mask", random_state=0, max_iter=400, tol=0)
    completed = model.inverse_transform(model.fit_transform(A))
    assert np.isfinite(completed).all()
    known = ~np.isnan(A)
    assert np.linalg.norm((completed - X)[known]) < 0.02 * np.linalg.norm(X[known])


def test_tensors() -> None:
    """A tensor on the host may hold NaN, and tensors come back."""
    _, A = holes()
    Z = NMF(K, missing="mask", random_state=0, max_iter=20, tol=0).fit_transform(torch.from_numpy(A))
    expected = NMF(K, missing="mask", random_state=0, max_iter=20, tol=0).fit_transform(A)
    np.testing.assert_array_equal(Z.numpy(), expected)


@pytest.mark.parametrize(
    ("model", "spoil", "message"),
    [
        (NMF(K, missing="mask"), lambda A: np.full_like(A, np.nan), "All 50 x 24 cells of X are missing"),
        (NMF(K, missing="mask"), lambda A: np.where(np.arange(24) == 7, -1.0, A), r"X\[0, 7\] = -1"),
        (NMF(K, missing="mask"), lambda A: np.where(np.arange(24) == 7, np.inf, A), "contains infinity"),
        (NMF(K, missing="no"), lambda A: A, "missing='no' is not allowed"),
        (NMF(K), lambda A: A, 'missing="mask"'),
        (GNMF(K), lambda A: A, 'missing="mask"'),
        (DSPNMF(K, missing="mask", similarity="cosine"), lambda A: A, "needs complete rows"),
        (DSPNMF(K, missing="mask", similarity="diffused"), lambda A: A, "needs complete rows"),
    ],
)
def test_errors(model: Any, spoil: Any, message: str) -> None:
    """What cannot be fitted is said at once, with the cell and the fix."""
    with pytest.raises(ValueError, match=message):
        model.fit(spoil(holes()[1]))


@pytest.mark.parametrize("similarity", ["cosine", "diffused", "knn"])
def test_other_similarities_need_complete_rows(similarity: str) -> None:
    """A model that keeps cosines or neighbours says so when new rows miss cells."""
    X, A = holes()
    model = DSPNMF(K, similarity=similarity, missing="mask", random_state=0, max_iter=5, tol=0).fit(X)
    with pytest.raises(ValueError, match="needs complete rows"):
        model.transform(A)


def test_refused_elsewhere(tmp_path: Path) -> None:
    """Missing cells need X in memory or in a file, and no checkpoint."""
    da = pytest.importorskip("dask.array")
    _, A = holes()
    with pytest.raises(ValueError, match="needs all of X in memory"):
        NMF(K, missing="mask").fit(da.from_array(A))
    with pytest.raises(ValueError, match="NMF keeps no checkpoint here: cells of X are missing"):
        NMF(K, missing="mask").fit(A, checkpoint_path=tmp_path / "fit.npz")
