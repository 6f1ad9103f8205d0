"""The inner solver `newton-cg`: the whole Gauss-Newton model, coupling between rows included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from dspnmf._typing import Array, Scalar, SmallArray
from dspnmf.backends.protocol import ConjugateGradientRows, Rows
from dspnmf.backends.row_model import RowModel, Slope, Sums
from dspnmf.backends.small_arrays import Small, as_matrix, coupled, dot, inverse, model_curvature
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.hals import ITERATION_COST
from dspnmf.solvers.requests import Requests, ask

# of the largest: smaller eigenvalues of the curvature are raised in the preconditioner; by the bytes of X's numbers
_FLOOR = {4: 1e-6, 8: 1e-8}


@dataclass
class NewtonCG:
    """The whole model, coupling included: two sweeps find the face, conjugate gradients the point on it.

    (a) two sweeps from U, (b) the exact step of the model along them, (c) conjugate gradients on the entries that are
    positive or would become so, preconditioned by the inverse of the whole model (exact where every entry is free),
    (d) projection, and the exact step of the model along the projected direction.
    `steps` bounds (c); if not given, the bound follows what a look at X costs, and (c) ends when the residual has
    fallen to a tenth (on a device: goes on without effect).
    """

    steps: int | None = None
    reduction: float = 0.1
    memory: dict[str, float] = field(default_factory=dict)  # nothing
    coupling: float = 0.0  # of the model; `facts` finds it

    def facts(self, rows: Rows, objective: Objective, s: State) -> tuple[SmallArray, ...]:
        """Small arrays that `effort` takes from the host: the curvature common to rows, and Q."""
        rows = cast(ConjugateGradientRows, rows)  # the backend has declared it: `check_backend`
        model = objective.model(s)
        self.coupling = model.coupling
        return rows.common_curvature(model), s.Q

    def effort(self, rows: Rows, objective: Objective, S: Array, Q: Array) -> tuple[SmallArray]:
        """The preconditioner of the next conjugate gradients: inverse of the curvature, and what coupling adds."""
        T = inverse(S, _FLOOR[rows.dtype.itemsize], 1e4 * float(np.finfo(rows.dtype).tiny))
        return (rows.small.adopt(np.stack([T, *coupled(T, Q, self.coupling)])),)

    def __call__(self, rows: Rows, model: RowModel, stretch: Scalar, preconditioner: SmallArray) -> Requests[Sums]:
        """Two looks at X, and the steps between them without it."""
        rows = cast(ConjugateGradientRows, rows)
        D, A, DA = yield from ask(rows.face, model, 2)
        if model.curves:
            tau = sigma = _model_step(rows.small, *rows.small.numbers(D.slope, model_curvature(D, model)))
        else:
            tau, sigma = _face_steps(rows.small, D, A, DA, model)
        rest = tau - sigma  # D becomes tau D - rest A
        UD = tau * D.UD - rest * A.UD
        self._conjugate_gradients(rows, model, tau, sigma, UD, preconditioner)
        z, Dz, DLz = rows.project()
        slope = z.slope + dot(Dz, model.S) + model.coupling * dot(UD.T, z.UD)
        for j, K in model.curves.items():
            slope = slope + dot(DLz[j], as_matrix(K))
        step = _model_step(rows.small, *rows.small.numbers(slope, model_curvature(z, model)))
        return (yield from ask(rows.combine, step, stretch))

    def adapt(self, settled: float) -> None:
        """Two sweeps are enough."""

    def _conjugate_gradients(
        self, rows: ConjugateGradientRows, model: RowModel, tau: Scalar, sigma: Scalar, UD: SmallArray,
        preconditioner: SmallArray,
    ) -> None:  # fmt: skip
        small, T, eps = rows.small, preconditioner[0], float(np.finfo(rows.dtype).eps)
        along = rows.couple(small.coupling_part(rows.cg_start(tau, sigma, model, UD, T), preconditioner))
        steps, reduction = self._effort(rows)
        step = None
        for number in range(steps):
            step = small.conjugate_step(along, model, step, reduction, eps)
            if small.over(step.going):
                break
            if number == steps - 1:
                rows.cg_last(step.alpha, step.beta)
            else:
                Ur = rows.cg_step(step.alpha, step.beta, model, along.UD, T)
                along = rows.couple(small.coupling_part(Ur, preconditioner))

    def _effort(self, rows: ConjugateGradientRows) -> tuple[int, float]:
        if self.steps is not None:
            return self.steps, 0.0
        # a step is seven products with k x k; together they may cost about half of the two products with X
        steps = (1.2 * rows.product_cost + ITERATION_COST) / (7 * rows.sweep_cost)
        return int(np.clip(steps, *rows.cg_steps)), self.reduction


def _face_steps(small: Small, D: Slope, A: Slope, DA: SmallArray, model: RowModel) -> tuple[Scalar, Scalar]:
    """How far to go along D, and along its part A that ends at zero: all of A where the model falls along that."""
    F = Slope(D.slope - A.slope, D.UD - A.UD, D.DD - DA - DA.T + A.DD)  # D - A
    mixed = dot(DA - A.DD, model.S) + model.coupling * dot(A.UD.T, F.UD)  # <A[A], F>
    all_of_A, slope, curvature, slope_of_D, curvature_of_D = small.numbers(
        A.slope + model_curvature(A, model) / 2, F.slope + mixed, model_curvature(F, model),
        D.slope, model_curvature(D, model),
    )  # fmt: skip
    tau, whole = _model_step(small, slope, curvature), _model_step(small, slope_of_D, curvature_of_D)
    falls = all_of_A + tau * slope + tau * tau * curvature / 2 < 0
    return small.where(falls, tau, whole), small.where(falls, 1.0, whole)


def _model_step(small: Small, slope: Scalar, curvature: Scalar) -> Scalar:
    """The step in [0, 1] that minimises the model along a direction."""
    far = small.where(-slope >= curvature, 1.0, -slope / small.where(curvature > 0, curvature, 1.0))
    return small.where(slope >= 0, 0.0, far)
