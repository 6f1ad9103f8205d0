"""A fit of a table as one pipeline, scaling and factorization, with its codes and its numbers; or a selection."""

from __future__ import annotations

import ast
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

import dspnmf.estimators as family
from dspnmf._option_words import option
from dspnmf._validation import ParameterError
from dspnmf.io import Table
from dspnmf.report import fit_baseline, fit_facts
from dspnmf.report.fit_measurements import Baseline, FloatArray
from dspnmf.selection import DSPNMFCV, ConsensusNMF
from dspnmf.workflow.preparation import check_values, labels_of, scaled
from dspnmf.workflow.scaling import fitted_scaler, suitable_scale

_LONG = 5.0  # seconds of a fit whose baseline is announced
_EVERY = 30.0  # seconds between two writes of a checkpoint
_STRUCTURE = ("beta", "mu")  # what the weight of the structure is called where it is not alpha
_CLOSE = 0.7  # likeness of a name that is suggested


@dataclass(frozen=True)
class FitResult:
    """A fitted pipeline with everything that is written to its folder."""

    pipeline: Pipeline
    table: Table  # after scaling
    codes: FloatArray
    facts: dict[str, Any]
    baseline: Baseline
    scale: str
    why: str  # that scale; "" where it was asked for
    seconds: float


def methods() -> list[str]:
    """Names of the methods that give codes and components of any data."""
    base = family.ComponentFactorization
    found = {name: getattr(family, name) for name in family.__all__}
    return [name for name, cls in found.items() if isinstance(cls, type) and issubclass(cls, base) and cls is not base]


def model_of(
    method: str,
    parameters: Mapping[str, object],
    texts: Iterable[str] = (),
    defaults: Mapping[str, object] | None = None,
) -> BaseEstimator:
    """An estimator by its name, with parameters, more of them as texts ``name=value``, and defaults for the others."""
    names = {name.lower(): name for name in methods()}
    if method.lower() not in names:
        near = get_close_matches(method.lower(), names, 1, _CLOSE)
        hint = f"did you mean {names[near[0]]}?" if near else f"choose from {', '.join(methods())}."
        raise ValueError(f"There is no method {method!r}: {hint}")
    cls = getattr(family, names[method.lower()])
    allowed, given = cls().get_params(deep=False), dict(parameters)
    for name, value in map(_parsed, texts):
        if name in given:
            known = option("set", f"{name}={value}")
            raise ValueError(f"{name} is given twice, as {given[name]!r} and with {known}: leave one of them out.")
        given[name] = value
    for name in given:
        if name not in allowed:
            like = [
                other for other in allowed if not other.startswith(f"{name}_")
            ]  # alpha_W is another thing than alpha
            near = [n for n in _STRUCTURE if n in allowed and name == "alpha"] or get_close_matches(
                name, like, 1, _CLOSE
            )
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(allowed))}."
            raise ParameterError(f"{cls.__name__} has no parameter {name}: {hint}", near[0] if near else "")
    return cls(**{name: value for name, value in (defaults or {}).items() if name in allowed} | given)


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
    checkpoint: Path | None = None,
    announce: Callable[[str], None] | None = None,
    runs: int | None = None,
    ranks: Sequence[int] | None = None,
    rank: int | None = None,
) -> FitResult:
    """Scale and factorize a table, and fit plain NMF as a baseline if `baseline`.

    Labels are handed to models that learn from them, and only shown otherwise. With a `checkpoint` a fit that was
    killed goes on when it is called again; the baseline is then fitted first, as the file is removed when the fit is
    done. `announce` is called with a line before a baseline that takes long. With `runs`, that many random starts are
    made, and their consensus is the model (`ConsensusNMF`); with `ranks` at each of them, of which `rank` is fitted, or
    one that is chosen.
    """
    if runs is not None and checkpoint is not None:
        raise ValueError("A consensus of several runs keeps no checkpoint: leave one of the two out.")
    scale, why = (scale, "") if scale else suitable_scale(table)
    labels = labels_of(table) if getattr(model, "label_weight", 0) > 0 else None
    check_values(table, missing=getattr(model, "missing", "error") == "mask", scale=scale)
    step = fitted_scaler(scale, table)
    here = scaled(table, step)
    if runs is not None:
        model = ConsensusNMF(model, n_components=rank, n_runs=runs, ranks=ranks, random_state=model.random_state)
    plain: Baseline = False
    if baseline and checkpoint is not None:
        plain = fit_baseline(model, here)
    resumable = {"checkpoint_path": checkpoint, "checkpoint_every": _EVERY} if checkpoint is not None else {}
    begin = time.perf_counter()
    if callbacks:
        model.set_callbacks(*callbacks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the facts say whether it converged
        codes = model.fit_transform(here.X, labels, **resumable)
    seconds = time.perf_counter() - begin
    if callbacks:
        model.set_callbacks()
    if baseline and checkpoint is None:
        if announce is not None and seconds > _LONG:
            announce(f"Fitting plain NMF of the same rank, to compare with ({option('no_baseline')} leaves it out).")
        plain = fit_baseline(model, here)
    pipeline = Pipeline([("scale", step), ("factors", model)])
    pipeline.table_features_ = [str(name) for name in table.features]
    return FitResult(pipeline, here, codes, fit_facts(model, here, codes, plain), plain, scale, why, seconds)


def select_table(
    table: Table, parameters: Mapping[str, Any], scale: str | None = None, *, callbacks: Iterable[object] = ()
) -> tuple[DSPNMFCV, str, str]:
    """A fitted `DSPNMFCV`, with the labels if the table has some; how the table was scaled, and why."""
    scale, why = (scale, "") if scale else suitable_scale(table)
    check_values(table, missing=False, scale=scale, can_mask=False)
    here = scaled(table, fitted_scaler(scale, table))
    cv = DSPNMFCV(**parameters)
    if callbacks:
        cv.set_callbacks(*callbacks)
    return cv.fit(here.X, labels_of(table)), scale, why
