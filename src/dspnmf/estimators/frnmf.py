"""FR-NMF: the similarities between features in place of those between samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from dspnmf import _validation
from dspnmf._validation import Allowed, number
from dspnmf.backends import ArrayRows
from dspnmf.backends.dispatch import MEMORY, place_of
from dspnmf.backends.row_model import Array
from dspnmf.estimators.checkpoint import Checkpoint, codes_path, delivered, refuse
from dspnmf.estimators.components import ComponentFactorization
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.solvers.loop import Stopping
from dspnmf.solvers.multiplicative import ratio


class FRNMF(ComponentFactorization):
    """Feature-relationship preserving NMF: ``||X - UV||^2 + alpha ||X'X - lam V'V||^2``.

    DSP-NMF of X' with the roles of U and V exchanged: what `DSPNMF` does for samples, done for features.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    alpha : float, default=1.0
        Weight of the feature similarities.
    lam : float, default=1.0
        Their unit, as in `DSPNMF`.
    solver : {"auto", "newton-cg", "hals", "mm", "paper", "paper-appendix"}, default="auto"
        "paper": as the authors' code runs: exponent-1 rule on V with half weight on the cubic term, L1-normalised
        components in each iteration, and a Kullback-Leibler rule for the codes. Dense X only.
    init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Notes
    -----
    The structure term binds V alone, so codes (also those of new rows) are plain non-negative least squares.

    References
    ----------
    R. Hedjam, A. Abdesselam, F. Melgani: NMF with feature relationship preservation penalty term for clustering
    problems, Pattern Recognition 112, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import FRNMF
    >>> FRNMF(3, random_state=0).fit_transform(minmax_scale(load_wine().data)).shape
    (178, 3)
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **ComponentFactorization._allowed,
        "alpha": number(0),
        "lam": number(0, strict=True),
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        alpha: float = 1.0,
        lam: float = 1.0,
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
            n_components, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        )
        self.alpha = alpha
        self.lam = lam

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        W: Any = None,
        H: Any = None,
        *,
        checkpoint: Any = None,
        checkpoint_every: float = 60.0,
        codes: Any = None,
    ) -> Array:
        """Learn the components of X and return its codes; parameters as in `fit`."""
        _validation.check_parameters(self, self._allowed)
        _validation.check_place(self, place_of(X), everywhere=False)
        path = codes_path(codes, X, Checkpoint(checkpoint, checkpoint_every))
        if self.solver == "paper":
            refuse(self, 'solver="paper" has a loop of its own, use solver="auto"', checkpoint=checkpoint)
        X, largest = _validation.check_data(self, X, reset=True)
        if self.init == "custom":
            W, H = _validation.check_start(W, H, X.shape, self.n_components, largest)
        else:
            _validation.check_no_start(W, H, self.init)
        if self.solver == "paper":
            V, history, self.n_iter_ = self._published(X, W, H)
        else:
            V, history, self.n_iter_ = self._exchanged(X, W, H, checkpoint, checkpoint_every)
        if self.normalize:
            length = np.linalg.norm(V, axis=1, keepdims=True)
            V = V / np.where(length > 0, length, 1.0)
        self.components_, self.n_components_ = np.ascontiguousarray(V.astype(X.dtype)), len(V)
        V = V.astype(np.float64)
        self._curvature, self._pull, self._scale = V @ V.T, np.ascontiguousarray(V.T), 1.0
        self._unit, self._at_fit = np.ones(len(V)), self.get_params(deep=False)
        U = self._codes(X)
        rows = ArrayRows(X, len(V))
        rows.begin(U)
        self.reconstruction_err_ = float(np.sqrt(rows.residual2(self._pull)))
        if not self.normalize:  # least-squares codes are no worse than those the components were learned with
            history[-1] = min(history[-1], self.reconstruction_err_**2 + self.alpha * self.structure_err_**2)
        self.objective_history_, self.objective_ = np.array(history), history[-1]
        return delivered(MEMORY, rows, U, path)

    def _exchanged(self, X: Any, W: Any, H: Any, file: Any, every: float) -> tuple[Array, list[float], int]:
        """Components, history and iterations of DSP-NMF of X'."""
        parameters = {**self.get_params(), "normalize": False}
        model = DSPNMF(**parameters).set_callbacks(*getattr(self, "_skl_callbacks", []))
        start = {} if W is None else {"W": H.T, "H": W.T}
        turned = X.T.tocsr() if sparse.issparse(X) else np.asarray(X).T
        features = model.fit_transform(turned, **start, checkpoint=file, checkpoint_every=every)
        self.structure_err_ = model.structure_err_
        return features.T, list(model.objective_history_), model.n_iter_

    def _published(self, X: Any, W: Any, H: Any) -> tuple[Array, list[float], int]:
        """The authors' loop; its history is that of the objective above."""
        if sparse.issparse(X):
            raise ValueError(_validation.DENSE_ONLY)
        rng, k = check_random_state(self.random_state), self.n_components
        if W is None:
            W, H = rng.random_sample((len(X), k)), rng.random_sample((k, X.shape[1]))
        U, V, done = np.array(W, np.float64), np.array(H, np.float64), Stopping(self.tol)
        history = [self._value(X, U, V)]
        for iteration in range(1, self.max_iter + 1):
            gain = U.T @ X + 2 * self.alpha * self.lam * (V @ X.T) @ X
            V *= ratio(gain, (U.T @ U) @ V + self.alpha * self.lam**2 * (V @ V.T) @ V)
            V /= np.maximum(V.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            U *= ratio(ratio(X, U @ V) @ V.T, np.broadcast_to(V.sum(axis=1), U.shape))
            history.append(self._value(X, U, V))
            self._say(iteration, history[-1])
            if done(history[-2], history[-1]):
                break
        else:
            if self.tol > 0:
                _validation.warn_not_converged(self.max_iter, self.tol, abs(1 - history[-2] / history[-1]))
        self.structure_err_ = float(np.linalg.norm(X.T @ X - self.lam * V.T @ V))
        return V, history, len(history) - 1

    def _value(self, X: Array, U: Array, V: Array) -> float:
        gap = np.linalg.norm(X.T @ X - self.lam * V.T @ V)
        return float(np.linalg.norm(X - U @ V) ** 2 + self.alpha * gap**2)
