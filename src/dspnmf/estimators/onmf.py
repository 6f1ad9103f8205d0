"""ONMF: codes as near to a partition of the samples as factors get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dspnmf._typing import ArrayLike
from dspnmf._validation import FLAG, whole
from dspnmf.backends.protocol import Capability, Data, Rows
from dspnmf.estimators.base import INIT, Problem
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.parameters import parameter
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction
from dspnmf.solvers.loop import Update
from dspnmf.solvers.multiplicative import mapped, ratio


class OrthogonalRule(Update):
    """``V <- V (U'X) / (U'U V)``; ``U <- U sqrt((X V') / (U U' X V'))`` (Ding et al. 2006)."""

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration."""
        Vt = s.Vt * ratio(s.P, s.Vt @ s.Q)
        model = objective.model(State(Vt, s.P, s.Q))
        shares = (s.P.T @ Vt).astype(rows.dtype)  # U'X V'
        new = State(Vt, *mapped(rows)(lambda U, c, _: U * np.sqrt(ratio(c, U @ shares)), model))
        return objective.value(new), new


@dataclass(eq=False, repr=False)
class ONMF(ComponentFactorization):
    """Orthogonal NMF: ``||X - UV||^2`` with ``U'U = I``, by the published rule.

    Parameters
    ----------
    n_components : int, default=10
        Rank k, often the number of clusters.
    init, n_init, max_iter, tol, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    The rule is confirmed by the reference; it meets U'U = I in the limit only. The constraint lets the reconstruction
    error rise on the way to it, so the history need not fall. New rows get plain non-negative least-squares codes.

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

    init: str = parameter("random", INIT)
    n_init: int = parameter(1, whole(1))
    normalize: bool = parameter(False, FLAG)

    _capability: ClassVar[Capability | None] = "whole matrix"
    _holds_components: ClassVar[bool] = False
    _keeps_codes: ClassVar[bool] = True  # least-squares codes would not be orthogonal

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """One term; the rule sees to the constraint."""
        rows = data.rows(self.n_components, scale)
        terms = {"reconstruction": Reconstruction(data.norm2(scale))}
        return Problem(data, rows, Objective(terms, {"reconstruction": 1.0}), scale * scale, 1.0)

    def _update(self, problem: Problem) -> Update:
        return OrthogonalRule()
