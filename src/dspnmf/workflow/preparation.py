"""Tables made ready for a model: allowed values, scaling, labels, features by name.

Scaling is the first step of the saved pipeline, so that a model takes data as they are in the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer

from dspnmf._validation import ParameterError
from dspnmf.io import Table

_SPARSE = 'scale="minmax" would fill the zeros of sparse data: use "max" (divide by the largest value of a feature).'
_EMPTY_CELLS = 'scale="l2" (rows of unit length) needs every cell, but cells are missing: use "minmax" or "max".'
_LARGE = 'The data are read from their file piece by piece, and scale="{scale}" would load them: use scale="none".'

Labels: TypeAlias = "NDArray[np.str_] | NDArray[np.number] | None"


def default_scale(table: Table) -> str:
    """The scaling where none is asked for: "minmax", but "max" for sparse data and "none" for large files."""
    if table.in_file:
        return "none"
    return "max" if sparse.issparse(table.X) else "minmax"


def scaler(scale: str, table: Table) -> BaseEstimator:
    """The unfitted step that scales; values of new rows beyond those of the fit are cut off at 0 and 1 by "minmax"."""
    X = table.X
    if table.in_file and scale != "none":
        raise ParameterError(_LARGE.format(scale=scale), "scale")
    if scale == "minmax":
        if sparse.issparse(X):
            raise ParameterError(_SPARSE, "scale")
        return MinMaxScaler(clip=True)
    if scale == "l2" and np.isnan(X.data if sparse.issparse(X) else X).any():
        raise ParameterError(_EMPTY_CELLS, "scale")
    return {"max": MaxAbsScaler(), "l2": Normalizer(), "none": FunctionTransformer(accept_sparse=True)}[scale]


def scaled(table: Table, step: BaseEstimator) -> Table:
    """The table after a fitted step."""
    return replace(table, X=step.transform(table.X))


def check_values(table: Table, *, missing: bool, scale: str, can_mask: bool = True) -> None:
    """Refuse infinity, negative values where scaling keeps the sign, and empty cells unless `missing`."""
    if table.in_file:
        return  # too large to be read twice: the fit checks
    values = table.X.data if sparse.issparse(table.X) else table.X
    if values.size == 0:
        return
    low, high = float(np.min(values)), float(np.max(values))
    if np.isfinite(low) and np.isfinite(high) and (low >= 0 or scale == "minmax"):
        return
    fill = 'fill it, or use missing="mask"' if can_mask else "fill it, or leave the sample or the feature out"
    for is_bad, words, parameter in (
        (np.isinf, "is not finite: correct the cell", ""),
        (lambda v: np.isnan(v) & (not missing), f"is empty: {fill}", "missing" if can_mask else ""),
        (lambda v: (v < 0) & (scale != "minmax"), 'is negative: use scale="minmax", or shift the feature', "scale"),
    ):
        if is_bad(values).any():
            cells = sparse.coo_array(table.X)
            first = np.flatnonzero(is_bad(cells.data))[0]
            where = f"sample {table.index[cells.row[first]]!s}, feature {table.features[cells.col[first]]!s}"
            raise ParameterError(f"The value {cells.data[first]:g} of {where} {words}.", parameter)
    if missing and not sparse.issparse(table.X):
        empty = np.isnan(table.X).all(axis=0)
        if empty.any():
            name = table.features[int(np.flatnonzero(empty)[0])]
            raise ParameterError(f"Feature {name!s} has no value at all: exclude it.", "exclude")


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
    return replace(table, X=table.X[:, columns], features=np.asarray(features))
