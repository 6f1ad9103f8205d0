"""Fitted attributes: replaced together by a fit that is done, untouched by one that fails or is interrupted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dspnmf import DSPNMF, GDNMF, GNMF, NMF, NPE, NPNMF, NSNMF, ONMF, SDNMF, SPNMF, SymNMF
from dspnmf._validation import check_parameters
from dspnmf.estimators.base import Factorization
from model_files import assert_same

QUICK: dict[str, Any] = {"random_state": 0, "max_iter": 4, "tol": 0}


def labels(X: np.ndarray) -> np.ndarray:
    """Three classes."""
    return np.arange(len(X)) % 3


def bad_labels(X: np.ndarray) -> np.ndarray:
    """One label too many."""
    return np.append(labels(X), 0)


def same(X: np.ndarray) -> None:
    """No labels."""


Maker = Callable[[np.ndarray], Any]
FAILS: dict[str, tuple[Any, dict[str, Any], Maker, Maker]] = {  # a model, what is set before it fails, its bad X and y
    "graph of other rows": (NSNMF(3, **QUICK), {"graph": sparse.eye_array(5).tocsr()}, lambda X: X[:, :9], same),
    "weight out of range": (DSPNMF(3, **QUICK), {"alpha": 1e308}, lambda X: 100 * X[:, :9], same),
    "labels": (DSPNMF(3, label_weight=1.0, **QUICK), {}, lambda X: X[:, :9], bad_labels),
    "labels of GDNMF": (GDNMF(3, **QUICK), {}, lambda X: X[:, :9], bad_labels),
    "bad cell": (GNMF(3, **QUICK), {}, lambda X: -X[:, :9], same),
    "bad parameter": (NMF(3, **QUICK), {"tol": -1.0}, lambda X: X[:, :9], same),
    "start": (NMF(3, **QUICK), {"init": "custom"}, lambda X: X[:, :9], same),
    "metric": (SDNMF(3, **QUICK), {"metric": (2, 2)}, lambda X: X[:, :9], same),
    "matrix": (SymNMF(3, **QUICK), {"graph": sparse.eye_array(5).tocsr()}, lambda X: X[:, :9], same),
    "frame": (DSPNMF(3, **QUICK), {}, lambda X: pd.DataFrame(-X[:, :9], columns=list("abcdefghi")), same),
    "NPE": (NPE(2), {"graph": sparse.eye_array(5).tocsr()}, lambda X: X[:, :9], same),
}


@pytest.mark.parametrize("before", ["fitted", "not fitted"])
@pytest.mark.parametrize("name", FAILS)
def test_a_fit_that_fails_changes_nothing(name: str, before: str, wine: np.ndarray) -> None:
    """Whatever was wrong: every attribute is as it was, the number of features included."""
    model, parameters, spoil, y = FAILS[name]
    model = copy.deepcopy(model)
    if before == "fitted":
        model.fit(wine, labels(wine))
    model.set_params(**parameters)
    expected = copy.deepcopy(vars(model))
    with pytest.raises(ValueError, match=r"."):
        model.fit(spoil(wine), y(wine))
    assert_same(vars(model), expected)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_fit_changes_nothing(
    stop: type[BaseException], wine: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between two iterations, a model still answers as after the fit before."""
    model = DSPNMF(3, **QUICK).fit(wine)
    expected, Z = copy.deepcopy(vars(model)), model.transform(wine)

    def interrupt(_: Any, iteration: int, value: float) -> None:
        raise stop

    monkeypatch.setattr(Factorization, "_log", interrupt)
    with pytest.raises(stop):
        model.fit(wine[:, :9])
    with pytest.raises(stop):
        NMF(3, **QUICK).fit(wine).partial_fit(wine)
    assert_same(vars(model), expected)
    np.testing.assert_array_equal(model.transform(wine), Z)


def test_a_batch_that_fails_changes_nothing(wine: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a batch that breaks off in the middle."""
    model = NMF(3, **QUICK).partial_fit(wine[:90])
    expected = copy.deepcopy(vars(model))
    monkeypatch.setattr("dspnmf.estimators.partial_fit._Size.__call__", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.partial_fit(wine[90:])
    assert_same(vars(model), expected)


FITTED = {"components_", "n_components_", "n_iter_", "objective_", "objective_history_", "reconstruction_err_"}


def fitted(model: Any) -> set[str]:
    """The names of fitted attributes."""
    return {name for name in vars(model) if name.endswith("_")}


def test_stale_attributes_are_removed(wine: np.ndarray) -> None:
    """What only an earlier fit had is gone after the next: names of features, labels, batches."""
    frame = pd.DataFrame(wine, columns=[f"f{i}" for i in range(13)])
    model = DSPNMF(3, label_weight=1.0, **QUICK).fit(frame, labels(wine))
    assert {"feature_names_in_", "classes_", "label_components_"} <= fitted(model)
    model.set_params(label_weight=0.0).fit(wine[:, :9])
    assert fitted(model) == fitted(DSPNMF(3, **QUICK).fit(wine[:, :9]))
    assert fitted(model) >= FITTED | {"n_features_in_", "structure_err_", "n_samples_seen_", "n_steps_"}
    assert model.n_features_in_ == 9
    model.stale_ = 1
    assert not hasattr(model.fit(wine), "stale_")
    assert model.get_params() == DSPNMF(3, label_weight=0.0, **QUICK).get_params()


def test_a_state_is_frozen(wine: np.ndarray) -> None:
    """What transform needs is one object, replaced as a whole by every fit, never changed."""
    model = DSPNMF(3, **QUICK).fit(wine)
    state = model._transform_state
    with pytest.raises(AttributeError):
        state.scale = 2.0
    kept = copy.deepcopy(state)
    model.fit(2 * wine).partial_fit(wine)
    assert model._transform_state is not state
    assert_same(state, kept)


def test_every_parameter_is_declared_once() -> None:
    """A bad value of any declared parameter is refused by its name; one that means nothing to a class is unknown."""
    with pytest.raises(TypeError, match="solver"):
        ONMF(solver="paper")
    for cls in (GNMF, NPNMF, SPNMF, GDNMF):
        with pytest.raises(TypeError, match="normalize"):
            cls(normalize=True)
    for model in (DSPNMF(), NMF(), GNMF(), NSNMF(), GDNMF(), SymNMF(), SDNMF()):
        for name in sorted(set(model.get_params()) - {"random_state"}):
            with pytest.raises(
                ValueError, match=rf"{name}=<object .* is not allowed in {type(model).__name__}: it must"
            ):
                check_parameters(copy.deepcopy(model).set_params(**{name: object()}))
