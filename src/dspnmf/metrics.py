"""How well codes keep the shape of the data, and how distinct components are. No n x n matrix is formed.

X is n x m (dense or sparse), Z are codes n x k, V components k x m.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.manifold import trustworthiness as _trustworthiness
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_consistent_length

from dspnmf._typing import Array
from dspnmf.backends.norms import gram_norm2


def structure_error(X: Any, Z: Any) -> float:
    """``min_c ||XX' - c ZZ'|| / ||XX'||``: what is lost of the similarities, whatever the unit of the codes (0 to 1).

    By the angle between the two matrices: ``sqrt(1 - <XX', ZZ'>^2 / (||XX'||^2 ||ZZ'||^2))``, <XX', ZZ'> = ||X'Z||^2.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.metrics import structure_error
    >>> structure_error(np.eye(3), 2 * np.eye(3))
    0.0
    """
    X, Z = _pair(X, Z)
    gram = gram_norm2(X)
    codes = float(np.linalg.norm(Z.T @ Z) ** 2)
    if gram == 0:
        return 0.0
    if codes == 0:
        return 1.0
    overlap = float(np.linalg.norm(X.T @ Z) ** 4)
    return float(np.sqrt(max(1.0 - overlap / (gram * codes), 0.0)))


def neighbour_recall(X: Any, Z: Any, n_neighbors: int = 10) -> float:
    """Mean share of a row's nearest neighbours in X that are among its nearest in the codes (0 to 1).

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
    before, after = (NearestNeighbors(n_neighbors=n_neighbors).fit(A).kneighbors(return_distance=False) for A in (X, Z))
    shared = [len(np.intersect1d(one, other)) for one, other in zip(before, after, strict=True)]
    return float(np.mean(shared)) / n_neighbors


def trustworthiness(X: Any, Z: Any, n_neighbors: int = 10) -> float:
    """How far neighbours in the codes were neighbours in X (Venna & Kaski 2001), as in scikit-learn.

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


def component_correlation(V: Any) -> float:
    """Mean cosine between two components: 0 where none share a feature, 1 where all are alike.

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
    length = np.linalg.norm(V, axis=1, keepdims=True)
    unit = np.divide(V, length, out=np.zeros_like(V), where=length > 0)
    cosines = unit @ unit.T
    return float(cosines[~np.eye(len(V), dtype=bool)].mean())


def sparseness(A: Any) -> float:
    """Mean sparseness of the rows of A (Hoyer 2004): 0 where all entries of a row are equal, 1 where one is not zero.

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


def _pair(X: Any, Z: Any) -> tuple[Any, Array]:
    """Both as float arrays with the same number of rows."""
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    Z = check_array(Z, dtype=np.float64)
    check_consistent_length(X, Z)
    return X if sparse.issparse(X) else X.astype(np.float64), Z
