"""The classes for CUDA tensors, on CPU tensors too: so they are tested where there is no GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="Torch is not installed")

from dspnmf.backends.tensors import CudaBackend  # noqa: E402  # not without Torch

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


class AnyDevice(CudaBackend):
    """What CUDA tensors get, for tensors on any device."""

    kinds = ("cpu", "cuda")


class Fit:
    """As much of an estimator as a check of X asks for."""

    def __init__(self, missing: str = "error") -> None:
        self.missing = missing


def tensor(X: Any, device: str) -> Any:
    """A NumPy array or a SciPy CSR matrix as a tensor."""
    if not sparse.issparse(X):
        return torch.from_numpy(np.array(X, order="C")).to(device)
    parts = (torch.from_numpy(np.array(part)) for part in (X.indptr, X.indices, X.data))
    return torch.sparse_csr_tensor(*parts, size=X.shape).to(device)


def device_data(X: Any, device: str, missing: str = "error") -> Any:
    """The checked `Data` of a NumPy array or CSR matrix moved to a device."""
    return AnyDevice(torch.device(device)).check(Fit(missing), tensor(X, device), reset=True)
