"""Descent where errors are measured by a beta divergence: one look at X an iteration, and the objective never rises.

An iteration,

1. moves the components by the sums of the last look: the multiplicative rule of Fevotte and Idier (Neural Computation
   23(9), 2011), which minimises a bound, its factor to a power between 1 and 2 and times a power of the last factor
   (momentum);
2. looks at X: every row's codes are swept while it is at hand (`dspnmf.backends.kernels.divergence`), which cannot
   raise the objective, and the sums for the next move are made;
3. keeps both if the objective is lower. Otherwise the codes go back, and the components take the plain rule, which is
   guaranteed not to raise it.

With 0 < beta < 1 the first iteration begins with moves by another divergence (`DivergenceDescent._eased`).
A structure term is bounded in the codes as in `dspnmf.solvers.multiplicative`; the components do not see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from dspnmf._typing import Codes, SmallArray
from dspnmf.backends.protocol import DivergenceRows, Rows
from dspnmf.backends.row_model import DivergenceModel, DivergenceSums
from dspnmf.objective.divergence import Divergence
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.state import State
from dspnmf.solvers.loop import Update

_RELAXED = 14  # eighths: power of the rule's factor; up to 2 it still leads to the same components
_OF_POSITIVE = 16  # the same where beta <= 0: X has no zeros, in which components that fall fast would be lost
_MOMENTUM = 0.95, 1.1, 0.5  # at most; times this after a success, and after a failure
_FIRST = 4  # moves of the first iteration: a start is far from everything
_EASY, _EASED = 1.5, 8  # the divergence that a descent with 0 < beta < 1 begins with, and how many moves it makes;
_FEWER = 80  # and this for every unit that beta is below 1, so that losses near Kullback-Leibler's are like it
_ALIVE = 1e-6  # of the mean of a component: what is left of it after these moves, or no rule could raise it
_FACTOR = 1e-3, 1e3  # of an extrapolated move, at least and at most
_ROOT = 1e-9, 1e30  # of a factor, at least and at most
_NEWTON = 6  # steps to a root
_TINY = 1e-290


@dataclass
class DivergenceDescent(Update):
    """One iteration; `sweeps` of the codes in each."""

    sweeps: int = 1
    momentum: float = 0.3

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """Objective and state where the codes stand and V is given."""
        s = State(rows.small.adopt(Vt), *self._sums(rows, objective))
        return self._looked(rows, objective, s, 0)

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration; the first makes several moves, and the codes come first."""
        if s.before is not None and s.divergence is not None:
            return self._moved(rows, objective, s)
        value, s = self._looked(rows, objective, self._eased(rows, objective, s), self.sweeps)
        for _ in range(_FIRST):
            value, s = self._moved(rows, objective, s)
        return value, s

    def _eased(self, rows: Rows, objective: Objective, s: State) -> State:
        """The state after moves by another divergence, if the objective is lower there; otherwise as it was.

        With 0 < beta < 1 the divergence of small numbers from 0 rises steeply at first and then ever less: a component
        that has begun to leave a zero of X will leave it for good, and a fast descent ends where it began to. With
        beta > 1 that rise is convex, so first moves by such a divergence choose better.
        """
        found, beta = s.divergence, divergence_of(objective).beta
        moves = min(_EASED, int(_FEWER * (1 - beta))) if 0 < beta < 1 else 0
        if moves == 0 or found is None or "reconstruction" in objective.held:
            return s
        divergent = divergent_rows(rows)
        easy = divergent.improve(DivergenceModel(_EASY, s.Vt), 0).value
        before, distance, easy = rows.small.fetch([objective.value(s), found.value, easy])
        if not (distance > 0 and easy > 0):
            return s
        divergent.remember()
        eased, now = _exchanged(objective, _EASY, easy / distance), s
        for _ in range(moves):
            _, now = self._looked(rows, eased, now, self.sweeps)
            now = replace(now, Vt=now.Vt * _to_eighths(plain_factor(eased, now), _RELAXED).clip(*_FACTOR))
        alive = now.Vt.clip(min=_ALIVE * now.Vt.mean(0))
        value, now = self._looked(rows, objective, replace(now, Vt=alive), 0)
        if value <= before:
            return now
        divergent.recall()
        return s

    def _moved(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """After the three steps above."""
        (before,) = rows.small.fetch([objective.value(s)])
        most, grow, shrink = _MOMENTUM
        divergent, factor = divergent_rows(rows), plain_factor(objective, s)
        divergent.remember()
        ahead = replace(s, Vt=s.Vt * self._extrapolated(objective, s, factor))
        value, new = self._looked(rows, objective, ahead, self.sweeps)
        if value <= before:
            self.momentum = min(self.momentum * grow, most)
            return value, replace(new, before=s.Vt)
        self.momentum *= shrink
        divergent.recall()
        value, new = self._looked(rows, objective, replace(s, Vt=s.Vt * factor), self.sweeps)
        if value <= before:
            return value, replace(new, before=new.Vt)
        divergent.recall()  # by rounding: there is nothing left to gain
        return before, replace(s, before=s.Vt)

    def solved(self, rows: Rows, objective: Objective, s: State) -> Codes:
        """The codes that `transform` would give to these rows."""
        return divergent_rows(rows).solve_divergence(model_of(objective, s), fresh=False)

    def measured(self, rows: Rows, objective: Objective, s: State) -> State:
        """The state with the sums of the codes as they are."""
        return self._looked(rows, objective, s.with_sums(*self._sums(rows, objective), ()), 0)[1]

    def imprint(self, rows: Rows, objective: Objective) -> tuple[SmallArray, ...]:
        """What pulls components that are all alike: missing cells have no part in it."""
        _, s = self.begin(rows, objective, np.ones((rows.shape[1], rows.k)))
        return (cast(DivergenceSums, s.divergence).pull,)

    @property
    def memory(self) -> dict[str, float]:
        """The power of the last factor."""
        return {"momentum": self.momentum}

    def restore(self, memory: Mapping[str, float]) -> None:
        """The same."""
        self.momentum = min(float(memory["momentum"]), _MOMENTUM[0])

    def _looked(self, rows: Rows, objective: Objective, s: State, sweeps: int) -> tuple[float, State]:
        """Objective and state after a look."""
        found = divergent_rows(rows).improve(model_of(objective, s), sweeps)
        s = replace(s, divergence=found)
        if found.P is not None and len(found.P):
            s = replace(s, P=found.P, Q=found.Q)
        (value,) = rows.small.fetch([objective.value(s)])
        return (value if np.isfinite(value) else np.inf), s

    def _sums(self, rows: Rows, objective: Objective) -> tuple[SmallArray, SmallArray]:
        """P and Q where a structure term asks for them, otherwise zeros."""
        if "structure" in objective.terms:
            P, Q, _ = rows.sums()
            return P, Q
        adopt = rows.small.adopt
        return adopt(np.zeros((rows.shape[1], rows.k))), adopt(np.zeros((rows.k, rows.k)))

    def _extrapolated(self, objective: Objective, s: State, factor: SmallArray) -> SmallArray:
        """The factor of a move that is longer than the plain one."""
        longer = _to_eighths(factor, _RELAXED if divergence_of(objective).beta > 0 else _OF_POSITIVE)
        if s.before is not None:
            longer = longer * _to_eighths((s.Vt + _TINY) / (s.before + _TINY), round(8 * self.momentum))
        return longer.clip(*_FACTOR)


def _to_eighths(A: SmallArray, eighths: int) -> SmallArray:
    """A to the power ``eighths / 8``, by roots: they cost a tenth of a power, which is what V would wait for."""
    power = A ** (eighths // 8)
    for part in (4, 2, 1):
        A = A**0.5
        if eighths & part:
            power = power * A
    return power


def divergent_rows(rows: Rows) -> DivergenceRows:
    """Rows whose backend has declared "divergences" (`dspnmf._validation.check_backend`)."""
    return cast(DivergenceRows, rows)


def divergence_of(objective: Objective) -> Divergence:
    """The term whose components are fitted."""
    return cast(Divergence, objective.terms["reconstruction"])


def model_weight(objective: Objective) -> float:
    """The weight of the structure term, over that of the divergence."""
    return objective.weights.get("structure", 0.0) / objective.weights["reconstruction"]


def _exchanged(objective: Objective, beta: float, ratio: float) -> Objective:
    """The objective with another divergence, which is `ratio` times as large; all else weighs as before next to it."""
    term, weight = divergence_of(objective), objective.weights["reconstruction"]
    other = Divergence(
        beta, ratio * term.size, ratio * term.codes_l1, ratio * term.codes_l2, ratio * term.components_l1,
        ratio * term.components_l2,
    )  # fmt: skip
    terms: dict[str, Term] = {**objective.terms, "reconstruction": other}
    return replace(objective, terms=terms, weights={**objective.weights, "reconstruction": weight / ratio})


def model_of(objective: Objective, s: State) -> DivergenceModel:
    """What the codes minimise."""
    term = divergence_of(objective)
    return DivergenceModel(term.beta, s.Vt, term.codes_l1, term.codes_l2, model_weight(objective), s.P, s.Q)


def plain_factor(objective: Objective, s: State) -> SmallArray:
    """What the guaranteed rule multiplies V' by.

    Its entry t solves ``push t^a + 2 l2 v t + l1 = pull t^-b``; an L1 penalty is added to push, which bounds it
    where a > 0. With an L2 penalty the root is approached by Newton steps in powers of t, which never pass it.
    """
    term, found = divergence_of(objective), cast(DivergenceSums, s.divergence)
    if "reconstruction" in objective.held:
        return 0 * s.Vt + 1
    beta, push, pull = term.beta, found.push + term.components_l1, found.pull
    a, b = max(beta - 1, 0.0), max(2 - beta, 0.0)
    if term.components_l2 == 0:
        factor: SmallArray = ((pull + _TINY) / (push + _TINY)) ** (1 / (a + b))
        return factor
    r, q = max(1.0, beta - 1), max(1.0, 2 - beta)
    ridge, t = 2 * term.components_l2 * s.Vt, 0 * s.Vt + 1
    for _ in range(_NEWTON):
        rising, falling = push * t**a + ridge * t, pull * t**-b
        step = (rising - falling) / (a * push * t**a + ridge * t + b * falling + _TINY)
        down = (1 + q * step.clip(0.0)) ** (-1 / q)
        t = (t * down * (1 - r * step.clip(-1e30, 0.0)) ** (1 / r)).clip(*_ROOT)
    return t
