"""Mini-batches: a fit that goes on, and keeps nothing of the rows it has seen but P = X'U and Q = U'U.

The first batch is fitted as `fit` does. A later one gets the codes `transform` would give it; then its codes, the
components, and how the codes of the earlier rows are mixed (`dspnmf.backends.batch_history`) are improved together, by
the solver's iterations, on the objective of all rows seen. Only sums leave the batch. With a forgetting factor f < 1,
P, Q and ||X||^2 are multiplied by f before a batch is added: a row that is j batches old has weight f^j.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._typing import ArrayLike
from dspnmf._validation import FLAG, Allowed, number, one_of, whole
from dspnmf.backends import backend_for
from dspnmf.backends.batch_history import RowsWithHistory
from dspnmf.backends.divergence_history import DivergenceBound, DivergenceRowsWithHistory
from dspnmf.backends.memory import on_host
from dspnmf.backends.protocol import Backend, Data, Rows
from dspnmf.backends.row_model import Completion
from dspnmf.estimators.base import INIT_OR_NONE, INNER_ITER, RANK, SOLVER_OR_PEERS, Problem
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.losses import WithLosses
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.penalties import CODES_L1, CODES_L2
from dspnmf.estimators.transform_state import BatchSums, DivergenceBatches, TransformState
from dspnmf.estimators.unchanged import unchanged_on_error
from dspnmf.objective.divergence import Divergence
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, Lasso, Reconstruction, Ridge
from dspnmf.solvers.descent import Descent
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import Stopping, Update, iterate

SHARE = Allowed(lambda value: number(0).test(value) and value <= 1, "a number >= 0 and <= 1")
_FORGET = Allowed(lambda value: number(0, strict=True).test(value) and value <= 1, "a number > 0 and <= 1")
_OF_A_FIT = ("objective_", "objective_history_", "structure_err_")  # fitted attributes that need all rows at once
_ALIVE = 1e-9  # of the mean of a component: what a feature that no row had yet keeps, or no rule could raise it
_SAMPLED = 100  # rows whose similarities tell how large the structure term is


@dataclass(eq=False, repr=False)
class BatchLearner(WithLosses):
    """A factorization with losses and penalties that can be fitted batch by batch."""

    missing: str = parameter("error", one_of("error", "mask"))
    n_components: Any = parameter(10, RANK, positional=True)
    solver: str = parameter("auto", SOLVER_OR_PEERS)
    init: str | None = parameter("random", INIT_OR_NONE)
    n_init: int = parameter(1, whole(1))
    inner_iter: int | str = parameter("auto", INNER_ITER)
    normalize: bool = parameter(False, FLAG)
    forget_factor: float = parameter(1.0, _FORGET)

    # what parameters must be for batches (others: anything), and those that must stay as they were
    _for_batches: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "solver": ("auto", "cd", "mu", "newton-cg", "hals"),
        "similarity": ("gram", "cosine"),
        "missing": ("error",),
        "label_weight": (0,),
    }
    _constant: ClassVar[tuple[str, ...]] = (
        "n_components", "alpha", "lam", "similarity", "alpha_W", "alpha_H", "l1_ratio", "beta_loss"
    )  # fmt: skip

    def partial_fit(self, X: ArrayLike, y: ArrayLike = None, W: ArrayLike = None, H: ArrayLike = None) -> Self:
        """Learn from one batch of rows, on top of all batches before it; nothing of the rows themselves is kept.

        The first batch is fitted as by `fit`, with every parameter. Later batches refine what it began: it should have
        about ten rows per component, and about a hundred where alpha lets the structure term outweigh the rest by far.
        Later batches may have any number of rows, one included. Their iterations are those of "hals", until one lowers
        the objective of all rows seen by at most `tol` of it (with a structure term: of its size as estimated from 100
        rows of the batch), at most `max_iter`. After `fit`, `partial_fit` goes on from there.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative rows in memory or on a device, of the width and precision of the first batch. Batches should
            be mixed: where each holds another kind of rows, the result is worse than that of `fit`. A row that comes
            again counts again.
        y : None
            Ignored.
        W, H : array-like of shape (n_samples, n_components) and (n_components, n_features), optional
            Start of the first batch, for ``init="custom"``.

        Returns
        -------
        self

        Notes
        -----
        With any `beta_loss` but "frobenius" a bound of the divergence of earlier rows is kept, as a function of the
        components (m x k numbers, twice). A later batch gets the codes `transform` would give it; then codes and the
        components are improved together, and the divergence of the batch plus that bound never rises. Missing cells
        (``missing="mask"``) have no part in either. The structure term is that of all rows seen, as with squares, but
        the codes of earlier rows stay as they are. Without it this is what scikit-learn's ``MiniBatchNMF`` does, with
        more than one step per batch.

        Afterwards there are `components_`, `n_samples_seen_`, `n_steps_`, `n_iter_` (iterations of this batch) and
        `reconstruction_err_`: that of all rows seen, each with the code it had when its batch was summed up, mixed as
        later batches asked for, and with the weight `forget_factor` has left it. It is a difference of running sums:
        below about 1e-3 of ``||X||`` it is rounding where X is float32. `objective_`, `objective_history_` and
        `structure_err_` need all rows at once, and are removed.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dspnmf import DSPNMF
        >>> X = load_digits().data / 16
        >>> model = DSPNMF(10, random_state=0)
        >>> for start in range(0, len(X), 300):
        ...     model = model.partial_fit(X[start : start + 300])
        >>> model.n_samples_seen_, model.n_steps_
        (1797, 6)
        >>> model.transform(X).shape
        (1797, 10)
        """
        _validation.check_parameters(self)
        backend = backend_for(X)
        state: TransformState | None = getattr(self, "_transform_state", None)
        before = None if state is None else left_of(state)
        self._check_batches(backend, state)
        with unchanged_on_error(self):
            data = None if before is None else self._checked_batch(backend.check(self, X, reset=False), before, W, H)
            if data is not None and before is not None and _taught(before):
                learned = self._learn(data, before, float(self.forget_factor), self.max_iter)
            else:  # rows of zeros teach nothing: the first others begin
                seen = (0, 0) if before is None else (self.n_samples_seen_, self.n_steps_)
                self.fit(X, y, W=W, H=H)
                learned = {"n_samples_seen_": self.n_samples_seen_ + seen[0], "n_steps_": 1 + seen[1]}
            self.__dict__.update(learned)
            for name in _OF_A_FIT:
                self.__dict__.pop(name, None)
        return self

    def _check_batches(self, backend: Backend, state: TransformState | None) -> None:
        """Whether batches like this one can be learned from, and on top of what was learned."""
        name = type(self).__name__
        _validation.check_backend(self, backend, {"batches": "partial_fit"})
        for parameter_name, allowed in self._for_batches.items():
            value = getattr(self, parameter_name, allowed[0])
            if parameter_name == "missing" and self._divergent:
                continue  # missing cells have no part in the bound of a divergence
            if np.ndim(value) or value not in allowed:
                raise ValueError(
                    f"{parameter_name}={_shown(value)} does not work with partial_fit, which keeps sums of the rows "
                    f"only: use one of {', '.join(map(repr, allowed))}, or fit on all rows."
                )
        if state is None or (state.batches is None and state.divergence is None):
            return
        for parameter_name in self._constant:
            was, now = state.parameters.get(parameter_name), getattr(self, parameter_name, None)
            if _shown(was) != _shown(now):
                raise ValueError(
                    f"{parameter_name}={_shown(now)}, but this {name} began with {_shown(was)}: partial_fit goes on "
                    f"with the objective it began with. Use set_params({parameter_name}={_shown(was)}), or fit to "
                    "start again."
                )
        left = left_of(state)
        if left is None or not getattr(left, "rows_only", True):
            raise ValueError(
                f"This {name} began with missing cells or with labels, which sums of the rows do not hold: use fit on "
                "all rows, or start again with partial_fit on a new estimator."
            )

    def _checked_batch(self, data: Data, before: BatchSums | DivergenceBatches, W: ArrayLike, H: ArrayLike) -> Data:
        """A later batch, of the precision of the first and without a start."""
        dtype = on_host(self.components_).dtype
        if data.dtype != dtype:
            raise ValueError(
                f"X is {data.dtype}, but the rows before it were {dtype}: pass X.astype({str(dtype)!r}), or use fit to "
                "start again."
            )
        if _taught(before) and (W is not None or H is not None):
            raise ValueError(
                "W or H was given, but this is not the first batch, and would ignore it: leave W and H out, or use fit "
                "to start again."
            )
        return data

    def _learn(self, data: Data, before: BatchSums | DivergenceBatches, f: float, most: int) -> dict[str, Any]:
        """Fitted attributes after one more batch and at `most` so many iterations.

        f is left of the weight of earlier rows.
        """
        if isinstance(before, DivergenceBatches):
            return self._learn_by_divergence(data, before, f, most)
        scale = self._transform_state.scale
        data = data.of_ordinary_size(scale)
        mass, norm2 = f * before.mass + data.shape[0], f * before.norm2 + data.norm2(scale)
        before, change = self._reweighted(before, mass)
        wide = self.augmented(data)
        batch = wide.rows(len(before.Q), scale)
        adopt = batch.small.adopt
        s = State(adopt(before.Vt), adopt(f * before.P), adopt(f * before.Q))
        with team():
            objective = self._objective_so_far(wide, replace(before, P=f * before.P), norm2, mass)
            batch.begin(batch.solve(objective.model(s)))
            rows = cast(Rows, RowsWithHistory(batch, s.P, s.Q, self.n_samples_seen_))  # all that hals asks of rows
            update = Descent(Hals(None if self.inner_iter == "auto" else int(self.inner_iter)))
            begun, size = update.begin(rows, objective, s.Vt), _Size(wide, batch, objective, mass, self._similar)
            s, iterations = self._improved(rows, objective, update, begun, size, most)
        s = s.on_host(batch.small)
        details: dict[str, Any] = {"mass": mass, "labels": None, "similar": self._similar}
        if hasattr(self, "alpha_"):
            details["alpha"] = self.alpha_ * change
        problem = Problem(wide, rows, objective, 1.0, before.code, details=details)
        reconstruction = objective.terms["reconstruction"]
        assert isinstance(reconstruction, Reconstruction)
        error2 = max(float(reconstruction.error2(s)), 0.0)
        return {
            **self._learned(problem, Run(None, s, [], True)),
            "n_steps_": self.n_steps_ + 1,
            "n_iter_": iterations,
            "reconstruction_err_": float(np.sqrt(error2)) * scale,
        }

    def _learn_by_divergence(self, data: Data, before: DivergenceBatches, f: float, most: int) -> dict[str, Any]:
        """The same where errors are measured by a divergence."""
        state = self._transform_state
        data = data.of_ordinary_size(state.scale)
        held, scale, mass = state.divergence, state.scale, f * before.mass + data.shape[0]
        assert held is not None
        alive = np.maximum(held.Vt, _ALIVE * held.Vt.mean(axis=0))
        rows, codes, model = self._solved(data, replace(state, divergence=replace(held, Vt=alive)))
        found = Divergence(
            held.beta,
            mass * data.shape[1] * (max(data.mean() / scale, 0.0) ** held.beta if held.beta > 0 else 1.0),
            *self.divergence_penalties((mass, data.shape[1]), scale, before.code),
        )
        P, Q = f * state.pull, f * state.curvature
        terms: dict[str, Term] = {"reconstruction": found}
        if held.alpha > 0:
            terms["structure"] = GramSimilarity(float(np.vdot(P, P)), data.block())
        objective = Objective(terms, {"reconstruction": 1.0, "structure": held.alpha})
        bound = DivergenceBound(before.pull, before.push, before.constant).weighted(f)
        with team():
            rows.begin(codes)
            both = cast(Rows, DivergenceRowsWithHistory(rows, bound, P, Q, self.n_samples_seen_))
            update = self._update(Problem(data, rows, objective, 1.0, before.code))
            value, s = update.begin(both, objective, model.Vt)
            begun, size = (value, replace(s, before=s.Vt)), _Size(data, rows, objective, mass, "X")
            s, iterations = self._improved(both, objective, update, begun, size, most)
        s = s.on_host(rows.small)
        details: dict[str, Any] = {"mass": mass} | ({"alpha": self.alpha_} if hasattr(self, "alpha_") else {})
        problem = Problem(data, both, objective, 1.0, before.code, details=details)
        return {
            **self._learned(problem, Run(None, s, [], True)),
            "n_steps_": self.n_steps_ + 1,
            "n_iter_": iterations,
            "reconstruction_err_": self.divergence_error(float(found.distance(s)), scale),
        }

    def _reweighted(self, before: BatchSums, mass: float) -> tuple[BatchSums, float]:
        """The weights for as many rows as `mass` says, and what that of the structure is multiplied by.

        Of similar rows, ``||X||^2`` grows as their number and ``||XX'||^2`` as its square: an automatic weight follows
        the ratio of both without another look at earlier rows.
        """
        if getattr(self, "alpha", None) != "auto":
            return before, 1.0
        change = before.mass / mass
        weights = {name: w * (change if name == "structure" else 1.0) for name, w in before.weights.items()}
        return replace(before, weights=weights), change

    def _improved(
        self, rows: Rows, objective: Objective, update: Update, begun: tuple[float, State], size: _Size, most: int
    ) -> tuple[State, int]:
        """The state after as many iterations as it takes, at `most` so many, and their number."""
        done, (value, s) = Stopping(self.tol, objective.size), begun
        steps, values = iterate(rows, objective, update, value, s), [value]
        next(steps)
        while len(values) <= most:
            value, s = next(steps)
            values.append(value)
            about = size(s)
            if done([about + before - value for before in values], update.error(about)):
                return s, len(values) - 1
        if self.tol > 0 and most == self.max_iter:
            change = (values[-2] - value) / max(about, np.finfo(float).tiny)
            _validation.warn_not_converged(self.max_iter, self.tol, change)
        return s, most

    @property
    def _similar(self) -> str:
        """The block whose similarities are preserved."""
        return "unit rows" if getattr(self, "similarity", "gram") == "cosine" else "X"

    def _objective_so_far(self, data: Data, before: BatchSums, norm2: float, mass: float) -> Objective:
        """The objective of all rows seen, up to a number: ``||P||^2`` stands for ``||XX'||^2``, which is not known."""
        scale = self._transform_state.scale
        penalties = self.solver_penalties(mass, data.shape[1], before.code, scale)
        reconstruction = penalties.of_components(Reconstruction(norm2, data.block()))
        terms: dict[str, Term] = {"reconstruction": reconstruction}
        if CODES_L1 in before.weights:
            terms[CODES_L1] = Lasso(data.block("ones"))
        if CODES_L2 in before.weights:
            terms[CODES_L2] = Ridge()
        if "structure" in before.weights:
            similar = data.block(self._similar)
            P = before.P[similar.columns]
            terms["structure"] = GramSimilarity(float(np.vdot(P, P)), similar)
        return Objective(terms, before.weights)

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        """What a later batch needs, too."""
        if self._divergent:
            return self._with_bound(super()._for_transform(problem, run), problem, run.state)
        s, objective, n = run.state, problem.objective, problem.rows.shape[0]
        reconstruction, weights = objective.terms["reconstruction"], objective.weights
        rows_only = "labels" not in objective.terms and not problem.rows.completes
        mass = float(problem.details.get("mass", n))
        sums = BatchSums(s.Vt, s.P, s.Q, float(reconstruction.norm2), mass, weights, float(problem.code), rows_only)
        kept = {**super()._for_transform(problem, run), "batches": sums}
        if self.missing == "mask":
            Vt = s.Vt[: self.n_features_in_]
            kept["completion"] = Completion(Vt, weights["reconstruction"], problem.data.column_means())
        return kept

    def _with_bound(self, kept: dict[str, Any], problem: Problem, s: State) -> dict[str, Any]:
        """The same with a bound of the divergence, where batches can follow."""
        held, found = kept["divergence"], s.divergence
        if found is None:
            return kept
        bound = DivergenceBound.of(found, held.beta, s.Vt)
        mass = float(problem.details.get("mass", problem.rows.shape[0]))
        left = DivergenceBatches(bound.pull, bound.push, float(bound.constant), mass, float(problem.code))
        return {**kept, "divergence": replace(held, batches=left)}

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        return {**super()._learned(problem, run), "n_samples_seen_": int(problem.rows.shape[0]), "n_steps_": 1}


