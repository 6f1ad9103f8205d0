"""The terms there are: reconstruction, similarities of the Gram matrix and of graphs, smoothness, ridge, lasso.

lam is a unit (see `dspnmf.estimators.base`), so it is 1 here. A term may speak of some of the features (a block of the
columns of X) and of operators between rows (by their index). Shapes are those of `dspnmf.objective.state`; VV is
``V V'`` (k x k).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import X_BLOCK, Block, RowModel, Sums
from dspnmf.backends.small_arrays import diagonal_matrix, dot, identity_like, trace, with_rows, zeros_like
from dspnmf.objective.objective import Quartic, added_quartics
from dspnmf.objective.state import State

_NEWTON = 0.85  # share of A's (negative) curvature in the model: all of it would often leave the model without minimum


class _ByValue:
    """A term without a better way to its value than `value`."""

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """None: the value is exact, or its residuals (of a graph) are out of reach."""
        return None


@dataclass(frozen=True)
class Reconstruction:
    """``||X - UV||^2`` over some features, and what belongs to the same pair of factors.

    - ``ridge ||V||^2`` and ``lasso ||V||_1``
    - ``overlap sum_{a != b} (u_a'u_b) (v_a v_b')``: components used by the same rows share no features
    - ``smooth[j] sum_a |v_a|^2 u_a'L_j u_a`` for operators j: the smoothness of the codes as they are when components
      have unit length. Without ``|v_a|^2`` it could be had for nothing, by shrinking codes and growing components.

    `mask` names an operator that keeps some rows only; X must be zero in these features of the others.
    """

    norm2: float  # ||X||^2
    features: Block = X_BLOCK
    mask: int | None = None  # operator whose U'LU stands for U'U
    ridge: float = 0.0
    lasso: float = 0.0
    overlap: float = 0.0
    smooth: Mapping[int, float] = field(default_factory=dict)  # operator -> weight

    @property
    def coupled(self) -> bool:
        """Only by operators."""
        return bool(self.smooth) or self.mask is not None

    def value(self, s: State) -> Scalar:
        """``||X||^2 - 2 <V', P> + <VV', Q + ...>``."""
        Vt, P = s.Vt[self.features.columns], s.P[self.features.columns]
        value = s.norm2(self.features, self.norm2) - 2 * dot(Vt, P) + dot(s.VV(self.features), self.curvature(s))
        return value + self.lasso * Vt.sum() if self.lasso > 0 else value

    def error2(self, s: State) -> Scalar:
        """``||X - UV||^2`` alone."""
        return replace(self, ridge=0.0, lasso=0.0, overlap=0.0, smooth={}).value(s)

    def rest(self, s: State) -> Scalar:
        """What the other parts add to ``||X - UV||^2``."""
        Vt, Q = s.Vt[self.features.columns], s.Q if self.mask is None else s.L[self.mask]
        return dot(s.VV(self.features), self.curvature(s) - Q) + self.lasso * Vt.sum()

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """Entry by entry."""
        if self.mask is not None or self.features != X_BLOCK:
            return None
        error2 = rows.residual2(s.Vt)
        return None if error2 is None else error2 + self.rest(s)

    def model(self, s: State) -> RowModel:
        """The term is its own model (operators: the diagonal as curvature, the rest held fixed by `hals`)."""
        Vt = s.Vt[self.features.columns]
        M, VV = _placed(Vt, s, self.features), s.VV(self.features)
        ties = {j: weight * VV.diagonal() for j, weight in self.smooth.items()}
        if self.mask is None:
            return RowModel(self._crowded(VV), M, pulls=ties, curves=ties)
        ties[self.mask] = VV
        return RowModel(zeros_like(VV), M, pulls=ties, curves=ties)

    def along(self, s: State, d: Sums) -> Quartic:
        """A parabola."""
        Vt, VV = s.Vt[self.features.columns], s.VV(self.features)
        UD, DD = (d.UD, d.DD) if self.mask is None else (d.ULD[self.mask], d.DLD[self.mask])
        c1, c2 = 2 * dot(self._crowded(VV), UD) - 2 * dot(Vt, d.PD[self.features.columns]), dot(self._crowded(VV), DD)
        for j, weight in self.smooth.items():
            c1 += 2 * weight * dot(VV.diagonal(), d.ULD[j].diagonal())
            c2 += weight * dot(VV.diagonal(), d.DLD[j].diagonal())
        return c1, c2, 0.0, 0.0

    def curvature(self, s: State) -> SmallArray:
        """Of the problem the components solve: Q (of the rows that count), and what the other parts add."""
        Q = self._crowded(s.Q if self.mask is None else s.L[self.mask])
        if self.ridge > 0:
            Q = Q + self.ridge * identity_like(Q)
        for j, weight in self.smooth.items():
            Q = Q + weight * diagonal_matrix(s.L[j].diagonal())
        return Q

    @property
    def shrinks(self) -> bool:
        """With an L1 penalty; a ridge is a curvature, which does it by itself."""
        return self.lasso > 0

    def pull(self, s: State) -> SmallArray:
        """Of the same problem: P, less what ``||V||_1`` takes from every entry."""
        P: SmallArray = s.P[self.features.columns]
        return P - self.lasso / 2 if self.lasso > 0 else P

    def _crowded(self, A: SmallArray) -> SmallArray:
        """A with its off-diagonal entries weighing 1 + overlap."""
        if self.overlap == 0:
            return A
        own = diagonal_matrix(A.diagonal())
        return (1 + self.overlap) * (A - own) + own


@dataclass(frozen=True)
class GramSimilarity:
    """``||XX' - UU'||^2`` over some features, without the n x n matrices."""

    norm2: float  # ||XX'||^2
    features: Block = X_BLOCK
    coupled = True

    def value(self, s: State) -> Scalar:
        """``||XX'||^2 - 2 ||X'U||^2 + ||U'U||^2``."""
        P = s.P[self.features.columns]
        return s.gram_norm2(self.features, self.norm2) - 2 * dot(P, P) + dot(s.Q, s.Q)

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """Through a triangular factor of [X U]."""
        return rows.gram_residual2() if self.features == X_BLOCK else None

    def model(self, s: State) -> RowModel:
        """Gauss-Newton: XX' enters by its gradient, ``||DU' + UD'||^2`` by curvature and coupling."""
        return RowModel(2 * s.Q, _placed(2 * s.P[self.features.columns], s, self.features), 2.0)

    def along(self, s: State, d: Sums) -> Quartic:
        """A quartic (exact)."""
        P, PD = s.P[self.features.columns], d.PD[self.features.columns]
        return added_quartics([_quartic(s, d), (-4 * dot(P, PD), -2 * dot(PD, PD), 0.0, 0.0)])

    def best_scale(self, s: State) -> float:
        """The c that minimises the term at c U."""
        return _scale(dot(s.P[self.features.columns], s.P[self.features.columns]), s.Q)


