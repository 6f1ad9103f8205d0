"""What is minimised: a sum of terms, each a quadratic plus at most a quartic in the codes.

A term gives its value, its part of the convex model around the codes (`RowModel`), and the coefficients of its quartic
along a line. It sees the small arrays of `State` only, never where the rows live. lam is a unit (see
`dspnmf.estimators`), so it is 1 here.

=====  ======  ===============================
V      k x m   components; ``Vt`` is m x k
P      m x k   X'U
Q      k x k   U'U
VV     k x k   V V'
=====  ======  ===============================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from dspnmf.rows import ArrayRows, RowModel, Sums
from dspnmf.rows._model import Array


@dataclass(frozen=True)
class State:
    """The small arrays every term is written in."""

    Vt: Array
    P: Array
    Q: Array

    @cached_property
    def VV(self) -> Array:
        """V V'."""
        return self.Vt.T @ self.Vt


class Term(Protocol):
    """One summand of the objective, without its weight."""

    @property
    def norm2(self) -> float:
        """Its value at U = 0: rounding of `value` is relative to this."""

    def value(self, s: State) -> float:
        """The term at the current codes and components; free, but a difference of large numbers."""

    def exact(self, s: State, rows: ArrayRows) -> float | None:
        """The same from the residuals, for one more look at X; None where that is out of reach."""

    def model(self, s: State) -> RowModel:
        """Convex model of half the term around the codes, with its gradient."""

    def along(self, s: State, d: Sums) -> Array:
        """c1..c4 of ``value(U + t D) - value(U) = c1 t + c2 t^2 + c3 t^3 + c4 t^4``."""


@dataclass(frozen=True)
class Reconstruction:
    """``||X - UV||^2``."""

    norm2: float  # ||X||^2

    def value(self, s: State) -> float:
        """``||X||^2 - 2 <V', P> + <VV', Q>``."""
        return self.norm2 - 2 * _dot(s.Vt, s.P) + _dot(s.VV, s.Q)

    def exact(self, s: State, rows: ArrayRows) -> float | None:
        """Entry by entry."""
        return rows.residual2(s.Vt)

    def model(self, s: State) -> RowModel:
        """The term is its own model."""
        return RowModel(s.VV, s.Vt, 0.0)

    def along(self, s: State, d: Sums) -> Array:
        """A parabola."""
        return np.array([2 * _dot(s.VV, d.UD) - 2 * _dot(s.Vt, d.PD), _dot(s.VV, d.DD), 0.0, 0.0])


@dataclass(frozen=True)
class GramSimilarity:
    """``||XX' - UU'||^2``, without the n x n matrices."""

    norm2: float  # ||XX'||^2

    def value(self, s: State) -> float:
        """``||XX'||^2 - 2 ||X'U||^2 + ||U'U||^2``."""
        return self.norm2 - 2 * _dot(s.P, s.P) + _dot(s.Q, s.Q)

    def exact(self, s: State, rows: ArrayRows) -> float | None:
        """Through a triangular factor of [X U]."""
        return rows.gram_residual2()

    def model(self, s: State) -> RowModel:
        """Gauss-Newton: XX' enters by its gradient, ``||DU' + UD'||^2`` by curvature and coupling."""
        return RowModel(2 * s.Q, 2 * s.P, 2.0)

    def along(self, s: State, d: Sums) -> Array:
        """A quartic (exact)."""
        E = d.UD + d.UD.T
        c1 = 4 * _dot(s.Q, d.UD) - 4 * _dot(s.P, d.PD)
        c2 = 2 * _dot(s.Q, d.DD) - 2 * _dot(d.PD, d.PD) + _dot(E, E)
        return np.array([c1, c2, 2 * _dot(E, d.DD), _dot(d.DD, d.DD)])


@dataclass(frozen=True)
class Objective:
    """The weighted sum of terms: what the solver lowers, history records, tests check and the report plots."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]

    def value(self, s: State) -> float:
        """The objective."""
        return sum(w * term.value(s) for w, term in self._weighted())

    def model(self, s: State) -> RowModel:
        """Its convex model around the codes."""
        parts = [(w, term.model(s)) for w, term in self._weighted()]
        S = np.sum([w * part.S for w, part in parts], axis=0)
        M = np.sum([w * part.M for w, part in parts], axis=0)
        return RowModel(S, M, sum(w * part.coupling for w, part in parts))

    def along(self, s: State, d: Sums) -> Array:
        """c1..c4 of the objective along U + t D, less its value at U."""
        return np.asarray(np.sum([w * term.along(s, d) for w, term in self._weighted()], axis=0))

    @property
    def resolution(self) -> float:
        """Changes of the objective below this are rounding of the sums it is made of."""
        return float(np.finfo(np.float64).eps) * sum(w * term.norm2 for w, term in self._weighted())

    def _weighted(self) -> list[tuple[float, Term]]:
        return [(w, term) for w, term in zip(self.weights, self.terms, strict=True) if w > 0]


def _dot(A: Array, B: Array) -> float:
    """<A, B>."""
    return float(np.vdot(A, B))
