# Pages write Greek letters and a real minus sign.
# ruff: noqa: RUF001
"""The figures of the comparison: one chart for each data set, with the sentences of the summary on what they show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import NamedTuple

from dspnmf.paper.protocol import ALPHA_RANK, CURVE_RANK, LAMBDA_RANK, PASSES, RANKS, TABLE_METHODS, TABLE_SETS
from dspnmf.paper.published import TASKS, published
from dspnmf.paper.results import Point, Results
from dspnmf.paper.summary_experiments import by_experiment
from dspnmf.report.charts import Axis, Chart, Figure, Level, Series, View
from dspnmf.report.formatting import MISSING, power

_SCORES = {
    "svm": Axis("accuracy of the SVM (share)"),
    "knn": Axis("accuracy of 3-NN (share)"),
    "kmeans": Axis("NMI of k-means (0 to 1)"),
}
_SOLVERS = {"newton-cg": 0, "hals": 3, "mm": 5, "appendix rule": 6, "printed rule": 1}  # styles; the default first
_LOWEST = 1e-6  # of the convergence charts: curves below have converged

Marks = list[Series | Level]
Draw = Callable[[Results, str], Marks]  # what is drawn in the chart of a data set


class FigurePlan(NamedTuple):
    """A figure before there are results: `views` are axes and marks, by the label of `choice`."""

    title: str
    choice: str
    views: dict[str, tuple[Axis, Axis, Draw]]
    text: str


def figures(results: Results) -> list[Figure]:
    """Every figure of the page, in its order."""
    names = {*results.datasets, *results.absent}
    datasets = sorted(names, key=lambda s: (TABLE_SETS.index(s) if s in TABLE_SETS else len(TABLE_SETS), s))
    sentences = {"ranks": [], **by_experiment(results)}
    found = []
    for identifier, plan in _PLANS.items():
        shown = results.methods if identifier == "ranks" else sentences[identifier]
        text = (_with_runs(plan.text, results), *sentences[identifier]) if shown else (Chart.empty,)
        views = (
            View(label, tuple(_chart(results, dataset, *view) for dataset in datasets))
            for label, view in plan.views.items()
        )
        found.append(Figure(identifier, plan.title, text, tuple(views), plan.choice))
    return found


def _with_runs(text: str, results: Results) -> str:
    """A text in which {RUNS} is the number of runs behind the points of the tables, such as "2" or "2 to 5"."""
    counts = results.repeats()
    runs = " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else "no"
    return text.replace("{RUNS}", f"{runs} run{'s' * (runs != '1')}")


def rises_table(results: Results) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Headers and rows: the iterations in which the objective rose, by solver and data set with curves."""
    counts = {dataset: found for dataset in results.datasets if (found := results.rises(dataset))}
    return ["Solver", *counts], [
        (solver, [f"{found[solver]:.0f}" if solver in found else MISSING for found in counts.values()])
        for solver in sorted(PASSES, key=list(_SOLVERS).index)
    ]


def _chart(results: Results, dataset: str, x: Axis, y: Axis, draw: Draw) -> Chart:
    """The chart of a data set; one that could not be run says why."""
    marks = draw(results, dataset)
    series = tuple(mark for mark in marks if isinstance(mark, Series) and mark.x)
    levels = tuple(mark for mark in marks if isinstance(mark, Level))
    absent = dataset in results.absent and dataset not in results.datasets
    return Chart(dataset, x, y, series, levels, f"Not run: {results.absent[dataset]}" if absent else Chart.empty)


def _rank_curves(task: str, results: Results, dataset: str) -> Marks:
    """Score of every method over the rank."""
    methods = [method for method in results.methods if method != "All"]
    marks: Marks = [_banded(m, results.ranks(task, m, dataset), TABLE_METHODS.index(m)) for m in methods]
    if everything := results.cell(task, "All", dataset):
        marks.append(Level("All (no reduction)", everything.mean))
    if methods and dataset in (printed := published(task)["DSP-NMF"]):
        marks.append(Level("DSP-NMF, published mean", printed[dataset].mean, faint=True))
    return marks


def _lambda_curves(task: str, results: Results, dataset: str) -> Marks:
    """A score over lambda, with the default solver and the printed rule."""
    names = {"DSP-NMF": "default solver", "DSP-NMF (printed rule)": "printed rule"}
    return [
        _banded(name, results.sweep("lambda", task, method, dataset), style)
        for style, (method, name) in enumerate(names.items())
    ]


def _alpha_curves(lines: dict[str, tuple[str, int]], results: Results, dataset: str) -> Marks:
    """Measurements over alpha; lines are name and style by measurement."""
    return [
        _banded(name, results.sweep("alpha", measured, "DSP-NMF", dataset), style)
        for measured, (name, style) in lines.items()
    ]


