"""Codes as points, and the similarities they keep."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length, check_random_state

from dspnmf._typing import Array
from dspnmf.metrics import structure_error
from dspnmf.plot import _look

_CROWD = 3000  # points from which on their number in a cell is drawn


def codes(Z: Any, y: Any = None, which: tuple[int, int] = (0, 1), *, ax: Axes | None = None) -> Axes:
    """Two components of the codes against each other, one point a sample.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        What ``transform`` returned.
    y : array-like of shape (n_samples,), optional
        Colours: words or whole numbers of at most 28 kinds are labels, with a legend; other numbers are a scale.
    which : (int, int), default=(0, 1)
        The components on the horizontal and the vertical axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import DSPNMF, plot
    >>> X, y = load_wine(return_X_y=True)
    >>> Z = DSPNMF(2, random_state=0).fit_transform(minmax_scale(X))
    >>> ax = plot.codes(Z, load_wine().target_names[y])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['class_0', 'class_1', 'class_2']
    """
    Z = check_array(_look.array(Z))
    a, b = which
    if not all(-Z.shape[1] <= part < Z.shape[1] for part in which):
        raise ValueError(f"which={which!r} names a component that Z does not have: it has 0 to {Z.shape[1] - 1}.")
    points, title = Z[:, [a, b]], getattr(y, "name", None)
    y = None if y is None else _look.host(y)
    labels = None if y is None else _labels(y, len(Z))
    ax = _look.one(ax)
    style: dict[str, Any] = {"s": float(np.clip(40_000 / len(Z), 10, 30)), "alpha": 0.75}
    if y is None:
        ax.scatter(points[:, 0], points[:, 1], **style | _look.point(0))
    elif labels is None:
        shades = mpl.colormaps["viridis"].with_extremes(bad=_look.GREY)
        drawn = ax.scatter(points[:, 0], points[:, 1], c=y.astype(np.float64), cmap=shades, plotnonfinite=True, **style)
        ax.figure.colorbar(drawn, ax=ax, label=str(title or "y"))
    else:
        for number, label in enumerate(labels):
            mine = points[y == label]
            ax.scatter(mine[:, 0], mine[:, 1], label=str(label), **style | _look.point(number))
        _look.legend_beside(ax, len(labels), title)
    ax.set(xlabel=f"component {a % Z.shape[1]}", ylabel=f"component {b % Z.shape[1]}")
    return ax


def structure(X: Any, Z: Any, *, n_pairs: int = 20_000, random_state: Any = 0, ax: Axes | None = None) -> Axes:
    """Similarities of samples in the codes against those in the data, over pairs of samples.

    Where codes keep the structure, points lie on the diagonal: ``c z_i z_j'`` against ``x_i x_j'``, with the one factor
    c that fits best over all pairs. The title has `dspnmf.metrics.structure_error`, also of all pairs.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The data.
    Z : array-like of shape (n_samples, n_components)
        Their codes.
    n_pairs : int, default=20000
        Draw so many pairs of different samples, taken at random; all, where there are no more.
    random_state : int, RandomState or None, default=0
        Which ones.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import DSPNMF, plot
    >>> X = minmax_scale(load_wine().data)
    >>> ax = plot.structure(X, DSPNMF(5, random_state=0).fit_transform(X))
    >>> ax.get_xlabel()
    'similarity in the data'
    """
    X = check_array(X if sparse.issparse(X) else _look.array(X), accept_sparse="csr", dtype=np.float64)
    Z = check_array(_look.array(Z))
    check_consistent_length(X, Z)
    if n_pairs < 1 or len(Z) < 2:
        raise ValueError(
            f"n_pairs={n_pairs!r} of {len(Z)} samples leaves nothing to draw: pass at least 1, and 2 samples."
        )
    i, j = _pairs(len(Z), n_pairs, check_random_state(random_state))
    overlap, size = float(np.sum(np.square(X.T @ Z))), float(np.sum(np.square(Z.T @ Z)))
    before = _products(X, i, j)
    after = _products(Z, i, j) * (overlap / size if size > 0 else 0.0)
    ax = _look.one(ax)
    low, high = float(min(before.min(), after.min(), 0.0)), float(max(before.max(), after.max())) or 1.0
    if len(i) > _CROWD:
        area = (low, high, low, high)
        shades = ListedColormap(mpl.colormaps["Blues"](np.linspace(0.25, 1, 256)))  # a single pair is seen too
        drawn = ax.hexbin(before, after, gridsize=80, extent=area, bins="log", mincnt=1, cmap=shades, linewidths=0.2)
        ax.figure.colorbar(drawn, ax=ax, label="pairs")
    else:
        ax.scatter(before, after, s=8, alpha=0.5, linewidths=0, color=_look.colour(0))
    ax.plot([low, high], [low, high], color=_look.colour(1), linewidth=1, label="kept exactly")
    ax.legend(frameon=False, loc="lower right")
    ax.set(xlabel="similarity in the data", ylabel="similarity in the codes (best scale)")
    ax.set(xlim=(low, 1.02 * high), ylim=(low, 1.02 * high), aspect="equal")
    ax.set_title(f"structure error {structure_error(X, Z):.3f}")
    return ax


def _labels(y: Any, n: int) -> Any:
    """The different labels, or None where y is a scale."""
    if y.shape != (n,):
        raise ValueError(f"y has shape {y.shape}, but must have ({n},): one label or number for each sample.")
    words = y.dtype.kind not in "iuf"
    if not words and (y.dtype.kind == "f" and not np.all(y == np.round(y))):
        return None
    labels = np.unique(y)
    if len(labels) <= _look.STYLES:
        return labels
    if words:
        raise ValueError(
            f"y has {len(labels)} different labels, but {_look.STYLES} can be told apart: merge some, or pass numbers."
        )
    return None


def _pairs(n: int, count: int, random: np.random.RandomState) -> tuple[Any, Any]:
    """Pairs i < j: all, or so many taken at random."""
    if n * (n - 1) // 2 <= count:
        return np.triu_indices(n, 1)
    i = random.randint(0, n, count)
    j = (i + random.randint(1, n, count)) % n
    return np.minimum(i, j), np.maximum(i, j)


def _products(A: Any, i: Any, j: Any) -> Array:
    """Inner products of rows."""
    if sparse.issparse(A):
        return np.asarray(A[i].multiply(A[j]).sum(axis=1)).ravel()
    return np.einsum("pf,pf->p", A[i], A[j])
