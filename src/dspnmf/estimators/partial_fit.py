"""Mini-batches: a fit that goes on, and keeps nothing of the rows it has seen but P = X'U and Q = U'U.

The first batch is fitted as `fit` does. A later one gets the codes `transform` would give it; then its codes, the
components, and how the codes of the rows before are mixed (`dspnmf.backends.batch_history`) are improved together,
by the solver's iterations, on the objective of all rows seen. Only sums leave the batch. With a forgetting factor
f < 1, P, Q and ||X||^2 are multiplied by f before a batch is added: a row that is j batches old has weight f^j.

All state is in plain attributes, in the solver's units: `_Vt`, `_P`, `_Q`, `_norm2`, `_mass`, `_weights`, `_code`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._validation import Allowed, number
from dspnmf.backends import Rows
from dspnmf.backends.batch_history import WithPast
from dspnmf.backends.dispatch import Place, on_host, place_of
from dspnmf.backends.incomplete import IncompleteRows
from dspnmf.estimators.base import Problem, Run
from dspnmf.estimators.components import ComponentFactorization
from dspnmf.objective.state import State
from dspnmf.objective.terms import ALL, GramSimilarity, Objective, Reconstruction
from dspnmf.solvers.loop import Descent, Hals, Stopping, first, proceed

_FORGET = Allowed(lambda value: number(0, strict=True).test(value) and value <= 1, "a number > 0 and <= 1")
_OF_A_FIT = ("objective_", "objective_history_", "structure_err_")  # fitted attributes that need all rows at once
_PAIRED = 100  # rows whose similarities tell how large the structure term is


class Streaming(ComponentFactorization):
    """A factorization that can be fitted batch by batch."""

    _allowed: ClassVar[Mapping[str, Allowed]] = {**ComponentFactorization._allowed, "forget_factor": _FORGET}
    # what parameters must be for batches (others: anything), and those that must stay as they were
    _streams: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "solver": ("auto", "newton-cg", "hals"),
        "similarity": ("gram", "cosine"),
        "missing": ("error",),
        "label_weight": (0,),
    }
    _stays: ClassVar[tuple[str, ...]] = ("n_components", "alpha", "lam", "similarity")
    forget_factor: float

    def partial_fit(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> Self:
        """Learn from one batch of rows, on top of all batches before it; nothing of the rows themselves is kept.

        The first batch is fitted as by `fit`, with every parameter. Later batches refine what it began: it should have
        some ten rows a component, and some hundred where alpha lets the structure term outweigh the rest by far. Later
        batches may have any number of rows, one included. Their iterations are those of "hals", until one lowers the
        objective of all rows seen by at most `tol` of it (with a structure term: of its size as estimated from 100 rows
        of the batch), at most `max_iter`. After `fit`, `partial_fit` goes on from there.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative rows in memory, of the width and precision of the first batch. Batches should be mixed: where
            each holds another kind of rows, the result is worse than that of `fit`. A row that comes again counts
            again.
        y : None
            Ignored.
        W, H : array-like of shape (n_samples, n_components) and (n_components, n_features), optional
            Start of the first batch, for ``init="custom"``.

        Returns
        -------
        self

        Notes
        -----
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
        _validation.check_parameters(self, self._allowed)
        place, began = place_of(X), hasattr(self, "_P")
        self._check_stream(place, began)
        if began:
            checked, _ = place.check(self, X, reset=False)
            self._check_batch(checked, W, H)
        if began and self._norm2 > 0:
            learned = self._after(checked, place)
        else:  # rows of zeros teach nothing: the first others begin
            before = (self.n_samples_seen_, self.n_steps_) if began else (0, 0)
            self.fit(X, y, W=W, H=H)
            learned = {"n_samples_seen_": self.n_samples_seen_ + before[0], "n_steps_": 1 + before[1]}
        for name, value in learned.items():
            setattr(self, name, value)
        for name in _OF_A_FIT:
            self.__dict__.pop(name, None)
        return self

    def _check_stream(self, place: Place, began: bool) -> None:
        """Whether batches like this one can be learned from, and on top of what was learned."""
        name = type(self).__name__
        if not place.whole_family:
            raise ValueError(
                f"partial_fit takes batches in memory, but X is {place.name}: pass some of its rows at a time as a "
                "NumPy array or a SciPy sparse matrix, or use fit, which takes all of it where it is."
            )
        for parameter, allowed in self._streams.items():
            value = getattr(self, parameter, allowed[0])
            if np.ndim(value) or value not in allowed:
                raise ValueError(
                    f"{parameter}={_shown(value)} does not work with partial_fit, which keeps sums of the rows only: "
                    f"use one of {', '.join(map(repr, allowed))}, or fit on all rows."
                )
        if began and not self._of_rows_alone:
            raise ValueError(
                f"This {name} began with missing cells or with labels, which sums of the rows do not hold: use fit on "
                "all rows, or begin anew with partial_fit on a new estimator."
            )
        for parameter in self._stays if began else ():
            was, now = self._at_fit.get(parameter), getattr(self, parameter, None)
            if _shown(was) != _shown(now):
                raise ValueError(
                    f"{parameter}={_shown(now)}, but this {name} began with {_shown(was)}: partial_fit goes on with "
                    f"the objective it began with. Use set_params({parameter}={_shown(was)}), or fit to begin anew."
                )

    def _check_batch(self, X: Any, W: Any, H: Any) -> None:
        """Whether a later batch is of the precision of the first, and comes without a start."""
        dtype = on_host(self.components_).dtype
        if X.dtype != dtype:
            raise ValueError(
                f"X is {X.dtype}, but the rows before it were {dtype}: pass X.astype({str(dtype)!r}), or use fit to "
                "begin anew."
            )
        if self._norm2 > 0 and (W is not None or H is not None):
            raise ValueError(
                "W or H was given, but this is not the first batch, and would ignore it: leave W and H out, or use fit "
                "to begin anew."
            )

    def _after(self, X: Any, place: Place) -> dict[str, Any]:
        """Fitted attributes after one more batch."""
        f = float(self.forget_factor)
        s, mass = State(self._Vt, f * self._P, f * self._Q), f * self._mass + X.shape[0]
        with team():
            objective = self._seen(s, f * self._norm2 + place.rows(X, 1, self._scale).norm2())
            batch = place.rows(self._augmented(X), len(s.Q), self._scale)
            batch.begin(batch.solve(objective.model(s)))
            rows: Any = WithPast(batch, s.P, s.Q, self.n_samples_seen_)
            s, iterations = self._improved(rows, objective, s, _Size(batch, objective, mass))
        problem = Problem(rows, objective, 1.0, self._code, place=place)
        error2 = max(float(objective.reconstructions[0].value(s)), 0.0)
        return {
            **self._learned(problem, Run(None, s, [], True)),
            "_mass": mass,
            "n_steps_": self.n_steps_ + 1,
            "n_iter_": iterations,
            "reconstruction_err_": float(np.sqrt(error2)) * self._scale,
        }

    def _improved(self, rows: Any, objective: Objective, s: State, size: _Size) -> tuple[State, int]:
        """The state after as many iterations as it takes, and their number."""
        update = Descent(Hals(None if self.inner_iter == "auto" else int(self.inner_iter)))
        done, count = Stopping(self.tol, objective.resolution), 0
        value, s = first(rows, objective, s.Vt)
        steps = proceed(rows, objective, value, s, update)
        next(steps)
        while True:
            count, before, (value, s) = count + 1, value, next(steps)
            about = size(s)
            if done(about + before - value, about):
                return s, count
            if count == self.max_iter:
                break
        if self.tol > 0:
            _validation.warn_not_converged(self.max_iter, self.tol, (before - value) / max(about, np.finfo(float).tiny))
        return s, count

    def _seen(self, s: State, norm2: float) -> Objective:
        """The objective of all rows seen, up to a number: ``||P||^2`` stands for ``||XX'||^2``, which is not known."""
        m = self.n_features_in_
        own, similar = (ALL, ALL) if len(s.P) == m else (slice(0, m), slice(m, None))
        P = s.P[similar]
        terms = (Reconstruction(norm2, own), GramSimilarity(float(np.vdot(P, P)), similar))
        return Objective(terms[: len(self._weights)], self._weights)

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        """Beside what transform needs: what a later batch needs."""
        s, objective, n = run.state, problem.objective, problem.rows.shape[0]
        return {
            **super()._for_transform(problem, run),
            "_Vt": s.Vt,
            "_P": s.P,
            "_Q": s.Q,
            "_norm2": float(objective.reconstructions[0].norm2),
            "_mass": float(n),  # rows, each with its weight
            "_weights": objective.weights,
            "_code": float(problem.code),
            "_of_rows_alone": len(objective.terms) <= 2 and not isinstance(problem.rows, IncompleteRows),
            **self._column_means(problem),
            "n_samples_seen_": int(n),
            "n_steps_": 1,
        }

    def _column_means(self, problem: Problem) -> dict[str, Any]:
        """Where missing cells of new rows begin, if they may have any."""
        if getattr(self, "missing", "error") != "mask" or isinstance(problem.rows, WithPast):
            return {}
        if isinstance(problem.rows, IncompleteRows):
            return {"_means": problem.rows.means}
        means = problem.rows.data[:, : self.n_features_in_].mean(axis=0, dtype=np.float64)
        return {"_means": np.asarray(means).ravel()}


