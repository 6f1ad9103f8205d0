"""The measurements of a store, aggregated as tables and figures need them.

Nothing here depends on the order in which runs ended, nor on how long they took.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median
from typing import NamedTuple

from dspnmf.paper.protocol import PASSES, TABLE_METHODS, TABLE_SETS, Run
from dspnmf.paper.published import Cell
from dspnmf.paper.store import Measurement

_OBJECTIVE = "objective@"  # followed by the iteration


class Point(NamedTuple):
    """Mean and range of a measurement over runs that differ only in their repeat; `at` is their rank or setting."""

    at: float
    mean: float
    low: float
    high: float


class Step(NamedTuple):
    """Median objective of one solver's runs after some iterations, relative to the best objective of any solver."""

    iteration: int
    passes: int
    excess: float  # objective / lowest objective of this data set - 1


class Tradeoff(NamedTuple):
    """Both errors of one fit in the experiment on alpha, and the mean cosine of its components."""

    alpha: float
    reconstruction: float
    structure: float
    correlation: float


@dataclass(frozen=True)
class Results:
    """All measurements, the runs that failed, and the data sets that could not be run with the reason."""

    measurements: tuple[Measurement, ...]
    failures: tuple[tuple[Run, str], ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _values(self) -> dict[tuple[str, str, str], dict[Run, dict[str, float]]]:
        """Measurements by (experiment, data set, method), run and name."""
        found: dict[tuple[str, str, str], dict[Run, dict[str, float]]] = {}
        for run, name, value in self.measurements:
            found.setdefault((run.experiment, run.dataset, run.method), {}).setdefault(run, {})[name] = value
        return found

    def _runs(self, experiment: str, dataset: str, method: str) -> dict[Run, dict[str, float]]:
        """The measurements of some runs, by run and name."""
        return self._values.get((experiment, dataset, method), {})

    @property
    def datasets(self) -> list[str]:
        """Data sets with results, in the paper's order; others after them."""
        found = {dataset for _, dataset, _ in self._values}
        return [name for name in TABLE_SETS if name in found] + sorted(found - set(TABLE_SETS))

    @property
    def methods(self) -> list[str]:
        """Methods of the tables that have results, in the order of the tables."""
        found = {method for experiment, _, method in self._values if experiment == "tables"}
        return [method for method in TABLE_METHODS if method in found]

    def cell(self, name: str, method: str, dataset: str) -> Cell | None:
        """Mean and max over ranks and runs of one measurement ("svm", "knn", "kmeans", "trustworthiness", ...)."""
        values = [found[name] for found in self._runs("tables", dataset, method).values() if name in found]
        return Cell(fmean(values), max(values)) if values else None

    def ranks(self, name: str, method: str, dataset: str) -> list[Point]:
        """A measurement of the tables over the rank."""
        return _points(name, self._runs("tables", dataset, method), "rank")

    def repeats(self) -> set[int]:
        """How many runs there are of a method at a rank on a data set, in the tables; different numbers once."""
        counts = Counter(
            (run.dataset, run.method, run.rank)
            for (experiment, _, _), runs in self._values.items()
            for run in runs
            if experiment == "tables" and run.rank
        )
        return set(counts.values())

    def settings(self, experiment: str) -> list[float]:
        """The values of lambda or alpha (`experiment`) that were run, the smallest first."""
        return sorted(
            {run.setting for (name, _, _), runs in self._values.items() if name == experiment for run in runs}
        )

    def sweep(self, experiment: str, name: str, method: str, dataset: str) -> list[Point]:
        """A measurement over lambda or alpha (`experiment`)."""
        return _points(name, self._runs(experiment, dataset, method), "setting")

    def convergence(self, dataset: str) -> dict[str, list[Step]]:
        """Objective of each solver along the iterations, relative to the lowest of any solver from the same start."""
        lowest: dict[int, float] = defaultdict(lambda: math.inf)
        excess: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        objectives = [
            (run, int(name.removeprefix(_OBJECTIVE)), value)
            for solver in PASSES
            for run, found in self._runs("curves", dataset, solver).items()
            for name, value in found.items()
            if name.startswith(_OBJECTIVE)
        ]
        for run, _, value in objectives:
            lowest[run.repeat] = min(lowest[run.repeat], value)
        for run, iteration, value in objectives:
            excess[run.method][iteration].append(value / lowest[run.repeat] - 1)
        return {
            solver: [Step(i, i * PASSES[solver], median(values)) for i, values in sorted(history.items())]
            for solver, history in excess.items()
        }

    def rises(self, dataset: str) -> dict[str, float]:
        """Iterations in which the objective rose by more than rounding, by solver (mean over the runs)."""
        counts = {s: [found["rises"] for found in self._runs("curves", dataset, s).values()] for s in PASSES}
        return {solver: fmean(values) for solver, values in counts.items() if values}

    def tradeoffs(self, dataset: str) -> list[Tradeoff]:
        """Both errors and the overlap of components (Theorem 2) of every fit in the experiment on alpha."""
        names = ("reconstruction_error", "structure_error", "component_correlation")
        found = sorted(
            self._runs("alpha", dataset, "DSP-NMF").items(), key=lambda pair: (pair[0].setting, pair[0].repeat)
        )
        return [Tradeoff(run.setting, *(values[name] for name in names)) for run, values in found]


def _points(name: str, runs: Mapping[Run, Mapping[str, float]], axis: str) -> list[Point]:
    """A measurement over the rank or the setting of the runs."""
    groups: dict[float, list[float]] = defaultdict(list)
    for run, values in runs.items():
        if name in values:
            groups[float(getattr(run, axis))].append(values[name])
    return [Point(at, fmean(values), min(values), max(values)) for at, values in sorted(groups.items())]
