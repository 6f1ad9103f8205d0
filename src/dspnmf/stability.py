"""Stability of components over several fits: matched one to one and compared by their cosines.

A fit is given by its components V (k x m). Their order and length are arbitrary, so they are matched first: the pairing
with the largest sum of cosines (an assignment problem, solved exactly). Components are non-negative, so unrelated ones
have cosines above 0 too, the more so the denser they are: compare ranks and settings on the same data, not different
data sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.utils import check_array

from dspnmf._typing import Array, ArrayLike


def match(V1: ArrayLike, V2: ArrayLike) -> tuple[NDArray[np.intp], Array]:
    """Pair the components of two fits: ``V2[order[i]]`` is the partner of ``V1[i]``.

    Parameters
    ----------
    V1, V2 : array-like of shape (n_components, n_features)
        Components of two fits of the same rank.

    Returns
    -------
    order : ndarray of shape (n_components,)
        For each component of V1, the number of its partner in V2.
    cosines : ndarray of shape (n_components,)
        Cosines of the pairs: 1 where they differ only in length, 0 for a component of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.stability import match
    >>> order, cosines = match(np.eye(3), 5 * np.eye(3)[[2, 0, 1]])
    >>> order.tolist(), cosines.tolist()
    ([1, 2, 0], [1.0, 1.0, 1.0])
    """
    return _paired(*_unit_length([V1, V2]))


def stability(runs: Sequence[ArrayLike], *, reference: int = 0) -> Array:
    """Score how well each component of one fit is found again in the others: its mean cosine with its partners.

    Parameters
    ----------
    runs : sequence of array-like of shape (n_components, n_features)
        Components of two or more fits: from different starts, or on different samples of the same data.
    reference : int, default=0
        The fit whose components are scored.

    Returns
    -------
    scores : ndarray of shape (n_components,)
        1 where every other fit has the same component.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.stability import stability
    >>> stability([np.eye(2), np.eye(2)[::-1], [[0.0, 1.0], [1.0, 1.0]]]).round(3).tolist()
    [0.854, 1.0]
    """
    units = _unit_length(runs)
    if not -len(units) <= reference < len(units):
        raise ValueError(f"reference={reference} is not allowed: there are {len(units)} fits, numbered from 0.")
    first = units.pop(reference)
    return np.asarray(np.mean([_paired(first, other)[1] for other in units], axis=0))


def agreement(runs: Sequence[ArrayLike]) -> float:
    """Score how similar several fits are (`runs` as in `stability`): the mean cosine of partners over all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.stability import agreement
    >>> agreement([np.eye(3), np.eye(3)[::-1], 2 * np.eye(3)])
    1.0
    """
    pairs = combinations(_unit_length(runs), 2)
    return float(np.mean([_paired(one, other)[1].mean() for one, other in pairs]))


def _unit_length(runs: Sequence[ArrayLike]) -> list[Array]:
    """Components scaled to unit length, after a check that the fits can be compared."""
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} fit was given, but components can only be compared between two or more.")
    units: list[Array] = []
    for V in runs:
        V = check_array(sparse.csr_array(V).toarray() if sparse.issparse(V) else V, dtype=np.float64)
        if units and V.shape != units[0].shape:
            raise ValueError(
                f"Components of shape {V.shape} cannot be matched with components of shape {units[0].shape}: "
                "compare fits of the same rank and the same features."
            )
        largest = np.abs(V).max(axis=1, keepdims=True)  # squares of very small or large numbers leave the range
        V = V / np.where(largest > 0, largest, 1.0)
        length = np.linalg.norm(V, axis=1, keepdims=True)
        units.append(V / np.where(length > 0, length, 1.0))
    return units


def _paired(one: Array, other: Array) -> tuple[NDArray[np.intp], Array]:
    """Pair components of unit length for the largest sum of cosines; returns the partners and the cosines."""
    cosines = one @ other.T
    order = linear_sum_assignment(cosines, maximize=True)[1]
    return order, np.minimum(cosines[np.arange(len(one)), order], 1.0)
