"""ConsensusNMF: the components that many random starts agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from dspnmf._typing import Array, ArrayLike
from dspnmf._validation import Allowed, ParameterError, check_parameters, either, number, whole
from dspnmf.estimators.base import RandomState
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.known_parameters import KnownParameters
from dspnmf.estimators.nmf import NMF
from dspnmf.estimators.parameters import log_line, parameter
from dspnmf.estimators.unchanged import unchanged_on_error
from dspnmf.selection import candidates, consensus

_NEAR_BEST = 0.05  # stability below the best at which a larger rank is still chosen
_NONE = Allowed(lambda value: value is None, "None")


def _takes_consensus(value: object) -> bool:
    return isinstance(value, ComponentFactorization) and value._holds_components


ESTIMATOR = either(
    _NONE, Allowed(_takes_consensus, "one of dspnmf's NMF, DSPNMF, GNMF, GDNMF, NPNMF, NSNMF and SPNMF, not fitted")
)
RANKS = candidates.each(whole(1), "whole numbers >= 1")


@dataclass(eq=False, repr=False)
class ConsensusNMF(
    KnownParameters, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """The components that many random starts of a factorization agree on.

    Every run ends in a local minimum of its own. Components that only few runs find are left out, the others are
    divided into as many groups as there are components, and the median of each group is a component. Codes are then
    fitted to these components as they are.

    Parameters
    ----------
    estimator : estimator or None, default=None
        What is run: `NMF`, `DSPNMF`, `GNMF`, `GDNMF`, `NPNMF`, `NSNMF` or `SPNMF` with random starts; None is
        ``NMF()``. Its `n_init` and `random_state` have no effect here.
    n_components : int or None, default=None
        Rank. None: that of `estimator`, or with `ranks` the largest of them whose stability is at most 0.05 below the
        best.
    n_runs : int, default=100
        Random starts. In memory they read X together.
    density_threshold : float, default=0.5
        Components whose mean distance to their nearest neighbours among the components of all runs is not below this
        are left out. Components have unit length there: 0 means the same, 1.41 nothing in common. 2 keeps all.
    neighborhood : float, default=0.3
        How many neighbours these are: this share of `n_runs`.
    ranks : list of int or None, default=None
        Ranks to compare (`ranks_results_`); each is run `n_runs` times.
    run_tol : float, default=1e-3
        Tolerance (`tol`) of the runs. That of `estimator` is for the codes at the end.
    random_state : int, RandomState or None, default=None
        Seed of starts and groups.
    verbose : int, default=0
        Log what is found at each rank (logger "dspnmf").

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Medians of the groups; those that most runs found come first. Their length is the median length of the group's
        members.
    stability_ : ndarray of shape (n_components_,)
        How well the runs found each component: the mean cosine between it and its partner in every run
        (`dspnmf.stability.stability`).
    silhouette_ : float
        How well the components of all runs fall into groups, those left out not counted: the mean silhouette, at
        most 1.
    share_of_runs_ : ndarray of shape (n_components_,)
        The share of the runs that have a component in each group.
    density_ : ndarray of shape (n_runs, n_components_)
        Mean distance of every run's components to their nearest neighbours.
    groups_ : ndarray of shape (n_runs, n_components_)
        The component that every run's components belong to; -1 for those left out.
    run_objectives_, run_n_iter_ : ndarray of shape (n_runs,)
        Objective at the end of every run, and its iterations.
    ranks_results_ : dict of arrays or None
        With `ranks`, one entry for each: `n_components`; `stability` (mean silhouette of the components of all runs,
        none left out, so that ranks can be compared); `error` (`reconstruction_err_`; NaN where too few components
        have neighbours); `mean_component_stability`, `share_kept`, `mean_n_iter`.
    estimator_ : estimator
        The estimator with these components; `transform` and `inverse_transform` are its own.
    objective_, reconstruction_err_ : float
        Of its codes and components, as in `DSPNMF`.
    n_components_, n_features_in_, feature_names_in_
        As everywhere in the family.

    See Also
    --------
    dspnmf.DSPNMFCV : rank and weights by cross-validation.
    dspnmf.plot.consensus : stability and error of the ranks, and the distances from which components were left out.

    Notes
    -----
    Runs stop early: a median over many is little changed by what the last iterations of each would do. Solvers that
    are published rules ("mm", "paper", "paper-appendix") are used in the runs; the codes at the end come from the
    default solver.

    References
    ----------
    D. Kotliar et al.: Identifying gene expression programs of cell-type identity and cellular activity with single-cell
    RNA-Seq, eLife 8, e43803, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import NMF, ConsensusNMF
    >>> X = load_digits().data[:300] / 16
    >>> model = ConsensusNMF(NMF(8), n_runs=20, random_state=0).fit(X)
    >>> model.components_.shape, model.groups_.shape
    ((8, 64), (20, 8))
    >>> bool((model.stability_ > 0.5).all())
    True
    """

    estimator: ComponentFactorization | None = parameter(None, ESTIMATOR, positional=True)
    n_components: int | None = parameter(None, either(_NONE, whole(1)))
    n_runs: int = parameter(100, whole(2))
    density_threshold: float = parameter(0.5, number(0, strict=True))
    neighborhood: float = parameter(
        0.3, Allowed(lambda value: number(0, strict=True).test(value) and value <= 1, "a number > 0 and <= 1")
    )
    ranks: Sequence[int] | None = parameter(None, either(_NONE, RANKS))
    run_tol: float = parameter(1e-3, number(0))
    random_state: RandomState = parameter(None)
    verbose: int = parameter(0, whole(0))

    def fit(self, X: ArrayLike, y: ArrayLike = None) -> Self:
        """Run all starts and find the components they agree on.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative data, in whatever `estimator` takes.
        y : array-like of shape (n_samples,), optional
            Ignored, except by estimators that learn from labels.

        Returns
        -------
        self
        """
        self.fit_transform(X, y)
        return self

    @with_callbacks
    def fit_transform(self, X: ArrayLike, y: ArrayLike = None) -> Array:
        """Fit as `fit` does, and return the codes of X."""
        check_parameters(self)
        model = self._model()
        with unchanged_on_error(self):
            return self._fit(model, X, y)

    def _model(self) -> ComponentFactorization:
        """A copy of the estimator, refused where its starts are not random."""
        model = NMF() if self.estimator is None else clone(self.estimator)
        check_parameters(model)
        if (init := getattr(model, "init", "random")) != "random":
            raise ParameterError(
                f'estimator has init={init!r}, but runs differ by their random starts only: use init="random".',
                "estimator",
            )
        return model

    def _fit(self, model: ComponentFactorization, X: ArrayLike, y: ArrayLike) -> Array:
        """The fit, after the checks that need nothing but parameters."""
        chosen = self.n_components or (model.n_components if self.ranks is None else None)
        ranks = sorted({*(() if self.ranks is None else map(int, self.ranks)), *([chosen] if chosen else [])})
        rng = check_random_state(self.random_state)
        seeds = rng.randint(2**31 - 1, size=len(ranks))
        root = self._init_callback_context(max_subtasks=len(ranks)).call_on_fit_task_begin(estimator=self, X=X)
        found: dict[int, consensus.Fitted | consensus.Unsettled] = {}
        for k, seed in zip(ranks, seeds, strict=True):
            task = root.subcontext(task_name="rank").call_on_fit_task_begin(estimator=self, X=X)
            found[k] = self._of_rank(model, k, int(seed), X, y, task)
            task.call_on_fit_task_end(estimator=self, X=X)
        results = None if self.ranks is None else _results(found)
        if chosen is None:
            assert results is not None
            chosen = _chosen(results)
        best = found[chosen]
        if isinstance(best, consensus.Unsettled):
            raise best.error
        self._keep(best, results)
        root.call_on_fit_task_end(estimator=self, X=X)
        return best.codes

    def _of_rank(
        self, model: ComponentFactorization, k: int, seed: int, X: ArrayLike, y: ArrayLike, task: Any
    ) -> consensus.Fitted | consensus.Unsettled:
        """The consensus of one rank."""
        rng = np.random.RandomState(seed)
        runner = clone(model).set_params(n_components=k, n_init=self.n_runs, tol=self.run_tol)
        starts = consensus.ManyStarts(runner, self.n_runs, self.density_threshold, self.neighborhood, rng)
        try:
            fitted = consensus.fit(clone(model).set_params(n_components=k), X, y, starts, task)
        except consensus.NoConsensusError as error:
            assert starts.runs is not None
            return consensus.Unsettled(error, starts.runs)
        if self.verbose:
            log_line(f"rank {k}: stability {fitted.groups.silhouette:.3f}, objective {fitted.model.objective_:.6e}")
        return fitted

    def _keep(self, best: consensus.Fitted, results: dict[str, Any] | None) -> None:
        """Set the fitted attributes."""
        model, runs, groups = best.model, best.runs, best.groups
        k = len(groups.components)
        members = np.array([[(row == group).any() for group in range(k)] for row in groups.labels])
        self.estimator_ = model
        self.components_, self.n_components_ = model.components_, int(model.n_components_)
        self.objective_, self.reconstruction_err_ = float(model.objective_), float(model.reconstruction_err_)
        self.stability_, self.silhouette_ = groups.stability, groups.silhouette
        self.share_of_runs_ = members.mean(axis=0)
        self.density_, self.groups_ = groups.density, groups.labels
        self.run_objectives_, self.run_n_iter_ = runs.objectives, runs.n_iter
        self.ranks_results_ = results
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def transform(self, X: ArrayLike) -> Array:
        """Codes of new samples: `transform` of `estimator_`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.transform(X)

    def inverse_transform(self, Z: ArrayLike) -> Array:
        """Samples from codes: ``Z @ components_``."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.inverse_transform(Z)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Tags:
        """Tags of scikit-learn: as those of the estimator."""
        return (NMF() if self.estimator is None else self.estimator).__sklearn_tags__()


def _results(found: dict[int, consensus.Fitted | consensus.Unsettled]) -> dict[str, Any]:
    """`ranks_results_`: one entry for each rank."""
    settled = [one if isinstance(one, consensus.Fitted) else None for one in found.values()]
    return {
        "n_components": np.array(list(found)),
        "stability": np.array([consensus.silhouette(one.runs.components) for one in found.values()]),
        "error": np.array([one.model.reconstruction_err_ if one else np.nan for one in settled]),
        "mean_component_stability": np.array([one.groups.stability.mean() if one else np.nan for one in settled]),
        "share_kept": np.array([(one.groups.labels >= 0).mean() if one else np.nan for one in settled]),
        "mean_n_iter": np.array([one.runs.n_iter.mean() for one in found.values()]),
    }


def _chosen(results: dict[str, Any]) -> int:
    """The largest rank with nearly the best stability."""
    stability = results["stability"]
    return int(results["n_components"][stability >= stability.max() - _NEAR_BEST].max())
