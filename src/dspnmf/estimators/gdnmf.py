"""GDNMF: GNMF that learns from labels too."""

from __future__ import annotations

from dataclasses import dataclass

from dspnmf._validation import number
from dspnmf.estimators.gnmf import GNMF
from dspnmf.estimators.parameters import parameter


@dataclass(eq=False, repr=False)
class GDNMF(GNMF):
    """Graph-regularised discriminative NMF: GNMF and ``label_weight ||Y - U B||^2`` over the labelled rows.

    Y holds one column per class (one-hot), B >= 0 is learned with the components. Semi-supervised: label -1 means
    unknown; where all are, it is GNMF. Components v_a and rows b_a of B have unit length together, ``|v_a|^2 +
    c |b_a|^2 = 1`` with c the square of X's largest entry or `label_weight`, whichever is less: one that knows labels
    only is held to the graph, too.

    Parameters
    ----------
    label_weight : float, default=1.0
        Weight of the labels.
    n_components, beta, n_neighbors, weights, normalized_laplacian, graph, solver, init, n_init, max_iter, tol, \
inner_iter, alpha_W, alpha_H, l1_ratio, random_state, verbose
        As in `GNMF`; "paper" is the multiplicative rule of this objective.

    Attributes
    ----------
    label_components_ : ndarray of shape (n_components, n_classes)
        B; ``U B`` scores the classes.
    classes_ : ndarray
        The labels, in the order of the columns of B.

    Notes
    -----
    Labels are used in `fit` only: `transform` neither needs nor sees them. Reconstructed from the description in the
    DSP-NMF paper; the default of `label_weight` is ours.

    References
    ----------
    X. Long, H. Lu, Y. Peng, W. Li: Graph regularized discriminative non-negative matrix factorization for face
    recognition, Multimedia Tools and Applications 72, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import GDNMF
    >>> X, y = load_wine(return_X_y=True)
    >>> GDNMF(3, random_state=0, tol=1e-3).fit(minmax_scale(X), y).label_components_.shape
    (3, 3)
    """

    label_weight: float = parameter(1.0, number(0))
