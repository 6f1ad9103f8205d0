"""The settings to choose from: ranks, weights of the structure and of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspnmf._typing import Array, Matrix
from dspnmf._validation import Allowed, ParameterError, either, number, one_of, whole
from dspnmf.backends import norms
from dspnmf.backends.chunk_facts import norm2 as norm2_of

RANKS = (2, 3, 5, 8, 12, 20)
LOWEST, HIGHEST = 1e-1, 1e4  # of the weights above 0, times `natural_weight`
Ranks: TypeAlias = "str | int | Sequence[int] | NDArray[np.integer]"
Weights: TypeAlias = "Sequence[float] | Array"


class Candidate(NamedTuple):
    """One setting; sorted, simpler ones come first."""

    n_components: int
    label_weight: float
    alpha: float


def each(one: Allowed, words: str) -> Allowed:
    """One value or more, each as `one` says."""

    def test(values: object) -> bool:
        if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
            return False
        return np.ndim(values) == 1 and len(values) > 0 and all(one.test(value) for value in values)

    return Allowed(test, f"one or more {words}, as a list")


WEIGHTS = each(number(0), "finite numbers >= 0")
N_COMPONENTS = either(one_of("auto"), whole(1), each(whole(1), "whole numbers >= 1"))
ALPHAS = either(whole(2), WEIGHTS)


def natural_weight(X: Matrix) -> float:
    """``||X||^2 / ||XX'||^2``: the alpha at which both terms of the objective have the same size at U = 0."""
    norm2, gram_norm2 = norm2_of(X), norms.gram_norm2(X)
    return norm2 / gram_norm2 if gram_norm2 > 0 else 1.0


def alpha_grid(alphas: int | Weights, X: Matrix) -> Array:
    """The weights of the structure, rising: those given, or 0 and a logarithmic grid around the natural weight."""
    if not isinstance(alphas, int | np.integer):
        return np.unique(np.asarray(alphas, dtype=np.float64))
    count = int(alphas) - 1
    steps = np.geomspace(LOWEST, HIGHEST, count) if count > 1 else np.sqrt([LOWEST * HIGHEST])
    return np.append(0.0, natural_weight(X) * steps)


def rank_grid(n_components: Ranks, n: int, m: int) -> NDArray[np.intp]:
    """The ranks, rising; none above the number of features (m), or of rows (n) in the smallest fit."""
    most = min(n, m)
    if isinstance(n_components, str):
        return np.array([k for k in RANKS if k <= most] or [most])
    ranks = np.unique(np.atleast_1d(n_components)).astype(np.intp)
    if ranks[-1] > most:
        limit = f"n_features={m}" if m <= n else f"the {n} samples of the smallest training set"
        raise ParameterError(
            f"n_components={n_components!r} has {ranks[-1]}, but no rank above {limit} can be distinguished from "
            f'smaller ones: leave out ranks above {most}, or use n_components="auto".',
            "n_components",
        )
    return ranks
