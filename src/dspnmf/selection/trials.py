"""The fits of a search: which there are, and how they are shared out among processes."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from dspnmf._typing import Array
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.selection.folds import Fold
from dspnmf.selection.judges import Judge
from dspnmf.selection.path import Outcome, judged, path
from dspnmf.selection.speckle import Speckled, predict
from dspnmf.selection.table import Candidate


class Trials(NamedTuple):
    """Data, folds, and what all fits have in common. Everything random follows from the seeds."""

    X: Any
    y: Any
    parts: list[Fold]
    starts: list[int]  # a seed for every fold
    common: dict[str, Any]  # parameters of every fit
    n_jobs: int | None

    def speckled(self, ranks: Any, cells: int) -> list[list[Speckled]]:
        """How well each rank predicts held-out cells: ranks x folds."""
        fit, n_folds = delayed(predict), max(len(self.starts), 2)  # some cells must be left to fit
        folds = list(enumerate(self.starts))
        return self._all(
            [
                fit(self.X, int(k), fold, n_folds, speckle=cells, seed=seed, **self.common)
                for k in ranks
                for fold, seed in folds
            ]
        )

    def candidates(
        self, ranks: Any, label_weights: Any, alphas: Array, normalize: bool, judge: Judge
    ) -> tuple[list[Candidate], list[list[Outcome]]]:
        """Every candidate, simplest first, and its outcomes in the folds."""
        settings = list(product(map(int, ranks), map(float, np.unique(label_weights))))
        paths = self._all(
            [
                delayed(judged)(self.X, self.y, part, alphas, self._first(*setting, normalize, seed), judge)
                for setting in settings
                for part, seed in zip(self.parts, self.starts, strict=True)
            ]
        )  # settings x folds x alphas
        outcomes = [list(at_one_alpha) for of_setting in paths for at_one_alpha in zip(*of_setting, strict=True)]
        return [Candidate(*setting, float(alpha)) for setting in settings for alpha in alphas], outcomes

    def refit(self, choice: Candidate, alphas: Array, normalize: bool, seed: int) -> tuple[DSPNMF, Array]:
        """The model and codes of the choice on all rows, along its path."""
        first = self._first(choice.n_components, choice.label_weight, normalize, seed)
        alphas = alphas[alphas <= choice.alpha]
        steps = path(self.X, self.y, alphas, first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # only the last fit is the result
            for _ in alphas[:-1]:
                next(steps)
        return next(steps)

    def _first(self, k: int, label_weight: float, normalize: bool, seed: int) -> DSPNMF:
        """What a path begins with."""
        return DSPNMF(k, label_weight=label_weight, normalize=normalize, random_state=seed, **self.common)

    def _all(self, tasks: list[Any]) -> list[list[Any]]:
        """Results of all tasks, fold by fold; the last tasks, whose ranks are largest, are begun first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # `mean_n_iter` says it, once for all folds
            found = list(Parallel(n_jobs=self.n_jobs)(reversed(tasks)))[::-1]
        size = len(self.parts)
        return [found[i : i + size] for i in range(0, len(found), size)]