@dataclass(frozen=True)
class GraphSimilarity(_ByValue):
    """``||A - UU'||^2`` for a graph A: operator -A."""

    norm2: float  # ||A||^2
    operator: int = 0
    coupled = True

    def value(self, s: State) -> Scalar:
        """``||A||^2 - 2 <U, AU> + ||U'U||^2``."""
        return self.norm2 + 2 * trace(s.L[self.operator]) + dot(s.Q, s.Q)

    def model(self, s: State) -> RowModel:
        """As for the Gram matrix, with A in place of XX'; its curvature is cheap here, so most of it stays."""
        twice = 2 * identity_like(s.Q).diagonal()
        curves = {self.operator: _NEWTON * twice}
        return RowModel(2 * s.Q, zeros_like(s.P), 2.0, pulls={self.operator: twice}, curves=curves)

    def along(self, s: State, d: Sums) -> Quartic:
        """A quartic (exact)."""
        return added_quartics(
            [_quartic(s, d), (4 * trace(d.ULD[self.operator]), 2 * trace(d.DLD[self.operator]), 0.0, 0.0)]
        )

    def best_scale(self, s: State) -> float:
        """The c that minimises the term at c U."""
        return _scale(-trace(s.L[self.operator]), s.Q)


@dataclass(frozen=True)
class Smoothness(_ByValue):
    """``tr(U'LU)`` for an operator L: near rows get like codes (a Laplacian), or far ones unlike (a graph of those)."""

    operator: int = 0
    norm2: float = 0.0
    coupled = True

    def value(self, s: State) -> Scalar:
        """A trace."""
        return trace(s.L[self.operator])

    def model(self, s: State) -> RowModel:
        """The gradient L U; its diagonal as curvature, the rest held fixed."""
        one = {self.operator: identity_like(s.Q).diagonal()}
        return RowModel(zeros_like(s.Q), zeros_like(s.P), pulls=one, curves=one)

    def along(self, s: State, d: Sums) -> Quartic:
        """A parabola."""
        return 2 * trace(d.ULD[self.operator]), trace(d.DLD[self.operator]), 0.0, 0.0


@dataclass(frozen=True)
class Ridge(_ByValue):
    """``||U||^2``."""

    norm2: float = 0.0
    coupled = False

    def value(self, s: State) -> Scalar:
        """A trace."""
        return trace(s.Q)

    def model(self, s: State) -> RowModel:
        """The identity."""
        return RowModel(identity_like(s.Q), zeros_like(s.P))

    def along(self, s: State, d: Sums) -> Quartic:
        """A parabola."""
        return 2 * trace(d.UD), trace(d.DD), 0.0, 0.0


@dataclass(frozen=True)
class Lasso(_ByValue):
    """The sum of ``X_j'U`` over some features: ``||U||_1`` where they are a column of ones, since codes are >= 0."""

    ones: Block
    norm2: float = 0.0
    coupled = False

    def value(self, s: State) -> Scalar:
        """A sum."""
        return s.P[self.ones.columns].sum()

    def model(self, s: State) -> RowModel:
        """A pull that is the same for every code."""
        return RowModel(zeros_like(s.Q), with_rows(zeros_like(s.P), self.ones.columns, -0.5))

    def along(self, s: State, d: Sums) -> Quartic:
        """A line, as long as codes are not negative."""
        return d.PD[self.ones.columns].sum(), 0.0, 0.0, 0.0


def _placed(part: SmallArray, s: State, features: Block) -> SmallArray:
    """The pull of some features, m x k: zero for the others."""
    return part if features == X_BLOCK else with_rows(zeros_like(s.P), features.columns, part)


def _quartic(s: State, d: Sums) -> Quartic:
    """``||(U + tD)'(U + tD)||^2 - ||U'U||^2``: what every similarity term shares."""
    c2 = 2 * dot(s.Q, d.DD) + 2 * dot(d.UD, d.UD) + 2 * dot(d.UD, d.UD.T)
    return 4 * dot(s.Q, d.UD), c2, 4 * dot(d.UD, d.DD), dot(d.DD, d.DD)


def _scale(overlap: Scalar, Q: SmallArray) -> float:
    """The c that minimises ``-2 c^2 overlap + c^4 ||Q||^2``; 1 where there is nothing to scale."""
    size, overlap = float(dot(Q, Q)), float(overlap)
    return float(np.sqrt(overlap / size)) if size > 0 and overlap > 0 else 1.0
