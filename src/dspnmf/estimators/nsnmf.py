"""NS-NMF: a spanning-tree similarity and the features at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf import _validation, graphs
from dspnmf._typing import ArrayLike, Matrix, Sparse
from dspnmf._validation import FLAG, MATRIX, either, number, one_of, whole
from dspnmf.backends.protocol import Capability, Data
from dspnmf.backends.row_model import Operator, Ties
from dspnmf.estimators.base import INIT, INNER_ITER, Problem
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.graph_factorization import GRAPH_SOLVER
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.penalties import Penalized
from dspnmf.estimators.structure_weight import ALPHA, structure_weight
from dspnmf.objective.objective import Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GraphSimilarity, Reconstruction, Ridge
from dspnmf.solvers import multiplicative


@dataclass(eq=False, repr=False)
class NSNMF(Penalized):
    """Neighbourhood-structured NMF: a spanning-tree similarity and the features at once.

    Minimises ``alpha ||A - UU'||^2 + reconstruction_weight ||X - UV||^2 + gamma (||U||^2 + ||V||^2)``, A the
    similarity of neighbours in a minimum spanning tree, and penalties.

    Parameters
    ----------
    alpha : float or "auto", default=1.0
        Weight of the structure (1 in the paper); 0 leaves plain NMF with a ridge; "auto": as in `DSPNMF`, here 100
        times ``reconstruction_weight ||X||^2 / ||A||^2``.
    reconstruction_weight : float, default=1.0
        Weight of the reconstruction, > 0 (the paper's alpha).
    gamma : float, default=0.1
        Weight of the ridge on both factors (the paper's gamma).
    graph : "tree" or matrix of shape (n_samples, n_samples), default="tree"
        Similarity A. New rows have no similarities to one of your own, so `transform` needs "tree".
    alpha_W, alpha_H, l1_ratio
        Penalties on codes and components, as in `DSPNMF`: L1 for sparse ones, next to the ridge of `gamma`.
    solver : {"auto", "newton-cg", "hals", "paper"}, default="auto"
        "paper" is the multiplicative rule of this objective; "auto" is "newton-cg".
    n_components, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_, alpha_
        As in `DSPNMF`.

    Notes
    -----
    Reconstructed from the description in the DSP-NMF paper: the weights of the tree's edges, the rule and the defaults
    of the weights are ours. A new row is tied to its nearest training row.

    References
    ----------
    I. Ahmed, X. Hu, M. Acharya, Y. Ding: Neighborhood structure assisted non-negative matrix factorization and its
    application in unsupervised point-wise anomaly detection, JMLR 22, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import NSNMF
    >>> NSNMF(3, random_state=0).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    alpha: float | str = parameter(1.0, ALPHA)
    reconstruction_weight: float = parameter(1.0, number(0, strict=True))
    gamma: float = parameter(0.1, number(0))
    graph: str | Sparse = parameter("tree", either(one_of("tree"), MATRIX))
    solver: str = parameter("auto", GRAPH_SOLVER)
    init: str = parameter("random", INIT)
    n_init: int = parameter(1, whole(1))
    inner_iter: int | str = parameter("auto", INNER_ITER)
    normalize: bool = parameter(False, FLAG)

    _rules: ClassVar[Mapping[str, multiplicative.Factor]] = {"paper": multiplicative.appendix}
    _capability: ClassVar[Capability | None] = "graphs"

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """Reconstruction with a ridge on V, structure, a ridge on U, and penalties."""
        X = data.on_host()
        if isinstance(self.graph, str):
            A = graphs.spanning_tree(X)
            edge_length = mean_edge_length(X, A)
        else:
            A, edge_length = graphs.check_graph(self.graph, data.shape[0], name="graph"), None
        data = self.with_penalized_sums(data, scale)
        rows = data.rows(self.n_components, scale, [Operator(A, np.zeros(data.shape[0]))])
        of_user = float(self.reconstruction_weight)
        own = Reconstruction(data.norm2(scale), data.block(), ridge=float(self.gamma) / of_user)
        penalties = self.solver_penalties(*data.shape, 1.0, scale, scale * scale)
        terms: dict[str, Term] = {
            "reconstruction": penalties.of_components(own, of_user),
            "structure": GraphSimilarity(float(A.power(2).sum())),
            "ridge": Ridge(),
        }
        reconstruction = of_user * scale * scale
        alpha = structure_weight(self.alpha, 1.0, terms, {"reconstruction": reconstruction})
        weights = {"reconstruction": reconstruction, "structure": alpha, "ridge": float(self.gamma)}
        objective, unit = penalties.objective({name: (term, weights[name]) for name, term in terms.items()}, data)
        return Problem(data, rows, objective, unit, 1.0, details={"edge_length": edge_length, "alpha": alpha})

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        reconstruction = problem.objective.terms["reconstruction"]
        assert isinstance(reconstruction, Reconstruction)
        error = float(np.sqrt(max(reconstruction.error2(s), 0.0))) * problem.scale
        return {"reconstruction_err_": error, "structure_err_": float(np.sqrt(max(values["structure"], 0.0)))}

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        weight, edge_length = 2 * problem.objective.weights["structure"], problem.details["edge_length"]
        training = self._training_rows(problem, run, weight=weight, edge_length=edge_length)
        return {**super()._for_transform(problem, run), "training": training}

    def _ties(self, data: Data) -> Ties | None:
        state = self._transform_state
        _validation.check_ties(self, "graph", state.parameters["graph"], ("tree",))
        training = state.training
        nearest = graphs.neighbours_in(data.on_host(), training.data, 1, "heat", training.edge_length)
        return self._pulled(nearest, data.dtype)


def mean_edge_length(X: Matrix, A: Sparse) -> float | None:
    """Mean distance of the rows of X that an edge of the graph A joins; None where all are equal."""
    first, second = sparse.triu(A).nonzero()
    total = 0.0
    for i in range(0, len(first), 1024):
        gap = X[first[i : i + 1024]] - X[second[i : i + 1024]]
        squares = gap.multiply(gap).sum(axis=1) if sparse.issparse(gap) else (gap**2).sum(axis=1)
        total += float(np.sqrt(np.asarray(squares, dtype=np.float64)).sum())
    return total / len(first) if total > 0 else None
