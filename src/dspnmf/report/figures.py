# Pages write Greek letters and a real minus sign.
# ruff: noqa: RUF001
"""The figures of the comparison: what is in `Results`, as charts. What they show is said by `findings`."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from dspnmf.paper.protocol import (
    ALPHA_RANK,
    CURVE_LENGTH,
    CURVE_RANK,
    LAMBDA_RANK,
    PASSES,
    RANKS,
    TABLE_METHODS,
    TABLE_SETS,
)
from dspnmf.paper.published import TASKS, published
from dspnmf.paper.results import Point, Results
from dspnmf.report import findings
from dspnmf.report.charts import Axis, Chart, Figure, Level, Series, View

SCORES = {"svm": "accuracy of the SVM (share)", "knn": "accuracy of 3-NN (share)", "kmeans": "NMI of k-means (0 to 1)"}
_SOLVERS = {"newton-cg": 0, "hals": 3, "mm": 5, "appendix rule": 6, "printed rule": 1}  # styles; the default first
_ALPHA = Axis("α in units of ‖X‖² / ‖XXᵀ‖²", log=True)
_BOTTOM = 1e-6  # of the convergence charts: what lies below is done

Draw = Callable[[str], tuple[tuple[Series, ...], tuple[Level, ...]]]


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

    def draw(task: str) -> Draw:
        def one(dataset: str) -> tuple[tuple[Series, ...], tuple[Level, ...]]:
            methods = [method for method in results.methods if method != "All"]
            series = [
                _banded(method, results.ranks(task, method, dataset), TABLE_METHODS.index(method)) for method in methods
            ]
            levels = []
            if everything := results.cell(task, "All", dataset):
                levels.append(Level("All (no reduction)", everything.mean))
            if series and dataset in (printed := published(task)["DSP-NMF"]):
                levels.append(Level("DSP-NMF, published mean", printed[dataset].mean, faint=True))
            return tuple(filter(lambda s: s.x, series)), tuple(levels)

        return one

    axis = Axis("rank (number of components)", ticks=tuple(map(float, RANKS)))
    return Figure(
        "ranks",
        "Scores over the rank",
        findings.of_ranks(results),
        tuple(View(label, _charts(results, axis, Axis(SCORES[task]), draw(task))) for task, label in TASKS.items()),
        "Task",
    )


def lambda_sweep(results: Results) -> Figure:
    """Score over lambda, with the default solver and the printed rule."""
    names = {"DSP-NMF": ("default solver", 0), "DSP-NMF (printed rule)": ("printed rule", 1)}

    def draw(task: str) -> Draw:
        def one(dataset: str) -> tuple[tuple[Series, ...], tuple[Level, ...]]:
            series = (
                _banded(name, results.sweep("lambda", task, method, dataset), style)
                for method, (name, style) in names.items()
            )
            return tuple(filter(lambda s: s.x, series)), ()

        return one

    axis = Axis(f"λ (no unit), rank {LAMBDA_RANK}", log=True)
    return Figure(
        "lambda",
        "Scores over λ",
        findings.of_lambda(results),
        tuple(View(label, _charts(results, axis, Axis(SCORES[task]), draw(task))) for task, label in TASKS.items()),
        "Task",
    )


def alpha_sweep(results: Results) -> Figure:
    """Scores and both errors over alpha."""
    errors = {"structure_error": ("structure error", 3), "reconstruction_error": ("reconstruction error", 6)}
    scores = {task: (label, 2 * i) for i, (task, label) in enumerate(TASKS.items())}

    def draw(names: dict[str, tuple[str, int]]) -> Draw:
        def one(dataset: str) -> tuple[tuple[Series, ...], tuple[Level, ...]]:
            series = (
                _banded(label, results.sweep("alpha", name, "DSP-NMF", dataset), style)
                for name, (label, style) in names.items()
            )
            return tuple(filter(lambda s: s.x, series)), ()

        return one

    axis = Axis(f"{_ALPHA.label}, rank {ALPHA_RANK}", log=True)
    views = {
        "Errors": (Axis("relative error (share of the norm)", log=True), draw(errors)),
        "Scores": (Axis("accuracy, NMI (0 to 1)"), draw(scores)),
    }
    return Figure(
        "alpha",
        "Fit against structure: α",
        findings.of_alpha(results),
        tuple(View(label, _charts(results, axis, y, one)) for label, (y, one) in views.items()),
        "Shown",
    )


def convergence(results: Results) -> Figure:
    """Excess of the objective over the lowest one, along iterations and along passes over X."""

    def draw(field: str) -> Draw:
        def one(dataset: str) -> tuple[tuple[Series, ...], tuple[Level, ...]]:
            curves = results.convergence(dataset)
            series = (
                Series(
                    solver,
                    tuple(float(getattr(step, field)) for step in curves[solver]),
                    tuple(step.excess for step in curves[solver]),
                    style=style,
                )
                for solver, style in _SOLVERS.items()
                if solver in curves
            )
            return tuple(series), ()

        return one

    y = Axis("objective ÷ lowest objective − 1", log=True, low=_BOTTOM)
    views = {"Iterations": ("iteration", "iteration"), "Passes over X": ("passes", "passes over X")}
    return Figure(
        "convergence",
        "How fast each solver converges",
        findings.of_convergence(results, CURVE_LENGTH),
        tuple(
            View(label, _charts(results, Axis(f"{words} (count), rank {CURVE_RANK}", log=True), y, draw(field)))
            for label, (field, words) in views.items()
        ),
        "Count",
    )


def components(results: Results) -> Figure:
    """Theorem 2: how alike components are, against what is lost of the structure, along the sweep of alpha."""
    alphas = sorted({t.alpha for dataset in results.datasets for t in results.tradeoffs(dataset)})
    last = max(1, len(alphas) - 1)

    def one(dataset: str) -> tuple[tuple[Series, ...], tuple[Level, ...]]:
        fits = {alpha: [t for t in results.tradeoffs(dataset) if t.alpha == alpha] for alpha in alphas}
        fits = {alpha: found for alpha, found in fits.items() if found}
        if not fits:
            return (), ()
        marked = {min(fits), max(fits)}
        path = Series(
            "mean of the runs, from small to large α",
            tuple(fmean(t.structure for t in found) for found in fits.values()),
            tuple(fmean(t.correlation for t in found) for found in fits.values()),
            kind="path",
            notes=tuple(f"α = {power(alpha)}" for alpha in fits),
            marks=tuple(f"α = {power(alpha)}" if alpha in marked else "" for alpha in fits),
        )
        points = [
            Series(
                f"α = {power(alpha)}",
                tuple(t.structure for t in found),
                tuple(t.correlation for t in found),
                kind="points",
                ramp=alphas.index(alpha) / last,
                notes=tuple(f"reconstruction error {t.reconstruction:.3f}" for t in found),
            )
            for alpha, found in fits.items()
        ]
        return (path, *points), ()

    x, y = Axis("structure error (share of ‖XXᵀ‖)", log=True), Axis("mean cosine of two components (0 to 1)")
    return Figure(
        "components",
        "Theorem 2: structure kept, components apart",
        findings.of_components(results),
        (View("", _charts(results, x, y, one)),),
    )


def rises(results: Results) -> list[tuple[str, list[str]]]:
    """Solver, and on each data set with curves in how many iterations its objective rose."""
    counts = {dataset: results.rises(dataset) for dataset in with_curves(results)}
    return [
        (solver, [f"{found[solver]:.0f}" if solver in found else "\N{EN DASH}" for found in counts.values()])
        for solver in sorted(PASSES, key=list(_SOLVERS).index)
    ]


def with_curves(results: Results) -> list[str]:
    """Data sets that have convergence curves."""
    return [dataset for dataset in results.datasets if results.rises(dataset)]


def power(value: float) -> str:
    """A power of ten as it is written by hand.

    >>> power(0.001), power(1.0), power(0.0)
    ('10⁻³', '1', '0')
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:e}".split("e")
    if float(mantissa) != 1 or int(exponent) in (0, 1):
        return f"{value:g}"
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _charts(results: Results, x: Axis, y: Axis, draw: Draw) -> tuple[Chart, ...]:
    """One chart for every data set; those that could not be run say why."""
    shown = results.datasets
    absent = [name for name in results.absent if name not in shown]
    order = sorted([*shown, *absent], key=lambda s: (TABLE_SETS.index(s) if s in TABLE_SETS else len(TABLE_SETS), s))
    return tuple(
        Chart(dataset, x, y, *draw(dataset), empty=f"Not run: {results.absent[dataset]}")
        if dataset in absent
        else Chart(dataset, x, y, *draw(dataset))
        for dataset in order
    )


def _banded(name: str, points: list[Point], style: int) -> Series:
    """Means as a line, lowest to highest run as a band."""
    at, mean, low, high = zip(*points, strict=True) if points else ((), (), (), ())
    return Series(name, at, mean, low=low, high=high, style=style)
