"""What crosses the seam between rows and solver: a model going in, sums coming out. Small arrays only, float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class RowModel(NamedTuple):
    """Convex model of the objective around the codes U: ``<U S - X M, D> + 1/2 <D S + coupling U (D'U), D>``."""

    S: Array  # k x k, curvature
    M: Array  # m x k, pull
    coupling: float  # weight of the part that ties rows together; `hals` leaves it out


class Sums(NamedTuple):
    """All that leaves the rows after a direction D was found."""

    PD: Array  # m x k, X'D
    UD: Array  # k x k, U'D
    DD: Array  # k x k, D'D
