"""The comparison in sentences, every one computed from the numbers: what is met, what is not and why, what was not run.

A cell is one score of DSP-NMF (default solver) on one data set in one task, mean or max. It is met where ours is at
most 0.01 below the published value. The likely reason of a cell that is not met is the first of these that the results
support: fewer runs than the paper's; a difference that the data without any reduction show as well; a spread between
single runs that is larger than the difference; a rule as printed that reaches the value without converging.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from dspnmf.paper.experiments import experiments
from dspnmf.paper.protocol import RUNS
from dspnmf.paper.published import DATASETS, TASKS, disagreements, published
from dspnmf.paper.results import Results
from dspnmf.paper.tables import STATISTICS, average, compared, extent, listed, ranks_of

OURS = "DSP-NMF"
MARGIN = 0.01
_ROUNDING = 1e-9
_PUBLISHED_RIVALS = ("GNMF", "SymNMF", "SDNMF")
_OWN_RIVALS = ("NMF", "GNMF", "GNMF (published rule)", "SymNMF", "SDNMF", "NS-NMF")
_SECTIONS = {
    "met": "Where ours meets or beats the published value",
    "short": "Where it does not, and the likely reason",
    "averages": "Averages, against other methods",
    "experiments": "Beside the tables",
    "not_run": "What was not run",
    "paper_disagreements": "Where the paper disagrees with itself",
}


@dataclass(frozen=True)
class Summary:
    """Sentences, by what they are about.

    >>> print(Summary("All is well.", met=("One cell is met.",)).markdown())
    # Summary
    <BLANKLINE>
    All is well.
    <BLANKLINE>
    ## Where ours meets or beats the published value
    <BLANKLINE>
    - One cell is met.
    <BLANKLINE>
    """

    headline: str
    met: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    averages: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    paper_disagreements: tuple[str, ...] = ()

    def sections(self) -> dict[str, tuple[str, ...]]:
        """Title -> sentences, of the parts that have any."""
        return {title: getattr(self, name) for name, title in _SECTIONS.items() if getattr(self, name)}

    def markdown(self) -> str:
        """All of it as a page."""
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
        """At most 0.01 below."""
        return self.ours >= self.published - MARGIN - _ROUNDING


def summary(results: Results) -> Summary:
    """The whole comparison in sentences; of no results it says so.

    >>> from dspnmf.paper.results import Results
    >>> summary(Results(())).headline
    'There are no results of DSP-NMF to compare yet.'
    """
    cells = scores(results)
    return Summary(
        headline=_headline(results, cells),
        met=tuple(sentence for task in TASKS for sentence in _met(task, cells)),
        short=tuple(_short(results, cell) for cell in cells if not cell.met),
        averages=tuple(s for task in TASKS for statistic in STATISTICS for s in _average(results, task, statistic)),
        experiments=experiments(results),
        not_run=tuple(_not_run(results)),
        paper_disagreements=tuple(disagreements()),
    )


def scores(results: Results) -> list[Score]:
    """Every cell of DSP-NMF with a published value, by task and data set.

    >>> from dspnmf.paper.results import Results
    >>> scores(Results(()))
    []
    """
    return [
        Score(task, data, statistic, getattr(cell, statistic), getattr(published(task)[OURS][data], statistic))
        for task in TASKS
        for data in compared(results)
        if (cell := results.cell(task, OURS, data))
        for statistic in STATISTICS
    ]


def _headline(results: Results, cells: list[Score]) -> str:
    """How many cells are met, of how many."""
    if not cells:
        return f"There are no results of {OURS} to compare yet."
    met, sets = sum(cell.met for cell in cells), list(dict.fromkeys(cell.data for cell in cells))
    return (
        f"{OURS} (default solver) reaches the published value, or is at most {MARGIN} below it, in {met} of "
        f"{len(cells)} cells: mean and max of three tasks on {listed(sets)}. Each is taken over {extent(results)}."
    )


def _met(task: str, cells: list[Score]) -> list[str]:
    """One sentence a task."""
    met = [cell for cell in cells if cell.task == task and cell.met]
    found = [f"{cell.data} {cell.statistic} {cell.ours:.3f} ({cell.published:.2f})" for cell in met]
    total = sum(cell.task == task for cell in cells)
    return [f"{TASKS[task]}, {len(met)} of {total}, published value in brackets: {listed(found)}."] if met else []


def _short(results: Results, cell: Score) -> str:
    """A cell that is not met, with its likely reason."""
    below = cell.published - cell.ours
    what = f"{TASKS[cell.task]} on {cell.data}, {cell.statistic}: {cell.ours:.3f}, published {cell.published:.2f}"
    reasons = (_few_runs, _already_without_reduction, _within_the_spread, _not_converged)
    reason = next((text for explain in reasons if (text := explain(results, cell))), _unknown(results, cell))
    return f"{what} ({below:.3f} below). {reason}"


def _few_runs(results: Results, cell: Score) -> str:
    """A reduced run says little."""
    ranks = [int(point.at) for point in results.ranks(cell.task, OURS, cell.data)]
    runs, theirs = len(_by_repeat(results, cell)), ranks_of(cell.data)
    if set(ranks) >= set(theirs) and runs >= RUNS:
        return ""
    made = f"Only ranks {listed(ranks)} and {runs} run{'s' * (runs > 1)} were made"
    return f"{made}, where the paper has ranks {listed(theirs)} and {RUNS} runs."


def _already_without_reduction(results: Results, cell: Score) -> str:
    """The data without any reduction fall short as well, so it is not the method."""
    ours, theirs = results.cell(cell.task, "All", cell.data), published(cell.task)["All"][cell.data]
    if ours is None:
        return ""
    here, there = getattr(ours, cell.statistic), getattr(theirs, cell.statistic)
    gap, below = there - here, cell.published - cell.ours
    if gap <= MARGIN:
        return ""
    share = "as much" if gap >= below else f"{gap:.3f} of it"
    reason = (
        f"The data without any reduction score {here:.3f} here and {there:.2f} in the paper: {share} is lost before "
    )
    reason += "any method comes in."
    if gap > 5 * MARGIN:
        reason += " The published column is not reproducible with the protocol as described."
    return reason


def _within_the_spread(results: Results, cell: Score) -> str:
    """Single runs differ by more than what is missing."""
    values = _by_repeat(results, cell)
    if not values or cell.published - cell.ours > max(values) - min(values):
        return ""
    kind = "averages" if cell.statistic == "mean" else "maxima"
    return (
        f"The {kind} of our {len(values)} single runs lie between {min(values):.3f} and {max(values):.3f}: the "
        "difference is not larger than what changes from one random start to another."
    )


def _not_converged(results: Results, cell: Score) -> str:
    """The rule as printed, stopped before it converges, is better here."""
    printed = results.cell(cell.task, "DSP-NMF (printed rule)", cell.data)
    if printed is None or getattr(printed, cell.statistic) < cell.published - MARGIN:
        return ""
    return (
        f"The rule as printed, which does not converge, reaches {getattr(printed, cell.statistic):.3f}: the published "
        "value is one of codes that are not at the minimum."
    )


def _unknown(results: Results, cell: Score) -> str:
    """Nothing explains it: what is known beside it."""
    known = []
    for method, name in (("NMF", "plain NMF"), ("DSP-NMF (printed rule)", "the rule as printed")):
        if found := results.cell(cell.task, method, cell.data):
            known.append(f"{name} scores {getattr(found, cell.statistic):.3f}")
    ranks = results.ranks(cell.task, OURS, cell.data)
    if cell.statistic == "mean" and len(ranks) > 1:
        best, worst = max(ranks, key=lambda p: p.mean), min(ranks, key=lambda p: p.mean)
        known.append(
            f"over the ranks the score goes from {worst.mean:.3f} (rank {worst.at:.0f}) to {best.mean:.3f} "
            f"(rank {best.at:.0f})"
        )
    beside = f" At the same ranks and runs, {listed(known)}." if known else ""
    return f"Our results do not explain it: the difference is larger than what changes from run to run.{beside}"


def _by_repeat(results: Results, cell: Score) -> list[float]:
    """The cell from each of the runs alone."""
    found = defaultdict(list)
    for run, name, value in results.measurements:
        if (run.experiment, run.dataset, run.method, name) == ("tables", cell.data, OURS, cell.task):
            found[run.repeat].append(value)
    return [fmean(values) if cell.statistic == "mean" else max(values) for values in found.values()]


def _average(results: Results, task: str, statistic: str) -> list[str]:
    """Our average against the published ones of other methods, and against our own runs of them."""
    mine = average(results, task, OURS)[0]
    if mine is None:
        return []
    value = getattr(mine, statistic)
    own = {m: getattr(c, statistic) for m in _OWN_RIVALS if (c := average(results, task, m)[0])}
    theirs = {m: getattr(c, statistic) for m in _PUBLISHED_RIVALS if (c := average(results, task, m)[1])}
    kind = {"mean": "average of the means", "max": "average of the maxima"}[statistic]
    parts = [f"{TASKS[task]}, {kind} over {listed(compared(results))}: {OURS} {value:.3f}."]
    if theirs:
        parts.append(f"Against published averages of the same data sets it is {_placed(value, theirs)}.")
    if own:
        parts.append(f"Against our own runs it is {_placed(value, own)}.")
    return [" ".join(parts)]


def _placed(value: float, others: dict[str, float]) -> str:
    """Above whom, and below whom."""
    above = [f"{name} ({other:.3f})" for name, other in others.items() if value > other]
    below = [f"{name} ({other:.3f})" for name, other in others.items() if value <= other]
    return " and ".join(f"{word} {listed(names)}" for word, names in (("above", above), ("not above", below)) if names)


def _not_run(results: Results) -> list[str]:
    """Data sets, methods and runs that are missing, with the reason."""
    sentences = [f"{data}: {reason}" for data, reason in results.absent.items()]
    if left := [data for data in DATASETS if data not in results.datasets and data not in results.absent]:
        sentences.append(f"{listed(left)}: not part of this run.")
    if results.methods and (missing := [m for m in published("svm") if m not in results.methods]):
        sentences.append(f"{listed(missing)}: no results in this run; their published values are shown alone.")
    errors = Counter((run.dataset, run.method, (error.splitlines() or [""])[0]) for run, error in results.failures)
    for (data, method, error), count in sorted(errors.items()):
        sentences.append(f"{method} on {data}: {count} run{'s' * (count > 1)} failed with {error}")
    return sentences
