"""HDF5 files, and AnnData files (.h5ad), which single-cell programs write: X, names of cells and genes, columns."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.child_process import ChildProcess
from dspnmf.io.errors import ReadError, library, quoted, refused
from dspnmf.io.limits import IN_MEMORY, check_array, check_size
from dspnmf.io.named_arrays import Array, as_float, check_matrix, table_of_arrays
from dspnmf.io.names import distinct, find, numbered, positions, texts, whole
from dspnmf.io.table import Options, Table

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_hdf5(path: Path, options: Options) -> Table:
    """A table from an HDF5 file: its only matrix, or the one named `variable`."""
    with _opened(path) as file:
        return table_of_arrays(path, file.arrays, lambda name: _load(file, name), options.without_slashes())


def read_h5ad(path: Path, options: Options) -> Table:
    """A table from an AnnData file: X, or the layer named by `variable` (such as ``layers/counts``)."""
    name = (options.variable or "X").strip("/")
    with _opened(path) as file:
        find(path, name, list(file.arrays), "array", "variable")
        file.arrays[name].check_real(path, name)
        check_matrix(path, file.arrays[name].shape, name)
        X = as_float(_load(file, name))
        cell_name, cells = _names(file, "obs/")
        _, genes = _names(file, "var/")
        columns = _columns(file, cell_name, X.shape[0], options.label)
    if cells is not None and len(cells) != X.shape[0]:
        raise refused(path, f"it has {X.shape[0]:,} rows, but names for {len(cells):,}: it is damaged. Write it again.")
    return Table(
        X=X,
        features=texts(distinct(genes)) if genes and len(genes) == X.shape[1] else positions(X.shape[1]),
        index=numbered(X.shape[0]) if cells is None else texts(cells),
        index_name="" if cell_name == "_index" else cell_name,
        columns=columns,
        label=options.label,
    )


def has_signature(path: Path) -> bool:
    """Whether a file is HDF5: its signature is at its beginning, or at 512, 1024, 2048... bytes."""
    size, at = path.stat().st_size, 0
    with path.open("rb") as file:
        while at < min(size, 2**20):
            file.seek(at)
            if file.read(8) == _SIGNATURE:
                return True
            at = 2 * at or 512
    return False


def _opened(path: Path) -> ChildProcess:
    """The file, in a process of its own."""
    child = ChildProcess(path, "hdf5")
    if not has_signature(path):
        raise refused(path, "it is not an HDF5 file. Check its type, and that it is complete.")
    return child


def _load(file: ChildProcess, name: str) -> Array:
    """An array in memory; above 1 GiB it stays in the file, which stays open."""
    info = file.arrays[name]
    if info.size <= IN_MEMORY or info.sparse or not info.real:
        return file.load(name)
    check_array(file.path, info.shape, 0)
    dataset = library("h5py", "files", file.path).File(file.path, "r")[name]
    check_size(file.path, prod(dataset.chunks or (0,)) * dataset.dtype.itemsize, f"chunks of {dataset.chunks} numbers")
    return dataset


def _names(file: ChildProcess, group: str) -> tuple[str, list[str] | None]:
    """Names of cells or genes, and what they are called."""
    for name, info in file.arrays.items():
        if name == f"{group}_index" or (info.is_index and name.startswith(group)):
            return name.removeprefix(group), [str(value) for value in file.load(name).tolist()]
    return "_index", None


def _columns(file: ChildProcess, index: str, n: int, label: str | None) -> dict[str, NDArray[Any]]:
    """Columns about cells; what is neither numbers nor text is left out, unless it is the label."""
    inside = {name.removeprefix("obs/"): info for name, info in file.arrays.items() if name.startswith("obs/")}
    known = {name: info for name, info in inside.items() if "/" not in name and name != index}
    if label is not None:
        find(file.path, label, list(known), "column", "label")
    columns = {}
    for name, info in known.items():
        try:
            if info.shape != (n,):
                raise refused(file.path, f"{quoted(name)} has shape {info.shape}, but there are {n:,} rows.")
            columns[name] = whole(np.asarray(file.load(f"obs/{name}")))
        except ReadError:
            if name == label:
                raise
    return columns
