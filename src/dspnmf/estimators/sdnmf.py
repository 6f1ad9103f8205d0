"""SDNMF: reconstruction measured by optimal transport between features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.callback import with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dspnmf import _validation, graphs, sinkhorn
from dspnmf._validation import MATRIX, Allowed, either, number, one_of, whole
from dspnmf.backends.dispatch import place_of
from dspnmf.backends.row_model import Array
from dspnmf.estimators.checkpoint import refuse
from dspnmf.estimators.components import ComponentFactorization
from dspnmf.solvers.loop import Stopping

_SHAPE = Allowed(
    lambda value: isinstance(value, tuple) and len(value) == 2 and all(whole(1).test(v) for v in value),
    "an image shape (height, width)",
)
_METRIC = Allowed(lambda value: isinstance(value, np.ndarray), "a matrix (n_features, n_features)")


class _Factors(NamedTuple):
    """Where the loop is."""

    U: Array
    V: Array
    value: float


class SDNMF(ComponentFactorization):
    """NMF with Sinkhorn distance: entropic transport between X and UV, plus a graph term.

    Minimises the objective derived in `dspnmf.sinkhorn`: every sample is compared with its reconstruction by what it
    costs to move one onto the other across the features.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
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
    tol, random_state, verbose
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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **{name: ComponentFactorization._allowed[name] for name in ("n_components", "max_iter", "tol", "verbose")},
        "beta": number(0),
        "lam": number(0, strict=True),
        "gamma": number(0, strict=True),
        "metric": either(one_of("discrete", "line"), _SHAPE, _METRIC),
        "sinkhorn_steps": whole(1),
        "n_neighbors": whole(1),
        "graph": either(one_of("knn"), MATRIX),
        "solver": one_of("auto", "paper"),
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        beta: float = 10.0,
        lam: float = 100.0,
        gamma: float = 10.0,
        metric: Any = "discrete",
        sinkhorn_steps: int = 15,
        n_neighbors: int = 5,
        graph: Any = "knn",
        solver: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.lam = lam
        self.gamma = gamma
        self.metric = metric
        self.sinkhorn_steps = sinkhorn_steps
        self.n_neighbors = n_neighbors
        self.graph = graph
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        W: Any = None,
        H: Any = None,
        *,
        checkpoint: Any = None,
        checkpoint_every: float = 60.0,
        codes: Any = None,
    ) -> Array:
        """Learn the components of X (dense) and return its codes; W and H, if given, are the start."""
        refuse(self, "it has a loop of its own, which writes no files", checkpoint=checkpoint, codes=codes)
        X, kernel = self._checked(X, reset=True)
        A = self._ties(X)
        rng, k = check_random_state(self.random_state), self.n_components
        if W is None and H is None:
            W, H = rng.random_sample((len(X), k)), rng.random_sample((k, X.shape[1]))
        W, H = _validation.check_start(W, H, X.shape, k, 1.0)
        U, V = sinkhorn.normalize(np.array(W, np.float64), np.array(H, np.float64))
        root = self._init_callback_context(max_subtasks=self.max_iter)
        root.call_on_fit_task_begin(estimator=self, X=X)
        steps = self._iterate(X, U, V, kernel, A, fixed=False)
        factors, done, converged = next(steps), Stopping(self.tol), False
        history = [factors.value]
        for iteration in range(1, self.max_iter + 1):
            task = root.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, X=X)
            factors = next(steps)
            history.append(factors.value)
            self._say(iteration, factors.value)
            converged = done(history[-2], history[-1])
            if task.call_on_fit_task_end(estimator=self, X=X) or converged:
                converged = True
                break
        root.call_on_fit_task_end(estimator=self, X=X)
        if self.tol > 0 and not converged:
            _validation.warn_not_converged(self.max_iter, self.tol, abs(1 - history[-2] / history[-1]))
        Z, components = sinkhorn.normalize(factors.U, factors.V)
        self.components_, self.n_components_ = components.astype(X.dtype), k
        self.objective_history_, self.objective_, self.n_iter_ = np.array(history), history[-1], len(history) - 1
        self.reconstruction_err_ = float(np.linalg.norm(X - Z @ components))
        return Z.astype(X.dtype)

    def transform(self, X: Any, *, codes: Any = None) -> Array:
        """Codes of new samples: `max_iter` iterations of the rule with the components held fixed."""
        refuse(self, "it has a loop of its own, which writes no files", codes=codes)
        check_is_fitted(self)
        X, kernel = self._checked(X, reset=False)
        V = self.components_.astype(np.float64)
        U = np.repeat((X.sum(axis=1, dtype=np.float64)[:, None] + 1e-12) / len(V), len(V), axis=1)
        iterations = self._iterate(X, U, V, kernel, None, fixed=True)  # every row on its own
        return next(islice(iterations, self.max_iter, None)).U.astype(X.dtype)

    def _ties(self, X: Array) -> Any:
        """The graph, where it counts."""
        if self.beta == 0:
            return None
        known = not isinstance(self.graph, str)
        return graphs.check_graph(self.graph, len(X), name="graph") if known else graphs.knn(X, self.n_neighbors)

    def _checked(self, X: Any, *, reset: bool) -> tuple[Array, sinkhorn.Kernel]:
        _validation.check_parameters(self, self._allowed)
        _validation.check_place(self, place_of(X), everywhere=False)
        X, _ = _validation.check_data(self, X, reset=reset)
        if sparse.issparse(X):
            raise TypeError("A sparse matrix was passed, but SDNMF moves mass between all features: pass X.toarray().")
        return X, sinkhorn.Kernel(self._ground(X.shape[1]), float(self.lam))

    def _ground(self, m: int) -> sinkhorn.Metric:
        if isinstance(self.metric, tuple):
            if self.metric[0] * self.metric[1] != m:
                raise ValueError(
                    f"metric={self.metric} has {self.metric[0] * self.metric[1]} pixels, but X has {m} features."
                )
            return sinkhorn.grid_metric(*self.metric)
        if isinstance(self.metric, str):
            return sinkhorn.line_metric(m) if self.metric == "line" else sinkhorn.discrete_metric(m)
        return sinkhorn.check_metric(self.metric, m)

    def _iterate(
        self, X: Array, U: Array, V: Array, kernel: sinkhorn.Kernel, A: Any, *, fixed: bool
    ) -> Iterator[_Factors]:
        """The published loop, or the one that continues; yields the start and every iteration."""
        warm = self.solver == "auto"
        plan = sinkhorn.transport(X, U @ V, kernel, self.gamma, self.sinkhorn_steps)
        while True:
            value = sinkhorn.objective(plan, X, U @ V, self.gamma)
            if A is not None:
                value += self.gamma * self.beta / 2 * sinkhorn.smoothness(U, A)
            yield _Factors(U, V, value)
            pull = sinkhorn.pull(plan.mass, U @ V)
            U = sinkhorn.update_codes(U, V, pull, A, self.beta, guaranteed=warm)
            if not fixed:
                V = sinkhorn.update_components(U, V, sinkhorn.pull(plan.mass, U @ V) if warm else pull)
            start = plan.log_u if warm else None
            plan = sinkhorn.transport(X, U @ V, kernel, self.gamma, self.sinkhorn_steps, start)

    def __sklearn_tags__(self) -> Any:
        """Dense input only."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
