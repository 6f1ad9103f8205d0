"""Made-up results of the comparison: what tables and summary are made of, without a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dspnmf.paper.protocol import Run, plan
from dspnmf.paper.published import TASKS, published
from dspnmf.paper.results import Results
from dspnmf.paper.store import Measurement

Score = Callable[[Run, str], float]


def as_published(run: Run, task: str) -> float:
    """The paper's mean in every run but one, and its max in that one, so that both columns come close."""
    row = published(task).get(run.method, {})
    if run.dataset not in row:
        return 0.5
    cell = row[run.dataset]
    return cell.max if (run.rank, run.repeat) in ((9, 0), (0, 0)) else cell.mean


def made_up(runs: Iterable[Run] | None = None, score: Score = as_published) -> Results:
    """Results of these runs (by default a quick comparison), scored by a function of the run and the task."""
    runs = list(plan(quick=True) if runs is None else runs)
    found = []
    for run in runs:
        if run.experiment == "curves":
            values = {f"objective@{i:04d}": 1.0 + 1.0 / (1 + i) ** 3 for i in (0, 1, 10, 500)}
            values["rises"] = 250.0 if "rule" in run.method else 0.0
        else:
            values = {task: score(run, task) for task in TASKS}
            values |= {"structure_error": 1 / (1 + run.setting), "reconstruction_error": 0.1 + run.setting / 1e6}
            values |= {"component_correlation": 0.3 / (1 + run.setting), "trustworthiness": 0.9, "iterations": 56.0}
        found += [Measurement(run, name, value) for name, value in values.items()]
    return Results(tuple(sorted(found)))


def full(*sets: str) -> list[Run]:
    """The runs behind the tables of these data sets, all ranks and repeats."""
    return [run for run in plan(sets=sets) if run.experiment == "tables"]
