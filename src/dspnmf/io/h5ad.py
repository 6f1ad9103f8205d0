"""AnnData files (.h5ad), which single-cell programs write: X, names of cells and genes, columns about cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.columns import distinct, find, numbered, positions, texts, whole
from dspnmf.io.errors import ReadError, quoted, refused
from dspnmf.io.named_arrays import as_float, check_matrix
from dspnmf.io.sandbox import ChildProcess
from dspnmf.io.table import Options, Table


def read_h5ad(path: Path, options: Options) -> Table:
    """A table from an AnnData file: X, or the layer named by `variable` (such as ``layers/counts``)."""
    name = (options.variable or "X").strip("/")
    with ChildProcess(path, "hdf5") as file:
        find(path, name, list(file.arrays), "array", "variable")
        file.arrays[name].check_real(path, name)
        check_matrix(path, file.arrays[name].shape, name)
        X = as_float(file.load(name))
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
