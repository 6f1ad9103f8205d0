"""Figures of a fit: the scatter plot of its codes, similarities and neighbours that the codes keep, convergence.

A column of few values colours the scatter plot by value; one of many numbers by classes of equal count; one whose
values are (nearly) all different is only shown in tooltips.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from dspnmf.report.charts import Axis, Chart, Figure, Level, Series, View
from dspnmf.report.fit_components import ordered
from dspnmf.report.fit_measurements import Fit, FitInputs, FloatArray, converged, products
from dspnmf.report.formatting import amount, capital, cut

MAX_CATEGORIES = 24  # that differ in colour and marker
N_CLASSES = 7  # of a column of numbers
MAX_COLUMNS = 20  # to colour by, the labels first
NO_VALUE = "no value"
_SMALL = 500  # samples up to which markers are large

_DECADES = 30.0  # a history that spans such a factor is drawn on a logarithmic axis
_LONGEST = 1000  # points of a history
_SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)  # neighbourhoods
_STYLES = (0, 2)  # of the model and of plain NMF, as on the page of the comparison


def scatter(inputs: FitInputs) -> dict[str, Any]:
    """The scatter plot of the codes, as the data that ``assets/codes.js`` draws."""
    table, rows, Z = inputs.table, inputs.scatter_rows, inputs.fit.Z
    names = sorted(table.columns, key=lambda name: name != table.label)[:MAX_COLUMNS]
    columns = [column(name, table.columns[name][rows]) for name in names]
    k, used = Z.shape[1], [int(a) for a in ordered(inputs) if Z[:, a].any()]
    return {
        "axes": [*(f"component {i + 1}" for i in range(k)), "sample number"],
        "values": [*Z[rows].T.tolist(), (rows + 1).tolist()],
        "start": used[:2] if len(used) > 1 else [k, *used, 0][:2],  # else over the sample number
        "names": [cut(name) for name in table.index[rows]],
        "called": cut(table.index_name) or "sample",
        "columns": columns,
        "colour": next((i for i, found in enumerate(columns) if found["classes"]), -1),
        "size": 3.6 if len(rows) <= _SMALL else 2.6,
    }


def column(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """One column: `classes` to colour by (empty: not offered), and in `of` the class or level of each sample.

    Numbers come as `values`, others as `levels`; the first levels are the classes, the rest share the last class.
    """
    numbers = values.astype(np.float64) if values.dtype.kind in "iuf" else None
    different = 0 if numbers is None else len(np.unique(numbers[np.isfinite(numbers)]))
    if numbers is not None and different > min(MAX_CATEGORIES, max(N_CLASSES, len(numbers) / 2)):
        of, classes = _binned(numbers)
        return {"name": cut(name), "ordered": True, "classes": classes, "of": of, "values": numbers.tolist()}
    texts = [_text(value) for value in values]
    levels, classes = _categories(texts)
    number = {text: i for i, text in enumerate(levels)}
    return {"name": cut(name), "ordered": False, "classes": classes, "of": [number[t] for t in texts], "levels": levels}


def _text(value: object) -> str:
    """A value as text, or `NO_VALUE`."""
    if value is None or (isinstance(value, float | np.floating) and not math.isfinite(value)) or str(value) == "":
        return NO_VALUE
    return f"{value:.6g}" if isinstance(value, float | np.floating) else cut(value)


def _natural(text: str) -> tuple[bool, bool, float, str]:
    """A key to sort by: numbers by value, then words; what has no value comes last."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    known = math.isfinite(number)
    return text == NO_VALUE, not known, number if known else 0.0, text


def _categories(texts: list[str]) -> tuple[list[str], list[str]]:
    """The levels and the classes: the rarest levels share one where there are many; too many have none."""
    counts = Counter(texts)
    levels = sorted(counts, key=_natural)
    if len(levels) <= MAX_CATEGORIES:
        return levels, levels
    if len(levels) > len(texts) / 2:
        return levels, []
    often = set(sorted(levels, key=lambda text: -counts[text])[: MAX_CATEGORIES - 1])
    rest = [text for text in levels if text not in often]
    kept = [text for text in levels if text in often]
    return [*kept, *rest], [*kept, f"{len(rest)} others"]


def _binned(numbers: FloatArray) -> tuple[list[int], list[str]]:
    """Each number's class and the classes, of about the same count, from low to high."""
    known = np.isfinite(numbers)
    edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, N_CLASSES + 1)))
    of = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, max(len(edges) - 2, 0))
    classes = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)] or [f"{edges[0]:g}"]
    if not known.all():
        of[~known] = len(classes)
        classes.append(NO_VALUE)
    return of.tolist(), classes


def convergence(inputs: FitInputs) -> Figure | None:
    """The objective after every iteration, and by how much each lowered it."""
    model = inputs.fit.model
    history = np.asarray(getattr(model, "objective_history_", ()), dtype=np.float64)
    if len(history) < 2:
        return None
    at = np.unique(np.rint(np.linspace(0, len(history) - 1, _LONGEST)).astype(int))
    log = bool(history.min() > 0 and history.max() > _DECADES * history.min())
    name, kind = inputs.fit.label, "line" if len(at) <= 60 else "curve"
    objective = Series(name, at, history[at], kind=kind, style=_STYLES[0])
    change = -np.diff(history) / np.maximum(np.abs(history[1:]), np.finfo(float).tiny)
    tol = float(getattr(model, "tol", 0) or 0)
    unseen = bool(converged(model) and change[-1] > tol)  # by the stopping rule
    steps_at = at[1:-1] if unseen else at[1:]
    decrease = Series(name, steps_at, np.maximum(change[steps_at - 1], 0), kind=kind, style=_STYLES[0])
    levels = (Level(f"tol = {tol:g}", tol),) if tol > 0 else ()
    steps = Axis("iteration (count)")
    charts = (
        Chart("Objective", steps, Axis("objective F", log=log), (objective,)),
        Chart("Relative decrease", steps, Axis("decrease ÷ objective", log=True), (decrease,), levels),
    )
    ends = (
        "The relative decrease of the last iteration is not drawn: a fit ends with exact codes, and the stopping rule "
        "saw the objective before them."
        if unseen
        else ""
    )
    return Figure(
        "convergence",
        "Convergence",
        tuple(filter(None, (_descent(model, history, inputs.missing > 0), ends))),
        (View("", charts),),
    )


