"""The loop: a convex model of the objective, lowered on the small side, and an exact step.

One iteration of a descent, at lam = 1 (D and U are n x k and stay with the rows; everything else is small):

1. the terms' model around U: curvature S, pull M, coupling
2. the rows find a direction D that lowers the model (`hals` in one look, `newton_cg` in two)
3. they return PD = X'D, U'D, D'D: from these follows the objective along U + t D, a quartic
4. t minimises it on [0, 1]; where the minimum lies beyond, the next direction is stretched (and cut off at zero)
5. U += t D, P += t PD, Q += t (U'D + D'U) + t^2 D'D; then V by HALS sweeps on P and Q alone

t minimises the objective on a segment of the feasible set, and every sweep of 5 minimises it exactly in one row of V.
So no iteration goes up. D is a descent direction where the model is convex, because it has the objective's gradient.

The multiplicative rules (`dspnmf.rules`) run in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from dspnmf.rows import ArrayRows, RowModel, Sums
from dspnmf.rows._model import Array
from dspnmf.rows.array import Slope
from dspnmf.terms import Objective, State

_LONGEST = 2.0  # how far beyond the model's minimum a direction may reach
_COMPONENT_SWEEPS = 10  # at most; they cost no look at X
# Q is a running sum: a diagonal entry this far below the largest says nothing (by the bytes of X's numbers)
ROUNDING_OF_Q = {4: 1e-6, 8: 1e-13}
_ITERATION_COST = 5e7  # operations' worth of everything that does not grow with X


class Update(Protocol):
    """One iteration: new codes in `rows`, new small arrays out."""

    def __call__(self, rows: ArrayRows, objective: Objective, s: State) -> State:
        """Advance by one iteration."""


def iterate(rows: ArrayRows, objective: Objective, Vt: Array, update: Update) -> Iterator[tuple[float, State]]:
    """Yield objective and state at the start and after every iteration, for ever: who listens decides when to stop."""
    s = State(Vt, *rows.sums())
    while True:
        yield objective.value(s), s
        s = update(rows, objective, s)


@dataclass
class Descent:
    """Steps 1 to 5, with the inner solver `inner` (`Hals` or `NewtonCG`)."""

    inner: Callable[[ArrayRows, RowModel, float], Sums]
    _stretch: float = field(default=1.0, init=False)

    def __call__(self, rows: ArrayRows, objective: Objective, s: State) -> State:
        """One iteration that never goes up."""
        model = objective.model(s)
        d = self.inner(rows, model, self._stretch)
        c = objective.along(s, d)
        t = best_step(c)
        if t == 0:  # nothing to gain this way; two sweeps lead downhill unless the codes are stationary
            d, _ = rows.look(model, sweeps=2)
            c = objective.along(s, d)
            t = best_step(c)
        self._stretch = float(np.clip(self._stretch * best_step(c, 2 * _LONGEST), 1.0, _LONGEST)) if t > 0 else 1.0
        rows.step(t)
        new = s.moved(t, d)
        if (np.diag(new.Q) < float(np.finfo(rows.dtype).eps) ** 0.5 * np.diag(s.Q)).any():
            new = State(s.Vt, *rows.sums())  # a component collapsed: what is left of its sums is rounding
        return with_components(objective, new, rounding=ROUNDING_OF_Q[rows.dtype.itemsize])


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


def best_step(c: Array, end: float = 1.0) -> float:
    """The t in [0, end] with the lowest ``c1 t + c2 t^2 + c3 t^3 + c4 t^4``; 0 where nothing lies below zero."""
    size = np.abs(c).max()
    if not size > 0:
        return 0.0
    c = np.where(np.abs(c) > 1e-30 * size, c / size, 0.0)
    stationary = np.roots([4 * c[3], 3 * c[2], 2 * c[1], c[0]])
    real = stationary[np.abs(stationary.imag) <= 1e-8 * np.abs(stationary)].real
    candidates = np.append(real[(real > 0) & (real < end)], end)
    values = candidates * (c[0] + candidates * (c[1] + candidates * (c[2] + candidates * c[3])))
    best = int(values.argmin())
    return float(candidates[best]) if values[best] < 0 else 0.0


def with_components(objective: Objective, s: State, rounding: float) -> State:
    """Every term's components improved for the codes as they are: each solves a problem of P and Q alone."""
    Vt = s.Vt.copy()
    for term in objective.reconstructions:
        Vt[term.features] = components(s.Vt[term.features], s.P[term.features], term.curvature(s), rounding)
    return replace(s, Vt=Vt)


def components(Vt: Array, P: Array, Q: Array, rounding: float = 1e-13) -> Array:
    """HALS sweeps on ``min ||X - UV||^2`` over V >= 0 until one changes a tenth of what the first did."""
    from dspnmf import kernels

    Vt, P, block = Vt.copy(), np.ascontiguousarray(P), max(1, min(128, len(Vt)))
    first = kernels.sweep_rows(Vt, P, Q, rounding, block)
    for _ in range(_COMPONENT_SWEEPS - 1):
        if kernels.sweep_rows(Vt, P, Q, rounding, block) <= 0.01 * first:
            break
    return Vt


