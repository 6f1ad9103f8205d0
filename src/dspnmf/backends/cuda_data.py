"""A checked tensor on a device: what `Data` knows of it, and columns it is widened by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from dspnmf._typing import Array, Matrix, Sparse
from dspnmf.backends import norms
from dspnmf.backends.averaging import averaged
from dspnmf.backends.base_data import BaseData
from dspnmf.backends.chunk_facts import ChunkFacts
from dspnmf.backends.csr_tensors import (
    csr_hstack,
    csr_on_device,
    csr_on_host,
    csr_with_values,
    is_csr,
    row_numbers,
    stored_values,
)
from dspnmf.backends.cuda import CHUNK, DeviceRows, dense_chunks, fused_kernels, numpy_dtype
from dspnmf.backends.cuda_divergence import DeviceDivergenceRows
from dspnmf.backends.cuda_tiles import Tensor
from dspnmf.backends.protocol import Backend
from dspnmf.backends.row_model import BlockNorms, Operator

_TILE = 4096  # width of a tile of X'X


class CudaData(BaseData):
    """A checked X on a device, dense or CSR, and columns it was widened by."""

    def __init__(self, X: Tensor, backend: Backend, largest: float, facts: ChunkFacts | None = None) -> None:
        super().__init__(X, (int(X.shape[0]), int(X.shape[1])), numpy_dtype(X), backend, largest)
        self._gram_norms: dict[tuple[str, float], float] = {}
        if facts is not None:
            self.facts = facts

    @property
    def _X(self) -> Tensor:
        """X without missing cells."""
        X: Tensor = self.blocks["X"]
        return X

    @cached_property
    def facts(self) -> ChunkFacts:  # type: ignore[override]
        """Sums of X, where they are not known from the check."""
        return sums_of(self._X, self.largest, self.unit)

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2, or that of another block."""
        if (block, scale) not in self._gram_norms:
            X = self._X if block == "X" else self.blocks[block]
            self._gram_norms[block, scale] = gram_norm2(X, scale / self.unit)
        return self._gram_norms[block, scale]

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> DeviceRows:
        """Rows of all blocks together."""
        norms = BlockNorms(self.norm2(scale), partial(self.gram_norm2, scale)) if len(self.blocks) == 1 else None
        return DeviceRows(self._together(), k, scale / self.unit, operators, norms)

    def has_zeros(self) -> bool:
        """Whether a cell is zero: cells that a CSR tensor does not store are."""
        values = stored_values(self.blocks["X"])
        return values.numel() < self.shape[0] * self.shape[1] or bool((values == 0).any())

    def divergence_rows(self, k: int, scale: float) -> DeviceDivergenceRows:
        """Rows of X, missing cells as they are."""
        return DeviceDivergenceRows(self.blocks["X"], k, scale / self.unit)

    def _together(self) -> Tensor:
        parts = list(self.blocks.values())
        if len(parts) == 1:
            return parts[0]
        return csr_hstack(parts) if is_csr(parts[0]) else torch.cat(parts, dim=1)

    def widened(self, name: str, columns: Matrix) -> Self:
        """X with further columns of the host; they are stored as X is."""
        X = self.blocks["X"]
        columns = columns if self.unit == 1 else columns / self.unit
        if is_csr(X):
            return self._with_block(name, csr_on_device(columns, X.dtype, X.device))
        dense = np.array(columns, order="C") if isinstance(columns, np.ndarray) else columns.toarray()
        return self._with_block(name, torch.from_numpy(dense).to(X.device, X.dtype))

    def with_unit_rows(self, scale: float) -> Self:
        """X with its rows at unit length."""
        return self._with_block("unit rows", unit_rows(self.blocks["X"], scale / self.unit))

    def with_averaged_rows(self, R: Sparse, steps: int, own: float = 0.0) -> Self:
        """X with its averaged rows; those of a CSR tensor are made on the host."""
        X: Tensor = self.blocks["X"]
        if is_csr(X):
            return self._with_block(
                "averaged rows", csr_on_device(averaged(csr_on_host(X), R, steps, own), X.dtype, X.device)
            )
        weights = csr_on_device(R, X.dtype, X.device)
        average = X
        for _ in range(steps):
            average = weights @ average
        return self._with_block("averaged rows", torch.lerp(average, X, own) if own > 0 else average)

    def _divided(self, unit: float) -> Self:
        X = self.blocks["X"]
        held = csr_with_values(X, X.values() / unit) if is_csr(X) else X / unit
        data = type(self)(held, self.backend, self.largest, vars(self).get("facts"))
        data.unit = unit
        return data

    def without_features(self) -> CudaData:
        """One empty column in place of X."""
        X = self.blocks["X"]
        return CudaData(torch.zeros(self.shape[0], 1, dtype=X.dtype, device=X.device), self.backend, 0.0)

    def on_host(self) -> Matrix:
        """X, copied."""
        X = self.blocks["X"]
        return csr_on_host(X) if is_csr(X) else X.cpu().numpy()

    def column_means(self) -> Array:
        """Means of the columns."""
        return (column_sums(self.blocks["X"]) / self.shape[0]).cpu().numpy()

    def some_rows(self, rows: NDArray[np.intp], block: str = "X") -> Array:
        """Some rows of a block, copied: dense, in float64."""
        X = self.blocks[block]
        if is_csr(X):
            return csr_on_host(X)[rows].astype(np.float64).toarray()
        return X[torch.from_numpy(rows).to(X.device)].double().cpu().numpy()


