"""Zarr stores: an array, or a group of arrays, in a folder."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.limits import IN_MEMORY, check_array, check_size
from dspnmf.io.named_arrays import Array, ArrayInfo, table_of_arrays
from dspnmf.io.table import Options, Table

if TYPE_CHECKING:
    import zarr

# Zarr 2 knows a codec that unpickles: only those that turn bytes into numbers are let through.
_CODECS = frozenset(
    ("bytes", "transpose", "endian", "sharding_indexed", "blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma",
     "crc32c", "crc32", "adler32", "fletcher32", "shuffle", "delta", "astype", "fixedscaleoffset", "packbits")
)  # fmt: skip


def read_zarr(path: Path, options: Options) -> Table:
    """A table from a Zarr array, or from a group with one; above 1 GiB it stays in the store."""
    zarr = library("zarr", "files", path)
    with parsing(path, "Zarr store"):
        store = zarr.open(str(path), mode="r")
        members = [("array", store)] if isinstance(store, zarr.Array) else store.members(max_depth=None)
        items = {name: item for name, item in members if isinstance(item, zarr.Array)}
        arrays = {name: ArrayInfo(tuple(item.shape), np.dtype(item.dtype)) for name, item in items.items()}
        return table_of_arrays(path, arrays, lambda name: _loaded(path, name, items[name]), options.without_slashes())


def _loaded(path: Path, name: str, item: zarr.Array) -> Array:
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
