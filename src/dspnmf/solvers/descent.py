"""Descent: a convex model of the objective, lowered on the small side, and an exact step.

One iteration, at lam = 1 (D and U are n x k and stay with the rows; everything else is small):

1. the terms' model around U: curvature S, pull M, coupling; V goes on as it last moved (V^, not below zero)
2. the rows find a direction D that lowers the model (`hals` in one look, `newton_cg` in two)
3. they return PD = X'D, U'D, D'D: from these follows the objective along U + t D, a quartic, at V and at V^
4. t minimises it on [0, 1]; where the minimum lies beyond, the next direction is stretched (and cut off at zero)
5. U += t D, P += t PD, Q += t (U'D + D'U) + t^2 D'D; then V by HALS sweeps on P and Q alone

t minimises the objective on a segment of the feasible set, and every sweep of 5 minimises it exactly in one row of V.
V^ takes the place of V only where the step ends no higher with it. So no iteration goes up. How far V goes on is
`momentum`, which grows while V^ is the better one and is cut when not (Ang & Gillis, Neural Computation 31(2), 2019).
Where V^ is V, D is a descent direction if the model is convex, because that has the objective's gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import X_BLOCK, Sums
from dspnmf.backends.small_arrays import LONGEST, ROUNDING_OF_Q, with_rows
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import Update
from dspnmf.solvers.newton_cg import NewtonCG

_WORN = {4: 1e-2, 8: 1e-6}  # share of the objective left when sums are made anew (by the bytes of X's numbers)
_GROW, _CUT = 1.05, 1.5  # of the momentum: after a step it made better, after one it did not
InnerSolver: TypeAlias = Hals | NewtonCG  # how a direction is found (step 2)


@dataclass
class Descent(Update):
    """Steps 1 to 5, with an inner solver."""

    inner: InnerSolver
    stretch: float = 1.0
    summed_at: float = 0.0  # the objective when the sums were made anew: they keep its rounding
    momentum: float = 0.5  # share of V's last change that is added to it for the next direction

    @property
    def memory(self) -> dict[str, float]:
        """Stretch and momentum of the next direction, the rounding of the sums, and what the inner solver remembers."""
        own = {"stretch": self.stretch, "summed_at": self.summed_at, "momentum": self.momentum}
        return own | self.inner.memory

    def restore(self, memory: Mapping[str, float]) -> None:
        """Restore what `memory` saved."""
        self.stretch = float(np.clip(memory["stretch"], 1.0, LONGEST))
        self.summed_at = memory["summed_at"]
        self.momentum = min(memory["momentum"], 1.0)
        self.inner.memory = {name: memory[name] for name in self.inner.memory}

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """Objective and state where the codes stand and V is given."""
        value, s = super().begin(rows, objective, Vt)
        self.summed_at = max(value, 0.0)
        return value, s

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """One iteration that never goes up."""
        inner = self.inner

        def work(
            Vt: SmallArray, before: SmallArray, P: SmallArray, Q: SmallArray, momentum: Scalar, *effort: Scalar
        ) -> tuple[SmallArray, ...]:
            here = replace(s, Vt=Vt, P=P, Q=Q)
            ahead = replace(here, Vt=(Vt + momentum * (Vt - before)).clip(0.0))
            return self._step(rows, objective, here, ahead, inner(rows, objective.model(ahead), *effort))

        before, effort = s.Vt if s.before is None else s.before, inner.effort(rows, objective, s)
        arguments = (s.Vt, before, s.P, s.Q, self.momentum, self.stretch, *effort)
        t, reach, value, new = self._taken(rows, objective, s, rows.small.repeated(self, work, *arguments))
        if t == 0:  # nothing to gain this way; two sweeps lead downhill unless the codes are stationary
            left = self._step(rows, objective, s, s, rows.look(objective.model(s), sweeps=2))
            t, reach, value, new = self._taken(rows, objective, s, left)
        self.stretch = float(np.clip(self.stretch * reach, 1.0, LONGEST)) if t > 0 else 1.0
        return value, new

    def _step(self, rows: Rows, objective: Objective, s: State, ahead: State, d: Sums) -> tuple[SmallArray, ...]:
        """Take the best step along a direction; what the host must know of it, and the small arrays there."""
        where = rows.small.where
        lowest, t, reach = _lowest(rows, objective, s, d)
        lowest_ahead, t_ahead, reach_ahead = _lowest(rows, objective, ahead, d)
        gained = lowest_ahead <= lowest
        t, reach = where(gained, t_ahead, t), where(gained, reach_ahead, reach)
        rows.step(t)
        moved = replace(s.moved(t, d), Vt=where(gained, ahead.Vt, s.Vt))
        new = with_components(rows, objective, moved)
        collapsed = (moved.Q.diagonal() < float(np.finfo(rows.dtype).eps) ** 0.5 * s.Q.diagonal()).any()
        facts = rows.small.stack([t, reach, objective.value(new), collapsed, d.settled, gained])
        return facts, new.Vt, new.P, new.Q, *new.L

    def _taken(
        self, rows: Rows, objective: Objective, s: State, left: tuple[SmallArray, ...]
    ) -> tuple[float, float, float, State]:
        """What a step left: its length, the best beyond 1, objective and state there."""
        facts, Vt, P, Q, *L = left
        new = replace(s, Vt=Vt, P=P, Q=Q, L=tuple(L), before=s.Vt)
        length, longest, value, lost, settled, gained = rows.small.fetch(facts)
        self.momentum = min(_GROW * self.momentum, 1.0) if gained else self.momentum / _CUT
        worn = _WORN[rows.dtype.itemsize] * self.summed_at
        if lost or value < worn > objective.resolution:  # much of what is left, of a component or of all, is rounding
            new = with_components(rows, objective, s.with_sums(*rows.sums()))
            (value,) = rows.small.fetch([objective.value(new)])
            self.summed_at = max(value, 0.0)
        self.inner.adapt(settled)
        return length, longest, value, new


def _lowest(rows: Rows, objective: Objective, s: State, d: Sums) -> tuple[Scalar, Scalar, Scalar]:
    """The objective after the best step along D, the step, and the best beyond 1."""
    c1, c2, c3, c4 = objective.along(s, d)
    t, reach = rows.small.best_step((c1, c2, c3, c4))
    return objective.value(s) + t * (c1 + t * (c2 + t * (c3 + t * c4))), t, reach


def with_components(rows: Rows, objective: Objective, s: State) -> State:
    """Every term's components improved for the codes as they are: each solves a problem of P and Q alone."""
    rounding = ROUNDING_OF_Q[rows.dtype.itemsize]
    improve, fitting = rows.small.components, objective.with_components
    if len(fitting) == 1 and fitting[0].features == X_BLOCK:
        return replace(s, Vt=improve(s.Vt, s.P, fitting[0].curvature(s), rounding))
    Vt = s.Vt
    for term in fitting:
        some = term.features.columns
        Vt = with_rows(Vt, some, improve(s.Vt[some], s.P[some], term.curvature(s), rounding))
    return replace(s, Vt=Vt)
