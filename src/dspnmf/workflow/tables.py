"""Tables against what a model needs: values that are allowed, features by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf.io import Table


def check_values(table: Table, *, missing: bool, scale: str, way: str = 'fill it, or use missing="mask"') -> None:
    """No infinity, no negative value where scaling keeps the sign, no empty cell unless it may be missing."""
    if table.in_file:
        return  # too large to be looked at twice: the fit looks
    values = table.X.data if sparse.issparse(table.X) else table.X
    if values.size == 0:
        return
    low, high = float(np.min(values)), float(np.max(values))
    if np.isfinite(low) and np.isfinite(high) and (low >= 0 or scale == "minmax"):
        return
    for bad, words in (
        (np.isinf(values), "is not finite: mend the cell"),
        (np.isnan(values) & (not missing), f"is empty: {way}"),
        ((values < 0) & (scale != "minmax"), 'is negative: use scaling "minmax", or shift the feature'),
    ):
        if bad.any():
            row, column, value = _first(table.X, bad)
            where = f"sample {table.index[row]!s}, feature {table.features[column]!s}"
            raise ValueError(f"The value {value:g} of {where} {words}.")
    if missing and not sparse.issparse(table.X):
        empty = np.isnan(table.X).all(axis=0)
        if empty.any():
            name = table.features[int(np.flatnonzero(empty)[0])]
            raise ValueError(f"Feature {name!s} has no value at all: leave it out (exclude it).")


def labels_of(table: Table) -> Any:
    """Labels as the methods want them: -1 where a sample has none, which is where the cell is empty."""
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


def _first(X: Any, bad: Any) -> tuple[int, int, float]:
    """Row, column and value of the first cell that is bad."""
    if sparse.issparse(X):
        coo = X.tocoo()
        where = int(np.flatnonzero(bad)[0])
        return int(coo.row[where]), int(coo.col[where]), float(coo.data[where])
    row, column = (int(part) for part in np.argwhere(bad)[0])
    return row, column, float(X[row, column])


def matched(table: Table, features: list[str]) -> Table:
    """The features of a model, in its order; further columns are left out. Tables without names go by their number."""
    names = [str(name) for name in table.features]
    if names == features:
        return table
    place = {name: i for i, name in enumerate(names)}
    absent = [name for name in features if name not in place]
    if absent:
        shown = ", ".join(map(repr, absent[:5])) + (f", ... ({len(absent)} in all)" if len(absent) > 5 else "")
        raise ValueError(
            f"The model was fitted on {len(features)} features, of which these are not in the data: {shown}. "
            f"The data have {len(names)} features. Name the columns as in the fit."
        )
    columns = [place[name] for name in features]
    return replace(table, X=table.X[:, columns], features=np.asarray(features))
