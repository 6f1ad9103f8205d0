"""What crosses the seam between rows and solver: a model goes in, sums come out. Small arrays only, in float64.

They are NumPy arrays, or tensors where rows keep them on a device (`dspnmf.backends.small_arrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dspnmf._threads import spread
from dspnmf._typing import Array, Scalar, SmallArray, Sparse

GROUP = 2**16  # rows that are drawn and copied at once


class Block(NamedTuple):
    """Some columns of what rows hold: X itself, or further features such as labels."""

    name: str
    columns: slice


X_BLOCK = Block("X", slice(None))  # X where rows hold nothing else


class Operator(NamedTuple):
    """A symmetric n x n matrix ``L = diag(diagonal) - off`` between rows: a graph, a Laplacian, a mask.

    A model of separate rows keeps the diagonal and holds what `off` contributes fixed.
    """

    off: Sparse  # n x n
    diagonal: Array  # n


class RandomCodes(NamedTuple):
    """Nearly half-normal codes of any rows, the same on every backend (`dspnmf.backends.kernels.philox`)."""

    key: int  # of the start, 63 bits
    size: float
    k: int
    dtype: np.dtype[Any]

    @property
    def factor(self) -> float:
        """What the whole numbers are multiplied by that the generator gives."""
        from dspnmf.backends.kernels.philox import DEVIATION

        return float(self.size / DEVIATION)

    def __call__(self, lo: int, hi: int) -> Array:
        """Codes of rows lo to hi."""
        from dspnmf.backends import kernels

        codes = np.empty((hi - lo, self.k), self.dtype)
        spread(partial(kernels.draw, codes, self.key, self.factor, lo), hi - lo, 100.0 * codes.size)
        return codes


class RowModel(NamedTuple):
    """Convex model of the objective around the codes U: ``<g, D> + 1/2 <D S + coupling U (D'U), D>`` and operators.

    ``g = U S - X M + sum_j L_j U pulls[j]`` is half the gradient; operator j adds ``diagonal_j D curves[j]`` to the
    curvature of every row. A pull or curve of one dimension (k) stands for the diagonal matrix; where the diagonal of
    an operator differs from row to row, its curve must be given that way.
    """

    S: SmallArray  # k x k, curvature
    M: SmallArray  # m x k, pull
    coupling: float = 0.0  # weight of the part that ties rows together; `hals` leaves it out
    pulls: Mapping[int, SmallArray] = {}  # operator -> k x k, or its diagonal
    curves: Mapping[int, SmallArray] = {}  # operator -> k x k, or its diagonal


class Sums(NamedTuple):
    """All that leaves the rows after a direction D was found."""

    PD: SmallArray  # m x k, X'D
    UD: SmallArray  # k x k, U'D
    DD: SmallArray  # k x k, D'D
    ULD: tuple[SmallArray, ...] = ()  # k x k for every operator, U'LD
    DLD: tuple[SmallArray, ...] = ()  # D'LD
    settled: Scalar = 0.0  # change of the last sweep over that of the first


class Slope(NamedTuple):
    """Model along a direction D: its slope there, and the k x k sums its curvature follows from."""

    slope: Scalar
    UD: SmallArray
    DD: SmallArray
    DLD: tuple[SmallArray, ...] = ()


class DivergenceModel(NamedTuple):
    """What codes minimise where errors are measured by a beta divergence: it, penalties, and a structure term.

    ``d(X | U V) + l1 sum(U) + l2 ||U||^2``, and with P and Q of the codes around which the structure term is bounded
    ``alpha ||XX' - UU'||^2``.
    """

    beta: float
    Vt: SmallArray  # m x k
    l1: float = 0.0
    l2: float = 0.0
    alpha: float = 0.0
    P: SmallArray = None  # m x k, where alpha > 0
    Q: SmallArray = None  # k x k


class DivergenceSums(NamedTuple):
    """What leaves the rows when their codes were improved: the divergence, and sums for the components.

    Its derivative in V' is ``push - pull``, ``pull = (X (UV)^(beta - 2))' U`` and ``push = (UV)^(beta - 1)' U``.
    """

    value: Scalar
    pull: SmallArray  # m x k
    push: SmallArray  # m x k, or 1 x k where it is the same for all features
    ones: SmallArray  # k, sums of the codes
    squares: SmallArray  # k, sums of their squares
    P: SmallArray = None  # m x k, X'U where the model has a structure term
    Q: SmallArray = None  # k x k


class BlockNorms(NamedTuple):
    """Norms of a block of X as it is now, where rows complete missing cells."""

    norm2: float  # ||X||^2
    gram_norm2: Callable[[], float]  # ||XX'||^2, computed when asked for


class Ties(NamedTuple):
    """What ties new rows to those of the fit: a pull next to X M, and a curvature ``weight_i diag(lengths)``."""

    pull: Array | None  # n x k
    weight: Array | None = None  # n
    lengths: Array | None = None  # k


@dataclass(frozen=True, eq=False)
class Completion:
    """How missing cells of new rows are completed: by U V, at first by the means of their columns.

    Of the pull of such rows, ``weight V'`` speaks of X itself and the rest of its similarities.
    """

    Vt: Array  # m x k, V' in the solver's unit
    weight: float
    column_means: Array  # m, in the unit of X
