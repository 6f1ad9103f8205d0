"""Plain NMF: DSP-NMF without its structure term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike, Codes
from dspnmf._validation import FLAG
from dspnmf.backends import backend_for
from dspnmf.backends.chunk_facts import unit_near
from dspnmf.backends.protocol import Data
from dspnmf.estimators.base import Problem, Start
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.partial_fit import BatchLearner
from dspnmf.estimators.transform_state import TransformState
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction


@dataclass(eq=False, repr=False)
class NMF(BatchLearner):
    """Plain non-negative matrix factorization: minimises ``||X - U V||^2``, or a divergence, and penalties.

    DSP-NMF with alpha = 0, and a drop-in for scikit-learn's ``NMF`` where the parameters overlap: the
    same meaning of `n_components`, `init`, `max_iter`, `random_state`, of the penalties `alpha_W`, `alpha_H` and
    `l1_ratio`, and of W and H. The page "Coming from scikit-learn" has a table of every parameter.

    Parameters
    ----------
    n_components : int, "auto" or None, default=10
        Rank k. "auto": that of W and H where ``init="custom"``, otherwise, as with None, the number of features.
    solver : {"auto", "hals", "newton-cg", "mm", "paper", "paper-appendix", "cd", "mu"}, default="auto"
        "auto" is "hals", and so are scikit-learn's words "cd" and "mu". Without a structure term "mm" and the paper's
        rules are the rule of Lee & Seung (2001).
    beta_loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float, default="frobenius"
        How errors are measured, as in scikit-learn (`DSPNMF` says more).
    alpha_W, alpha_H, l1_ratio
        As in `DSPNMF`, and in scikit-learn.
    shuffle : bool, default=False
        Draw the order in which sweeps visit components at random. A random start has no order that this could change.
    init, missing, n_init, max_iter, tol, inner_iter, normalize, forget_factor, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, stability_, n_components_
        As in `DSPNMF`.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import NMF
    >>> X = np.array([[1.0, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> model = NMF(n_components=2, random_state=0, tol=1e-6)
    >>> Z = model.fit_transform(X)
    >>> bool(np.abs(X - model.inverse_transform(Z)).max() < 0.05)
    True
    """

    shuffle: bool = parameter(False, FLAG)

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """One term, and penalties."""
        if self._divergent:
            return self.divergence_problem(data, scale)
        data = self.with_penalized_sums(data, scale)
        penalties = self.solver_penalties(*data.shape, scale, scale)
        reconstruction = penalties.of_components(Reconstruction(data.norm2(scale), data.block()))
        objective, largest = penalties.objective({"reconstruction": (reconstruction, 1.0)}, data)
        return Problem(data, data.rows(self.n_components_, scale), objective, largest * scale * scale, scale)

    def _checked_start(self, given: Start, data: Data) -> Start:
        for name, factor in zip("WH", given, strict=True):
            _validation.check_precision(name, factor, data.dtype)
        return super()._checked_start(given, data)

    def _start(self, problem: Problem, given: Start, rng: np.random.RandomState) -> tuple[Codes, Array]:
        U, Vt = super()._start(problem, given, rng)
        if not self.shuffle or self._init(problem.data) == "random":
            return U, Vt
        order = rng.permutation(problem.rows.k)
        return np.ascontiguousarray(U[:, order]), np.ascontiguousarray(Vt[:, order])

    def codes_for_components(self, X: ArrayLike, H: Array) -> Array:
        """Codes of X for components that are given (n_components x n_features), as `transform` would find them."""
        _validation.check_parameters(self)
        backend = backend_for(X)
        _validation.check_backend(self, backend, self._needs())
        data = backend.check(self, X, reset=True)
        _validation.check_factor("H", H, (None, data.shape[1]), 0.0)
        _validation.check_precision("H", H, data.dtype)
        self.n_components_ = len(H)
        scale = unit_near(data.largest, data.dtype)
        problem = self.problem(data.of_ordinary_size(scale), None, scale)
        Vt = np.zeros((problem.rows.shape[1], len(H)))
        Vt[: data.shape[1]] = np.asarray(H, np.float64).T * (problem.code / problem.scale)
        run = Run(None, State(Vt, 0 * Vt, np.zeros((len(H), len(H)))), [], True)
        unit = np.full(len(H), problem.code)
        rest = {"parameters": self.get_params(deep=False), "scale": problem.scale, "unit": unit}
        self._transform_state = TransformState(**{**rest, **self._for_transform(problem, run)})
        _, codes = self._codes(data)
        return backend.codes(codes)
