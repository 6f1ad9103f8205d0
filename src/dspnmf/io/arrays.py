"""Files of arrays: .npy; .npz, .mat, .mtx and HDF5, which a child process opens; and Zarr stores."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dspnmf.io._sandbox_child import npy_header
from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.limits import IN_MEMORY, amount, check_array, check_size, times
from dspnmf.io.named_arrays import Array, ArrayInfo, table_of_arrays
from dspnmf.io.sandbox import ChildProcess
from dspnmf.io.table import Options, Table

if TYPE_CHECKING:
    import zarr

# Zarr 2 knows a codec that unpickles: only those that turn bytes into numbers are let through.
_CODECS = frozenset(
    ("bytes", "transpose", "endian", "sharding_indexed", "blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma",
     "crc32c", "crc32", "adler32", "fletcher32", "shuffle", "delta", "astype", "fixedscaleoffset", "packbits")
)  # fmt: skip


def read_npy(path: Path, options: Options) -> Table:
    """A table from a .npy file; above 1 GiB its array stays there, as a memory map."""
    with path.open("rb") as file:
        try:
            shape, fortran, dtype = npy_header(file)
        except Exception as error:  # NumPy parses the header as Python, and raises what the parser does
            what = "it does not begin as an array of numbers saved by NumPy: it is cut off, damaged or something else"
            raise refused(path, f"{what}. Copy or save it again.") from error
        begin = file.tell()
    size, there = prod(shape) * dtype.itemsize, path.stat().st_size - begin
    if not dtype.hasobject and (size > there or any(length < 0 for length in shape)):
        what = (
            f"its header claims {times(shape)} numbers, {amount(size)}, but the file has only {there:,} bytes for them"
        )
        raise refused(path, f"{what}: it is cut off or damaged. Copy or save it again.")

    def load(_: str) -> Array:
        mapped = np.memmap(path, dtype, "r", begin, shape, "F" if fortran else "C")
        check_array(path, shape, 0 if size > IN_MEMORY else 8 * mapped.size)
        return mapped if size > IN_MEMORY else np.array(mapped)

    return table_of_arrays(path, {"array": ArrayInfo(shape, dtype)}, load, options)


def read_in_child(path: Path, options: Options, *, kind: str) -> Table:
    """A table from a file that a child process reads: its only matrix, or the one named `variable`."""
    with ChildProcess(path, kind) as file:
        return table_of_arrays(path, file.arrays, file.load, options, scenes=kind.startswith("matlab"))


def read_mat(path: Path, options: Options) -> Table:
    """A table from a MATLAB file, which may be a scene; version 7.3 is HDF5, after a block of 512 bytes."""
    with path.open("rb") as file:
        is_hdf5 = b"\x89HDF\r\n\x1a\n" in file.read(520)
    return read_in_child(path, options, kind="matlab73" if is_hdf5 else "matlab")


def read_zarr(path: Path, options: Options) -> Table:
    """A table from a Zarr array, or from a group with one; above 1 GiB it stays in the store."""
    zarr = library("zarr", "files", path)
    with parsing(path, "Zarr store"):
        store = zarr.open(str(path), mode="r")
        members = [("array", store)] if isinstance(store, zarr.Array) else store.members(max_depth=None)
        items = {name: item for name, item in members if isinstance(item, zarr.Array)}
        arrays = {name: ArrayInfo(tuple(item.shape), np.dtype(item.dtype)) for name, item in items.items()}
        return table_of_arrays(path, arrays, lambda name: _zarr_array(path, name, items[name]), options)


def _zarr_array(path: Path, name: str, item: zarr.Array) -> Array:
    """An array that is made of bytes and nothing else, and of a plausible size."""
    metadata = item.metadata
    codecs = getattr(metadata, "codecs", None)
    if codecs is None:
        codecs = [*(metadata.filters or ()), *([metadata.compressor] if metadata.compressor else [])]
    for codec in codecs:
        config = codec.to_dict() if hasattr(codec, "to_dict") else codec.get_config()
        kind = str(config.get("name", config.get("id"))).removeprefix("numcodecs.")
        if kind not in _CODECS:
            raise refused(
                path, f"{quoted(name)} is stored with {quoted(kind)}, which is not trusted. Save it with zstd or gzip."
            )
    itemsize, large = np.dtype(item.dtype).itemsize, item.nbytes > IN_MEMORY
    check_array(path, tuple(item.shape), 0 if large else item.nbytes)
    check_size(path, prod(item.chunks) * itemsize, f"{quoted(name)} in chunks of {item.chunks} numbers")
    return item if large else np.asarray(item[...])
