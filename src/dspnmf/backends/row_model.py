"""What crosses the seam between rows and solver: a model going in, sums coming out. Small arrays only, float64.

They are NumPy arrays, or tensors where rows keep them on a device (`dspnmf.backends.small_arrays`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
SmallArray = Any  # float64: a NumPy array, or a tensor on a device
GROUP = 2**16  # rows that share a stream of random numbers


class Operator(NamedTuple):
    """A symmetric n x n matrix ``L = diag(diagonal) - off`` between rows: a graph, a Laplacian, a mask.

    A model of separate rows keeps the diagonal and holds what `off` contributes fixed.
    """

    off: Any  # sparse, n x n
    diagonal: Array  # n


class RandomCodes(NamedTuple):
    """Half-normal codes of any rows, the same whoever draws them: rows come in groups with a stream of their own.

    The first group goes on where the generator of the fit stands (`state`), the others are keyed by their number.
    """

    state: Any  # of a RandomState
    key: int
    size: float
    k: int
    dtype: Any

    def __call__(self, lo: int, hi: int) -> Array:
        """Codes of rows lo to hi."""
        parts = []
        for group in range(lo // GROUP, -(-hi // GROUP)):
            begin, end = max(lo - group * GROUP, 0), min(hi - group * GROUP, GROUP)
            rng = np.random.RandomState() if group == 0 else np.random.RandomState([self.key, group])
            if group == 0:
                rng.set_state(self.state)
            parts.append((self.size * np.abs(rng.standard_normal((end, self.k)))[begin:]).astype(self.dtype))
        return np.concatenate(parts) if parts else np.empty((0, self.k), self.dtype)


class RowModel(NamedTuple):
    """Convex model of the objective around the codes U: ``<g, D> + 1/2 <D S + coupling U (D'U), D>`` and operators.

    ``g = U S - X M + sum_j L_j U pulls[j]`` is half the gradient; operator j adds ``diagonal_j D curves[j]`` to the
    curvature of every row.
    """

    S: SmallArray  # k x k, curvature
    M: SmallArray  # m x k, pull
    coupling: float = 0.0  # weight of the part that ties rows together; `hals` leaves it out
    pulls: Mapping[int, SmallArray] = {}  # operator -> k x k
    curves: Mapping[int, SmallArray] = {}  # operator -> k x k


class Sums(NamedTuple):
    """All that leaves the rows after a direction D was found."""

    PD: SmallArray  # m x k, X'D
    UD: SmallArray  # k x k, U'D
    DD: SmallArray  # k x k, D'D
    ULD: tuple[SmallArray, ...] = ()  # k x k for every operator, U'LD
    DLD: tuple[SmallArray, ...] = ()  # D'LD
    settled: Any = 0.0  # change of the last sweep over that of the first


class Slope(NamedTuple):
    """Model along a direction D: its slope there, and the k x k sums its curvature follows from."""

    slope: Any
    UD: SmallArray
    DD: SmallArray
    DLD: tuple[SmallArray, ...] = ()
