"""The paper's protocol: which runs there are, and what is measured in one.

Min-max scaled features; ranks 2 to 20 (wine: to 11); five runs; codes from all samples; then an SVM (rbf, C = 1000) and
3 nearest neighbours in stratified 5-fold cross-validation (accuracy), and k-means (NMI). A run is known by its content:
its id is a hash of that, its seed follows from its name, so it gives the same numbers wherever it is run.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from dspnmf import datasets, metrics
from dspnmf.paper.methods import methods

VERSION = 1  # of what a run measures and how; a store of another version is not continued
RANKS = (2, 3, 5, 7, 9, 11, 15, 20)
RUNS = 5
TABLE_METHODS = (
    "DSP-NMF",
    "DSP-NMF (printed rule)",
    "NMF",
    "GNMF",
    "SymNMF",
    "SDNMF",
    "NS-NMF",
    "UMAP",
    "LLE",
    "SE",
    "All",
)
TABLE_SETS = ("BC", "Wine", "COIL20", "Digits", "IndianPines")
EMBEDDED_SETS = ("BC", "Wine", "Digits")


@dataclass(frozen=True, order=True)
class Run:
    """One method on one data set at one rank, the `repeat`-th time. Rank 0 is all features as they are."""

    dataset: str
    method: str
    rank: int
    repeat: int

    @property
    def id(self) -> str:
        """Hash of the content, and of the version of the protocol."""
        content = json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    @property
    def seed(self) -> int:
        """Follows from the name, so that runs are independent of each other and of their order."""
        return int(
            hashlib.sha256(f"{self.dataset}/{self.method}/{self.rank}/{self.repeat}".encode()).hexdigest()[:7], 16
        )


def plan(*, quick: bool = False, sets: tuple[str, ...] | None = None) -> list[Run]:
    """Every run of the comparison, in a fixed order.

    Examples
    --------
    >>> from dspnmf.paper.protocol import plan
    >>> len(plan(quick=True)) < len(plan())
    True
    """
    sets = sets or (EMBEDDED_SETS if quick else TABLE_SETS)
    ranks, repeats = ((3, 9), 2) if quick else (RANKS, RUNS)
    runs = []
    for dataset in sets:
        most = 11 if dataset == "Wine" else max(ranks)
        for method in TABLE_METHODS:
            if quick and method in ("UMAP", "SDNMF"):
                continue  # minutes of a quick look
            for rank in (0,) if method == "All" else tuple(r for r in ranks if r <= most):
                runs += [Run(dataset, method, rank, repeat) for repeat in range(repeats)]
    return runs


def measure(run: Run, data_dir: str | None = None) -> dict[str, float]:
    """Fit and score one run."""
    X, y = _scaled(run.dataset, data_dir)
    model = methods()[run.method](run.rank, run.seed)
    if run.method == "SDNMF" and (metric := _ground_metric(run.dataset, data_dir)) is not None:
        model.set_params(metric=metric)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the iterations used are recorded; other libraries warn of their own internals
        Z = np.asarray(model.fit_transform(X), dtype=np.float64)
        seconds = time.perf_counter() - begin
        return {**scores(Z, y, run.seed), **_quality(model, X, Z), "seconds": seconds}


def scores(Z: Any, y: Any, seed: int) -> dict[str, float]:
    """The three tasks of the paper on codes Z."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    clusters = KMeans(len(np.unique(y)), n_init=10, random_state=seed).fit_predict(Z)
    return {
        "svm": float(cross_val_score(SVC(C=1000), Z, y, cv=folds).mean()),
        "knn": float(cross_val_score(KNeighborsClassifier(3), Z, y, cv=folds).mean()),
        "kmeans": float(normalized_mutual_info_score(y, clusters)),
    }


def _quality(model: Any, X: Any, Z: Any) -> dict[str, float]:
    """What else is recorded: fit, structure and components, where a method has them."""
    found = {
        "trustworthiness": metrics.trustworthiness(X, Z),
        "neighbour_recall": metrics.neighbour_recall(X, Z),
        "structure_error": metrics.structure_error(X, Z),
    }
    for name, attribute in (("objective", "objective_"), ("iterations", "n_iter_")):
        value = getattr(model, attribute, None)
        if isinstance(value, int | float):
            found[name] = float(value)
    if hasattr(model, "components_"):
        found["component_correlation"] = metrics.component_correlation(np.abs(model.components_))
    return found


@lru_cache(maxsize=8)
def _dataset(name: str, data_dir: str | None) -> datasets.Dataset:
    return datasets.load(name, data_dir)


@lru_cache(maxsize=8)
def _scaled(name: str, data_dir: str | None) -> tuple[Any, Any]:
    data = _dataset(name, data_dir)
    return minmax_scale(data.X), data.y


def _ground_metric(name: str, data_dir: str | None) -> Any:
    """SDNMF's metric between features: the pixel grid, the line of bands, or none."""
    data = _dataset(name, data_dir)
    return data.image_shape or ("line" if data.bands else None)
