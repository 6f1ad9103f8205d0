"""A fit of a table as one pipeline, scaling and factorization, with its codes and its numbers; or a selection."""

from __future__ import annotations

import ast
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

import dspnmf.estimators as family
from dspnmf.io import Table
from dspnmf.report import fit_baseline, fit_facts
from dspnmf.report.fit_measurements import Baseline, FloatArray
from dspnmf.selection import DSPNMFCV
from dspnmf.workflow.preparation import check_values, default_scale, labels_of, scaled, scaler

_WITHOUT_COMPONENTS = ("NPE", "SymNMF")


@dataclass(frozen=True)
class FitResult:
    """A fitted pipeline with everything that is written to its folder."""

    pipeline: Pipeline
    table: Table  # after scaling
    codes: FloatArray
    facts: dict[str, Any]
    baseline: Baseline
    scale: str
    seconds: float


def methods() -> list[str]:
    """Names of the methods that give codes and components of any data."""
    return [name for name in family.__all__ if name not in _WITHOUT_COMPONENTS]


def model_of(method: str, parameters: Mapping[str, object], texts: Iterable[str] = ()) -> BaseEstimator:
    """An estimator by its name, with parameters, and more of them as texts ``name=value``."""
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


def _parsed(text: str) -> tuple[str, object]:
    """A parameter from ``name=value``; the value is a number, True, False, None, or a word."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not (name and value):
        raise ValueError(f"{text!r} is not a parameter: write name=value, for example n_neighbors=10.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def fit_table(
    table: Table,
    model: BaseEstimator,
    scale: str | None = None,
    *,
    baseline: bool = True,
    callbacks: Iterable[object] = (),
) -> FitResult:
    """Scale and factorize a table, and fit plain NMF as a baseline if `baseline`.

    Labels are handed to models that learn from them, and only shown otherwise.
    """
    scale = scale or default_scale(table)
    labels = labels_of(table) if getattr(model, "label_weight", 0) > 0 else None
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
    plain = fit_baseline(model, here) if baseline else False
    pipeline = Pipeline([("scale", step), ("factors", model)])
    pipeline.table_features_ = [str(name) for name in table.features]
    return FitResult(pipeline, here, codes, fit_facts(model, here, codes, plain), plain, scale, seconds)


def select_table(table: Table, parameters: Mapping[str, Any], scale: str | None = None) -> tuple[DSPNMFCV, str]:
    """A fitted `DSPNMFCV`, with the labels if the table has some; and how the table was scaled."""
    scale = scale or default_scale(table)
    check_values(table, missing=False, scale=scale, can_mask=False)
    here = scaled(table, scaler(scale, table).fit(table.X))
    return DSPNMFCV(**parameters).fit(here.X, labels_of(table)), scale
