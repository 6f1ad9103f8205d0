"""Codes of lanes in a folder: a Zarr group with an array for every chunk, named by its first row.

Every worker writes the chunks it has. The folder is written beside the one it replaces and takes its place when it is
complete. It must be one that this process and all workers see under the same path.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dspnmf.rows._lane import Lane, Order, Recipe
from dspnmf.rows._model import Array


@dataclass(frozen=True)
class _Write(Order):
    """Write the codes; the number of rows written."""

    folder: str

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """Of a chunk, whole."""
        (lo, hi), U = lane.spans[number], lane.U[number]
        if hi > lo:
            array = zarr.create_array(f"{self.folder}/{lo:015d}", shape=U.shape, chunks=U.shape, dtype=U.dtype)
            array[:] = U
        return (hi - lo,)


@dataclass(frozen=True)
class Stored(Recipe):
    """Read from a folder, as it was when `name` was written to it."""

    folder: str
    name: str

    @classmethod
    def at(cls, folder: Path) -> Stored:
        """What is there now."""
        return cls(str(folder), zarr.open_group(folder, mode="r").attrs["name"])

    def make(self, lane: Lane, number: int, X: Any, k: int, scale: float) -> Array:
        """Rows may have been written in other chunks than they are read in."""
        group = zarr.open_group(self.folder, mode="r")
        if group.attrs["name"] != self.name:
            raise RuntimeError(
                f"Codes were to be read again from {self.folder!r} because a worker was lost, but it holds other codes "
                "now: fit again."
            )
        lo, hi = lane.spans[number]
        parts = [np.empty((0, k), self._dtype(group))]
        for name in sorted(group.array_keys()):
            first, array = int(name), group[name]
            begin, end = max(lo - first, 0), min(hi - first, array.shape[0])
            if begin < end:
                parts.append(np.asarray(array[begin:end]))
        return np.concatenate(parts)

    @staticmethod
    def _dtype(group: Any) -> Any:
        return np.dtype(group.attrs["dtype"])


def store(run: Callable[[Order], tuple[Any, ...]], folder: Path, dtype: Any) -> None:
    """Write the codes of all lanes to a folder; it is complete at every moment, or not there."""
    name = uuid.uuid4().hex
    new, old = folder.with_name(f"{folder.name}.{name}"), folder.with_name(f"{folder.name}.{name}.old")
    try:
        zarr.create_group(new, attributes={"name": name, "dtype": np.dtype(dtype).name})
        run(_Write(str(new)))
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
