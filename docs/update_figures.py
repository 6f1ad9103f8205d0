"""Writes the figures of the committed run into the pages, between `<!--name-->` and `<!--/-->` (``make readme``).

A name is one of FIGURES, or "mean MEASUREMENT METHOD": the average over the data sets of a method's mean.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).parent))
from dspnmf.paper.protocol import ALPHA_RANK
from dspnmf.paper.published import TASKS, published
from dspnmf.paper.results import Results
from dspnmf.paper.summary import scores
from dspnmf.paper.summary_rows import MARGIN, ROUNDING, compared_with_family, reached
from dspnmf.paper.tables import STATISTICS, average, listed, shared_datasets, tables
from update_reproduction import committed_results

DOCS = Path(__file__).parent
NAMES = (
    "claims.md",
    "mathematics.md",
    "faq.md",
    "guide/selection.md",
    "guide/methods.md",
    "guide/components.md",
    "guide/structure.md",
)
PAGES = tuple(DOCS / name for name in NAMES)
FAMILY = ("GNMF", "SymNMF", "SDNMF", "DSP-NMF")
MANIFOLD = ("UMAP", "LLE", "SE")
PRINTED_RULE = "DSP-NMF (printed rule)"
_MARKED = re.compile(r"<!--([a-z0-9_]+|mean [^>]+)-->.*?<!--/-->")


def updated(text: str, results: Results) -> str:
    """The page with the figures of these results."""
    return _MARKED.sub(lambda found: f"<!--{found[1]}-->{figure(found[1], results)}<!--/-->", text)


def figure(name: str, results: Results) -> str:
    """The text of one figure."""
    if name.startswith("mean "):
        _, measured, method = name.split(" ", 2)
        cells = [cell for data in results.datasets if (cell := results.cell(measured, method, data))]
        return f"{fmean(cell.mean for cell in cells):.3f}" if cells else "n/a"
    return FIGURES[name](results)


def cells_reached(results: Results) -> str:
    """Cells of DSP-NMF at the published value."""
    cells = scores(results)
    return f"{sum(cell.met for cell in cells)} of {len(cells)}"


def table_reached(task: str, results: Results) -> str:
    """Cells of every method at the published value, in one table."""
    found = []
    for method, row in published(task).items():
        pairs = [
            (getattr(cell, statistic), getattr(row[data], statistic))
            for data in shared_datasets(results)
            for statistic in STATISTICS
            if (cell := results.cell(task, method, data))
        ]
        if pairs:
            found.append(f"{method} {sum(ours >= theirs - MARGIN - ROUNDING for ours, theirs in pairs)}")
    return f"{listed(found)} of {2 * len(shared_datasets(results))}"


def first_places(number: int, results: Results) -> str:
    """First places of DSP-NMF and of who has most, in Table 4 or 5 of our runs."""
    table = tables(results)[number - 1]
    texts = []
    for column in table.columns:
        counts = {row: table.entries[row, column].ours or 0 for row in table.rows}
        first = [row for row in counts if counts[row] == max(counts.values())]
        texts.append(
            f"{' '.join(column)}: DSP-NMF {counts['DSP-NMF']:g}, most {max(counts.values()):g} ({listed(first)})"
        )
    return "; ".join(texts)


def averages_above(results: Results) -> str:
    """Averages in which DSP-NMF is above all of the paper's other NMF methods, in our runs."""
    won, lost = [], []
    for task in TASKS:
        for statistic in STATISTICS:
            values = {m: getattr(cell, statistic) for m in FAMILY if (cell := average(results, task, m)[0])}
            (won if max(values, key=values.__getitem__) == "DSP-NMF" else lost).append(f"{TASKS[task]} {statistic}")
    return f"above all in {listed(won)}, not in {listed(lost)}"


def best_lambda(results: Results) -> str:
    """The scores of the printed rule at the paper's lambda, and where they are highest."""
    means = {}
    for setting in sorted({p.at for d in results.datasets for p in results.sweep("lambda", "svm", PRINTED_RULE, d)}):
        means[setting] = fmean(
            p.mean
            for data in results.datasets
            for task in TASKS
            for p in results.sweep("lambda", task, PRINTED_RULE, data)
            if p.at == setting
        )
    best = max(means, key=means.__getitem__)
    return (
        f"the average of the three scores of the printed rule is highest at lambda = {best:g} ({means[best]:.3f}); at "
        f"100 and 1000 it is {means[100.0]:.3f} and {means[1000.0]:.3f}"
    )


