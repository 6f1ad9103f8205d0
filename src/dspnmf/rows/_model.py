"""What crosses the seam between rows and solver: a model going in, sums coming out. Small arrays only, float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class Operator(NamedTuple):
    """A symmetric n x n matrix ``L = diag(diagonal) - off`` between rows: a graph, a Laplacian, a mask.

    A model of separate rows keeps the diagonal and holds what `off` contributes fixed.
    """

    off: Any  # sparse, n x n
    diagonal: Array  # n


class RowModel(NamedTuple):
    """Convex model of the objective around the codes U: ``<g, D> + 1/2 <D S + coupling U (D'U), D>`` and operators.

    ``g = U S - X M + sum_j L_j U pulls[j]`` is half the gradient; operator j adds ``diagonal_j D curves[j]`` to the
    curvature of every row.
    """

    S: Array  # k x k, curvature
    M: Array  # m x k, pull
    coupling: float = 0.0  # weight of the part that ties rows together; `hals` leaves it out
    pulls: Mapping[int, Array] = {}  # operator -> k x k
    curves: Mapping[int, Array] = {}  # operator -> k x k


class Sums(NamedTuple):
    """All that leaves the rows after a direction D was found."""

    PD: Array  # m x k, X'D
    UD: Array  # k x k, U'D
    DD: Array  # k x k, D'D
    ULD: tuple[Array, ...] = ()  # k x k for every operator, U'LD
    DLD: tuple[Array, ...] = ()  # D'LD
