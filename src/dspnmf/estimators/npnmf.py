"""NPNMF: codes are rebuilt by the same neighbours as the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dspnmf import graphs
from dspnmf._typing import Array, Sparse
from dspnmf._validation import number
from dspnmf.backends.protocol import Data
from dspnmf.backends.row_model import Operator
from dspnmf.estimators.graph_factorization import GraphFactorization
from dspnmf.estimators.parameters import parameter


@dataclass(eq=False, repr=False)
class NPNMF(GraphFactorization):
    """Neighbourhood-preserving NMF: minimises ``||X - UV||^2 + mu ||U - RU||^2``, R the LLE weights of the rows.

    Components have unit length, for the reason given in `GNMF`.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the neighbourhood term.
    n_neighbors : int, default=5
        Neighbours a row is rebuilt from.
    reg : float, default=1e-3
        Regularisation of the LLE weights, as in scikit-learn.
    graph : "knn" or matrix of shape (n_samples, n_samples), default="knn"
        Weights R of your own (rows of any sign). New rows have no ties in it, so `transform` needs "knn".
    solver : {"auto", "newton-cg", "hals", "paper"}, default="auto"
        "paper": multiplicative, M = (I - R)'(I - R) split by sign. "auto" is "newton-cg".
    alpha_W, alpha_H, l1_ratio
        Penalties on codes and components, as in `GNMF`.
    n_components, init, n_init, max_iter, tol, inner_iter, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    Reconstructed from the description in the DSP-NMF paper; the original was not at hand. `mu` is our default.

    References
    ----------
    Q. Gu, J. Zhou: Neighborhood preserving nonnegative matrix factorization, BMVC 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import NPNMF
    >>> NPNMF(3, random_state=0, tol=1e-3).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    mu: float = parameter(1.0, number(0))
    reg: float = parameter(1e-3, number(0, strict=True))

    def _operator(self, data: Data) -> tuple[Operator, float]:
        n = data.shape[0]
        if isinstance(self.graph, str):
            R = graphs.lle_weights(data.on_host(), self.n_neighbors, self.reg)
        else:
            R = graphs.check_weights(self.graph, n)
        rest = sparse.eye_array(n, format="csr") - R
        M = (rest.T @ rest).tocsr()
        diagonal = M.diagonal()
        return Operator(sparse.diags_array(diagonal).tocsr() - M, diagonal), float(self.mu)

    def _neighbours(self, data: Data) -> tuple[Sparse, Array]:
        state = self._transform_state
        fit = state.parameters
        R = graphs.lle_weights_in(data.on_host(), state.training.data, fit["n_neighbors"], fit["reg"])
        return float(fit["mu"]) * R, np.full(data.shape[0], float(fit["mu"]))
