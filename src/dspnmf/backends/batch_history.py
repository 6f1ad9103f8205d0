"""Rows of a batch together with the rows of earlier batches, of which only sums are left.

Of the earlier rows, P = X'U (m x k) and Q = U'U (k x k) are known. Their codes can still be mixed: for T >= 0 (k x k),
U T are codes too, with sums P T and T'Q T. So T is for the earlier rows what codes are for the rows of the batch: the
solver looks for both, and what it lowers is the objective of all rows. Without T, codes of the first batches would stay
as they were when little was known, and later ones would be bent to match them.

Where the whole fit is stationary, so is T = 1: every entry of the gradient there is U_a'g_b with the rows' own half
gradient g, which is >= 0, and 0 for a = b.

P, Q and T are where the rows keep their small arrays; T is swept on the host.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import BlockNorms, RowModel, Sums
from dspnmf.backends.small_arrays import ROUNDING_OF_Q, SETTLED, identity_like, trace, zeros_like

_ROUNDING = 1e-12  # share of a squared change
_SWEEPS = 10  # at most; they cost no look at X


class RowsWithHistory:
    """Rows of a batch, and `n` earlier rows with sums P and Q; all that `hals` asks of rows."""

    completes = False

    def __init__(self, rows: Rows, P: SmallArray, Q: SmallArray, n: int) -> None:
        self.shape = (rows.shape[0] + n, rows.shape[1])
        self.scale, self.k, self.dtype, self.small = rows.scale, rows.k, rows.dtype, rows.small.unrecorded()
        self.product_cost, self.sweep_cost, self.rounding = rows.product_cost, rows.sweep_cost, rows.rounding
        self._rows, self._P, self._Q = rows, self.small.adopt(P), self.small.adopt(Q)
        self._T, self._D = identity_like(self._Q), zeros_like(self._Q)
        self._host_Q = self.small.host(Q)

    def sums(self) -> tuple[SmallArray, SmallArray, tuple[SmallArray, ...]]:
        """P = X'U and Q = U'U over all rows."""
        P, Q, _ = self._rows.sums()
        return self._P @ self._T + P, self._T.T @ self._Q @ self._T + Q, ()

    def step(self, t: Scalar) -> Scalar:
        """U += t D, T += t D."""
        t = self._rows.step(t)
        self._T = (self._T + t * self._D).clip(min=0)
        return t

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """Leave the direction of sweeps of the model, in the codes and in T; the sums along both."""
        D = self._D = (stretch * (self._swept(model) - self._T)).clip(min=-self._T)
        here, QD = self._rows.look(model, sweeps, stretch), self._Q @ D
        DD = here.DD + D.T @ QD
        # codes that only rounding moves say nothing about sweeps
        settled = self.small.where(trace(here.DD) > _ROUNDING * trace(DD), here.settled, 0.0)
        return here._replace(PD=here.PD + self._P @ D, UD=here.UD + self._T.T @ QD, DD=DD, settled=settled)

    def refresh(self, Vt: SmallArray) -> Mapping[str, BlockNorms] | None:
        """Rows are as they were."""
        return None

    def _swept(self, model: RowModel) -> SmallArray:
        """T after sweeps of ``1/2 <Q T S, T> - <P'M, T>``: every row of T is a row with curvature S."""
        from dspnmf.backends import kernels

        host, Q = self.small.host, self._host_Q
        pull = host(self._P.T @ self.small.adopt(model.M))
        T, S = host(self._T).copy(), np.ascontiguousarray(host(model.S))
        rounding, first = ROUNDING_OF_Q[self.dtype.itemsize], 0.0
        alive = np.flatnonzero(Q.diagonal() > rounding * Q.diagonal().max())
        for _ in range(_SWEEPS):
            change = kernels.sweep_mixture(T, pull, Q, S, alive, rounding)
            first = first or change
            if change <= SETTLED * first:
                break
        return self.small.adopt(T)
