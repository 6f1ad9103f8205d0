"""Fitted models: the objective over the iterations; components, how similar they are, and how stable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dspnmf._typing import Array, ArrayLike
from dspnmf.metrics import component_correlation, component_cosines
from dspnmf.plot import _inputs, _style

_WIDE = 10  # from this ratio of the largest to the smallest value on, the axis is logarithmic
_KINDS = ("auto", "images", "lines", "bars")
_FEW_FEATURES = 30  # drawn as bars; more are lines
_FEW_COMPONENTS = 12  # whose cosines are also written as numbers
_LETTERS = 40  # of names that have room below the bars
_ROUNDING = 1e-9  # that a cosine may be above 1


def convergence(
    models: BaseEstimator | Mapping[str, BaseEstimator], *, relative: bool = False, ax: Axes | None = None
) -> Axes:
    """Plot the objective at the start and after every iteration.

    The axis is logarithmic where values differ by more than a factor of ten.

    Parameters
    ----------
    models : estimator or dict of str to estimator
        A fitted model, or several with their names in the legend.
    relative : bool, default=False
        Divide by the objective at the start, to compare models with different objectives.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF, plot
    >>> X = load_digits().data / 16
    >>> solvers = {name: DSPNMF(5, solver=name, max_iter=20, tol=0, random_state=0) for name in ("newton-cg", "hals")}
    >>> ax = plot.convergence({name: model.fit(X) for name, model in solvers.items()})
    >>> ax.get_ylabel()
    'objective (log scale)'
    """
    named = dict(models) if isinstance(models, Mapping) else {"": models}
    if not named:
        raise ValueError("models={} is empty: pass at least one fitted model.")
    histories = {str(name): _inputs.fitted_array(model, "objective_history_") for name, model in named.items()}
    if relative:
        histories = {name: history / (history[0] or 1.0) for name, history in histories.items()}
    ax = _style.one_axes(ax)
    for number, (name, history) in enumerate(histories.items()):
        ax.plot(history, label=name, **_style.line(number))
    values = np.concatenate(list(histories.values()))
    logarithmic = bool(values.min() > 0 and values.max() > _WIDE * values.min())
    ax.set_yscale("log" if logarithmic else "linear")
    quantity = "objective / objective at the start" if relative else "objective"
    ax.set(xlabel="iteration", ylabel=quantity + (" (log scale)" if logarithmic else ""))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if isinstance(models, Mapping):
        _style.legend_on_the_right(ax, len(histories))
    return ax


def components(
    model: BaseEstimator,
    kind: str = "auto",
    *,
    shape: tuple[int, int] | None = None,
    names: Sequence[object] | NDArray[Any] | None = None,
    n: int | None = None,
    top: int = 8,
    ax: Axes | _style.AxesArray | None = None,
) -> Any:
    """Plot components as images, as lines over the features, or as bars of their strongest features.

    Parameters
    ----------
    model : estimator
        A fitted model with components, or a pipeline that ends in one.
    kind : {"auto", "images", "lines", "bars"}, default="auto"
        "auto": images if `shape` is given; bars if features have words as names (`names`, or the columns of the data
        frame the model was fitted on) or if there are at most 30; lines otherwise.
    shape : (height, width), optional
        Shape of the images, where samples are images.
    names : sequence, optional
        One for each feature: words, or numbers such as wavelengths, which become the horizontal axis of lines.
    n : int, optional
        Draw the first n components; by default all.
    top : int, default=8
        Number of bars for each component, the strongest feature first.
    ax : array of matplotlib.axes.Axes, optional
        Where to draw, one for each component; by default a new figure. Pass a single Axes to draw all lines on it.

    Returns
    -------
    ax : ndarray of Axes
        One for each component; the single Axes if one was passed.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF, plot
    >>> model = DSPNMF(10, random_state=0).fit(load_digits().data / 16)
    >>> plot.components(model, shape=(8, 8)).shape
    (10,)
    """
    V = _inputs.fitted_array(model, "components_")
    names = getattr(_inputs.fitted(model), "feature_names_in_", None) if names is None else np.asarray(names)
    _check_options(V, kind, shape, names, n, top)
    if kind == "images" or (kind == "auto" and shape is not None):
        assert shape is not None
        return _plot_images(V[:n], shape, ax)
    words = names is not None and names.dtype.kind not in "iuf"
    if kind == "bars" or (kind == "auto" and (words or V.shape[1] <= _FEW_FEATURES)):
        return _plot_bars(V[:n], names, top, ax)
    return _plot_lines(V[:n], np.arange(V.shape[1]) if words or names is None else names, ax)


def correlation(model: BaseEstimator, *, ax: Axes | None = None) -> Axes:
    """Plot the cosines between components as a heat map: 0 if two share no feature, 1 if they are proportional.

    The better codes keep the similarities of the samples (at a good fit), the closer components are to orthogonal:
    Theorem 2 of the paper.

    Parameters
    ----------
    model : estimator
        A fitted model with components, or a pipeline that ends in one.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF, plot
    >>> model = DSPNMF(5, random_state=0).fit(load_digits().data / 16)
    >>> plot.correlation(model).get_xlabel()
    'component'
    """
    V = _inputs.fitted_array(model, "components_")
    cosines, signed = component_cosines(V), bool(V.min() < 0)
    ax = _style.one_axes(ax)
    image = ax.imshow(cosines, cmap="RdBu_r" if signed else "Blues", vmin=-1 if signed else 0, vmax=1)
    ax.figure.colorbar(image, ax=ax, label="cosine")
    ax.set(xlabel="component", ylabel="component", title=f"mean cosine {component_correlation(V):.2f}")
    if len(V) <= _FEW_COMPONENTS:
        ax.set(xticks=range(len(V)), yticks=range(len(V)))
        for (i, j), value in np.ndenumerate(cosines):
            shade = "white" if abs(value) > 0.6 else "black"
            ax.text(j, i, f"{value:.2f}".replace("0.", "."), ha="center", va="center", color=shade, fontsize=8)
    return ax


def stability(
    scores: ArrayLike | BaseEstimator, *, names: Sequence[object] | NDArray[Any] | None = None, ax: Axes | None = None
) -> Axes:
    """Plot how stable each component is, as bars from 0 to 1.

    Parameters
    ----------
    scores : array-like of shape (n_components,), or estimator
        One number for each component, from 0 (different in every fit) to 1 (the same in all); or a fitted model that
        has them as ``stability_``.
    names : sequence of str, optional
        Names of the components; by default their numbers.

    Examples
    --------
    >>> from dspnmf import plot
    >>> plot.stability([0.99, 0.95, 0.4]).get_title()
    'mean stability 0.78'
    """
    if hasattr(scores, "stability_") and scores.stability_ is None:
        raise ValueError(
            f"{type(scores).__name__} was fitted from one start, which says nothing about other starts: set n_init=5."
        )
    scores = _inputs.as_floats(getattr(scores, "stability_", scores))
    if scores.ndim != 1 or not len(scores) or not (np.abs(scores - 0.5) <= 0.5 + _ROUNDING).all():
        raise ValueError(f"scores={scores!r} must be one number from 0 to 1 for each component.")
    if names is not None and len(names) != len(scores):
        raise ValueError(f"names has {len(names)} entries, but there are {len(scores)} scores: pass one for each.")
    ax = _style.one_axes(ax)
    ax.bar(range(len(scores)), scores, color=_style.colour(0), width=0.7)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if names is not None:
        words = [str(name) for name in names]
        turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if sum(map(len, words)) > _LETTERS else {}
        ax.set_xticks(range(len(scores)), words, **turned)
    ax.set(ylim=(0, 1), xlabel="component", ylabel="stability (0 to 1)", title=f"mean stability {scores.mean():.2f}")
    return ax


def _check_options(
    V: Array, kind: str, shape: tuple[int, int] | None, names: NDArray[Any] | None, n: int | None, top: int
) -> None:
    """Check every option of `components` before anything is drawn."""
    m = V.shape[1]
    if kind not in _KINDS:
        raise ValueError(f"kind={kind!r} cannot be drawn: it must be one of {', '.join(map(repr, _KINDS))}.")
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


def _plot_images(V: Array, shape: tuple[int, int], ax: Axes | _style.AxesArray | None) -> _style.AxesArray:
    """Draw one image for each component, each with its own range of values."""
    height = min(max(1.4 * shape[0] / shape[1], 0.5), 4.0)
    axes = _style.several_axes(ax, len(V), 5, (1.4, height + 0.3))
    for number, (part, row) in enumerate(zip(axes, V, strict=True)):
        largest = float(np.abs(row).max()) or 1.0
        low, shades = (-largest, "RdBu_r") if row.min() < 0 else (0.0, "Blues")
        part.imshow(row.reshape(shape), cmap=shades, vmin=low, vmax=largest)
        part.set(xticks=[], yticks=[])
        part.set_title(f"component {number}", fontsize=9)
    return axes


def _plot_lines(V: Array, x: NDArray[Any], ax: Axes | _style.AxesArray | None) -> Axes | _style.AxesArray:
    """Draw a line for each component: all on the single Axes passed, or each on its own with the same limits."""
    if isinstance(ax, Axes):
        for number, row in enumerate(V):
            ax.plot(x, row, linewidth=1.2, label=str(number), **_style.line(number))
        _style.one_axes(ax).set(xlabel="feature", ylabel="weight")
        ax.margins(x=0.01)
        _style.legend_on_the_right(ax, len(V), "component")
        return ax
    columns = 1 if len(V) <= 6 else 2
    axes = _style.several_axes(ax, len(V), columns, (6.4 / columns, 1.25))
    for number, (part, row) in enumerate(zip(axes, V, strict=True)):
        _style.one_axes(part).plot(x, row, color=_style.colour(0), linewidth=1.2, label=str(number))
        part.set(xlabel="feature", ylabel="weight", ylim=(1.05 * min(V.min(), 0.0), 1.05 * (V.max() or 1.0)))
        part.margins(x=0.01)
        part.set_title(f"component {number}", fontsize=9, loc="left")
        if ax is None and number + columns < len(V):
            part.set_xlabel("")
            part.tick_params(labelbottom=False)
    return axes


def _plot_bars(V: Array, names: NDArray[Any] | None, top: int, ax: Axes | _style.AxesArray | None) -> _style.AxesArray:
    """Draw the strongest features of each component as bars, the strongest on top."""
    words = [str(name) for name in (range(V.shape[1]) if names is None else names)]
    top, columns = min(top, V.shape[1]), 3
    axes = _style.several_axes(ax, len(V), columns, (2.4 + 0.07 * max(map(len, words)), 0.24 * top + 0.9))
    for number, (part, row) in enumerate(zip(axes, V, strict=True)):
        strongest = np.argsort(-np.abs(row), kind="stable")[:top]
        _style.one_axes(part).barh(range(top), row[strongest], color=_style.colour(0), height=0.7)
        part.set_yticks(range(top), [words[feature] for feature in strongest])
        part.invert_yaxis()
        part.set(xlabel="weight", ylabel="feature" if ax is not None or number % columns == 0 else "")
        part.set_title(f"component {number}", fontsize=10, loc="left")
    return axes
