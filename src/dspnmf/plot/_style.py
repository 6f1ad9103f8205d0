"""Colours, markers, Axes and legends of all plots; the colours are safe for the colour-blind (Okabe & Ito 2008)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

AxesArray: TypeAlias = NDArray[np.object_]  # of matplotlib.axes.Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "^", "x", "+")  # the next one when the colours are used up; triangles are hollow
DASHES = ("-", "--", ":", "-.")
STYLES = len(COLOURS) * len(MARKERS)  # that can be distinguished
GREY = "#767676"


def colour(series: int) -> str:
    """Colour of a series of data, by its number."""
    return COLOURS[series % len(COLOURS)]


def line(series: int) -> dict[str, Any]:
    """Colour and dashes of the line of a series."""
    return {"color": colour(series), "linestyle": DASHES[series // len(COLOURS) % len(DASHES)]}


def point(series: int) -> dict[str, Any]:
    """Colour and marker of the points of a series in a scatter plot."""
    shape = MARKERS[series // len(COLOURS) % len(MARKERS)]
    if shape == "o":
        return {"marker": shape, "color": colour(series), "linewidths": 0}
    hollow = {"facecolors": "none", "edgecolors": colour(series)} if shape == "^" else {"color": colour(series)}
    return {"marker": shape, "linewidths": 1, **hollow}


def one_axes(ax: Axes | None) -> Axes:
    """The Axes passed, or those of a new figure, without the lines at the top and on the right."""
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    if not isinstance(ax, Axes):
        raise TypeError(f"ax={ax!r} is not an Axes: pass one of Matplotlib's, or None for a new figure.")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def several_axes(ax: Axes | AxesArray | None, count: int, columns: int, size: tuple[float, float]) -> AxesArray:
    """An array of `count` Axes: the first of those passed, or those of a new figure, each of this size in inches."""
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


def legend_on_the_right(ax: Axes, count: int, title: str | None = None) -> None:
    """Add a legend of `count` entries to the right of the plot, in columns of at most 14."""
    columns = -(-count // 14)
    ax.legend(title=title, frameon=False, handletextpad=0.4, alignment="left", loc="upper left", bbox_to_anchor=(1, 1),
              ncols=columns)  # fmt: skip
