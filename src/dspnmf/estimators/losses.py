"""Errors measured by a beta divergence: the parameter `beta_loss`, and what a fit and `transform` do differently then.

scikit-learn's names and numbers. "frobenius" (2) is ``||X - UV||^2`` and has the solvers of its own; everything else is
``d(X | UV)``, where "kullback-leibler" is 1 and "itakura-saito" is 0. The divergence of X / scale from UV / scale is
``scale^-beta`` times that of X from UV, which is the unit of the objective.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._typing import Codes
from dspnmf._validation import Allowed, either, one_of
from dspnmf.backends.protocol import Capability, Data, DivergenceRows, Rows
from dspnmf.backends.row_model import DivergenceModel
from dspnmf.estimators.base import Problem
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.penalties import Penalized
from dspnmf.estimators.transform_state import DivergenceState, TransformState
from dspnmf.objective.divergence import Divergence
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity
from dspnmf.solvers.divergence import DivergenceDescent, divergence_of, model_weight
from dspnmf.solvers.loop import Update

LOSSES = {"frobenius": 2.0, "kullback-leibler": 1.0, "itakura-saito": 0.0}
_SWEEPS, _SWEEPS_OF_SPARSE = 2, 4  # of the codes in an iteration: more find lower minima at the same price
_SPARSE = 0.1  # share of stored entries below which X is sparse: what surrounds a sweep costs more than the sweep
_NUMBER = Allowed(lambda value: _validation.number(-2).test(value) and value <= 4, "a number >= -2 and <= 4")
BETA_LOSS = either(one_of(*LOSSES), _NUMBER)


@dataclass(eq=False, repr=False)
class WithLosses(Penalized):
    """A factorization whose reconstruction may be measured by a beta divergence."""

    beta_loss: str | float = parameter("frobenius", BETA_LOSS)

    @property
    def _beta(self) -> float:
        """The number."""
        return LOSSES[self.beta_loss] if isinstance(self.beta_loss, str) else float(self.beta_loss)

    @property
    def _divergent(self) -> bool:
        """Whether errors are measured by anything but squares."""
        return self._beta != 2

    def _needs(self) -> dict[Capability, str]:
        needs = super()._needs()
        if self._divergent:
            check_loss(self)
            needs.pop("missing", None)  # missing cells have no weight: nothing is completed
            needs["divergences"] = f"beta_loss={self.beta_loss!r}"
        return needs

    def divergence_problem(self, data: Data, scale: float, alpha: float | None = None, lam: float = 1.0) -> Problem:
        """The divergence, and the structure term where it has a weight, which may be 0."""
        beta, size = self._beta, data.shape[0] * data.shape[1]
        check_divergence(self, beta, data)
        mean = data.mean() / scale
        code = scale / float(np.sqrt(lam))
        penalties = self.divergence_penalties(data.shape, scale, code)
        term = Divergence(beta, size * (mean**beta if beta > 0 and mean > 0 else 1.0), *penalties)
        terms: dict[str, Term] = {"reconstruction": term}
        unit, weights = scale**beta, {"reconstruction": 1.0}
        if alpha is not None:
            terms["structure"] = GramSimilarity(data.gram_norm2(scale), data.block())
            weights["structure"] = float(alpha) * scale ** (4 - beta)
        _validation.check_weights_finite(self, "alpha", np.array([unit, *weights.values()]))
        largest = max(weights.values())
        objective = Objective(terms, {name: float(weight / largest) for name, weight in weights.items()})
        rows, details = data.divergence_rows(self.n_components_, scale), {} if alpha is None else {"alpha": alpha}
        return Problem(data, rows, objective, largest * unit, code, details=details)

    def divergence_penalties(
        self, shape: tuple[float, int], scale: float, code: float
    ) -> tuple[float, float, float, float]:
        """Weights of the penalties in the solver's units: next to a divergence they are scikit-learn's own."""
        ratio, unit = scale / code, scale**self._beta
        sizes = np.array([code, code * code, ratio, ratio * ratio])
        found = np.array(self.penalties(*shape)) / 2 * sizes / unit
        _validation.check_weights_finite(self, "alpha_W", found)
        codes_l1, codes_l2, components_l1, components_l2 = found.tolist()
        return codes_l1, codes_l2, components_l1, components_l2

    def _solver_for(self, problem: Problem) -> str:
        return "divergence" if self._divergent else super()._solver_for(problem)

    def _update(self, problem: Problem) -> Update:
        if not self._divergent:
            return super()._update(problem)
        inner, (n, m) = getattr(self, "inner_iter", "auto"), problem.rows.shape
        if inner == "auto":
            stored = problem.rows.product_cost / (2 * problem.rows.k)
            inner = _SWEEPS_OF_SPARSE if stored < _SPARSE * n * m else _SWEEPS
        return DivergenceDescent(int(inner))

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        if not self._divergent:
            return super()._errors(values, problem, s)
        distance = float(divergence_of(problem.objective).distance(s))
        errors = {"reconstruction_err_": self.divergence_error(distance, problem.scale)}
        if "structure" in values:
            errors["structure_err_"] = float(np.sqrt(max(values["structure"], 0.0))) * problem.scale**2
        return errors

    def divergence_error(self, distance: float, scale: float) -> float:
        """scikit-learn's error of a divergence in the solver's unit."""
        return float(np.sqrt(2 * max(distance, 0.0))) * scale ** (self._beta / 2)

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        if not self._divergent:
            return super()._for_transform(problem, run)
        term, s = divergence_of(problem.objective), run.state
        held = DivergenceState(term.beta, s.Vt, term.codes_l1, term.codes_l2, model_weight(problem.objective))
        return {"curvature": s.Q, "pull": s.P, "divergence": held}

    def _codes(self, data: Data, state: TransformState | None = None) -> tuple[Rows, Codes]:
        """Codes of checked rows: a convex problem per row for 1 <= beta <= 2."""
        state = state or self._transform_state
        if state.divergence is None:
            return super()._codes(data, state)
        rows, codes, _ = self._solved(data, state)
        return rows, rows.scaled(codes, state.unit)

    def _solved(self, data: Data, state: TransformState) -> tuple[DivergenceRows, Codes, DivergenceModel]:
        """Rows, their codes in the solver's unit, and the problem these solve."""
        held, data = state.divergence, data.of_ordinary_size(state.scale)
        assert held is not None
        check_divergence(self, held.beta, data)
        rows = data.divergence_rows(len(state.curvature), state.scale)
        adopt = rows.small.adopt
        model = DivergenceModel(
            held.beta, adopt(held.Vt), held.l1, held.l2, held.alpha, adopt(state.pull), adopt(state.curvature)
        )
        with team():
            return rows, rows.solve_divergence(model, fresh=True), model


