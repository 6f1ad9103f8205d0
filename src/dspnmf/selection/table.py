"""What came out: a table with a row for every candidate, and which one a rule takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from dspnmf._typing import Array
from dspnmf.selection.path import Outcome
from dspnmf.selection.speckle import Speckled
from dspnmf.stability import agreement

RULES = ("best", "one-se")


class Candidate(NamedTuple):
    """One setting; in this order, simpler ones come first."""

    n_components: int
    label_weight: float
    alpha: float


def chosen(scores: Array, rule: str) -> int:
    """Which row of scores (candidates, simplest first, x folds) a rule takes.

    "best": the largest mean, the simplest of equals. "one-se": the simplest whose mean is at most one standard error of
    the best below it.
    """
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if rule == "best" or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(means >= means[best] - error))


def results(candidates: Sequence[Candidate], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """`cv_results_`: names as in GridSearchCV, one entry a candidate; outcomes are candidates x folds."""
    scores, n_iter, seconds = (np.array([[o[i] for o in row] for row in outcomes], dtype=float) for i in range(3))
    means = scores.mean(axis=1)
    return {
        "params": [candidate._asdict() for candidate in candidates],
        "param_n_components": np.array([candidate.n_components for candidate in candidates]),
        "param_alpha": np.array([candidate.alpha for candidate in candidates]),
        "param_label_weight": np.array([candidate.label_weight for candidate in candidates]),
        **{f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])},
        "mean_test_score": means,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rankdata(-means, method="min").astype(np.int32),
        "stability": np.array([_agreement([outcome.components for outcome in row]) for row in outcomes]),
        "mean_n_iter": n_iter.mean(axis=1),
        "mean_fit_time": seconds.mean(axis=1),
        "std_fit_time": seconds.std(axis=1),
    }


def rank_results(ranks: Array, outcomes: Sequence[Sequence[Speckled]]) -> dict[str, Any]:
    """`rank_results_`: one entry a rank; outcomes are ranks x folds."""
    errors, n_iter, seconds = (np.array([[o[i] for o in row] for row in outcomes], dtype=float) for i in range(3))
    return {
        "n_components": np.asarray(ranks),
        **{f"split{fold}_error": errors[:, fold] for fold in range(errors.shape[1])},
        "mean_error": errors.mean(axis=1),
        "std_error": errors.std(axis=1),
        "stability": np.array([_agreement([outcome.components for outcome in row]) for row in outcomes]),
        "mean_n_iter": n_iter.mean(axis=1),
        "mean_fit_time": seconds.mean(axis=1),
    }


def _agreement(runs: Sequence[Array]) -> float:
    """How alike the components of the folds are; NaN where one fold has none to be compared with."""
    return agreement(runs) if len(runs) > 1 else float("nan")
