"""What all estimators share: input checks, units, starts, the loop, fitted attributes.

Units. The solver works on ``X / scale`` with ``lam = 1`` and weights whose largest is 1, so that data of any size give
the same codes up to their unit. With `code` the unit of the codes, codes U and components V of the user are

    U = code U_solver,     V = (scale / code) V_solver.

Where XX' is preserved, ``code = scale / sqrt(lam)``, which makes alpha_solver = alpha scale^2. The objective of the
user is `Problem.unit` times the solver's. `scale` is a power of two: multiplying by it rounds nothing.

A method says what it minimises in `problem`; everything else here serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._typing import Array, ArrayLike, Codes
from dspnmf._validation import AUTO_OR_COUNT, FLAG, NONE, either, number, one_of, whole
from dspnmf.backends import backend_for
from dspnmf.backends.chunk_facts import ordinary_unit, unit_near
from dspnmf.backends.protocol import Backend, Capability, Data, Rows
from dspnmf.estimators.checkpoint import Checkpoint, Point, Run, checked_codes_path, delivered
from dspnmf.estimators.descending import Descending
from dspnmf.estimators.known_parameters import KnownParameters
from dspnmf.estimators.parameters import log_line, parameter
from dspnmf.estimators.unchanged import unchanged_on_error
from dspnmf.objective.objective import Objective, exact_values
from dspnmf.objective.state import State
from dspnmf.solvers import initialization, multiplicative
from dspnmf.solvers.descent import Descent
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import Stopping, Update
from dspnmf.solvers.newton_cg import NewtonCG
from dspnmf.solvers.requests import answered

RULES = {
    "mm": multiplicative.guaranteed,
    "paper": multiplicative.printed,
    "paper-appendix": multiplicative.appendix,
}
PEERS_SOLVERS = ("cd", "mu")  # scikit-learn's words: for each the solver that is best here
SOLVER = one_of("auto", "newton-cg", "hals", *RULES)
SOLVER_OR_PEERS = one_of("auto", "newton-cg", "hals", *RULES, *PEERS_SOLVERS)
INIT = one_of("random", "nndsvd", "nndsvda", "nndsvdar", "custom")
INIT_OR_NONE = either(INIT, NONE)
RANK = either(whole(1), one_of("auto"), NONE)
INNER_ITER = AUTO_OR_COUNT
_NOTHING = 1e-60  # share of the objective below which there is nothing to lower: X is zero
_UNRESOLVED = 1e-14  # share of the numbers it is the difference of: objectives below are rounding of float32 codes
_FLOOR = 1e-12  # of the objective at U = 0: smaller changes are rounding of its sums
_ROUNDING = {4: 2e-3, 8: 0.0}  # share of an objective that its running sums may miss, by the bytes of X's numbers
_PUBLISHED_START = 2.0**-20, 2.0**20  # size of its codes in the solver's unit: float32 holds their fourth powers
RandomState = int | np.integer[Any] | np.random.RandomState | None


class Problem(NamedTuple):
    """What is minimised, over which rows, in the solver's units."""

    data: Data
    rows: Rows
    objective: Objective
    unit: float  # the user's objective over the solver's
    code: float  # the user's codes over the solver's
    published: Objective | None = None  # what the published rule was derived for, where that is another objective
    details: Mapping[str, Any] = {}  # what the method wants to know again when the fit is done

    @property
    def scale(self) -> float:
        """The user's X over the solver's."""
        return self.rows.scale * self.data.unit

    def for_user(self, value: float) -> float:
        """A value of the objective in the user's unit; infinite where that has no number for it."""
        return value * self.unit if value else 0.0


