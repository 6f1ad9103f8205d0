"""FR-NMF: the similarities between features in place of those between samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike, Codes, SmallArray
from dspnmf._validation import FLAG, number, whole
from dspnmf.backends.chunk_facts import ORDINARY
from dspnmf.backends.protocol import Capability, Data, Rows
from dspnmf.estimators.base import INIT, INNER_ITER, SOLVER, Problem, Start
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.structure_weight import ALPHA, structure_weight
from dspnmf.estimators.transform_state import TransformState
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, Reconstruction
from dspnmf.solvers.loop import Update
from dspnmf.solvers.multiplicative import ratio


class AuthorsRule(Update):
    """The loop of the authors' code, in float64; rows are features here, their codes V', and ``Vt`` of the state is U.

    An exponent-1 rule on V with half weight on the cubic term, components of sum 1 after each iteration, and a
    Kullback-Leibler rule for U.
    """

    resumable = False

    def __init__(self, X: Array, alpha: float, lam: float) -> None:  # of X in the solver's unit
        self._X, self._alpha, self._lam = X, alpha, lam

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """The factors as they are given."""
        self._U, self._V = Vt * np.sqrt(self._lam), rows.codes.T.astype(np.float64) / np.sqrt(self._lam)
        return self._reached(rows, objective)

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration."""
        X, U, V = self._X, self._U, self._V
        gain = U.T @ X + 2 * self._alpha * self._lam * (V @ X.T) @ X
        V *= ratio(gain, (U.T @ U) @ V + self._alpha * self._lam * self._lam * (V @ V.T) @ V)
        V /= np.maximum(V.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        U *= ratio(ratio(X, U @ V) @ V.T, np.broadcast_to(V.sum(axis=1), U.shape))
        return self._reached(rows, objective)

    def _reached(self, rows: Rows, objective: Objective) -> tuple[float, State]:
        """Objective and state in the solver's units, where lam is 1."""
        root = np.sqrt(self._lam)
        rows.begin(np.array(root * self._V.T, dtype=rows.dtype, order="C"))
        s = State(self._U / root, root * (self._X @ self._V.T), self._lam * (self._V @ self._V.T))
        return float(objective.value(s)), s


@dataclass(eq=False, repr=False)
class FRNMF(ComponentFactorization):
    """Feature-relationship preserving NMF: ``||X - UV||^2 + alpha ||X'X - lam V'V||^2``.

    DSP-NMF of X' with the roles of U and V exchanged: what `DSPNMF` does for samples, done for features.

    Parameters
    ----------
    alpha : float or "auto", default=1.0
        Weight of the feature similarities; "auto" as in `DSPNMF`.
    lam : float, default=1.0
        A unit, as in `DSPNMF`.
    solver : {"auto", "newton-cg", "hals", "mm", "paper", "paper-appendix"}, default="auto"
        "paper": as the authors' code runs: exponent-1 rule on V with half weight on the cubic term, L1-normalised
        components in each iteration, and a Kullback-Leibler rule for the codes. Dense X only.
    n_components, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_, alpha_
        As in `DSPNMF`.

    Notes
    -----
    The structure term binds V alone, so codes (also those of new rows) are plain non-negative least squares.

    References
    ----------
    R. Hedjam, A. Abdesselam, F. Melgani: NMF with feature relationship preservation penalty term for clustering
    problems, Pattern Recognition 112, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import FRNMF
    >>> FRNMF(3, random_state=0).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    alpha: float | str = parameter(1.0, ALPHA)
    lam: float = parameter(1.0, number(0, strict=True))
    solver: str = parameter("auto", SOLVER)
    init: str = parameter("random", INIT)
    n_init: int = parameter(1, whole(1))
    inner_iter: int | str = parameter("auto", INNER_ITER)
    normalize: bool = parameter(False, FLAG)

    _capability: ClassVar[Capability | None] = "whole matrix"
    _holds_components: ClassVar[bool] = False

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """DSP-NMF of X', features in place of samples."""
        turned = data.transposed()
        terms: dict[str, Term] = {
            "reconstruction": Reconstruction(turned.norm2(scale)),
            "structure": GramSimilarity(turned.gram_norm2(scale)),
        }
        structure = structure_weight(self.alpha, scale * scale, terms, {"reconstruction": 1.0})
        weights = [1.0, structure]
        _validation.check_weights_finite(self, "alpha", np.array(weights))
        scaled = {name: float(weight / max(weights)) for name, weight in zip(terms, weights, strict=True)}
        rows, unit = turned.rows(self.n_components, scale), float(max(weights)) * scale * scale
        code = scale / float(np.sqrt(self.lam))
        alpha = structure / (scale * scale) if self.alpha == "auto" else float(self.alpha)
        details = {"samples": data, "alpha": alpha}
        return Problem(turned, rows, Objective(terms, scaled), unit, code, details=details)

    def _checked_start(self, given: Start, data: Data) -> Start:
        W, H = super()._checked_start(given, data)
        return (None, None) if W is None else (H.T, W.T)

    def _start(self, problem: Problem, given: Start, rng: np.random.RandomState) -> tuple[Codes, Array]:
        if self.solver != "paper":
            return super()._start(problem, given, rng)
        (m, n), k, root = problem.data.shape, self.n_components, float(np.sqrt(self._rule_lam(problem)))
        if given[0] is None:
            U, V = rng.random_sample((n, k)) / np.sqrt(self.lam), rng.random_sample((k, m)) * root
        else:
            U, V = given[1].T * (problem.code / problem.scale), given[0].T / problem.code
        return np.array(V.T, dtype=problem.rows.dtype, order="C"), np.array(U, np.float64)

    def _factor(self, problem: Problem, Vt: Array) -> float | None:
        return None if self.solver == "paper" else super()._factor(problem, Vt)

    def _rule_lam(self, problem: Problem) -> float:
        """The lam of X in the solver's unit; where X is of extreme size, components sum to 1 in another unit."""
        return float(np.clip(self.lam / problem.scale / problem.scale, 1 / ORDINARY, ORDINARY))

    def _update(self, problem: Problem) -> Update:
        if self.solver != "paper":
            return super()._update(problem)
        X = problem.details["samples"].on_host()
        if sparse.issparse(X):
            raise ValueError(_validation.DENSE_ONLY)
        alpha = problem.details["alpha"] * problem.scale * problem.scale
        return AuthorsRule(X.astype(np.float64) / problem.rows.scale, alpha, self._rule_lam(problem))

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        """Components are the codes of the features; samples pose plain least-squares problems to them."""
        Vt = np.concatenate(list(problem.rows.save_codes(run.codes))).astype(np.float64)
        size = np.full(len(Vt.T), problem.code)  # the user's components over the solver's
        if self.normalize:
            length = np.linalg.norm(Vt, axis=0)
            size = 1 / np.where(length > 0, length, 1.0)
        components, unit = (Vt * size).T.astype(problem.rows.dtype), problem.scale / size
        state = TransformState(self.get_params(deep=False), problem.scale, unit, Vt.T @ Vt, Vt)
        alpha = problem.details["alpha"]
        return {"components_": np.ascontiguousarray(components), "alpha_": alpha, "_transform_state": state}

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        return {"structure_err_": float(np.sqrt(max(values["structure"], 0.0))) * problem.scale * problem.scale}

    def _finished(self, problem: Problem, run: Run) -> tuple[dict[str, Any], Rows, Codes]:
        """Codes of the samples are those `transform` gives."""
        attributes = self._fitted(problem, run)
        state: TransformState = attributes["_transform_state"]
        rows, codes = self._codes(problem.details["samples"], state)
        rows.begin(codes)
        error2, history = rows.residual2(state.pull / state.unit) or 0.0, attributes["objective_history_"]
        root = attributes["structure_err_"] / problem.scale / problem.scale
        weights = problem.objective.weights
        reached = problem.for_user(weights["reconstruction"] * error2 + weights["structure"] * root * root)
        history[-1] = min(history[-1], reached)  # least-squares codes: no worse than those the components were made for
        own = {"reconstruction_err_": float(np.sqrt(error2)) * problem.scale, "objective_": float(history[-1])}
        return attributes | own, rows, codes
