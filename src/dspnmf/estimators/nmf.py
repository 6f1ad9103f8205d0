"""Plain NMF: DSP-NMF without its structure term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dspnmf._validation import Allowed, one_of
from dspnmf.backends.dispatch import as_rows
from dspnmf.estimators.base import Problem
from dspnmf.estimators.partial_fit import Streaming
from dspnmf.objective.terms import Objective, Reconstruction


class NMF(Streaming):
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
    missing : {"error", "mask"}, default="error"
        What NaN in X means: an error, or a missing cell that carries no weight (see `DSPNMF`).
    n_init, max_iter, tol, inner_iter, normalize, forget_factor, random_state, verbose
        As in `DSPNMF`.

    Attributes
    ----------
    components_, objective_, objective_history_, reconstruction_err_, n_iter_, stability_, n_components_
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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **Streaming._allowed,
        "missing": one_of("error", "mask"),
    }
    _anywhere = True

    def __init__(
        self,
        n_components: int = 10,
        *,
        solver: str = "auto",
        init: str = "random",
        missing: str = "error",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        inner_iter: int | str = "auto",
        normalize: bool = False,
        forget_factor: float = 1.0,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        )
        self.missing = missing
        self.forget_factor = forget_factor

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        rows = as_rows(X, self.n_components, scale)
        return Problem(rows, Objective((Reconstruction(rows.norm2()),), (1.0,)), scale * scale, scale)
