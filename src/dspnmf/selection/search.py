"""DSPNMFCV: rank and weights chosen by what they are worth on data that was held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import check_scoring
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dspnmf import _validation
from dspnmf._typing import Array
from dspnmf._validation import FLAG, Allowed, either, number, one_of, whole
from dspnmf.backends import backend_for
from dspnmf.estimators.progress import log_line
from dspnmf.selection import grid, table
from dspnmf.selection.folds import CV, folds, labels
from dspnmf.selection.judges import CLASSIFIER, SCORING, ByLabels, ByNeighbours, Judge
from dspnmf.selection.path import Outcome
from dspnmf.selection.table import Candidate
from dspnmf.selection.trials import Trials
from dspnmf.stability import stability


class DSPNMFCV(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """DSP-NMF with rank and weights chosen by cross-validation.

    Without labels, the rank is the one that best predicts cells of X it has not seen, and alpha the one whose codes
    best keep the neighbours of rows it has not seen. With labels, both are those whose codes a classifier does best
    with, on rows that neither the factorization nor the classifier has seen. In the end the choice is fitted to all
    rows.

    Parameters
    ----------
    n_components : "auto", int or list of int, default="auto"
        Ranks to choose from. "auto": those of 2, 3, 5, 8, 12 and 20 that are not above the numbers of features and of
        training rows.
    alphas : int or list of float, default=7
        Weights of the structure to choose from. A number means a grid of that size: 0 (plain NMF), and the others
        evenly in the logarithm from 0.1 to 10,000 times the natural weight ``||X||^2 / ||XX'||^2``, at which both terms
        of the objective have the same size at U = 0. With 7 these are 0, 0.1, 1, 10, 100, 1,000 and 10,000. On the
        paper's data sets (features in [0, 1]) the paper's alpha = 1 is 350 to 160,000 times the natural weight, and the
        scores of its comparison are best, on average, near 100.
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
        "best" takes the best mean. "one-se" takes the smallest rank, then the smallest label weight, then the smallest
        alpha whose mean is at most one standard error (over the folds, of the best) below the best.
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
    n_components_, alpha_, label_weight_
        What was chosen; together `best_params_`.
    best_score_, best_index_
        Mean score of the choice, and its row in `cv_results_`.
    cv_results_ : dict of arrays
        One entry for each candidate, for ``pandas.DataFrame``: `params`, `param_n_components`, `param_alpha`,
        `param_label_weight`, `split0_test_score` and so on, `mean_test_score`, `std_test_score`, `rank_test_score`,
        `mean_n_iter`, `mean_fit_time`, `std_fit_time`, and `stability`: how alike the components of the folds are
        (`dspnmf.stability.agreement`). Without labels all candidates have the chosen rank, as neighbours are kept the
        better the larger the rank.
    rank_results_ : dict of arrays or None
        Without labels, one entry for each rank: `n_components`, `mean_error`, `std_error`, `split0_error` and so on
        (mean square of X - UV over the held-out cells, as a share of the mean square of X), `stability`, `mean_n_iter`,
        `mean_fit_time`. With labels None.
    stability_ : ndarray of shape (n_components_,)
        How well each component of `components_` came back in the folds of the choice (`dspnmf.stability.stability`).
    alphas_ : ndarray
        The grid of alphas.
    n_splits_, n_iter_, n_features_in_, feature_names_in_
        Folds; iterations of the last fit; as everywhere in scikit-learn.

    See Also
    --------
    dspnmf.DSPNMF : what is fitted.
    sklearn.model_selection.GridSearchCV : for any pipeline and any grid.

    Notes
    -----
    Fits of one rank, label weight and fold are a path of rising alpha: each begins where the one before ended (the
    first, mostly plain NMF, at random). On five of the paper's data sets, at rank 10, that took 19 to 32 % fewer
    iterations than new starts and mostly ended at lower objectives. It also makes a fit depend on the grid below it.

    Neighbours of a held-out row are looked for among the training rows, by Euclidean distance, in X and in the codes;
    codes of held-out rows come from `transform`. Labels of held-out rows reach no fit.

    Fits of the search that stop at `max_iter` say nothing; `mean_n_iter` does.

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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "n_components": grid.N_COMPONENTS,
        "alphas": grid.ALPHAS,
        "label_weights": grid.LABEL_WEIGHTS,
        "cv": CV,
        "scoring": SCORING,
        "classifier": CLASSIFIER,
        "rule": one_of(*table.RULES),
        "n_neighbors": whole(1),
        "n_init": whole(1),
        "max_iter": whole(1),
        "tol": number(0),
        "normalize": FLAG,
        "verbose": either(FLAG, whole(0)),
    }

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        alphas: Any = 7,
        label_weights: Any = (0.0,),
        cv: Any = 5,
        scoring: Any = None,
        classifier: Any = None,
        rule: str = "best",
        n_neighbors: int = 10,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        normalize: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.alphas = alphas
        self.label_weights = label_weights
        self.cv = cv
        self.scoring = scoring
        self.classifier = classifier
        self.rule = rule
        self.n_neighbors = n_neighbors
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
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

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Choose rank and weights, fit the choice to all of X, and return its codes.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components_)
        """
        _validation.check_parameters(self, self._allowed)
        _validation.check_backend(self, backend_for(X), {"whole matrix": type(self).__name__})
        X, _ = _validation.check_data(self, X, reset=True)
        y = labels(y, X.shape[0])
        rng = check_random_state(self.random_state)
        cut, cells, last = (int(seed) for seed in rng.randint(2**31 - 1, size=3))
        judge, parts = self._judge(y, cut), folds(self.cv, X, y, cut)
        starts = [int(seed) for seed in rng.randint(2**31 - 1, size=len(parts))]
        ranks = grid.ranks(self.n_components, min(len(part.train) for part in parts), X.shape[1])
        self.n_splits_, self.alphas_ = len(parts), grid.alphas(self.alphas, X)
        common = {"n_init": self.n_init, "max_iter": self.max_iter, "tol": self.tol}
        trials = Trials(X, y, parts, starts, common, self.n_jobs)
        self.rank_results_: dict[str, Any] | None = None
        if y is None:
            ranks = ranks[[self._rank(trials, ranks, cells)]]
        candidates, outcomes = trials.candidates(ranks, self.label_weights, self.alphas_, self.normalize, judge)
        choice = self._choose(candidates, outcomes)
        self.best_estimator_, Z = trials.refit(choice, self.alphas_, self.normalize, last)
        self.components_, self.n_iter_ = self.best_estimator_.components_, self.best_estimator_.n_iter_
        self.stability_ = stability([self.components_, *(one.components for one in outcomes[self.best_index_])])
        return Z

    def transform(self, X: Any) -> Array:
        """Codes of new samples (see `DSPNMF.transform`).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components_)
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(_validation.check_data(self, X, reset=False)[0])

    def inverse_transform(self, Z: Any) -> Array:
        """Samples from codes: ``Z @ components_``.

        Parameters
        ----------
        Z : {array-like, sparse matrix} of shape (n_samples, n_components_)

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(Z)

    def _judge(self, y: Any, seed: int) -> Judge:
        """Who says how good codes are."""
        if y is not None:
            example = KNeighborsClassifier() if self.classifier is None else self.classifier
            return ByLabels(self.classifier, check_scoring(example, self.scoring), y, seed)
        idle = {"label_weights": max(self.label_weights) == 0}
        idle |= {name: getattr(self, name) is None for name in ("scoring", "classifier")}
        for name in idle:
            if not idle[name]:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs labels, but y is None: pass y, or leave {name} as it is by "
                    "default to choose without labels."
                )
        return ByNeighbours(self.n_neighbors)

    def _rank(self, trials: Trials, ranks: Any, cells: int) -> int:
        """Which rank predicts held-out cells best."""
        outcomes = trials.speckled(ranks, cells)
        self.rank_results_ = found = table.rank_results(ranks, outcomes)
        for k, error in zip(ranks, found["mean_error"], strict=True):
            self._say(f"rank {k}: {error:.4f} of held-out cells are not predicted")
        return table.chosen(-np.array([[one.error for one in row] for row in outcomes]), self.rule)

    def _choose(self, candidates: list[Candidate], outcomes: list[list[Outcome]]) -> Candidate:
        """The candidate the rule takes."""
        self.cv_results_ = table.results(candidates, outcomes)
        for candidate, mean in zip(candidates, self.cv_results_["mean_test_score"], strict=True):
            self._say(", ".join(f"{name}={value:.4g}" for name, value in candidate._asdict().items()) + f": {mean:.4f}")
        self.best_index_ = table.chosen(np.array([[one.score for one in row] for row in outcomes]), self.rule)
        choice = candidates[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_params_ = choice._asdict()
        self.n_components_, self.label_weight_, self.alpha_ = choice
        return choice

    def _say(self, text: str) -> None:
        """What was found, for `verbose`."""
        if self.verbose:
            log_line(text)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        """Tags of scikit-learn: as those of `DSPNMF`."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