def check_loss(estimator: Any) -> None:
    """What cannot be combined with a beta divergence, and a start that is poor for one."""
    loss = f"beta_loss={estimator.beta_loss!r}"
    needed: dict[str, tuple[object, ...]] = {
        "solver": ("auto", "mm", "mu"),
        "similarity": ("gram",),
        "label_weight": (0,),
    }
    for name, allowed in needed.items():
        value = getattr(estimator, name, allowed[0])
        matrix = hasattr(value, "shape")
        if matrix or value not in allowed:
            shown = "a matrix" if matrix else repr(value)
            raise _validation.ParameterError(
                f"{name}={shown} cannot be combined with {loss}: use one of {', '.join(map(repr, allowed))}, or "
                'beta_loss="frobenius".',
                name,
            )
    if isinstance(alpha := getattr(estimator, "alpha", 0), str):
        raise _validation.ParameterError(
            f"alpha={alpha!r} cannot be combined with {loss}, for which there is no natural weight: use a number.",
            "alpha",
        )
    if _validation.takes_missing(estimator) and alpha > 0:
        raise _validation.ParameterError(
            f'missing="mask" cannot be combined with {loss} and alpha={estimator.alpha!r}: only complete rows have '
            "similarities. Use alpha=0 (or NMF), or fill the cells.",
            "missing",
        )
    if getattr(estimator, "init", "random") == "nndsvd":
        warnings.warn(
            'init="nndsvd" has zeros, which the rule for components keeps where errors are measured by a divergence: '
            'use init="nndsvda", "nndsvdar" or "random".',
            UserWarning,
            stacklevel=_validation.users_frame(),
        )


def check_divergence(estimator: Any, beta: float, data: Data) -> None:
    """Zeros in X have no finite divergence where beta <= 0, and no rule stays finite near them."""
    if beta <= 0 and data.has_zeros():
        raise ValueError(_validation.ZEROS.format(loss=estimator.beta_loss))
