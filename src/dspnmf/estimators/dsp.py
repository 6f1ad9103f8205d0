"""DSP-NMF, and plain NMF as its special case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dspnmf._validation import Allowed, number
from dspnmf.estimators.base import Factorization, Problem
from dspnmf.rows import ArrayRows
from dspnmf.rows._model import Array
from dspnmf.start import scale_to_structure
from dspnmf.terms import GramSimilarity, Objective, Reconstruction


class DSPNMF(Factorization):
    """Non-negative matrix factorization that preserves the similarities between samples.

    Minimises, over codes U (n x k) and components V (k x m), both non-negative,

        ||X - U V||^2 + alpha ||X X' - lam U U'||^2

    without ever forming an n x n matrix, by a solver whose objective never rises.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    alpha : float, default=1.0
        Weight of the structure term; the paper's is 1, 0 is plain NMF. Its effect depends on the unit of X: scaling X
        by s has the effect of scaling alpha by s^2, so scale the data (the paper: min-max to [0, 1]) before comparing.
    lam : float, default=1.0
        The paper's lambda. It is a unit, not a knob: it divides the codes by sqrt(lam), multiplies the components by
        it and changes nothing else (except for the two paper solvers, whose start and rule do not converge alike).
    solver : {"auto", "newton-cg", "hals", "mm", "paper", "paper-appendix"}, default="auto"
        "newton-cg": Gauss-Newton model with conjugate gradients; "hals": the cheaper model without coupling between
        rows; "mm": a multiplicative rule that is guaranteed to descend; "paper": the rule as printed (it rises);
        "paper-appendix": as derived in the paper's appendix. "auto": "newton-cg", and "hals" where alpha is 0.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"}, default="random"
        Start; "custom" takes W and H of `fit_transform`.
    n_init : int, default=1
        Number of starts; the best result is kept.
    max_iter : int, default=200
        Most iterations of a start.
    tol : float, default=1e-4
        Stop when an iteration lowers the objective by at most this fraction of it; 0: only `max_iter` stops.
    inner_iter : int or "auto", default="auto"
        Sweeps ("hals") or conjugate-gradient steps ("newton-cg") per iteration. "auto" follows what a pass over X costs
        and what the last ones achieved.
    normalize : bool, default=False
        Scale components to unit length after the fit, and codes so that their product is unchanged. Objective and
        errors are those of the factors before this.
    random_state : int, RandomState or None, default=None
        Seed of the start.
    verbose : int, default=0
        Log every `verbose`-th iteration (logger "dspnmf").

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        V.
    objective_ : float
        The objective at the end, not halved.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every iteration.
    reconstruction_err_ : float
        ``||X - UV||`` (Frobenius).
    structure_err_ : float
        ``||XX' - lam UU'||`` (Frobenius).
    n_iter_ : int
        Iterations of the best start.
    n_components_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    R. Hedjam, A. Abdesselam, A. Rahiche, M. Cheriet: Non-negative matrix factorization with scale data structure
    preservation.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF
    >>> X = load_digits().data / 16
    >>> model = DSPNMF(n_components=10, random_state=0)
    >>> Z = model.fit_transform(X)
    >>> Z.shape
    (1797, 10)
    >>> bool((Z >= 0).all() and (model.components_ >= 0).all())
    True
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **Factorization._allowed,
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
        self.n_components = n_components
        self.alpha = alpha
        self.lam = lam
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.inner_iter = inner_iter
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, rows: ArrayRows) -> Problem:
        alpha = float(self.alpha) * rows.scale * rows.scale
        largest = max(1.0, alpha)
        terms = (Reconstruction(rows.norm2()), GramSimilarity(rows.gram_norm2()))
        return Problem(Objective(terms, (1 / largest, alpha / largest)), largest * rows.scale * rows.scale)

    @property
    def _lam(self) -> float:
        return float(self.lam)

    def _start_factor(self, rows: ArrayRows, U: Array) -> float:
        if self.alpha == 0:
            return 1.0
        rows.begin(U)
        return scale_to_structure(*rows.sums())

    def _errors(self, values: list[float], scale: float) -> dict[str, float]:
        return {
            "reconstruction_err_": float(np.sqrt(values[0])) * scale,
            "structure_err_": float(np.sqrt(values[1])) * scale * scale,
        }


class NMF(Factorization):
    """Plain non-negative matrix factorization: minimises ``||X - U V||^2`` over U, V >= 0.

    DSP-NMF with alpha = 0, and a drop-in for scikit-learn's ``NMF`` (Frobenius loss, no penalty) where the parameters
    overlap: the same meaning of `n_components`, `init` (given by name), `max_iter`, `random_state`, and of W and H.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    solver : {"auto", "hals", "newton-cg", "mm", "paper", "paper-appendix"}, default="auto"
        "auto" is "hals". Without a structure term "mm" and the paper's rules are the rule of Lee & Seung (2001).
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"}, default="random"
        Start; "custom" takes W and H of `fit_transform`.
    n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, n_components_
        As in `DSPNMF`.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import NMF
    >>> X = np.array([[1.0, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> model = NMF(n_components=2, random_state=0, tol=1e-6)
    >>> Z = model.fit_transform(X)
    >>> bool(np.abs(X - model.inverse_transform(Z)).max() < 0.05)
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
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
        self.n_components = n_components
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.inner_iter = inner_iter
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, rows: ArrayRows) -> Problem:
        return Problem(Objective((Reconstruction(rows.norm2()),), (1.0,)), rows.scale * rows.scale)

    def _errors(self, values: list[float], scale: float) -> dict[str, float]:
        return {"reconstruction_err_": float(np.sqrt(values[0])) * scale}
