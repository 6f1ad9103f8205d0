"""Every way there is to hold X and its codes: a name, and how the `Data` of a NumPy array are made that way.

Sizes of blocks, groups, slabs and tiles are made small (`small_parts`), so that 150 rows are many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf.backends import backend_for
from dspnmf.backends.protocol import Data

GROUP = 64  # rows that are drawn and copied at once
GOALS = 3  # times the goal of new rows with missing cells is renewed


class StandIn(BaseEstimator):
    """As much of an estimator as a check of X asks for."""

    def __init__(self, missing: str = "error") -> None:
        self.missing = missing


@dataclass(frozen=True)
class Implementation:
    """One kind of array: `stored` turns a NumPy array into it, in a folder of its own if it needs one."""

    name: str
    stored: Callable[[np.ndarray, Path], Any]
    missing: bool = False  # whether X has cells that are NaN
    codes_on_disk: bool = False
    float32: bool = True  # whether to run it in both precisions: one layout of every class of rows is enough
    device: str | None = None  # the classes for CUDA tensors, on this device
    around: Callable[[], AbstractContextManager[Any]] = nullcontext  # what has to hold while rows are in use

    def data(self, X: np.ndarray, folder: Path) -> Data:
        """Checked data; NaN may be missing cells (also in an X that has none, as far as the backend can that)."""
        A = self.stored(X, folder)
        if self.device is not None:
            from device_tensors import AnyDevice, torch

            return AnyDevice(torch.device(self.device)).check(StandIn("mask"), A, reset=True)
        backend = backend_for(A).storing(folder / "codes.npy" if self.codes_on_disk else None)
        able = "missing" in backend.capabilities
        return backend.check(StandIn("mask" if able else "error"), A, reset=True)


def _npy(X: np.ndarray, folder: Path) -> Any:
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def _zarr(X: np.ndarray, folder: Path) -> Any:
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    array = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(64, 5), dtype=X.dtype)
    array[:] = X
    return array


def _hdf5(X: np.ndarray, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=X)


def _tensor(kind: Callable[[np.ndarray], Any], device: str) -> Callable[[np.ndarray, Path], Any]:
    def stored(X: np.ndarray, folder: Path) -> Any:
        from device_tensors import tensor

        return tensor(kind(X), device)

    return stored


def _chunks(X: np.ndarray, folder: Path) -> Any:
    import dask.array as da

    return da.from_array(X, chunks=((1, 59, 0, X.shape[0] - 60), -1))


def _sparse_chunks(X: np.ndarray, folder: Path) -> Any:
    return _chunks(X, folder).map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=X.dtype))


@contextmanager
def _scheduler(name: str) -> Iterator[None]:
    import dask

    with dask.config.set(scheduler=name, num_workers=2):
        yield


@cache
def _two_workers() -> Any:
    """Two processes; they end with this one."""
    from distributed import Client, LocalCluster

    return Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0"), set_as_default=False)


@contextmanager
def _processes() -> Iterator[None]:
    with _two_workers().as_current():
        yield


def _plain(X: np.ndarray) -> np.ndarray:
    return X


def _in_memory() -> Iterator[Any]:
    kinds: dict[str, Callable[[np.ndarray, Path], Any]] = {
        "C order": lambda X, _: X,
        "Fortran order": lambda X, _: np.asfortranarray(X),
        "strided": lambda X, _: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
        "CSR matrix": lambda X, _: sparse.csr_matrix(X),
        "CSR array": lambda X, _: sparse.csr_array(X),
    }
    for name, stored in kinds.items():
        yield Implementation(f"memory, {name}", stored, float32=name in ("C order", "CSR array"))
    for name in ("C order", "CSR array"):
        yield Implementation(f"memory, {name}, missing cells", kinds[name], missing=True)


def _in_files() -> Iterator[Any]:
    for name, stored in {".npy": _npy, "Zarr": _zarr, "HDF5": _hdf5}.items():
        yield Implementation(f"file, {name}", stored, float32=name == ".npy")
    yield Implementation("file, scratch files", _npy, codes_on_disk=True, float32=False)
    yield Implementation("file, missing cells", _npy, missing=True)
    yield Implementation("file, scratch files, missing cells", _zarr, codes_on_disk=True, missing=True, float32=False)


def _tensors() -> Iterator[Any]:
    no_torch = find_spec("torch") is None
    no_gpu = no_torch or not __import__("torch").cuda.is_available()
    skip_torch = pytest.mark.skipif(no_torch, reason="Torch is not installed")
    skip_gpu = pytest.mark.skipif(no_gpu, reason="no CUDA device")
    for name, kind in {"dense": _plain, "CSR": sparse.csr_array}.items():
        cpu = Implementation(f"CPU tensor, {name}", _tensor(kind, "cpu"), float32=False)
        yield pytest.param(cpu, marks=skip_torch)
        for device, marks in {"cpu": skip_torch, "cuda": skip_gpu}.items():
            stored, title = _tensor(kind, device), f"device rows on {device}, {name}"
            yield pytest.param(Implementation(title, stored, device=device), marks=marks)
            incomplete = Implementation(f"{title}, missing cells", stored, device=device, missing=True)
            yield pytest.param(incomplete, marks=marks)


def _in_dask() -> Iterator[Any]:
    for package in ("dask", "distributed"):
        if find_spec(package) is None:
            marks = pytest.mark.skip(reason=f"{package} is not installed")
            break
    else:
        marks = ()
    for name in ("synchronous", "threads"):
        around = partial(_scheduler, name)
        implementation = Implementation(f"Dask, {name}", _chunks, float32=name == "synchronous", around=around)
        yield pytest.param(implementation, marks=marks)
    yield pytest.param(Implementation("Dask, processes", _chunks, float32=False, around=_processes), marks=marks)
    sparse_chunks = Implementation(
        "Dask, CSR", _sparse_chunks, float32=False, around=partial(_scheduler, "synchronous")
    )
    yield pytest.param(sparse_chunks, marks=marks)


IMPLEMENTATIONS = [*_in_memory(), *_in_files(), *_tensors(), *_in_dask()]


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to cut rows, columns and cells into parts makes several of a small X; small files count as files."""
    sizes = {
        "row_model": {"GROUP": GROUP},
        "memory_rows": {"GROUP": GROUP, "_RESIDUAL": 500, "TRIANGLE": 20},
        "file": {"IN_MEMORY": 0},
        "file_slabs": {"SLAB": 4000},
        "norms": {"TILE": 5},
        "incomplete": {"_BLOCK": 300, "_GOALS": GOALS},
    }
    if find_spec("torch") is not None:
        __import__("torch").set_num_threads(1)  # small tensors are not worth more
        sizes |= {
            "cuda": {"GROUP": GROUP, "CHUNK": 500},
            "cuda_data": {"CHUNK": 500, "_TILE": 5},
            "cuda_incomplete": {"CHUNK": 500, "_GATHERED": 100},
            "cuda_tiles": {"SUMMED": 350},
            "tensor_nnls": {"AT_ONCE": 200},
            "tensor_slabs": {"SLAB": 350, "HELD": 1000, "GATHERED": 100},
        }
    for module, names in sizes.items():
        for name, value in names.items():
            monkeypatch.setattr(f"dspnmf.backends.{module}.{name}", value)
