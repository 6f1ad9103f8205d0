"""What is minimised: a sum of terms, each a quadratic plus at most a quartic in the codes.

A term gives its value, its part of the convex model around the codes (`RowModel`), and the coefficients of its quartic
along a line. It sees the small arrays of `State` only, never where the rows live. lam is a unit (see
`dspnmf.estimators`), so it is 1 here. A term may speak of some of the features (a slice of the columns of X) and of
operators between rows (by their index).

Shapes are those of `dspnmf.objective.state`; VV is ``V V'`` (k x k).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dspnmf.backends import RowModel, Rows, Sums
from dspnmf.backends.row_model import Array
from dspnmf.backends.small_arrays import Scalar, dot, trace
from dspnmf.objective.state import State

ALL = slice(None)
Quartic = tuple[Scalar, Scalar, Scalar, Scalar]  # c1..c4 of c1 t + c2 t^2 + c3 t^3 + c4 t^4
_NEWTON = 0.85  # share of A's (negative) curvature in the model: all of it would often leave the model without minimum


class Term(Protocol):
    """One summand of the objective, without its weight."""

    @property
    def coupled(self) -> bool:
        """Whether it ties rows to each other."""

    @property
    def norm2(self) -> float:
        """Its value at U = 0: rounding of `value` is relative to this."""

    def value(self, s: State) -> Scalar:
        """The term at the current codes and components; free, but a difference of large numbers."""

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """The same from the residuals, for one more look at X; None where that is out of reach."""

    def model(self, s: State) -> RowModel:
        """Convex model of half the term around the codes, with its gradient."""

    def along(self, s: State, d: Sums) -> Quartic:
        """c1..c4 of ``value(U + t D) - value(U) = c1 t + c2 t^2 + c3 t^3 + c4 t^4``."""


@dataclass(frozen=True)
class Reconstruction:
    """``||X - UV||^2`` over some features, and what belongs to the same pair of factors.

    - ``ridge ||V||^2``
    - ``overlap sum_{a != b} (u_a'u_b) (v_a v_b')``: components used by the same rows share no features
    - ``smooth[j] sum_a |v_a|^2 u_a'L_j u_a`` for operators j: the smoothness of the codes as they are when components
      have unit length. Without ``|v_a|^2`` it could be had for nothing, by shrinking codes and growing components.

    `mask` names an operator that keeps some rows only.
    """

    norm2: float  # ||X||^2
    features: slice = field(default_factory=lambda: ALL)
    mask: int | None = None  # operator whose U'LU stands for U'U
    ridge: float = 0.0
    overlap: float = 0.0
    smooth: Mapping[int, float] = field(default_factory=dict)  # operator -> weight

    @property
    def coupled(self) -> bool:
        """Only by operators."""
        return bool(self.smooth) or self.mask is not None

    def value(self, s: State) -> Scalar:
        """``||X||^2 - 2 <V', P> + <VV', Q + ...>``."""
        Vt = s.Vt[self.features]
        return self.norm2 - 2 * dot(Vt, s.P[self.features]) + dot(Vt.T @ Vt, self.curvature(s))

    def error2(self, s: State) -> Scalar:
        """``||X - UV||^2`` alone."""
        return replace(self, ridge=0.0, overlap=0.0, smooth={}).value(s)

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """Entry by entry."""
        if self.mask is not None or self.features != ALL:
            return None
        error2 = rows.residual2(s.Vt)
        return None if error2 is None else error2 + dot(s.Vt.T @ s.Vt, self.curvature(s) - s.Q)

    def model(self, s: State) -> RowModel:
        """The term is its own model (operators: the diagonal as curvature, the rest held fixed by `hals`)."""
        Vt = s.Vt[self.features]
        M, VV = _placed(Vt, s, self.features), Vt.T @ Vt
        ties = {j: weight * np.diag(np.diag(VV)) for j, weight in self.smooth.items()}
        if self.mask is None:
            return RowModel(self._crowded(VV), M, pulls=ties, curves=ties)
        ties[self.mask] = VV
        return RowModel(np.zeros_like(VV), M, pulls=ties, curves=ties)

    def along(self, s: State, d: Sums) -> Quartic:
        """A parabola."""
        Vt = s.Vt[self.features]
        VV = Vt.T @ Vt
        UD, DD = (d.UD, d.DD) if self.mask is None else (d.ULD[self.mask], d.DLD[self.mask])
        c1, c2 = 2 * dot(self._crowded(VV), UD) - 2 * dot(Vt, d.PD[self.features]), dot(self._crowded(VV), DD)
        for j, weight in self.smooth.items():
            c1 += 2 * weight * dot(np.diag(VV), np.diag(d.ULD[j]))
            c2 += weight * dot(np.diag(VV), np.diag(d.DLD[j]))
        return c1, c2, 0.0, 0.0

    def curvature(self, s: State) -> Array:
        """Of the problem the components solve: Q (of the rows that count), and what the other parts add."""
        Q = self._crowded(s.Q if self.mask is None else s.L[self.mask])
        if self.ridge > 0:
            Q = Q + self.ridge * np.eye(len(Q))
        for j, weight in self.smooth.items():
            Q = Q + weight * np.diag(np.diag(s.L[j]))
        return Q

    def _crowded(self, A: Array) -> Array:
        """A with its off-diagonal entries weighing 1 + overlap."""
        return A if self.overlap == 0 else (1 + self.overlap) * A - self.overlap * np.diag(np.diag(A))


@dataclass(frozen=True)
class GramSimilarity:
    """``||XX' - UU'||^2`` over some features, without the n x n matrices."""

    norm2: float  # ||XX'||^2
    features: slice = field(default_factory=lambda: ALL)
    coupled = True

    def value(self, s: State) -> Scalar:
        """``||XX'||^2 - 2 ||X'U||^2 + ||U'U||^2``."""
        P = s.P[self.features]
        return self.norm2 - 2 * dot(P, P) + dot(s.Q, s.Q)

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """Through a triangular factor of [X U]."""
        return rows.gram_residual2() if self.features == ALL else None

    def model(self, s: State) -> RowModel:
        """Gauss-Newton: XX' enters by its gradient, ``||DU' + UD'||^2`` by curvature and coupling."""
        return RowModel(2 * s.Q, _placed(2 * s.P[self.features], s, self.features), 2.0)

    def along(self, s: State, d: Sums) -> Quartic:
        """A quartic (exact)."""
        P, PD = s.P[self.features], d.PD[self.features]
        return _sum([_quartic(s, d), (-4 * dot(P, PD), -2 * dot(PD, PD), 0.0, 0.0)])

    def best_scale(self, s: State) -> float:
        """The c that minimises the term at c U."""
        return _scale(dot(s.P[self.features], s.P[self.features]), s.Q)


