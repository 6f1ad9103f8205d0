"""alpha="auto": a weight without units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dspnmf import DSPNMF, FRNMF, NSNMF, graphs

UNITLESS: dict[str, Any] = {
    "gram": lambda: DSPNMF(3, alpha="auto"),
    "diffused": lambda: DSPNMF(3, alpha="auto", similarity="diffused"),
    "cosine": lambda: DSPNMF(3, alpha="auto", similarity="cosine"),
    "knn": lambda: DSPNMF(3, alpha="auto", similarity="knn"),
    "NSNMF": lambda: NSNMF(3, alpha="auto", gamma=0.0),
    "FRNMF": lambda: FRNMF(3, alpha="auto"),
}


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.ndarray.tolist], ids=["array", "sparse", "list"])
@pytest.mark.parametrize("name", UNITLESS)
def test_the_unit_does_not_matter(name: str, form: Any, wine: np.ndarray) -> None:
    """Codes of X and of 1000 X agree up to scale to 1e-6, and so do components."""
    first, second = (UNITLESS[name]().set_params(random_state=0, tol=1e-6) for _ in range(2))
    Z, W = first.fit_transform(form(wine)), second.fit_transform(form(1000.0 * wine))
    np.testing.assert_allclose(W / W.max(), Z / Z.max(), atol=1e-6)
    np.testing.assert_allclose(
        second.components_ / second.components_.max(), first.components_ / first.components_.max(), atol=1e-6
    )


def test_what_it_came_to(wine: np.ndarray) -> None:
    """alpha_ is 100 times the ratio of the terms at U = 0, as is said of each class; numbers are kept."""
    X = 3 * wine
    gram, A, tree = X @ X.T, graphs.knn(X).toarray(), graphs.spanning_tree(X).toarray()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    Xd = 0.8 * np.linalg.matrix_power(graphs.diffusion(X).toarray(), 128) @ X + 0.2 * X
    structures = {"gram": gram, "diffused": Xd @ Xd.T, "cosine": unit @ unit.T, "knn": A, "NSNMF": tree, "FRNMF": gram}
    for name, structure in structures.items():
        expected = 100 * np.sum(X**2) / np.sum(structure**2)
        assert UNITLESS[name]().set_params(tol=0.1).fit(X).alpha_ == pytest.approx(expected, rel=1e-9), name
    assert DSPNMF(2, alpha=0.25, tol=0.1).fit(X).alpha_ == 0.25


def test_the_number_is_the_word(wine: np.ndarray) -> None:
    """A fit with the number that "auto" came to is the same fit."""
    found = DSPNMF(3, alpha="auto", random_state=0).fit(wine)
    again = DSPNMF(3, alpha=found.alpha_, random_state=0).fit(wine)
    np.testing.assert_allclose(again.components_, found.components_, rtol=1e-6)


def test_batches_follow_the_number_of_rows(wine: np.ndarray) -> None:
    """After batches of like rows the weight is about that of a fit on all of them."""
    X = np.random.default_rng(0).permutation(wine)
    model = DSPNMF(3, alpha="auto", random_state=0)
    for i in range(0, 178, 60):
        model.partial_fit(X[i : i + 60])
    assert model.alpha_ == pytest.approx(DSPNMF(3, alpha="auto", random_state=0).fit(X).alpha_, rel=0.15)


def test_rows_of_zeros(wine: np.ndarray) -> None:
    """Where there is no structure the weight is 0."""
    assert DSPNMF(2, alpha="auto").fit(0 * wine).alpha_ == 0.0
