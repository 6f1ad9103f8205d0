"""NPE: a linear, signed relative, for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dspnmf import graphs
from dspnmf._typing import Array, ArrayLike, Sparse
from dspnmf._validation import MATRIX, check_parameters, either, number, one_of, whole
from dspnmf.estimators.known_parameters import KnownParameters
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.unchanged import unchanged_on_error


@dataclass(eq=False, repr=False)
class NPE(KnownParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Neighbourhood preserving embedding: the linear map whose images are best rebuilt by the LLE weights of the rows.

    Minimises ``||(I - R) X A||^2`` subject to ``A'X'XA = I``, R as in `dspnmf.graphs.lle_weights`; X is centred.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions; at most the rank of the centred data.
    n_neighbors : int, default=5
        Neighbours a row is rebuilt from.
    reg : float, default=1e-3
        Regularisation of the weights, as in scikit-learn's LLE.
    graph : "knn" or matrix of shape (n_samples, n_samples), default="knn"
        Weights R of your own.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        A', signed.
    mean_ : ndarray of shape (n_features,)
        What is subtracted first.
    eigenvalues_ : ndarray of shape (min(n_components, rank),)
        What each dimension loses; dimensions beyond the rank of the data are zero.

    Notes
    -----
    As in the reference; directions in which the data do not vary are removed by an SVD first.

    References
    ----------
    X. He, D. Cai, S. Yan, H.-J. Zhang: Neighborhood preserving embedding, ICCV 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import NPE
    >>> NPE(2).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 2)
    """

    n_components: int = parameter(2, whole(1), positional=True)
    n_neighbors: int = parameter(5, whole(1))
    reg: float = parameter(1e-3, number(0, strict=True))
    graph: str | Sparse = parameter("knn", either(one_of("knn"), MATRIX))

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Find the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data of any sign.
        y : None
            Ignored.
        """
        check_parameters(self)
        with unchanged_on_error(self):
            self._fit(X)
        return self

    def _fit(self, X: ArrayLike) -> None:
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        known = not isinstance(self.graph, str)
        R = graphs.check_weights(self.graph, len(X)) if known else graphs.lle_weights(X, self.n_neighbors, self.reg)
        self.mean_ = X.mean(axis=0)
        left, singular, right = linalg.svd(X - self.mean_, full_matrices=False)
        rank = int((singular > singular[0] * max(X.shape) * np.finfo(X.dtype).eps).sum())
        k = min(self.n_components, max(rank, 1))
        rest = left[:, : max(rank, 1)] - R @ left[:, : max(rank, 1)]
        values, vectors = linalg.eigh(rest.T @ rest)
        scale = np.where(singular[: max(rank, 1)] > 0, singular[: max(rank, 1)], 1)
        components = (right[: max(rank, 1)].T / scale) @ vectors[:, :k]
        components = np.pad(components, ((0, 0), (0, self.n_components - k)))  # no further direction varies
        signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
        self.components_ = (components * np.where(signs == 0, 1, signs)).T.astype(X.dtype)
        self.eigenvalues_ = values[:k]

    def transform(self, X: ArrayLike) -> Array:
        """Images of the rows of X."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return np.asarray((X - self.mean_) @ self.components_.T)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        """Precision is kept."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
