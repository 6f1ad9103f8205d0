"""A fit of a table: scaling and factorization as one pipeline, its codes and its numbers."""

from __future__ import annotations

import ast
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

import dspnmf.estimators as family
from dspnmf.io import Table
from dspnmf.report import fit_facts, fit_yardstick
from dspnmf.workflow.scaling import default_scale, scaled, scaler
from dspnmf.workflow.tables import check_values, labels_of

_WITHOUT_COMPONENTS = ("NPE", "SymNMF", "DSPNMFCV")


@dataclass(frozen=True)
class FitResult:
    """All that a fit leaves."""

    pipeline: Pipeline
    table: Table  # after scaling
    codes: Any
    facts: dict[str, Any]
    yardstick: Any
    scale: str
    seconds: float

    @property
    def model(self) -> Any:
        """The factorization alone."""
        return self.pipeline[-1]


def methods() -> list[str]:
    """Names of the methods that give codes and components of any data."""
    return [name for name in family.__all__ if name not in _WITHOUT_COMPONENTS]


def model_of(method: str, parameters: Mapping[str, Any], texts: Iterable[str] = ()) -> Any:
    """An estimator by its name, with parameters, and more of them as texts ``name=value``.

    >>> model_of("dspnmf", {"n_components": 3}, ["alpha=0.5"])
    DSPNMF(alpha=0.5, n_components=3)
    """
    names = {name.lower(): name for name in methods()}
    if method.lower() not in names:
        raise ValueError(f"There is no method {method!r}: choose from {', '.join(methods())}.")
    cls = getattr(family, names[method.lower()])
    given = {**parameters, **dict(map(_parsed, texts))}
    allowed = cls().get_params(deep=False)
    for name in given:
        if name not in allowed:
            near = get_close_matches(name, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(allowed))}."
            raise ValueError(f"{cls.__name__} has no parameter {name}: {hint}")
    return cls(**given)


def _parsed(text: str) -> tuple[str, Any]:
    """A parameter from ``name=value``; the value is a number, True, False, None, or a word."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise ValueError(f"{text!r} is no parameter: write name=value, for example n_neighbors=10.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()


def fit_table(table: Table, model: Any, scale: str | None = None, *, callbacks: Iterable[Any] = ()) -> FitResult:
    """Scale and factorize a table; labels are handed to models that learn from them, and only shown otherwise."""
    scale = scale or default_scale(table)
    labels = labels_of(table) if _learns_from_labels(model) else None
    check_values(table, missing=getattr(model, "missing", "error") == "mask", scale=scale)
    step = scaler(scale, table).fit(table.X)
    here = scaled(table, step)
    begin = time.perf_counter()
    if callbacks:
        model.set_callbacks(*callbacks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the facts say whether it converged
        codes = model.fit_transform(here.X, labels)
        seconds = time.perf_counter() - begin
        if callbacks:
            model.set_callbacks()
        beside = fit_yardstick(model, here)
    pipeline = Pipeline([("scale", step), ("factors", model)])
    pipeline.table_features_ = [str(name) for name in table.features]
    facts = fit_facts(model, here, codes, False if beside is None else beside)
    return FitResult(pipeline, here, codes, facts, False if beside is None else beside, scale, seconds)


def _learns_from_labels(model: Any) -> bool:
    """Whether a fit uses labels."""
    return isinstance(model, family.GDNMF) or getattr(model, "label_weight", 0) > 0
