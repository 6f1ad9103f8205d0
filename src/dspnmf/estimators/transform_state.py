"""What a fitted model keeps: all that `transform` and `partial_fit` need, as one frozen object in the solver's units.

It is replaced as a whole when a fit is done, and saved and loaded as such (`dspnmf.persistence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf._typing import Array, ArrayLike, Matrix
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

    def faults(self, k: int, m: int, width: int | None) -> Iterator[str]:
        """What is wrong with arrays that came out of a file, for k components and m features.

        `width` counts the columns that rows have for `transform`; None: unknown, where an estimator adds its own.
        The compiled loops do not check their indices, so arrays that do not fit each other must never reach them.
        """
        pushes = width is None  # a term of the user's own may do that
        if width is None:
            width = max(m, len(self.pull)) if np.ndim(self.pull) == 2 else m
        training, completion, sums = self.training, self.completion, self.batches
        parts: list[tuple[str, object, tuple[int | None, ...] | None]] = [  # name, value, shape (None: a number)
            ("scale", self.scale, None),
            ("unit", self.unit, (k,)),
            ("curvature", self.curvature, (k, k)),
            ("pull", self.pull, (width, k)),
        ]
        if training is not None:
            n = len(training.codes) if np.ndim(training.codes) else None
            parts += [("training codes", training.codes, (n, k)), ("training data", training.data, (n, m))]
            edge_length = 0.0 if training.edge_length is None else training.edge_length
            parts += [("weight of the ties", training.weight, None), ("edge length", edge_length, None)]
        if completion is not None:
            parts += [("V'", completion.Vt, (m, k)), ("column means", completion.column_means, (m,))]
            parts += [("weight of V'", completion.weight, None)]
        if sums is not None:
            held = np.shape(sums.Vt)[0] if np.ndim(sums.Vt) else None
            parts += [("sums V'", sums.Vt, (held, k)), ("sums P", sums.P, (held, k)), ("sums Q", sums.Q, (k, k))]
            parts += [("norm2", sums.norm2, None), ("mass", sums.mass, None), ("code", sums.code, None)]
            if sums.rows_only and held != width:
                yield f"sums V' has {held} rows, but must have {width}"
        for name, value, shape in parts:
            if shape is not None:
                yield from _array_faults(name, value, shape, signed=pushes and name == "pull")
            elif not (isinstance(value, float) and 0 <= value < np.inf) or (name == "scale" and value == 0):
                yield f"{name} is {value!r}, but must be a finite number {'>' if name == 'scale' else '>='} 0"


def _array_faults(name: str, array: ArrayLike, shape: tuple[int | None, ...], *, signed: bool) -> Iterator[str]:
    """What is wrong with one array: its kind, its shape, or what it holds."""
    if not (isinstance(array, np.ndarray) or sparse.issparse(array)):
        yield f"{name} is a {type(array).__name__}, but must be an array"
        return
    if np.shape(array) != shape:
        yield f"{name} has shape {np.shape(array)}, but must have {shape}"
    if array.dtype not in (np.float32, np.float64):
        yield f"{name} has dtype {array.dtype}, but must be float32 or float64"
        return
    values = array.data if sparse.issparse(array) else array
    if not (np.isfinite(values).all() and (signed or (values >= 0).all())):
        yield f"{name} has entries that are not finite{'' if signed else ', or negative'}"