@dataclass(frozen=True)
class GraphSimilarity:
    """``||A - UU'||^2`` for a graph A: operator -A."""

    norm2: float  # ||A||^2
    operator: int = 0
    coupled = True

    def value(self, s: State) -> Scalar:
        """``||A||^2 - 2 <U, AU> + ||U'U||^2``."""
        return self.norm2 + 2 * trace(s.L[self.operator]) + dot(s.Q, s.Q)

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """Out of reach: the difference is all there is."""
        return None

    def model(self, s: State) -> RowModel:
        """As for the Gram matrix, with A in place of XX'; its curvature is cheap here, so most of it stays."""
        twice = 2 * np.eye(len(s.Q))
        curves = {self.operator: _NEWTON * twice}
        return RowModel(2 * s.Q, np.zeros_like(s.P), 2.0, pulls={self.operator: twice}, curves=curves)

    def along(self, s: State, d: Sums) -> Quartic:
        """A quartic (exact)."""
        return _sum([_quartic(s, d), (4 * trace(d.ULD[self.operator]), 2 * trace(d.DLD[self.operator]), 0.0, 0.0)])

    def best_scale(self, s: State) -> float:
        """The c that minimises the term at c U."""
        return _scale(-trace(s.L[self.operator]), s.Q)


@dataclass(frozen=True)
class Smoothness:
    """``tr(U'LU)`` for an operator L: near rows get like codes (a Laplacian), or far ones unlike (a graph of those)."""

    operator: int = 0
    norm2: float = 0.0
    coupled = True

    def value(self, s: State) -> Scalar:
        """A trace."""
        return trace(s.L[self.operator])

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """The value is exact."""
        return None

    def model(self, s: State) -> RowModel:
        """The gradient L U; its diagonal as curvature, the rest held fixed."""
        one = {self.operator: np.eye(len(s.Q))}
        return RowModel(np.zeros_like(s.Q), np.zeros_like(s.P), pulls=one, curves=one)

    def along(self, s: State, d: Sums) -> Quartic:
        """A parabola."""
        return 2 * trace(d.ULD[self.operator]), trace(d.DLD[self.operator]), 0.0, 0.0


