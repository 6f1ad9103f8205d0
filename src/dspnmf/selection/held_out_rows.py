"""Rows held out from a fit, and the score of their codes: by their labels, or by their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold, check_cv
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dspnmf._typing import Array, ArrayLike, Matrix
from dspnmf._validation import Allowed, ParameterError, check_labels, either, whole
from dspnmf.metrics import shared_neighbours

Indices = NDArray[np.intp]
Labels: TypeAlias = "NDArray[np.generic] | None"
Splitter: TypeAlias = int | BaseCrossValidator | Iterable[tuple[Indices, Indices]]
Score = Callable[[Array, Array], float]  # of the codes of training rows and of held-out rows; larger is better

CV = either(
    whole(2),
    Allowed(
        lambda value: not isinstance(value, str) and (hasattr(value, "split") or hasattr(value, "__iter__")),
        "a splitter of scikit-learn or (train, test) pairs of indices",
    ),
)
CLASSIFIER = Allowed(
    lambda value: value is None or (is_classifier(value) and not isinstance(value, type)),
    "None or a classifier of scikit-learn",
)
SCORING = Allowed(
    lambda value: value is None or isinstance(value, str) or callable(value), "None, a name or a function"
)
_NEAREST = 3  # neighbours of the default classifier


class Fold(NamedTuple):
    """Rows to fit, and rows held out."""

    train: Indices
    test: Indices


def folds(cv: Splitter, X: Matrix, y: Labels, seed: int) -> list[Fold]:
    """Shuffled folds of the rows, stratified where there are labels; rows without a label are always trained on."""
    n, count = X.shape[0], int(cv) if isinstance(cv, Integral) else None
    if y is None:
        if count and n < count:
            message = f"cv={cv} needs at least as many samples, but X has n_samples={n}: use fewer folds."
            raise ParameterError(message, "cv")
        splitter = KFold(count, shuffle=True, random_state=seed) if count else check_cv(cv)
        return [Fold(train, test) for train, test in splitter.split(X)]
    labelled, classes, columns = check_labels(y, n)
    _check_classes(count, classes, columns, n)
    known, unknown = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    splitter = StratifiedKFold(count, shuffle=True, random_state=seed) if count else check_cv(cv)
    parts = splitter.split(X[known], columns)
    return [Fold(np.sort(np.append(known[train], unknown)), known[test]) for train, test in parts]


def checked_labels(y: ArrayLike, n: int) -> Labels:
    """Labels as an array, one for each of n rows; None stays None."""
    if y is None:
        return None
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    check_labels(y, n)
    return y


def _check_classes(count: int | None, classes: NDArray[np.generic], columns: Indices, n: int) -> None:
    """An error unless there are two classes or more, and `count` rows or more of each."""
    if len(classes) < 2:
        found = f"the one class {classes.tolist()[0]!r}" if len(classes) else "no labels"
        raise ParameterError(
            f"y has {found} for n_samples={n} (-1 means unlabelled), but a classifier needs two classes or more: "
            "pass other labels, or leave y out to choose without labels.",
            "y",
        )
    members = np.bincount(columns)
    fewest = int(members.min())
    if count and fewest < count:
        fewer = f"use cv={fewest}, or " if fewest > 1 else ""
        raise ParameterError(
            f"Class {classes.tolist()[members.argmin()]!r} of y has {fewest} of n_samples={n}, but cv={count} folds "
            f"need that many of each class: {fewer}drop the class (label -1 keeps its rows, unlabelled).",
            "cv",
        )


class LabelScoring(NamedTuple):
    """A classifier learns the codes of the labelled training rows; a scorer scores it on the rows held out."""

    classifier: BaseEstimator | None
    scorer: Callable[..., float]
    y: NDArray[np.generic]
    seed: int

    def of_fold(self, X: Matrix, X_test: Matrix, fold: Fold) -> Score:
        """The score of codes of the rows of one fold."""
        y, y_test = self.y[fold.train], self.y[fold.test]
        known = check_labels(y, len(y))[0]
        classifier = self.classifier
        if classifier is None:
            classifier = KNeighborsClassifier(min(_NEAREST, int(known.sum())))
        seeded = {"random_state": self.seed} if classifier.get_params().get("random_state", 0) is None else {}

        def score(Z: Array, Z_test: Array) -> float:
            fitted = clone(classifier).set_params(**seeded).fit(Z[known], y[known])
            return float(self.scorer(fitted, Z_test, y_test))

        return score


class NeighbourScoring(NamedTuple):
    """The share of a held-out row's nearest training rows that are still its nearest in the codes (0 to 1)."""

    n_neighbors: int

    def of_fold(self, X: Matrix, X_test: Matrix, fold: Fold) -> Score:
        """The score of codes of the rows of one fold."""
        search = NearestNeighbors(n_neighbors=min(self.n_neighbors, X.shape[0]))
        before = search.fit(X).kneighbors(X_test, return_distance=False)

        def score(Z: Array, Z_test: Array) -> float:
            return shared_neighbours(before, search.fit(Z).kneighbors(Z_test, return_distance=False))

        return score


Scoring: TypeAlias = LabelScoring | NeighbourScoring
