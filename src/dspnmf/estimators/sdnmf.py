"""SDNMF: reconstruction measured by optimal transport between features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf import graphs, sinkhorn
from dspnmf._typing import Array, ArrayLike, Codes, SmallArray, Sparse
from dspnmf._validation import Allowed, check_start, either, number, one_of, whole
from dspnmf.backends.protocol import Capability, Data, Rows
from dspnmf.estimators.base import Problem, Start
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.graph_factorization import KNN_OR_MATRIX
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.transform_state import TransformState
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction
from dspnmf.solvers.loop import Update

_SHAPE = Allowed(
    lambda value: isinstance(value, tuple) and len(value) == 2 and all(whole(1).test(v) for v in value),
    "an image shape (height, width)",
)
_METRIC = Allowed(lambda value: isinstance(value, np.ndarray), "a matrix (n_features, n_features)")


@dataclass
class TransportRule(Update):
    """The published rule (`warm=False`), or the one that continues the transport; `fixed` leaves components alone."""

    X: Array
    kernel: sinkhorn.Kernel
    graph: Sparse | None
    gamma: float
    beta: float
    steps: int
    warm: bool
    fixed: bool = False
    resumable = False

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """Transport at the start."""
        U, V = rows.codes, np.ascontiguousarray(Vt.T)
        self.start(U, V)
        return self._reached(rows, U, V)

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration."""
        U, V = self.step(rows.codes, np.ascontiguousarray(s.Vt.T))
        return self._reached(rows, U, V)

    def start(self, U: Array, V: Array) -> None:
        """Transport at these factors."""
        self._plan = sinkhorn.transport(self.X, U @ V, self.kernel, self.gamma, self.steps)

    def step(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Codes, components, transport."""
        pull = sinkhorn.pull(self._plan.mass, U @ V)
        U = sinkhorn.update_codes(U, V, pull, self.graph, self.beta, guaranteed=self.warm)
        if self.warm and not self.fixed:
            bend = 0.0 if self.graph is None else self.beta * np.maximum(sinkhorn.smoothness(U, self.graph), 0.0)
            V = sinkhorn.update_components(U, V, sinkhorn.pull(self._plan.mass, U @ V), bend)
            U, V = sinkhorn.normalize(U, V)
        elif not self.fixed:
            V = sinkhorn.update_components(U, V, pull)
        last = self._plan.log_u if self.warm else None
        self._plan = sinkhorn.transport(self.X, U @ V, self.kernel, self.gamma, self.steps, last)
        return U, V

    def _reached(self, rows: Rows, U: Array, V: Array) -> tuple[float, State]:
        value = sinkhorn.objective(self._plan, self.X, U @ V, self.gamma)
        if self.graph is not None:
            smoothness = sinkhorn.smoothness(sinkhorn.normalize(U, V)[0], self.graph)
            value += self.gamma * self.beta / 2 * float(smoothness.sum())
        rows.begin(U)
        return value, State(np.ascontiguousarray(V.T), *rows.sums())


@dataclass(eq=False, repr=False)
class SDNMF(ComponentFactorization):
    """NMF with Sinkhorn distance: entropic transport between X and UV, plus a graph term.

    Minimises the objective derived in `dspnmf.sinkhorn`: every sample is compared with its reconstruction by what it
    costs to move one onto the other across the features.

    Parameters
    ----------
    beta : float, default=10
        Weight of the graph, as in the published rule.
    lam : float, default=100
        Inverse strength of the entropy (lambda).
    gamma : float, default=10
        Weight of the marginals.
    metric : {"discrete", "line"}, (height, width) or matrix, default="discrete"
        Ground metric between features: all alike, ``|i - j|`` for bands of a spectrum, ``|dx| + |dy|`` for images of
        that shape (row by row), or a matrix of your own.
    sinkhorn_steps : int, default=15
        Steps of the transport per iteration.
    n_neighbors : int, default=5
        Neighbours of the graph.
    graph : "knn" or matrix of shape (n_samples, n_samples), default="knn"
        A graph of your own: symmetric, non-negative.
    solver : {"auto", "paper"}, default="auto"
        "paper": as published (restarted transport, codes and components from the same ratio; the objective may rise).
        "auto": the transport continues where it was, components see the new codes, and codes take a step that bounds
        the graph term: no rise was seen, but none is excluded while the transport has not converged.
    max_iter : int, default=100
        Iterations.
    n_components, tol, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    What is confirmed and what was derived is said in `dspnmf.sinkhorn`. Dense X, float64 arithmetic. Components sum to
    1. Codes of new rows: the same rule with the components held fixed, without graph.

    References
    ----------
    W. Qian, B. Hong, D. Cai, X. He, X. Li: Non-negative matrix factorization with Sinkhorn distance, IJCAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import SDNMF
    >>> SDNMF(3, random_state=0, max_iter=5, tol=0).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    beta: float = parameter(10.0, number(0))
    lam: float = parameter(100.0, number(0, strict=True))
    gamma: float = parameter(10.0, number(0, strict=True))
    metric: str | tuple[int, int] | Array = parameter("discrete", either(one_of("discrete", "line"), _SHAPE, _METRIC))
    sinkhorn_steps: int = parameter(15, whole(1))
    n_neighbors: int = parameter(5, whole(1))
    graph: str | Sparse = parameter("knn", KNN_OR_MATRIX)
    solver: str = parameter("auto", one_of("auto", "paper"))
    max_iter: int = parameter(100, whole(1))

    _capability: ClassVar[Capability | None] = "whole matrix"
    _holds_components: ClassVar[bool] = False
    _keeps_codes: ClassVar[bool] = True

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """The rule knows its objective; what is said here is the error that is reported."""
        X = _dense(data)
        graph = None
        if self.beta > 0:
            own = not isinstance(self.graph, str)
            graph = graphs.check_graph(self.graph, len(X), name="graph") if own else graphs.knn(X, self.n_neighbors)
        double = data.as_float64()
        objective = Objective({"reconstruction": Reconstruction(double.norm2(data.unit))}, {"reconstruction": 1.0})
        rows, unit = double.rows(self.n_components, data.unit), data.unit
        return Problem(data, rows, objective, unit, unit, details={"rule": self._rule(data, graph)})

    def _rule(self, data: Data, graph: Sparse | None, *, fixed: bool = False) -> TransportRule:
        kernel = sinkhorn.Kernel(self._ground(data.shape[1]), float(self.lam), data.unit)
        beta, warm = self.beta * data.unit, self.solver == "auto"
        return TransportRule(_dense(data), kernel, graph, self.gamma, beta, self.sinkhorn_steps, warm, fixed)

    def _checked_start(self, given: Start, data: Data) -> Start:
        """W and H, if they are given, are the start."""
        if given[0] is None and given[1] is None:
            return None, None
        return check_start(*given, data.shape, self.n_components, 1.0)

    def _start(self, problem: Problem, given: Start, rng: np.random.RandomState) -> tuple[Codes, Array]:
        (n, m), k, (W, H) = problem.data.shape, self.n_components, given
        if W is None:
            W, H = rng.random_sample((n, k)), rng.random_sample((k, m))
        elif problem.code != 1:
            W = W / problem.code
        U, V = sinkhorn.normalize(np.array(W, np.float64), np.array(H, np.float64))
        return U, V.T

    def _factor(self, problem: Problem, Vt: Array) -> float | None:
        return None

    def _update(self, problem: Problem) -> Update:
        rule: Update = problem.details["rule"]
        return rule

    def _components(self, problem: Problem, s: State) -> tuple[Array, Array]:
        """Components that sum to 1."""
        total, V = sinkhorn.normalize(np.ones((1, problem.rows.k)), np.ascontiguousarray(s.Vt.T))
        return V.astype(problem.data.dtype), total[0] * problem.code

    def _fitted(self, problem: Problem, run: Run) -> dict[str, Any]:
        return {
            "n_components_": problem.rows.k,
            "n_iter_": len(run.history) - 1,
            "objective_": problem.for_user(run.history[-1]),
            "objective_history_": np.array([problem.for_user(h) for h in run.history]),
            "reconstruction_err_": float(np.sqrt(problem.rows.residual2(run.state.Vt) or 0.0)) * problem.scale,
            **self._learned(problem, run),
        }

    def _finished(self, problem: Problem, run: Run) -> tuple[dict[str, Any], Rows, Codes]:
        attributes, rows, codes = super()._finished(problem, run)
        return attributes, rows, codes.astype(problem.data.dtype)

    def _codes(self, data: Data, state: TransformState | None = None) -> tuple[Rows, Codes]:
        """`max_iter` iterations of the rule with the components held fixed, every row on its own."""
        data = data.of_ordinary_size(self._transform_state.scale)
        V, X = self.components_.astype(np.float64), _dense(data)
        rule = self._rule(data, None, fixed=True)
        U = np.repeat((X.sum(axis=1, dtype=np.float64)[:, None] + 1e-12) / len(V), len(V), axis=1)
        rule.start(U, V)
        for _ in range(self.max_iter):
            U, _ = rule.step(U, V)
        return data.rows(len(V), data.unit), (U * data.unit).astype(data.dtype)

    def _ground(self, m: int) -> sinkhorn.Metric:
        """The ground metric between m features."""
        if isinstance(self.metric, tuple):
            height, width = self.metric
            if height * width != m:
                raise ValueError(f"metric={self.metric} has {height * width} pixels, but X has {m} features.")
            return sinkhorn.grid_metric(height, width)
        if isinstance(self.metric, str):
            return sinkhorn.line_metric(m) if self.metric == "line" else sinkhorn.discrete_metric(m)
        return sinkhorn.check_metric(self.metric, m)

    def __sklearn_tags__(self) -> Any:
        """Dense input only."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _dense(data: Data) -> Array:
    """X, which must be dense."""
    X = data.on_host()
    if sparse.issparse(X):
        raise TypeError("A sparse matrix was passed, but SDNMF moves mass between all features: pass X.toarray().")
    return X
