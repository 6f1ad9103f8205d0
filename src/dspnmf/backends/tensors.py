"""Tensors of Torch, and CuPy arrays by way of them.

A CPU tensor is worked on where it lies, by the kernels for NumPy arrays: both share memory. A CUDA tensor stays on its
device (`dspnmf.backends.cuda`). Codes and components come back as what X was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dspnmf import _validation
from dspnmf.backends.csr_tensors import csr_on_host
from dspnmf.backends.cuda import DeviceRows
from dspnmf.backends.dispatch import Place, on_host
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import Array

_FLOATS = (torch.float32, torch.float64)
_LAYOUTS = (torch.strided, torch.sparse_csr)


def place_of(X: Any) -> Place:
    """Where a tensor (or CuPy array) lives."""
    if not isinstance(X, torch.Tensor):
        return CupyPlace()
    return HostTensor() if X.device.type == "cpu" else Device(X.device)


def _samples(Z: torch.Tensor, V: Any) -> torch.Tensor:
    """``Z V`` where Z lives."""
    _validation.check_codes(Z, len(V))
    V = V if isinstance(V, torch.Tensor) else torch.as_tensor(on_host(V))
    Z = Z if Z.dtype.is_floating_point else Z.to(V.dtype)
    return Z @ V.to(device=Z.device, dtype=Z.dtype)


def _precise(X: torch.Tensor) -> torch.Tensor:
    """X in float32 or float64: whole numbers become float64, other precisions are an error."""
    if X.dtype in _FLOATS:
        return X
    if X.dtype.is_floating_point or X.dtype.is_complex:
        raise ValueError(_validation.TENSOR_DTYPE.format(dtype=X.dtype))
    return X.double()


class HostTensor(Place):
    """Tensors in the memory of the machine: views as NumPy arrays."""

    name = "a CPU tensor"

    def check(self, estimator: Any, X: Any, *, reset: bool) -> tuple[Any, float]:
        """As for NumPy arrays."""
        X = X.detach()
        if X.layout not in _LAYOUTS:
            raise ValueError(_validation.TENSOR_LAYOUT.format(layout=X.layout))
        X = _precise(X)
        return super().check(estimator, csr_on_host(X) if X.layout == torch.sparse_csr else X.numpy(), reset=reset)

    def codes(self, codes: Any) -> Any:
        """A tensor."""
        return torch.from_numpy(codes)

    def components(self, V: Array) -> Any:
        """A tensor."""
        return torch.from_numpy(V)

    def samples(self, Z: Any, V: Any) -> Any:
        """A tensor."""
        return _samples(Z, V)


class Device(Place):
    """Tensors on a CUDA device."""

    whole_family = False
    solvers = ("newton-cg", "hals")

    def __init__(self, device: torch.device) -> None:
        self.name = f"a tensor on {device}"
        self._device = device

    def check(self, estimator: Any, X: Any, *, reset: bool) -> tuple[Any, float]:
        """Layout, precision, and the smallest and largest value, in one transfer."""
        X = X.detach()
        if X.device.type != "cuda":
            raise ValueError(_validation.TENSOR_DEVICE.format(device=X.device))
        if X.layout not in _LAYOUTS:
            raise ValueError(_validation.TENSOR_LAYOUT.format(layout=X.layout))
        _validation.check_features(estimator, tuple(X.shape), reset=reset)
        X = _precise(X)
        values = X.values() if X.layout == torch.sparse_csr else X
        if values.numel() == 0:
            return X, 0.0
        low, high = torch.stack(list(torch.aminmax(values))).tolist()
        if not (low >= 0 and high < float("inf")):
            raise ValueError(_validation.bad_cell(type(estimator).__name__, *_first_bad(X)))
        return X if X.layout == torch.sparse_csr or X.stride(1) == 1 else X.contiguous(), high

    def storing(self, path: Path | None) -> Place:
        """Codes stay on the device."""
        if path is not None:
            raise ValueError(_validation.CODES_ELSEWHERE.format(path=str(path), backend=self.name))
        return self

    def rows(self, X: Any, k: int, scale: float) -> Rows:
        """Rows on the device."""
        return DeviceRows(X, k, scale)

    def in_units(self, codes: Any, unit: Array) -> Any:
        """Codes (k x n) times a unit for every component."""
        return codes.mul_(torch.as_tensor(unit, device=codes.device).to(codes.dtype)[:, None])

    def codes(self, codes: Any) -> Any:
        """A tensor, n x k."""
        return codes.T.contiguous()

    def components(self, V: Array) -> Any:
        """A tensor on the same device."""
        return torch.as_tensor(V, device=self._device)

    def samples(self, Z: Any, V: Any) -> Any:
        """A tensor on the same device."""
        return _samples(Z, V)


class CupyPlace(Device):
    """CuPy arrays: tensors that share their memory (DLPack)."""

    def __init__(self) -> None:
        super().__init__(torch.device("cuda"))
        self.name = "a CuPy array"

    def check(self, estimator: Any, X: Any, *, reset: bool) -> tuple[Any, float]:
        """As a tensor."""
        X = torch.utils.dlpack.from_dlpack(X)
        self._device = X.device
        return super().check(estimator, X, reset=reset)

    def codes(self, codes: Any) -> Any:
        """A CuPy array."""
        return _to_cupy(super().codes(codes))

    def components(self, V: Array) -> Any:
        """A CuPy array."""
        return _to_cupy(super().components(V))

    def samples(self, Z: Any, V: Any) -> Any:
        """A CuPy array."""
        return _to_cupy(_samples(torch.utils.dlpack.from_dlpack(Z), V))


def _to_cupy(tensor: torch.Tensor) -> Any:
    """The same memory as a CuPy array."""
    import cupy

    return cupy.from_dlpack(tensor)


def _first_bad(X: torch.Tensor) -> tuple[int, int, float]:
    """Row, column and value of the first cell that is negative, NaN or infinite."""
    values = X.values() if X.layout == torch.sparse_csr else X
    where = torch.nonzero(~((values >= 0) & (values < float("inf"))))[0].tolist()
    if X.layout != torch.sparse_csr:
        return where[0], where[1], float(X[where[0], where[1]])
    row = int(torch.searchsorted(X.crow_indices(), torch.tensor(where[0], device=X.device), right=True)) - 1
    return row, int(X.col_indices()[where[0]]), float(values[where[0]])
