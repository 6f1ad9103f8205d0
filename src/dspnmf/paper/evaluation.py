"""Fits and scores one run of the protocol."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from dspnmf import DSPNMF, datasets, metrics
from dspnmf._typing import Array
from dspnmf.paper.kept_structure import KeptStructure
from dspnmf.paper.methods import methods
from dspnmf.paper.protocol import CURVE_LENGTH, CURVES, Run
from dspnmf.selection.candidates import natural_weight

_CURVE_POINTS = 60


def evaluate(run: Run, data_dir: str | None = None) -> dict[str, float]:
    """Fit one run and return its measurements by name."""
    data = _scaled_dataset(run.dataset, data_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the iterations used are recorded; other libraries warn of their own internals
        if run.experiment == "curves":
            return _convergence_curve(run, data.X)
        model = _estimator(run, data)
        begin = time.perf_counter()
        Z = np.asarray(model.fit_transform(data.X), dtype=np.float64)
        seconds = time.perf_counter() - begin
        scored = Z * np.linalg.norm(model.components_, axis=1) if run.experiment == "alpha" else Z
        kept = _structure(run.dataset, data_dir).measure(Z)
        return {**task_scores(scored, data.y, run.seed), **kept, **_fit(model, data.X, Z), "seconds": seconds}


def task_scores(Z: Array, y: datasets.Indices, seed: int) -> dict[str, float]:
    """Scores of codes Z in the paper's three tasks: SVM, 3 nearest neighbours, k-means."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    clusters = KMeans(len(np.unique(y)), n_init=10, random_state=seed).fit_predict(Z)
    return {
        "svm": float(cross_val_score(SVC(C=1000), Z, y, cv=folds).mean()),
        "knn": float(cross_val_score(KNeighborsClassifier(3), Z, y, cv=folds).mean()),
        "kmeans": float(normalized_mutual_info_score(y, clusters)),
    }


def _estimator(run: Run, data: datasets.Dataset) -> BaseEstimator:
    """The estimator of a run, with the parameters that its experiment and its data set determine."""
    model = methods()[run.method](run.rank, run.seed)
    if run.experiment == "lambda":
        model.set_params(lam=run.setting)
    if run.experiment == "alpha":
        # the structure error is that of the codes being optimised; they are normalised only for the scores
        model.set_params(alpha=run.setting * natural_weight(data.X), normalize=False)
    if run.method == "SDNMF" and (data.image_shape or data.bands):
        model.set_params(metric=data.image_shape or "line")
    return model


def _convergence_curve(run: Run, X: Array) -> dict[str, float]:
    """The objective at the start and after some of the iterations, and how often it rose by more than rounding."""
    model = DSPNMF(run.rank, lam=1e3, solver=CURVES[run.method], max_iter=CURVE_LENGTH, tol=0, random_state=run.seed)
    begin = time.perf_counter()
    history = model.fit(X).objective_history_
    seconds = time.perf_counter() - begin
    rounding = 1e-12 * (np.linalg.norm(X) ** 2 + np.linalg.norm(X.T @ X) ** 2)
    shown = np.unique(np.append(0, np.geomspace(1, CURVE_LENGTH, _CURVE_POINTS).round().astype(int)))
    return {
        **{f"objective@{i:04d}": float(history[i]) for i in shown},
        "rises": float((np.diff(history) > rounding).sum()),
        "seconds": seconds,
    }


def _fit(model: BaseEstimator, X: Array, Z: Array) -> dict[str, float]:
    """Objective, iterations, components and reconstruction error, where the method has them."""
    found = {}
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
def _scaled_dataset(name: str, data_dir: str | None) -> datasets.Dataset:
    """A data set with every feature scaled to [0, 1]."""
    data = datasets.load(name, data_dir)
    return replace(data, X=minmax_scale(data.X))


@lru_cache(maxsize=1)  # runs come one data set after the other
def _structure(name: str, data_dir: str | None) -> KeptStructure:
    """The structure of a data set that codes are to keep."""
    return KeptStructure.of(_scaled_dataset(name, data_dir).X)
