"""Metrics of how well codes keep the structure of the data, and of components. No n x n matrix is formed.

X is n x m (dense or sparse), Z are codes n x k, V components k x m.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.manifold import trustworthiness as _trustworthiness
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_consistent_length

from dspnmf._typing import Array, ArrayLike, Matrix
from dspnmf.backends.norms import gram_norm2

_BLOCK = 2**22  # numbers of X at once


def structure_error(X: ArrayLike, Z: ArrayLike, gram: float | None = None) -> float:
    """``min_c ||XX' - c ZZ'|| / ||XX'||``: relative error of the similarities at the best scale of the codes (0 to 1).

    From the angle between both matrices: ``sqrt(1 - <XX', ZZ'>^2 / (||XX'||^2 ||ZZ'||^2))``, <XX', ZZ'> = ||X'Z||^2.
    `gram` is ||XX'||^2, where it is known from other codes of the same data.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import structure_error
    >>> structure_error(np.eye(3), 2 * np.eye(3))
    0.0
    """
    X, Z = _pair(X, Z)
    gram = gram_norm2(X) if gram is None else gram
    codes = float(np.linalg.norm(Z.T @ Z) ** 2)
    if gram == 0:
        return 0.0
    if codes == 0:
        return 1.0
    overlap = float(np.linalg.norm(X.T @ Z) ** 4)
    return float(np.sqrt(max(1.0 - overlap / (gram * codes), 0.0)))


def explained_share(X: ArrayLike, Z: ArrayLike, V: ArrayLike) -> Array:
    """The share of the squares of X that each component explains; together ``1 - ||X - ZV||^2 / ||X||^2``.

    Component a has ``<z_a v_a', 2X - ZV> / ||X||^2``: what ``||X - ZV||^2`` loses by it, where what two components
    explain together is halved. Cells of X that are NaN take no part.

    Parameters
    ----------
    X : {array-like, sparse matrix, memory map, HDF5 dataset} of shape (n_samples, n_features)
        Data; read in blocks of rows.
    Z : array-like of shape (n_samples, n_components)
        Codes.
    V : array-like of shape (n_components, n_features)
        Components.

    Returns
    -------
    shares : ndarray of shape (n_components,)

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import explained_share
    >>> X = np.diag([3.0, 4.0])
    >>> explained_share(X, np.eye(2), X)
    array([0.36, 0.64])
    """
    Z, V = (np.asarray(A, dtype=np.float64) for A in (Z, V))
    X = X if hasattr(X, "shape") else np.asarray(X)
    step, norm2, products = max(1, _BLOCK // X.shape[1]), 0.0, np.zeros(V.shape[::-1])
    rows: Any
    for begin in range(0, X.shape[0], step):
        rows, codes = X[begin : begin + step], Z[begin : begin + step]
        rows = rows if sparse.issparse(rows) else np.asarray(rows)
        values: Any = rows.data if sparse.issparse(rows) else rows
        if values.size and np.isnan(values.min()):
            rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
            known = ~np.isnan(rows)
            rows = np.where(known, rows, 0.0)
            products += (2 * rows - known * (codes @ V)).T @ codes
            values = rows
        else:
            products += 2 * np.asarray(rows.T @ codes) - V.T @ (codes.T @ codes)
        norm2 += float(np.square(values, dtype=np.float64).sum())
    return np.einsum("ja,aj->a", products, V) / (norm2 or 1.0)


def neighbour_recall(X: ArrayLike, Z: ArrayLike, n_neighbors: int = 10) -> float:
    """Mean share of a row's nearest neighbours in X that are also its nearest neighbours in the codes (0 to 1).

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import neighbour_recall
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> neighbour_recall(X, 3 * X, n_neighbors=2)
    1.0
    """
    X, Z = _pair(X, Z)
    n_neighbors = min(n_neighbors, X.shape[0] - 1)
    if n_neighbors < 1:
        return 1.0
    search = NearestNeighbors(n_neighbors=n_neighbors)
    return shared_neighbours(*(search.fit(A).kneighbors(return_distance=False) for A in (X, Z)))


def shared_neighbours(before: NDArray[np.intp], after: NDArray[np.intp]) -> float:
    """Mean share of the neighbours in each row (n x n_neighbors, by number) that both lists have."""
    shared = [len(np.intersect1d(one, other)) for one, other in zip(before, after, strict=True)]
    return float(np.mean(shared)) / before.shape[1]


def trustworthiness(X: ArrayLike, Z: ArrayLike, n_neighbors: int = 10) -> float:
    """Trustworthiness of neighbours in the codes (Venna & Kaski 2001), from scikit-learn: 1 if all are neighbours in X.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import trustworthiness
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> trustworthiness(X, 3 * X, n_neighbors=2)
    1.0
    """
    X, Z = _pair(X, Z)
    return float(_trustworthiness(X, Z, n_neighbors=max(1, min(n_neighbors, (X.shape[0] - 1) // 2))))


def component_correlation(V: ArrayLike) -> float:
    """Mean cosine between two components: 0 if none share a feature, 1 if all are proportional.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import component_correlation
    >>> component_correlation(np.eye(3))
    0.0
    """
    V = check_array(V, dtype=np.float64)
    if len(V) < 2:
        return 0.0
    return float(component_cosines(V)[~np.eye(len(V), dtype=bool)].mean())


def component_cosines(V: Array) -> Array:
    """Cosines between all pairs of components (k x k); 0 for a component of zeros."""
    length = np.linalg.norm(V, axis=1, keepdims=True)
    unit = np.divide(V, length, out=np.zeros_like(V), where=length > 0)
    return np.asarray(unit @ unit.T)


def sparseness(A: ArrayLike) -> float:
    """Mean sparseness of the rows of A (Hoyer 2004): 0 if all entries of a row are equal, 1 if only one is not zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import sparseness
    >>> sparseness(np.eye(4)), sparseness(np.ones((2, 4)))
    (1.0, 0.0)
    """
    A = np.abs(check_array(A, dtype=np.float64))
    m = A.shape[1]
    if m < 2:
        return 0.0
    sums, lengths = A.sum(axis=1), np.linalg.norm(A, axis=1)
    ratio = np.divide(sums, lengths, out=np.full(len(A), np.sqrt(m)), where=lengths > 0)
    return float(((np.sqrt(m) - ratio) / (np.sqrt(m) - 1)).mean())


def _pair(X: ArrayLike, Z: ArrayLike) -> tuple[Matrix, Array]:
    """Both as float arrays, after a check that they have the same number of rows."""
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    Z = check_array(Z, dtype=np.float64)
    check_consistent_length(X, Z)
    return X if sparse.issparse(X) else X.astype(np.float64), Z
