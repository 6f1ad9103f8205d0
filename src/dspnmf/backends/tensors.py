"""Tensors of Torch, and CuPy arrays by way of them.

A CPU tensor is worked on where it lies, by the kernels for NumPy arrays: both share memory. A CUDA tensor stays on its
device (`dspnmf.backends.cuda`). Codes and components come back as what X was.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike, Codes
from dspnmf.backends.csr_tensors import csr_on_host, is_csr, stored_values
from dspnmf.backends.cuda_data import CudaData, facts_of
from dspnmf.backends.cuda_incomplete import IncompleteCudaData
from dspnmf.backends.memory import MemoryBackend, on_host
from dspnmf.backends.protocol import Backend, Capability, Data

Tensor = torch.Tensor
_FLOATS = (torch.float32, torch.float64)
_LAYOUTS = (torch.strided, torch.sparse_csr)


def backend_for(X: ArrayLike) -> Backend:
    """The backend of a tensor or of a CuPy array."""
    if not isinstance(X, Tensor):
        return CupyBackend()
    return HostTensorBackend() if X.device.type == "cpu" else CudaBackend(X.device)


class HostTensorBackend(MemoryBackend):
    """Tensors in the memory of the machine: views as NumPy arrays."""

    name = "a CPU tensor"

    def check(self, estimator: _validation.Estimator, X: Tensor, *, reset: bool) -> Data:
        """As for NumPy arrays."""
        X = _usable(X)
        return super().check(estimator, csr_on_host(X) if is_csr(X) else X.numpy(), reset=reset)

    def codes(self, codes: Codes) -> Tensor:
        """A tensor."""
        return torch.from_numpy(codes)

    def components(self, V: Array) -> Tensor:
        """A tensor."""
        return torch.from_numpy(V)

    def samples(self, Z: ArrayLike, V: ArrayLike) -> Tensor:
        """A tensor, where Z is."""
        _validation.check_codes(Z, len(V))
        V = V if isinstance(V, Tensor) else torch.as_tensor(on_host(V))
        Z = Z if Z.dtype.is_floating_point else Z.to(V.dtype)
        return Z @ V.to(device=Z.device, dtype=Z.dtype)


class CudaBackend(HostTensorBackend):
    """Tensors on a CUDA device."""

    capabilities: frozenset[Capability] = frozenset(
        {"newton-cg", "divergences", "operators", "features", "graphs", "missing", "batches"}
    )
    solvers: tuple[str, ...] = ("newton-cg", "hals")
    kinds: ClassVar[tuple[str, ...]] = ("cuda",)  # of devices that X may be on

    def __init__(self, device: torch.device) -> None:
        self.name = f"a tensor on {device}"
        self._device = device

    def storing(self, codes_path: Path | None) -> Backend:
        """Codes stay on the device."""
        if codes_path is not None:
            raise ValueError(_validation.CODES_ELSEWHERE.format(path=str(codes_path), backend=self.name))
        return self

    def check(self, estimator: _validation.Estimator, X: Tensor, *, reset: bool) -> Data:
        """Device, layout, precision, then all entries, where possible in one reading."""
        if X.device.type not in self.kinds:
            raise ValueError(_validation.TENSOR_DEVICE.format(device=X.device))
        X = _usable(X)
        _validation.check_features(estimator, tuple(X.shape), reset=reset)
        X = X if is_csr(X) or X.stride(1) == 1 else X.contiguous()
        values = stored_values(X)
        if values.numel() == 0:
            return CudaData(X, self, 0.0)
        facts = facts_of(X)
        if facts is not None:
            return CudaData(X, self, facts.largest, facts)
        low, high = torch.stack(list(torch.aminmax(values))).tolist()
        missing = low != low and _validation.takes_missing(estimator)
        if missing:
            low, high = _known_range(X)
        if not (low >= 0 and high < float("inf")):
            raise ValueError(_validation.bad_cell(type(estimator).__name__, *_first_bad(X, skip=missing)))
        return IncompleteCudaData(X, self, high) if missing else CudaData(X, self, high)

    def codes(self, codes: Tensor) -> ArrayLike:
        """A tensor, n x k."""
        return codes.T.contiguous()

    def components(self, V: Array) -> ArrayLike:
        """A tensor on the same device."""
        return torch.as_tensor(V, device=self._device)


class CupyBackend(CudaBackend):
    """CuPy arrays: tensors that share their memory (DLPack)."""

    def __init__(self) -> None:
        super().__init__(torch.device("cuda"))
        self.name = "a CuPy array"

    def check(self, estimator: _validation.Estimator, X: ArrayLike, *, reset: bool) -> Data:
        """As a tensor."""
        X = torch.utils.dlpack.from_dlpack(X)
        self._device = X.device
        return super().check(estimator, X, reset=reset)

    def codes(self, codes: Tensor) -> ArrayLike:
        """A CuPy array."""
        return _to_cupy(super().codes(codes))

    def components(self, V: Array) -> ArrayLike:
        """A CuPy array."""
        return _to_cupy(super().components(V))

    def samples(self, Z: ArrayLike, V: ArrayLike) -> ArrayLike:
        """A CuPy array."""
        return _to_cupy(super().samples(torch.utils.dlpack.from_dlpack(Z), V))


def _usable(X: Tensor) -> Tensor:
    """X in float32 or float64: whole numbers become float64, other precisions and layouts are an error."""
    X = X.detach()
    if X.layout not in _LAYOUTS:
        raise ValueError(_validation.TENSOR_LAYOUT.format(layout=X.layout))
    if X.dtype in _FLOATS:
        return X
    if X.dtype.is_floating_point or X.dtype.is_complex:
        raise ValueError(_validation.TENSOR_DTYPE.format(dtype=X.dtype))
    return X.double()


def _to_cupy(tensor: Tensor) -> ArrayLike:
    """The same memory as a CuPy array."""
    import cupy

    return cupy.from_dlpack(tensor)


def _known_range(X: Tensor) -> tuple[float, float]:
    """The smallest and the largest value that is not NaN; an error where there is none."""
    values = stored_values(X)
    missing = torch.isnan(values)
    low, high = torch.where(missing, float("inf"), values).min(), torch.where(missing, float("-inf"), values).max()
    smallest, largest = torch.stack([low, high]).tolist()
    if smallest <= largest:
        return smallest, largest
    if values.numel() == X.shape[0] * X.shape[1]:  # cells that a CSR tensor does not store are known
        raise ValueError(_validation.NOTHING_KNOWN.format(shape=f"{X.shape[0]} x {X.shape[1]}"))
    return 0.0, 0.0


def _first_bad(X: Tensor, *, skip: bool) -> tuple[int, int, float]:
    """Row, column and value of the first cell that is negative, NaN (unless to be skipped) or infinite."""
    values = stored_values(X)
    good = (values >= 0) & (values < float("inf"))
    where = torch.nonzero(~(good | torch.isnan(values)) if skip else ~good)[0].tolist()
    if not is_csr(X):
        return where[0], where[1], float(X[where[0], where[1]])
    row = int(torch.searchsorted(X.crow_indices(), torch.tensor(where[0], device=X.device), right=True)) - 1
    return row, int(X.col_indices()[where[0]]), float(values[where[0]])
