"""NMF learned batch by batch from an X that is there as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, gen_batches

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._typing import Array, ArrayLike
from dspnmf._validation import FLAG, NONE, either, whole
from dspnmf.backends import backend_for
from dspnmf.backends.memory import on_host
from dspnmf.backends.protocol import Backend, Data
from dspnmf.backends.row_model import DivergenceModel
from dspnmf.estimators.base import INIT_OR_NONE, RANK, Reach, Start
from dspnmf.estimators.checkpoint import Checkpoint, delivered
from dspnmf.estimators.nmf import NMF
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.partial_fit import SHARE, left_of
from dspnmf.objective.objective import Objective, exact_values
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction
from dspnmf.solvers.divergence import divergent_rows

_ROWS_A_COMPONENT = 10  # in what is fitted first: few rows know few components, and zeros of theirs would stay
_ITERATIONS = 4  # of a batch after the first, at most: the next batch knows more
COUNT_OR_NONE = either(whole(1), NONE)


@dataclass(eq=False, repr=False)
class MiniBatchNMF(NMF):
    """NMF learned batch by batch: scikit-learn's ``MiniBatchNMF``, by the sums that `partial_fit` keeps.

    The first batch (the first few, if one has less than 10 rows a component) is fitted as `NMF` does. Each further one
    improves its own codes, the components, and how the codes of all earlier rows are mixed, on the objective of all
    rows seen. Codes are then those of `transform`, for all rows.
    For data that fit into memory, `NMF` comes to a lower error.

    Parameters
    ----------
    n_components : int, "auto" or None, default="auto"
        Rank, as in `NMF`.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"} or None, default=None
        Start, made for the first batch; None: "nndsvda" where that has as many rows and features as components.
    batch_size : int, default=1024
        Rows of a batch. Where the first holds all rows, `NMF` fits it.
    tol : float, default=1e-4
        Stop when a batch changes the components by at most this, relative to their size; of each batch, iterations stop
        as in `partial_fit`. 0: does not stop.
    max_no_improvement : int or None, default=10
        Stop after as many batches, once all rows were seen, in which the error of the rows seen, each with its weight,
        did not fall by `tol` of it for every batch; None: does not stop.
    max_iter : int, default=200
        Maximum number of passes over X.
    forget_factor : float, default=0.7
        What is left of the weight of a row after one pass over all others, from 0 to 1; in `partial_fit`: after one
        batch.
    fresh_restarts : bool, default=False
        Accepted as in scikit-learn: codes of a batch are always the optimum for the components there are, which is
        what True asks for, and no slower here.
    fresh_restarts_max_iter : int, default=30
        As `fresh_restarts`: codes are solved for, not iterated.
    transform_max_iter : int or None, default=None
        As `fresh_restarts`: `transform` ends at the optimum.
    alpha_W, alpha_H, l1_ratio, solver, shuffle, missing, n_init, inner_iter, normalize, random_state, verbose
        As in `NMF`; `solver`, `shuffle` and `n_init` apply to the first batch.
    beta_loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float, default="frobenius"
        As in `NMF`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        V.
    reconstruction_err_ : float
        ``||X - UV||`` (Frobenius), or ``sqrt(2 d(X | UV))``, with the codes of `transform` for all rows.
    n_iter_, n_steps_ : int
        Passes over X begun, and batches learned from.
    n_components_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import MiniBatchNMF
    >>> X = load_digits().data / 16
    >>> model = MiniBatchNMF(10, batch_size=500, random_state=0).fit(X)
    >>> model.transform(X).shape
    (1797, 10)
    """

    n_components: Any = parameter("auto", RANK, positional=True)
    init: str | None = parameter(None, INIT_OR_NONE)
    forget_factor: float = parameter(0.7, SHARE)
    batch_size: int = parameter(1024, whole(1))
    max_no_improvement: int | None = parameter(10, COUNT_OR_NONE)
    fresh_restarts: bool = parameter(False, FLAG)
    fresh_restarts_max_iter: int = parameter(30, whole(1))
    transform_max_iter: int | None = parameter(None, COUNT_OR_NONE)

    _constant: ClassVar[tuple[str, ...]] = tuple(name for name in NMF._constant if name != "alpha")

    def _fit(
        self, backend: Backend, X: ArrayLike, y: ArrayLike, given: Start, keeper: Checkpoint, path: Path | None,
        reach: Reach | None = None,
    ) -> Array:  # fmt: skip
        """The first batch, the others, and the codes of all rows."""
        keeper.refuse(self, "the sums of its batches would not be in it")
        data = backend.check(self, X, reset=True)
        n, size = data.shape[0], int(self.batch_size)
        begun = -(-_ROWS_A_COMPONENT * self._rank(given, data.shape) // size)  # batches that are fitted together first
        if begun * size >= n or size >= n or reach is not None:
            codes = super()._fit(backend, X, y, given, keeper, path, reach)
            self.n_steps_ = self.n_iter_
            return codes
        self._check_batches(backend, None)
        self.n_components_ = self._rank(given, data.shape)
        W, H = self._checked_start(given, data)
        rows = _validation.canonical(X) if sparse.issparse(X) else X
        begun = max(begun, 1)
        first = _safe_indexing(rows, slice(0, begun * size))
        self._of_all = data.largest
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):  # both are checked at the end
            warnings.simplefilter("ignore", ConvergenceWarning)
            super()._fit(backend_for(first), first, y, (W if W is None else W[: begun * size], H), keeper, None)
            del self._of_all
            with team():  # once: threads that come and go with every batch would cost more than small batches do
                steps, change = self._learned_from(rows, n, size, begun)
        for name in ("objective_", "objective_history_", "stability_"):
            self.__dict__.pop(name, None)
        passes = -(-steps * size // n)
        self.__dict__.update(n_steps_=steps, n_iter_=min(passes, self.max_iter), n_samples_seen_=n)
        if change > 0:
            _validation.warn_not_converged(self.max_iter, self.tol, change)
        with team(), np.errstate(over="ignore", invalid="ignore"):
            return self._ended(backend, data, path)

    def _largest(self, data: Data) -> float:
        """That of all rows, also while the first batch is fitted: later ones may be much larger."""
        return float(getattr(self, "_of_all", data.largest))

    def _learned_from(self, X: ArrayLike, n: int, size: int, begun: int) -> tuple[int, float]:
        """The number of batches learned from, and how much the last one changed where that was too much.

        The first ones, `begun` in number, have been learned from.
        """
        forget, best, worse, change = float(self.forget_factor) ** (size / n), np.inf, 0, np.inf
        V, steps = on_host(self.components_), begun
        for part in self._batches(n, size, begun):
            batch = _safe_indexing(X, part)
            before = left_of(self._transform_state)
            assert before is not None
            data = backend_for(batch).check(self, batch, reset=False)
            self.__dict__.update(self._learn(data, before, forget, _ITERATIONS))
            steps += 1
            last, V = V, on_host(self.components_)
            _check_range(V)
            change = float(np.linalg.norm(V - last) / max(float(np.linalg.norm(V)), np.finfo(float).tiny))
            error = self.reconstruction_err_**2 / (float(forget) * before.mass + batch.shape[0])
            seen = steps * size >= n  # before, rows of other kinds may come that raise the error
            enough = best * (1 - self.tol * (worse + 1))  # batches differ: the next one of its kind must be better
            best, worse = (error if seen else np.inf, 0) if error < enough else (best, worse + 1)
            self._log(steps, error)
            still = self.tol > 0 and seen and change <= self.tol and data.largest > 0  # rows of zeros teach nothing
            if still or (self.max_no_improvement is not None and worse >= self.max_no_improvement):
                return steps, 0.0
        return steps, change if self.tol > 0 else 0.0

    def _batches(self, n: int, size: int, begun: int) -> Iterator[slice]:
        """Every batch after the first ones, pass after pass."""
        for number in range(self.max_iter):
            yield from list(gen_batches(n, size))[0 if number else begun :]

    def _ended(self, backend: Backend, data: Data, path: Path | None) -> Array:
        """Codes of all rows, and the error with them."""
        state = self._transform_state
        scale, held = state.scale, state.divergence
        rows, codes = self._codes(data)
        if held is not None:
            rows.begin(codes)
            adopt, V = rows.small.adopt, np.asarray(on_host(self.components_), np.float64)
            model = DivergenceModel(held.beta, adopt(V.T / scale))
            (distance,) = rows.small.fetch([divergent_rows(rows).improve(model, 0).value])
            self.reconstruction_err_ = self.divergence_error(distance, scale)
            _check_range(self.reconstruction_err_)
            return delivered(backend, rows, codes, path)
        plain = data.of_ordinary_size(scale).rows(self.n_components_, scale)
        plain.begin(codes)
        Vt = plain.small.adopt(np.asarray(on_host(self.components_), np.float64).T / scale)
        term = Reconstruction(data.norm2(scale))
        objective = Objective({"reconstruction": term}, {"reconstruction": 1.0})
        error2 = exact_values(plain, objective, State(Vt, *plain.sums()))["reconstruction"]
        self.reconstruction_err_ = float(np.sqrt(max(error2, 0.0))) * scale
        _check_range(self.reconstruction_err_)
        return delivered(backend, rows, codes, path)


def _check_range(found: Array | float) -> None:
    """An error where batches of very different size have led out of the range of X's precision."""
    if not np.isfinite(found).all():
        raise ValueError(
            "Rows of one batch are so much larger than those of another that the factors leave the range of X's "
            "precision: pass X.astype('float64'), scale the rows, shuffle them, or use NMF."
        )
