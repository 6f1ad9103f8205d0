"""Penalties on codes and components, with scikit-learn's parameters, meaning and units.

scikit-learn halves ``||X - WH||^2``; here it is whole, and so are the penalties that stand next to it:

    2 alpha_W l1_ratio m ||U||_1 + alpha_W (1 - l1_ratio) m ||U||^2,

and the same of V with alpha_H and the number of samples n in place of the number of features m. In the solver's units
(`dspnmf.estimators.base`) a norm of the codes is multiplied by `code`, one of the components by ``scale / code``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from dspnmf._validation import Allowed, either, number, one_of
from dspnmf.backends.protocol import Data
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.parameters import parameter
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.terms import Lasso, Reconstruction, Ridge

_SHARE = Allowed(lambda value: number(0).test(value) and value <= 1, "a number >= 0 and <= 1")
CODES_L1, CODES_L2 = "codes_l1", "codes_l2"  # the names of their terms


class Penalties(NamedTuple):
    """Weights of ``||U||_1``, ``||U||^2``, ``||V||_1`` and ``||V||^2``, in the user's unit or in the solver's.

    In the solver's, those of the components are relative to the reconstruction they belong to.
    """

    codes_l1: float = 0.0
    codes_l2: float = 0.0
    components_l1: float = 0.0
    components_l2: float = 0.0

    def in_units(self, code: float, scale: float, weight: float = 1.0) -> Self:
        """The same in the solver's units; `weight`: of the reconstruction there."""
        ratio = code / scale
        return self._replace(
            codes_l1=self.codes_l1 * ratio / scale * weight,
            codes_l2=self.codes_l2 * ratio * ratio * weight,
            components_l1=self.components_l1 / code / scale,
            components_l2=self.components_l2 / code / code,
        )

    def of_components(self, term: Reconstruction, weight: float = 1.0) -> Reconstruction:
        """A reconstruction with the penalties on its components, next to a ridge of its own; `weight`: the user's."""
        return replace(term, ridge=term.ridge + self.components_l2 / weight, lasso=self.components_l1 / weight)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return max(self) > 0

    def objective(self, weighted: Mapping[str, tuple[Term, float]], data: Data) -> tuple[Objective, float]:
        """Terms with their weights and the penalties on codes, the largest weight 1; and what that was.

        For an L1 penalty the data have a column of ones.
        """
        weighted = dict(weighted)
        if self.codes_l1 > 0:
            weighted[CODES_L1] = Lasso(data.block("ones")), self.codes_l1
        if self.codes_l2 > 0:
            weighted[CODES_L2] = Ridge(), self.codes_l2
        largest = float(max(weight for _, weight in weighted.values()))
        weights = {name: float(weight / largest) for name, (_, weight) in weighted.items()}
        return Objective({name: term for name, (term, _) in weighted.items()}, weights), largest


@dataclass(eq=False, repr=False)
class Penalized(ComponentFactorization):
    """A factorization with penalties: `alpha_W`, `alpha_H` and `l1_ratio`."""

    alpha_W: float = parameter(0.0, number(0))  # noqa: N815 - scikit-learn's names
    alpha_H: float | str = parameter("same", either(one_of("same"), number(0)))  # noqa: N815
    l1_ratio: float = parameter(0.0, _SHARE)

    @staticmethod
    def sums_are_penalized(parameters: Mapping[str, Any]) -> bool:
        """Whether parameters put an L1 penalty on codes: rows then have a column of ones."""
        return bool(parameters.get("alpha_W", 0.0) > 0 and parameters.get("l1_ratio", 0.0) > 0)

    def with_penalized_sums(self, data: Data, scale: float, parameters: Mapping[str, Any] | None = None) -> Data:
        """Data whose sums hold all that penalties ask for; `parameters` of a fit, if they are not the present ones."""
        return data.with_ones(scale) if self.sums_are_penalized(parameters or vars(self)) else data

    def augmented(self, data: Data) -> Data:
        """With what penalties of the fit ask of rows for `transform`."""
        state = self._transform_state
        return self.with_penalized_sums(data, state.scale, state.parameters)

    def penalties(self, n_samples: float, n_features: int) -> Penalties:
        """Their weights next to ``||X - UV||^2``, in the user's unit."""
        alpha_H = self.alpha_W if self.alpha_H == "same" else float(self.alpha_H)
        U, V, l1 = float(self.alpha_W) * n_features, alpha_H * n_samples, float(self.l1_ratio)
        return Penalties(2 * l1 * U, (1 - l1) * U, 2 * l1 * V, (1 - l1) * V)

    def solver_penalties(
        self, n_samples: float, n_features: int, code: float, scale: float, weight: float = 1.0
    ) -> Penalties:
        """The same in the solver's units (`Penalties.in_units`); an error where these have no number for them."""
        found = self.penalties(n_samples, n_features).in_units(code, scale, weight)
        if not np.isfinite(found).all():
            raise ValueError(
                f"alpha_W={self.alpha_W!r} and alpha_H={self.alpha_H!r} are too large for X in this unit: the "
                "penalties are not finite numbers. Scale X (for example to [0, 1]), or choose smaller ones."
            )
        return found
