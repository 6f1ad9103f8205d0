"""How a table is scaled: what suits its features, the step that does it, and components in the data's own unit.

Features of one unit (bands of spectra, counts, pixels) are divided by one number, so that small ones stay small;
features that may have different units each become [0, 1].
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer

from dspnmf._option_words import option
from dspnmf._validation import ParameterError
from dspnmf.io import Table
from dspnmf.preprocessing import CommonScaler
from dspnmf.report.fit_measurements import FloatArray, stored

WORDS = {
    "minmax": "each feature to [0, 1]",
    "max": "each feature by its largest value",
    "common": "all features by one number, the largest value",
    "l2": "each sample to unit length",
    "none": "not at all",
}
NOISE = 0.05  # of the largest value: negative values up to that size are noise around 0
_ALIKE = 10.0  # ratio of the largest values of features that have no names, up to which they count as one unit
_ZEROS, _COUNTED = 0.2, 50  # share of zeros, or features, from which whole numbers are counts
_NAMES = 8  # numbers from which names are an axis
_CHANNELS = ("pixel", "pix", "px", "band", "channel", "ch")
_NUMBERED = re.compile(r"(\D*?)[\s_]*(-?\d+(?:[.,]\d+)?)(\D*)")
_UNIT = re.compile(r".*[\[(]([^\])]+)[\])]\s*")

_SPARSE = f"{option('scale', 'minmax')} would fill the zeros of sparse data: use {option('scale', 'common')}."
_EMPTY_CELLS = f"{option('scale', 'l2')} needs every cell, but cells are missing: use {option('scale', 'minmax')}."


def suitable_scale(table: Table) -> tuple[str, str]:
    """The scaling where none is asked for, and why."""
    if table.in_file:
        return "none", "the data stay in their file"
    low = float(np.nanmin(stored(table.X), initial=0.0))
    high = float(np.nanmax(stored(table.X), initial=0.0))
    one_unit = "the data are sparse" if sparse.issparse(table.X) else _one_unit(table)
    if not one_unit:
        return "minmax", "their units may differ"
    if is_noise(low, high) or sparse.issparse(table.X):
        return "common", one_unit
    return "minmax", "some values are negative"


def is_noise(low: float, high: float) -> bool:
    """Whether negative values are so small that they count as 0."""
    return low >= -NOISE * high


def _one_unit(table: Table) -> str:
    """Why the features of a dense table have one unit; "" where they may have several."""
    if table.picture is not None:
        return "they are pixels"
    if table.grid is not None:
        return "they are bands of a scene"
    names = [str(name) for name in table.features]
    units = list(table.units) or [found[1] if (found := _UNIT.fullmatch(name)) else "" for name in names]
    if any(units):
        return f"all have the unit {units[0]}" if len(set(units)) == 1 and len(units) > 1 else ""
    if axis := _axis(names):
        return axis
    X = table.X
    whole = np.isnan(X) | ((X >= 0) & (np.floor(X) == X))
    if whole.all() and ((X == 0).mean() >= _ZEROS or X.shape[1] >= _COUNTED):
        return "they are whole numbers, as counts are"
    if names == [f"x{at}" for at in range(len(names))]:
        largest = np.where(np.isnan(X), 0.0, np.abs(X)).max(axis=0, initial=0.0)
        largest = largest[largest > 0]
        if largest.size and largest.max() <= _ALIKE * largest.min():
            return "they have no names and are of similar size"
    return ""


def _axis(names: list[str]) -> str:
    """Whether the names are numbers along an axis, such as wave lengths, or numbered pixels and bands."""
    found = [_NUMBERED.fullmatch(name.strip()) for name in names]
    parts = [(one[1].strip().lower(), one[3].strip().lower()) for one in found if one]
    if len(parts) < max(len(names), _NAMES) or len(set(parts)) > 1:
        return ""
    if parts[0][0].rstrip("_") in _CHANNELS:
        return f"they are numbered as {parts[0][0].rstrip('_')}s"
    values = [float(one[2].replace(",", ".")) for one in found if one]
    rising = all(low < high for low, high in pairwise(values)) or all(low > high for low, high in pairwise(values))
    counted = values == [values[0] + at for at in range(len(values))] and values[0] in (0, 1)
    return "their names are numbers along an axis" if rising and not counted else ""


def scaler(scale: str, table: Table) -> BaseEstimator:
    """The unfitted step that scales; values of new rows beyond those of the fit are cut off at 0 and 1 by "minmax"."""
    X = table.X
    if table.in_file:
        if scale != "none":
            what = f"The data are read from their file piece by piece, and {option('scale', scale)} would load them"
            raise ParameterError(f"{what}: use {option('scale', 'none')}.", "scale")
        return FunctionTransformer(accept_sparse=True)
    if scale == "minmax":
        if sparse.issparse(X):
            raise ParameterError(_SPARSE, "scale")
        return MinMaxScaler(clip=True)
    if scale == "l2" and np.isnan(stored(X)).any():
        raise ParameterError(_EMPTY_CELLS, "scale")
    return {
        "max": MaxAbsScaler(),
        "common": CommonScaler(clip=True),
        "l2": Normalizer(),
        "none": CommonScaler(1.0),
    }[scale]


def fitted_scaler(scale: str, table: Table) -> BaseEstimator:
    """The step, fitted; it knows the names of the features, so that a data frame in another order is refused."""
    step = scaler(scale, table).fit(table.X)
    if not table.in_file:
        step.feature_names_in_ = np.array([str(name) for name in table.features])
    return step


def in_units_of_data(step: BaseEstimator, V: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Components in the unit of the data; and what a fit leaves out of them, the least value of each feature."""
    if isinstance(step, MinMaxScaler):
        return V / step.scale_, step.data_min_ if step.data_min_.any() else None
    if isinstance(step, MaxAbsScaler | CommonScaler):
        return V * step.scale_, None
    return V, None
