"""The loop: a convex model of the objective, lowered on the small side, and an exact step.

One iteration of a descent, at lam = 1 (D and U are n x k and stay with the rows; everything else is small):

1. the terms' model around U: curvature S, pull M, coupling
2. the rows find a direction D that lowers the model (`hals` in one look, `newton_cg` in two)
3. they return PD = X'D, U'D, D'D: from these follows the objective along U + t D, a quartic
4. t minimises it on [0, 1]; where the minimum lies beyond, the next direction is stretched (and cut off at zero)
5. U += t D, P += t PD, Q += t (U'D + D'U) + t^2 D'D; then V by HALS sweeps on P and Q alone

t minimises the objective on a segment of the feasible set, and every sweep of 5 minimises it exactly in one row of V.
So no iteration goes up. D is a descent direction where the model is convex, because it has the objective's gradient.

The multiplicative rules (`dspnmf.solvers.multiplicative`) run in the same loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dspnmf.backends import RowModel, Rows, Slope, Sums
from dspnmf.backends.incomplete import IncompleteRows
from dspnmf.backends.small_arrays import LONGEST, ROUNDING_OF_Q, Scalar, Small, dot
from dspnmf.objective.state import State
from dspnmf.objective.terms import ALL, Objective

_ITERATION_COST = 5e7  # operations' worth of everything that does not grow with X


class Update(Protocol):
    """One iteration: new codes in `rows`, new small arrays out."""

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration; the objective there, and the state."""


class Inner(Protocol):
    """How a direction is found."""

    def __call__(self, rows: Rows, model: RowModel, stretch: float) -> Sums:
        """Leave a direction with the rows that lowers the model; the sums along it."""

    def learn(self, settled: float) -> None:
        """Hear what the last sweep changed, over the first."""


def iterate(rows: Rows, objective: Objective, Vt: Any, update: Update) -> Iterator[tuple[float, State]]:
    """Yield objective and state at the start and after every iteration, for ever: who listens decides when to stop."""
    yield from proceed(rows, objective, *first(rows, objective, Vt), update)


def first(rows: Rows, objective: Objective, Vt: Any) -> tuple[float, State]:
    """Objective and state where a descent begins."""
    s = State(rows.small.adopt(Vt), *rows.sums())
    (value,) = rows.small.fetch([objective.value(s)])
    return value, s


def proceed(rows: Rows, objective: Objective, value: float, s: State, update: Update) -> Iterator[tuple[float, State]]:
    """The same from a known state on."""
    while True:
        yield value, s
        value, s = update(rows, objective, s)


@dataclass
class Descent:
    """Steps 1 to 5, with the inner solver `inner` (`Hals` or `NewtonCG`)."""

    inner: Inner
    stretch: float = 1.0

    @property
    def memory(self) -> dict[str, float]:
        """All that one iteration leaves to the next beside the state."""
        return {"stretch": self.stretch, **({"now": self.inner.now} if isinstance(self.inner, Hals) else {})}

    def recall(self, memory: dict[str, float]) -> None:
        """Go on as whoever had this memory would."""
        self.stretch = memory["stretch"]
        if isinstance(self.inner, Hals):
            self.inner.now = int(memory["now"])

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """One iteration that never goes up."""
        model = objective.model(s)
        t, reach, value, new = self._step(rows, objective, s, self.inner(rows, model, self.stretch))
        if t == 0:  # nothing to gain this way; two sweeps lead downhill unless the codes are stationary
            t, reach, value, new = self._step(rows, objective, s, rows.look(model, sweeps=2))
        self.stretch = float(np.clip(self.stretch * reach, 1.0, LONGEST)) if t > 0 else 1.0
        return value, new

    def _step(self, rows: Rows, objective: Objective, s: State, d: Sums) -> tuple[float, float, float, State]:
        """Take the best step along a direction: its length, the best beyond 1, objective and state there."""
        t, reach = rows.small.best_step(objective.along(s, d))
        rows.step(t)
        moved = s.moved(t, d)
        new = with_components(rows, objective, moved)
        collapsed = (moved.Q.diagonal() < float(np.finfo(rows.dtype).eps) ** 0.5 * s.Q.diagonal()).any()
        facts = [t, reach, objective.value(new), collapsed, d.settled]
        length, longest, value, lost, settled = rows.small.fetch(facts)
        if lost:  # a component collapsed: what is left of its sums is rounding
            new = with_components(rows, objective, s.with_sums(*rows.sums()))
            (value,) = rows.small.fetch([objective.value(new)])
        self.inner.learn(settled)
        return length, longest, value, new


