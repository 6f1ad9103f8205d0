"""What many starts agree on: stability and error of ranks, distances of components to their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from sklearn.utils.validation import check_is_fitted

from dspnmf.plot import _inputs, _style

if TYPE_CHECKING:
    from dspnmf.selection import ConsensusNMF

_BINS = 50


def consensus(model: ConsensusNMF, *, ax: Axes | _style.AxesArray | None = None) -> Any:
    """Plot what a `dspnmf.ConsensusNMF` found: distances between components of its runs; stability over the rank.

    Components to the right of the line (`density_threshold`) were left out. With ranks, stability and error of each
    are plotted in addition.

    Parameters
    ----------
    model : ConsensusNMF
        A fitted consensus.
    ax : matplotlib.axes.Axes or array of Axes, optional
        Where to draw; by default a new figure. With ranks there are three plots.

    Returns
    -------
    ax : matplotlib.axes.Axes or ndarray of Axes
        One for each plot, in the order distances, stability, error.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import NMF, ConsensusNMF, plot
    >>> X = np.random.default_rng(0).random((30, 3)) @ np.random.default_rng(1).random((3, 8))
    >>> model = ConsensusNMF(NMF(3), n_runs=8, density_threshold=1.0, random_state=0).fit(X)
    >>> plot.consensus(model).get_xlabel()
    'mean distance to the nearest components of other runs'
    """
    if not hasattr(model, "density_"):
        check_is_fitted(model)
        raise ValueError(f"{type(model).__name__} has no density_: pass a fitted ConsensusNMF.")
    by_rank = model.ranks_results_ or {}
    columns = ("stability", "error") if by_rank else ()
    count = len(columns) + 1
    axes = _style.several_axes(ax, count, count, (4.4, 4.0) if columns else (6.4, 4.8))
    first = _style.one_axes(axes[0])
    first.hist(np.ravel(model.density_), bins=_BINS, color=_style.colour(0))
    first.axvline(model.density_threshold, color=_style.GREY, linestyle="--")
    kept = float((np.asarray(model.groups_) >= 0).mean())
    first.set(
        xlabel="mean distance to the nearest components of other runs",
        ylabel="components (count)",
        title=f"{kept:.0%} of the components kept",
    )
    for name, part in zip(columns, axes[1:], strict=True):
        here = _style.one_axes(part)
        ranks, values = (_inputs.as_floats(by_rank[key]) for key in ("n_components", name))
        here.plot(ranks, values, marker="o", color=_style.colour(0))
        here.axvline(model.n_components_, color=_style.GREY, linestyle="--")
        here.set(xlabel="rank (number of components)", ylabel=name, title=f"fitted: rank {model.n_components_}")
        here.set_xticks(ranks.tolist())
    return axes if columns else axes[0]