@dataclass
class Hals:
    """The model without coupling, by sweeps in one look at the rows; their number follows what they achieve.

    `sweeps` is fixed if given. Otherwise it begins at what half an iteration's other work would pay for, and moves by
    one from look to look: down when the last sweep changed less than a tenth of what the first did, up again when not.
    """

    sweeps: int | None = None
    _now: int = field(default=0, init=False)

    def __call__(self, rows: ArrayRows, model: RowModel, stretch: float = 1.0) -> Sums:
        """One look."""
        if self.sweeps is not None:
            return rows.look(model, self.sweeps, stretch)[0]
        most = int(np.clip((2 * rows.product_cost + _ITERATION_COST) / (2 * rows.sweep_cost), 2, 20))
        d, settled = rows.look(model, self._now or most, stretch)
        self._now = int(np.clip((self._now or most) + (1 if settled > 0.1 else -1), 1, most))
        return d


@dataclass
class NewtonCG:
    """The whole model, coupling included: two sweeps find the face, conjugate gradients the point on it.

    (a) two sweeps from U, (b) the exact step of the model along them, (c) conjugate gradients on the entries that are
    positive or would become so, (d) projection, and the exact step of the model along the projected direction.
    `steps` bounds (c); if not given, the bound follows what a look at X costs, and (c) ends when the residual has
    fallen to a tenth.
    """

    steps: int | None = None
    reduction: float = 0.1

    def __call__(self, rows: ArrayRows, model: RowModel, stretch: float = 1.0) -> Sums:
        """Two looks at X, and the steps between them without it."""
        D, A, DA = rows.face(model, sweeps=2)
        tau, sigma = _face_steps(D, A, DA, model) if not model.curves else 2 * (_model_step(D, model),)
        rest = tau - sigma  # D becomes tau D - rest A
        UD = tau * D.UD - rest * A.UD
        self._conjugate_gradients(rows, model, tau, sigma, UD)
        z, Dz, DLz = rows.project()
        slope = z.slope + float(np.vdot(Dz, model.S)) + model.coupling * float(np.vdot(UD.T, z.UD))
        slope += sum(float(np.vdot(DLz[j], K)) for j, K in model.curves.items())
        more = _model_step(z._replace(slope=slope), model)
        return rows.combine(more, stretch)

    def _conjugate_gradients(self, rows: ArrayRows, model: RowModel, tau: float, sigma: float, UD: Array) -> None:
        inverse = rows.preconditioner(model, float(np.finfo(rows.dtype).eps) ** 0.5)
        along = rows.cg_start(tau, sigma, model, UD, inverse)
        steps, reduction = self._effort(rows)
        start, alpha, beta = along.slope, 0.0, 0.0
        for _ in range(steps):
            if along.slope <= reduction**2 * start:
                break
            curvature = _curvature(along, model) - (beta * along.slope / alpha if alpha else 0.0)
            if curvature <= 0:
                break
            alpha, before = along.slope / curvature, along.slope
            along = rows.cg_step(alpha, beta, model, along.UD, inverse)
            beta = along.slope / before

    def _effort(self, rows: ArrayRows) -> tuple[int, float]:
        if self.steps is not None:
            return self.steps, 0.0
        # a step is five products with k x k; together they may cost about half of the two products with X
        steps = (1.2 * rows.product_cost + _ITERATION_COST) / (5 * rows.sweep_cost)
        return int(np.clip(steps, 8, 24)), self.reduction


def _face_steps(D: Slope, A: Slope, DA: Array, model: RowModel) -> tuple[float, float]:
    """How far to go along D, and along its part A that ends at zero: all of A where the model falls along that."""
    F = Slope(D.slope - A.slope, D.UD - A.UD, D.DD - DA - DA.T + A.DD)  # D - A
    mixed = float(np.vdot(DA - A.DD, model.S)) + model.coupling * float(np.vdot(A.UD.T, F.UD))  # <A[A], F>
    tau = _model_step(F._replace(slope=F.slope + mixed), model)
    value = A.slope + _curvature(A, model) / 2
    value += tau * (F.slope + mixed) + tau * tau * _curvature(F, model) / 2
    if value < 0:
        return tau, 1.0
    tau = _model_step(D, model)
    return tau, tau


def _curvature(along: Slope, model: RowModel) -> float:
    """``<A[D], D>`` of the model, ``A[D] = D S + coupling U (D'U) + sum_j L_j D curves[j]``."""
    own = float(np.vdot(along.DD, model.S)) + model.coupling * float(np.vdot(along.UD, along.UD.T))
    return own + sum(float(np.vdot(along.DLD[j], K)) for j, K in model.curves.items())


def _model_step(along: Slope, model: RowModel) -> float:
    """The step in [0, 1] that minimises the model along D."""
    if along.slope >= 0:
        return 0.0
    curvature = _curvature(along, model)
    return 1.0 if curvature <= -along.slope else -along.slope / curvature
