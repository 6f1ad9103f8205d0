"""Codes as points, and how well they keep the similarities of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, check_random_state

from dspnmf._typing import Array, ArrayLike, Matrix
from dspnmf.metrics import explained_share, structure_error
from dspnmf.plot import _inputs, _style

_Indices = NDArray[np.intp]
_NAMED = 12  # features that have their names in the plot
_MANY = 3000  # more points than this are drawn as a density


def codes(Z: ArrayLike, y: ArrayLike | None = None, which: tuple[int, int] = (0, 1), *, ax: Axes | None = None) -> Axes:
    """Plot two components of the codes against each other, one point per sample.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_components)
        Codes, as ``transform`` returns them.
    y : array-like of shape (n_samples,), optional
        Colours: at most 28 different words or whole numbers are labels, with a legend; other numbers are a scale.
    which : (int, int), default=(0, 1)
        The components on the horizontal and the vertical axis.

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
    Z = check_array(_inputs.as_floats(Z))
    a, b = which
    if not all(-Z.shape[1] <= part < Z.shape[1] for part in which):
        raise ValueError(f"which={which!r} names a component that Z does not have: it has 0 to {Z.shape[1] - 1}.")
    title, y = getattr(y, "name", None), None if y is None else _inputs.as_numpy(y)
    labels = None if y is None else _labels(y, len(Z))
    ax = _style.one_axes(ax)
    style: dict[str, Any] = {"s": float(np.clip(40_000 / len(Z), 10, 30)), "alpha": 0.75}
    if y is None:
        ax.scatter(Z[:, a], Z[:, b], **style | _style.point(0))
    elif labels is None:
        shades = mpl.colormaps["viridis"].with_extremes(bad=_style.GREY)
        drawn = ax.scatter(Z[:, a], Z[:, b], c=y.astype(np.float64), cmap=shades, plotnonfinite=True, **style)
        ax.figure.colorbar(drawn, ax=ax, label=str(title or "y"))
    else:
        for number, label in enumerate(labels):
            ax.scatter(Z[y == label, a], Z[y == label, b], label=str(label), **style | _style.point(number))
        _style.legend_on_the_right(ax, len(labels), title)
    ax.set(xlabel=f"component {a % Z.shape[1]}", ylabel=f"component {b % Z.shape[1]}")
    return ax


