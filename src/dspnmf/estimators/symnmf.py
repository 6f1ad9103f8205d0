"""Methods that factorize a graph itself: SymNMF, and NS-NMF, which adds the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf import _validation, graphs
from dspnmf._validation import MATRIX, Allowed, either, number, one_of, whole
from dspnmf.backends import ArrayRows, Operator, RowModel, Rows
from dspnmf.backends.row_model import Array
from dspnmf.estimators.base import Factorization, Problem, Run
from dspnmf.estimators.components import ComponentFactorization
from dspnmf.objective.state import State
from dspnmf.objective.terms import GraphSimilarity, Objective, Reconstruction, Ridge
from dspnmf.solvers import multiplicative as rules
from dspnmf.solvers.loop import Update


def negated(A: Any) -> Operator:
    """The operator -A of a similarity term."""
    return Operator(A, np.zeros(A.shape[0]))


def mean_length(X: Any, A: Any) -> float | None:
    """Mean distance of the rows of X that an edge of the graph A joins; None where all are equal."""
    first, second = sparse.triu(A).nonzero()
    total = 0.0
    for i in range(0, len(first), 1024):
        gap = X[first[i : i + 1024]] - X[second[i : i + 1024]]
        squares = gap.multiply(gap).sum(axis=1) if sparse.issparse(gap) else (gap**2).sum(axis=1)
        total += float(np.sqrt(np.asarray(squares, dtype=np.float64)).sum())
    return total / len(first) if total > 0 else None


class AlternatingLeastSquares:
    """The published solver of SymNMF: ``||A - WU'||^2 + penalty ||W - U||^2``, W and U in turn, each exactly.

    D. Kuang, S. Yun, H. Park: SymNMF: nonnegative low-rank approximation of a similarity matrix for graph clustering,
    Journal of Global Optimization 62, 2015.
    """

    def __init__(self, A: Any, dtype: Any) -> None:
        self._A = A.astype(dtype)
        self._penalty = float(abs(A).max()) ** 2 if A.nnz else 1.0

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """W for the codes, then codes for W."""
        U = rows.codes.copy()
        for _ in range(2):
            Q = U.T.astype(np.float64) @ U + self._penalty * np.eye(rows.k)
            pull = np.ascontiguousarray(self._A @ U + U.dtype.type(self._penalty) * U)
            U = rows.solve(RowModel(Q, np.zeros((rows.shape[1], rows.k))), pull)
        rows.begin(U)
        new = State(s.Vt, *rows.sums())
        return objective.value(new), new


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

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import SymNMF
    >>> SymNMF(3, random_state=0).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **{name: Factorization._allowed[name] for name in ("n_components", "n_init", "max_iter", "tol", "inner_iter")},
        "verbose": Factorization._allowed["verbose"],
        "solver": one_of("auto", "newton-cg", "hals", "paper"),
        "graph": either(one_of("self-tuned"), MATRIX),
        "n_neighbors": either(Allowed(lambda value: value is None, "None"), whole(1)),
    }
    init, normalize = "random", False  # there is one start, and no components to normalise

    def __init__(
        self,
        n_components: int = 10,
        *,
        graph: Any = "self-tuned",
        n_neighbors: int | None = None,
        solver: str = "auto",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        inner_iter: int | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.solver = solver
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.inner_iter = inner_iter
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        known = not isinstance(self.graph, str)
        A = (
            graphs.check_graph(self.graph, X.shape[0], name="graph")
            if known
            else graphs.self_tuned(X, self.n_neighbors)
        )
        nothing = sparse.csr_array((X.shape[0], 1), dtype=X.dtype)
        rows = ArrayRows(nothing, self.n_components, 1.0, [negated(A)])
        self._graph = A
        return Problem(rows, Objective((GraphSimilarity(float(A.power(2).sum())),), (1.0,)), 1.0, 1.0)

    def _start(
        self, X: Any, problem: Problem, given: tuple[Any, Any], rng: np.random.RandomState
    ) -> tuple[Array, Array]:
        rows, k = problem.rows, problem.rows.k
        size = 2 * np.sqrt(float(self._graph.mean()) / k)
        U = (size * rng.random_sample((rows.shape[0], k))).astype(rows.dtype)
        if self.solver != "paper":
            rows.begin(U)
            U *= rows.dtype.type(problem.objective.best_scale(State(np.zeros((1, k)), *rows.sums())))
        return U, np.zeros((1, k))

    def _update(self, problem: Problem) -> Update:
        if self.solver == "paper":
            return AlternatingLeastSquares(self._graph, problem.rows.dtype)
        return super()._update(problem)

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        return {"_unit": np.ones(problem.rows.k)}

    def _errors(self, values: list[float], problem: Problem, s: State) -> dict[str, float]:
        return {"structure_err_": float(np.sqrt(values[0]))}

    def __getattr__(self, name: str) -> Any:
        """Say why there is no transform to someone who looks for it."""
        if name in ("transform", "inverse_transform"):
            raise AttributeError(_validation.NO_TRANSFORM.format(name=name))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class NSNMF(ComponentFactorization):
    """Neighbourhood-structured NMF: a spanning-tree similarity and the features at once.

    Minimises ``structure ||A - UU'||^2 + alpha ||X - UV||^2 + gamma (||U||^2 + ||V||^2)``, A the similarity of
    neighbours in a minimum spanning tree.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    alpha : float, default=1.0
        Weight of the reconstruction (the paper's alpha).
    gamma : float, default=0.1
        Weight of the ridge on both factors (the paper's gamma).
    structure : float, default=1.0
        Weight of the similarity (1 in the paper); 0 leaves plain NMF with a ridge.
    graph : "tree" or matrix of shape (n_samples, n_samples), default="tree"
        Similarity A. New rows have no similarities to one of your own, so `transform` needs "tree".
    solver : {"auto", "newton-cg", "hals", "paper"}, default="auto"
        "paper" is the multiplicative rule of this objective; "auto" is "newton-cg".
    init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    Reconstructed from the description in the DSP-NMF paper: the weights of the tree's edges, the rule and the defaults
    of `alpha` and `gamma` are ours. A new row is tied to its nearest training row.

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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **ComponentFactorization._allowed,
        "solver": one_of("auto", "newton-cg", "hals", "paper"),
        "alpha": number(0, strict=True),
        "gamma": number(0),
        "structure": number(0),
        "graph": either(one_of("tree"), MATRIX),
    }

    _rules: ClassVar[Mapping[str, rules.Factor]] = {"paper": rules.appendix}

    def __init__(
        self,
        n_components: int = 10,
        *,
        alpha: float = 1.0,
        gamma: float = 0.1,
        structure: float = 1.0,
        graph: Any = "tree",
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
            n_components, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        )
        self.alpha = alpha
        self.gamma = gamma
        self.structure = structure
        self.graph = graph

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        known = not isinstance(self.graph, str)
        A = graphs.check_graph(self.graph, X.shape[0], name="graph") if known else graphs.spanning_tree(X)
        self._tree_length = None if known else mean_length(X, A)
        rows = ArrayRows(X, self.n_components, scale, [negated(A)])
        ridge = float(self.gamma) / float(self.alpha)
        terms = (Reconstruction(rows.norm2(), ridge=ridge), GraphSimilarity(float(A.power(2).sum())), Ridge())
        weights = np.array([self.alpha * scale * scale, self.structure, self.gamma], dtype=np.float64)
        objective = Objective(terms, tuple(map(float, weights / weights.max())))
        return Problem(rows, objective, float(weights.max()), 1.0)

    def _errors(self, values: list[float], problem: Problem, s: State) -> dict[str, float]:
        data = problem.objective.reconstructions[0]
        error = float(np.sqrt(max(data.error2(s), 0.0))) * problem.rows.scale
        return {"reconstruction_err_": error, "structure_err_": float(np.sqrt(max(values[1], 0.0)))}

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        return {
            **super()._for_transform(problem, run),
            **self._ties_to(problem, run),
            "_tree_length": self._tree_length,
        }

    def _beside(self, X: Any) -> tuple[Array, ...]:
        _validation.check_ties(self, "graph", self._at_fit["graph"], ("tree",))
        ties = graphs.neighbours_in(X, self._train_data, 1, "heat", self._tree_length)
        return self._pulled(ties, X.dtype)