@dataclass(frozen=True)
class Ridge:
    """``||U||^2``."""

    norm2: float = 0.0
    coupled = False

    def value(self, s: State) -> Scalar:
        """A trace."""
        return trace(s.Q)

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """The value is exact."""
        return None

    def model(self, s: State) -> RowModel:
        """The identity."""
        return RowModel(np.eye(len(s.Q)), np.zeros_like(s.P))

    def along(self, s: State, d: Sums) -> Quartic:
        """A parabola."""
        return 2 * trace(d.UD), trace(d.DD), 0.0, 0.0


@dataclass(frozen=True)
class Objective:
    """The weighted sum of terms: what the solver lowers, history records, tests check and the report plots."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]

    def value(self, s: State) -> Scalar:
        """The objective."""
        total = sum(w * term.value(s) for w, term in self.weighted())
        if s.offsets:
            total += sum(w * gained for w, gained in zip(self.weights, s.offsets, strict=False))
        return total

    def model(self, s: State) -> RowModel:
        """Its convex model around the codes."""
        parts = [(w, term.model(s)) for w, term in self.weighted()]
        S: Any = sum(w * part.S for w, part in parts)
        M: Any = sum(w * part.M for w, part in parts)
        pulls, curves = _added((w, part.pulls) for w, part in parts), _added((w, part.curves) for w, part in parts)
        return RowModel(S, M, sum(w * part.coupling for w, part in parts), pulls, curves)

    def along(self, s: State, d: Sums) -> Quartic:
        """c1..c4 of the objective along U + t D, less its value at U."""
        return _sum(tuple(w * c for c in term.along(s, d)) for w, term in self.weighted())

    def best_scale(self, s: State) -> float:
        """What a start's codes are multiplied by: the best single factor for the first similarity term, or 1."""
        return next(
            (t.best_scale(s) for _, t in self.weighted() if isinstance(t, GramSimilarity | GraphSimilarity)), 1.0
        )

    @property
    def coupled(self) -> bool:
        """Whether some term ties rows together: then their directions are worth finding jointly."""
        return any(term.coupled for _, term in self.weighted())

    @property
    def reconstructions(self) -> list[Reconstruction]:
        """The terms with components of their own, also those that do not count: their errors are still reported."""
        return [term for term in self.terms if isinstance(term, Reconstruction)]

    @property
    def resolution(self) -> float:
        """Changes of the objective below this are rounding of the sums it is made of."""
        return float(np.finfo(np.float64).eps) * sum(w * term.norm2 for w, term in self.weighted())

    def weighted(self) -> list[tuple[float, Term]]:
        """Terms that count."""
        return [(w, term) for w, term in zip(self.weights, self.terms, strict=True) if w > 0]


def _added(parts: Iterable[tuple[float, Mapping[int, Array]]]) -> dict[int, Array]:
    """Weighted sum of what several terms say of the same operators."""
    total: dict[int, Array] = {}
    for w, part in parts:
        for operator, K in part.items():
            total[operator] = total.get(operator, 0.0) + w * K
    return total


def _sum(parts: Iterable[tuple[Scalar, ...]]) -> Quartic:
    """Quartics added up."""
    c1, c2, c3, c4 = (sum(column) for column in zip(*parts, strict=True))
    return c1, c2, c3, c4


def _placed(part: Any, s: State, features: slice) -> Any:
    """The pull of some features, m x k: zero for the others."""
    if features == ALL:
        return part
    M = np.zeros_like(s.P)
    M[features] = part
    return M


def _quartic(s: State, d: Sums) -> Quartic:
    """``||(U + tD)'(U + tD)||^2 - ||U'U||^2``: what every similarity term shares."""
    E = d.UD + d.UD.T
    c2 = 2 * dot(s.Q, d.DD) + dot(E, E)
    return 4 * dot(s.Q, d.UD), c2, 2 * dot(E, d.DD), dot(d.DD, d.DD)


def _scale(overlap: Scalar, Q: Array) -> float:
    """The c that minimises ``-2 c^2 overlap + c^4 ||Q||^2``; 1 where there is nothing to scale."""
    size, overlap = float(dot(Q, Q)), float(overlap)
    return float(np.sqrt(overlap / size)) if size > 0 and overlap > 0 else 1.0
