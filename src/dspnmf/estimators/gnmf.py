"""GNMF: codes vary little along a neighbour graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dspnmf import graphs
from dspnmf._typing import Array, Sparse
from dspnmf._validation import FLAG, MATRIX, either, number, one_of
from dspnmf.backends.protocol import Data
from dspnmf.backends.row_model import Operator
from dspnmf.estimators.graph_factorization import EDGE_WEIGHTS, GraphFactorization
from dspnmf.estimators.parameters import parameter


@dataclass(eq=False, repr=False)
class GNMF(GraphFactorization):
    """Graph-regularised NMF: minimises ``||X - UV||^2 + beta tr(U'LU)``, L the Laplacian of a neighbour graph.

    Components have unit length, as the reference asks. Otherwise the graph term could be made as small as one likes
    at no cost, by shrinking codes and enlarging components, and the objective would have no minimum but that of plain
    NMF. With penalties, which know how large both are, codes and components stay as they were found, and L counts with
    codes as they are at unit length.

    Parameters
    ----------
    beta : float, default=100
        Weight of the graph (the paper's lambda).
    n_neighbors : int, default=5
        Neighbours of the graph; an edge where either row is among the other's.
    weights : {"binary", "heat", "cosine"}, default="binary"
        Weights of the edges (see `dspnmf.graphs.knn`).
    normalized_laplacian : bool, default=False
        L = I - Deg^-1/2 A Deg^-1/2 in place of Deg - A.
    graph : {"knn", "self-tuned"} or matrix of shape (n_samples, n_samples), default="knn"
        "self-tuned": SymNMF's graph; or one of your own, symmetric and non-negative. `transform` needs "knn".
    solver : {"auto", "newton-cg", "hals", "paper"}, default="auto"
        "paper": ``U <- U (XV' + beta A U) / (UVV' + beta Deg U)``, then V; as published it leaves the length of the
        components free until the end, so this objective may rise. "auto" is "newton-cg".
    alpha_W, alpha_H, l1_ratio
        Penalties on codes and components, as in `DSPNMF`; with ``beta=0`` this is `NMF` with them.
    n_components, init, n_init, max_iter, tol, inner_iter, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    Objective, graph and rule are those of the reference; its defaults are kept.

    References
    ----------
    D. Cai, X. He, J. Han, T. Huang: Graph regularized nonnegative matrix factorization for data representation, IEEE
    TPAMI 33(8), 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import GNMF
    >>> GNMF(3, random_state=0, tol=1e-3).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    beta: float = parameter(100.0, number(0))
    weights: str = parameter("binary", EDGE_WEIGHTS)
    normalized_laplacian: bool = parameter(False, FLAG)
    graph: str | Sparse = parameter("knn", either(one_of("knn", "self-tuned"), MATRIX))

    def _operator(self, data: Data) -> tuple[Operator, float]:
        if not isinstance(self.graph, str):
            A = graphs.check_graph(self.graph, data.shape[0], name="graph")
        elif self.graph == "self-tuned":
            A = graphs.self_tuned(data.on_host(), self.n_neighbors)
        else:
            A = graphs.knn(data.on_host(), self.n_neighbors, self.weights)
        degrees, A = graphs.laplacian(A, self.normalized_laplacian)
        return Operator(A, degrees), float(self.beta)

    def _neighbours(self, data: Data) -> tuple[Sparse, Array]:
        state = self._transform_state
        fit = state.parameters
        A = graphs.neighbours_in(data.on_host(), state.training.data, fit["n_neighbors"], fit["weights"])
        total = np.asarray(A.sum(axis=1)).ravel()
        if fit["normalized_laplacian"]:
            A, total = A / np.maximum(total, 1e-300)[:, None], (total > 0).astype(np.float64)
        return float(fit["beta"]) * A, float(fit["beta"]) * total
