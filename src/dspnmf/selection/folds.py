"""Which rows are held out, cut before anything is fitted; and the labels that go with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dspnmf._validation import Allowed, ParameterError, check_labels, either, whole

Indices = NDArray[np.intp]


def _splits(value: Any) -> bool:
    listed = hasattr(value, "__iter__") and not isinstance(value, str)
    return (hasattr(value, "split") and not isinstance(value, str)) or listed


NUMBER = whole(2)
CV = either(NUMBER, Allowed(_splits, "a splitter of scikit-learn or (train, test) pairs of indices"))


class Fold(NamedTuple):
    """Rows to fit and rows to judge by."""

    train: Indices
    test: Indices


def folds(cv: Any, X: Any, y: Any, seed: int) -> list[Fold]:
    """Shuffled folds of the rows, stratified where there are labels; rows without a label are always trained on."""
    n = X.shape[0]
    if y is None:
        if NUMBER.test(cv) and n < cv:
            message = f"cv={cv} needs at least as many samples, but X has n_samples={n}: use fewer folds."
            raise ParameterError(message, "cv")
        splitter = KFold(cv, shuffle=True, random_state=seed) if NUMBER.test(cv) else check_cv(cv)
        return [Fold(train, test) for train, test in splitter.split(X)]
    labelled, classes, columns = check_labels(y, n)
    _check_classes(cv, classes, np.bincount(columns, minlength=len(classes)), n)
    known, unknown = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    splitter = StratifiedKFold(cv, shuffle=True, random_state=seed) if NUMBER.test(cv) else check_cv(cv)
    parts = splitter.split(X[known], columns)
    return [Fold(np.sort(np.append(known[train], unknown)), known[test]) for train, test in parts]


def labels(y: Any, n: int) -> Any:
    """Labels as an array, one for each of n rows; None stays None."""
    if y is None:
        return None
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    check_labels(y, n)
    return y


def is_labelled(y: Any) -> NDArray[np.bool_]:
    """Which labels are known: -1 is not."""
    return check_labels(y, len(y))[0]


def _check_classes(cv: Any, classes: Any, members: Indices, n: int) -> None:
    """Enough classes, and enough of each."""
    if len(classes) < 2:
        found = f"the one class {classes.tolist()[0]!r}" if len(classes) else "no labels"
        raise ParameterError(
            f"y has {found} for n_samples={n} (-1 means unlabelled), but a classifier needs two classes or more: "
            "pass other labels, or leave y out to choose without labels.",
            "y",
        )
    rarest, count = classes.tolist()[np.argmin(members)], int(members.min())
    if NUMBER.test(cv) and count < cv:
        fewer = f"use cv={count}, or " if count > 1 else ""
        raise ParameterError(
            f"Class {rarest!r} of y has {count} of n_samples={n}, but cv={cv} folds need that many of each class: "
            f"{fewer}drop the class (label -1 keeps its rows, unlabelled).",
            "cv",
        )
