"""Labels as a second reconstruction: GDNMF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from dspnmf._validation import Allowed, number
from dspnmf.backends import ArrayRows
from dspnmf.estimators.base import Problem, Run
from dspnmf.estimators.gnmf import GNMF
from dspnmf.estimators.labels import Labels, beside, label_components
from dspnmf.objective.terms import Objective, Reconstruction, Smoothness


class GDNMF(GNMF):
    """Graph-regularised discriminative NMF: GNMF and ``b ||Y - U B||^2`` over the labelled rows.

    Y holds one column a class (one-hot), B >= 0 is learned with the components. Semi-supervised: label -1 means
    unknown. Without labels it is GNMF.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    b : float, default=1.0
        Weight of the labels.
    beta, n_neighbors, weights, normalized, graph, solver, init, n_init, max_iter, tol, inner_iter, normalize, \
random_state, verbose
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
    DSP-NMF paper; the default of `b` is ours.

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

    _allowed: ClassVar[Mapping[str, Allowed]] = {**GNMF._allowed, "b": number(0)}

    def __init__(
        self,
        n_components: int = 10,
        *,
        b: float = 1.0,
        beta: float = 100.0,
        n_neighbors: int = 5,
        weights: str = "binary",
        normalized: bool = False,
        graph: Any = "knn",
        solver: str = "auto",
        init: str = "random",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        inner_iter: int | str = "auto",
        normalize: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components, beta=beta, n_neighbors=n_neighbors, weights=weights, normalized=normalized, graph=graph,
            solver=solver, init=init, n_init=n_init, max_iter=max_iter, tol=tol, inner_iter=inner_iter,
            normalize=normalize, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.b = b

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        labels = Labels.of(y, X.shape[0])
        self._classes = labels.classes
        if not labels.known.any():
            return super()._problem(X, None, scale)
        m = X.shape[1]
        operator, beta = self._ties_of(X)
        both = beside(X, labels.one_hot(scale, X.dtype))
        rows = ArrayRows(both, self.n_components, scale, [operator, labels.mask()])
        norm2, label_weight = ArrayRows(X, 1, scale).norm2(), float(self.b) / (scale * scale)
        label_term = labels.term(m, operator=1)
        data = Reconstruction(norm2, features=slice(0, m), smooth={0: beta} if beta > 0 else {})
        published = Objective((replace(data, smooth={}), label_term, Smoothness(0)), (1.0, label_weight, beta))
        largest = max(1.0, label_weight)
        objective = Objective((data, label_term), (1 / largest, label_weight / largest))
        return Problem(rows, objective, largest * scale * scale, scale, published)

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        attributes = {**super()._learned(problem, run), "classes_": self._classes}
        attributes["label_components_"] = label_components(run.state.Vt, self._classes, attributes["_unit"])
        return attributes
