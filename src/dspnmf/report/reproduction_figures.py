# Pages write Greek letters and a real minus sign.
# ruff: noqa: RUF001
"""The figures of the comparison, each with sentences computed from the results it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean

from dspnmf.paper.protocol import (
    ALPHA_RANK,
    CURVE_LENGTH,
    CURVE_RANK,
    LAMBDA_RANK,
    PASSES,
    RANKS,
    RUNS,
    TABLE_METHODS,
    TABLE_SETS,
)
from dspnmf.paper.published import TASKS, published
from dspnmf.paper.results import Point, Results
from dspnmf.paper.tables import listed
from dspnmf.report.charts import Axis, Chart, Figure, Level, Series, View
from dspnmf.report.formatting import MISSING, power

SCORES = {"svm": "accuracy of the SVM (share)", "knn": "accuracy of 3-NN (share)", "kmeans": "NMI of k-means (0 to 1)"}
_SOLVERS = {"newton-cg": 0, "hals": 3, "mm": 5, "appendix rule": 6, "printed rule": 1}  # styles; the default first
_LOWEST = 1e-6  # of the convergence charts: curves below have converged
_RISE = 1.1  # an increase by less than a tenth is not called one

Marks = list[Series | Level]
Lines = Mapping[tuple[str, str], tuple[str, int]]  # of a sweep: (measurement, method) -> (name, style)
Draw = Callable[[str], Marks]  # what is drawn in the chart of a data set, by its name


def figures(results: Results) -> list[Figure]:
    """Every figure of the page, in its order."""
    return [
        rank_curves(results),
        lambda_sweep(results),
        alpha_sweep(results),
        convergence(results),
        components(results),
    ]


def rank_curves(results: Results) -> Figure:
    """Score of every method over the rank, by task."""
    text = (
        f"Means of up to {RUNS} runs; the band of a method, from its lowest to its highest run, appears when the "
        "method is pointed at. Dashed: all features, without reduction. Dotted: the mean the paper prints for DSP-NMF, "
        "over all ranks."
        if results.methods
        else "The runs behind the tables were not made."
    )
    x = Axis("rank (number of components)", ticks=RANKS)
    views = {label: (x, Axis(SCORES[task]), partial(_rank_curve, results, task)) for task, label in TASKS.items()}
    return _figure(results, "ranks", "Scores over the rank", (text,), views, "Task")


def _rank_curve(results: Results, task: str, dataset: str) -> Marks:
    methods = [method for method in results.methods if method != "All"]
    marks: Marks = [
        _banded(method, results.ranks(task, method, dataset), TABLE_METHODS.index(method)) for method in methods
    ]
    if everything := results.cell(task, "All", dataset):
        marks.append(Level("All (no reduction)", everything.mean))
    if methods and dataset in (printed := published(task)["DSP-NMF"]):
        marks.append(Level("DSP-NMF, published mean", printed[dataset].mean, faint=True))
    return marks


def lambda_sweep(results: Results) -> Figure:
    """Score over lambda, with the default solver and the printed rule."""
    x = Axis(f"λ (no unit), rank {LAMBDA_RANK}", log=True)
    names = {"DSP-NMF": ("default solver", 0), "DSP-NMF (printed rule)": ("printed rule", 1)}
    views = {
        label: (
            x,
            Axis(SCORES[task]),
            partial(_sweep, results, "lambda", {(task, m): name for m, name in names.items()}),
        )
        for task, label in TASKS.items()
    }
    return _figure(results, "lambda", "Scores over λ", _lambda_text(results), views, "Task")


def _lambda_text(results: Results) -> tuple[str, ...]:
    """How far scores move with lambda."""
    spans = []
    for method in ("DSP-NMF", "DSP-NMF (printed rule)"):
        sweeps = (results.sweep("lambda", task, method, d) for d in results.datasets for task in TASKS)
        means = [[point.mean for point in sweep] for sweep in sweeps if len(sweep) > 1]
        if not means:
            return ("The sweep of λ was not run.",)
        spans.append(max(max(found) - min(found) for found in means))
    default, printed = (f"{span:.3f}" if span >= 5e-4 else "0.0005" for span in spans)
    return (
        "λ is a unit: a factor in λ divides the codes by its root and changes nothing else. With the default solver no "
        f"mean score moves by more than {default} along the sweep. With the printed rule, whose start is not "
        f"scaled and which does not converge, mean scores move by up to {printed}. Lines are means of the "
        "runs, bands reach from the lowest to the highest run.",
    )


def alpha_sweep(results: Results) -> Figure:
    """Scores and both errors over alpha."""
    errors = {"structure_error": ("structure error", 3), "reconstruction_error": ("reconstruction error", 6)}
    scores = {task: (label, 2 * i) for i, (task, label) in enumerate(TASKS.items())}
    x = Axis(f"α in units of ‖X‖² / ‖XXᵀ‖², rank {ALPHA_RANK}", log=True)
    shown = {
        "Errors": (Axis("relative error (share of the norm)", log=True), errors),
        "Scores": (Axis("accuracy, NMI (0 to 1)"), scores),
    }
    views = {
        label: (x, y, partial(_sweep, results, "alpha", {(name, "DSP-NMF"): line for name, line in lines.items()}))
        for label, (y, lines) in shown.items()
    }
    return _figure(results, "alpha", "Fit against structure: α", _alpha_text(results), views, "Shown")


def _alpha_text(results: Results) -> tuple[str, ...]:
    """How both errors change along the sweep."""
    sentences = []
    for dataset in results.datasets:
        structure, fit = (
            results.sweep("alpha", name, "DSP-NMF", dataset) for name in ("structure_error", "reconstruction_error")
        )
        if len(structure) > 1 and len(fit) > 1:
            sentences.append(
                f"{dataset}: the structure error goes from {structure[0].mean:.3f} to {structure[-1].mean:.3f}, "
                f"the reconstruction error from {fit[0].mean:.3f} to {fit[-1].mean:.3f}."
            )
    if not sentences:
        return ("The sweep of α was not run.",)
    return (
        "α weighs the structure term. 0 is plain NMF; 1, in the unit of the axis, gives both terms the same weight at "
        "the outset. From the smallest to the largest α:",
        *sentences,
    )


def convergence(results: Results) -> Figure:
    """Excess of the objective over the lowest one, along iterations and along passes over X."""
    y = Axis("objective ÷ lowest objective − 1", log=True, low=_LOWEST)
    views = {
        label: (Axis(f"{words} (count), rank {CURVE_RANK}", log=True), y, partial(_descent, results, field))
        for label, field, words in (
            ("Iterations", "iteration", "iteration"),
            ("Passes over X", "passes", "passes over X"),
        )
    }
    text = _convergence_text(results)
    return _figure(results, "convergence", "How fast each solver converges", text, views, "Count")


def _descent(results: Results, field: str, dataset: str) -> Marks:
    curves = results.convergence(dataset)
    return [
        Series(
            solver,
            [getattr(step, field) for step in curves[solver]],
            [step.excess for step in curves[solver]],
            style=style,
        )
        for solver, style in _SOLVERS.items()
        if solver in curves
    ]


def _convergence_text(results: Results) -> tuple[str, ...]:
    """How to read the curves, and with which solvers the objective rose."""
    counts: dict[str, list[float]] = {}
    for dataset in results.datasets:
        for solver, count in results.rises(dataset).items():
            counts.setdefault(solver, []).append(count)
    if not counts:
        return ("The convergence curves were not run.",)
    never = [solver for solver, found in counts.items() if max(found) == 0]
    rose = [f"{max(found):.0f} ({solver})" for solver, found in counts.items() if max(found) > 0]
    rises_text = (
        f"The objective rose in up to {listed(rose)} of {CURVE_LENGTH} iterations."
        if rose
        else "The objective never rose."
    )
    if rose and never:
        rises_text += f" It never rose with {listed(never)}."
    return (
        "Median of the runs. All solvers begin with the same random codes; the published rules take them as they are, "
        "the others at their best scale. After the first iterations not every one is drawn, so a curve that goes up "
        "and down at every step shows only some of its steps. A curve that leaves at the bottom is within a millionth "
        "of the lowest objective found.",
        rises_text,
    )


def components(results: Results) -> Figure:
    """Theorem 2: how alike components are, against what is lost of the structure, along the sweep of alpha."""
    alphas = sorted({t.alpha for dataset in results.datasets for t in results.tradeoffs(dataset)})
    last = max(1, len(alphas) - 1)

    def draw(dataset: str) -> Marks:
        fits = {alpha: [t for t in results.tradeoffs(dataset) if t.alpha == alpha] for alpha in alphas}
        fits = {alpha: found for alpha, found in fits.items() if found}
        if not fits:
            return []
        marked = {min(fits), max(fits)}
        path = Series(
            "mean of the runs, from small to large α",
            [fmean(t.structure for t in found) for found in fits.values()],
            [fmean(t.correlation for t in found) for found in fits.values()],
            kind="path",
            notes=tuple(f"α = {power(alpha)}" for alpha in fits),
            marks=tuple(f"α = {power(alpha)}" if alpha in marked else "" for alpha in fits),
        )
        points = [
            Series(
                f"α = {power(alpha)}",
                [t.structure for t in found],
                [t.correlation for t in found],
                kind="points",
                ramp=alphas.index(alpha) / last,
                notes=tuple(f"reconstruction error {t.reconstruction:.3f}" for t in found),
            )
            for alpha, found in fits.items()
        ]
        return [path, *points]

    x, y = Axis("structure error (share of ‖XXᵀ‖)", log=True), Axis("mean cosine of two components (0 to 1)")
    text = components_text(results)
    return _figure(results, "components", "Theorem 2: structure kept, components apart", text, {"": (x, y, draw)})


def components_text(results: Results) -> tuple[str, ...]:
    """Whether the sweep of alpha shows what Theorem 2 says, a sentence for each data set."""
    sentences = [s for dataset in results.datasets if (s := _theorem_2(results, dataset))]
    if not sentences:
        return ("The sweep of α was not run.",)
    return (
        "Theorem 2: where both terms vanish, components do not overlap. It speaks of both errors at once; along the "
        "sweep one is paid for with the other.",
        *sentences,
    )


def _theorem_2(results: Results, dataset: str) -> str:
    """Where the components of a data set are least alike, and what happens beyond."""
    fits = results.tradeoffs(dataset)
    alphas = sorted({t.alpha for t in fits})
    if len(alphas) < 2:
        return ""
    correlation, structure, fit = (
        {alpha: fmean(getattr(t, name) for t in fits if t.alpha == alpha) for alpha in alphas}
        for name in ("correlation", "structure", "reconstruction")
    )
    first, last = alphas[0], alphas[-1]
    lowest = min(alphas, key=lambda alpha: correlation[alpha])
    if structure[lowest] >= structure[first]:
        return (
            f"{dataset}: components are least alike, with a mean cosine of {correlation[lowest]:.3f}, where the "
            f"structure error is {structure[lowest]:.3f}; here the sweep does not show what the theorem says."
        )
    text = (
        f"{dataset}: as the structure error falls from {structure[first]:.3f} to {structure[lowest]:.3f}, the mean "
        f"cosine of two components falls from {correlation[first]:.3f} to {correlation[lowest]:.3f}."
    )
    if correlation[last] < _RISE * correlation[lowest]:
        return text
    if fit[last] > _RISE * fit[lowest]:
        text += (
            " Beyond, structure is bought at the cost of fit: the reconstruction error grows from "
            f"{fit[lowest]:.3f} to {fit[last]:.3f},"
        )
        return f"{text} and the mean cosine rises again, to {correlation[last]:.3f}."
    return f"{text} Beyond, it rises again, to {correlation[last]:.3f}."


def rises_table(results: Results) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Headers and rows: the iterations in which the objective rose, by solver and data set with curves."""
    counts = {dataset: found for dataset in results.datasets if (found := results.rises(dataset))}
    return ["Solver", *counts], [
        (solver, [f"{found[solver]:.0f}" if solver in found else MISSING for found in counts.values()])
        for solver in sorted(PASSES, key=list(_SOLVERS).index)
    ]


