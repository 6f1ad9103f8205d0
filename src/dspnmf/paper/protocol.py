"""The paper's protocol, and four experiments beside it: which runs there are. What is measured in one: `measure`.

Tables: min-max scaled features; ranks 2 to 20 (wine: to 11); five runs; codes from all samples; then an SVM (rbf,
C = 1000) and 3 nearest neighbours in stratified 5-fold cross-validation (accuracy), and k-means (NMI).

Beside them: the sweep of lambda at rank 3 (printed rule and default solver), the sweep of alpha, in units of
``||X||^2 / ||XX'||^2`` where both terms weigh the same, and the objective of every solver along its iterations.

A run is known by its content: its id is a hash of that, its seed follows from its name, so it gives the same numbers
wherever it is run. Runs of a sweep, or of curves, that differ only in what is compared begin from the same seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

VERSION = 2  # of what a run measures and how; a store of another version is not continued
RANKS = (2, 3, 5, 7, 9, 11, 15, 20)
RUNS = 5
TABLE_METHODS = (
    "DSP-NMF",
    "DSP-NMF (printed rule)",
    "NMF",
    "GNMF",
    "GNMF (published rule)",
    "SymNMF",
    "SDNMF",
    "NS-NMF",
    "UMAP",
    "LLE",
    "SE",
    "All",
)
SLOW_METHODS = ("UMAP", "SDNMF")  # left out of a quick look
TABLE_SETS = ("BC", "Wine", "COIL20", "Digits", "IndianPines", "Pavia")
EMBEDDED_SETS = ("BC", "Wine", "Digits")
LAMBDAS = tuple(10.0**power for power in range(-2, 9))
LAMBDA_RANK = 3
ALPHAS = (0.0, *(10.0**power for power in range(-3, 6)))  # times ||X||^2 / ||XX'||^2
ALPHA_RANK = 9
CURVE_RANK = 10
CURVES = {
    "printed rule": "paper",
    "appendix rule": "paper-appendix",
    "mm": "mm",
    "hals": "hals",
    "newton-cg": "newton-cg",
}
CURVE_LENGTH = 500


@dataclass(frozen=True, order=True)
class Run:
    """One method on one data set at one rank, the `repeat`-th time. Rank 0 is all features as they are.

    `experiment` is "tables", "lambda", "alpha" or "curves"; `setting` is the lambda or the alpha of a sweep.
    """

    dataset: str
    method: str
    rank: int
    repeat: int
    experiment: str = "tables"
    setting: float = 0.0

    @property
    def id(self) -> str:
        """Hash of the content, and of the version of the protocol."""
        content = json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    @property
    def seed(self) -> int:
        """Follows from the name, so that runs are independent of each other and of their order."""
        compared = self.method if self.experiment == "tables" else self.experiment
        name = f"{self.dataset}/{compared}/{self.rank}/{self.repeat}"
        return int(hashlib.sha256(name.encode()).hexdigest()[:7], 16)


def plan(*, quick: bool = False, sets: tuple[str, ...] | None = None) -> list[Run]:
    """Every run of the comparison, in a fixed order.

    Examples
    --------
    >>> from dspnmf.paper.protocol import plan
    >>> len(plan(quick=True)) < len(plan())
    True
    """
    chosen = sets or (EMBEDDED_SETS if quick else TABLE_SETS)
    return [run for dataset in chosen for run in (*_tables(dataset, quick), *_beside(dataset, quick))]


def _tables(dataset: str, quick: bool) -> Iterator[Run]:
    """Runs behind Tables 1 to 5 and the rank curves."""
    ranks, repeats = ((3, 9), 2) if quick else (RANKS, RUNS)
    most = 11 if dataset == "Wine" else max(ranks)
    for method in TABLE_METHODS:
        if quick and method in SLOW_METHODS:
            continue
        for rank in (0,) if method == "All" else tuple(r for r in ranks if r <= most):
            for repeat in range(repeats):
                yield Run(dataset, method, rank, repeat)


def _beside(dataset: str, quick: bool) -> Iterator[Run]:
    """Sweeps of lambda and alpha, and convergence curves."""
    repeats = 1 if quick else 3
    for repeat in range(repeats):
        for setting in LAMBDAS[::2] if quick else LAMBDAS:
            for method in ("DSP-NMF", "DSP-NMF (printed rule)"):
                yield Run(dataset, method, LAMBDA_RANK, repeat, "lambda", setting)
        for setting in ALPHAS[::3] if quick else ALPHAS:
            yield Run(dataset, "DSP-NMF", ALPHA_RANK, repeat, "alpha", setting)
        for method in CURVES:
            yield Run(dataset, method, CURVE_RANK, repeat, "curves")
