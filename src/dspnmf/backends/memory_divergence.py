"""Rows whose errors are measured by a beta divergence: what surrounds the compiled loop.

Requirements: as for `dspnmf.backends.memory_rows`. Sparse X is never made dense: where the divergence is linear in UV
at x = 0 (Kullback-Leibler) only stored entries are touched, otherwise one row at a time is written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dspnmf._typing import Array
from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.row_model import DivergenceModel, DivergenceSums

FLOORS = {4: 1e-15, 8: 1e-50}  # added to UV, as a component that is never changed; by the bytes of the arithmetic
SWEEPS = 500  # of codes that are solved for, at most
SOLVED = {4: 3e-4, 8: 1e-5}  # change of a sweep over the codes, where they count as solved
_SWEEP_COST = 4.0  # operations of a sweep over those of a product
_GROUP = 64  # rows that threads are given at once


class SweepsDivergences(MemoryRows if TYPE_CHECKING else object):  # type: ignore[misc]
    """What rows do in addition; stands before the class of rows among the bases."""

    _known: Any
    _kept: Array | None = None
    _incomplete: bool | None = None

    def improve(self, model: DivergenceModel, sweeps: int) -> DivergenceSums:
        """By the compiled loop, row by row."""
        self._known = None
        value, pull, push, ones, squares, P, Q = self._improve(model, sweeps, 0.0, codes=self.codes, anchored=True)
        if model.beta == 1:
            push = ones[None, :] + push if len(push) else ones[None, :]
        return DivergenceSums(value, pull, push, ones, squares, P, Q)

    def solve_divergence(self, model: DivergenceModel, *, fresh: bool) -> Array:
        """By the same loop, until a row's codes stand still."""
        codes = self._new()
        if not fresh:
            for group in self._groups():
                codes[group] = self._U[group]
        tol = SOLVED[self.dtype.itemsize]
        self._improve(model, SWEEPS, tol, codes=codes, anchored=False, fresh=fresh, summed=False)
        return codes

    def remember(self) -> None:
        """A copy of the codes."""
        kept = self._new() if self._kept is None else self._kept
        for group in self._groups():
            kept[group] = self._U[group]
        self._kept = kept

    def recall(self) -> None:
        """The copy becomes the codes."""
        assert self._kept is not None
        for group in self._groups():
            self._U[group] = self._kept[group]
        self._known = None

    def release(self) -> None:
        """Free the copy, too."""
        super().release()
        self._kept = None

    def _improve(
        self, model: DivergenceModel, sweeps: int, tol: float, *, codes: Array, anchored: bool, fresh: bool = False,
        summed: bool = True,
    ) -> Any:  # fmt: skip
        from dspnmf.backends import kernels

        dtype = self.dtype if model.beta == 1 else np.dtype(np.float64)
        Vt = np.ascontiguousarray(model.Vt, dtype)
        structured = model.alpha > 0
        k, weight = self.k, 4 * model.alpha
        P = weight * np.asarray(model.P, np.float64) if structured else np.zeros((0, k))
        S = weight * np.asarray(model.Q, np.float64) if structured else np.zeros((k, k))
        if self._incomplete is None:
            self._incomplete = self._any_missing()
        small = (
            Vt, np.ascontiguousarray(Vt.T), Vt.sum(axis=0, dtype=np.float64), P, S, anchored, 1 / self.scale,
            float(model.beta), float(model.l1), float(model.l2), FLOORS[dtype.itemsize], int(sweeps), tol, fresh,
            summed, self._incomplete,
        )  # fmt: skip
        work = (2 + _SWEEP_COST * min(sweeps, 20)) * self.product_cost
        return self._with_X(kernels.improve, work, (codes,), *small)

    def _any_missing(self) -> bool:
        """Whether cells of X are missing."""
        values = self._X.data if sparse.issparse(self._X) else self._X
        return bool(values.size) and bool(np.isnan(values.min()))


class MemoryDivergenceRows(SweepsDivergences, MemoryRows):
    """X in memory and its codes."""
