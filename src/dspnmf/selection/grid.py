"""What is tried: ranks, weights of the structure and of the labels; every check of them, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._typing import Array
from dspnmf._validation import Allowed, ParameterError, either, number, one_of, whole
from dspnmf.backends import norms

RANKS = (2, 3, 5, 8, 12, 20)
LOWEST, HIGHEST = 1e-1, 1e4  # of the weights above 0, times `natural_weight`


def each(one: Allowed, words: str) -> Allowed:
    """One value or more, each as `one` says."""

    def test(values: Any) -> bool:
        listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
        return bool(listed and np.ndim(values) == 1 and len(values) and all(one.test(value) for value in values))

    return Allowed(test, f"one or more {words}, as a list")


N_COMPONENTS = either(one_of("auto"), whole(1), each(whole(1), "whole numbers >= 1"))
ALPHAS = either(whole(2), each(number(0), "finite numbers >= 0"))
LABEL_WEIGHTS = each(number(0), "finite numbers >= 0")


def natural_weight(X: Any) -> float:
    """``||X||^2 / ||XX'||^2``: the alpha at which both terms of the objective have the same size at U = 0."""
    norm2, gram_norm2 = norms.norm2(X), norms.gram_norm2(X)
    return norm2 / gram_norm2 if gram_norm2 > 0 else 1.0


def alphas(asked: Any, X: Any) -> Array:
    """The weights of the structure, rising: those given, or 0 and a logarithmic grid around the natural weight."""
    if not isinstance(asked, int | np.integer):
        return np.unique(np.asarray(asked, dtype=np.float64))
    count = int(asked) - 1
    steps = np.geomspace(LOWEST, HIGHEST, count) if count > 1 else np.sqrt([LOWEST * HIGHEST])
    return np.append(0.0, natural_weight(X) * steps)


def ranks(asked: Any, n: int, m: int) -> NDArray[np.intp]:
    """The ranks, rising; none above the number of features, or of rows (n) in the smallest fit."""
    most = min(n, m)
    if isinstance(asked, str):
        return np.array([k for k in RANKS if k <= most] or [most])
    found = np.unique(np.atleast_1d(asked)).astype(np.intp)
    if found[-1] > most:
        limit = f"n_features={m}" if m <= n else f"the {n} samples of the smallest training set"
        raise ParameterError(
            f"n_components={asked!r} has {found[-1]}, but no rank above {limit} can be told from smaller ones: "
            f'leave out ranks above {most}, or use n_components="auto".',
            "n_components",
        )
    return found