class _Size:
    """How large the objective of all rows is, about: similarities as well kept as among some rows of the batch."""

    def __init__(self, data: Data, batch: Rows, objective: Objective, mass: float, similar: str) -> None:
        self._batch, self._objective = batch, objective
        structure = objective.terms.get("structure")
        self._weight = objective.weights["structure"] * mass * mass if structure is not None else 0.0
        if self._weight > 0:
            n = min(batch.shape[0], _SAMPLED)
            self._some = np.linspace(0, batch.shape[0] - 1, n).astype(int)
            X = data.some_rows(self._some, similar) / batch.scale
            self._similar = X @ X.T
            self._pairs = 1 - np.eye(n) if n > 1 else np.ones((1, 1))  # a row's own norm is one of many pairs

    def __call__(self, s: State) -> float:
        """At the codes as they are."""
        rest = self._objective.without("structure")
        (value,) = self._batch.small.fetch([rest.value(s)])
        value = max(value, 0.0)
        if self._weight == 0:
            return value
        U = self._batch.some_codes(self._some)
        gap = (self._similar - U @ U.T) * self._pairs
        return value + self._weight * float(np.vdot(gap, gap) / self._pairs.sum())


def left_of(state: TransformState) -> BatchSums | DivergenceBatches | None:
    """What is left of the rows of earlier batches, or of the fit."""
    return state.batches if state.divergence is None else state.divergence.batches


def _taught(before: BatchSums | DivergenceBatches) -> bool:
    """Whether there was anything but zeros."""
    return bool(before.pull.any()) if isinstance(before, DivergenceBatches) else before.norm2 > 0


def _shown(value: object) -> str:
    """A parameter in words."""
    return "a matrix" if getattr(value, "shape", ()) else repr(value)
