"""What operators between rows (graphs, Laplacians, masks) add to a look at the rows, for codes on a device.

The arithmetic is that of `dspnmf.backends.operators`; codes and all arrays of their shape are k x n here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.csr_tensors import csr_on_device
from dspnmf.backends.cuda_tiles import Tensor, gram
from dspnmf.backends.operators import varying_curve
from dspnmf.backends.row_model import Operator, RowModel
from dspnmf.backends.small_arrays import as_matrix
from dspnmf.backends.tensor_nnls import RowCurvature


class DeviceOperators:
    """The operators of an objective on a device, in the precision of the codes."""

    def __init__(self, operators: Sequence[Operator], dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._off = [csr_on_device(operator.off, dtype, device) for operator in operators]
        diagonals = [np.asarray(operator.diagonal, dtype=np.float64) for operator in operators]
        self._constant = [bool((diagonal == diagonal[0]).all()) for diagonal in diagonals]
        pairs = zip(diagonals, self._constant, strict=True)
        self._mean = [float(diagonal[0] if constant else diagonal.mean()) for diagonal, constant in pairs]
        self._diagonal = [torch.from_numpy(diagonal.copy()).to(device) for diagonal in diagonals]

    def between(self, left: Sequence[Tensor], B: Tensor) -> list[tuple[Tensor, ...]]:
        """A'LB for every operator, for every A in `left`; the product with L is made once."""
        products = [self._apply(j, B) for j in range(len(self._off))]
        return [tuple(gram(A, LB) for LB in products) for A in left]

    def curvature(self, model: RowModel) -> tuple[Tensor, RowCurvature | None]:
        """S with every constant diagonal added; and what differs from row to row, None where nothing does."""
        S, varying = self._small(model.S), varying_curve(model, self._constant)
        for j, K in model.curves.items():
            if self._constant[j]:
                S = S + self._mean[j] * as_matrix(self._small(K))
        if varying is None:
            return S, None
        kappa = self._small(model.curves[varying]).to(self._dtype)
        return S, RowCurvature(self._diagonal[varying].to(self._dtype), kappa)

    def common_curvature(self, model: RowModel) -> Tensor:
        """The curvature with the mean of every diagonal, for the preconditioner."""
        S = self._small(model.S)
        for j, K in model.curves.items():
            S = S + self._mean[j] * as_matrix(self._small(K))
        return S

    def pull(self, model: RowModel, U: Tensor) -> Tensor:
        """``-sum_j L_j U pulls[j]``: what operators add to X M."""
        total = torch.zeros_like(U)
        for j, K in model.pulls.items():
            total -= self._apply(j, self._times(U, K)).to(self._dtype)
        return total

    def own(self, model: RowModel, U: Tensor) -> Tensor:
        """``sum_j diagonal_j U curves[j]``: what is added to the pull where the diagonals are part of the curvature."""
        total = torch.zeros_like(U)
        for j, K in model.curves.items():
            total += (self._diagonal[j] * self._times(U, K)).to(self._dtype)
        return total

    def curved(self, model: RowModel, B: Tensor, factor: Scalar = 1.0) -> Tensor | None:
        """``factor sum_j L_j B curves[j]``: the operators' whole curvature along B, None where there is none."""
        if not model.curves:
            return None
        total = torch.zeros(B.shape, dtype=torch.float64, device=B.device)
        for j, K in model.curves.items():
            total += factor * self._apply(j, self._times(B, K))
        return total.to(self._dtype)

    def _small(self, K: SmallArray) -> Tensor:
        return K if isinstance(K, Tensor) else torch.from_numpy(np.array(K)).to(self._device)

    def _times(self, B: Tensor, K: SmallArray) -> Tensor:
        """B K, where one dimension stands for a diagonal matrix."""
        K = self._small(K).to(self._dtype)
        return K[:, None] * B if K.ndim == 1 else K.T @ B

    def _apply(self, j: int, B: Tensor) -> Tensor:
        """L B, in float64 where the product with `off` is added to the diagonal's."""
        return self._diagonal[j] * B - (self._off[j] @ B.T.contiguous()).T