def lambda_changes(method: str, results: Results) -> str:
    """The largest change of a score with lambda."""
    changes = []
    for data in results.datasets:
        for task in TASKS:
            if means := [p.mean for p in results.sweep("lambda", task, method, data)]:
                changes.append(max(means) - min(means))
    return f"{max(changes):.3f}" if max(changes) >= 0.001 else "less than 0.001"


def rises(results: Results) -> str:
    """Rises of the printed rule."""
    return f"{fmean(results.rises(data)['printed rule'] for data in results.datasets):.0f}"


def after_a_hundred(results: Results) -> str:
    """How far the printed rule is from the lowest objective after some 100 iterations."""
    found = []
    for data in results.datasets:
        steps = results.convergence(data)["printed rule"]
        found.append(1 + min(steps, key=lambda step: abs(step.iteration - 100)).excess)
    return f"{min(found):,.0f} to {max(found):,.0f}"


def rising_with_rank(results: Results) -> str:
    """For how many methods and data sets the score at the highest rank is above that at rank 2."""
    found = []
    for task, label in TASKS.items():
        curves = [results.ranks(task, m, data) for m in FAMILY for data in shared_datasets(results)]
        curves = [points for points in curves if points]
        found.append(f"{sum(points[-1].mean > points[0].mean for points in curves)} of {len(curves)} ({label})")
    return listed(found)


def at_all_features(method: str, results: Results) -> str:
    """Data sets on which the best rank of a method is at least as good as all features, by task."""
    found = []
    for task, label in TASKS.items():
        best = [
            max(p.mean for p in results.ranks(task, method, data)) >= cell.mean
            for data in shared_datasets(results)
            if (cell := results.cell(task, "All", data)) and results.ranks(task, method, data)
        ]
        found.append(f"{sum(best)} ({label})")
    return f"{listed(found)} of {len(shared_datasets(results))}"


def small_and_large_ranks(results: Results) -> str:
    """Mean of the three scores at ranks 2 and 3, and above."""
    found = []
    for method in FAMILY:
        points = [p for t in TASKS for d in shared_datasets(results) for p in results.ranks(t, method, d)]
        small, large = (fmean(p.mean for p in points if (p.at <= 3) is low) for low in (True, False))
        found.append(f"{method} {small:.2f} and {large:.2f}")
    return listed(found)


def hardest_and_easiest(results: Results) -> str:
    """Data sets with the lowest and the highest mean of the NMF methods: all ranks, and ranks 2 to 5."""
    found = []
    for task, label in TASKS.items():
        names = []
        for most in (20, 5):
            means = {
                data: fmean(p.mean for m in FAMILY for p in results.ranks(task, m, data) if p.at <= most)
                for data in shared_datasets(results)
            }
            names.append((min(means, key=means.__getitem__), max(means, key=means.__getitem__)))
        found.append(f"{label} {names[0][0]} and {names[0][1]} (ranks to 5: {names[1][0]} and {names[1][1]})")
    return "; ".join(found)


def first_by_rank(low: int, high: int, results: Results) -> str:
    """On how many data sets each method has the highest mean over some ranks, by task."""
    found = []
    for task, label in TASKS.items():
        counts: Counter[str] = Counter()
        for data in shared_datasets(results):
            means = {}
            for method in (*FAMILY, *MANIFOLD):
                if points := [p.mean for p in results.ranks(task, method, data) if low <= p.at <= high]:
                    means[method] = fmean(points)
            counts[max(means, key=means.__getitem__)] += 1
        found.append(f"{label}: {listed(f'{method} {count}' for method, count in counts.most_common())}")
    return "; ".join(found)


def overlaps(results: Results) -> str:
    """Mean cosine of two components, averaged over the data sets."""
    found = []
    for method in ("DSP-NMF", "NMF", "GNMF"):
        cells = [results.cell("component_correlation", method, data) for data in shared_datasets(results)]
        found.append(f"{method} {fmean(cell.mean for cell in cells if cell):.2f}")
    return listed(found)


def theorem_2(results: Results) -> str:
    """The rank correlations of overlap and the sum of both errors, along the sweep of alpha."""
    found = []
    for data in results.datasets:
        fits = results.tradeoffs(data)
        found.append(spearmanr([f.reconstruction + f.structure for f in fits], [f.correlation for f in fits])[0])
    return f"{min(found):.2f} to {max(found):.2f}"


