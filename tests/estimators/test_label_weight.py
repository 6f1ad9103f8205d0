"""Semi-supervised DSP-NMF: labels as a second reconstruction, in the fit only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale

from dspnmf import DSPNMF, GDNMF

X, Y = minmax_scale(load_wine().data), load_wine().target
OPTIONS: dict[str, Any] = {"alpha": 1e-3, "random_state": 0, "tol": 1e-4, "max_iter": 500}


def knn(Z: np.ndarray) -> float:
    """Accuracy of three neighbours."""
    return float(cross_val_score(KNeighborsClassifier(3), Z, Y, cv=5).mean())


@pytest.mark.parametrize("solver", ["auto", "hals", "mm"])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_objective_is_the_formula(solver: str, share: float) -> None:
    """F is the reconstruction, the structure and the labelled rows' ``b ||Y - UB||^2``, and never rises."""
    y = np.where(np.random.default_rng(0).random(len(Y)) < share, Y, -1)
    model = DSPNMF(4, label_weight=0.7, solver=solver, **{**OPTIONS, "max_iter": 60, "tol": 0})
    Z = model.fit_transform(X, y)
    one_hot = np.equal.outer(y, model.classes_).astype(float)
    labels = np.linalg.norm((one_hot - Z @ model.label_components_)[y >= 0]) ** 2
    total = np.linalg.norm(X - Z @ model.components_) ** 2 + 1e-3 * np.linalg.norm(X @ X.T - Z @ Z.T) ** 2
    assert model.objective_ == pytest.approx(total + 0.7 * labels, rel=1e-9)
    assert (np.diff(model.objective_history_) <= 1e-12 * model.objective_history_[0]).all()


@pytest.mark.parametrize("similarity", ["gram", "cosine", "knn"])
def test_labels_pull_classes_apart(similarity: str) -> None:
    """Codes fitted with labels score the classes, and neighbours agree more; for every similarity."""
    options = {**OPTIONS, "alpha": 1e-3 if similarity == "gram" else 0.1, "similarity": similarity}
    plain = DSPNMF(4, **options).fit_transform(X)
    model = DSPNMF(4, label_weight=3.0, **options)
    Z = model.fit_transform(X, Y)
    assert knn(Z) > knn(plain)
    scores = Z @ model.label_components_
    assert np.mean(model.classes_[scores.argmax(axis=1)] == Y) > 0.95


def test_weight_zero_ignores_labels() -> None:
    """Without a weight y changes nothing, and leaves no trace."""
    one, other = DSPNMF(4, **OPTIONS), DSPNMF(4, **OPTIONS)
    np.testing.assert_array_equal(one.fit_transform(X), other.fit_transform(X, Y))
    assert not hasattr(other, "classes_")


def test_a_fit_without_labels_leaves_none() -> None:
    """What an earlier fit learned of labels is gone."""
    model = DSPNMF(4, label_weight=1.0, **OPTIONS).fit(X, Y).set_params(label_weight=0.0).fit(X)
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "label_components_")


@pytest.mark.parametrize("model", [DSPNMF(2, label_weight=1.0), GDNMF(2)])
def test_labels_that_have_a_weight_must_be_given(model: DSPNMF | GDNMF) -> None:
    """A weight of labels without labels is refused before any work, and ignored where it is 0."""
    with pytest.raises(ValueError, match=r"label_weight=1\.0 requires y to be passed, but the target y is None"):
        model.fit(X)
    assert not hasattr(model, "components_")
    assert not hasattr(model.set_params(label_weight=0.0, tol=1e-2).fit(X), "classes_")


def test_unknown_labels_are_no_class() -> None:
    """Rows labelled -1 count for the data only; where all are, the fit is that without labels."""
    model = DSPNMF(4, label_weight=1.0, **OPTIONS)
    Z = model.fit_transform(X, np.full(len(Y), -1))
    np.testing.assert_array_equal(Z, DSPNMF(4, **OPTIONS).fit_transform(X))
    names = np.array(["a", "b", "-1"], dtype=object)[Y]
    assert list(DSPNMF(4, label_weight=1.0, **OPTIONS).fit(X, names).classes_) == ["a", "b"]


def test_transform_sees_no_labels() -> None:
    """Codes of new rows come from the components and the structure alone, of the width of X."""
    model = DSPNMF(4, label_weight=1.0, **OPTIONS).fit(X[::2], Y[::2])
    assert model.transform(X[1::2]).shape == (len(X[1::2]), 4)
    assert model._transform_state.pull.shape == (X.shape[1], 4)


def test_labels_and_missing_cells() -> None:
    """Both work together, dense and sparse."""
    A = X.copy()
    A[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    options = {**OPTIONS, "max_iter": 40, "tol": 0}
    one = DSPNMF(4, label_weight=1.0, missing="mask", **options).fit(A, Y)
    other = DSPNMF(4, label_weight=1.0, missing="mask", **options).fit(sparse.csr_array(A), Y)
    np.testing.assert_allclose(other.objective_history_, one.objective_history_, rtol=1e-9)
    assert one.label_components_.shape == (4, 3)
    assert one.transform(A).shape == (len(X), 4)


def test_errors() -> None:
    """One label a row, in memory."""
    with pytest.raises(ValueError, match="y has 5 labels"):
        DSPNMF(4, label_weight=1.0).fit(X, Y[:5])
    for odd in (np.where(Y == 0, np.nan, Y), np.where(Y == 0, None, Y)):
        with pytest.raises(ValueError, match="write -1 where a label is unknown"):
            DSPNMF(4, label_weight=1.0).fit(X, odd)
    mixed = np.array(["a", 1, "b"], dtype=object)[Y]
    with pytest.raises(ValueError, match="several types"):
        DSPNMF(4, label_weight=1.0).fit(X, mixed)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"label_weight=1\.0 needs all of X in memory"):
        DSPNMF(4, label_weight=1.0).fit(da.from_array(X), Y)
