"""The objective over the iterations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from sklearn.base import BaseEstimator

from dspnmf._typing import Array
from dspnmf.plot import _inputs, _style

_WIDE = 10  # from this ratio of the largest to the smallest value on, the axis is logarithmic


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
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

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
    histories = {str(name): _history(model) for name, model in named.items()}
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


def _history(model: BaseEstimator) -> Array:
    """The objective of a fitted model at the start and after every iteration."""
    model = _inputs.fitted(model)
    if not hasattr(model, "objective_history_"):
        raise ValueError(f"{type(model).__name__} has no history to draw: it is not fitted by iterations.")
    return _inputs.as_floats(model.objective_history_)
