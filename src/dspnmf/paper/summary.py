"""The comparison in sentences, all computed from the numbers: what is reached, what is not and why, what was not run.

A cell is one score of DSP-NMF (default solver) on one data set in one task, mean or max. It is reached where ours is at
most 0.01 below the published value. The likely reason for one that is not is the first of these that the results
support: fewer runs than the paper's; a difference that all features, without reduction, show as well; a variation
between runs that is larger than the difference; a printed rule that reaches the value without converging.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import NamedTuple

from dspnmf.paper.protocol import RUNS, ranks_of
from dspnmf.paper.published import DATASETS, TASKS, Cell, disagreements, published
from dspnmf.paper.results import Results
from dspnmf.paper.summary_experiments import experiments
from dspnmf.paper.summary_rows import MARGIN, ROUNDING, ROWS, compared_with_family, compared_with_umap, reached
from dspnmf.paper.tables import STATISTICS, average, extent, listed, shared_datasets

OURS = "DSP-NMF"
PRINTED_RULE = "DSP-NMF (printed rule)"
_PUBLISHED_METHODS = ("GNMF", "SymNMF", "SDNMF")
_OWN_METHODS = (*ROWS[1:], "NMF", "GNMF", "GNMF (published rule)", "SymNMF", "SDNMF", "NS-NMF")


def _section(title: str) -> tuple[str, ...]:
    """A section of the summary: no sentences by default, and its title."""
    return field(default=(), metadata={"title": title})


@dataclass(frozen=True)
class Summary:
    """The sentences of the summary, by section."""

    headline: str
    met: tuple[str, ...] = _section("Where DSP-NMF reaches the published value")
    short: tuple[str, ...] = _section("Where it does not, and the likely reason")
    umap: tuple[str, ...] = _section("Best scores, compared with UMAP")
    family: tuple[str, ...] = _section("Diffused similarities, compared with other NMF methods")
    averages: tuple[str, ...] = _section("Averages, compared with other methods")
    experiments: tuple[str, ...] = _section("Further experiments")
    not_run: tuple[str, ...] = _section("What was not run")
    paper_disagreements: tuple[str, ...] = _section("Where the paper contradicts itself")

    def sections(self) -> dict[str, tuple[str, ...]]:
        """Sentences by title, of the sections that have any."""
        found = {one.metadata["title"]: getattr(self, one.name) for one in fields(self) if one.metadata}
        return {title: sentences for title, sentences in found.items() if sentences}

    def markdown(self) -> str:
        """The whole summary as Markdown."""
        parts = [f"# Summary\n\n{self.headline}\n"]
        for title, sentences in self.sections().items():
            parts.append(f"## {title}\n\n" + "".join(f"- {sentence}\n" for sentence in sentences))
        return "\n".join(parts)


class Score(NamedTuple):
    """One cell of DSP-NMF that the paper has too."""

    task: str
    data: str
    statistic: str
    ours: float
    published: float

    @property
    def met(self) -> bool:
        """Whether ours is at most 0.01 below the published value."""
        return self.ours >= self.published - MARGIN - ROUNDING

    def of(self, cell: Cell | None) -> float | None:
        """The same statistic, mean or max, of another method's cell."""
        return cell and getattr(cell, self.statistic)


def summary(results: Results) -> Summary:
    """The whole comparison in sentences."""
    cells = scores(results)
    return Summary(
        headline=_headline(results, cells),
        met=tuple(sentence for task in TASKS for sentence in _met(task, cells)),
        short=tuple(_short(results, cell) for cell in cells if not cell.met),
        averages=tuple(s for task in TASKS for statistic in STATISTICS for s in _average(results, task, statistic)),
        umap=tuple(compared_with_umap(results)),
        family=tuple(compared_with_family(results)),
        experiments=experiments(results),
        not_run=tuple(_not_run(results)),
        paper_disagreements=tuple(disagreements()),
    )


def scores(results: Results) -> list[Score]:
    """Every cell of DSP-NMF with a published value, by task and data set."""
    return [
        Score(task, data, statistic, getattr(cell, statistic), getattr(published(task)[OURS][data], statistic))
        for task in TASKS
        for data in shared_datasets(results)
        if (cell := results.cell(task, OURS, data))
        for statistic in STATISTICS
    ]


def _headline(results: Results, cells: list[Score]) -> str:
    """How many cells reach the published value, of how many."""
    if not cells:
        return f"There are no results of {OURS} to compare yet."
    met, sets = sum(cell.met for cell in cells), list(dict.fromkeys(cell.data for cell in cells))
    text = (
        f"{OURS} (default solver) reaches the published value, or is at most {MARGIN} below it, in {met} of "
        f"{len(cells)} cells: mean and max of three tasks on {listed(sets)}, over {extent(results)}."
    )
    return f"{text} {reached(results)}".rstrip()


def _met(task: str, cells: list[Score]) -> list[str]:
    """The cells of a task that reach the published value, in one sentence."""
    met = [cell for cell in cells if cell.task == task and cell.met]
    found = [f"{cell.data} {cell.statistic} {cell.ours:.3f} ({cell.published:.2f})" for cell in met]
    total = sum(cell.task == task for cell in cells)
    return (
        [f"{TASKS[task]}, {len(met)} of {total} cells (published values in brackets): {listed(found)}."] if met else []
    )


def _short(results: Results, cell: Score) -> str:
    """A cell below the published value, with its likely reason."""
    below = cell.published - cell.ours
    what = f"{TASKS[cell.task]} on {cell.data}, {cell.statistic}: {cell.ours:.3f}, published {cell.published:.2f}"
    reasons = (_few_runs, _lower_without_reduction, _within_variation, _not_converged)
    reason = next((text for explain in reasons if (text := explain(results, cell))), _unexplained(results, cell))
    return f"{what} ({below:.3f} below). {reason}"


