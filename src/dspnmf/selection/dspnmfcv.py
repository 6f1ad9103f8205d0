"""DSPNMFCV: rank, similarity and weights chosen by how well they do on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import check_scoring
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike
from dspnmf._validation import FLAG, check_parameters, either, number, one_of, whole
from dspnmf.backends import backend_for
from dspnmf.estimators.base import RandomState
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.estimators.known_parameters import KnownParameters
from dspnmf.estimators.parameters import log_line, parameter
from dspnmf.estimators.unchanged import unchanged_on_error
from dspnmf.selection import candidates, results
from dspnmf.selection.fits import Fits, Progress
from dspnmf.selection.held_out_rows import (
    CLASSIFIER,
    CV,
    SCORING,
    Labels,
    LabelScoring,
    NeighbourScoring,
    Scoring,
    Splitter,
    checked_labels,
    folds,
)
from dspnmf.stability import stability


@dataclass(eq=False, repr=False)
class DSPNMFCV(KnownParameters, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """DSP-NMF with rank, similarity and weights chosen by cross-validation.

    Without labels, the rank is the one that best predicts cells of X it has not seen; similarity and alpha are those
    whose codes best keep the neighbours of rows they have not seen. With labels, all are chosen by the score of a
    classifier on codes of rows that neither the factorization nor the classifier has seen. In the end the choice is
    fitted to all rows.

    Parameters
    ----------
    n_components : "auto", int or list of int, default="auto"
        Ranks to choose from. "auto": those of 2, 3, 5, 8, 12 and 20 that are not above the numbers of features and of
        training rows.
    similarities : str or list of str, default="gram"
        What is preserved (`DSPNMF`), to choose from: "gram", "diffused", "cosine", "knn".
    diffusion_steps : int or list of int, default=128
        Steps of "diffused" to choose from.
    alphas : int, "auto" or list of (float or "auto"), default=7
        Weights of the structure to choose from. A number means a grid of that size: 0 (plain NMF), and the others
        evenly in the logarithm from 0.1 to 10,000 times the natural weight ``||X||^2 / ||XX'||^2``, at which both terms
        of the objective have the same size at U = 0. With 7 these are 0, 0.1, 1, 10, 100, 1,000 and 10,000. On the
        paper's data sets (features in [0, 1]) the paper's alpha = 1 is 350 to 160,000 times the natural weight, and the
        scores of its comparison are best, on average, near 100: that is "auto". Natural weights, and with them grids
        and "auto", are those of each similarity, on all rows.
    label_weights : list of float, default=(0.0,)
        Weights of the labels in the objective (`DSPNMF`) to choose from. Above 0 they need y.
    cv : int, splitter or list of (train, test), default=5
        Folds. A number means shuffled folds, stratified where there are labels. What is split are the rows, with
        labels the labelled rows; unlabelled ones (-1) are in every training set. Held-out cells, for the rank without
        labels, are cut into as many folds.
    scoring : str, callable or None, default=None
        How a classifier is scored, in the words of scikit-learn; None is its own `score`, mostly accuracy.
    classifier : classifier or None, default=None
        What the codes are for; None is ``KNeighborsClassifier(3)``.
    rule : {"best", "one-se"}, default="best"
        "best" takes the best mean. "one-se" takes the smallest rank, then the first similarity, the fewest steps, the
        smallest label weight and the smallest alpha whose mean is at most one standard error (over the folds, of the
        best) below the best.
    n_neighbors : int, default=10
        Without labels: how many neighbours of a row are to be kept.
    n_init : int, default=1
        Random starts of the first fit of each path, the best is kept; all others begin where the one before ended.
    max_iter, tol
        Of every fit, as in `DSPNMF`.
    normalize : bool, default=True
        Components at unit length, as in `DSPNMF`. At alpha = 0 the length of components is arbitrary, and with it the
        distances between codes, so scores mean little without.
    random_state : int, RandomState or None, default=None
        Seed of folds and starts. The choice follows from it alone, whatever `n_jobs` is.
    n_jobs : int or None, default=None
        Processes (see joblib). Each fit of the search keeps to one core.
    verbose : int, default=0
        Log what is found (logger "dspnmf").

    Attributes
    ----------
    best_estimator_ : DSPNMF
        The choice, fitted to all rows along the path that was scored: from the first alpha of the grid to the chosen
        one. `transform` and `inverse_transform` are its own.
    components_ : ndarray of shape (n_components_, n_features)
        Its components.
    n_components_, similarity_, diffusion_steps_, alpha_, label_weight_
        What was chosen; together `best_params_`.
    best_score_, best_index_
        Mean score of the choice, and its row in `cv_results_`.
    cv_results_ : dict of arrays
        One entry for each candidate, for ``pandas.DataFrame``: `params`, `param_n_components`, `param_similarity`,
        `param_diffusion_steps`, `param_alpha`, `param_label_weight`, `split0_test_score` and so on, `mean_test_score`,
        `std_test_score`, `rank_test_score`, `mean_n_iter`, `mean_fit_time`, `std_fit_time`, and `stability`: how alike
        the components of the folds are (`dspnmf.stability.agreement`). Without labels all candidates have the chosen
        rank, as neighbours are kept the better the larger the rank.
    rank_results_ : dict of arrays or None
        Without labels, one entry for each rank: `n_components`, `mean_error`, `std_error`, `split0_error` and so on
        (mean square of X - UV over the held-out cells, as a share of the mean square of X), `stability`, `mean_n_iter`,
        `mean_fit_time`. With labels None.
    stability_ : ndarray of shape (n_components_,)
        How well each component of `components_` came back in the folds of the choice (`dspnmf.stability.stability`).
    alphas_ : ndarray
        The grid of alphas of the similarity that was chosen.
    n_splits_, n_iter_, n_features_in_, feature_names_in_
        Folds; iterations of the last fit; as everywhere in scikit-learn.

    See Also
    --------
    dspnmf.DSPNMF : what is fitted.
    sklearn.model_selection.GridSearchCV : for any pipeline and any grid.

    Notes
    -----
    Fits of one rank, similarity, label weight and fold are a path of rising alpha: each begins where the one before
    ended (the first, mostly plain NMF, at random). On five of the paper's data sets, at rank 10, that took 19 to 32 %
    fewer iterations than new starts and mostly ended at lower objectives. It also makes a fit depend on the grid below
    it.

    Without labels, similarities are compared by the neighbours that codes keep. That sees how well near rows stay near,
    and nothing of clusters: "diffused" moves rows towards others of their cluster on purpose, so it may lose this
    comparison and still be the better choice for clustering. Compare it with labels, or by what the codes are for.

    Neighbours of a held-out row are looked for among the training rows, by Euclidean distance, in X and in the codes;
    codes of held-out rows come from `transform`. Labels of held-out rows reach no fit.

    Fits of the search that stop at `max_iter` do not warn; `mean_n_iter` shows it.

    scikit-learn's callbacks (`set_callbacks`) see every fold of every rank, then every path of
    every fold, then the last fit.

    References
    ----------
    S. Wold: Cross-validatory estimation of the number of components in factor and principal components models,
    Technometrics 20(4), 1978.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import DSPNMFCV
    >>> X, y = load_wine(return_X_y=True)
    >>> search = DSPNMFCV([2, 3], alphas=3, cv=3, random_state=0).fit(minmax_scale(X), y)
    >>> search.n_components_, len(search.cv_results_["params"])
    (3, 6)
    >>> bool(search.best_score_ > 0.9)
    True
    """

    n_components: candidates.Ranks = parameter("auto", candidates.N_COMPONENTS, positional=True)
    similarities: str | Sequence[str] = parameter("gram", candidates.SIMILARITY)
    diffusion_steps: int | Sequence[int] = parameter(128, candidates.STEPS)
    alphas: candidates.Alphas = parameter(7, candidates.ALPHAS)
    label_weights: candidates.Weights = parameter((0.0,), candidates.WEIGHTS)
    cv: Splitter = parameter(5, CV)
    scoring: str | Callable[..., float] | None = parameter(None, SCORING)
    classifier: BaseEstimator | None = parameter(None, CLASSIFIER)
    rule: str = parameter("best", one_of(*results.RULES))
    n_neighbors: int = parameter(10, whole(1))
    n_init: int = parameter(1, whole(1))
    max_iter: int = parameter(200, whole(1))
    tol: float = parameter(1e-4, number(0))
    normalize: bool = parameter(True, FLAG)
    random_state: RandomState = parameter(None)
    n_jobs: int | None = parameter(None)
    verbose: int = parameter(0, either(FLAG, whole(0)))

    def fit(self, X: ArrayLike, y: ArrayLike = None) -> Self:
        """Choose rank and weights, and fit the choice to all of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative data, in memory.
        y : array-like of shape (n_samples,), optional
            Labels; -1 where unknown. Without, the choice is made without labels.

        Returns
        -------
        self
        """
        self.fit_transform(X, y)
        return self

    @with_callbacks
    def fit_transform(self, X: ArrayLike, y: ArrayLike = None) -> Array:
        """Choose rank and weights, fit the choice to all of X as in `fit`, and return its codes."""
        check_parameters(self)
        _validation.check_backend(self, backend_for(X), {"whole matrix": type(self).__name__})
        with unchanged_on_error(self):
            return self._search(X, y)

    def _search(self, X: ArrayLike, y: ArrayLike) -> Array:
        """The search, after the checks that need nothing but parameters; the codes of the choice."""
        X, _ = _validation.check_data(self, X, reset=True)
        y = checked_labels(y, X.shape[0])
        rng = check_random_state(self.random_state)
        fold_seed, cell_seed, last_seed = (int(seed) for seed in rng.randint(2**31 - 1, size=3))
        scoring, parts = self._scoring(y, fold_seed), folds(self.cv, X, y, fold_seed)
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=len(parts))]
        ranks = candidates.rank_grid(self.n_components, min(len(part.train) for part in parts), X.shape[1])
        shared = {name: getattr(self, name) for name in ("n_init", "max_iter", "tol", "normalize")}
        self.n_splits_, model = len(parts), DSPNMF(**shared)
        grids = candidates.alpha_grids(self.similarities, self.diffusion_steps, self.alphas, X, model)
        stages = 2 if y is not None else 3
        root = self._init_callback_context(max_subtasks=stages).call_on_fit_task_begin(estimator=self, X=X)
        fits = Fits(X, y, parts, seeds, model, self.n_jobs, Progress(self, root))
        self.rank_results_: dict[str, Any] | None = None
        if y is None:
            by_rank = fits.of_ranks(ranks, cell_seed)
            self.rank_results_ = results.rank_results(ranks, by_rank)
            for k, error in zip(ranks, self.rank_results_["mean_error"], strict=True):
                self._log(f"rank {k}: {error:.4f} of held-out cells are not predicted")
            ranks = ranks[[results.chosen(-results.values(by_rank), self.rule)]]
        tried, outcomes = fits.of_candidates(ranks, self.label_weights, grids, scoring)
        self.cv_results_ = results.cv_results(tried, outcomes)
        for candidate, mean in zip(tried, self.cv_results_["mean_test_score"], strict=True):
            shown = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in candidate._asdict().items()}
            self._log(", ".join(f"{name}={value}" for name, value in shown.items()) + f": {mean:.4f}")
        self.best_index_ = results.chosen(results.values(outcomes), self.rule)
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        choice = tried[self.best_index_]
        self.best_params_ = choice._asdict()
        self.n_components_, self.similarity_, self.diffusion_steps_, self.label_weight_, self.alpha_ = choice
        self.alphas_ = grids[choice.kind]
        self.best_estimator_, Z = fits.of_all_rows(choice, self.alphas_, last_seed)
        self.components_, self.n_iter_ = self.best_estimator_.components_, self.best_estimator_.n_iter_
        self.stability_ = stability([self.components_, *(one.components for one in outcomes[self.best_index_])])
        root.call_on_fit_task_end(estimator=self, X=X)
        return Z

    def transform(self, X: ArrayLike) -> Array:
        """Codes of new samples: `DSPNMF.transform` of the choice."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(_validation.check_data(self, X, reset=False)[0])

    def inverse_transform(self, Z: ArrayLike) -> Array:
        """Samples from codes: ``Z @ components_``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.inverse_transform(Z)

    def _scoring(self, y: Labels, seed: int) -> Scoring:
        """How codes are scored: with labels or without."""
        if y is not None:
            example = KNeighborsClassifier() if self.classifier is None else self.classifier
            return LabelScoring(self.classifier, check_scoring(example, self.scoring), y, seed)
        given = {"label_weights": max(self.label_weights) > 0}
        given |= {name: getattr(self, name) is not None for name in ("scoring", "classifier")}
        for name in given:
            if given[name]:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs labels, but y is None: pass y, or leave {name} at its "
                    "default to choose without labels."
                )
        return NeighbourScoring(self.n_neighbors)

    def _log(self, text: str) -> None:
        """Log a line if `verbose` is set."""
        if self.verbose:
            log_line(text)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Tags:
        """Tags of scikit-learn: as those of `DSPNMF`."""
        return DSPNMF().__sklearn_tags__()
