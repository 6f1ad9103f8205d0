"""Arrays in HDF5 files and Zarr stores."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dspnmf.io.choice import Seen, choose, labels
from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.hdf5 import Hdf5, Member
from dspnmf.io.limits import IN_MEMORY, check_shape, check_size
from dspnmf.io.matrices import as_float, check_matrix, check_real, is_real, unnamed
from dspnmf.io.options import Options
from dspnmf.io.table import Table

# Zarr 2 knows a codec that unpickles: only those that turn bytes into numbers are let through.
_CODECS = frozenset(
    ("bytes", "transpose", "endian", "sharding_indexed", "blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma",
     "crc32c", "crc32", "adler32", "fletcher32", "shuffle", "delta", "astype", "fixedscaleoffset", "packbits")
)  # fmt: skip


def read_hdf5(path: Path, options: Options) -> Table:
    """A table from an HDF5 file: its only matrix, or the one named `variable`."""
    options.only(path, "an HDF5 file", "variable", "label")
    options = _without_slashes(options)
    with Hdf5(path) as file:
        arrays = file.arrays()
        chosen = choose(path, {name: Seen(array.shape, array.real) for name, array in arrays.items()}, options)
        if arrays[chosen].kind == "array":
            check_matrix(path, arrays[chosen].shape, quoted(chosen))
        X = file.matrix(arrays[chosen])
        found = None if options.label is None else _values(file, arrays[options.label])
    return _table(path, X, options, found)


def read_zarr(path: Path, options: Options) -> Table:
    """A table from a Zarr array, or from a group with one; above 1 GiB it stays in the store."""
    options.only(path, "a Zarr store", "variable", "label")
    options = _without_slashes(options)
    zarr = library("zarr", "files", path)
    with parsing(path, "Zarr store"):
        store = zarr.open(str(path), mode="r")
        if isinstance(store, zarr.Array):
            options.only(path, "a Zarr array")
            return _table(path, _zarr_matrix(path, "its array", store), options, None)
        arrays = {name: item for name, item in store.members(max_depth=None) if isinstance(item, zarr.Array)}
        seen = {name: Seen(tuple(item.shape), is_real(np.dtype(item.dtype))) for name, item in arrays.items()}
        chosen = choose(path, seen, options)
        X = _zarr_matrix(path, quoted(chosen), arrays[chosen])
        found = None
        if options.label is not None:
            item = arrays[options.label]
            _check_zarr(path, quoted(options.label), item)
            found = np.asarray(item[...])
        return _table(path, X, options, found)


def _table(path: Path, X: Any, options: Options, found: Any) -> Table:
    """A table of a matrix, with labels where there are some."""
    if found is None or options.label is None:
        return unnamed(X)
    return unnamed(X, columns={options.label: labels(path, options.label, found, X.shape[0])}, label=options.label)


def _values(file: Hdf5, member: Member) -> Any:
    """Labels in an HDF5 file: numbers or texts."""
    return np.array(file.texts(member)).reshape(member.shape) if member.dtype == "text" else file.numbers(member)


def _zarr_matrix(path: Path, what: str, item: Any) -> Any:
    """A Zarr array as a table has it."""
    check_matrix(path, tuple(item.shape), what)
    _check_zarr(path, what, item)
    check_real(path, np.dtype(item.dtype), what)
    if item.nbytes <= IN_MEMORY:
        return as_float(np.asarray(item[...]))
    check_shape(path, tuple(item.shape), 0)
    return item


def _check_zarr(path: Path, what: str, item: Any) -> None:
    """Whether an array is made of bytes and nothing else, and believable."""
    meta = item.metadata
    codecs = getattr(meta, "codecs", None)
    if codecs is None:
        codecs = [*(meta.filters or ()), *([meta.compressor] if meta.compressor else [])]
    for codec in codecs:
        told = codec.to_dict() if hasattr(codec, "to_dict") else codec.get_config()
        name = str(told.get("name", told.get("id"))).removeprefix("numcodecs.")
        if name not in _CODECS:
            raise refused(
                path, f"{what} is stored with {quoted(name)}, which is not trusted. Save it with zstd or gzip."
            )
    itemsize = np.dtype(item.dtype).itemsize
    if item.nbytes <= IN_MEMORY:
        check_shape(path, tuple(item.shape) or (1,), itemsize)
    check_size(path, prod(item.chunks) * itemsize, f"{what} in chunks of {item.chunks} numbers")


def _without_slashes(options: Options) -> Options:
    """Names of arrays as they are listed, without the slash of the root."""
    label, variable = (name and name.strip("/") for name in (options.label, options.variable))
    return Options(label=label, variable=variable)
