"""Scaling for data in one unit: spectra, counts, pixels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dspnmf._typing import ArrayLike
from dspnmf._validation import FLAG, ParameterError, either, number

_NUMBER = number(0, strict=True)


class CommonScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide all features by one common number, so that features in one unit stay comparable.

    `sklearn.preprocessing.MinMaxScaler` and `MaxAbsScaler` divide every feature by a number of its own, which makes
    the noise of a weak band of a spectrum as large as its peaks.

    Parameters
    ----------
    divisor : float or None, default=None
        The number; None: the largest value of the data that are fitted.
    clip : bool, default=False
        Whether negative values become 0.

    Attributes
    ----------
    scale_ : float
        The number.

    Examples
    --------
    >>> from dspnmf.preprocessing import CommonScaler
    >>> CommonScaler().fit_transform([[1.0, 2.0], [3.0, 4.0]])
    array([[0.25, 0.5 ],
           [0.75, 1.  ]])
    """

    def __init__(self, divisor: float | None = None, *, clip: bool = False) -> None:
        self.divisor = divisor
        self.clip = clip

    def fit(self, X: ArrayLike, y: ArrayLike = None) -> Self:
        """Find the number; y is ignored."""
        for name, allowed in (("divisor", either(_NUMBER)), ("clip", FLAG)):
            value = getattr(self, name)
            if not allowed.test(value) and not (name == "divisor" and value is None):
                words = f"{name}={value!r} is not allowed in CommonScaler: it must be {allowed.words}"
                raise ParameterError(f"{words}{', or None' * (name == 'divisor')}.", name)
        X = self._checked(X, reset=True)
        values = X.data if sparse.issparse(X) else X
        largest = float(np.nanmax(values, initial=0.0))
        self.scale_ = float(self.divisor) if self.divisor is not None else largest if 0 < largest < np.inf else 1.0
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Divide by the number."""
        X = self._checked(X, reset=False)
        if not _NUMBER.test(self.scale_):
            raise ValueError(f"scale_={self.scale_!r} must be {_NUMBER.words}: fit the scaler again.")
        X = X / X.dtype.type(self.scale_)
        if self.clip:
            X = X.maximum(0) if sparse.issparse(X) else np.maximum(X, 0)
        return X

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Multiply with the number."""
        check_is_fitted(self)
        return X * self.scale_

    def _checked(self, X: ArrayLike, *, reset: bool) -> Any:
        """X as an array of floats, with the features of the fit."""
        if not reset:
            check_is_fitted(self)
        return validate_data(
            self, X, reset=reset, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        """Tags of scikit-learn: sparse or dense, missing values, precision kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