def _figure(
    results: Results,
    identifier: str,
    title: str,
    text: tuple[str, ...],
    views: Mapping[str, tuple[Axis, Axis, Draw]],
    choice: str = "",
) -> Figure:
    """A figure of views, each with one chart for every data set; those that could not be run say why."""
    names = {*results.datasets, *results.absent}
    datasets = sorted(names, key=lambda s: (TABLE_SETS.index(s) if s in TABLE_SETS else len(TABLE_SETS), s))
    absent = {name: f"Not run: {why}" for name, why in results.absent.items() if name not in results.datasets}

    def chart(dataset: str, x: Axis, y: Axis, draw: Draw) -> Chart:
        marks = draw(dataset)
        series = tuple(mark for mark in marks if isinstance(mark, Series) and mark.x)
        levels = tuple(mark for mark in marks if isinstance(mark, Level))
        return Chart(dataset, x, y, series, levels, absent.get(dataset, Chart.empty))

    shown = (View(label, tuple(chart(dataset, *view) for dataset in datasets)) for label, view in views.items())
    return Figure(identifier, title, text, tuple(shown), choice)


def _sweep(results: Results, experiment: str, lines: Lines, dataset: str) -> Marks:
    """Lines over the setting of a sweep."""
    return [_banded(n, results.sweep(experiment, *what, dataset), style) for what, (n, style) in lines.items()]


def _banded(name: str, points: list[Point], style: int) -> Series:
    """Means as a line, lowest to highest run as a band."""
    at, mean, low, high = zip(*points, strict=True) if points else ((), (), (), ())
    return Series(name, at, mean, low=low, high=high, style=style)
