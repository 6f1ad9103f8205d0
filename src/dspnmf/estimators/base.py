"""What all estimators share: input checks, units, starts, the loop, fitted attributes.

Units. The solver works on ``X / scale`` with ``lam = 1`` and weights whose largest is 1, so that data of any size give
the same codes up to their unit. With `code` the unit of the codes, codes U and components V of the user are

    U = code U_solver,     V = (scale / code) V_solver.

Where XX' is preserved, ``code = scale / sqrt(lam)``, which makes alpha_solver = alpha scale^2. The objective of the
user is `Problem.unit` times the solver's. `scale` is a power of two: multiplying by it rounds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._validation import AUTO_OR_COUNT, FLAG, Allowed, either, number, one_of, whole
from dspnmf.backends import Rows
from dspnmf.backends.dispatch import MEMORY, Place, as_rows, place_of
from dspnmf.backends.incomplete import Incomplete, IncompleteRows
from dspnmf.backends.row_model import Array
from dspnmf.estimators.checkpoint import Checkpoint, Point, Run, codes_path, delivered, refuse
from dspnmf.estimators.progress import say
from dspnmf.objective.state import State
from dspnmf.objective.terms import Objective
from dspnmf.solvers import multiplicative as rules
from dspnmf.solvers import start
from dspnmf.solvers.loop import Completing, Descent, Hals, NewtonCG, Stopping, Update, first, proceed

RULES = {"mm": rules.guaranteed, "paper": rules.printed, "paper-appendix": rules.appendix}
__all__ = ["Factorization", "Problem", "Run"]
SOLVERS = ("auto", "newton-cg", "hals", *RULES)
INITS = ("random", "nndsvd", "nndsvda", "nndsvdar", "custom")


class Problem(NamedTuple):
    """What is minimised, over which rows, in the solver's units."""

    rows: Rows
    objective: Objective
    unit: float  # the user's objective over the solver's
    code: float  # the user's codes over the solver's
    published: Objective | None = None  # what the published rule was derived for, where that is another objective
    place: Place = MEMORY  # where X lives


