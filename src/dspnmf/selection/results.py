"""Outcomes of fits as tables with a row for every candidate or rank, and which row a rule chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dspnmf._typing import Array
from dspnmf.selection.candidates import Candidate
from dspnmf.stability import agreement

RULES = ("best", "one-se")


class Outcome(NamedTuple):
    """One fit to one fold; its value is a score on held-out rows, or an error in held-out cells."""

    value: float
    n_iter: int
    seconds: float
    components: Array


def chosen(scores: Array, rule: str) -> int:
    """Which row of scores (candidates, simplest first, x folds) a rule chooses.

    "best": the largest mean, the simplest of equals. "one-se": the simplest whose mean is at most one standard error of
    the best below it.
    """
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if rule == "best" or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(means >= means[best] - error))


def indistinguishable(scores: Array, row: int) -> NDArray[np.bool_]:
    """Which rows of scores (candidates x folds) differ from one row by no more than chance, that row included.

    Differences are taken fold by fold, and their mean is compared with twice its standard error, which is enlarged for
    training sets that overlap (Nadeau & Bengio: Inference for the generalization error, Machine Learning 52, 2003).
    From a few folds the error of one difference is hardly known, so the median over the candidates is taken for all.
    """
    count = scores.shape[1]
    if count < 2:
        return np.asarray(np.arange(len(scores)) == row)
    differences = scores - scores[row]
    others = np.arange(len(scores)) != row
    error = np.median(differences[others].std(axis=1, ddof=1)) if others.any() else 0.0
    return np.asarray(np.abs(differences.mean(axis=1)) <= 2 * error * np.sqrt(1 / count + 1 / (count - 1)))


def values(outcomes: Sequence[Sequence[Outcome]], name: str = "value") -> Array:
    """One number of each outcome (rows x folds)."""
    return np.array([[getattr(outcome, name) for outcome in row] for row in outcomes], dtype=float)


def cv_results(candidates: Sequence[Candidate], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """`cv_results_`: names as in GridSearchCV, one entry a candidate; outcomes are candidates x folds."""
    return {
        "params": [candidate._asdict() for candidate in candidates],
        "param_n_components": np.array([candidate.n_components for candidate in candidates]),
        "param_similarity": np.array([candidate.similarity for candidate in candidates]),
        "param_diffusion_steps": np.array([candidate.diffusion_steps for candidate in candidates]),
        "param_alpha": np.array([candidate.alpha for candidate in candidates]),
        "param_label_weight": np.array([candidate.label_weight for candidate in candidates]),
        **_over_folds(outcomes, "test_score"),
        "rank_test_score": rankdata(-values(outcomes).mean(axis=1), method="min").astype(np.int32),
        **_about_fits(outcomes),
        "std_fit_time": values(outcomes, "seconds").std(axis=1),
    }


def rank_results(ranks: NDArray[np.intp], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """`rank_results_`: one entry a rank; outcomes are ranks x folds."""
    return {"n_components": np.asarray(ranks), **_over_folds(outcomes, "error"), **_about_fits(outcomes)}


def _over_folds(outcomes: Sequence[Sequence[Outcome]], name: str) -> dict[str, Array]:
    """The values of each fold, their means and standard deviations."""
    found = values(outcomes)
    splits = {f"split{fold}_{name}": found[:, fold] for fold in range(found.shape[1])}
    return splits | {f"mean_{name}": found.mean(axis=1), f"std_{name}": found.std(axis=1)}


def _about_fits(outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Array]:
    """How similar the components of the folds are (NaN with one fold), iterations and times."""
    runs = [[outcome.components for outcome in row] for row in outcomes]
    return {
        "stability": np.array([agreement(row) if len(row) > 1 else np.nan for row in runs]),
        "mean_n_iter": values(outcomes, "n_iter").mean(axis=1),
        "mean_fit_time": values(outcomes, "seconds").mean(axis=1),
    }
