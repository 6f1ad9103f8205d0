"""Factorizations with components: what they learn, and codes of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf.backends import RowModel
from dspnmf.backends.dispatch import MEMORY, Place, on_host, place_of
from dspnmf.backends.incomplete import Incomplete, IncompleteRows
from dspnmf.backends.row_model import Array
from dspnmf.estimators.base import Factorization, Problem, Run
from dspnmf.estimators.checkpoint import codes_path, delivered
from dspnmf.objective.state import State
from dspnmf.stability import stability


class ComponentFactorization(Factorization):
    """A factorization X ~ UV that keeps V, so new rows have codes too."""

    _unit_length = False  # whether components always have unit length

    def transform(self, X: Any, *, codes: Any = None) -> Array:
        """Codes of new samples: the convex problem each row poses to the fitted components, solved to rounding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative data with the features of the fit.
        codes : path, optional
            File (.npy) the codes are written to; they come back as a read-only memory map.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        path = codes_path(codes, X)
        place = place_of(X).storing(path)
        _validation.check_place(self, place, everywhere=self._anywhere)
        X = place.check(self, X, reset=False)[0]
        return self._codes(X, place, path)

    def _codes(self, X: Any, place: Place = MEMORY, path: Path | None = None) -> Any:
        """Codes of checked rows, as the user gets them."""
        if isinstance(X, Incomplete):
            return self._codes_of_incomplete(X, place, path)
        beside = self._beside(X)
        rows = place.rows(self._augmented(X), len(self._curvature), self._scale)
        model = RowModel(rows.small.adopt(self._curvature), rows.small.adopt(self._pull))
        with team():
            codes = place.in_units(rows.solve(model, *beside), self._unit)
        return delivered(place, rows, codes, path)

    def _codes_of_incomplete(self, X: Incomplete, place: Place, path: Path | None) -> Any:
        """Codes of rows with missing cells."""
        rows = IncompleteRows(X, len(self._curvature), self._scale, means=self._means)
        Vt = (on_host(self.components_) * self._unit[:, None]).T.astype(np.float64) / self._scale
        data = self._weights[0] * Vt
        with team():
            codes = rows.solve_incomplete(self._curvature, data, self._pull - data, Vt)
        return delivered(place, rows, place.in_units(codes, self._unit), path)

    def inverse_transform(self, Z: Any) -> Array:
        """Samples from codes: ``Z @ components_``.

        Parameters
        ----------
        Z : {array-like, sparse matrix} of shape (n_samples, n_components)

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return place_of(Z).samples(Z, self.components_)

    # -- what a method says of itself ----------------------------------------------------------------------------

    def _errors(self, values: list[float], problem: Problem, s: State) -> dict[str, float]:
        """The reconstruction is the first term."""
        return {"reconstruction_err_": float(np.sqrt(values[0])) * problem.rows.scale}

    def _augmented(self, X: Any) -> Any:
        """X with the further features the fit had, for transform."""
        return X

    def _beside(self, X: Any) -> tuple[Array, ...]:
        """What stands beside pull and curvature of new rows (see `ArrayRows.solve`): their ties to the old."""
        return ()

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        """What transform needs: curvature and pull of a row's problem."""
        model = problem.objective.model(run.state)
        return {"_curvature": model.S, "_pull": model.M}

    def _ties_to(self, problem: Problem, run: Run) -> dict[str, Any]:
        """What a graph similarity (the second term) needs of the training rows, to tie new ones to them."""
        weight = 2 * problem.objective.weights[1]
        return {"_train_codes": run.codes.copy(), "_train_data": problem.rows.data.copy(), "_similarity": weight}

    def _pulled(self, ties: Any, dtype: Any) -> tuple[Array, ...]:
        """The pull of similarities `ties` (new x training rows) beside X M."""
        return (np.ascontiguousarray((self._similarity * (ties @ self._train_codes)).astype(dtype)),)

    def _stability(self, run: Run) -> Array | None:
        """How well each component came back from the other starts; None where there was one start."""
        runs = [Vt[: self.n_features_in_].T for Vt in (run.state.Vt, *run.others)]
        return stability(runs) if run.others else None

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        rows = problem.rows
        components = run.state.Vt[: self.n_features_in_].T * (rows.scale / problem.code)
        unit = np.full(rows.k, problem.code)
        if self.normalize or self._unit_length:
            length = np.linalg.norm(components, axis=1)
            length[length == 0] = 1.0
            components, unit = components / length[:, None], unit * length
        return {
            "components_": problem.place.components(np.ascontiguousarray(components.astype(rows.dtype))),
            "stability_": self._stability(run),
            "_at_fit": self.get_params(deep=False),
            **self._for_transform(problem, run),
            "_scale": rows.scale,
            "_unit": unit,
        }