def facts_of(X: Tensor) -> ChunkFacts | None:
    """Facts about X from one reading; None where an entry is not allowed, or where only another reading tells.

    Sums are those of X itself, so in float64 they may overflow or vanish.
    """
    kernels = None if is_csr(X) else fused_kernels(X)
    if kernels is None:
        return None
    largest, total, squares, bad = kernels.facts(X)
    if bad or not (1e-140 < largest < 1e140 or largest == 0):
        return None
    return ChunkFacts(largest, 1.0, total, squares, X.numel())


def sums_of(X: Tensor, largest: float, unit: float) -> ChunkFacts:
    """Sums of `unit` X and of its squares, in float64, in one pass and one transfer; in units of the largest entry."""
    values, size = stored_values(X).reshape(-1) if is_csr(X) else X, largest or 1.0
    step = CHUNK if values.ndim == 1 else max(1, CHUNK // int(X.shape[1]))
    total = torch.zeros(2, dtype=torch.float64, device=X.device)
    for i in range(0, len(values), step):
        part = values[i : i + step].double() / (size / unit)
        total += torch.stack([part.sum(), part.square().sum()])
    first, second = total.tolist()
    return ChunkFacts(largest, size, first, second, values.numel())


def gram_norm2(X: Tensor, scale: float) -> float:
    """||XX'||^2 = ||X'X||^2: by the host where sparse, otherwise in tiles of the smaller side's Gram matrix."""
    if is_csr(X):
        return norms.gram_norm2(csr_on_host(X), scale)
    A = X if X.shape[0] >= X.shape[1] else X.T
    step = CHUNK // _TILE
    total = torch.zeros((), dtype=torch.float64, device=X.device)
    for i in range(0, A.shape[1], _TILE):
        for j in range(0, i + 1, _TILE):
            tile: Tensor | float = 0.0
            for row in range(0, A.shape[0], step):
                left, right = (A[row : row + step, at : at + _TILE].double() / scale for at in (i, j))
                tile = left.T @ right + tile
            total += (1 if i == j else 2) * torch.as_tensor(tile).square().sum()  # below the diagonal: twice
    return float(total)


def column_sums(X: Tensor) -> Tensor:
    """Sums of the columns, in float64."""
    total = torch.zeros(X.shape[1], dtype=torch.float64, device=X.device)
    if is_csr(X):
        return total.index_add_(0, X.col_indices().long(), X.values().double())
    for _, part in dense_chunks(X):
        total += part.sum(0)
    return total


def unit_rows(X: Tensor, scale: float) -> Tensor:
    """The rows of X at unit length, times `scale`; rows of zeros stay zero."""
    if is_csr(X):
        rows, values = row_numbers(X), X.values().double() / scale
        squares = torch.zeros(X.shape[0], dtype=torch.float64, device=X.device).index_add_(0, rows, values.square())
        return csr_with_values(X, (values * (scale / _lengths(squares))[rows]).to(X.dtype))
    unit = torch.empty_like(X, memory_format=torch.contiguous_format)
    for i, part in dense_chunks(X):
        part = part / scale
        unit[i : i + len(part)] = part * (scale / _lengths(part.square().sum(1)))[:, None]
    return unit


def _lengths(squares: Tensor) -> Tensor:
    """Lengths of rows, 1 for rows of zeros."""
    return torch.where(squares > 0, squares.sqrt(), 1.0)
