"""SymNMF: a similarity graph itself is factorized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dspnmf import _validation, graphs
from dspnmf._typing import Array, ArrayLike, Sparse
from dspnmf._validation import MATRIX, Allowed, either, one_of, whole
from dspnmf.backends.protocol import Capability, Data, Rows
from dspnmf.backends.row_model import Operator, RowModel, Ties
from dspnmf.estimators.base import INNER_ITER, Factorization, Problem, Start
from dspnmf.estimators.graph_factorization import GRAPH_SOLVER
from dspnmf.estimators.parameters import parameter
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.objective.terms import GraphSimilarity
from dspnmf.solvers.loop import Update


class AlternatingLeastSquares(Update):
    """The published solver (Kuang et al. 2015): ``||A - WU'||^2 + penalty ||W - U||^2``, W and U in turn, exactly."""

    def __init__(self, A: Sparse, dtype: np.dtype[Any]) -> None:
        self._A = A.astype(dtype)
        self._penalty = float(abs(A).max()) ** 2 if A.nnz else 1.0

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """W for the codes, then codes for W."""
        U = rows.codes.copy()
        for _ in range(2):
            Q = U.T.astype(np.float64) @ U + self._penalty * np.eye(rows.k)
            pull = np.ascontiguousarray(self._A @ U + U.dtype.type(self._penalty) * U)
            U = rows.solve(RowModel(Q, np.zeros((rows.shape[1], rows.k))), Ties(pull))
        rows.begin(U)
        new = State(s.Vt, *rows.sums())
        return objective.value(new), new


@dataclass(eq=False, repr=False)
class SymNMF(Factorization):
    """Symmetric NMF of a similarity graph: minimises ``||A - UU'||^2`` over U >= 0.

    Parameters
    ----------
    n_components : int, default=10
        Rank k, often the number of clusters.
    graph : "self-tuned" or matrix of shape (n_samples, n_samples), default="self-tuned"
        Similarity A: the published Gaussian with local scales (`dspnmf.graphs.self_tuned`), or your own.
    n_neighbors : int or None, default=None
        Neighbours of the self-tuned graph; None: floor(log2 n) + 1.
    solver : {"auto", "newton-cg", "hals", "paper"}, default="auto"
        "auto" is "newton-cg"; "paper": alternating non-negative least squares with penalty max(A)^2.
    n_init, max_iter, tol, inner_iter, random_state, verbose
        As in `DSPNMF`. The start is ``2 sqrt(mean(A) / k)`` times uniform numbers, as published, scaled to A.

    Attributes
    ----------
    objective_, objective_history_, n_iter_, n_components_
        As in `DSPNMF`.
    structure_err_ : float
        ``||A - UU'||`` (Frobenius).

    Notes
    -----
    Graph, start and published solver are confirmed by the references. There are no components, so no `transform`.

    References
    ----------
    D. Kuang, C. Ding, H. Park: Symmetric nonnegative matrix factorization for graph clustering, SDM 2012.

    D. Kuang, S. Yun, H. Park: SymNMF: nonnegative low-rank approximation of a similarity matrix for graph clustering,
    Journal of Global Optimization 62, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import SymNMF
    >>> SymNMF(3, random_state=0).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    graph: str | Sparse = parameter("self-tuned", either(one_of("self-tuned"), MATRIX))
    n_neighbors: int | None = parameter(None, either(Allowed(lambda value: value is None, "None"), whole(1)))
    solver: str = parameter("auto", GRAPH_SOLVER)
    n_init: int = parameter(1, whole(1))
    inner_iter: int | str = parameter("auto", INNER_ITER)

    _capability: ClassVar[Capability | None] = "graphs"

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """One term, of the graph; X itself is not looked at."""
        if isinstance(self.graph, str):
            A = graphs.self_tuned(data.on_host(), self.n_neighbors)
        else:
            A = graphs.check_graph(self.graph, data.shape[0], name="graph")
        rows = data.without_features().rows(self.n_components, 1.0, [Operator(A, np.zeros(data.shape[0]))])
        objective = Objective({"structure": GraphSimilarity(float(A.power(2).sum()))}, {"structure": 1.0})
        return Problem(data, rows, objective, 1.0, 1.0, details={"graph": A})

    def _start(self, problem: Problem, given: Start, rng: np.random.RandomState) -> tuple[Array, Array]:
        rows, k = problem.rows, problem.rows.k
        size = 2 * np.sqrt(float(problem.details["graph"].mean()) / k)
        U = (size * rng.random_sample((rows.shape[0], k))).astype(rows.dtype)
        return rows.restore_codes([U]), np.zeros((1, k))

    def _factor(self, problem: Problem, Vt: Array) -> float | None:
        return None if self.solver == "paper" else super()._factor(problem, Vt)

    def _update(self, problem: Problem) -> Update:
        if self.solver == "paper":
            return AlternatingLeastSquares(problem.details["graph"], problem.rows.dtype)
        return super()._update(problem)

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        return {"structure_err_": float(np.sqrt(values["structure"]))}

    def __getattr__(self, name: str) -> Any:
        """Say why there is no transform to someone who looks for it."""
        if name in ("transform", "inverse_transform"):
            raise AttributeError(_validation.NO_TRANSFORM.format(name=name))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
