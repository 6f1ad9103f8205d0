"""Tables made ready for a model: allowed values, missing cells, labels, features by name.

Scaling is the first step of the saved pipeline, so that a model takes data as they are in the file.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf._option_words import option
from dspnmf._validation import ParameterError
from dspnmf.io import Table, read
from dspnmf.report.fit_measurements import stored
from dspnmf.workflow.scaling import is_noise

Labels: TypeAlias = "NDArray[np.str_] | NDArray[np.number] | None"


def scaled(table: Table, step: BaseEstimator) -> Table:
    """The table after a fitted step; its columns are known to be those of the fit."""
    return replace(table, X=without_names(step.transform, table.X))


def without_names(function: Any, X: Any) -> Any:
    """What a step or pipeline with names of features makes of an array whose columns were matched by name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        return function(X)


def mask_missing(table: Table, model: BaseEstimator) -> int:
    """Have a model take missing cells for what they are, if it can; how many there are."""
    if table.in_file or not (count := int(np.isnan(stored(table.X)).sum())):
        return 0
    if "missing" not in model.get_params(deep=False):
        return 0
    model.set_params(missing="mask")
    return count


def check_new_values(table: Table, pipeline: Any) -> None:
    """Refuse values that a fitted pipeline cannot take: `check_values` for new rows."""
    last = getattr(pipeline[-1], "estimator_", pipeline[-1])  # of a consensus, what its runs are of
    masks = getattr(last, "missing", "error") == "mask"
    clips = bool(getattr(pipeline[0], "clip", False))
    check_values(table, missing=masks, scale="minmax" if clips else "none", can_mask=False, fitted=True)


def check_values(table: Table, *, missing: bool, scale: str, can_mask: bool = True, fitted: bool = False) -> None:
    """Refuse infinity, negative values where scaling keeps the sign, and empty cells unless `missing`."""
    if table.in_file:
        return  # too large to be read twice: the fit checks
    values = stored(table.X)
    if values.size == 0:
        return
    low, high = float(np.min(values)), float(np.max(values))
    if np.isfinite(low) and np.isfinite(high) and (low >= 0 or scale == "minmax"):
        return
    low, high = float(np.nanmin(values, initial=0.0)), float(np.nanmax(values, initial=0.0))
    signed = scale == "minmax" or (scale == "common" and is_noise(low, high))
    again = "correct it, fit again with" if fitted else "use"
    mask = f"use {option('missing', 'mask')}" if can_mask else "leave the sample or the feature out"
    in_text = table.lines is not None and high == np.inf
    gap = f", or use {option('na', 'inf')} if it means that the value is missing" * in_text
    for is_bad, words, parameter in (
        (np.isinf, f"is infinite: correct it{gap}", ""),
        (lambda v: np.isnan(v) & (not missing), f"is empty: fill it, or {mask}", "missing" if can_mask else ""),
        (
            lambda v: (v < 0) & (not signed),
            f"is negative: {again} {option('scale', 'minmax')}, or shift the feature",
            "scale",
        ),
    ):
        if is_bad(values).any():
            cells = sparse.coo_array(table.X)
            first = np.flatnonzero(is_bad(cells.data))[0]
            where = _place(table, int(cells.row[first]), int(cells.col[first]))
            what = f"The value {cells.data[first]:g}" if np.isfinite(cells.data[first]) else "A cell"
            raise ParameterError(f"{what} of {where} {words}.", parameter)
    if missing and not fitted and not sparse.issparse(table.X):
        empty = np.isnan(table.X).all(axis=0)
        if empty.any():
            name = str(table.features[int(np.flatnonzero(empty)[0])])
            raise ParameterError(
                f"Feature {name} has no value at all: {option('exclude', name)} leaves it out.", "exclude"
            )


def _place(table: Table, row: int, column: int) -> str:
    """Where a value is: in which line of the file, in words its owner knows."""
    line = "" if table.lines is None else f" (line {table.lines[row]})"
    return f"sample {table.index[row]!s}{line}, feature {table.features[column]!s}"


def labels_of(table: Table) -> Labels:
    """Labels as the methods take them: -1 where a sample has none, that is where the cell is empty."""
    labels = table.labels
    if labels is None:
        return None
    empty = np.isnan(labels) if labels.dtype.kind == "f" else np.array([str(label) == "" for label in labels])
    named = labels if labels.dtype.kind in "fiub" else np.asarray([str(label) for label in labels])
    if (named[~empty].astype(str) == "-1").any() or (labels.dtype.kind == "f" and (labels[~empty] == -1).any()):
        raise ValueError(
            f"Labels of -1 in {table.label!r} mean that a sample has none: give that class another name, or leave the "
            "cells empty if it is none."
        )
    if empty.all():
        raise ValueError(f"The column of labels {table.label!r} is empty: name another one.")
    return np.where(empty, -1 if labels.dtype.kind in "fiub" else "-1", named)


def read_matched(path: Path, features: list[str], options: Mapping[str, Any]) -> Table:
    """The table in a file with the features of a model; those that look like row numbers there are features, too."""
    table = read(path, **options)
    absent = set(features) - {str(name) for name in table.features}
    hidden = absent & (table.left_out.keys() | {table.index_name})
    if hidden:
        table = read(path, **{**options, "include": (*options.get("include", ()), *sorted(hidden))})
    return matched(table, features)


def matched(table: Table, features: list[str]) -> Table:
    """The table with the features of a model, in its order; further columns are left out."""
    names = [str(name) for name in table.features]
    if names == features:
        return table
    number = {name: i for i, name in enumerate(names)}
    absent = [name for name in features if name not in number]
    if absent:
        shown = ", ".join(map(repr, absent[:5])) + (f", ... ({len(absent)} in all)" if len(absent) > 5 else "")
        raise ValueError(
            f"The model was fitted on {len(features)} features, of which these are not in the data: {shown}. "
            f"The data have {len(names)} features. Name the columns as in the fit."
        )
    columns = [number[name] for name in features]
    return replace(table, X=table.X[:, columns], features=np.asarray(features), units=())
