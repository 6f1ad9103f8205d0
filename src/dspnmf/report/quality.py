"""Figures of how a fit went and of what it keeps: convergence, similarities, neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from dspnmf.report.charts import Axis, Chart, Figure, Level, Series, View
from dspnmf.report.facts import converged, products
from dspnmf.report.texts import amount, capital, cut

if TYPE_CHECKING:
    from dspnmf.report.case import Case, Fit

_DECADES = 30.0  # a history that spans such a factor is drawn on a logarithmic axis
_LONGEST = 1000  # points of a history
_SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)  # neighbourhoods
_STYLES = (0, 2)  # of the model and of plain NMF, as on the page of the comparison


def convergence(case: Case) -> Figure | None:
    """The objective after every iteration, and by how much each lowered it."""
    model = case.fit.model
    history = np.asarray(getattr(model, "objective_history_", ()), dtype=np.float64)
    if len(history) < 2:
        return None
    at = np.unique(np.rint(np.linspace(0, len(history) - 1, _LONGEST)).astype(int))
    log = bool(history.min() > 0 and history.max() > _DECADES * history.min())
    name, kind = case.fit.label, "line" if len(at) <= 60 else "curve"
    objective = Series(name, _tuple(at), _tuple(history[at]), kind=kind, style=_STYLES[0])
    change = -np.diff(history) / np.maximum(np.abs(history[1:]), np.finfo(float).tiny)
    fell = at[1:] - 1
    lowered = Series(name, _tuple(fell + 1), _tuple(np.maximum(change[fell], 0)), kind=kind, style=_STYLES[0])
    tol = float(getattr(model, "tol", 0) or 0)
    levels = (Level(f"tol = {tol:g}", tol),) if tol > 0 else ()
    steps = Axis("iteration (count)")
    charts = (
        Chart("Objective", steps, Axis("objective F", log=log), (objective,)),
        Chart("Relative decrease", steps, Axis("decrease ÷ objective", log=True), (lowered,), levels),
    )
    ends = "The last decrease may include the exact codes that end a fit." if change[-1] > change[-2:].min() else ""
    return Figure("convergence", "Convergence", tuple(filter(None, (_how(model, history), ends))), (View("", charts),))


def _how(model: Any, history: Any) -> str:
    """How the descent went and why it ended."""
    n, rises = len(history) - 1, int((np.diff(history) > 1e-9 * np.abs(history[:-1])).sum())
    ended = {
        True: "and stopped because an iteration changed it by no more than the tolerance",
        False: "and was cut off before it converged: more iterations would lower it further",
        None: "without a stopping rule",
    }[converged(model)]
    rose = f" It rose in {rises} of them." if rises else " It never rose."
    return f"The objective fell from {amount(history[0])} to {amount(history[-1])} in {n:,} iterations, {ended}.{rose}"


def structure(case: Case) -> Figure:
    """Similarities of pairs of samples: in the data against in the codes, the yardstick's beside."""
    found = {fit.label: products(case, fit) for fit in case.fits}
    numbers = np.concatenate([*(x for pair in found.values() for x in pair), [0.0]])
    ends = float(numbers.min()), float(numbers.max())  # the same in every panel
    names = case.table.index
    notes = [f"samples {cut(names[i])} and {cut(names[j])}" for i, j in zip(*case.pairs, strict=True)]
    charts = []
    for fit, style in zip(case.fits, _STYLES, strict=False):
        x, y = found[fit.label]
        order = np.argsort(x, kind="stable")  # keys go from left to right
        told = tuple(notes[i] for i in order)
        points = Series(fit.label, _tuple(x[order]), _tuple(y[order]), "points", style=style, notes=told, size=2.4)
        line = Series("equal", ends, ends, kind="path")
        axes = Axis("xᵢ·xⱼ in the data"), Axis("c uᵢ·uⱼ in the codes")
        series = (points, line) if notes else ()
        charts.append(Chart(_title(case, fit), *axes, series, height=400, empty="One sample has no pairs."))
    drawn = f"{len(notes):,} pairs of different samples" + ("" if len(notes) < _all(case) else ", all there are")
    return Figure(
        "structure",
        "Similarities kept",
        (
            f"Each point is a pair of samples: {drawn}. To the right the inner product of their data, upwards that of "
            "their codes, in the one unit c that fits best. Where the codes keep the similarities, points lie on the "
            "line.",
            *_rows(case, len(case.basis), "The unit c and the structure error are measured"),
        ),
        (View("", tuple(charts)),),
    )


def neighbours(case: Case) -> Figure | None:
    """Neighbour recall and trustworthiness over the size of the neighbourhood."""
    n = len(case.near)
    sizes = [size for size in _SIZES if size <= (n - 1) // 2]
    if not sizes:
        return None
    at, recall, trust = _tuple(sizes), [], []
    for fit, style in zip(case.fits, _STYLES, strict=False):
        ranks = neighbour_ranks(case, fit, sizes[-1])
        recall.append(Series(fit.label, at, _tuple([(ranks[:, :s] <= s).mean() for s in sizes]), style=style))
        trust.append(Series(fit.label, at, _tuple([_trusted(ranks[:, :s]) for s in sizes]), style=style))
    recall.append(Series("by chance", at, tuple(size / (n - 1) for size in sizes), kind="path"))
    asked = Axis("neighbours asked for (count)", log=True)
    charts = (
        Chart("Neighbour recall", asked, Axis("share (0 to 1)"), tuple(recall)),
        Chart("Trustworthiness", asked, Axis("trustworthiness (0 to 1)"), tuple(trust)),
    )
    said = (
        "Recall: of the nearest neighbours of a sample in the data, the share that are among its nearest in the codes. "
        "Trustworthiness: 1 less a penalty for neighbours in the codes that are none in the data, the higher the "
        "farther they come from (Venna & Kaski 2001)."
    )
    rows = _rows(case, n, "Neighbours are searched")
    return Figure("neighbours", "Neighbours kept", (said, *rows), (View("", charts),))


def neighbour_ranks(case: Case, fit: Fit, size: int) -> Any:
    """For each sample drawn, its `size` nearest in the codes: the how manieth nearest they are in the data."""
    n = len(case.near)
    distances = pairwise_distances(case.data(fit, case.near))
    np.fill_diagonal(distances, -1)  # a sample is its own zeroth
    ranks = np.empty((n, n), dtype=np.int32)
    np.put_along_axis(ranks, np.argsort(distances, axis=1, kind="stable"), np.arange(n, dtype=np.int32)[None], axis=1)
    nearest = NearestNeighbors(n_neighbors=size).fit(fit.Z[case.near]).kneighbors(return_distance=False)
    return np.take_along_axis(ranks, nearest, axis=1)


def _trusted(ranks: Any) -> float:
    """Trustworthiness, from the ranks in the data of the neighbours in the codes."""
    n, size = ranks.shape
    return 1 - float(np.maximum(ranks - size, 0).sum()) * 2 / (n * size * (2 * n - 3 * size - 1))


def _rows(case: Case, used: int, what: str) -> tuple[str, ...]:
    """Which rows something was measured on, where they are not all."""
    n = case.shape[0]
    return () if used == n else (f"{what} on {used:,} samples drawn from the {n:,}.",)


def _title(case: Case, fit: Fit) -> str:
    """What a panel shows."""
    return fit.label if fit is case.fit else f"{capital(fit.label)}, same rank"


def _all(case: Case) -> int:
    """How many pairs there are."""
    n = len(case.basis)
    return n * (n - 1) // 2


def _tuple(values: Any) -> tuple[float, ...]:
    """As a series takes it."""
    return tuple(map(float, values))
