"""The scores from which rank and alpha were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dspnmf._typing import Array
from dspnmf.plot import _inputs, _style

if TYPE_CHECKING:
    from dspnmf.selection import DSPNMFCV

_LABELS = 9  # ticks that have room for a label
_BARS: dict[str, Any] = {"capsize": 2.5, "elinewidth": 1, "markersize": 4, "marker": "o"}


def selection(cv: DSPNMFCV, *, ax: Axes | _style.AxesArray | None = None) -> Any:
    """Plot what a `dspnmf.DSPNMFCV` found: scores over alpha, a line for each rank (and similarity); errors over rank.

    Bars are standard deviations over folds or repetitions; the ring and the title show what was chosen. An alpha of 0
    (plain NMF) is drawn at the left end of the logarithmic axis. With a single alpha, scores are drawn over the rank.

    Parameters
    ----------
    cv : DSPNMFCV
        A fitted search.
    ax : matplotlib.axes.Axes or array of Axes, optional
        Where to draw; by default a new figure. A search without labels also has error and stability of each rank.

    Returns
    -------
    ax : matplotlib.axes.Axes or ndarray of Axes
        One for each plot, in the order error, stability, score.

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
    by_rank = getattr(cv, "rank_results_", None) or {}
    columns = [name for name in ("mean_error", "stability") if name in by_rank]
    count = len(columns) + 1
    axes = _style.several_axes(ax, count, count, (4.4, 4.0) if columns else (6.4, 4.8))
    for name, part in zip(columns, axes, strict=False):
        ranks, values = (_inputs.as_floats(by_rank[key]) for key in ("n_components", name))
        spread = _inputs.as_floats(by_rank["std_error"]) if name == "mean_error" else None
        _plot_over_rank(_style.one_axes(part), ranks, values, cv.n_components_, spread)
        part.set(**{"ylabel": "error"} if name == "mean_error" else {"ylabel": "stability (0 to 1)", "ylim": (0, 1.02)})
    _plot_scores(cv, _style.one_axes(axes[-1]))
    return axes if columns else axes[0]


def _plot_over_rank(ax: Axes, ranks: Array, values: Array, chosen: int, spread: Array | None) -> None:
    """Plot values over the rank, with a ring around the chosen one."""
    order = np.argsort(ranks)
    bars = None if spread is None else spread[order]
    ax.errorbar(ranks[order], values[order], bars, color=_style.colour(0), **_BARS)
    _plot_ring(ax, ranks[ranks == chosen], values[ranks == chosen])
    ax.set(xlabel="rank (number of components)", title=f"chosen: rank {chosen}")
    different = np.unique(ranks).tolist()
    ax.xaxis.set_major_locator(FixedLocator(different) if len(different) <= _LABELS else MaxNLocator(integer=True))


def _plot_scores(cv: DSPNMFCV, ax: Axes) -> None:
    """Plot scores over alpha, one line for each rank; over the rank if there is one alpha only."""
    rank, alpha, mean, spread = (
        np.asarray(cv.cv_results_[key]).astype(np.float64)
        for key in ("param_n_components", "param_alpha", "mean_test_score", "std_test_score")
    )
    kinds = _kinds(cv)
    keys = sorted(set(zip(rank.tolist(), kinds, strict=True)))
    lines = np.array([keys.index(key) for key in zip(rank.tolist(), kinds, strict=True)])
    if len(np.unique(alpha)) == 1 and len(keys) > 1 and len(set(kinds)) == 1:
        _plot_over_rank(ax, rank, mean, cv.n_components_, spread)
        ax.set(ylabel="score", title=f"chosen: rank {cv.n_components_} (alpha {alpha[0]:.4g})")
        return
    positions = _alpha_positions(alpha)
    x = positions * _shifts(lines, positions)
    for number, (k, kind) in enumerate(keys):
        rows = np.flatnonzero(lines == number)
        rows = rows[np.argsort(alpha[rows])]
        ax.errorbar(x[rows], mean[rows], spread[rows], label=f"rank {k:g}{kind}", **_style.line(number), **_BARS)
    chosen = (rank == cv.n_components_) & np.isclose(alpha, cv.alpha_, rtol=1e-9, atol=0)
    if len(set(kinds)) > 1:
        chosen &= np.arange(len(rank)) == cv.best_index_
    _plot_ring(ax, x[chosen], mean[chosen])
    _set_alpha_axis(ax, alpha, positions)
    ax.set(ylabel="score", title=f"chosen: rank {cv.n_components_}, alpha {cv.alpha_:.4g}")
    _style.legend_on_the_right(ax, len(keys))


def _kinds(cv: DSPNMFCV) -> list[str]:
    """The similarity of every candidate, as a label goes on; "" where there is only one."""
    found, count = cv.cv_results_, len(cv.cv_results_["param_alpha"])
    names = found.get("param_similarity", ["gram"] * count)
    steps = found.get("param_diffusion_steps", [0] * count)
    kinds = [f", {name} {step}" if name == "diffused" else f", {name}" for name, step in zip(names, steps, strict=True)]
    return kinds if len(set(kinds)) > 1 else [""] * count


def _alpha_positions(alpha: Array) -> Array:
    """Positions of alphas on a logarithmic axis; 0 is one step to the left of the smallest other."""
    others = np.unique(alpha[alpha > 0])
    if not len(others):
        return np.ones_like(alpha)
    step = others[1] / others[0] if len(others) > 1 else 10.0
    return np.where(alpha > 0, alpha, others[0] / step)


def _shifts(lines: NDArray[np.intp], positions: Array) -> Array:
    """Factors that move the points of each line a little to the side, so that bars do not hide each other."""
    different, count = np.unique(positions), lines.max() + 1
    step = np.log(different[1:] / different[:-1]).min() if len(different) > 1 else 0.0
    return np.asarray(np.exp(0.3 * step * (lines - (count - 1) / 2) / count))


def _set_alpha_axis(ax: Axes, alpha: Array, positions: Array) -> None:
    """Put a tick at every alpha, 0 included, or at every second, third, ... if there are many."""
    ax.set_xscale("log")
    positions, first = np.unique(positions, return_index=True)
    every = -(-len(positions) // _LABELS)
    ax.xaxis.set_major_locator(FixedLocator(positions[::every].tolist()))
    ax.set_xticklabels([f"{value:.4g}" for value in alpha[first][::every]])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("alpha (log scale)")


def _plot_ring(ax: Axes, x: Array, y: Array) -> None:
    """Draw a ring around what was chosen."""
    ax.plot(x, y, "o", markersize=12, markerfacecolor="none", markeredgewidth=2, markeredgecolor=_style.GREY)