def _few_runs(results: Results, cell: Score) -> str:
    """Reason: fewer ranks or runs than in the paper."""
    ranks = [int(point.at) for point in results.ranks(cell.task, OURS, cell.data)]
    runs, theirs = len(_by_repeat(results, cell)), ranks_of(cell.data)
    if set(ranks) >= set(theirs) and runs >= RUNS:
        return ""
    made = f"Only ranks {listed(ranks)} and {runs} run{'s' * (runs > 1)} were made"
    return f"{made}, where the paper has ranks {listed(theirs)} and {RUNS} runs."


def _lower_without_reduction(results: Results, cell: Score) -> str:
    """Reason: all features score lower than published as well, which no method can cause."""
    here, there = (
        cell.of(c) for c in (results.cell(cell.task, "All", cell.data), published(cell.task)["All"][cell.data])
    )
    if here is None or there is None or there - here <= MARGIN:
        return ""
    gap = there - here
    share = "the whole difference" if gap >= cell.published - cell.ours else f"{gap:.3f} of the difference"
    reason = f"All features, without reduction, score {here:.3f} here and {there:.2f} in the paper, so {share} is not "
    reason += "due to the method."
    if gap > 5 * MARGIN:
        reason += " The published column is not reproducible with the protocol as described."
    return reason


def _within_variation(results: Results, cell: Score) -> str:
    """Reason: our runs differ from each other by more than the difference."""
    values = _by_repeat(results, cell)
    if not values or cell.published - cell.ours > max(values) - min(values):
        return ""
    kind = "averages" if cell.statistic == "mean" else "maxima"
    return (
        f"The {kind} of our {len(values)} runs lie between {min(values):.3f} and {max(values):.3f}, so the difference "
        "is within the variation between random starts."
    )


def _not_converged(results: Results, cell: Score) -> str:
    """Reason: the printed rule, stopped before it converges, reaches the published value."""
    printed = cell.of(results.cell(cell.task, PRINTED_RULE, cell.data))
    if printed is None or printed < cell.published - MARGIN:
        return ""
    return (
        f"The printed rule, which does not converge, reaches {printed:.3f}, so the published value may be that of "
        "codes that do not minimise the objective."
    )


def _unexplained(results: Results, cell: Score) -> str:
    """No reason found; other scores that may help the reader."""
    known = []
    for method, name in (("NMF", "plain NMF"), (PRINTED_RULE, "the printed rule")):
        if found := cell.of(results.cell(cell.task, method, cell.data)):
            known.append(f"{name} {found:.3f}")
    others = f" Scores with the same ranks and runs: {listed(known)}." if known else ""
    ranks = sorted(results.ranks(cell.task, OURS, cell.data), key=lambda point: point.mean)
    if cell.statistic == "mean" and len(ranks) > 1:
        low, high = (f"{point.mean:.3f} (rank {point.at:.0f})" for point in (ranks[0], ranks[-1]))
        others += f" The means of single ranks lie between {low} and {high}."
    return f"Our results do not explain it: the difference is larger than the variation between runs.{others}"


def _by_repeat(results: Results, cell: Score) -> list[float]:
    """The value of the cell in each of our runs."""
    found = defaultdict(list)
    for run, name, value in results.measurements:
        if (run.experiment, run.dataset, run.method, name) == ("tables", cell.data, OURS, cell.task):
            found[run.repeat].append(value)
    return [fmean(values) if cell.statistic == "mean" else max(values) for values in found.values()]


def _average(results: Results, task: str, statistic: str) -> list[str]:
    """Our average compared with the published ones of other methods, and with our own runs of them and of our rows."""
    mine = average(results, task, OURS)[0]
    if mine is None:
        return []
    value, kind = getattr(mine, statistic), {"mean": "means", "max": "maxima"}[statistic]
    sentence = f"{TASKS[task]}, average of the {kind} over {listed(shared_datasets(results))}: {OURS} {value:.3f}."
    sources = (("the published averages", _PUBLISHED_METHODS, 1), ("our own runs", _OWN_METHODS, 0))
    for source, methods, side in sources:
        others = {m: getattr(c, statistic) for m in methods if (c := average(results, task, m)[side])}
        above = [f"{name} ({other:.3f})" for name, other in others.items() if value > other]
        below = [f"{name} ({other:.3f})" for name, other in others.items() if value <= other]
        parts = [f"{word} {listed(names)}" for word, names in (("above", above), ("not above", below)) if names]
        if parts:
            sentence += f" Compared with {source} it is {' and '.join(parts)}."
    return [sentence]


def _not_run(results: Results) -> list[str]:
    """Data sets, methods and runs that are missing, with the reason."""
    sentences = [f"{data}: {reason}" for data, reason in results.absent.items()]
    if left := [data for data in DATASETS if data not in results.datasets and data not in results.absent]:
        sentences.append(f"{listed(left)}: not part of this run.")
    if results.methods and (missing := [m for m in published("svm") if m not in results.methods]):
        sentences.append(f"{listed(missing)}: no results in this run; only their published values are shown.")
    errors = Counter((run.dataset, run.method, (error.splitlines() or [""])[0]) for run, error in results.failures)
    for (data, method, error), count in sorted(errors.items()):
        sentences.append(f"{method} on {data}: {count} run{'s' * (count > 1)} failed with {error}")
    return sentences
