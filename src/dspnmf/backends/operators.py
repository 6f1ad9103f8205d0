"""What operators between rows (graphs, Laplacians, masks) add to a look at the rows, for codes in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dspnmf._typing import Array, SmallArray
from dspnmf.backends.row_model import Operator, RowModel
from dspnmf.backends.small_arrays import as_matrix

VARYING = (
    "A curve of operator {j} couples components (it is a k x k matrix), but the operator's diagonal differs from row "
    "to row: give the diagonal of the curve alone (an array of k numbers), and leave the rest to the pull."
)
SECOND = (
    "Operators {i} and {j} both have a diagonal that differs from row to row, and only one may enter the curvature: "
    "leave the curve of one of them out, its pull is enough."
)


class Operators:
    """The operators of an objective, in the precision of the codes."""

    def __init__(self, operators: Sequence[Operator], dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._off = [operator.off.tocsr().astype(dtype) for operator in operators]
        self._diagonal = [np.asarray(operator.diagonal, dtype=np.float64) for operator in operators]
        self._constant = [bool((diagonal == diagonal[0]).all()) for diagonal in self._diagonal]

    def between(self, A: Array, B: Array) -> tuple[Array, ...]:
        """A'LB for every operator."""
        return tuple(A.T.astype(np.float64) @ self._apply(j, B) for j in range(len(self._off)))

    def curvature(self, model: RowModel) -> tuple[Array, Array | None, Array | None]:
        """S with every constant diagonal added; and ``delta diag(kappa)`` (n, k) where a diagonal is not constant."""
        S, varying = model.S, varying_curve(model, self._constant)
        for j, K in model.curves.items():
            if self._constant[j]:
                S = S + self._diagonal[j][0] * as_matrix(K)
        if varying is None:
            return S, None, None
        return S, self._diagonal[varying].astype(self._dtype), model.curves[varying].astype(self._dtype)

    def pull(self, model: RowModel, U: Array) -> Array:
        """What is added to X M so that ``U (S + diagonals) - pull`` is half the gradient."""
        extra = np.zeros_like(U)
        for j, K in model.pulls.items():
            extra -= self._apply(j, _times(U, K.astype(self._dtype))).astype(self._dtype)
        for j, K in model.curves.items():
            extra += (self._diagonal[j][:, None] * _times(U, K)).astype(self._dtype)
        return extra

    def curved(self, model: RowModel, B: Array, factor: float = 1.0) -> Array | None:
        """``factor sum_j L_j B curves[j]``: the operators' whole curvature along B, None where there is none."""
        if not model.curves:
            return None
        total = np.zeros(B.shape)
        for j, K in model.curves.items():
            total += factor * self._apply(j, _times(B, K.astype(self._dtype)))
        return total.astype(self._dtype)

    def split(self, model: RowModel, U: Array) -> tuple[Array, Array]:
        """Negative and positive part of ``sum_j L_j U pulls[j]``, both with sign plus, for multiplicative rules."""
        gain, loss = np.zeros(U.shape, self._dtype), np.zeros(U.shape, self._dtype)
        for j, K in model.pulls.items():
            UK, off = _times(U, K.astype(self._dtype)), self._off[j]
            diagonal = self._diagonal[j][:, None].astype(self._dtype)
            gain += off.maximum(0) @ UK - np.minimum(diagonal, 0) * UK
            loss += np.maximum(diagonal, 0) * UK - off.minimum(0) @ UK
        return gain, loss

    def _apply(self, j: int, B: Array) -> Array:
        """L B."""
        return self._diagonal[j][:, None] * B - self._off[j] @ B


def varying_curve(model: RowModel, constant: Sequence[bool]) -> int | None:
    """The operator of a model whose curve differs from row to row, None where there is none; an error for two."""
    varying = [j for j in model.curves if not constant[j]]
    if len(varying) > 1:
        raise ValueError(SECOND.format(i=varying[0], j=varying[1]))
    if varying and model.curves[varying[0]].ndim != 1:
        raise ValueError(VARYING.format(j=varying[0]))
    return varying[0] if varying else None


def _times(B: Array, K: SmallArray) -> Array:
    """B K, where one dimension stands for a diagonal matrix."""
    return B * K if K.ndim == 1 else B @ K
