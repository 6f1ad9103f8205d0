"""ONMF: codes as near to a partition of the samples as factors get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dspnmf._validation import Allowed, one_of
from dspnmf.backends import ArrayRows, Rows
from dspnmf.estimators.base import Problem
from dspnmf.estimators.components import ComponentFactorization
from dspnmf.objective.state import State
from dspnmf.objective.terms import Objective, Reconstruction
from dspnmf.solvers.loop import Update
from dspnmf.solvers.multiplicative import ratio


class OrthogonalRule:
    """``V <- V (U'X) / (U'U V)``; ``U <- U sqrt((X V') / (U U' X V'))`` (Ding et al. 2006)."""

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration."""
        Vt = s.Vt * ratio(s.P, s.Vt @ s.Q)
        model = objective.model(State(Vt, s.P, s.Q))
        shares = (s.P.T @ Vt).astype(rows.dtype)  # U'X V'
        new = State(Vt, *rows.map(lambda U, c, _: U * np.sqrt(ratio(c, U @ shares)), model))
        return objective.value(new), new


class ONMF(ComponentFactorization):
    """Orthogonal NMF: ``||X - UV||^2`` with ``U'U = I``, by the published rule.

    Parameters
    ----------
    n_components : int, default=10
        Rank k, often the number of clusters.
    solver : {"auto", "paper"}, default="auto"
        Both the rule of the reference, which meets U'U = I in the limit only.
    init, n_init, max_iter, tol, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    The rule is confirmed by the reference. The constraint lets the reconstruction error rise on the way to it, so the
    history need not fall. New rows get plain non-negative least-squares codes.

    References
    ----------
    C. Ding, T. Li, W. Peng, H. Park: Orthogonal nonnegative matrix tri-factorizations for clustering, KDD 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import ONMF
    >>> ONMF(3, random_state=0, tol=1e-3).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {**ComponentFactorization._allowed, "solver": one_of("auto", "paper")}
    inner_iter = "auto"  # the rule has no inner effort to set

    def __init__(
        self,
        n_components: int = 10,
        *,
        solver: str = "auto",
        init: str = "random",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        normalize: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        rows = ArrayRows(X, self.n_components, scale)
        return Problem(rows, Objective((Reconstruction(rows.norm2()),), (1.0,)), scale * scale, 1.0)

    def _update(self, problem: Problem) -> Update:
        return OrthogonalRule()

    def _settle(self, problem: Any, run: Any) -> Any:
        """The rule's codes stand: least-squares codes would not be orthogonal."""
        problem.rows.release()
        return run
