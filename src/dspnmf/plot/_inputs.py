"""What users pass to the plots, as NumPy arrays and fitted models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dspnmf._typing import Array, ArrayLike
from dspnmf.backends.memory import on_host

_ABSENT = {
    "components_": "components to draw: use a method that learns some, as DSPNMF",
    "objective_history_": "history to draw: it is not fitted by iterations",
}


def as_numpy(values: ArrayLike) -> NDArray[Any]:
    """A NumPy array of a list, a data frame, a tensor, or an array of CuPy or Dask."""
    return on_host(values) if type(values).__module__.split(".")[0] in ("torch", "cupy") else np.asarray(values)


def as_floats(values: ArrayLike) -> Array:
    """The same as float64."""
    return as_numpy(values).astype(np.float64)


def fitted(model: BaseEstimator) -> BaseEstimator:
    """The model, or the last step of a pipeline, if it is fitted."""
    model = model[-1] if isinstance(model, Pipeline) else model
    check_is_fitted(model)
    return model


def fitted_array(model: BaseEstimator, attribute: str) -> Array:
    """An array that a fitted model has learned, as float64."""
    model = fitted(model)
    if not hasattr(model, attribute):
        raise ValueError(f"{type(model).__name__} has no {_ABSENT[attribute]}.")
    return as_floats(getattr(model, attribute))