def points(
    model: BaseEstimator,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    which: tuple[int, int] | None = None,
    names: Sequence[object] | NDArray[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot samples (with X) or features (without) as points, over two components of a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted model with components, or a pipeline that ends in one.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), optional
        Samples, whose codes are drawn (``model.transform(X)``). Without, each point is a feature, at its weights.
    y : array-like of shape (n_samples,), optional
        Colours of samples, as in `codes`.
    which : (int, int), optional
        The components on the horizontal and the vertical axis; by default the two that explain most of X, or without X
        the two of the largest weights.
    names : sequence, optional
        One for each feature; the twelve features of the largest weights are named. By default the columns of the data
        frame the model was fitted on, or numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import DSPNMF, plot
    >>> X, y = load_wine(return_X_y=True)
    >>> model = DSPNMF(3, random_state=0).fit(minmax_scale(X))
    >>> len(plot.points(model).collections[0].get_offsets())
    13
    >>> len(plot.points(model, minmax_scale(X)).collections[0].get_offsets())
    178
    """
    V, last = _inputs.fitted_array(model, "components_"), _inputs.fitted(model)
    if len(V) < 2:
        raise ValueError("The model has one component, but points need two: plot it with plot.components(model).")
    if X is not None:
        Z = _inputs.as_floats(model.transform(X))
        before = model[:-1].transform(X) if isinstance(model, Pipeline) and len(model) > 1 else X
        before = before if sparse.issparse(before) else _inputs.as_floats(before)
        return codes(Z, y, _largest(explained_share(before, Z, V)) if which is None else which, ax=ax)
    if y is not None:
        raise ValueError("y colours samples, but X is None: pass the samples too.")
    a, b = _largest(np.linalg.norm(V, axis=1)) if which is None else which
    if not all(-len(V) <= part < len(V) for part in (a, b)):
        raise ValueError(f"which={which!r} names a component that the model does not have: it has 0 to {len(V) - 1}.")
    words = np.asarray(getattr(last, "feature_names_in_", np.arange(V.shape[1])) if names is None else names)
    if len(words) != V.shape[1]:
        raise ValueError(f"names has {len(words)} entries, but the model has {V.shape[1]} features: pass one for each.")
    ax = _style.one_axes(ax)
    ax.scatter(V[a], V[b], s=float(np.clip(40_000 / V.shape[1], 10, 30)), alpha=0.75, **_style.point(0))
    for feature in np.argsort(-np.hypot(V[a], V[b]), kind="stable")[:_NAMED]:
        at = (V[a, feature], V[b, feature])
        ax.annotate(str(words[feature]), at, xytext=(4, 3), textcoords="offset points", fontsize=8)
    ax.set(xlabel=f"weight in component {a % len(V)}", ylabel=f"weight in component {b % len(V)}")
    return ax


def _largest(sizes: Array) -> tuple[int, int]:
    """The numbers of the two largest, the largest first."""
    first, second = np.argsort(-sizes, kind="stable")[:2].tolist()
    return first, second


def structure(
    X: ArrayLike,
    Z: ArrayLike,
    *,
    n_pairs: int = 20_000,
    random_state: int | np.random.RandomState | None = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot the similarity of pairs of samples in the codes against that in the data.

    Where codes keep the structure, points lie on the diagonal: ``c z_i z_j'`` against ``x_i x_j'``, with the one factor
    c that fits best over all pairs. The title has `dspnmf.metrics.structure_error`, also over all pairs.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Data.
    Z : array-like of shape (n_samples, n_components)
        Codes of the data.
    n_pairs : int, default=20000
        Number of pairs of different samples to draw at random; all pairs, where there are no more.
    random_state : int, RandomState or None, default=0
        Seed of the drawing.

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
    X = check_array(X if sparse.issparse(X) else _inputs.as_floats(X), accept_sparse="csr", dtype=np.float64)
    Z = check_array(_inputs.as_floats(Z))
    check_consistent_length(X, Z)
    if n_pairs < 1 or len(Z) < 2:
        raise ValueError(
            f"n_pairs={n_pairs!r} of {len(Z)} samples leaves nothing to draw: pass at least 1, and 2 samples."
        )
    i, j = _pairs(len(Z), n_pairs, check_random_state(random_state))
    overlap, size = float(np.sum(np.square(X.T @ Z))), float(np.sum(np.square(Z.T @ Z)))
    before = _products(X, i, j)
    after = _products(Z, i, j) * (overlap / size if size > 0 else 0.0)
    ax = _style.one_axes(ax)
    low, high = float(min(before.min(), after.min(), 0.0)), float(max(before.max(), after.max())) or 1.0
    if len(i) > _MANY:
        area = (low, high, low, high)
        shades = ListedColormap(mpl.colormaps["Blues"](np.linspace(0.25, 1, 256)))  # a single pair is seen too
        drawn = ax.hexbin(before, after, gridsize=80, extent=area, bins="log", mincnt=1, cmap=shades, linewidths=0.2)
        ax.figure.colorbar(drawn, ax=ax, label="pairs")
    else:
        ax.scatter(before, after, s=8, alpha=0.5, linewidths=0, color=_style.colour(0))
    ax.plot([low, high], [low, high], color=_style.colour(1), linewidth=1, label="kept exactly")
    ax.legend(frameon=False, loc="lower right")
    ax.set(xlabel="similarity in the data", ylabel="similarity in the codes (best scale)")
    ax.set(xlim=(low, 1.02 * high), ylim=(low, 1.02 * high), aspect="equal")
    ax.set_title(f"structure error {structure_error(X, Z):.3f}")
    return ax


def _labels(y: NDArray[Any], n: int) -> NDArray[Any] | None:
    """The different labels, or None where y is a scale."""
    if y.shape != (n,):
        raise ValueError(f"y has shape {y.shape}, but must have ({n},): one label or number for each sample.")
    words = y.dtype.kind not in "iuf"
    if not words and (y.dtype.kind == "f" and not np.all(y == np.round(y))):
        return None
    labels = np.unique(y)
    if words and len(labels) > _style.STYLES:
        raise ValueError(
            f"y has {len(labels)} different labels, but {_style.STYLES} can be distinguished: merge some, or pass "
            "numbers."
        )
    return labels if len(labels) <= _style.STYLES else None


def _pairs(n: int, count: int, random: np.random.RandomState) -> tuple[_Indices, _Indices]:
    """All pairs i < j, or `count` of them drawn at random."""
    if n * (n - 1) // 2 <= count:
        return np.triu_indices(n, 1)
    i = random.randint(0, n, count)
    j = (i + random.randint(1, n, count)) % n
    return np.minimum(i, j), np.maximum(i, j)


def _products(A: Matrix, i: _Indices, j: _Indices) -> Array:
    """Inner products of rows i and j."""
    if isinstance(A, np.ndarray):
        return np.einsum("pf,pf->p", A[i], A[j])
    return np.asarray(A[i].multiply(A[j]).sum(axis=1)).ravel()
