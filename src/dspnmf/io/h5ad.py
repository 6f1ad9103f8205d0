"""AnnData files (.h5ad), as single-cell programs write them: X, names of cells and genes, and columns about cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.cells import whole
from dspnmf.io.errors import ReadError, quoted, refused
from dspnmf.io.hdf5 import Hdf5, Member
from dspnmf.io.matrices import check_matrix, compressed
from dspnmf.io.names import distinct, find, nearest, numbered, positions, texts
from dspnmf.io.options import Options
from dspnmf.io.table import Table

_INDEX = "_index"
_PARTS = ("data", "indices", "indptr")


def read_h5ad(path: Path, options: Options) -> Table:
    """A table from an AnnData file: X, or the layer named by `variable` (such as ``layers/counts``)."""
    options.only(path, "a .h5ad file", "variable", "label")
    with Hdf5(path) as file:
        root = file.members()
        X = _matrix(file, _member(file, root, options.variable or "X"))
        cells, cell_name, members = _names(file, root, "obs")
        genes, _, _ = _names(file, root, "var")
        columns = _columns(file, members, cells, X.shape[0], options.label)
    if cells is not None and len(cells) != X.shape[0]:
        raise refused(path, f"it has {X.shape[0]:,} rows, but names for {len(cells):,}: it is damaged. Write it again.")
    named = genes is not None and len(genes) == X.shape[1]
    return Table(
        X=X,
        features=texts(distinct(genes or ())) if named else positions(X.shape[1]),
        index=numbered(X.shape[0]) if cells is None else texts(cells),
        index_name="" if cell_name == _INDEX else cell_name,
        columns=columns,
        label=options.label,
    )


def _member(file: Hdf5, root: dict[str, Member], name: str) -> Member:
    """What a path names: X, or an array of a group such as ``layers``."""
    *groups, last = name.strip("/").split("/")
    members = root
    for place, group in enumerate(groups):
        if group not in members or members[group].kind != "group":
            break
        members = file.members("/".join(groups[: place + 1]))
    if last not in members:
        option = "" if name == "X" else " Correct variable."
        raise refused(file.path, f"it has no {quoted(name)}. {nearest(last, list(members), 'array')}{option}")
    return members[last]


def _matrix(file: Hdf5, member: Member) -> Any:
    """A dense array, or a group with the three arrays of a sparse one."""
    if member.kind != "group":
        check_matrix(file.path, member.shape, quoted(member.name))
        return file.matrix(member)
    parts = file.members(member.name)
    by = str(member.attributes.get("encoding-type", "")).removesuffix("_matrix")
    shape = member.attributes.get("shape")
    if by not in ("csr", "csc") or not parts.keys() >= set(_PARTS) or not isinstance(shape, list) or len(shape) != 2:
        raise refused(
            file.path,
            f"{quoted(member.name)} is neither an array nor a CSR or CSC matrix. Write it with anndata >= 0.8.",
        )
    return compressed(file.path, {part: file.numbers(parts[part]) for part in _PARTS}, tuple(map(int, shape)), by)


def _names(file: Hdf5, root: dict[str, Member], group: str) -> tuple[list[str] | None, str, dict[str, Member]]:
    """Names of cells or genes, what they are called, and the other columns about them."""
    frame = root.get(group)
    if frame is None or frame.kind != "group":
        return None, _INDEX, {}
    members = file.members(group)
    name = str(frame.attributes.get(_INDEX, _INDEX))
    if name not in members:
        return None, _INDEX, members
    column = _column(file, members.pop(name))
    return [str(value) for value in column.tolist()], name, members


def _columns(
    file: Hdf5, members: dict[str, Member], cells: list[str] | None, n: int, label: str | None
) -> dict[str, NDArray[Any]]:
    """Columns about cells; what is neither numbers nor text is left out, unless it is the label."""
    if label is not None:
        find(file.path, label, list(members), "column", "label")
    columns = {}
    for name, member in members.items():
        try:
            column = _column(file, member)
        except ReadError:
            if name == label:
                raise
            continue
        if column.shape == (n,):
            columns[name] = column
        elif name == label:
            raise refused(file.path, f"label={quoted(name)} has shape {column.shape}, but there are {n:,} rows.")
    return columns


def _column(file: Hdf5, member: Member) -> NDArray[Any]:
    """One column: numbers, texts, categories by their codes, or numbers of which some are masked."""
    if member.kind != "group":
        return texts(file.texts(member)) if member.dtype == "text" else whole(file.numbers(member))
    parts = file.members(member.name)
    if {"codes", "categories"} <= parts.keys():
        codes, known = file.numbers(parts["codes"]), _column(file, parts["categories"])
        if codes.dtype.kind not in "iu" or codes.ndim != 1 or np.any(codes >= len(known)):
            raise refused(file.path, f"the categories of {quoted(member.name)} are damaged. Write it again.")
        known = np.append(known.astype(known.dtype if known.dtype.kind in "fUO" else float), _nothing(known))
        return whole(known[np.where(codes < 0, len(known) - 1, codes)])
    if {"values", "mask"} <= parts.keys() and parts["values"].real:
        values, mask = file.numbers(parts["values"]).astype(float), file.numbers(parts["mask"])
        return whole(np.where(mask, np.nan, values))
    raise refused(file.path, f"{quoted(member.name)} is no column of numbers or text. Write it again.")


def _nothing(known: NDArray[Any]) -> Any:
    """What stands for a cell without a category."""
    return "" if known.dtype.kind in "UO" else np.nan
