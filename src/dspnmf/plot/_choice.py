"""How rank and alpha were chosen, and how stable components are."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator
from sklearn.utils.validation import check_is_fitted

from dspnmf._typing import Array
from dspnmf.plot import _look

_LABELS = 9  # ticks that have room
_ROOM = 40  # letters that have room below a picture
_ROUNDING = 1e-9  # that a cosine may be above 1
_BARS: dict[str, Any] = {"capsize": 2.5, "elinewidth": 1, "markersize": 4}


def selection(cv: Any, *, ax: Any = None) -> Any:
    """What a `dspnmf.DSPNMFCV` found: scores over alpha, one line for each rank; errors over the rank.

    Bars are standard deviations over folds or repetitions; the ring and the title say what was chosen. An alpha of 0
    (plain NMF) stands at the left edge of the logarithmic axis. Where there was one alpha only, scores are drawn over
    the rank.

    Parameters
    ----------
    cv : DSPNMFCV
        Fitted.
    ax : matplotlib.axes.Axes or array of Axes, optional
        Where to draw; by default a new figure. Fits without labels have more to show: error and stability of each rank.

    Returns
    -------
    ax : matplotlib.axes.Axes or ndarray of Axes
        One for each picture, in the order error, stability, score.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from dspnmf import plot
    >>> found = {"param_n_components": [3, 3], "param_alpha": [0.0, 1.0],
    ...          "mean_test_score": [0.90, 0.95], "std_test_score": [0.02, 0.01]}
    >>> ax = plot.selection(SimpleNamespace(cv_results_=found, n_components_=3, alpha_=1.0))
    >>> ax.get_xlabel()
    'alpha (log scale)'
    """
    if not hasattr(cv, "cv_results_"):
        check_is_fitted(cv)
        raise ValueError(f"{type(cv).__name__} has no cv_results_: pass a fitted DSPNMFCV.")
    ranks = getattr(cv, "rank_results_", None)
    draws = [_scores]
    if ranks is not None:
        draws = [_errors_over_rank, *([_stability_over_rank] if "stability" in ranks else []), _scores]
    axes = _look.several(ax, len(draws), len(draws), (6.4, 4.8) if len(draws) == 1 else (4.4, 4.0))
    for draw, part in zip(draws, axes, strict=True):
        draw(cv, _look.one(part))
    return axes if len(draws) > 1 else axes[0]


def stability(scores: Any, *, names: Any = None, ax: Axes | None = None) -> Axes:
    """How stable each component is, as bars from 0 to 1.

    Parameters
    ----------
    scores : array-like of shape (n_components,), or estimator
        One number from 0 (another in every run) to 1 (the same in all) for each component; or a fitted model that has
        them as ``stability_``.
    names : sequence of str, optional
        Of the components; by default their numbers.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> from dspnmf import plot
    >>> plot.stability([0.99, 0.95, 0.4]).get_title()
    'mean stability 0.78'
    """
    if hasattr(scores, "stability_") and scores.stability_ is None:
        raise ValueError(
            f"{type(scores).__name__} was fitted from one start, which says nothing of others: set n_init=5."
        )
    scores = _look.array(getattr(scores, "stability_", scores))
    if scores.ndim != 1 or not len(scores) or not (np.abs(scores - 0.5) <= 0.5 + _ROUNDING).all():
        raise ValueError(f"scores={scores!r} must be one number from 0 to 1 for each component.")
    if names is not None and len(names) != len(scores):
        raise ValueError(f"names has {len(names)} entries, but there are {len(scores)} scores: pass one for each.")
    ax = _look.one(ax)
    ax.bar(range(len(scores)), scores, color=_look.colour(0), width=0.7)
    if names is not None:
        words = [str(name) for name in names]
        turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if sum(map(len, words)) > _ROOM else {}
        ax.set_xticks(range(len(scores)), words, **turned)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(ylim=(0, 1), xlabel="component", ylabel="stability (0 to 1)", title=f"mean stability {scores.mean():.2f}")
    return ax


def _errors_over_rank(cv: Any, ax: Axes) -> None:
    """Error of every rank, with bars, and the rank that was chosen."""
    found = {key: _look.array(cv.rank_results_[key]) for key in ("n_components", "mean_error", "std_error")}
    _over_rank(ax, found["n_components"], found["mean_error"], cv.n_components_, found["std_error"])
    ax.set_ylabel("error")


def _stability_over_rank(cv: Any, ax: Axes) -> None:
    """Stability of every rank, and the rank that was chosen."""
    _over_rank(
        ax, _look.array(cv.rank_results_["n_components"]), _look.array(cv.rank_results_["stability"]), cv.n_components_
    )
    ax.set(ylabel="stability (0 to 1)", ylim=(0, 1.02))


def _over_rank(ax: Axes, ranks: Array, values: Array, chosen: int, spread: Array | None = None) -> None:
    """Values over the rank, with a ring around the chosen one."""
    order = np.argsort(ranks)
    bars = None if spread is None else spread[order]
    ax.errorbar(ranks[order], values[order], bars, color=_look.colour(0), marker="o", **_BARS)
    _ring(ax, ranks[ranks == chosen], values[ranks == chosen])
    ax.set(xlabel="rank (number of components)", title=f"chosen: rank {chosen}")
    different = np.unique(ranks).tolist()
    ax.xaxis.set_major_locator(FixedLocator(different) if len(different) <= _LABELS else MaxNLocator(integer=True))


def _scores(cv: Any, ax: Axes) -> None:
    """Score over alpha, one line for each rank."""
    found = cv.cv_results_
    rank, alpha, mean, spread = (
        np.asarray(found[key]).astype(np.float64)
        for key in ("param_n_components", "param_alpha", "mean_test_score", "std_test_score")
    )
    chosen = (rank == cv.n_components_) & np.isclose(alpha, cv.alpha_, rtol=1e-9, atol=0)
    if len(np.unique(alpha)) == 1 and len(np.unique(rank)) > 1:
        _over_rank(ax, rank, mean, cv.n_components_, spread)
        ax.set(ylabel="score", title=f"chosen: rank {cv.n_components_} (alpha {alpha[0]:.4g})")
        return
    at = _positions(alpha)
    ranks = np.unique(rank)
    for number, k in enumerate(ranks):
        rows = np.flatnonzero(rank == k)
        rows = rows[np.argsort(alpha[rows])]
        aside = _aside(number, len(ranks), at)
        ax.errorbar(
            at[rows] * aside, mean[rows], spread[rows], label=f"rank {k:g}",
            color=_look.colour(number), marker="o", linestyle=_look.dash(number), **_BARS,
        )  # fmt: skip
    aside = _aside(int(np.searchsorted(ranks, cv.n_components_)), len(ranks), at)
    _ring(ax, at[chosen] * aside, mean[chosen])
    _alpha_axis(ax, alpha, at)
    ax.set(ylabel="score", title=f"chosen: rank {cv.n_components_}, alpha {cv.alpha_:.4g}")
    _look.legend_beside(ax, len(ranks))


def _positions(alpha: Array) -> Array:
    """Where alphas stand on a logarithmic axis; 0 one step left of the smallest other."""
    others = np.unique(alpha[alpha > 0])
    if not len(others):
        return np.ones_like(alpha)
    step = others[1] / others[0] if len(others) > 1 else 10.0
    return np.where(alpha > 0, alpha, others[0] / step)


def _aside(number: int, count: int, at: Array) -> float:
    """A factor that sets one of several lines a little aside, so that bars do not hide each other."""
    different = np.unique(at)
    step = np.log(different[1:] / different[:-1]).min() if len(different) > 1 else 0.0
    return float(np.exp(0.3 * step * (number - (count - 1) / 2) / count))


def _alpha_axis(ax: Axes, alpha: Array, at: Array) -> None:
    """Ticks where alphas are, 0 among them; as many labels as have room."""
    ax.set_xscale("log")
    places, first = np.unique(at, return_index=True)
    every = -(-len(places) // _LABELS)
    ax.xaxis.set_major_locator(FixedLocator(places[::every].tolist()))
    ax.set_xticklabels([f"{value:.4g}" for value in alpha[first][::every]])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("alpha (log scale)")


def _ring(ax: Axes, x: Any, y: Any) -> None:
    """A ring around what was chosen."""
    ax.plot(x, y, "o", markersize=12, markerfacecolor="none", markeredgewidth=2, markeredgecolor=_look.GREY)
