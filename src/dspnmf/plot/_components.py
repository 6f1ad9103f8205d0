"""Components as pictures, curves or lists of features, and how alike they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dspnmf._typing import Array
from dspnmf.metrics import component_correlation
from dspnmf.plot import _look

KINDS = ("auto", "images", "lines", "bars")
_FEW = 30  # features that have names of their own in a picture; more are a curve
_WRITTEN = 12  # components up to which cosines are written as numbers too


def components(
    model: Any,
    kind: str = "auto",
    *,
    shape: tuple[int, int] | None = None,
    names: Any = None,
    n: int | None = None,
    top: int = 8,
    ax: Any = None,
) -> Any:
    """Components as images, as lines over the features, or as bars of their strongest features.

    Parameters
    ----------
    model : estimator
        A fitted model with components, or a pipeline that ends in one.
    kind : {"auto", "images", "lines", "bars"}, default="auto"
        "auto": images where a `shape` is given; bars where features have names that are words (`names`, or those of the
        data frame the model was fitted on) or are at most 30; lines otherwise.
    shape : (height, width), optional
        Of the images that samples are.
    names : sequence, optional
        One for each feature: words, or the numbers they are measured at (wavelengths), which become the axis of lines.
    n : int, optional
        Draw the first n components; by default all.
    top : int, default=8
        Bars for so many features of each component, the strongest first.
    ax : array of matplotlib.axes.Axes, optional
        Where to draw, one for each component; by default a new figure. Lines may share one: pass a single Axes.

    Returns
    -------
    ax : ndarray of Axes
        One for each component; the single Axes where one was passed.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF, plot
    >>> model = DSPNMF(10, random_state=0).fit(load_digits().data / 16)
    >>> plot.components(model, shape=(8, 8)).shape
    (10,)
    """
    V = _look.components_of(model)
    names = getattr(_look.last(model), "feature_names_in_", None) if names is None else np.asarray(names)
    _check(V, kind, shape, names, n, top)
    kind, V = _kind(V, shape, names) if kind == "auto" else kind, V[:n]
    if kind == "images":
        assert shape is not None
        return _images(V, shape, ax)
    return _lines(V, names, ax) if kind == "lines" else _bars(V, names, top, ax)


def correlation(model: Any, *, ax: Axes | None = None) -> Axes:
    """Cosines between components as a heat map: 0 where two share no feature, 1 where they are alike.

    The better codes keep the similarities of the samples (at a good fit), the closer components are to orthogonal:
    Theorem 2 of the paper.

    Parameters
    ----------
    model : estimator
        A fitted model with components, or a pipeline that ends in one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF, plot
    >>> model = DSPNMF(5, random_state=0).fit(load_digits().data / 16)
    >>> plot.correlation(model).get_xlabel()
    'component'
    """
    V = _look.components_of(model)
    length = np.linalg.norm(V, axis=1, keepdims=True)
    unit = np.divide(V, length, out=np.zeros_like(V), where=length > 0)
    cosines, signed = unit @ unit.T, bool(V.min() < 0)
    ax = _look.one(ax)
    image = ax.imshow(cosines, cmap="RdBu_r" if signed else "Blues", vmin=-1 if signed else 0, vmax=1)
    ax.figure.colorbar(image, ax=ax, label="cosine")
    ax.set(xlabel="component", ylabel="component", title=f"mean cosine {component_correlation(V):.2f}")
    if len(V) <= _WRITTEN:
        ax.set(xticks=range(len(V)), yticks=range(len(V)))
        for (i, j), value in np.ndenumerate(cosines):
            shade = "white" if abs(value) > 0.6 else "black"
            ax.text(j, i, f"{value:.2f}".replace("0.", "."), ha="center", va="center", color=shade, fontsize=8)
    return ax


def _kind(V: Array, shape: Any, names: Any) -> str:
    """What fits the data."""
    if shape is not None:
        return "images"
    words = names is not None and names.dtype.kind not in "iuf"
    return "bars" if words or V.shape[1] <= _FEW else "lines"


def _check(V: Array, kind: str, shape: Any, names: Any, n: Any, top: int) -> None:
    """Everything that can be wrong, before anything is drawn."""
    m = V.shape[1]
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} cannot be drawn: it must be one of {', '.join(map(repr, KINDS))}.")
    if kind == "images" and shape is None:
        raise ValueError('kind="images" needs the shape of a picture: pass shape=(height, width).')
    if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != m):
        raise ValueError(
            f"shape={shape!r} does not have the {m} features of the model: pass (height, width) that does."
        )
    if names is not None and names.shape != (m,):
        raise ValueError(f"names has shape {names.shape}, but the model has {m} features: pass one name for each.")
    for name, value in (("n", n), ("top", top)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value!r} leaves nothing to draw: it must be at least 1.")


def _images(V: Array, shape: tuple[int, int], ax: Any) -> Any:
    """One picture for each component, each in its own range."""
    height = min(max(1.4 * shape[0] / shape[1], 0.5), 4.0)
    grid = _look.several(ax, len(V), 5, (1.4, height + 0.3))
    for number, (part, row) in enumerate(zip(grid, V, strict=True)):
        reach = float(np.abs(row).max()) or 1.0
        low, shades = (-reach, "RdBu_r") if row.min() < 0 else (0.0, "gray_r")
        part.imshow(row.reshape(shape), cmap=shades, vmin=low, vmax=reach)
        part.set(xticks=[], yticks=[])
        part.set_title(f"component {number}", fontsize=9)
    return grid


def _lines(V: Array, names: Any, ax: Any) -> Any:
    """A line for each component, each on its own Axes with the same limits, or all on the one given."""
    x = names if names is not None and names.dtype.kind in "iuf" else np.arange(V.shape[1])
    together, columns = isinstance(ax, Axes), 1 if len(V) <= 6 else 2
    grid = [_look.one(ax)] * len(V) if together else _look.several(ax, len(V), columns, (6.4 / columns, 1.25))
    for number, (part, row) in enumerate(zip(grid, V, strict=True)):
        look = number if together else 0
        part.plot(x, row, color=_look.colour(look), linestyle=_look.dash(look), linewidth=1.2, label=str(number))
        part.set(xlabel="feature", ylabel="weight")
        part.margins(x=0.01)
        if not together:
            _look.one(part).set_ylim(1.05 * min(float(V.min()), 0.0), 1.05 * (float(V.max()) or 1.0))
            part.set_title(f"component {number}", fontsize=9, loc="left")
            if ax is None and number + columns < len(V):
                part.set_xlabel("")
                part.tick_params(labelbottom=False)
    if together:
        _look.legend_beside(ax, len(V), "component")
    return ax if together else grid


def _bars(V: Array, names: Any, top: int, ax: Any) -> Any:
    """The strongest features of each component, the strongest on top."""
    words = [str(name) for name in (range(V.shape[1]) if names is None else names)]
    top, width = min(top, V.shape[1]), 2.4 + 0.07 * max(map(len, words))
    columns = 3
    grid = _look.several(ax, len(V), columns, (width, 0.24 * top + 0.9))
    for number, (part, row) in enumerate(zip(grid, V, strict=True)):
        strongest = np.argsort(-np.abs(row), kind="stable")[:top]
        _look.one(part).barh(range(top), row[strongest], color=_look.colour(0), height=0.7)
        part.set_yticks(range(top), [words[feature] for feature in strongest])
        part.invert_yaxis()
        part.set(xlabel="weight", ylabel="feature" if ax is not None or number % columns == 0 else "")
        part.set_title(f"component {number}", fontsize=10, loc="left")
    return grid
