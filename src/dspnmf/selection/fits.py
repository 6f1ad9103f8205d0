"""The fits of a search, shared out among processes.

Fits of one rank, similarity, label weight and fold are a path of rising alpha: each begins where the one before ended.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from dspnmf._threads import alone
from dspnmf._typing import Array, Matrix
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.estimators.nmf import NMF
from dspnmf.selection.candidates import Candidate, Similarity, Weights
from dspnmf.selection.held_out_cells import predict
from dspnmf.selection.held_out_rows import Fold, Labels, Scoring
from dspnmf.selection.results import Outcome

Grids: TypeAlias = Mapping[Similarity, Array]  # the weights of the structure for every similarity


class Progress(NamedTuple):
    """What tells scikit-learn's callbacks how far a search is; the fits themselves may be in other processes."""

    search: BaseEstimator
    root: Any  # the callbacks' context of the whole search

    def watched(self, name: str, results: Iterable[Any], count: int) -> list[Any]:
        """The results, each of them a task that ends when it is there."""
        context = self.root.subcontext(task_name=name, max_subtasks=count)
        context.call_on_fit_task_begin(estimator=self.search)
        arriving, found = iter(results), []
        for _ in range(count):
            task = context.subcontext(task_name="fold").call_on_fit_task_begin(estimator=self.search)
            found.append(next(arriving))
            task.call_on_fit_task_end(estimator=self.search)
        context.call_on_fit_task_end(estimator=self.search)
        return found


def path(X: Matrix, y: Labels, alphas: Array, first: DSPNMF) -> Iterator[tuple[DSPNMF, Array]]:
    """Models and their codes for rising alphas: the first from its own start, each other from where the last ended.

    Components go on at unit length, as they nearly have where both X and XX' are met (Theorem 2 of the paper).
    """
    W = H = None
    for alpha in alphas:
        model = clone(first).set_params(alpha=float(alpha))
        if W is not None and W.any():
            model.set_params(init="custom", n_init=1)
            Z = model.fit_transform(X, y, W=W, H=H)
            model.set_params(init=first.init, n_init=first.n_init)
        else:
            Z = model.fit_transform(X, y)
        length = np.linalg.norm(model.components_, axis=1)
        W, H = Z * length, model.components_ / np.where(length > 0, length, 1.0)[:, None]
        yield model, Z


def scored_path(X: Matrix, y: Labels, fold: Fold, alphas: Array, first: DSPNMF, scoring: Scoring) -> list[Outcome]:
    """Every fit of a path on the training rows of a fold, scored on the rows held out: codes come from `transform`."""
    train, test = X[fold.train], X[fold.test]
    outcomes = []
    with alone():
        score = scoring.of_fold(train, test, fold)
        begin = time.perf_counter()
        for model, Z in path(train, None if y is None else y[fold.train], alphas, first):
            seconds = time.perf_counter() - begin
            value = score(Z, model.transform(test))
            outcomes.append(Outcome(value, model.n_iter_, seconds, model.components_.astype(np.float32)))
            begin = time.perf_counter()
    return outcomes


class Fits(NamedTuple):
    """Data, folds, and what all fits have in common. Everything random follows from the seeds."""

    X: Matrix
    y: Labels
    folds: list[Fold]
    seeds: list[int]  # of the starts, one for every fold
    model: DSPNMF  # with the parameters that all fits share
    n_jobs: int | None
    progress: Progress

    def of_ranks(self, ranks: NDArray[np.intp], cell_seed: int) -> list[list[Outcome]]:
        """How well each rank predicts held-out cells: ranks x folds."""
        shared = {name: getattr(self.model, name) for name in ("n_init", "max_iter", "tol")}
        n_folds = max(len(self.folds), 2)  # some cells must be left to fit
        return self._all(
            [
                delayed(predict)(
                    self.X, NMF(int(k), missing="mask", random_state=seed, **shared), fold, n_folds, cell_seed
                )
                for k in ranks
                for fold, seed in enumerate(self.seeds)
            ],
            "ranks",
        )

    def of_candidates(
        self, ranks: NDArray[np.intp], label_weights: Weights, grids: Grids, scoring: Scoring
    ) -> tuple[list[Candidate], list[list[Outcome]]]:
        """Every candidate, simplest first, and its outcomes in the folds."""
        settings = list(product(map(int, ranks), grids, map(float, np.unique(label_weights))))
        paths = self._all(
            [
                delayed(scored_path)(self.X, self.y, fold, grids[setting[1]], self._first(*setting, seed), scoring)
                for setting in settings
                for fold, seed in zip(self.folds, self.seeds, strict=True)
            ],
            "candidates",
        )  # settings x folds x alphas
        outcomes = [list(at_one_alpha) for of_setting in paths for at_one_alpha in zip(*of_setting, strict=True)]
        tried = [Candidate(k, *kind, b, float(a)) for k, kind, b in settings for a in grids[kind]]
        return tried, outcomes

    def of_all_rows(self, choice: Candidate, alphas: Array, seed: int) -> tuple[DSPNMF, Array]:
        """The model and codes of the choice on all rows, at the end of its path."""
        alphas = alphas[alphas <= choice.alpha]
        first = self._first(choice.n_components, choice.kind, choice.label_weight, seed)
        steps = path(self.X, self.y, alphas, first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # only the last fit is the result
            for _ in alphas[:-1]:
                next(steps)
        return self.progress.watched("choice", steps, 1)[0]

    def _first(self, k: int, kind: Similarity, label_weight: float, seed: int) -> DSPNMF:
        """The model that a path begins with."""
        setting = {"n_components": k, "label_weight": label_weight, "random_state": seed}
        return clone(self.model).set_params(**kind._asdict(), **setting)

    def _all(self, tasks: list[Any], name: str) -> list[list[Any]]:
        """Results of all tasks, fold by fold; the last tasks, whose ranks are largest, are begun first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # `mean_n_iter` says it, once for all folds
            results = Parallel(n_jobs=self.n_jobs, return_as="generator")(reversed(tasks))
            found = self.progress.watched(name, results, len(tasks))[::-1]
        size = len(self.folds)
        return [found[i : i + size] for i in range(0, len(found), size)]
