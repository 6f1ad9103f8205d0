"""Metrics against their definitions, with the n x n matrices written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar

from dspnmf import DSPNMF, NMF, metrics


def pair(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Data and codes."""
    rng = np.random.default_rng(0)
    return rng.random((n, 6)), rng.random((n, 3))


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_structure_error(stored: type) -> None:
    """The relative distance of XX' to the best multiple of ZZ', for dense and sparse X."""
    X, Z = pair()
    gap = minimize_scalar(lambda c: np.linalg.norm(X @ X.T - c * Z @ Z.T)).fun
    assert metrics.structure_error(stored(X), Z) == pytest.approx(gap / np.linalg.norm(X @ X.T), rel=1e-8)


def test_structure_error_at_the_ends() -> None:
    """0 for codes with the same similarities, 1 for codes with none, 0 where there is nothing to keep."""
    X, Z = pair()
    assert metrics.structure_error(X, 5 * X) == pytest.approx(0, abs=1e-7)
    assert metrics.structure_error(X, 0 * Z) == 1.0
    assert metrics.structure_error(0 * X, Z) == 0.0


def test_structure_is_kept_better_than_by_nmf(digits: np.ndarray) -> None:
    """What DSP-NMF is for."""
    ours, plain = (cls(10, random_state=0).fit_transform(digits) for cls in (DSPNMF, NMF))
    assert metrics.structure_error(digits, ours) < 0.2 * metrics.structure_error(digits, plain)
    assert metrics.neighbour_recall(digits, ours) > metrics.neighbour_recall(digits, plain)


def test_neighbour_recall_by_brute_force() -> None:
    """The share of common neighbours, counted."""
    X, Z = pair()
    shared = []
    for i in range(len(X)):
        near = [set(np.argsort(np.linalg.norm(A - A[i], axis=1))[1:6]) for A in (X, Z)]
        shared.append(len(near[0] & near[1]) / 5)
    assert metrics.neighbour_recall(X, Z, 5) == pytest.approx(np.mean(shared))


def test_few_rows() -> None:
    """One or two rows have nothing to lose."""
    assert metrics.neighbour_recall(np.ones((1, 3)), np.ones((1, 2))) == 1.0
    assert 0 <= metrics.trustworthiness(np.eye(3), np.eye(3)) <= 1


def test_component_correlation() -> None:
    """Mean cosine of different components; a component of zeros has none."""
    V = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert metrics.component_correlation(V) == pytest.approx(np.sqrt(0.5) / 3)
    assert metrics.component_correlation(V[:1]) == 0.0


def test_sparseness() -> None:
    """Hoyer's measure at its ends and in between."""
    assert metrics.sparseness([[1.0, 1, 0, 0]]) == pytest.approx((2 - np.sqrt(2)) / 1)
    assert metrics.sparseness([[0.0, 0, 0]]) == 0.0


def test_lengths_must_agree() -> None:
    """Codes of other rows are refused."""
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        metrics.structure_error(np.ones((4, 2)), np.ones((3, 2)))
