"""Rows at hand together with rows seen before, of which only sums are left.

Of the rows before, P = X'U (m x k) and Q = U'U (k x k) are known. Their codes can still be mixed: for T >= 0 (k x k),
U T are codes too, with sums P T and T'Q T. So T is for the rows before what codes are for the rows at hand: the solver
looks for both, and what it lowers is the objective of all rows. Without T, codes of the first batches would stay as
they were when little was known, and later ones would be bent to match them.

Where the whole fit is stationary, so is T = 1: every entry of the gradient there is U_a'g_b with the rows' own half
gradient g, which is >= 0, and 0 for a = b.
"""

from __future__ import annotations

import numpy as np

from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import Array, RowModel, Sums
from dspnmf.backends.small_arrays import ROUNDING_OF_Q, SETTLED

_SWEEPS = 10  # at most; they cost no look at X


class WithPast:
    """Rows in memory, with `n` rows before them; all that `hals` asks of rows."""

    def __init__(self, rows: Rows, P: Array, Q: Array, n: int) -> None:
        self._rows, self._P, self._Q = rows, P, Q
        self._T, self._D = np.eye(len(Q)), np.zeros_like(Q)
        self.shape = (rows.shape[0] + n, rows.shape[1])
        self.scale, self.k, self.dtype, self.small = rows.scale, rows.k, rows.dtype, rows.small
        self.product_cost, self.sweep_cost = rows.product_cost, rows.sweep_cost

    def sums(self) -> tuple[Array, Array, tuple[Array, ...]]:
        """P = X'U and Q = U'U over all rows."""
        P, Q, _ = self._rows.sums()
        return self._P @ self._T + P, self._T.T @ self._Q @ self._T + Q, ()

    def step(self, t: float) -> None:
        """U += t D, T += t D."""
        self._rows.step(t)
        self._T = np.maximum(self._T + t * self._D, 0)

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """Leave the direction of sweeps of the model, in the codes and in T; the sums along both."""
        here = self._rows.look(model, sweeps, stretch)
        D = self._D = np.maximum(stretch * (self._swept(model) - self._T), -self._T)
        QD = self._Q @ D
        return here._replace(PD=here.PD + self._P @ D, UD=here.UD + self._T.T @ QD, DD=here.DD + D.T @ QD)

    def _swept(self, model: RowModel) -> Array:
        """T after sweeps of ``1/2 <Q T S, T> - <P'M, T>``: every row of T is a row with curvature S."""
        from dspnmf.backends import kernels

        T, S, pull = self._T.copy(), np.ascontiguousarray(model.S), self._P.T @ model.M
        rounding, first = ROUNDING_OF_Q[self.dtype.itemsize], 0.0
        alive = np.flatnonzero(self._Q.diagonal() > rounding * self._Q.diagonal().max())
        for _ in range(_SWEEPS):
            change = 0.0
            for a in alive:
                rest = (pull[a] - self._Q[a] @ T @ S) / self._Q[a, a] + T[a] @ S
                change += kernels.sweep_rows(T[a : a + 1], rest[None], S, rounding, 1)
            first = first or change
            if change <= SETTLED * first:
                break
        return T
