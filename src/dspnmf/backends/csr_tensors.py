"""CSR tensors: what Torch does not do with them."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from scipy import sparse

Tensor = torch.Tensor


def transposed(X: Tensor) -> Tensor:
    """A CSR tensor's transpose, as CSR."""
    columns = X.to_sparse_csc()
    parts = (columns.ccol_indices(), columns.row_indices(), columns.values())
    return _csr(parts, (X.shape[1], X.shape[0]))


def csr_rows(X: Tensor, lo: int, hi: int) -> Tensor:
    """Some rows of a CSR tensor."""
    begin = X.crow_indices()[lo : min(hi, X.shape[0]) + 1]
    first, last = int(begin[0]), int(begin[-1])
    parts = (begin - first, X.col_indices()[first:last], X.values()[first:last])
    return _csr(parts, (len(begin) - 1, X.shape[1]))


def csr_on_host(X: Tensor) -> Any:
    """A CSR tensor as SciPy's."""
    parts = [part.cpu().numpy() for part in (X.values(), X.col_indices(), X.crow_indices())]
    return sparse.csr_array(tuple(parts), shape=tuple(X.shape))


def _csr(parts: tuple[Tensor, ...], shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of parts; Torch says once that these are in beta, which whoever brought one has heard."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(parts[0], parts[1], parts[2], size=shape, check_invariants=False)