@dataclass(eq=False, repr=False)
class Factorization(
    KnownParameters, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of the family: a fit. A method says what it minimises (`problem`) and what it learned.

    Parameters that only some methods have (`solver`, `init`, `n_init`, `inner_iter`, `normalize`) are declared by them.
    """

    n_components: Any = parameter(10, whole(1), positional=True)
    max_iter: int = parameter(200, whole(1))
    tol: float = parameter(1e-4, number(0))
    random_state: RandomState = parameter(None)
    verbose: int = parameter(0, either(FLAG, whole(0)))

    _rules: ClassVar[Mapping[str, multiplicative.Factor]] = RULES
    _capability: ClassVar[Capability | None] = None  # of a backend, that every fit needs
    _keeps_codes: ClassVar[bool] = False  # whether the codes of the method's own rule stand, whatever `transform` gives

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike = None,
        W: ArrayLike = None,
        H: ArrayLike = None,
        *,
        checkpoint_path: str | Path | None = None,
        checkpoint_every: float = 60.0,
        codes_path: str | Path | None = None,
    ) -> Self:
        """Learn the components of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative data; float32 stays float32. Data too large for memory are read in slabs, and tensors and
            arrays of a cluster stay where they are (see the page on scaling).
        y : array-like of shape (n_samples,), optional
            Ignored, except by methods that learn from labels.
        W, H : array-like of shape (n_samples, n_components) and (n_components, n_features), optional
            Start for ``init="custom"``.
        checkpoint_path : path, optional
            File the fit's state is written to. A fit that was killed goes on from there when it is called again with
            the same arguments; one that is interrupted (Ctrl-C) writes the file first. The file is removed when the
            fit is done, and one of another fit is refused.
            With several starts (`n_init`), one then descends after the other.
        checkpoint_every : float, default=60.0
            Seconds between two writes; 0: after every iteration.
        codes_path : path, optional
            File (.npy) the codes are written to when the fit is done; while X is read from a file, everything of their
            size lies on that disk too. `fit_transform` then returns the codes as a read-only memory map.

        Returns
        -------
        self
        """
        self.fit_transform(
            X, y, W=W, H=H, checkpoint_path=checkpoint_path, checkpoint_every=checkpoint_every, codes_path=codes_path
        )
        return self

    @with_callbacks
    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike = None,
        W: ArrayLike = None,
        H: ArrayLike = None,
        *,
        checkpoint_path: str | Path | None = None,
        checkpoint_every: float = 60.0,
        codes_path: str | Path | None = None,
    ) -> Array:
        """Learn the components of X and return its codes.

        Parameters
        ----------
        X, y, W, H, checkpoint_path, checkpoint_every, codes_path
            As in `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Non-negative codes, ``X ~ Z @ components_``.
        """
        _validation.check_parameters(self)
        _validation.check_labels_given(self, y)
        keeper = Checkpoint(checkpoint_path, checkpoint_every)
        path = checked_codes_path(codes_path, X, keeper)
        backend = backend_for(X).storing(path)
        _validation.check_backend(self, backend, self._needs())
        with unchanged_on_error(self):
            return self._fit(backend, X, y, (W, H), keeper, path)

    def _fit(
        self, backend: Backend, X: ArrayLike, y: ArrayLike, given: Start, keeper: Checkpoint, path: Path | None,
        reach: Reach | None = None,
    ) -> Array:  # fmt: skip
        """The fit, after the checks that need nothing but parameters; `reach`: in place of the best of the starts."""
        data = backend.check(self, X, reset=True)
        self.n_components_ = self._rank(given, data.shape)
        given = self._checked_start(given, data)
        scale = unit_near(self._largest(data), data.dtype)
        problem = self.problem(data.of_ordinary_size(scale), y, scale)
        update = self._update(problem)
        if problem.rows.completes:
            keeper.refuse(self, "cells of X are missing, and their estimates would not be in it")
        if not update.resumable:
            keeper.refuse(self, "the state of its rule would not be in it")
        keeper.identify(self, self._solver_for(problem), problem.rows, problem.objective, update, y, *given)
        root = self._init_callback_context(max_subtasks=int(getattr(reach, "descents", getattr(self, "n_init", 1))))
        root.call_on_fit_task_begin(estimator=self, X=X)
        with team(), keeper.interrupts_saved():
            best = reach(self, problem, root) if reach else self._best_run(X, problem, given, root, keeper)
            run = self._settle(problem, best)
            attributes, rows, codes = self._finished(problem, run)
        self._replace_fitted(attributes)
        root.call_on_fit_task_end(estimator=self, X=X)
        if not run.converged and self.tol > 0:
            before, last = best.history[-2:]  # as the stopping rule saw them, without the codes that end the fit
            change = abs(before - last) / max(abs(last), 1e-15 * abs(before))
            _validation.warn_not_converged(self.max_iter, self.tol, change)
        narrow = problem.rows.dtype == np.float32 and problem.objective.weights.get("structure", 0.0) > 0
        if narrow and self.tol > 0 and best.history[-1] < _UNRESOLVED * problem.objective.size:
            _validation.warn_unresolved(best.history[-1] / problem.objective.size)
        Z = delivered(backend, rows, codes, path)
        keeper.remove()
        return Z

    # -- what a method says of itself ----------------------------------------------------------------------------

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """What is minimised, in the solver's units: the one thing every method must say."""
        raise NotImplementedError

    def _needs(self) -> dict[Capability, str]:
        """Capabilities of a backend that a fit needs, each with what asks for it in words."""
        init, missing = getattr(self, "init", "random"), getattr(self, "missing", "error")
        needs: dict[Capability, str] = {"svd": f"init={init!r}"} if str(init).startswith("nndsvd") else {}
        if self._capability is not None:
            needs[self._capability] = type(self).__name__
        return needs if missing == "error" else {**needs, "missing": f"missing={missing!r}"}

    def _largest(self, data: Data) -> float:
        """The largest entry that the unit of X is chosen for."""
        return data.largest

    @property
    def _preserves_gram(self) -> bool:
        """Whether a fit asks for ||XX'||^2: a backend then finds it in the reading that checks X, if it can."""
        return False

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        """Fitted attributes that follow from the terms' exact values, or from the state."""
        raise NotImplementedError

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        """Fitted attributes in addition to those every factorization has."""
        return {}

    def _units(self, problem: Problem, s: State) -> Array:
        """The user's codes over the solver's, for every component."""
        return np.full(problem.rows.k, problem.code)

    # -- the fit ---------------------------------------------------------------------------------------------------

    def _replace_fitted(self, attributes: Mapping[str, Any]) -> None:
        """Fitted attributes are replaced together; those of an earlier fit that this one does not have go."""
        kept = ("n_features_in_", "feature_names_in_", *attributes)
        for name in [name for name in vars(self) if name.endswith("_") and name not in kept]:
            delattr(self, name)
        self.__dict__.update(attributes)

    def _checked_start(self, given: Start, data: Data) -> Start:
        """W and H, if they are the start."""
        init = self._init(data)
        if init == "custom":
            return _validation.check_start(*given, data.shape, self.n_components_, data.largest)
        _validation.check_no_start(*given, init)
        if init.startswith("nndsvd"):
            _validation.check_rank_for_svd(init, self.n_components_, data.shape)
        return None, None

    def _rank(self, given: Start, shape: tuple[int, int]) -> int:
        """The number of components: "auto" is that of W or H, without them, as with None, that of the features."""
        W, H = given
        if self.n_components == "auto" and (W is not None or H is not None):
            return int(np.shape(W)[-1] if H is None else np.shape(H)[0])
        return shape[1] if self.n_components in ("auto", None) else int(self.n_components)

    def _init(self, data: Data) -> str:
        """The start by its name; None is "nndsvda" where there are so many singular vectors, otherwise "random"."""
        init = getattr(self, "init", "random")
        if init is not None:
            return str(init)
        enough = "svd" in data.backend.capabilities and self.n_components_ <= min(data.shape)
        return "nndsvda" if enough else "random"

    def _solver_for(self, problem: Problem) -> str:
        """The solver the parameters name; "auto" takes newton-cg where rows are coupled and in one memory."""
        solver = getattr(self, "solver", "auto")
        if solver not in ("auto", *PEERS_SOLVERS):
            return str(solver)
        near = problem.data.backend.solvers[0] == "newton-cg"
        return "newton-cg" if near and problem.objective.coupled else "hals"

    def _update(self, problem: Problem) -> Update:
        """What one iteration of a new start does."""
        name, inner = self._solver_for(problem), getattr(self, "inner_iter", "auto")
        if name in self._rules:
            return multiplicative.Multiplicative(self._rules[name], problem.published)
        effort = None if inner == "auto" else int(inner)
        return Descent(NewtonCG(effort) if name == "newton-cg" else Hals(effort))

    def _start(self, problem: Problem, given: Start, rng: np.random.RandomState) -> tuple[Codes, Array]:
        """Codes and V' in the solver's units; features in addition to those of X begin at random."""
        data, rows, m = problem.data, problem.rows, problem.data.shape[1]
        init, mean = self._init(data), data.mean() / problem.scale
        drawn, Vt = initialization.random(rows.shape, rows.k, mean, rng, rows.dtype)
        if init == "custom":
            W, H = given
            size = ordinary_unit(float(W.max()) / problem.code, rows.dtype)  # where codes would be out of range
            Vt[:m] = H.T * (problem.code / problem.scale * size)
            Vt[:m] /= ordinary_unit(float(Vt[:m].max()), rows.dtype)
            return np.array(W / problem.code / size, dtype=rows.dtype, order="C"), Vt
        if init == "random":
            U = rows.draw(drawn)
        else:
            U, Vt[:m] = initialization.nndsvd(data, rows.k, init.removeprefix("nndsvd"), mean, rows.scale, rng)
        return U, Vt

    def _factor(self, problem: Problem, Vt: Array) -> float | None:
        """What the start's codes, which the rows have, are multiplied by, and V divided by; None: they stay."""
        if self._init(problem.data) == "custom":
            return None
        if getattr(self, "solver", "auto").startswith("paper"):
            return float(np.clip(np.sqrt(problem.scale) / problem.code, *_PUBLISHED_START))
        if not problem.objective.scales_codes:
            return None
        return problem.objective.best_scale(State(problem.rows.small.adopt(Vt), *problem.rows.sums()))

    def _best_run(self, X: ArrayLike, problem: Problem, given: Start, root: Any, keeper: Checkpoint) -> Run:
        """The best of `n_init` descents, from the beginning or from where a killed fit stood.

        Starts look at X together as far as rows can do that; with a checkpoint one descends after the other.
        """
        rows, point, wanted = problem.rows, keeper.load(problem.rows), int(getattr(self, "n_init", 1))
        best, rng = (None, check_random_state(self.random_state)) if point is None else point.earlier(self.random_state)
        at = point.start if point else 0
        while at < wanted:
            runs = self._next_runs(X, problem, given, rng, (at, wanted), root, keeper, best, point)
            for run in runs:
                best = run.better(best, rows.small)
            if best is not None and len(runs) > 1:  # its codes are part of arrays of all starts
                best = best._replace(codes=rows.own_codes(best.codes))
            at, point = at + len(runs), None
        assert best is not None
        rows.begin(best.codes)
        return best

    def _next_runs(
        self, X: ArrayLike, problem: Problem, given: Start, rng: np.random.RandomState, numbers: tuple[int, int],
        root: Any, keeper: Checkpoint, best: Run | None = None, point: Point | None = None,
    ) -> list[Run]:  # fmt: skip
        """Descents from the first of these numbers on: as many, up to the last, as look at X together."""
        apart = keeper.path is not None or not self._update(problem).shares
        mine = problem.rows.several(1 if apart else numbers[1] - numbers[0])
        parts = [problem._replace(rows=own) for own in mine]
        starts = self._begun(parts, given, rng, numbers[0], best) if point is None else [self._resumed(parts[0], point)]
        return self._descend(X, starts, root, keeper)

    def _resumed(self, problem: Problem, point: Point) -> Descending:
        """A start where a killed fit stood."""
        update = self._update(problem)
        problem.rows.restart()
        update.restore(point.memory)
        return Descending(problem, update, point, point.state, self._named(point.start))

    def _begun(
        self, parts: Sequence[Problem], given: Start, rng: np.random.RandomState, first: int, best: Run | None
    ) -> list[Descending]:
        """Starts at their beginning, from the one of this number on: drawn one after another, measured together."""
        shared, drawn = parts[0].rows, []
        for problem in parts:
            problem.rows.restart()
            codes, Vt = self._start(problem, given, rng)
            problem.rows.begin(codes)
            drawn.append((codes, Vt, rng.get_state()))
        several = [problem.rows for problem in parts]
        if parts[0].objective.scales_codes:
            shared.measure(several)
        components = [self._scaled(problem, *start) for problem, (*start, _) in zip(parts, drawn, strict=True)]
        shared.measure(several)
        starts: list[Descending] = []
        for problem, Vt, (_, _, state) in zip(parts, components, drawn, strict=True):
            update, at = self._update(problem), first + len(starts)
            value, s = update.begin(problem.rows, problem.objective, Vt)
            starts.append(Descending(problem, update, Point(at, s, [value], {}, state, best), s, self._named(at)))
        return starts

    def _scaled(self, problem: Problem, codes: Codes, Vt: Array) -> Array:
        """Multiply a start's codes, which the rows have, by `_factor`; V' divided by it."""
        factor, rows = self._factor(problem, Vt), problem.rows
        if factor is None:
            return Vt
        rows.begin(rows.scaled(codes, float(rows.dtype.type(factor))))
        return Vt / factor

    def _named(self, number: int) -> tuple[int, ...]:
        """What says which start a task is, where there are several."""
        return (number,) if getattr(self, "n_init", 1) > 1 else ()

    def _descend(self, X: ArrayLike, starts: Sequence[Descending], root: Any, keeper: Checkpoint) -> list[Run]:
        """Iterate, all starts together, each until converged, out of iterations, or stopped by a callback."""
        problem = starts[0].problem
        done = Stopping(self.tol, problem.objective.size)
        for start in starts:
            start.context = root.subcontext(task_name="start", max_subtasks=self.max_iter)
            start.context.call_on_fit_task_begin(estimator=self, X=X)
        going = [start for start in starts if len(start.history) <= self.max_iter]
        while going:
            tasks = [start.context.subcontext(task_name="iteration") for start in going]
            for task in tasks:
                task.call_on_fit_task_begin(estimator=self, X=X)
            reached = answered([start.iteration() for start in going], problem.rows.small)
            for start, task, (value, s) in zip(going, tasks, reached, strict=True):
                start.state = s
                start.history.append(value)
                self._log(len(start.history) - 1, problem.for_user(value), *start.named)
                stop = task.call_on_fit_task_end(
                    estimator=self,
                    X=X,
                    reconstruction_attributes=lambda start=start: self._fitted(start.problem, start.run),
                )
                still = done(start.history, start.update.error(value)) or 0 < value <= _NOTHING * start.history[0]
                start.converged = bool(stop) or still
                if start.converged or len(start.history) > self.max_iter:
                    start.context.call_on_fit_task_end(estimator=self, X=X)
                elif keeper.path is not None:
                    keeper.save(start.problem.rows, start.point)
            going = [start for start in going if not start.converged and len(start.history) <= self.max_iter]
        return [start.run for start in starts]

    def _settle(self, problem: Problem, run: Run) -> Run:
        """End a descent with the codes `transform` would give, where they are no worse: then both agree exactly."""
        rows, objective, update = problem.rows, problem.objective, self._update(problem)
        rows.release()
        if rows.completes:
            rows.refresh(run.state.Vt)
            return run
        if self._keeps_codes or self._solver_for(problem) in self._rules:
            return run
        codes = update.solved(rows, objective, run.state)
        if codes is None:
            return run
        rows.begin(codes)
        value, s = update.begin(rows, objective, run.state.Vt)
        if value <= run.history[-1] + _FLOOR * objective.size:
            return run._replace(codes=codes, history=[*run.history[:-1], value], measured=s)
        rows.begin(run.codes)
        return run

    def _log(self, iteration: int, value: float, *start: int) -> None:
        """Progress for `verbose` (every `verbose`-th iteration); of which start, where there are several."""
        if self.verbose and iteration % int(self.verbose) == 0:
            which = "".join(f"start {number}, " for number in start)
            log_line(f"{which}iteration {iteration}: objective {value:.6e}")

    def _finished(self, problem: Problem, run: Run) -> tuple[dict[str, Any], Rows, Codes]:
        """Fitted attributes, and the rows and codes that go to the user."""
        attributes = self._fitted(problem, run)
        unit = self._units(problem, run.state.on_host(problem.rows.small))
        return attributes, problem.rows, problem.rows.scaled(run.codes, unit)

    def _fitted(self, problem: Problem, run: Run) -> dict[str, Any]:
        """The fitted attributes after a run."""
        rows, objective = problem.rows, problem.objective
        s = run.measured or run.state
        if run.measured is None and not rows.completes:
            s = self._update(problem).measured(rows, objective, s)
        values = exact_values(rows, objective, s)
        s, run = s.on_host(rows.small), run._replace(state=run.state.on_host(rows.small))
        value = sum(w * values[name] for name, w in objective.weights.items() if w > 0)
        rounding = _FLOOR * objective.size + _ROUNDING[rows.dtype.itemsize] * value
        history = np.maximum(run.history, 0.0)
        history[(history < value) & (history >= value - rounding)] = value  # no iteration went up, rounding did
        history[-1] = value
        return {
            "n_components_": rows.k,
            "n_iter_": len(run.history) - 1,
            "objective_": problem.for_user(value),
            "objective_history_": np.array([problem.for_user(h) for h in history.tolist()]),
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
        tags.target_tags.required = getattr(self, "label_weight", 0) > 0
        tags.input_tags.allow_nan = getattr(self, "missing", "error") == "mask"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


Start = tuple[ArrayLike, ArrayLike]  # W and H
Reach = Callable[[Any, Problem, Any], Run]  # from estimator, problem and the callbacks' context to the run that is kept
