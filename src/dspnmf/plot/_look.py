"""How all pictures look: colours that the colour-blind tell apart (Okabe & Ito 2008), open axes, no decoration."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dspnmf._typing import Array
from dspnmf.backends.memory import on_host

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "^", "x", "+")  # the next one when the colours are used up; triangles are hollow
DASHES = ("-", "--", ":", "-.")
STYLES = len(COLOURS) * len(MARKERS)  # that can be told apart
GREY = "#767676"


def colour(number: int) -> str:
    """The colour of the series with this number."""
    return COLOURS[number % len(COLOURS)]


def point(number: int) -> dict[str, Any]:
    """The look of its points in a scatter plot."""
    shape = MARKERS[number // len(COLOURS) % len(MARKERS)]
    if shape == "o":
        return {"marker": shape, "color": colour(number), "linewidths": 0}
    hollow = {"facecolors": "none", "edgecolors": colour(number)} if shape == "^" else {"color": colour(number)}
    return {"marker": shape, "linewidths": 1, **hollow}


def dash(number: int) -> str:
    """Its line."""
    return DASHES[number // len(COLOURS) % len(DASHES)]


def one(ax: Any) -> Axes:
    """The Axes given, or those of a new figure; open at the top and on the right."""
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    if not isinstance(ax, Axes):
        raise TypeError(f"ax={ax!r} is no Axes: pass one of Matplotlib's, or None for a new figure.")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def several(ax: Any, count: int, columns: int, size: tuple[float, float]) -> Any:
    """`count` Axes as an array: the first of those given, or those of a new figure, each of this size in inches."""
    if ax is None:
        columns = min(columns, count)
        rows = -(-count // columns)
        figure, grid = plt.subplots(
            rows, columns, squeeze=False, layout="constrained", figsize=(columns * size[0], rows * size[1])
        )
        for unused in grid.flat[count:]:
            figure.delaxes(unused)
        return grid.flatten()[:count]
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(given) < count or not all(isinstance(part, Axes) for part in given):
        raise ValueError(f"ax has {len(given)} Axes, but {count} are drawn on: pass as many, or None for a new figure.")
    return given[:count]


def legend_beside(ax: Axes, count: int, title: str | None = None) -> None:
    """A legend of `count` entries on the right of the picture, in columns that are not too long."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1), "ncols": -(-count // 14)}
    ax.legend(title=title, frameon=False, handletextpad=0.4, alignment="left", **place)


def host(values: Any) -> Any:
    """A NumPy array of anything like one: lists, data frames, tensors, arrays of CuPy and Dask."""
    return on_host(values) if type(values).__module__.split(".")[0] in ("torch", "cupy") else np.asarray(values)


def array(values: Any) -> Array:
    """The same, of numbers."""
    return host(values).astype(np.float64)


def last(model: Any) -> Any:
    """A fitted model; the last step of a pipeline."""
    model = model[-1] if isinstance(model, Pipeline) else model
    check_is_fitted(model)
    return model


def components_of(model: Any) -> Array:
    """The components of a fitted model."""
    model = last(model)
    if not hasattr(model, "components_"):
        raise ValueError(f"{type(model).__name__} has no components to draw: use a method that learns some, as DSPNMF.")
    return array(model.components_)
