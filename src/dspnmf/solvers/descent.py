"""Descent: a convex model of the objective, lowered on the small side, and an exact step.

One iteration, at lam = 1 (D and U are n x k and stay with the rows; everything else is small):

1. the terms' model around U: curvature S, pull M, coupling; V goes on as it last moved (V^, not below zero)
2. the rows find a direction D that lowers the model (`hals` in one look, `newton_cg` in two)
3. they return PD = X'D, U'D, D'D: from these follows the objective along U + t D, a quartic, at V and at V^
4. t minimises it on [0, 1]; where the minimum lies beyond, the next direction is stretched (and cut off at zero)
5. U += t D, P += t PD, Q += t (U'D + D'U) + t^2 D'D; then V by HALS sweeps on P and Q alone

t minimises the objective on a segment of the feasible set, and every sweep of 5 minimises it exactly in one row of V.
V^ takes the place of V only where the step ends no higher with it (but for rounding). So no iteration goes up. How far
V goes on is `momentum`, which grows while V^ is the better one and is cut when not (Ang & Gillis, Neural Computation
31(2), 2019).
Where V^ is V, D is a descent direction if the model is convex, because that has the objective's gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

import numpy as np

from dspnmf._typing import Array, Scalar, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import X_BLOCK, RowModel, Sums
from dspnmf.backends.small_arrays import LONGEST, ROUNDING_OF_Q, trace, with_rows
from dspnmf.objective.objective import FitsComponents, Objective
from dspnmf.objective.state import State
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import Update
from dspnmf.solvers.newton_cg import NewtonCG
from dspnmf.solvers.requests import Requests, ask, repeat

_FINE, _COARSE = 1e-5, 1e-3  # errors of a recorded objective, over its value: aimed at, and allowed
_EVERY = 8  # iterations after which recomputed sums cost little against them
_UNKNOWN = 256.0  # a factor that no rows exceed
_ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of two values, over the numbers whose difference they are
_GROW, _CUT = 1.05, 1.5  # of the momentum: after a step it made better, after one it did not
InnerSolver: TypeAlias = Hals | NewtonCG  # how a direction is found (step 2)


@dataclass
class SumsRounding:
    """How far rounding of running sums has moved an objective F that is a difference of numbers of the size N.

    Recomputed sums have float64's rounding. Every look adds to them, and its own rounding moves F by about
    ``factor unit t sqrt(tr(D'D) tr(S))``, where `unit` is the rounding of the rows times sqrt(N): so large steps, the
    early ones, spoil the sums for small values later. `factor` depends on how alike rows are: it is measured whenever
    sums are recomputed.
    """

    factor: float = _UNKNOWN
    drift: float = 0.0  # sum of t^2 tr(D'D) tr(S) over the steps since the sums were recomputed
    last: float = 0.0  # that of the last steps: the largest, halved with every one since

    def step(self, size2: float) -> None:
        """A step was taken, with this t^2 tr(D'D) tr(S)."""
        self.drift, self.last = self.drift + size2, max(size2, self.last / 2)

    def error(self, value: float, unit: float) -> float:
        """The error of values like this one where sums are recomputed every few iterations, or when they must be."""
        return min(self.factor * unit * (_EVERY * self.last) ** 0.5, _COARSE * abs(value))

    def worn(self, value: float, unit: float) -> bool:
        """Whether a value has a larger error than it need have."""
        return self.factor * unit * self.drift**0.5 > max(self.error(value, unit), _FINE * abs(value))

    def measured(self, error: float, unit: float) -> None:
        """The sums were recomputed, which changed the objective by `error`."""
        expected = unit * self.drift**0.5
        before = self.factor if self.factor < _UNKNOWN else 0.0
        self.factor = float(np.clip(3 * error / expected, max(before / 2, 1.0), _UNKNOWN)) if expected > 0 else _UNKNOWN
        self.drift = 0.0


@dataclass
class Descent(Update):
    """Steps 1 to 5, with an inner solver."""

    shares = True
    inner: InnerSolver
    stretch: float = 1.0
    rounding: SumsRounding = field(default_factory=SumsRounding)
    unit: float = 0.0  # of errors of the objective
    known: tuple[State, tuple[Array, ...]] | None = None  # a state, and what the host knows of it (`facts` of `inner`)
    momentum: float = 0.5  # share of V's last change that is added to it for the next direction

    @property
    def memory(self) -> dict[str, float]:
        """Stretch and momentum of the next direction, what the sums resolve, and what the inner solver remembers."""
        own = {"stretch": self.stretch, "momentum": self.momentum, "unit": self.unit}
        return own | asdict(self.rounding) | self.inner.memory

    def restore(self, memory: Mapping[str, float]) -> None:
        """Restore what `memory` saved."""
        self.stretch = float(np.clip(memory["stretch"], 1.0, LONGEST))
        self.rounding = SumsRounding(*(memory[name] for name in asdict(self.rounding)))
        self.unit = memory["unit"]
        self.momentum = min(memory["momentum"], 1.0)
        self.inner.memory = {name: memory[name] for name in self.inner.memory}

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """Objective and state where the codes stand and V is given."""
        self.rounding, self.unit = SumsRounding(), rows.rounding * objective.size**0.5
        return super().begin(rows, objective, Vt)

    def error(self, value: float) -> float:
        """The error of the objective, about, that rounding of the sums leaves in values like this one."""
        return self.rounding.error(value, self.unit)

    def renewed(self) -> None:
        """The sums were recomputed by someone else."""
        self.rounding.drift = 0.0

    def requests(self, rows: Rows, objective: Objective, s: State) -> Requests[tuple[float, State]]:
        """One iteration that never goes up."""
        inner = self.inner

        def work(
            Vt: SmallArray, before: SmallArray, P: SmallArray, Q: SmallArray, momentum: Scalar, *effort: Scalar
        ) -> Requests[tuple[SmallArray, ...]]:
            here = replace(s, Vt=Vt, P=P, Q=Q)
            ahead = replace(here, Vt=(Vt + momentum * (Vt - before)).clip(0.0))
            model = objective.model(ahead)
            return self._step(rows, objective, here, ahead, model, (yield from inner(rows, model, *effort)))

        known, facts = self.known if self.known else (None, ())
        if known is not s:
            facts = tuple(map(rows.small.host, inner.facts(rows, objective, s)))
        before, effort = s.Vt if s.before is None else s.before, inner.effort(rows, objective, *facts)
        arguments = (s.Vt, before, s.P, s.Q, self.momentum, self.stretch, *effort)
        left = yield from repeat(rows.small, self, work, *arguments)
        t, reach, value, new = self._taken(rows, objective, s, left)
        if t == 0:  # nothing to gain this way; two sweeps lead downhill unless the codes are stationary
            model = objective.model(s)
            left = self._step(rows, objective, s, s, model, (yield from ask(rows.look, model, 2, 1.0)))
            t, reach, value, new = self._taken(rows, objective, s, left)
        self.stretch = min(max(self.stretch * reach, 1.0), LONGEST) if t > 0 else 1.0
        return value, new

    def _step(
        self, rows: Rows, objective: Objective, s: State, ahead: State, model: RowModel, d: Sums
    ) -> tuple[SmallArray, ...]:
        """Take the best step along a direction; what the host must know of it, and the small arrays there."""
        where, best_step = rows.small.where, rows.small.best_step
        both = (number for at in (s, ahead) for number in (objective.value(at), *objective.along(at, d)))
        value, c1, c2, c3, c4, value_ahead, *ahead_c = rows.small.numbers(*both)
        t, reach, gain = best_step((c1, c2, c3, c4))
        t_ahead, reach_ahead, gain_ahead = best_step(ahead_c)
        gained = value_ahead + gain_ahead - value - gain <= _ROUNDING * (abs(value) + objective.size)
        t, reach = rows.step(where(gained, t_ahead, t)), where(gained, reach_ahead, reach)
        moved = replace(s.moved(t, d), Vt=where(gained, ahead.Vt, s.Vt))
        new = with_components(rows, objective, moved)
        collapsed = (moved.Q.diagonal() < float(np.finfo(rows.dtype).eps) ** 0.5 * s.Q.diagonal()).any()
        size2 = t * t * trace(d.DD) * trace(model.S)
        numbers = rows.small.stack([t, reach, objective.value(new), collapsed, d.settled, gained, size2])
        return numbers, new.Vt, new.P, new.Q, *new.L, *self.inner.facts(rows, objective, new)

    def _taken(
        self, rows: Rows, objective: Objective, s: State, left: tuple[SmallArray, ...]
    ) -> tuple[float, float, float, State]:
        """What a step left: its length, the best beyond 1, objective and state there."""
        numbers, Vt, P, Q, *more = left
        L, of_inner = more[: len(s.L)], more[len(s.L) :]
        new = replace(s, Vt=Vt, P=P, Q=Q, L=tuple(L), before=s.Vt)
        (length, longest, value, lost, settled, gained, size2), known = rows.small.fetch_all(numbers, of_inner)
        self.known = new, tuple(known)
        self.momentum = min(_GROW * self.momentum, 1.0) if gained else self.momentum / _CUT
        self.rounding.step(size2)
        if lost or self.rounding.worn(value, self.unit):
            before, (here, value, new) = value, self._with_exact_sums(rows, objective, new)
            self.rounding.measured(abs(here - before), self.unit)
        self.inner.adapt(settled)
        return length, longest, value, new

    def _with_exact_sums(self, rows: Rows, objective: Objective, s: State) -> tuple[float, float, State]:
        """The sums recomputed: the objective, and objective and state once the components have followed."""

        def recomputed(Vt: SmallArray) -> tuple[SmallArray, ...]:
            exact = replace(s, Vt=Vt).with_sums(*rows.sums())
            new = with_components(rows, objective, exact)
            return rows.small.stack([objective.value(exact), objective.value(new)]), new.Vt, new.P, new.Q, *new.L

        values, Vt, P, Q, *L = rows.small.repeated([self], recomputed, s.Vt)
        here, value = rows.small.fetch(values)
        return here, value, replace(s, Vt=Vt, P=P, Q=Q, L=tuple(L))


def with_components(rows: Rows, objective: Objective, s: State) -> State:
    """Every term's components improved for the codes as they are: each solves a problem of P and Q alone."""
    rounding = ROUNDING_OF_Q[rows.dtype.itemsize]
    fitting = objective.with_components

    def improve(term: FitsComponents, Vt: SmallArray) -> SmallArray:
        curvature = term.curvature(s)
        found: SmallArray = rows.small.components(Vt, term.pull(s), curvature, rounding)
        return found * (curvature.diagonal() > 0) if term.shrinks else found

    if len(fitting) == 1 and fitting[0].features == X_BLOCK:
        return replace(s, Vt=improve(fitting[0], s.Vt))
    Vt = s.Vt
    for term in fitting:
        some = term.features.columns
        Vt = with_rows(Vt, some, improve(term, s.Vt[some]))
    return replace(s, Vt=Vt)
