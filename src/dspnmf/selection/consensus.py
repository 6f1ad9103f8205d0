"""Consensus over many starts: components that several runs found, and the codes that go with them.

``r`` runs of rank k give r k spectra: components scaled to unit length. A spectrum's density is its mean distance to
the ``neighborhood * r`` nearest others; one that no other run found has a large one, and is left out. The others are
divided into k groups by k-means, and a component is the median of its group, with the median length of its members
(Kotliar et al., eLife 8, 2019).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike
from dspnmf.backends import backend_for
from dspnmf.estimators.base import Problem
from dspnmf.estimators.checkpoint import Checkpoint, Point, Run
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.descending import Descending
from dspnmf.stability import stability

_APART = 2.0  # distance given to a component of zeros: more than any two others have
_RULES = ("mm", "paper", "paper-appendix")  # solvers that move components together with the codes


class Runs(NamedTuple):
    """What the starts came to, in the solver's units."""

    components: Array  # r x k x m
    objectives: Array  # r
    n_iter: NDArray[np.intp]  # r


class NoConsensusError(_validation.ParameterError):
    """Too few components that several runs found."""


class Groups(NamedTuple):
    """The spectra of all runs, and their groups."""

    components: Array  # k x m, medians with the median length of their group
    density: Array  # r x k
    labels: NDArray[np.intp]  # r x k: the group, -1 for spectra that were left out
    silhouette: float  # of the spectra that were kept
    stability: Array  # k


def distances(spectra: Array, lengths: Array) -> Array:
    """Euclidean distances between spectra of unit length; those of length 0 are far from all."""
    D: Array = np.sqrt(np.maximum(2.0 - 2.0 * (spectra @ spectra.T), 0.0))
    D[lengths == 0], D[:, lengths == 0] = _APART, _APART
    np.fill_diagonal(D, 0.0)
    return D


def grouped(components: Array, threshold: float, neighborhood: float, seed: int) -> Groups:
    """The consensus of runs (r x k x m)."""
    r, k, m = components.shape
    V = components.reshape(-1, m)
    lengths = np.linalg.norm(V, axis=1)
    spectra = V / np.where(lengths > 0, lengths, 1.0)[:, None]
    D = distances(spectra, lengths)
    nearest = max(1, min(int(neighborhood * r), r - 1))
    density = np.partition(D, nearest, axis=1)[:, : nearest + 1].sum(axis=1) / nearest
    kept = (density < threshold) & (lengths > 0)
    if len(np.unique(spectra[kept], axis=0)) < k:
        raise NoConsensusError(
            f"Only {kept.sum()} of the {r * k} components of {r} runs have a mean distance below density_threshold="
            f"{threshold:g} to their {nearest} nearest, but {k} different ones are needed; the smallest distance is "
            f"{density.min():.3g}. Raise density_threshold or n_runs, or choose fewer components.",
            "density_threshold",
        )
    means = KMeans(k, n_init=10, random_state=seed).fit(spectra[kept])
    order = np.argsort(-np.bincount(means.labels_, minlength=k), kind="stable")
    found = np.argsort(order)[means.labels_]
    labels = np.full(r * k, -1, np.intp)
    labels[kept] = found
    medians = np.array([_median(spectra[labels == group], lengths[labels == group]) for group in range(k)])
    varied = k > 1 and np.ptp(D[np.ix_(kept, kept)]) > 0
    overall = float(silhouette_score(D[np.ix_(kept, kept)], found, metric="precomputed")) if varied else 1.0
    each = stability([medians, *components])
    return Groups(medians, density.reshape(r, k), labels.reshape(r, k), overall, each)


def silhouette(components: Array) -> float:
    """How well the spectra of all runs, none left out, fall into k groups: comparable between ranks."""
    try:
        return grouped(components, np.inf, 1.0, 0).silhouette
    except NoConsensusError:  # fewer different ones than k, components of zeros left out
        return 0.0


