"""Which runs the reproduction consists of: those behind the paper's tables, and three further experiments.

Tables: min-max scaled features; ranks 2 to 20 (Wine: to 11); five runs; codes from all samples; then an SVM (rbf,
C = 1000) and 3 nearest neighbours in stratified 5-fold cross-validation (accuracy), and k-means (NMI).

Further experiments: "lambda" varies lambda at rank 3 (printed rule and default solver); "alpha" varies alpha, in units
of ``||X||^2 / ||XX'||^2``, where both terms weigh the same; "curves" records the objective of every solver.

A run is identified by its content: its id is a hash of it and its seed follows from its name, so a run gives the same
numbers wherever it is made. Runs of a further experiment that differ only in what is compared share their seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from dspnmf.paper.published import DATASETS

VERSION = 2  # of what a run measures and how; a store of another version is not continued
RANKS = (2, 3, 5, 7, 9, 11, 15, 20)
RUNS = 5
TABLE_METHODS = ("DSP-NMF", "DSP-NMF (diffused)", "DSP-NMF (clustering)", "DSP-NMF (auto weight)",
                 "DSP-NMF (printed rule)", "NMF", "GNMF", "GNMF (published rule)", "SymNMF", "SDNMF", "NS-NMF", "UMAP",
                 "LLE", "SE", "All")  # fmt: skip
SLOW_METHODS = ("UMAP", "SDNMF")  # not part of a quick reproduction
_LAST = ("GNMF (published rule)", "SDNMF", "All", "LLE", "SE", "UMAP")  # published rules, then other packages
TABLE_SETS = DATASETS
EMBEDDED_SETS = ("BC", "Wine", "Digits")
LAMBDAS = tuple(10.0**power for power in range(-2, 9))
LAMBDA_RANK = 3
ALPHAS = (0.0, *(10.0**power for power in range(-3, 6)))  # times ||X||^2 / ||XX'||^2
ALPHA_RANK = 9
CURVES = {"printed rule": "paper", "appendix rule": "paper-appendix"} | {s: s for s in ("mm", "hals", "newton-cg")}
PASSES = dict.fromkeys(CURVES, 2) | {"hals": 1}  # readings of X per iteration
CURVE_RANK = 10
CURVE_LENGTH = 500


@dataclass(frozen=True, order=True)
class Run:
    """One method on one data set at one rank, the `repeat`-th time. Rank 0 is all features as they are.

    `experiment` is "tables", "lambda", "alpha" or "curves"; `setting` is the lambda or the alpha of the run.
    """

    dataset: str
    method: str
    rank: int
    repeat: int
    experiment: str = "tables"
    setting: float = 0.0

    @property
    def id(self) -> str:
        """Hash of the content and of the protocol's version."""
        content = json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    @property
    def seed(self) -> int:
        """Seed that depends on the names alone, so that runs may be made in any order."""
        compared = self.method if self.experiment == "tables" else self.experiment
        name = f"{self.dataset}/{compared}/{self.rank}/{self.repeat}"
        return int(hashlib.sha256(name.encode()).hexdigest()[:7], 16)


def plan(*, quick: bool = False, sets: tuple[str, ...] | None = None) -> list[Run]:
    """Every run of a full or a quick reproduction, in a fixed order: what this library's solvers find comes first."""
    chosen = sets or (EMBEDDED_SETS if quick else TABLE_SETS)
    runs = [run for dataset in chosen for run in (*_table_runs(dataset, quick), *_experiment_runs(dataset, quick))]
    return sorted(runs, key=lambda run: _LAST.index(run.method) if run.method in _LAST else -1)


def ranks_of(dataset: str) -> tuple[int, ...]:
    """The ranks of the paper's tables for a data set."""
    return tuple(rank for rank in RANKS if dataset != "Wine" or rank <= 11)


def _table_runs(dataset: str, quick: bool) -> Iterator[Run]:
    """Runs behind Tables 1 to 5 and the figure of scores over the rank."""
    ranks, repeats = ((3, 9), 2) if quick else (ranks_of(dataset), RUNS)
    for method in TABLE_METHODS:
        if not (quick and method in SLOW_METHODS):
            for rank in (0,) if method == "All" else ranks:
                for repeat in range(repeats):
                    yield Run(dataset, method, rank, repeat)


def _experiment_runs(dataset: str, quick: bool) -> Iterator[Run]:
    """Runs of the experiments on lambda, alpha and convergence."""
    for repeat in range(1 if quick else 3):
        for setting in LAMBDAS[::2] if quick else LAMBDAS:
            for method in ("DSP-NMF", "DSP-NMF (printed rule)"):
                yield Run(dataset, method, LAMBDA_RANK, repeat, "lambda", setting)
        for setting in ALPHAS[::3] if quick else ALPHAS:
            yield Run(dataset, "DSP-NMF", ALPHA_RANK, repeat, "alpha", setting)
        for method in CURVES:
            yield Run(dataset, method, CURVE_RANK, repeat, "curves")
