"""SPNMF: neighbours together, distant rows apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dspnmf import graphs
from dspnmf._validation import Allowed, number, whole
from dspnmf.backends import ArrayRows, Operator
from dspnmf.estimators.base import Problem
from dspnmf.estimators.gnmf import GNMF
from dspnmf.objective.terms import Objective, Reconstruction


class SPNMF(GNMF):
    """Structure-preserving NMF: GNMF's local term, repulsion of distant pairs, and a penalty on overlapping components.

    Minimises ``||X - UV||^2 + beta tr(U'LU) + repulsion sum_far u_i u_j' + overlap sum_{a != b} (u_a'u_b) (v_a v_b')``:
    near rows get like codes, far rows codes that share no component, and components that the same rows use share no
    features. Components have unit length, for the reason given in `GNMF`.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    beta : float, default=100
        Weight of the local term.
    repulsion : float, default=1.0
        Weight of the repulsion.
    overlap : float, default=1.0
        Weight of the penalty on features that components share (weighed by the rows they share).
    n_distant : int, default=5
        Every row is repelled by so many of its farthest rows.
    n_neighbors, weights, normalized, graph, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, \
verbose
        As in `GNMF`; "paper" is the multiplicative rule of this objective.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    Reconstructed from the description in the DSP-NMF paper; the original was not at hand. Defaults are ours.

    References
    ----------
    Z. Li, J. Liu, H. Lu: Structure preserving non-negative matrix factorization for dimensionality reduction, Computer
    Vision and Image Understanding 117(9), 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import SPNMF
    >>> SPNMF(3, random_state=0, tol=1e-3).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **GNMF._allowed,
        "repulsion": number(0),
        "overlap": number(0),
        "n_distant": whole(1),
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        beta: float = 100.0,
        repulsion: float = 1.0,
        overlap: float = 1.0,
        n_distant: int = 5,
        n_neighbors: int = 5,
        weights: str = "binary",
        normalized: bool = False,
        graph: Any = "knn",
        solver: str = "auto",
        init: str = "random",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        inner_iter: int | str = "auto",
        normalize: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components, beta=beta, n_neighbors=n_neighbors, weights=weights, normalized=normalized, graph=graph,
            solver=solver, init=init, n_init=n_init, max_iter=max_iter, tol=tol, inner_iter=inner_iter,
            normalize=normalize, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.repulsion = repulsion
        self.overlap = overlap
        self.n_distant = n_distant

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        operator, beta = self._ties_of(X)
        far, repulsion = Operator(-graphs.farthest(X, self.n_distant), np.zeros(X.shape[0])), float(self.repulsion)
        rows = ArrayRows(X, self.n_components, scale, [operator, far])
        smooth = {j: weight for j, weight in ((0, beta), (1, repulsion)) if weight > 0}
        data = Reconstruction(rows.norm2(), overlap=float(self.overlap), smooth=smooth)
        return Problem(rows, Objective((data,), (1.0,)), scale * scale, scale)
