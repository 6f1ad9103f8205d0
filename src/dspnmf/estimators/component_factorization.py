"""Factorizations with components: what they learn, and codes of new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._typing import Array, ArrayLike, Codes, Sparse
from dspnmf.backends import RowModel, backend_for
from dspnmf.backends.protocol import Data, Rows
from dspnmf.backends.row_model import Ties
from dspnmf.estimators.base import Factorization, Problem
from dspnmf.estimators.checkpoint import Run, checked_codes_path, delivered
from dspnmf.estimators.transform_state import TrainingRows, TransformState
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction
from dspnmf.stability import stability


@dataclass(eq=False, repr=False)
class ComponentFactorization(Factorization):
    """A factorization X ~ UV that keeps V, so new rows have codes too."""

    _holds_components: ClassVar[bool] = True  # whether its codes can be fitted to components that stay as they are

    def transform(self, X: ArrayLike, *, codes_path: str | Path | None = None) -> Array:
        """Codes of new samples: the convex problem each row poses to the fitted components, solved to rounding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative data with the features of the fit.
        codes_path : path, optional
            File (.npy) the codes are written to; they come back as a read-only memory map.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        path = checked_codes_path(codes_path, X)
        backend = backend_for(X).storing(path)
        _validation.check_backend(self, backend, self._needs())
        rows, codes = self._codes(backend.check(self, X, reset=False))
        return delivered(backend, rows, codes, path)

    def _codes(self, data: Data, state: TransformState | None = None) -> tuple[Rows, Codes]:
        """Codes of checked rows, in the user's unit, and the rows they belong to; `state`: of a fit not yet done."""
        state = state or self._transform_state
        data = data.of_ordinary_size(state.scale)
        ties = self._ties(data)
        rows = self.augmented(data).rows(len(state.curvature), state.scale)
        if rows.shape[1] != len(state.pull):  # no kernel takes a shape from a file on trust
            raise ValueError(_validation.DAMAGED_MODEL.format(held=len(state.pull), needed=rows.shape[1]))
        model = RowModel(rows.small.adopt(state.curvature), rows.small.adopt(state.pull))
        with team():
            return rows, rows.scaled(rows.solve(model, ties, state.completion), state.unit)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Samples from codes: ``X @ components_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_components)

        Returns
        -------
        samples : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        return backend_for(X).samples(X, self.components_)

    # -- what a method says of itself ----------------------------------------------------------------------------

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        """That of the term "reconstruction"."""
        term = problem.objective.terms["reconstruction"]
        rest = float(term.rest(s)) if isinstance(term, Reconstruction) else 0.0
        return {"reconstruction_err_": float(np.sqrt(max(values["reconstruction"] - rest, 0.0))) * problem.scale}

    def augmented(self, data: Data) -> Data:
        """X with the further features the fit had, for transform."""
        return data

    def _ties(self, data: Data) -> Ties | None:
        """What ties new rows to those of the fit."""
        return None

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        """What `TransformState` holds in addition to units and parameters: curvature and pull of a row's problem."""
        model = problem.objective.model(run.state)
        return {"curvature": model.S, "pull": model.M}

    def _training_rows(
        self, problem: Problem, run: Run, *, weight: float = 1.0, edge_length: float | None = None
    ) -> TrainingRows:
        """The rows of the fit, for methods that tie new rows to them."""
        codes = np.concatenate(list(problem.rows.save_codes(run.codes)))
        return TrainingRows(codes, problem.data.on_host().copy(), weight, edge_length)

    def _pulled(self, ties: Sparse, dtype: np.dtype[Any]) -> Ties:
        """The pull of similarities `ties` (new x training rows)."""
        training = self._transform_state.training
        return Ties(np.ascontiguousarray((training.weight * (ties @ training.codes)).astype(dtype)))

    # -- the fit ---------------------------------------------------------------------------------------------------

    def _components(self, problem: Problem, s: State) -> tuple[Array, Array]:
        """Components in the user's unit, and the unit of the codes that goes with them."""
        components = s.Vt[: self.n_features_in_].T * (problem.scale / problem.code)
        unit = np.full(problem.rows.k, problem.code)
        if getattr(self, "normalize", False):
            length = np.linalg.norm(components, axis=1)
            length[length == 0] = 1.0
            components, unit = components / length[:, None], unit * length
        return components, unit

    def _units(self, problem: Problem, s: State) -> Array:
        return self._components(problem, s)[1]

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        components, unit = self._components(problem, run.state)
        others = [Vt[: self.n_features_in_].T for Vt in (run.state.Vt, *run.others)]
        learned = {
            "components_": problem.data.backend.components(np.ascontiguousarray(components.astype(problem.data.dtype))),
            "stability_": stability(others) if run.others else None,
            "_transform_state": TransformState(
                **{
                    "parameters": self.get_params(deep=False),
                    "scale": problem.scale,
                    "unit": unit,
                    **self._for_transform(problem, run),
                }
            ),
        }
        if "alpha" in problem.details:
            learned["alpha_"] = float(problem.details["alpha"])
        if (labels := problem.details.get("labels")) is not None:  # B for codes in the user's unit
            B = run.state.Vt[problem.data.block("labels").columns].T / np.where(unit > 0, unit, 1.0)[:, None]
            learned |= {"classes_": labels.classes, "label_components_": B}
        return learned
