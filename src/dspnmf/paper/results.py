"""What a store holds, as tables and figures ask for it: cells, rank curves, sweeps, convergence, Theorem 2.

Nothing here depends on the order in which runs ended, nor on how long they took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from dspnmf.paper.measure import PASSES
from dspnmf.paper.protocol import TABLE_METHODS, TABLE_SETS, Run
from dspnmf.paper.published import Cell
from dspnmf.paper.store import Measurement, Store


class Point(NamedTuple):
    """Runs that differ only in their repeat, at one place of an axis."""

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
    """One fit of the sweep of alpha: both errors, and how alike its components are."""

    alpha: float
    reconstruction: float
    structure: float
    correlation: float


@dataclass(frozen=True)
class Results:
    """Everything measured, what failed, and the data sets that could not be run (name -> why)."""

    measurements: tuple[Measurement, ...]
    failures: tuple[tuple[Run, str], ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, absent: Mapping[str, str] | None = None) -> Results:
        """The results in a store."""
        with Store(path) as store:
            return cls(tuple(store.measurements()), tuple(store.failures()), absent or {})

    @cached_property
    def _values(self) -> dict[Run, dict[str, float]]:
        found: dict[Run, dict[str, float]] = defaultdict(dict)
        for run, name, value in self.measurements:
            found[run][name] = value
        return found

    def _runs(self, experiment: str, dataset: str, method: str) -> list[Run]:
        return [r for r in self._values if (r.experiment, r.dataset, r.method) == (experiment, dataset, method)]

    @property
    def datasets(self) -> list[str]:
        """Data sets with results, in the paper's order; others after them."""
        found = {run.dataset for run in self._values}
        return [s for s in TABLE_SETS if s in found] + sorted(found - set(TABLE_SETS))

    @property
    def methods(self) -> list[str]:
        """Methods of the tables that have results, in their order."""
        found = {run.method for run in self._values if run.experiment == "tables"}
        return [method for method in TABLE_METHODS if method in found]

    def cell(self, name: str, method: str, dataset: str) -> Cell | None:
        """Mean and max over ranks and runs of one measurement ("svm", "knn", "kmeans", "trustworthiness", ...)."""
        values = [v for run in self._runs("tables", dataset, method) if (v := self._values[run].get(name)) is not None]
        return Cell(fmean(values), max(values)) if values else None

    def ranks(self, name: str, method: str, dataset: str) -> list[Point]:
        """A measurement of the tables over the rank."""
        return self._points(name, self._runs("tables", dataset, method), "rank")

    def sweep(self, experiment: str, name: str, method: str, dataset: str) -> list[Point]:
        """A measurement over the setting of a sweep ("lambda" or "alpha")."""
        return self._points(name, self._runs(experiment, dataset, method), "setting")

    def _points(self, name: str, runs: list[Run], axis: str) -> list[Point]:
        groups: dict[float, list[float]] = defaultdict(list)
        for run in runs:
            if name in self._values[run]:
                groups[float(getattr(run, axis))].append(self._values[run][name])
        return [Point(at, fmean(v), min(v), max(v)) for at, v in sorted(groups.items())]

    def convergence(self, dataset: str) -> dict[str, list[Step]]:
        """Solver -> its objective along the iterations, over the lowest one any solver reached from the same start."""
        found: dict[str, dict[int, list[float]]] = {}
        for solver in PASSES:
            runs = self._runs("curves", dataset, solver)
            history: dict[int, list[float]] = defaultdict(list)
            for run in runs:
                best = self._lowest(dataset, run.repeat)
                for name, value in self._values[run].items():
                    if name.startswith("objective@"):
                        history[int(name.removeprefix("objective@"))].append(value / best - 1)
            if history:
                found[solver] = history
        return {
            solver: [Step(i, i * PASSES[solver], median(v)) for i, v in sorted(history.items())]
            for solver, history in found.items()
        }

    def _lowest(self, dataset: str, repeat: int) -> float:
        """Lowest objective on the curves that share a start."""
        return min(
            value
            for solver in PASSES
            for run in self._runs("curves", dataset, solver)
            if run.repeat == repeat
            for name, value in self._values[run].items()
            if name.startswith("objective@")
        )

    def rises(self, dataset: str) -> dict[str, float]:
        """Solver -> iterations in which the objective rose by more than rounding (mean over the runs)."""
        counts = {s: [self._values[run]["rises"] for run in self._runs("curves", dataset, s)] for s in PASSES}
        return {solver: fmean(values) for solver, values in counts.items() if values}

    def tradeoffs(self, dataset: str) -> list[Tradeoff]:
        """The fits of the sweep of alpha: Theorem 2 says where both errors vanish, components do not overlap."""
        names = ("reconstruction_error", "structure_error", "component_correlation")
        runs = sorted(self._runs("alpha", dataset, "DSP-NMF"), key=lambda run: (run.setting, run.repeat))
        return [Tradeoff(run.setting, *(self._values[run][name] for name in names)) for run in runs]