def overlap_and_scores(results: Results) -> str:
    """The rank correlations of overlap and scores, along the sweep of alpha."""
    found = []
    for data in results.datasets:
        fits = {(run.setting, run.repeat): values for run, values in _alpha_runs(results, data).items()}
        for task in TASKS:
            pairs = [(values["component_correlation"], values[task]) for values in fits.values()]
            found.append(float(spearmanr(*zip(*pairs, strict=True))[0]))
    return f"{min(found):.2f} to {max(found):.2f} (rank {ALPHA_RANK})"


def alpha_scores(results: Results) -> dict[float, float]:
    """The average of the three scores over the data sets, for every weight."""
    found: dict[float, list[float]] = {}
    for data in results.datasets:
        for task in TASKS:
            for point in results.sweep("alpha", task, "DSP-NMF", data):
                found.setdefault(point.at, []).append(point.mean)
    return {alpha: fmean(values) for alpha, values in found.items()}


def alpha_best(results: Results) -> str:
    """The weight with the best scores."""
    means = alpha_scores(results)
    best = max(means, key=means.__getitem__)
    return f"{best:g} ({means[best]:.3f}; {means[0.0]:.3f} at 0)"


def alpha_range(results: Results) -> str:
    """The lowest and the highest average of any weight."""
    means = alpha_scores(results).values()
    return f"{min(means):.3f} and {max(means):.3f}"


def alpha_span(results: Results) -> str:
    """Errors without structure and with the largest weight."""
    ends = []
    for pick in (min, max):
        chosen = [
            fit
            for data in results.datasets
            for fit in results.tradeoffs(data)
            if fit.alpha == pick(t.alpha for t in results.tradeoffs(data))
        ]
        ends.append((fmean(fit.reconstruction for fit in chosen), fmean(fit.structure for fit in chosen)))
    (fit, structure), (fit_end, structure_end) = ends
    return (
        f"the reconstruction error goes from {fit:.3f} to {fit_end:.3f}, the structure error from {structure:.3f} to "
        f"{structure_end:.3f}"
    )


def alpha_row(weight: float, results: Results) -> str:
    """Errors of similarities and of the reconstruction and the average score with a weight, as cells of a table."""
    fits = [fit for data in results.datasets for fit in results.tradeoffs(data) if fit.alpha == weight]
    structure, reconstruction = fmean(fit.structure for fit in fits), fmean(fit.reconstruction for fit in fits)
    return f"{structure:.3f} | {reconstruction:.3f} | {alpha_scores(results)[weight]:.3f}"


def _alpha_runs(results: Results, data: str) -> dict:
    """Measurements of the runs of the experiment on alpha."""
    found: dict = {}
    for run, name, value in results.measurements:
        if (run.experiment, run.dataset) == ("alpha", data):
            found.setdefault(run, {})[name] = value
    return found


FIGURES: dict[str, Callable[[Results], str]] = {
    "cells_reached": cells_reached,
    **{f"{task}_table": lambda results, task=task: table_reached(task, results) for task in TASKS},
    "table4": lambda results: first_places(4, results),
    "table5": lambda results: first_places(5, results),
    "averages_above": averages_above,
    "best_lambda": best_lambda,
    "lambda_default": lambda results: lambda_changes("DSP-NMF", results),
    "lambda_printed": lambda results: lambda_changes(PRINTED_RULE, results),
    "rises": rises,
    "after_a_hundred": after_a_hundred,
    "rising_with_rank": rising_with_rank,
    "dsp_all": lambda results: at_all_features("DSP-NMF", results),
    "sym_all": lambda results: at_all_features("SymNMF", results),
    "small_and_large_ranks": small_and_large_ranks,
    "hardest_and_easiest": hardest_and_easiest,
    "small_ranks": lambda results: first_by_rank(2, 3, results),
    "large_ranks": lambda results: first_by_rank(9, 20, results),
    "overlaps": overlaps,
    "theorem_2": theorem_2,
    "overlap_and_scores": overlap_and_scores,
    "alpha_span": alpha_span,
    **{f"alpha_{weight:g}": lambda results, weight=weight: alpha_row(weight, results) for weight in (0.0, 100.0, 1e5)},
    "alpha_best": alpha_best,
    "alpha_range": alpha_range,
    "umap_reached": reached,
    "family": lambda results: " ".join(compared_with_family(results)),
}

if __name__ == "__main__":
    results = committed_results()
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(f"wrote the figures of {listed(NAMES)}")
