"""Methods that keep neighbours together: GNMF and its neighbourhood-preserving relative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf import _validation, graphs
from dspnmf._validation import MATRIX, Allowed, either, number, one_of, whole
from dspnmf.backends import ArrayRows, Operator
from dspnmf.backends.row_model import Array
from dspnmf.estimators.base import Problem, Run
from dspnmf.estimators.components import ComponentFactorization
from dspnmf.objective.state import State
from dspnmf.objective.terms import Objective, Reconstruction, Smoothness
from dspnmf.solvers import multiplicative as rules

WEIGHTS = one_of("binary", "heat", "cosine")


class GraphFactorization(ComponentFactorization):
    """``||X - UV||^2`` and terms of a graph between rows; new rows are tied to their neighbours in the training set."""

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **ComponentFactorization._allowed,
        "solver": one_of("auto", "newton-cg", "hals", "paper"),
        "n_neighbors": whole(1),
        "graph": either(one_of("knn", "self-tuned"), MATRIX),
    }

    _rules: ClassVar[Mapping[str, rules.Factor]] = {"paper": rules.appendix}
    _unit_length = True

    def _ties_of(self, X: Any) -> tuple[Operator, float]:
        """The operator between rows, and its weight."""
        raise NotImplementedError

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        operator, weight = self._ties_of(X)
        rows = ArrayRows(X, self.n_components, scale, [operator])
        norm2 = rows.norm2()
        published = Objective((Reconstruction(norm2), Smoothness(0)), (1.0, weight))
        return Problem(
            rows,
            Objective((Reconstruction(norm2, smooth={0: weight} if weight > 0 else {}),), (1.0,)),
            scale * scale,
            scale,
            published,
        )

    def _errors(self, values: list[float], problem: Problem, s: State) -> dict[str, float]:
        error2 = problem.objective.reconstructions[0].error2(s)
        return {"reconstruction_err_": float(np.sqrt(max(error2, 0.0))) * problem.rows.scale}

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        """Curvature and pull of the reconstruction, and the training rows new ones are tied to."""
        Vt = run.state.Vt[: self.n_features_in_]
        train = {"_train_codes": run.codes.copy(), "_train_data": problem.rows.data[:, : self.n_features_in_].copy()}
        return {"_curvature": Vt.T @ Vt, "_pull": Vt, **train}

    def _neighbours(self, X: Any) -> tuple[Any, Array]:
        """Weights (sparse, new x training) that pull a new row to its neighbours' codes, and what they add up to."""
        raise NotImplementedError

    def _beside(self, X: Any) -> tuple[Array, ...]:
        _validation.check_ties(self, "graph", self._at_fit["graph"], ("knn",))
        weights, total = self._neighbours(X)
        lengths = np.diag(self._curvature)  # |v_a|^2, as in the fit
        extra = np.ascontiguousarray(((weights @ self._train_codes) * lengths).astype(X.dtype))
        return extra, total.astype(X.dtype), lengths.astype(X.dtype)


class GNMF(GraphFactorization):
    """Graph-regularised NMF: minimises ``||X - UV||^2 + beta tr(U'LU)``, L the Laplacian of a neighbour graph.

    Components have unit length, as the reference asks. Without that the graph term could be had for nothing, by
    shrinking codes and growing components, and the objective would have no minimum but that of plain NMF.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    beta : float, default=100
        Weight of the graph (the paper's lambda).
    n_neighbors : int, default=5
        Neighbours of the graph; an edge where either row is among the other's.
    weights : {"binary", "heat", "cosine"}, default="binary"
        Weights of the edges (see `dspnmf.graphs.knn`).
    normalized : bool, default=False
        L = I - Deg^-1/2 A Deg^-1/2 in place of Deg - A.
    graph : {"knn", "self-tuned"} or matrix of shape (n_samples, n_samples), default="knn"
        "self-tuned": SymNMF's graph; or one of your own, symmetric and non-negative. `transform` needs "knn".
    solver : {"auto", "newton-cg", "hals", "paper"}, default="auto"
        "paper": ``U <- U (XV' + beta A U) / (UVV' + beta Deg U)``, then V; as published it leaves the length of the
        components free until the end, so this objective may rise. "auto" is "newton-cg".
    init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **GraphFactorization._allowed,
        "beta": number(0),
        "weights": WEIGHTS,
        "normalized": _validation.FLAG,
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        beta: float = 100.0,
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
            n_components, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        )
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.normalized = normalized
        self.graph = graph

    def _ties_of(self, X: Any) -> tuple[Operator, float]:
        if not isinstance(self.graph, str):
            A = graphs.check_graph(self.graph, X.shape[0], name="graph")
        elif self.graph == "self-tuned":
            A = graphs.self_tuned(X, self.n_neighbors)
        else:
            A = graphs.knn(X, self.n_neighbors, self.weights)
        degrees, A = graphs.laplacian(A, self.normalized)
        return Operator(A, degrees), float(self.beta)

    def _neighbours(self, X: Any) -> tuple[Any, Array]:
        fit = self._at_fit
        A = graphs.neighbours_in(X, self._train_data, fit["n_neighbors"], fit["weights"])
        total = np.asarray(A.sum(axis=1)).ravel()
        if fit["normalized"]:
            A, total = A / np.maximum(total, 1e-300)[:, None], (total > 0).astype(np.float64)
        return float(fit["beta"]) * A, float(fit["beta"]) * total


class NPNMF(GraphFactorization):
    """Neighbourhood-preserving NMF: minimises ``||X - UV||^2 + mu ||U - RU||^2``, R the LLE weights of the rows.

    Components have unit length, for the reason given in `GNMF`.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
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
    init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **GraphFactorization._allowed,
        "graph": either(one_of("knn"), MATRIX),
        "mu": number(0),
        "reg": number(0, strict=True),
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        mu: float = 1.0,
        n_neighbors: int = 5,
        reg: float = 1e-3,
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
            n_components, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        )
        self.mu = mu
        self.n_neighbors = n_neighbors
        self.reg = reg
        self.graph = graph

    def _ties_of(self, X: Any) -> tuple[Operator, float]:
        known, n = not isinstance(self.graph, str), X.shape[0]
        R = graphs.check_weights(self.graph, n) if known else graphs.lle_weights(X, self.n_neighbors, self.reg)
        rest = sparse.eye_array(n, format="csr") - R
        M = (rest.T @ rest).tocsr()
        diagonal = M.diagonal()
        return Operator(sparse.diags_array(diagonal).tocsr() - M, diagonal), float(self.mu)

    def _neighbours(self, X: Any) -> tuple[Any, Array]:
        fit = self._at_fit
        R = graphs.lle_weights_in(X, self._train_data, fit["n_neighbors"], fit["reg"])
        return float(fit["mu"]) * R, np.full(X.shape[0], float(fit["mu"]))