@dataclass
class Completing:
    """An update where cells of X are missing: they are completed after each iteration.

    The iteration lowers the objective with cells as they were, completing lowers the reconstruction again. The goal of
    the structure term is renewed after iterations 1, 2, 4, 8, ...; between two of them the objective never rises.
    """

    update: Update
    done: int = 0

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """One iteration, then the missing cells."""
        assert isinstance(rows, IncompleteRows)
        _, s = self.update(rows, objective, s)
        self.done += 1
        offsets = rows.complete(s.Vt, similarities=self.done & (self.done - 1) == 0)
        s = replace(s.with_sums(*rows.sums()), offsets=offsets)
        return float(objective.value(s)), s


@dataclass(frozen=True)
class Stopping:
    """Converged when an iteration changes the objective by at most `tol` of its value, or by no more than rounding.

    Neither depends on the unit of X or on the weights. ``tol=0`` never stops.
    """

    tol: float
    resolution: float = 0.0

    def __call__(self, before: float, now: float) -> bool:
        """Whether the iteration from `before` to `now` was the last one needed."""
        return self.tol > 0 and abs(before - now) <= max(self.tol * abs(now), self.resolution)


def with_components(rows: Rows, objective: Objective, s: State) -> State:
    """Every term's components improved for the codes as they are: each solves a problem of P and Q alone."""
    rounding = ROUNDING_OF_Q[rows.dtype.itemsize]
    improve = rows.small.components
    if len(objective.reconstructions) == 1 and objective.reconstructions[0].features == ALL:
        return replace(s, Vt=improve(s.Vt, s.P, objective.reconstructions[0].curvature(s), rounding))
    Vt = s.Vt.copy()
    for term in objective.reconstructions:
        Vt[term.features] = improve(s.Vt[term.features], s.P[term.features], term.curvature(s), rounding)
    return replace(s, Vt=Vt)


@dataclass
class Hals:
    """The model without coupling, by sweeps in one look at the rows; their number follows what they achieve.

    `sweeps` is fixed if given. Otherwise it begins at what half an iteration's other work would pay for, and moves by
    one from look to look: down when the last sweep changed less than a tenth of what the first did, up again when not.
    """

    sweeps: int | None = None
    now: int = 0
    most: int = 0

    def __call__(self, rows: Rows, model: RowModel, stretch: float = 1.0) -> Sums:
        """One look."""
        self.most = int(np.clip((2 * rows.product_cost + _ITERATION_COST) / (2 * rows.sweep_cost), 2, 20))
        self.now = self.now or self.most
        return rows.look(model, self.sweeps or self.now, stretch)

    def learn(self, settled: float) -> None:
        """One sweep more or less."""
        self.now = int(np.clip(self.now + (1 if settled > 0.1 else -1), 1, self.most))


