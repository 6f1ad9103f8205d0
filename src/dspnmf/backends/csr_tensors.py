"""CSR tensors: what Torch does not do with them."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy import sparse

from dspnmf._typing import Matrix, Sparse

Tensor = torch.Tensor


def is_csr(X: Tensor) -> bool:
    """Whether a tensor is stored by rows, without its zeros."""
    return X.layout == torch.sparse_csr


def stored_values(X: Tensor) -> Tensor:
    """The entries that a tensor stores: those of a CSR tensor (one dimension), or all of it."""
    return X.values() if is_csr(X) else X


def transposed(X: Tensor) -> Tensor:
    """A CSR tensor's transpose, as CSR."""
    columns = X.to_sparse_csc()
    return csr_of_parts(columns.ccol_indices(), columns.row_indices(), columns.values(), (X.shape[1], X.shape[0]))


def transposition(X: Tensor) -> Tensor:
    """The number of every stored entry of the transpose among the entries of X."""
    numbers = torch.arange(len(X.values()), dtype=torch.float64, device=X.device)  # whole up to 2^53
    return transposed(csr_with_values(X, numbers)).values().long()


def csr_with_values(X: Tensor, values: Tensor) -> Tensor:
    """Other values where a CSR tensor has its own."""
    return csr_of_parts(X.crow_indices(), X.col_indices(), values, (X.shape[0], X.shape[1]))


def csr_rows(X: Tensor, lo: int, hi: int) -> Tensor:
    """Some rows of a CSR tensor."""
    begin = X.crow_indices()[lo : min(hi, X.shape[0]) + 1]
    first, last = int(begin[0]), int(begin[-1])
    return csr_of_parts(
        begin - first, X.col_indices()[first:last], X.values()[first:last], (len(begin) - 1, X.shape[1])
    )


def row_numbers(X: Tensor) -> Tensor:
    """The row of every stored entry of a CSR tensor."""
    counts = X.crow_indices().diff().long()
    rows = torch.arange(X.shape[0], device=X.device)
    return rows.repeat_interleave(counts, output_size=len(X.values()))


def csr_hstack(parts: list[Tensor]) -> Tensor:
    """CSR tensors next to each other: every row is that of the first, then that of the second, ..."""
    begins = torch.stack([part.crow_indices().long() for part in parts])
    lengths = begins.diff(dim=1)  # parts x rows
    begin = begins.sum(0)
    columns = torch.empty(sum(len(part.values()) for part in parts), dtype=torch.int64, device=begin.device)
    values = torch.empty(len(columns), dtype=parts[0].dtype, device=begin.device)
    width, before = 0, torch.zeros_like(lengths[0])  # columns, and entries of a row, that the parts so far have
    for part, own, length in zip(parts, begins, lengths, strict=True):
        rows = row_numbers(part)
        at = torch.arange(len(rows), device=begin.device) + (begin[:-1] + before - own[:-1])[rows]
        columns[at], values[at] = part.col_indices().long() + width, part.values()
        width, before = width + int(part.shape[1]), before + length
    return csr_of_parts(begin, columns, values, (len(begin) - 1, width))


def csr_on_host(X: Tensor) -> Sparse:
    """A CSR tensor as SciPy's."""
    parts = [part.cpu().numpy() for part in (X.values(), X.col_indices(), X.crow_indices())]
    return sparse.csr_array(tuple(parts), shape=tuple(X.shape))


def csr_on_device(A: Matrix, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A matrix of the host as CSR tensor."""
    csr = sparse.csr_array(A)
    begin, columns = (torch.from_numpy(part.astype(np.int64)).to(device) for part in (csr.indptr, csr.indices))
    return csr_of_parts(begin, columns, torch.from_numpy(np.array(csr.data)).to(device, dtype), csr.shape)


def csr_of_parts(begin: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of its parts; without Torch's warning that they are in beta, which the caller has seen."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(begin, columns, values, size=shape, check_invariants=False)
