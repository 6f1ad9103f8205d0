"""Plain NMF: DSP-NMF without its structure term."""

from __future__ import annotations

from dataclasses import dataclass

from dspnmf._typing import ArrayLike
from dspnmf.backends.protocol import Data
from dspnmf.estimators.base import Problem
from dspnmf.estimators.partial_fit import BatchLearner
from dspnmf.objective.terms import Reconstruction


@dataclass(eq=False, repr=False)
class NMF(BatchLearner):
    """Plain non-negative matrix factorization: minimises ``||X - U V||^2`` and penalties over U, V >= 0.

    DSP-NMF with alpha = 0, and a drop-in for scikit-learn's ``NMF`` (Frobenius loss) where the parameters overlap: the
    same meaning of `n_components`, `init` (given by name), `max_iter`, `random_state`, of the penalties `alpha_W`,
    `alpha_H` and `l1_ratio`, and of W and H.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    solver : {"auto", "hals", "newton-cg", "mm", "paper", "paper-appendix"}, default="auto"
        "auto" is "hals". Without a structure term "mm" and the paper's rules are the rule of Lee & Seung (2001).
    alpha_W, alpha_H, l1_ratio
        As in `DSPNMF`, and in scikit-learn.
    init, missing, n_init, max_iter, tol, inner_iter, normalize, forget_factor, random_state, verbose
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

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """One term, and penalties."""
        data = self.with_penalized_sums(data, scale)
        penalties = self.solver_penalties(*data.shape, scale, scale)
        reconstruction = penalties.of_components(Reconstruction(data.norm2(scale), data.block()))
        objective, largest = penalties.objective({"reconstruction": (reconstruction, 1.0)}, data)
        return Problem(data, data.rows(self.n_components, scale), objective, largest * scale * scale, scale)
