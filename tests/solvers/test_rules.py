"""The multiplicative rules, step by step against loops over the printed formulas."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from dspnmf import DSPNMF
from dspnmf.solvers.multiplicative import guaranteed, ratio


def small() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, W, H."""
    rng = np.random.default_rng(0)
    return rng.random((12, 7)), 0.1 + rng.random((12, 3)), 0.1 + rng.random((3, 7))


@pytest.mark.parametrize(("solver", "cubic"), [("paper", 1.0), ("paper-appendix", 2.0)])
@pytest.mark.parametrize("lam", [1.0, 10.0, 1000.0])
def test_published_rules(solver: str, cubic: float, lam: float) -> None:
    """Five iterations of each published rule agree with the printed equations, at any lam."""
    X, U, V = small()
    for iterations in range(1, 6):
        model = DSPNMF(3, lam=lam, solver=solver, init="custom", max_iter=iterations, tol=0)
        Z = model.fit_transform(X, W=small()[1], H=small()[2])
        U, V = reference.printed_rule(X, U, V, lam, cubic)
        np.testing.assert_allclose(Z, U, rtol=1e-10)
        np.testing.assert_allclose(model.components_, V, rtol=1e-10)


@pytest.mark.parametrize("alpha", [1e-8, 1e-2, 1.0, 1e4])
def test_guaranteed_rule(alpha: float) -> None:
    """The mm rule solves its cubic: codes agree with bisection."""
    X, W, H = small()
    model = DSPNMF(3, alpha=alpha, solver="mm", init="custom", max_iter=1, tol=0)
    Z = model.fit_transform(X, W=W, H=H)
    np.testing.assert_allclose(Z, reference.guaranteed_rule(X, W, H, alpha), rtol=1e-10)


def test_cubic_over_the_whole_range() -> None:
    """The root of a t^3 + b t = c is exact to rounding, also where a or b vanish or are far apart."""
    rng = np.random.default_rng(0)
    a, b, c = (10.0 ** rng.uniform(-60, 60, 2000) for _ in range(3))
    a[:100], b[100:200], c[200:300] = 0, 0, 0
    t = guaranteed(a, b, c)
    np.testing.assert_allclose(a * t**3 + b * t, c, rtol=1e-9)
    assert np.isfinite(guaranteed(np.zeros(2), np.zeros(2), np.array([0.0, 1.0]))).all()


def test_scalar_two_cycle() -> None:
    """For n = m = k = 1 with no reconstruction pull the printed rule is u <- c/u: it never settles."""
    X = np.array([[1.0]])
    start = {"W": np.array([[3.0]]), "H": np.array([[1e-30]])}
    fits = [
        DSPNMF(1, alpha=1e12, solver="paper-appendix", init="custom", max_iter=i, tol=0).fit_transform(X, **start)[0, 0]
        for i in (1, 2, 3)
    ]
    assert fits[0] == pytest.approx(1 / 3)
    assert fits[1] == pytest.approx(3)
    assert fits[2] == pytest.approx(1 / 3)


def test_lee_and_seung(wine: np.ndarray) -> None:
    """Without the structure term all three rules are Lee & Seung's and descend."""
    histories = [
        DSPNMF(3, alpha=0.0, solver=solver, random_state=0, max_iter=20, tol=0).fit(wine).objective_history_
        for solver in ("mm", "paper", "paper-appendix")
    ]
    assert np.diff(histories[0]).max() <= 0
    np.testing.assert_allclose(histories[1], histories[2])


def test_ratio_where_nothing_is_at_stake() -> None:
    """0/0 leaves an entry as it is."""
    np.testing.assert_array_equal(ratio(np.array([0.0, 1.0]), np.array([0.0, 2.0])), [1.0, 0.5])
