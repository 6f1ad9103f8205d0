"""The settings to choose from: ranks, similarities, weights of the structure and of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from dspnmf._typing import Array, Matrix
from dspnmf._validation import Allowed, ParameterError, either, number, one_of, whole
from dspnmf.backends import norms
from dspnmf.backends.chunk_facts import norm2 as norm2_of
from dspnmf.backends.chunk_facts import unit_near
from dspnmf.backends.memory import MEMORY, MemoryData
from dspnmf.estimators.dspnmf import DSPNMF, SIMILARITIES
from dspnmf.estimators.structure_weight import TIMES_NATURAL

RANKS = (2, 3, 5, 8, 12, 20)
LOWEST, HIGHEST = 1e-1, 1e4  # of the weights above 0, times `natural_weight`
Ranks: TypeAlias = "str | int | Sequence[int] | NDArray[np.integer]"
Weights: TypeAlias = "Sequence[float] | Array"
Alphas: TypeAlias = "int | str | Sequence[float | str] | Array"


class Similarity(NamedTuple):
    """What codes are to preserve."""

    similarity: str
    diffusion_steps: int  # of "diffused"; others do not use it


class Candidate(NamedTuple):
    """One setting."""

    n_components: int
    similarity: str
    diffusion_steps: int
    label_weight: float
    alpha: float

    @property
    def kind(self) -> Similarity:
        """Its similarity."""
        return Similarity(self.similarity, self.diffusion_steps)


def each(one: Allowed, words: str) -> Allowed:
    """One value or more, each as `one` says."""

    def test(values: object) -> bool:
        if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
            return False
        return np.ndim(values) == 1 and len(values) > 0 and all(one.test(value) for value in values)

    return Allowed(test, f"one or more {words}, as a list")


def _listed(*names: str) -> Allowed:
    """One of some words, or a list of them."""
    return either(one_of(*names), each(one_of(*names), f"of {', '.join(map(repr, names))}"))


WEIGHTS = each(number(0), "finite numbers >= 0")
N_COMPONENTS = either(one_of("auto"), whole(1), each(whole(1), "whole numbers >= 1"))
ALPHAS = either(whole(2), one_of("auto"), each(either(number(0), one_of("auto")), 'finite numbers >= 0 or "auto"'))
SIMILARITY = _listed(*SIMILARITIES[:4])  # those that new rows have
STEPS = either(whole(1), each(whole(1), "whole numbers >= 1"))


def natural_weight(X: Matrix, model: DSPNMF | None = None) -> float:
    """``||X||^2 / ||XX'||^2``: the alpha at which both terms of the objective have the same size at U = 0.

    Of a model with another similarity: that for its structure term.
    """
    if model is None:
        norm2, gram_norm2 = norm2_of(X), norms.gram_norm2(X)
        return norm2 / gram_norm2 if gram_norm2 > 0 else 1.0
    data = MemoryData(X, MEMORY, float(X.max()))
    scale = unit_near(data.largest, data.dtype)
    weighed = clone(model).set_params(alpha="auto")
    weighed.n_components_ = 1  # the weight is the same for every rank
    problem = weighed.problem(data.of_ordinary_size(scale), None, scale)
    return float(problem.details["alpha"]) / TIMES_NATURAL or 1.0


def alpha_grid(alphas: Alphas, X: Matrix, model: DSPNMF | None = None) -> Array:
    """The weights of the structure, rising: those given, or 0 and a logarithmic grid around the natural weight."""
    if isinstance(alphas, int | np.integer):
        count = int(alphas) - 1
        steps = np.geomspace(LOWEST, HIGHEST, count) if count > 1 else np.sqrt([LOWEST * HIGHEST])
        return np.append(0.0, natural_weight(X, model) * steps)
    given = ["auto"] if isinstance(alphas, str) else list(alphas)
    auto = TIMES_NATURAL * natural_weight(X, model) if "auto" in given else 0.0
    return np.unique(np.array([auto if isinstance(alpha, str) else alpha for alpha in given], dtype=np.float64))


def alpha_grids(
    similarities: str | Sequence[str], steps: int | Sequence[int], alphas: Alphas, X: Matrix, model: DSPNMF
) -> dict[Similarity, Array]:
    """The grid of every similarity, in the order they are given; "diffused" once for every number of steps."""
    every = sorted({int(count) for count in np.atleast_1d(np.asarray(steps))})
    names = [similarities] if isinstance(similarities, str) else list(dict.fromkeys(similarities))
    kinds = [Similarity(name, count) for name in names for count in (every if name == "diffused" else every[:1])]
    of = {kind: None if kind.similarity == "gram" else clone(model).set_params(**kind._asdict()) for kind in kinds}
    return {kind: alpha_grid(alphas, X, of[kind]) for kind in kinds}


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
