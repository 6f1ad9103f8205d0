"""Random fits keep what the documentation promises, and the judge of the study sees what is broken on purpose."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_fits import Case, draw, judge, study

SOUND = 162  # a seed whose fit keeps every promise, with an error left


def test_random_fits() -> None:
    """300 random fits keep every promise."""
    found = study(range(300))
    assert not found.failed, str(found)


@pytest.mark.slow
def test_many_random_fits() -> None:
    """3,000 others keep them, too."""
    found = study(range(300, 3_300), jobs=2)
    assert not found.failed, str(found)


def _rise(model: Any, Z: np.ndarray) -> None:
    model.objective_history_[1] = 1.01 * model.objective_history_[0]


def _scaled(name: str, factor: float) -> Callable[[Any, np.ndarray], None]:
    return lambda model, Z: setattr(model, name, factor * getattr(model, name))


BROKEN: dict[str, Callable[[Any, np.ndarray], object]] = {
    "objective_: not the formula": _scaled("objective_", 1.001),
    "reconstruction_err_: not the formula": _scaled("reconstruction_err_", 1.001),
    "components_: negative": _scaled("components_", -1.0),
    "objective rises": _rise,
    "codes: not finite": lambda model, Z: Z.fill(np.nan),
    "RuntimeWarning: overflow": lambda model, Z: warnings.warn("overflow", RuntimeWarning, stacklevel=2),
    "FloatingPointError: a number": lambda model, Z: (_ for _ in ()).throw(FloatingPointError("a number")),
}


@pytest.mark.parametrize("failure", BROKEN)
def test_judge_sees_what_is_broken(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound fit is judged sound, and broken in one way it is judged broken in that way."""
    case = draw(SOUND)
    assert not judge(case).failures
    original = Case.model

    def broken(self: Case) -> Any:
        model = original(self)
        fit_transform = model.fit_transform

        def fit_and_break(*args: Any, **more: Any) -> np.ndarray:
            Z = fit_transform(*args, **more)
            BROKEN[failure](model, Z)
            return Z

        model.fit_transform = fit_and_break
        return model

    monkeypatch.setattr(Case, "model", broken)
    assert failure in dict(judge(case).failures)
