"""MATLAB files (.mat): a matrix of samples x features, or a scene of height x width x bands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dspnmf.io.choice import Seen, choose, labels
from dspnmf.io.errors import quoted, refused
from dspnmf.io.hdf5 import Hdf5, Member, has_signature
from dspnmf.io.matfile import MatFile
from dspnmf.io.matrices import as_float, check_matrix, compressed, unnamed
from dspnmf.io.options import Options
from dspnmf.io.table import Table

_OTHER = "does not hold real numbers, and nothing else is read. Name another array."


def read_mat(path: Path, options: Options) -> Table:
    """A table from a MATLAB file: its only matrix or scene, or the one named `variable`."""
    options.only(path, "a .mat file", "variable", "label")
    return _read_hdf5(path, options) if has_signature(path) else _read_mat(path, options)


def _read_mat(path: Path, options: Options) -> Table:
    """Versions 5 to 7.2."""
    with path.open("rb") as opened:
        file = MatFile(path, opened)
        kinds = file.variables
        chosen = choose(path, {name: Seen(kind.shape, kind.real) for name, kind in kinds.items()}, options, scenes=True)
        for name in filter(None, (chosen, options.label)):
            if not kinds[name].real:
                raise refused(path, f"{quoted(name)} {_OTHER}")
        X = file.read(kinds[chosen])
        found = None if options.label is None else file.read(kinds[options.label])
    return _scene(path, X, options, found, chosen)


def _read_hdf5(path: Path, options: Options) -> Table:
    """Version 7.3."""
    with Hdf5(path) as file:
        members = {name: member for name, member in file.members().items() if not name.startswith("#")}
        seen = {name: Seen(_shape(member), _is_real(member)) for name, member in members.items()}
        chosen = choose(path, seen, options, scenes=True)
        X = _array(file, members[chosen])
        found = None if options.label is None else _array(file, members[options.label])
    return _scene(path, X, options, found, chosen)


def _scene(path: Path, X: Any, options: Options, found: Any, name: str) -> Table:
    """The same where three dimensions are a scene, whose pixels are the samples, line by line."""
    grid = None
    if X.ndim == 3 and 0 not in X.shape:
        grid = (int(X.shape[0]), int(X.shape[1]))
        X = X.reshape(-1, X.shape[2])
    check_matrix(path, X.shape, quoted(name))
    X = np.ascontiguousarray(as_float(X)) if isinstance(X, np.ndarray) else as_float(X)
    if found is None or options.label is None:
        return unnamed(X, grid=grid)
    if not isinstance(found, np.ndarray):
        raise refused(path, f"label={quoted(options.label)} is a sparse matrix. Name an array with one label a sample.")
    column = labels(path, options.label, found, X.shape[0], grid)
    return unnamed(X, grid=grid, columns={options.label: column}, label=options.label)


def _is_real(member: Member) -> bool:
    """Whether MATLAB has numbers there: texts are numbers to HDF5, and a sparse matrix is a group."""
    if member.kind == "group":
        return "MATLAB_sparse" in member.attributes
    return member.real and member.attributes.get("MATLAB_class") != "char" and "MATLAB_empty" not in member.attributes


def _shape(member: Member) -> tuple[int, ...]:
    """The shape in MATLAB, which counts dimensions the other way round; of a sparse matrix only rows are known."""
    rows = member.attributes.get("MATLAB_sparse")
    return member.shape[::-1] if member.kind == "array" else (int(rows), 2) if isinstance(rows, int) else ()


def _array(file: Hdf5, member: Member) -> Any:
    """An array of a MATLAB file of version 7.3."""
    if not _is_real(member):
        raise refused(file.path, f"{quoted(member.name)} {_OTHER}")
    if member.kind == "array":
        return file.numbers(member).T
    found = file.members(member.name)
    if not found.keys() >= {"data", "ir", "jc"} or not isinstance(member.attributes["MATLAB_sparse"], int):
        raise refused(file.path, f"{quoted(member.name)} is a damaged sparse matrix. Save it again.")
    parts = {name: file.numbers(found[part]) for name, part in (("data", "data"), ("indices", "ir"), ("indptr", "jc"))}
    return compressed(file.path, parts, (member.attributes["MATLAB_sparse"], parts["indptr"].size - 1), "csc")
