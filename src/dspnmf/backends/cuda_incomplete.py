"""Missing cells of tensors on a device: NaN in a dense tensor, or stored by a CSR tensor.

What completing them means is said in `dspnmf.backends.incomplete`; here is where they are, and how they are written.
Nothing waits for the device but sums that the host asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dspnmf._typing import Array
from dspnmf.backends.csr_tensors import csr_on_host, csr_with_values, is_csr, row_numbers, transposition
from dspnmf.backends.cuda import CHUNK, DeviceRows
from dspnmf.backends.cuda_data import CudaData, column_sums, gram_norm2
from dspnmf.backends.cuda_tiles import Tensor
from dspnmf.backends.incomplete import SIMILARITIES, CompletesCells, DataWithMissingCells, means_of_known
from dspnmf.backends.norms import gram_norm2 as gram_norm2_on_host
from dspnmf.backends.protocol import Backend
from dspnmf.backends.row_model import Operator

_GATHERED = 2**24  # numbers of codes and components gathered at once for stored cells


class IncompleteDeviceRows(CompletesCells, DeviceRows):
    """X on a device, completed, and its codes."""

    def __init__(self, X: Tensor, k: int, scale: float = 1.0, operators: Sequence[Operator] = ()) -> None:
        super().__init__(X, k, scale, operators)
        self._numbers = transposition(X) if is_csr(X) else None

    def _push(self, D: Tensor) -> Tensor:
        """X'D; the transpose of a CSR tensor is a copy, which follows the cells."""
        if self._numbers is not None:
            self._pushed.values().copy_(self._X.values()[self._numbers])
        return super()._push(D)


class IncompleteCudaData(DataWithMissingCells, CudaData):
    """A checked X on a device with NaN in it."""

    _rows_class = IncompleteDeviceRows

    def __init__(self, X: Tensor, backend: Backend, largest: float) -> None:
        super().__init__(X, backend, largest)
        self._means = _column_means(X)

    @property
    def _X(self) -> Tensor:
        """A copy of X, missing cells at the means of their columns."""
        return self._completed(self.blocks["X"], False).X

    def _completed(self, X: Tensor, twice: bool) -> DenseTensorCells | CsrTensorCells:
        cells = (CsrTensorCells if is_csr(X) else DenseTensorCells)(X, self.shape[1], twice)
        cells.fill(self._means)
        return cells


def _column_means(X: Tensor) -> Array:
    """Means of the known cells of every column; cells that a CSR tensor does not store are zeros."""
    missing = torch.isnan(X.values() if is_csr(X) else X)
    if is_csr(X):
        known = csr_with_values(X, torch.where(missing, 0.0, X.values()))
        lost = torch.zeros(X.shape[1], dtype=torch.int64, device=X.device)
        lost.index_add_(0, X.col_indices().long(), missing.long())
    else:
        known, lost = torch.where(missing, 0.0, X), missing.sum(0)
    return means_of_known(column_sums(known).cpu().numpy(), X.shape[0] - lost.cpu().numpy())


class DenseTensorCells:
    """Where cells are missing in a dense tensor; `X` is a completed copy."""

    def __init__(self, X: Tensor, m: int, twice: bool) -> None:
        self.X, self._m, self._twice = X.clone(memory_format=torch.contiguous_format), m, twice
        self._missing = torch.isnan(X[:, :m])
        step = max(1, CHUNK // m)
        self._parts = [slice(i, min(i + step, len(X))) for i in range(0, len(X), step)]

    def _write(self, part: slice, cells: Tensor, similarities: bool) -> None:
        """Missing cells of some rows."""
        for first in (0, self._m)[: 1 + similarities]:
            X = self.X[part, first : first + self._m]
            X.copy_(torch.where(self._missing[part], cells, X))

    def fill(self, means: Array) -> None:
        """Every missing cell becomes the mean of its column."""
        cells = torch.from_numpy(means.copy()).to(self.X)
        for part in self._parts:
            self._write(part, cells, self._twice)

    def complete(self, U: Tensor, Vt: Tensor, similarities: bool) -> None:
        """Missing cells become those of UV."""
        V = Vt.to(self.X.dtype).T
        for part in self._parts:
            self._write(part, U[:, part].T @ V, similarities)

    def squares(self) -> float:
        """The sum of squares of completed cells."""
        parts = (torch.where(self._missing[part], self.X[part, : self._m], 0.0) for part in self._parts)
        return float(sum(part.double().square().sum() for part in parts))

    def gram_norm2(self, scale: float, block: str) -> float:
        """||XX'||^2 of one of the blocks as it is."""
        first = self._m if block == SIMILARITIES else 0
        return gram_norm2(self.X[:, first : first + self._m], scale)

    def pull(self, M: Tensor) -> Tensor:
        """(X M)', k x n."""
        return (self.X[:, : self._m] @ M.to(self.X.dtype)).T.contiguous()


class CsrTensorCells:
    """Where a CSR tensor stores NaN; `X` is a completed copy."""

    def __init__(self, X: Tensor, m: int, twice: bool) -> None:
        self.X, self._m, self._twice = csr_with_values(X, X.values().clone()), m, twice
        where = torch.isnan(X.values()).nonzero().reshape(-1)
        rows, columns = row_numbers(X)[where], X.col_indices()[where].long()
        own = columns < m
        self._where, self._second = where[own], where[~own]  # in the same order: row by row
        self._rows, self._columns = rows[own], columns[own]

    def _write(self, cells: Tensor, some: slice, similarities: bool) -> None:
        """Some of the missing cells."""
        values = self.X.values()
        values[self._where[some]] = cells
        if similarities:
            values[self._second[some]] = cells

    def fill(self, means: Array) -> None:
        """Every missing cell becomes the mean of its column."""
        cells = torch.from_numpy(means.copy()).to(self.X.values())[self._columns]
        self._write(cells, slice(None), self._twice)

    def complete(self, U: Tensor, Vt: Tensor, similarities: bool) -> None:
        """Missing cells become those of UV."""
        V, step = Vt.to(self.X.dtype), max(1, _GATHERED // len(U))
        for i in range(0, len(self._where), step):
            some = slice(i, i + step)
            cells = (U.T[self._rows[some]] * V[self._columns[some]]).sum(1)
            self._write(cells, some, similarities)

    def squares(self) -> float:
        """The sum of squares of completed cells."""
        return float(self.X.values()[self._where].double().square().sum())

    def gram_norm2(self, scale: float, block: str) -> float:
        """||XX'||^2 of one of the blocks as it is, by the host."""
        first = self._m if block == SIMILARITIES else 0
        return gram_norm2_on_host(csr_on_host(self.X)[:, first : first + self._m], scale)

    def pull(self, M: Tensor) -> Tensor:
        """(X M)', k x n."""
        wide = torch.zeros(self.X.shape[1], M.shape[1], dtype=self.X.dtype, device=M.device)
        wide[: self._m] = M
        return (self.X @ wide).T.contiguous()
