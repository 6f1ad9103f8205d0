"""What the runs of a consensus agree on: its components, what was left out, stability and error of its ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from dspnmf.report.charts import Axis, Chart, Figure, Series, View
from dspnmf.report.formatting import percent
from dspnmf.selection import ConsensusNMF

_CURVE = 200  # points of the curve of distances
_SHARES = "share (0 to 1)"


def agreement_facts(model: BaseEstimator) -> dict[str, Any] | None:
    """The numbers of the figures as plain data; None for a model of one run."""
    if not isinstance(model, ConsensusNMF):
        return None
    return {
        "runs": len(model.density_),
        "kept": float((model.groups_ >= 0).mean()),
        "silhouette": float(model.silhouette_),
        "stability": [float(value) for value in model.stability_],
        "share_of_runs": [float(value) for value in model.share_of_runs_],
        "ranks": None if model.ranks_results_ is None else _columns(model.ranks_results_),
    }


def agreement(model: BaseEstimator) -> list[Figure]:
    """A figure of the components that were found, and one of the ranks where several were compared."""
    facts = agreement_facts(model)
    if facts is None:
        return []
    figures = [_components(model, facts)]
    return figures if facts["ranks"] is None else [*figures, _ranks(facts["ranks"], int(model.n_components_))]


def _components(model: BaseEstimator, facts: dict[str, Any]) -> Figure:
    """How well the runs found each component, and how far the components of all runs are from each other."""
    numbers = np.arange(1, len(facts["stability"]) + 1)
    axis = Axis("component (number)", ticks=tuple(map(float, numbers)))
    found = (
        Series("stability", numbers, facts["stability"], "points", style=0),
        Series("share of the runs", numbers, facts["share_of_runs"], "points", style=2),
    )
    distances = np.sort(np.ravel(model.density_))
    at = np.unique(np.linspace(0, len(distances) - 1, _CURVE).round().astype(int))
    limit = float(model.density_threshold)
    charts = (
        Chart("Components of the consensus", axis, Axis(_SHARES), found),
        Chart(
            "Distance to the nearest of other runs",
            Axis("mean distance, at unit length"),
            Axis("components that are nearer (share)"),
            (
                Series("components of all runs", distances[at], (at + 1) / len(distances), "curve", style=0),
                Series("density_threshold", (limit, limit), (0.0, 1.0), kind="path"),
            ),
        ),
    )
    text = (
        f"{facts['runs']:,} runs from different random starts. Of their components {percent(facts['kept'])} have near "
        "neighbours among those of other runs (left of the line) and were kept; the median of each group of them is a "
        "component of the consensus. Stability is the mean cosine of a component and its partner in every run: 1 where "
        "all runs found the same. The share of the runs counts those that have a component in the group.",
    )
    return Figure("agreement", "Agreement of the runs", text, (View("", charts),))


def _ranks(ranks: dict[str, list[float | None]], chosen: int) -> Figure:
    """Stability and error of every rank that was compared."""
    x = [float(rank or 0) for rank in ranks["n_components"]]
    axis, charts = Axis("rank (count)", ticks=tuple(x)), []
    for name, style, title, label in (
        ("stability", 0, "Stability", "mean silhouette (at most 1)"),
        ("error", 2, "Error", "‖X − UV‖, X as it was fitted"),  # noqa: RUF001
    ):
        known = {at: value for at, value in zip(x, ranks[name], strict=True) if value is not None}
        marks = tuple("fitted" if rank == chosen else "" for rank in known)
        series = Series(name, tuple(known), tuple(known.values()), style=style, marks=marks)
        charts.append(Chart(title, axis, Axis(label), (series,)))
    text = (
        "Every rank was run as often. Stability is how well the components of all runs, none left out, fall into as "
        "many groups: it drops where runs no longer agree. The error is that of the consensus; a rank has none where "
        "too few components have near neighbours.",
    )
    return Figure("ranks", "Ranks compared", text, (View("", tuple(charts)),))


def _columns(found: dict[str, Any]) -> dict[str, list[float | None]]:
    """Arrays as lists; what is not finite as None."""
    return {
        name: [value if np.isfinite(value) else None for value in np.asarray(values).tolist()]
        for name, values in found.items()
    }