class _Size:
    """How large the objective of all rows is, about: similarities as well kept as among some rows of the batch."""

    def __init__(self, batch: Rows, objective: Objective, mass: float) -> None:
        self._batch, self._objective = batch, objective
        found = [(w, term) for w, term in objective.weighted() if isinstance(term, GramSimilarity)]
        self._weight = found[0][0] * mass * mass if found else 0.0
        if found:
            n = min(batch.shape[0], _PAIRED)
            self._some = np.linspace(0, batch.shape[0] - 1, n).astype(int)
            X = batch.data[self._some][:, found[0][1].features].astype(np.float64) / batch.scale
            similar = X @ X.T
            self._similar = similar.toarray() if sparse.issparse(similar) else similar
            self._pairs = 1 - np.eye(n) if n > 1 else np.ones((1, 1))  # a row's own norm is one of many pairs

    def __call__(self, s: State) -> float:
        """At the codes as they are."""
        data, w = self._objective.reconstructions[0], self._objective.weights[0]
        value = w * max(float(data.value(s)), 0.0)
        if self._weight == 0:
            return value
        U = self._batch.codes[self._some].astype(np.float64)
        gap = (self._similar - U @ U.T) * self._pairs
        return value + self._weight * float(np.vdot(gap, gap) / self._pairs.sum())


def _shown(value: Any) -> str:
    """A parameter in words."""
    return "a matrix" if hasattr(value, "shape") and value.shape else repr(value)