def _median(spectra: Array, lengths: Array) -> Array:
    """The median of a group with its median length; the mean, where more than half are zero in every feature."""
    middle = np.median(spectra, axis=0)
    if not middle.any():
        middle = spectra.mean(axis=0)
    return np.asarray(middle * (np.median(lengths) / np.linalg.norm(middle)))


@dataclass
class ManyStarts:
    """How descents lead to the run that is kept: those of many starts, their consensus, codes with components held."""

    runner: ComponentFactorization  # with the tolerance of the runs
    n_runs: int
    threshold: float
    neighborhood: float
    rng: np.random.RandomState
    runs: Runs | None = field(default=None, init=False)
    groups: Groups | None = field(default=None, init=False)

    @property
    def descents(self) -> int:
        """All runs, and the last one with their consensus."""
        return self.n_runs + 1

    def __call__(self, model: ComponentFactorization, problem: Problem, root: Any) -> Run:
        """The codes of the consensus, for `Factorization._fit`."""
        self.runs = self._all_runs(problem, root)
        self.groups = grouped(self.runs.components, self.threshold, self.neighborhood, self.rng.randint(2**31 - 1))
        return _held(model, problem, self.groups.components, self.rng, root)

    def _all_runs(self, problem: Problem, root: Any) -> Runs:
        """Descend from all starts; of each, only components and the course of its objective are kept."""
        m, host = problem.data.shape[1], problem.rows.small.host
        components: list[Array] = []
        ends, counts = [], []
        while len(components) < self.n_runs:
            numbers = len(components), self.n_runs
            for run in self.runner._next_runs(None, problem, (None, None), self.rng, numbers, root, _keeper()):
                components.append(np.asarray(host(run.state.Vt))[:m].T.copy())
                ends.append(problem.for_user(run.history[-1]))
                counts.append(len(run.history) - 1)
        return Runs(np.array(components), np.array(ends), np.array(counts))


def _held(
    model: ComponentFactorization, problem: Problem, components: Array, rng: np.random.RandomState, root: Any
) -> Run:
    """A descent of the codes alone; those of features that were added, such as labels, move with them."""
    rows, update = problem.rows, model._update(problem)
    rows.restart()
    codes, Vt = model._start(problem, (None, None), rng)
    rows.begin(codes)
    Vt = model._scaled(problem, codes, Vt)
    Vt[: components.shape[1]] = components.T
    held = problem._replace(objective=problem.objective.holding("reconstruction"))
    value, s = update.begin(rows, held.objective, Vt)
    if not problem.objective.coupled and not rows.completes:
        solved = update.solved(rows, problem.objective, s)
        if solved is not None:
            rows.begin(solved)
            value, s = update.begin(rows, held.objective, Vt)
    point = Point(0, s, [value], {}, rng.get_state(), None)
    (run,) = model._descend(None, [Descending(held, update, point, s, ())], root, _keeper())
    rows.begin(run.codes)
    return run


def _keeper() -> Checkpoint:
    """No checkpoint."""
    return Checkpoint(None, 60.0)


class Fitted(NamedTuple):
    """The consensus of one rank."""

    model: ComponentFactorization
    codes: Any
    runs: Runs
    groups: Groups


def fit(estimator: ComponentFactorization, X: ArrayLike, y: ArrayLike, starts: ManyStarts, task: Any) -> Fitted:
    """A model fitted by `starts`, with its codes; callbacks see it as part of a task."""
    model = clone(estimator)
    if getattr(model, "solver", "auto") in _RULES:
        model.set_params(solver="auto")
    _validation.check_parameters(model)
    backend = backend_for(X)
    _validation.check_backend(model, backend, model._needs())
    with task.propagate_callback_context(model):
        Z = with_callbacks(ComponentFactorization._fit)(model, backend, X, y, (None, None), _keeper(), None, starts)
    assert starts.runs is not None
    assert starts.groups is not None
    return Fitted(model, Z, starts.runs, starts.groups)


class Unsettled(NamedTuple):
    """Runs of one rank without a consensus."""

    error: NoConsensusError
    runs: Runs
