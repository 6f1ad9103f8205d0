"""Rows of a batch together with those of earlier batches, errors measured by a beta divergence.

Of the earlier rows a bound of their divergence is left, as a function of the components: the one that the rule for the
components minimises (Fevotte and Idier, Neural Computation 23(9), 2011; used this way by Lefevre, Bach and Fevotte,
WASPAA 2011). With a = max(beta - 1, 0) and b = max(2 - beta, 0) it is, entry by entry of V,

    constant + push v^(a + 1) / (a + 1) - pull v^(1 - b) / (1 - b)        (b = 1: the logarithm)

and equals the divergence where V is as it was when the rows were summed up. Bounds of several batches are added up, so
memory does not grow. What pushes and pulls V has the form that the rows of the batch have, so a descent takes both
together, and never raises the divergence of the batch plus the bound.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import DivergenceRows
from dspnmf.backends.row_model import DivergenceModel, DivergenceSums
from dspnmf.backends.small_arrays import Small, log

_TINY = 1e-70  # added to V where it is the base of a power; no power of it that occurs leaves the range of float64


class DivergenceBound(NamedTuple):
    """A bound of the divergence of some rows as a function of V'."""

    pull: SmallArray  # m x k
    push: SmallArray  # m x k
    constant: Scalar

    @classmethod
    def of(cls, found: DivergenceSums, beta: float, Vt: SmallArray) -> Self:
        """That which equals the divergence at V, from the sums of a look."""
        a, b = exponents(beta)
        V = Vt + _TINY
        bound = cls(found.pull * V**b, (found.push + 0 * Vt) * V**-a, 0.0)
        return bound._replace(constant=found.value - bound.value(beta, Vt))

    def value(self, beta: float, Vt: SmallArray) -> Scalar:
        """At other components."""
        a, b = exponents(beta)
        V = Vt + _TINY
        falling = log(V) if b == 1 else V ** (1 - b) / (1 - b)
        return self.constant + (self.push * V ** (a + 1)).sum() / (a + 1) - (self.pull * falling).sum()

    def weighted(self, weight: float) -> Self:
        """Of rows of another weight."""
        return type(self)(self.pull * weight, self.push * weight, self.constant * weight)


class DivergenceRowsWithHistory:
    """Rows of a batch, and `n` earlier rows of which a bound is left; all that a descent asks of rows.

    A structure term is that of all rows: P and Q of the earlier ones, whose codes stay as they are, are added to those
    of the batch. The bound of it that sweeps take is one for all rows, of which some do not move.
    """

    completes = False

    def __init__(self, rows: DivergenceRows, bound: DivergenceBound, P: SmallArray, Q: SmallArray, n: int) -> None:
        self.shape, self.k, self.dtype, self.scale = (rows.shape[0] + n, rows.shape[1]), rows.k, rows.dtype, rows.scale
        self.small: Small = rows.small
        adopt = self.small.adopt
        self._rows = rows
        self._bound = DivergenceBound(adopt(bound.pull), adopt(bound.push), bound.constant)
        self._P, self._Q = adopt(P), adopt(Q)
        self.remember, self.recall = rows.remember, rows.recall

    def improve(self, model: DivergenceModel, sweeps: int) -> DivergenceSums:
        """Sweep the rows of the batch; their sums and those of the bound."""
        here, bound, (a, b) = self._rows.improve(model, sweeps), self._bound, exponents(model.beta)
        V = model.Vt + _TINY
        if here.P is not None and len(here.P):
            here = here._replace(P=here.P + self._P, Q=here.Q + self._Q)
        return here._replace(
            value=here.value + bound.value(model.beta, model.Vt),
            pull=here.pull + bound.pull * V**-b,
            push=here.push + bound.push * V**a,
        )

    def sums(self) -> tuple[SmallArray, SmallArray, tuple[SmallArray, ...]]:
        """P = X'U and Q = U'U over all rows."""
        P, Q, _ = self._rows.sums()
        return self._P + P, self._Q + Q, ()

    def refresh(self, Vt: SmallArray) -> None:
        """Rows are as they were."""


def exponents(beta: float) -> tuple[float, float]:
    """The powers by which what pushes a factor rises, and what pulls it falls."""
    return max(beta - 1, 0.0), max(2 - beta, 0.0)
