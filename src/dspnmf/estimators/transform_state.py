"""What a fitted model keeps: all that `transform` and `partial_fit` need, as one frozen object in the solver's units.

It is replaced as a whole when a fit is done, and saved and loaded as such (`dspnmf.persistence`, which checks what it
loads: the compiled loops do not check their indices).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dspnmf._typing import Array, Matrix
from dspnmf.backends.row_model import Completion


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows of the fit that new rows are tied to (methods with graphs)."""

    codes: Array  # n x k
    data: Matrix  # n x m
    weight: float = 1.0  # of the ties
    edge_length: float | None = None  # mean distance of tied rows


@dataclass(frozen=True, eq=False)
class BatchSums:
    """What is left of the rows of earlier batches."""

    Vt: Array
    P: Array
    Q: Array
    norm2: float  # ||X||^2
    mass: float  # rows, each with the weight that is left of it
    weights: Mapping[str, float]  # of the terms
    code: float  # the user's codes over the solver's
    rows_only: bool  # whether these sums say all: no labels, no missing cells


@dataclass(frozen=True, eq=False)
class DivergenceBatches:
    """What is left of the rows of earlier batches where errors are measured by a divergence: a bound of it.

    That of `dspnmf.backends.divergence_history`, as a function of the components.
    """

    pull: Array  # m x k
    push: Array  # m x k
    constant: float
    mass: float  # rows, each with the weight that is left of it
    code: float  # the user's codes over the solver's


@dataclass(frozen=True, eq=False)
class DivergenceState:
    """What codes of new rows minimise where errors are measured by a beta divergence."""

    beta: float
    Vt: Array  # m x k, in the solver's unit
    l1: float  # weights of penalties on the codes
    l2: float
    alpha: float  # of the similarities: `curvature` and `pull` are then U'U and X'U of the fit
    batches: DivergenceBatches | None = None  # None: no batch can follow


@dataclass(frozen=True, eq=False)
class TransformState:
    """The problem that a new row poses: ``min_u 1/2 u S u' - x M u'`` over u >= 0, and its ties."""

    parameters: Mapping[str, Any]  # of the estimator when it was fitted
    scale: float  # the unit of X
    unit: Array  # k, the user's codes over the solver's
    curvature: Array  # S, k x k
    pull: Array  # M, m x k (more rows where features were added)
    training: TrainingRows | None = None
    completion: Completion | None = None
    batches: BatchSums | None = None
    divergence: DivergenceState | None = None
