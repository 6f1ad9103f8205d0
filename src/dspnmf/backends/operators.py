"""What operators between rows (graphs, masks) add to a look at the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dspnmf.backends.row_model import Array, Operator, RowModel


class GraphSide:
    """The operators of an objective, in the precision of the codes."""

    def __init__(self, operators: Sequence[Operator], dtype: Any) -> None:
        self._dtype = dtype
        self._off = [operator.off.tocsr().astype(dtype) for operator in operators]
        self._diagonal = [np.asarray(operator.diagonal, dtype=np.float64) for operator in operators]

    def between(self, A: Array, B: Array) -> tuple[Array, ...]:
        """A'LB for every operator."""
        return tuple(A.T.astype(np.float64) @ self._apply(j, B) for j in range(len(self._off)))

    def curvature(self, model: RowModel) -> tuple[Array, Array | None, Array | None]:
        """S with every constant diagonal added; and ``delta diag(kappa)`` (n, k) where a diagonal is not constant."""
        S, delta, kappa = model.S, None, None
        for j, K in model.curves.items():
            diagonal = self._diagonal[j]
            if (diagonal == diagonal[0]).all():
                S = S + diagonal[0] * K
            elif delta is None:  # such a curve is diagonal, and there is one
                delta, kappa = diagonal.astype(self._dtype), np.diag(K).astype(self._dtype)
            else:
                raise NotImplementedError("two operators whose curvature differs from row to row")
        return S, delta, kappa

    def pull(self, model: RowModel, U: Array) -> Array:
        """What stands beside X M so that ``U (S + diagonals) - pull`` is half the gradient."""
        extra = np.zeros_like(U)
        for j, K in model.pulls.items():
            extra -= self._apply(j, U @ K.astype(self._dtype)).astype(self._dtype)
        for j, K in model.curves.items():
            extra += (self._diagonal[j][:, None] * (U @ K)).astype(self._dtype)
        return extra

    def curved(self, model: RowModel, B: Array, factor: float = 1.0) -> Array | None:
        """``factor sum_j L_j B curves[j]``: the operators' whole curvature along B, None where there is none."""
        if not model.curves:
            return None
        total = np.zeros(B.shape)
        for j, K in model.curves.items():
            total += factor * self._apply(j, B @ K.astype(self._dtype))
        return total.astype(self._dtype)

    def split(self, model: RowModel, U: Array) -> tuple[Array, Array]:
        """Negative and positive part of ``sum_j L_j U pulls[j]``, both with sign plus, for multiplicative rules."""
        gain, loss = np.zeros(U.shape, self._dtype), np.zeros(U.shape, self._dtype)
        for j, K in model.pulls.items():
            UK, off, diagonal = U @ K.astype(self._dtype), self._off[j], self._diagonal[j][:, None].astype(self._dtype)
            gain += off.maximum(0) @ UK - np.minimum(diagonal, 0) * UK
            loss += np.maximum(diagonal, 0) * UK - off.minimum(0) @ UK
        return gain, loss

    def _apply(self, j: int, B: Array) -> Array:
        """L B."""
        return self._diagonal[j][:, None] * B - self._off[j] @ B
