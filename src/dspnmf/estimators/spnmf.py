"""SPNMF: neighbours together, distant rows apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dspnmf import graphs
from dspnmf._typing import ArrayLike
from dspnmf._validation import number, whole
from dspnmf.backends.protocol import Data
from dspnmf.backends.row_model import Operator
from dspnmf.estimators.base import Problem
from dspnmf.estimators.gnmf import GNMF
from dspnmf.estimators.parameters import parameter
from dspnmf.objective.terms import Reconstruction


@dataclass(eq=False, repr=False)
class SPNMF(GNMF):
    """Structure-preserving NMF: GNMF's local term, repulsion of distant pairs, and a penalty on overlapping components.

    Minimises ``||X - UV||^2 + beta tr(U'LU) + repulsion sum_far u_i u_j' + overlap sum_{a != b} (u_a'u_b) (v_a v_b')``:
    near rows get like codes, far rows codes that share no component, and components that the same rows use share no
    features. Components have unit length, for the reason given in `GNMF`.

    Parameters
    ----------
    beta : float, default=100
        Weight of the local term.
    repulsion : float, default=1.0
        Weight of the repulsion.
    overlap : float, default=1.0
        Weight of the penalty on features that components share (weighted by the rows they share).
    n_distant : int, default=5
        Every row is repelled by so many of its farthest rows.
    n_components, n_neighbors, weights, normalized_laplacian, graph, solver, init, n_init, max_iter, tol, inner_iter, \
alpha_W, alpha_H, l1_ratio, random_state, verbose
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

    repulsion: float = parameter(1.0, number(0))
    overlap: float = parameter(1.0, number(0))
    n_distant: int = parameter(5, whole(1))

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """All terms belong to the reconstruction, whose components have unit length."""
        operator, beta = self._operator(data)
        distant = graphs.farthest(data.on_host(), self.n_distant)
        far, repulsion = Operator(-distant, np.zeros(data.shape[0])), float(self.repulsion)
        data = self.with_penalized_sums(data, scale)
        rows = data.rows(self.n_components, scale, [operator, far])
        smooth = {j: weight for j, weight in ((0, beta), (1, repulsion)) if weight > 0}
        penalties = self.solver_penalties(*data.shape, scale, scale)
        own = Reconstruction(data.norm2(scale), data.block(), overlap=float(self.overlap), smooth=smooth)
        objective, largest = penalties.objective({"reconstruction": (penalties.of_components(own), 1.0)}, data)
        return Problem(data, rows, objective, largest * scale * scale, scale, details={"penalties": penalties})
