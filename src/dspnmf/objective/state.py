"""Where a descent stands: the small arrays that terms are written in, and solvers move.

=====  ======  ===============================
V      k x m   components; ``Vt`` is m x k
P      m x k   X'U
Q      k x k   U'U
L      k x k   U'LU for every operator
=====  ======  ===============================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dspnmf.backends import Sums
from dspnmf.backends.row_model import Array
from dspnmf.backends.small_arrays import Scalar, Small


@dataclass(frozen=True)
class State:
    """The small arrays every term is written in."""

    Vt: Array
    P: Array
    Q: Array
    L: tuple[Array, ...] = ()
    offsets: tuple[float, ...] = ()  # what every term has gained since X changed under it, where cells are missing

    def on_host(self, small: Small) -> State:
        """The same on the host."""
        L = tuple(map(small.host, self.L))
        return State(small.host(self.Vt), small.host(self.P), small.host(self.Q), L, self.offsets)

    def moved(self, t: Scalar, d: Sums) -> State:
        """After the codes took a step t along D; components as they are."""
        L = tuple(here + t * (ULD + ULD.T) + t * t * DLD for here, ULD, DLD in zip(self.L, d.ULD, d.DLD, strict=True))
        return replace(self, P=self.P + t * d.PD, Q=self.Q + t * (d.UD + d.UD.T) + t * t * d.DD, L=L)

    def with_sums(self, P: Any, Q: Any, L: tuple[Any, ...]) -> State:
        """With sums made anew."""
        return replace(self, P=P, Q=Q, L=L)
