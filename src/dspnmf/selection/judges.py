"""How good codes are, on rows the fit has not seen: by their labels, or by their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from dspnmf._typing import Array
from dspnmf._validation import Allowed
from dspnmf.selection.folds import Fold, is_labelled

CLASSIFIER = Allowed(
    lambda value: value is None or (is_classifier(value) and not isinstance(value, type)),
    "None or a classifier of scikit-learn",
)
SCORING = Allowed(
    lambda value: value is None or isinstance(value, str) or callable(value), "None, a name or a function"
)
NEAREST = 3  # neighbours of the default classifier
Score = Callable[[Array, Array], float]  # of the codes trained on and those held out; larger is better


class Judge(Protocol):
    """Says how good codes are."""

    def of(self, X: Any, X_test: Any, fold: Fold) -> Score:
        """For the rows of one fold."""
        ...


class ByLabels(NamedTuple):
    """A classifier learns the codes of the labelled training rows, and a scorer judges it on those held out."""

    classifier: Any
    scorer: Callable[..., float]
    y: Any
    seed: int

    def of(self, X: Any, X_test: Any, fold: Fold) -> Score:
        """For the rows of one fold."""
        y, y_test = self.y[fold.train], self.y[fold.test]
        known = is_labelled(y)
        classifier = self.classifier
        if classifier is None:
            classifier = KNeighborsClassifier(min(NEAREST, int(known.sum())))
        given = classifier.get_params()
        own = {"random_state": self.seed} if "random_state" in given and given["random_state"] is None else {}

        def score(Z: Array, Z_test: Array) -> float:
            fitted = clone(classifier).set_params(**own).fit(Z[known], y[known])
            return float(self.scorer(fitted, Z_test, y_test))

        return score


class ByNeighbours(NamedTuple):
    """The share of a held-out row's nearest training rows that are still its nearest in the codes (0 to 1)."""

    n_neighbors: int

    def of(self, X: Any, X_test: Any, fold: Fold) -> Score:
        """For the rows of one fold."""
        count = min(self.n_neighbors, X.shape[0])
        before = _nearest(X, X_test, count)

        def score(Z: Array, Z_test: Array) -> float:
            pairs = zip(before, _nearest(Z, Z_test, count), strict=True)
            return float(np.mean([len(np.intersect1d(one, other)) for one, other in pairs])) / count

        return score


def _nearest(A: Any, B: Any, count: int) -> Array:
    """The nearest rows of A, for every row of B."""
    return NearestNeighbors(n_neighbors=count).fit(A).kneighbors(B, return_distance=False)
