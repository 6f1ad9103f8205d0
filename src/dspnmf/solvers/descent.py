"""Descent: a convex model of the objective, lowered on the small side, and an exact step.

One iteration, at lam = 1 (D and U are n x k and stay with the rows; everything else is small):

1. the terms' model around U: curvature S, pull M, coupling
2. the rows find a direction D that lowers the model (`hals` in one look, `newton_cg` in two)
3. they return PD = X'D, U'D, D'D: from these follows the objective along U + t D, a quartic
4. t minimises it on [0, 1]; where the minimum lies beyond, the next direction is stretched (and cut off at zero)
5. U += t D, P += t PD, Q += t (U'D + D'U) + t^2 D'D; then V by HALS sweeps on P and Q alone

t minimises the objective on a segment of the feasible set, and every sweep of 5 minimises it exactly in one row of V.
So no iteration goes up. D is a descent direction where the model is convex, because it has the objective's gradient.
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
from dspnmf.solvers.loop import Resolution, Update
from dspnmf.solvers.newton_cg import NewtonCG
from dspnmf.solvers.requests import Requests, ask, repeat

InnerSolver: TypeAlias = Hals | NewtonCG  # how a direction is found (step 2)


@dataclass
class Descent(Update):
    """Steps 1 to 5, with an inner solver."""

    shares = True
    inner: InnerSolver
    stretch: float = 1.0
    value: float = 0.0  # the objective
    drift: float = 0.0  # its sum over the steps since the sums were made anew (see `Resolution`)

    @property
    def memory(self) -> dict[str, float]:
        """The stretch of the next direction, what the sums resolve, and what the inner solver remembers."""
        return {"stretch": self.stretch, "value": self.value, "drift": self.drift, **self.inner.memory}

    def restore(self, memory: Mapping[str, float]) -> None:
        """Restore what `memory` saved."""
        self.stretch = float(np.clip(memory["stretch"], 1.0, LONGEST))
        self.value, self.drift = memory["value"], memory["drift"]
        self.inner.memory = {name: memory[name] for name in self.inner.memory}

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """Objective and state where the codes stand and V is given."""
        value, s = super().begin(rows, objective, Vt)
        self.renewed(value)
        return value, s

    def renewed(self, value: float) -> None:
        """The sums were made anew; the objective is `value`."""
        self.value, self.drift = max(value, 0.0), 0.0

    def requests(self, rows: Rows, objective: Objective, s: State) -> Requests[tuple[float, State]]:
        """One iteration that never goes up."""
        inner = self.inner

        def work(Vt: SmallArray, P: SmallArray, Q: SmallArray, *effort: Scalar) -> Requests[tuple[SmallArray, ...]]:
            here = replace(s, Vt=Vt, P=P, Q=Q)
            d = yield from inner(rows, objective.model(here), *effort)
            return self._step(rows, objective, here, d)

        effort = (self.stretch, *inner.effort(rows, objective, s))
        left = yield from repeat(rows.small, self, work, s.Vt, s.P, s.Q, *effort)
        t, reach, value, new = self._taken(rows, objective, s, left)
        if t == 0:  # nothing to gain this way; two sweeps lead downhill unless the codes are stationary
            left = self._step(rows, objective, s, (yield from ask(rows.look, objective.model(s), 2, 1.0)))
            t, reach, value, new = self._taken(rows, objective, s, left)
        self.stretch = float(np.clip(self.stretch * reach, 1.0, LONGEST)) if t > 0 else 1.0
        return value, new

    def _step(self, rows: Rows, objective: Objective, s: State, d: Sums) -> tuple[SmallArray, ...]:
        """Take the best step along a direction; what the host must know of it, and the small arrays there."""
        t, reach = rows.small.best_step(objective.along(s, d))
        t = rows.step(t)
        moved = s.moved(t, d)
        new = with_components(rows, objective, moved)
        collapsed = (moved.Q.diagonal() < float(np.finfo(rows.dtype).eps) ** 0.5 * s.Q.diagonal()).any()
        facts = rows.small.stack([t, reach, objective.value(new), collapsed, d.settled])
        return facts, new.Vt, new.P, new.Q, *new.L

    def _taken(
        self, rows: Rows, objective: Objective, s: State, left: tuple[SmallArray, ...]
    ) -> tuple[float, float, float, State]:
        """What a step left: its length, the best beyond 1, objective and state there."""
        facts, Vt, P, Q, *L = left
        new = replace(s, Vt=Vt, P=P, Q=Q, L=tuple(L))
        length, longest, value, lost, settled = rows.small.fetch(facts)
        self.value, self.drift = max(value, 0.0), self.drift + self.value
        if lost or Resolution(objective.size, rows.rounding).worn(value, self.drift):
            new = with_components(rows, objective, s.with_sums(*rows.sums()))
            (value,) = rows.small.fetch([objective.value(new)])
            self.renewed(value)
        self.inner.adapt(settled)
        return length, longest, value, new


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
