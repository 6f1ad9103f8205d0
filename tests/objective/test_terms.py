"""Terms: values, gradients and quartics against loops and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from dspnmf.backends import MemoryRows, Sums
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, Reconstruction


def problem(seed: int = 0, n: int = 9, m: int = 7, k: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random X, U, V."""
    rng = np.random.default_rng(seed)
    return rng.random((n, m)), rng.random((n, k)), rng.random((k, m))


def state(X: np.ndarray, U: np.ndarray, V: np.ndarray) -> State:
    """The small arrays at U, V."""
    return State(np.ascontiguousarray(V.T), X.T @ U, U.T @ U)


def terms_of(X: np.ndarray) -> dict[str, Term]:
    """Every term there is."""
    return {
        "reconstruction": Reconstruction(float(np.sum(X**2))),
        "gram": GramSimilarity(float(np.sum((X @ X.T) ** 2))),
    }


TERMS = ("reconstruction", "gram")


def check_gradient(term: Term, X: np.ndarray, U: np.ndarray, V: np.ndarray) -> None:
    """U S - X M is half the gradient of the term's value."""
    S, M = term.model(state(X, U, V))[:2]
    half = U @ S - X @ M
    step = 1e-6
    for i in range(U.shape[0]):
        for a in range(U.shape[1]):
            up, down = U.copy(), U.copy()
            up[i, a] += step
            down[i, a] -= step
            slope = (term.value(state(X, up, V)) - term.value(state(X, down, V))) / (2 * step)
            assert 2 * half[i, a] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def check_quartic(term: Term, X: np.ndarray, U: np.ndarray, V: np.ndarray) -> None:
    """c1..c4 give the change of the value along any direction, for any step."""
    D = np.random.default_rng(5).standard_normal(U.shape)
    c = term.along(state(X, U, V), Sums(X.T @ D, U.T @ D, D.T @ D))
    start = term.value(state(X, U, V))
    for t in (-0.7, 0.1, 0.5, 1.0, 2.0):
        change = term.value(state(X, U + t * D, V)) - start
        assert np.polyval([*c[::-1], 0.0], t) == pytest.approx(change, rel=1e-10, abs=1e-9 * term.norm2)


@pytest.mark.parametrize("name", TERMS)
def test_gradient(name: str) -> None:
    """Every term's model has the gradient of the term (finite differences)."""
    X, U, V = problem()
    check_gradient(terms_of(X)[name], X, U, V)


@pytest.mark.parametrize("name", TERMS)
def test_quartic(name: str) -> None:
    """Every term's quartic is exact."""
    X, U, V = problem()
    check_quartic(terms_of(X)[name], X, U, V)


@pytest.mark.parametrize("name", TERMS)
def test_model_is_convex(name: str) -> None:
    """<A[D], D> >= 0 for every direction D."""
    X, U, V = problem()
    S, _, coupling = terms_of(X)[name].model(state(X, U, V))[:3]
    rng = np.random.default_rng(1)
    for _ in range(50):
        D = rng.standard_normal(U.shape)
        assert np.vdot(D @ S + coupling * U @ (D.T @ U), D) >= -1e-12 * np.vdot(D, D)


def test_value_is_the_objective() -> None:
    """The weighted sum of the terms is the objective written out entry by entry."""
    X, U, V = problem()
    terms = terms_of(X)
    total = Objective(terms, {"reconstruction": 1.0, "gram": 0.3})
    assert total.value(state(X, U, V)) == pytest.approx(reference.objective(X, U, V, alpha=0.3), rel=1e-12)


@pytest.mark.parametrize("name", TERMS)
def test_exact_value(name: str) -> None:
    """Far below ||X||^2 the value from residuals still has digits when the difference has none."""
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((7, 3)))[0].T
    V = np.eye(3, 7) if name == "gram" else np.abs(V)
    U = rng.random((40, 3))
    X = U @ V + 1e-9 * rng.random((40, 7))
    rows = MemoryRows(X, 3)
    rows.begin(U.copy())
    expected = np.sum((X - U @ V) ** 2) if name == "reconstruction" else np.sum((X @ X.T - U @ U.T) ** 2)
    assert terms_of(X)[name].exact(state(X, U, V), rows) == pytest.approx(expected, rel=1e-5)


def test_weight_zero_is_left_out() -> None:
    """A term of weight zero changes neither model nor value."""
    X, U, V = problem()
    terms = terms_of(X)
    with_zero = Objective(terms, {"reconstruction": 1.0, "gram": 0.0})
    alone = with_zero.without("gram")
    s = state(X, U, V)
    assert with_zero.value(s) == alone.value(s)
    assert with_zero.model(s).coupling == 0
    np.testing.assert_array_equal(with_zero.model(s).S, alone.model(s).S)
