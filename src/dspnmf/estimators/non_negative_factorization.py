"""The factorization as a function, as scikit-learn has it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike
from dspnmf.estimators.nmf import NMF


def non_negative_factorization(
    X: ArrayLike,
    W: ArrayLike = None,
    H: ArrayLike = None,
    n_components: int | str | None = "auto",
    *,
    update_H: bool = True,
    init: str | None = None,
    **parameters: Any,
) -> tuple[Array, Array, int]:
    """Non-negative factors of X: `NMF` as a function, called as scikit-learn's of that name.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Non-negative data, of any kind that `NMF` takes.
    W, H : array-like of shape (n_samples, n_components) and (n_components, n_features), optional
        Start for ``init="custom"``; H alone: the components, for ``update_H=False``.
    n_components : int, "auto" or None, default="auto"
        Rank. "auto": that of W or H where these are used, otherwise, as with None, the number of features.
    update_H : bool, default=True
        Whether components are learned. False: H is kept, and W is the optimum for it.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"} or None, default=None
        Start, as in `NMF`.
    **parameters
        Every other parameter of `NMF`: `solver`, `tol`, `max_iter`, `alpha_W`, `alpha_H`, `l1_ratio`, `random_state`,
        `verbose`, `shuffle`, ...

    Returns
    -------
    W : ndarray of shape (n_samples, n_components)
        Codes.
    H : ndarray of shape (n_components, n_features)
        Components.
    n_iter : int
        Iterations; 1 where only W was solved for.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import non_negative_factorization
    >>> X = np.array([[1.0, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> W, H, n_iter = non_negative_factorization(X, n_components=2, random_state=0, tol=1e-6)
    >>> bool(np.abs(X - W @ H).max() < 0.05)
    True
    """
    if not update_H:
        if H is None:
            raise ValueError("H=None, but update_H=False keeps it: pass the components, or leave update_H at True.")
        if W is not None:
            _warn("When update_H=False, the provided initial W is not used.")
        k = int(np.shape(H)[0])
        if n_components not in ("auto", None, k):
            raise ValueError(f"n_components={n_components!r}, but H has {k} rows: leave n_components out.")
        return NMF(k, init="random", **parameters).codes_for_components(X, H), H, 1
    if init != "custom" and not (W is None and H is None):
        _warn("When init!='custom', provided W or H are ignored. Set init='custom' to start from them.")
        W = H = None
    model = NMF(n_components, init=init, **parameters)
    codes = model.fit_transform(X, W=W, H=H)
    return codes, model.components_, model.n_iter_


def _warn(text: str) -> None:
    """Something given that has no effect."""
    warnings.warn(text, RuntimeWarning, stacklevel=_validation.users_frame())
