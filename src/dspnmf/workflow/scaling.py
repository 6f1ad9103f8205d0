"""Scaling as the first step of a pipeline, so that a saved model takes data as they are in the file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer

from dspnmf.io import Table

SCALES = ("minmax", "max", "l2", "none")
_SPARSE = 'Scaling "minmax" would fill the zeros of sparse data: use "max" (divide by the largest value of a feature).'
_EMPTY_CELLS = 'Scaling "l2" (rows of unit length) needs every cell, but cells are missing: use "minmax" or "max".'
_LARGE = "The data are read from their file piece by piece, and scaling {scale!r} would load them: use scaling 'none'."


def default_scale(table: Table) -> str:
    """Every feature to [0, 1]; but zeros of sparse data stay zeros, and large files stay in their file."""
    if table.in_file:
        return "none"
    return "max" if sparse.issparse(table.X) else "minmax"


def scaler(scale: str, table: Table) -> Any:
    """The step that scales; values of new rows beyond those of the fit are cut off at 0 and 1 by "minmax"."""
    X = table.X
    if table.in_file and scale != "none":
        raise ValueError(_LARGE.format(scale=scale))
    if scale == "minmax":
        if sparse.issparse(X):
            raise ValueError(_SPARSE)
        return MinMaxScaler(clip=True)
    if scale == "l2" and np.isnan(X.data if sparse.issparse(X) else X).any():
        raise ValueError(_EMPTY_CELLS)
    return {"max": MaxAbsScaler(), "l2": Normalizer(), "none": FunctionTransformer(accept_sparse=True)}[scale]


def scaled(table: Table, step: Any) -> Table:
    """The table after a fitted step."""
    return replace(table, X=step.transform(table.X))