def _descent(field: str, results: Results, dataset: str) -> Marks:
    """Excess of the objective over the lowest one, along iterations or passes over X."""
    curves = results.convergence(dataset)
    return [
        Series(s, [getattr(step, field) for step in curves[s]], [step.excess for step in curves[s]], style=style)
        for s, style in _SOLVERS.items()
        if s in curves
    ]


def _overlap(results: Results, dataset: str) -> Marks:
    """Mean cosine of components over the structure error, from small to large alpha."""
    alphas = sorted({t.alpha for name in results.datasets for t in results.tradeoffs(name)})
    fits = {alpha: [t for t in results.tradeoffs(dataset) if t.alpha == alpha] for alpha in alphas}
    fits = {alpha: found for alpha, found in fits.items() if found}
    if not fits:
        return []
    names = {alpha: f"α = {power(alpha)}" for alpha in fits}
    path = Series(
        "mean of the runs, from small to large α",
        [fmean(t.structure for t in found) for found in fits.values()],
        [fmean(t.correlation for t in found) for found in fits.values()],
        kind="path",
        notes=tuple(names.values()),
        marks=tuple(name if alpha in (min(fits), max(fits)) else "" for alpha, name in names.items()),
    )
    points = [
        Series(
            names[alpha],
            [t.structure for t in found],
            [t.correlation for t in found],
            kind="points",
            ramp=alphas.index(alpha) / max(1, len(alphas) - 1),
            notes=tuple(f"reconstruction error {t.reconstruction:.3f}" for t in found),
        )
        for alpha, found in fits.items()
    ]
    return [path, *points]


def _banded(name: str, points: list[Point], style: int) -> Series:
    """Means as a line, lowest to highest run as a band."""
    at, mean, low, high = zip(*points, strict=True) if points else ((), (), (), ())
    return Series(name, at, mean, low=low, high=high, style=style)


_RANK = Axis("rank (number of components)", ticks=RANKS)
_LAMBDA = Axis(f"λ (no unit), rank {LAMBDA_RANK}", log=True)
_ALPHA = Axis(f"α in units of ‖X‖² / ‖XXᵀ‖², rank {ALPHA_RANK}", log=True)
_ERRORS = {"structure_error": ("structure error", 3), "reconstruction_error": ("reconstruction error", 6)}
_TASK_STYLES = {task: (label, 2 * i) for i, (task, label) in enumerate(TASKS.items())}
_EXCESS = Axis("objective ÷ lowest objective − 1", log=True, low=_LOWEST)
_PLANS = {
    "ranks": FigurePlan(
        "Scores over the rank",
        "Task",
        {label: (_RANK, _SCORES[task], partial(_rank_curves, task)) for task, label in TASKS.items()},
        "Means of {RUNS}; the band of a method, from its lowest to its highest run, appears when you point at its "
        "line. Dashed: all features, without reduction. Dotted: the mean the paper prints for DSP-NMF, over all ranks.",
    ),
    "lambda": FigurePlan(
        "Scores over λ",
        "Task",
        {label: (_LAMBDA, _SCORES[task], partial(_lambda_curves, task)) for task, label in TASKS.items()},
        "λ is a unit: a factor in λ divides the codes by its square root and changes nothing else. The printed rule "
        "neither scales its start nor converges. Lines are means of the runs; bands reach from the lowest to the "
        "highest run.",
    ),
    "alpha": FigurePlan(
        "Fit against structure: α",
        "Shown",
        {
            "Errors": (_ALPHA, Axis("relative error (share of the norm)", log=True), partial(_alpha_curves, _ERRORS)),
            "Scores": (_ALPHA, Axis("accuracy, NMI (0 to 1)"), partial(_alpha_curves, _TASK_STYLES)),
        },
        "α is the weight of the structure term: 0 is plain NMF. At 1, in the unit of the axis, both terms are equal "
        "for codes of zeros.",
    ),
    "convergence": FigurePlan(
        "How fast each solver converges",
        "Count",
        {
            "Iterations": (
                Axis(f"iteration (count), rank {CURVE_RANK}", log=True),
                _EXCESS,
                partial(_descent, "iteration"),
            ),
            "Passes over X": (
                Axis(f"passes over X (count), rank {CURVE_RANK}", log=True),
                _EXCESS,
                partial(_descent, "passes"),
            ),
        },
        "Median of the runs. All solvers begin with the same random codes; the published rules take them as they are, "
        "the others at their best scale. After the first iterations not every one is drawn, so a curve that goes up "
        "and down at every step shows only some of its steps. A curve that ends at the lower edge is within a "
        "millionth of the lowest objective found.",
    ),
    "components": FigurePlan(
        "Theorem 2: structure error and overlap of components",
        "",
        {
            "": (
                Axis("structure error (share of ‖XXᵀ‖)", log=True),
                Axis("mean cosine of two components (0 to 1)"),
                _overlap,
            )
        },
        "Each point is a fit; the line goes from small to large α. Theorem 2 is about both errors at once; from small "
        "to large α the structure error falls while the reconstruction error rises.",
    ),
}
