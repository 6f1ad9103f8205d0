"""The classes for CUDA tensors, on CPU tensors too: so they are tested where there is no GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="Torch is not installed")

from dspnmf.backends import cuda, cuda_data, cuda_divergence  # noqa: E402  # not without Torch
from dspnmf.backends.tensors import CudaBackend  # noqa: E402

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
KERNELS_ON = "cuda" if torch.cuda.is_available() else "cpu"  # by Triton's interpreter
if KERNELS_ON == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # which counts when Triton is imported


@contextmanager
def with_kernels(*, used: bool = True) -> Iterator[None]:
    """Rows on the device that kernels run on use them, or not."""
    from dspnmf.backends import cuda_fused

    with pytest.MonkeyPatch.context() as patch:
        for module in (cuda, cuda_data, cuda_divergence):
            patch.setattr(module, "fused_kernels", lambda X: cuda_fused if used else None)
        yield


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