class Factorization(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the family: a fit. A method says what it minimises (`_problem`), what its errors are, what it learned."""

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "n_components": whole(1),
        "solver": one_of(*SOLVERS),
        "init": one_of(*INITS),
        "n_init": whole(1),
        "max_iter": whole(1),
        "tol": number(0),
        "inner_iter": AUTO_OR_COUNT,
        "normalize": FLAG,
        "verbose": either(FLAG, whole(0)),
    }

    _rules: ClassVar[Mapping[str, rules.Factor]] = RULES
    _anywhere: ClassVar[bool] = False  # whether X may live outside this machine's memory

    def __init__(
        self,
        n_components: int,
        solver: str,
        init: str,
        n_init: int,
        max_iter: int,
        tol: float,
        inner_iter: int | str,
        normalize: bool,
        random_state: Any,
        verbose: int,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.inner_iter = inner_iter
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        W: Any = None,
        H: Any = None,
        *,
        checkpoint: Any = None,
        checkpoint_every: float = 60.0,
        codes: Any = None,
    ) -> Self:
        """Learn the components of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative data; float32 stays float32. A memory map above 1 GiB, a Zarr array or an HDF5 dataset is read
            in slabs and never held in memory.
        y : array-like of shape (n_samples,), optional
            Ignored, except by methods that learn from labels.
        W, H : array-like of shape (n_samples, n_components) and (n_components, n_features), optional
            Start for ``init="custom"``.
        checkpoint : path, optional
            File the fit's state is written to. A fit that was killed goes on from there when it is called again with
            the same arguments. The file is removed when the fit is done, and one of another fit is refused.
        checkpoint_every : float, default=60.0
            Seconds between two writes; 0: after every iteration.
        codes : path, optional
            File (.npy) the codes are written to when the fit is done; while X is read from a file, everything of their
            size lies on that disk too. `fit_transform` then returns the codes as a read-only memory map.

        Returns
        -------
        self
        """
        self.fit_transform(X, y, W=W, H=H, checkpoint=checkpoint, checkpoint_every=checkpoint_every, codes=codes)
        return self

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
        """Learn the components of X and return its codes.

        Parameters
        ----------
        X, y, W, H, checkpoint, checkpoint_every, codes
            As in `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Non-negative codes, ``X ~ Z @ components_``.
        """
        _validation.check_parameters(self, self._allowed)
        keeper = Checkpoint(checkpoint, checkpoint_every)
        path = codes_path(codes, X, keeper)
        place = place_of(X).storing(path)
        _validation.check_place(self, place, everywhere=self._anywhere)
        X, largest = place.check(self, X, reset=True)
        if self.init == "custom":
            W, H = _validation.check_start(W, H, X.shape, self.n_components, largest)
        else:
            _validation.check_no_start(W, H, self.init)
        if self.init.startswith("nndsvd"):
            _validation.check_rank_for_svd(self.init, self.n_components, X.shape)
        if isinstance(X, Incomplete):
            refuse(self, "its completed cells are not in a checkpoint: fill X first", checkpoint=checkpoint)
        scale = float(2.0 ** np.round(np.log2(largest))) if largest > 0 else 1.0
        problem = self._problem(X, y, scale)._replace(place=place)
        keeper.identify(self, self._solver_for(problem), problem.rows, problem.objective, y, W, H)
        root = self._init_callback_context(max_subtasks=self.n_init)
        root.call_on_fit_task_begin(estimator=self, X=X)
        with team():
            run = self._settle(problem, self._best_run(X, problem, (W, H), root, keeper))
            attributes = self._fitted(problem, run)
        for name, value in attributes.items():
            setattr(self, name, value)
        root.call_on_fit_task_end(estimator=self, X=X)
        if not run.converged and self.tol > 0:
            change = abs(run.history[-1] - run.history[-2]) / max(abs(run.history[-1]), np.finfo(float).tiny)
            _validation.warn_not_converged(self.max_iter, self.tol, change)
        Z = delivered(place, problem.rows, place.in_units(run.codes, self._unit), path)
        keeper.remove()
        return Z

    # -- what a method says of itself ----------------------------------------------------------------------------

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        """The objective in the solver's units."""
        raise NotImplementedError

    def _errors(self, values: list[float], problem: Problem, s: State) -> dict[str, float]:
        """Fitted attributes that follow from the terms' exact values, or from the state."""
        raise NotImplementedError

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        """Fitted attributes beside those every factorization has; `_unit` is that of the codes."""
        raise NotImplementedError

    # -- the fit ---------------------------------------------------------------------------------------------------

    def _solver_for(self, problem: Problem) -> str:
        """The solver the parameters name; "auto" takes newton-cg where rows are coupled and in one memory."""
        if self.solver != "auto":
            return self.solver
        near = problem.place.solvers is None or problem.place.solvers[0] == "newton-cg"
        return "newton-cg" if near and problem.objective.coupled else "hals"

    def _update(self, problem: Problem) -> Update:
        """What one iteration of a new start does."""
        inner, name = None if self.inner_iter == "auto" else int(self.inner_iter), self._solver_for(problem)
        update: Update = Descent(NewtonCG(inner) if name == "newton-cg" else Hals(inner))
        if name in self._rules:
            update = rules.Multiplicative(self._rules[name], problem.published)
        if isinstance(problem.rows, IncompleteRows):
            problem.rows.restart()
            return Completing(update)
        return update

    def _start(self, X: Any, problem: Problem, given: tuple[Any, Any], rng: np.random.RandomState) -> tuple[Any, Array]:
        """Codes and V' in the solver's units; features beyond those of X begin at random."""
        rows, m = problem.rows, X.shape[1]
        mean = as_rows(X, 1).mean() / rows.scale
        drawn, Vt = start.random(rows.shape, rows.k, mean, rng, rows.dtype)
        if self.init == "custom":
            W, H = given
            Vt[:m] = H.T * (problem.code / rows.scale)
            return np.array(W / problem.code, dtype=rows.dtype, order="C"), Vt
        if self.init == "random":
            U = rows.draw(drawn)
        else:
            whole = rows.completed if isinstance(rows, IncompleteRows) else X
            U, Vt[:m] = start.nndsvd(whole, rows.k, self.init.removeprefix("nndsvd"), mean, rows.scale, rng, rows.dtype)
        if self.solver.startswith("paper"):
            factor = float(np.sqrt(rows.scale) / problem.code)
        else:
            rows.begin(U)
            factor = problem.objective.best_scale(State(rows.small.adopt(Vt), *rows.sums()))
        return problem.place.scaled(U, float(rows.dtype.type(factor))), Vt / factor

    def _best_run(self, X: Any, problem: Problem, given: tuple[Any, Any], root: Any, keeper: Checkpoint) -> Run:
        """The best of `n_init` descents, from the beginning or from where a killed fit stood."""
        rows, point = problem.rows, keeper.load(problem.rows)
        best, rng = (None, check_random_state(self.random_state)) if point is None else point.earlier(self.random_state)
        for start_number in range(point.start if point else 0, self.n_init):
            context = root.subcontext(task_name="start", max_subtasks=self.max_iter)
            context.call_on_fit_task_begin(estimator=self, X=X)
            update = self._update(problem)
            if point is None:
                codes, Vt = self._start(X, problem, given, rng)
                rows.begin(codes)
                value, s = first(rows, problem.objective, Vt)
                point = Point(start_number, s, [value], {}, rng.get_state(), best)
            elif isinstance(update, Descent):
                update.recall(point.memory)
            run = self._descend(X, problem, update, context, keeper, point)
            context.call_on_fit_task_end(estimator=self, X=X)
            best, point = run.better(best, rows.small), None
        assert best is not None
        rows.begin(best.codes)
        return best

    def _descend(self, X: Any, problem: Problem, update: Update, context: Any, keeper: Checkpoint, point: Point) -> Run:
        """Iterate until converged, out of iterations, or told to stop by a callback."""
        rows, objective = problem.rows, problem.objective
        done = Stopping(self.tol, objective.resolution)
        s, history, converged, stop = point.state, point.history, False, False
        steps = proceed(rows, objective, history[-1], s, update)
        next(steps)
        for iteration in range(len(history), self.max_iter + 1):
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, X=X)
            value, s = next(steps)
            history.append(value)
            self._say(iteration, value * problem.unit)
            converged = done(history[-2], value)
            stop = task.call_on_fit_task_end(
                estimator=self,
                X=X,
                reconstruction_attributes=lambda s=s: self._fitted(problem, Run(rows.codes, s, history, False)),
            )
            if converged or stop or iteration == self.max_iter:
                break
            memory = update.memory if isinstance(update, Descent) else {}
            keeper.save(rows, point._replace(state=s, memory=memory))
        return Run(rows.codes, s, history, converged or bool(stop))

    def _settle(self, problem: Problem, run: Run) -> Run:
        """End a descent with the codes `transform` would give, where they are no worse: then both agree exactly."""
        rows, model = problem.rows, problem.objective.model(run.state)
        rows.release()
        if isinstance(rows, IncompleteRows):
            rows.complete(run.state.Vt)
            return run
        if self.solver in self._rules or model.pulls:
            return run
        codes = rows.solve(model)
        rows.begin(codes)
        (value,) = rows.small.fetch([problem.objective.value(State(run.state.Vt, *rows.sums()))])
        if value <= run.history[-1]:
            return run._replace(codes=codes, history=[*run.history[:-1], value])
        rows.begin(run.codes)
        return run

    def _say(self, iteration: int, value: float) -> None:
        """Progress for `verbose` (every `verbose`-th iteration), through the logger "dspnmf"."""
        if self.verbose and iteration % int(self.verbose) == 0:
            say(f"iteration {iteration}: objective {value:.6e}")

    def _fitted(self, problem: Problem, run: Run) -> dict[str, Any]:
        """The fitted attributes after a run."""
        rows, objective = problem.rows, problem.objective
        s = run.state if run.state.offsets else run.state.with_sums(*rows.sums())
        values = exact_values(rows, objective, s)
        s, run = s.on_host(rows.small), run._replace(state=run.state.on_host(rows.small))
        value = sum(w * v for w, v in zip(objective.weights, values, strict=True) if w > 0)
        return {
            "n_components_": rows.k,
            "n_iter_": len(run.history) - 1,
            "objective_": value * problem.unit,
            "objective_history_": np.array([h * problem.unit for h in run.history]),
            **self._errors(values, problem, s),
            **self._learned(problem, run),
        }

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        """Tags of scikit-learn: non-negative input, sparse or dense, precision kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = getattr(self, "missing", "error") == "mask"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def exact_values(rows: Rows, objective: Objective, s: State) -> list[float]:
    """The terms' values; from the residuals where one is too far below the numbers it is a difference of."""
    lost = 1e-9 if rows.dtype == np.float64 else 1e-4
    values = []
    for term, offset in zip(objective.terms, (*s.offsets, *[0.0] * len(objective.terms)), strict=False):
        (value,) = rows.small.fetch([term.value(s) + offset])
        exact = term.exact(s, rows) if value < lost * term.norm2 else None
        values.append(max(value, 0.0) if exact is None else float(exact))
    return values