@dataclass
class NewtonCG:
    """The whole model, coupling included: two sweeps find the face, conjugate gradients the point on it.

    (a) two sweeps from U, (b) the exact step of the model along them, (c) conjugate gradients on the entries that are
    positive or would become so, (d) projection, and the exact step of the model along the projected direction.
    `steps` bounds (c); if not given, the bound follows what a look at X costs, and (c) ends when the residual has
    fallen to a tenth (on a device: goes on without effect).
    """

    steps: int | None = None
    reduction: float = 0.1

    def __call__(self, rows: Rows, model: RowModel, stretch: float = 1.0) -> Sums:
        """Two looks at X, and the steps between them without it."""
        D, A, DA = rows.face(model, sweeps=2)
        if model.curves:
            tau = sigma = _model_step(rows.small, D, model)
        else:
            tau, sigma = _face_steps(rows.small, D, A, DA, model)
        rest = tau - sigma  # D becomes tau D - rest A
        UD = tau * D.UD - rest * A.UD
        self._conjugate_gradients(rows, model, tau, sigma, UD)
        z, Dz, DLz = rows.project()
        slope = z.slope + dot(Dz, model.S) + model.coupling * dot(UD.T, z.UD)
        for j, K in model.curves.items():
            slope = slope + dot(DLz[j], K)
        return rows.combine(_model_step(rows.small, z._replace(slope=slope), model), stretch)

    def learn(self, settled: float) -> None:
        """Two sweeps are enough."""

    def _conjugate_gradients(self, rows: Rows, model: RowModel, tau: Scalar, sigma: Scalar, UD: Any) -> None:
        where, inverse = rows.small.where, rows.preconditioner(model, float(np.finfo(rows.dtype).eps) ** 0.5)
        along = rows.cg_start(tau, sigma, model, UD, inverse)
        steps, reduction = self._effort(rows)
        start, alpha, beta, going = along.slope, 0.0, 0.0, True
        for step in range(steps):
            curvature = _curvature(along, model) - (beta * along.slope / alpha if step else 0.0)
            going = (along.slope > reduction**2 * start) & (curvature > 0) & going
            if rows.small.over(going):
                break
            alpha, before = where(going, along.slope / curvature, 0.0), along.slope
            along = rows.cg_step(alpha, beta, model, along.UD, inverse)
            beta = where(going, along.slope / before, 0.0)

    def _effort(self, rows: Rows) -> tuple[int, float]:
        if self.steps is not None:
            return self.steps, 0.0
        # a step is five products with k x k; together they may cost about half of the two products with X
        steps = (1.2 * rows.product_cost + _ITERATION_COST) / (5 * rows.sweep_cost)
        return int(np.clip(steps, *rows.cg_steps)), self.reduction


def _face_steps(small: Small, D: Slope, A: Slope, DA: Any, model: RowModel) -> tuple[Scalar, Scalar]:
    """How far to go along D, and along its part A that ends at zero: all of A where the model falls along that."""
    F = Slope(D.slope - A.slope, D.UD - A.UD, D.DD - DA - DA.T + A.DD)  # D - A
    mixed = dot(DA - A.DD, model.S) + model.coupling * dot(A.UD.T, F.UD)  # <A[A], F>
    tau = _model_step(small, F._replace(slope=F.slope + mixed), model)
    value = A.slope + _curvature(A, model) / 2
    value = value + tau * (F.slope + mixed) + tau * tau * _curvature(F, model) / 2
    whole = _model_step(small, D, model)
    return small.where(value < 0, tau, whole), small.where(value < 0, 1.0, whole)


def _curvature(along: Slope, model: RowModel) -> Scalar:
    """``<A[D], D>`` of the model, ``A[D] = D S + coupling U (D'U) + sum_j L_j D curves[j]``."""
    own = dot(along.DD, model.S) + model.coupling * dot(along.UD, along.UD.T)
    return own + sum(dot(along.DLD[j], K) for j, K in model.curves.items())


def _model_step(small: Small, along: Slope, model: RowModel) -> Scalar:
    """The step in [0, 1] that minimises the model along D."""
    curvature = _curvature(along, model)
    far = small.where(-along.slope >= curvature, 1.0, -along.slope / small.where(curvature > 0, curvature, 1.0))
    return small.where(along.slope >= 0, 0.0, far)
