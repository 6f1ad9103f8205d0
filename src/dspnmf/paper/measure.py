"""What is measured in one run of the protocol."""

from __future__ import annotations

import time
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from dspnmf import DSPNMF, datasets, metrics
from dspnmf.backends.norms import gram_norm2, norm2
from dspnmf.paper.methods import methods
from dspnmf.paper.protocol import CURVE_LENGTH, CURVES, Run
from dspnmf.selection.grid import natural_weight

PASSES = {"printed rule": 2, "appendix rule": 2, "mm": 2, "hals": 1, "newton-cg": 2}  # readings of X per iteration
_CURVE_POINTS = 60


def measure(run: Run, data_dir: str | None = None) -> dict[str, float]:
    """Fit and score one run: name -> number."""
    X, y = _scaled(run.dataset, data_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the iterations used are recorded; other libraries warn of their own internals
        if run.experiment == "curves":
            return _curve(run, X)
        model = _model(run, X, data_dir)
        begin = time.perf_counter()
        Z = np.asarray(model.fit_transform(X), dtype=np.float64)
        seconds = time.perf_counter() - begin
        scored = Z * np.linalg.norm(model.components_, axis=1) if run.experiment == "alpha" else Z
        return {**scores(scored, y, run.seed), **_quality(model, X, Z), "seconds": seconds}


def scores(Z: Any, y: Any, seed: int) -> dict[str, float]:
    """The three tasks of the paper on codes Z."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    clusters = KMeans(len(np.unique(y)), n_init=10, random_state=seed).fit_predict(Z)
    return {
        "svm": float(cross_val_score(SVC(C=1000), Z, y, cv=folds).mean()),
        "knn": float(cross_val_score(KNeighborsClassifier(3), Z, y, cv=folds).mean()),
        "kmeans": float(normalized_mutual_info_score(y, clusters)),
    }


def _model(run: Run, X: Any, data_dir: str | None) -> Any:
    """The estimator of a run, with what an experiment sets."""
    model = methods()[run.method](run.rank, run.seed)
    if run.experiment == "lambda":
        model.set_params(lam=run.setting)
    if run.experiment == "alpha":
        # the structure is that of the codes as they are minimised over; they are normalised for the scores alone
        model.set_params(alpha=run.setting * natural_weight(X), normalize=False)
    if run.method == "SDNMF" and (metric := _ground_metric(run.dataset, data_dir)) is not None:
        model.set_params(metric=metric)
    return model


def _curve(run: Run, X: Any) -> dict[str, float]:
    """The objective at the start and after some of the iterations, and how often it rose by more than rounding."""
    model = DSPNMF(run.rank, lam=1e3, solver=CURVES[run.method], max_iter=CURVE_LENGTH, tol=0, random_state=run.seed)
    begin = time.perf_counter()
    history = model.fit(X).objective_history_
    seconds = time.perf_counter() - begin
    rounding = 1e-12 * (norm2(X) + gram_norm2(X))
    shown = np.unique(np.append(0, np.geomspace(1, CURVE_LENGTH, _CURVE_POINTS).round().astype(int)))
    return {
        **{f"objective@{i:04d}": float(history[i]) for i in shown},
        "rises": float((np.diff(history) > rounding).sum()),
        "seconds": seconds,
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
        V = np.abs(model.components_)
        found["component_correlation"] = metrics.component_correlation(V)
        if V.shape[1] == X.shape[1]:
            found["reconstruction_error"] = float(np.linalg.norm(X - Z @ model.components_) / np.linalg.norm(X))
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
