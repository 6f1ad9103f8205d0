"""Fits along the weight alpha, each from where the one before ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dspnmf._threads import alone
from dspnmf._typing import Array
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.selection.folds import Fold
from dspnmf.selection.judges import Judge


class Outcome(NamedTuple):
    """One fit of a path, judged."""

    score: float
    n_iter: int
    seconds: float
    components: Array


def path(X: Any, y: Any, alphas: Array, first: DSPNMF) -> Iterator[tuple[DSPNMF, Array]]:
    """Models and their codes for rising alphas: the first from its own start, each other from where the last ended.

    Components go on at unit length, as they nearly have where both X and XX' are met (Theorem 2 of the paper).
    """
    W = H = None
    for alpha in alphas:
        model = DSPNMF(**{**first.get_params(), "alpha": float(alpha)})
        if W is not None and W.any():
            model.set_params(init="custom", n_init=1)
            Z = model.fit_transform(X, y, W=W, H=H)
            model.set_params(init=first.init, n_init=first.n_init)
        else:
            Z = model.fit_transform(X, y)
        length = np.linalg.norm(model.components_, axis=1)
        W, H = Z * length, model.components_ / np.where(length > 0, length, 1.0)[:, None]
        yield model, Z


def judged(X: Any, y: Any, fold: Fold, alphas: Array, first: DSPNMF, judge: Judge) -> list[Outcome]:
    """Every fit of a path on the training rows of a fold, judged on the rows held out: codes come from `transform`."""
    train, test = X[fold.train], X[fold.test]
    outcomes = []
    with alone():
        score = judge.of(train, test, fold)
        begin = time.perf_counter()
        for model, Z in path(train, None if y is None else y[fold.train], alphas, first):
            seconds = time.perf_counter() - begin
            verdict = score(Z, model.transform(test))
            outcomes.append(Outcome(verdict, model.n_iter_, seconds, model.components_.astype(np.float32)))
            begin = time.perf_counter()
    return outcomes
