"""Broken on purpose: each check of the suite must notice when the piece it guards is wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_solver import check_never_up, rounding
from test_terms import check_gradient, check_quartic, problem

from dspnmf import DSPNMF
from dspnmf.backends import RowModel, Sums
from dspnmf.backends import small_arrays as small
from dspnmf.estimators import base
from dspnmf.objective.objective import Quartic
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity
from dspnmf.solvers import multiplicative as rules


@dataclasses.dataclass(frozen=True)
class HalfTheCubicTerm(GramSimilarity):
    """The mistake of the printed equation: lam^2 where the gradient has 2 lam^2."""

    def model(self, s: State) -> RowModel:
        """Curvature halved."""
        model = super().model(s)
        return model._replace(S=model.S / 2)


@dataclasses.dataclass(frozen=True)
class WrongQuartic(GramSimilarity):
    """A quartic that forgets ||U'D + D'U||^2."""

    def along(self, s: State, d: Sums) -> Quartic:
        """c2 too small."""
        c1, c2, c3, c4 = super().along(s, d)
        return c1, c2 - np.sum((d.UD + d.UD.T) ** 2), c3, c4


def test_gradient_check_notices() -> None:
    """A wrong gradient fails the finite-difference check."""
    X, U, V = problem()
    with pytest.raises(AssertionError):
        check_gradient(HalfTheCubicTerm(float(np.sum((X @ X.T) ** 2))), X, U, V)


def test_quartic_check_notices() -> None:
    """A wrong quartic fails the check along a line."""
    X, U, V = problem()
    with pytest.raises(AssertionError):
        check_quartic(WrongQuartic(float(np.sum((X @ X.T) ** 2))), X, U, V)


def test_descent_check_notices_a_wrong_step(wine: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full step in place of the exact one goes up, and the check sees it."""
    monkeypatch.setattr(small, "best_step", lambda c, end=1.0: 1.0)
    model = DSPNMF(5, solver="hals", max_iter=40, tol=0, random_state=0).fit(wine)
    with pytest.raises(AssertionError):
        check_never_up(model.objective_history_, rounding(wine), 1e-12)


def test_descent_check_notices_the_printed_rule(wine: np.ndarray) -> None:
    """The printed rule does not pass for a solver that never rises."""
    model = DSPNMF(5, solver="paper", lam=1000.0, max_iter=40, tol=0, random_state=0).fit(wine)
    with pytest.raises(AssertionError):
        check_never_up(model.objective_history_, rounding(wine), 1e-12)


def test_descent_check_notices_a_wrong_exponent(wine: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guaranteed rule with exponent 1 in place of its cubic goes up."""
    monkeypatch.setitem(base.RULES, "mm", rules.appendix)
    rng = np.random.default_rng(0)
    model = DSPNMF(5, alpha=1e3, solver="mm", init="custom", max_iter=40, tol=0)
    model.fit(wine, W=5 * rng.random((178, 5)), H=rng.random((5, 13)))
    with pytest.raises(AssertionError):
        check_never_up(model.objective_history_, rounding(wine, 1e3), 1e-12)