def _descent(model: BaseEstimator, history: FloatArray, missing: bool) -> str:
    """How the descent went and why it ended."""
    n, rises = len(history) - 1, int((np.diff(history) > 1e-9 * np.abs(history[:-1])).sum())
    ended = {
        True: "and stopped because an iteration changed it by no more than the tolerance",
        False: "and was cut off before it converged: more iterations would lower it further",
        None: "without a stopping rule",
    }[converged(model)]
    rose = f" It rose in {rises} of them." if rises else " It never rose."
    if rises and missing:
        rose += " Missing cells are estimated again after every iteration, which can raise it."
    return f"The objective fell from {amount(history[0])} to {amount(history[-1])} in {n:,} iterations, {ended}.{rose}"


def structure(inputs: FitInputs) -> Figure:
    """Similarities of pairs of samples: in the data against in the codes, a panel for each fit."""
    found = {fit.label: products(inputs, fit) for fit in inputs.fits}
    numbers = np.concatenate([*(x for pair in found.values() for x in pair), [0.0]])
    ends = float(numbers.min()), float(numbers.max())  # the same in every panel
    names = inputs.table.index
    notes = [f"samples {cut(names[i])} and {cut(names[j])}" for i, j in zip(*inputs.pairs, strict=True)]
    charts = []
    for fit, style in zip(inputs.fits, _STYLES, strict=False):
        x, y = found[fit.label]
        order = np.argsort(x, kind="stable")  # arrow keys go from left to right
        named = tuple(notes[i] for i in order)
        points = Series(fit.label, x[order], y[order], "points", style=style, notes=named, size=2.4)
        line = Series("equal", ends, ends, kind="path")
        axes = Axis("xᵢ·xⱼ in the data"), Axis("c uᵢ·uⱼ in the codes")
        series = (points, line) if notes else ()
        title = fit.label if fit is inputs.fit else f"{capital(fit.label)}, same rank"
        charts.append(Chart(title, *axes, series, height=400, empty="One sample has no pairs."))
    n = len(inputs.structure_rows)
    drawn = f"{len(notes):,} pairs of different samples" + ("" if len(notes) < n * (n - 1) // 2 else ", all there are")
    return Figure(
        "structure",
        "Similarities kept",
        (
            f"Each point is a pair of samples: {drawn}. Horizontally, the inner product of their data; vertically, "
            "that of their codes, times the factor c that fits all pairs best. Where the codes keep a similarity, its "
            "point lies on the line.",
        ),
        (View("", tuple(charts)),),
    )


def neighbours(inputs: FitInputs) -> Figure | None:
    """Neighbour recall and trustworthiness over the size of the neighbourhood."""
    n = len(inputs.neighbour_rows)
    sizes = [size for size in _SIZES if size <= (n - 1) // 2]
    if not sizes:
        return None
    recall, trust = [], []
    for fit, style in zip(inputs.fits, _STYLES, strict=False):
        ranks = neighbour_ranks(inputs, fit, sizes[-1])
        recall.append(Series(fit.label, sizes, [(ranks[:, :s] <= s).mean() for s in sizes], style=style))
        trust.append(Series(fit.label, sizes, [_trustworthiness(ranks[:, :s]) for s in sizes], style=style))
    recall.append(Series("by chance", sizes, [size / (n - 1) for size in sizes], kind="path"))
    asked = Axis("neighbours asked for (count)", log=True)
    charts = (
        Chart("Neighbour recall", asked, Axis("share (0 to 1)"), tuple(recall)),
        Chart("Trustworthiness", asked, Axis("trustworthiness (0 to 1)"), tuple(trust)),
    )
    text = (
        "Recall is the share of a sample's nearest neighbours in the data that are also among its nearest in the "
        "codes. Trustworthiness is 1 minus a penalty for neighbours in the codes that are not neighbours in the data; "
        "the penalty grows with their rank there (Venna & Kaski 2001)."
    )
    return Figure("neighbours", "Neighbours kept", (text,), (View("", charts),))


def neighbour_ranks(inputs: FitInputs, fit: Fit, size: int) -> NDArray[np.intp]:
    """For each sample, the ranks in the data (1: the nearest) of its `size` nearest neighbours in the codes."""
    distances = pairwise_distances(inputs.rows(fit, inputs.neighbour_rows))
    np.fill_diagonal(distances, -1)  # a sample is its own zeroth
    ranks = np.argsort(np.argsort(distances, axis=1, kind="stable"), axis=1)
    nearest = NearestNeighbors(n_neighbors=size).fit(fit.Z[inputs.neighbour_rows]).kneighbors(return_distance=False)
    return np.take_along_axis(ranks, nearest, axis=1)


def _trustworthiness(ranks: NDArray[np.intp]) -> float:
    """Trustworthiness, from the ranks in the data of the neighbours in the codes."""
    n, size = ranks.shape
    return 1 - float(np.maximum(ranks - size, 0).sum()) * 2 / (n * size * (2 * n - 3 * size - 1))
