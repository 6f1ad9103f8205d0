"""NumPy files (.npy, one array; .npz, an archive of them, which may be a SciPy sparse matrix) and Zarr stores."""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.limits import IN_MEMORY, amount, check_array, check_size, times
from dspnmf.io.named_arrays import Array, ArrayInfo, check_matrix, sparse_array, table_of_arrays
from dspnmf.io.table import Options, Table

if TYPE_CHECKING:
    import zarr

_LONGEST = 2**16  # letters of a header
_SPARSE = "sparse matrix"
# Zarr 2 knows a codec that unpickles: only those that turn bytes into numbers are let through.
_CODECS = frozenset(
    ("bytes", "transpose", "endian", "sharding_indexed", "blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma",
     "crc32c", "crc32", "adler32", "fletcher32", "shuffle", "delta", "astype", "fixedscaleoffset", "packbits")
)  # fmt: skip


class _Header(NamedTuple):
    """What a .npy file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    def check(self, path: Path, what: str, there: int) -> None:
        """Refuse an array that is not completely there."""
        size = prod(self.shape) * self.dtype.itemsize
        if any(length < 0 for length in self.shape) or size > there:
            raise refused(
                path,
                f"its header claims {times(self.shape)} numbers, {amount(size)}, but {what} has only {there:,} bytes "
                "for them: it is cut off or damaged. Copy or save it again.",
            )


def read_npy(path: Path, options: Options) -> Table:
    """A table from a .npy file; above 1 GiB its array stays there, as a memory map."""
    with path.open("rb") as file:
        header, begin = _header(path, file), file.tell()
    if not header.dtype.hasobject:
        header.check(path, "the file", path.stat().st_size - begin)

    def load(_: str) -> Array:
        mapped = np.memmap(path, header.dtype, "r", begin, header.shape, "F" if header.fortran else "C")
        check_array(path, header.shape, 0 if mapped.nbytes > IN_MEMORY else 8 * mapped.size)
        return mapped if mapped.nbytes > IN_MEMORY else np.array(mapped)

    return table_of_arrays(path, {"array": ArrayInfo(header.shape, header.dtype)}, load, options)


def read_npz(path: Path, options: Options) -> Table:
    """A table from a .npz file: its only matrix, the one named `variable`, or what ``scipy.sparse.save_npz`` wrote."""
    with parsing(path, ".npz file"), zipfile.ZipFile(path) as archive:
        arrays = {}
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as file:
                    header = _header(path, file)
                arrays[name.removesuffix(".npy")] = ArrayInfo(header.shape, header.dtype)
        if arrays.keys() >= {"format", "shape", "data"} and options.variable is None:
            X = _sparse(path, archive, list(arrays))
            arrays[_SPARSE] = ArrayInfo(X.shape, X.dtype, sparse="csr")
            for name in ("data", "indices", "indptr", "row", "col", "format", "shape"):
                arrays.pop(name, None)
        return table_of_arrays(
            path, arrays, lambda name: X if name == _SPARSE else _member(path, archive, name), options
        )


def _header(path: Path, file: IO[bytes]) -> _Header:
    """The header of an array."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        return _Header(*readers[np.lib.format.read_magic(file)](file, max_header_size=_LONGEST))
    except Exception as error:  # NumPy parses the header as Python, and raises what the parser does
        what = "it does not begin as an array of numbers saved by NumPy: it is cut off, damaged or something else"
        raise refused(path, f"{what}. Copy or save it again.") from error


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array of an archive, read into memory; the size the archive claims is checked against what is there."""
    with archive.open(f"{name}.npy") as file:
        header = _header(path, file)
        if header.dtype.hasobject:
            ArrayInfo(header.shape, header.dtype).check_real(path, name)
        header.check(path, f"the array {quoted(name)}", archive.getinfo(f"{name}.npy").file_size)
        check_array(path, header.shape, prod(header.shape) * header.dtype.itemsize)
        content = bytearray(file.read(prod(header.shape) * header.dtype.itemsize))
    header.check(path, f"the array {quoted(name)}", len(content))
    return np.frombuffer(content, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")


def _sparse(path: Path, archive: zipfile.ZipFile, names: list[str]) -> Array:
    """The matrix that ``scipy.sparse.save_npz`` wrote."""
    parts = {name: _member(path, archive, name) for name in names}
    form, shape = parts["format"].item(), tuple(int(length) for length in parts["shape"].ravel())
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if form == "coo" and {"row", "col"} <= parts.keys():
        check_matrix(path, shape, _SPARSE)
        check_array(path, shape[:1], 16 * shape[0])
        X = sparse.coo_array((parts["data"], (parts["row"], parts["col"])), shape=shape).tocsr()
        form, parts = "csr", {name: getattr(X, name) for name in ("data", "indices", "indptr")}
    if form not in ("csr", "csc") or not {"indices", "indptr"} <= parts.keys():
        raise refused(path, f"its sparse matrix has the format {quoted(form)}. Save X.tocsr() instead.")
    return sparse_array(path, form, parts, shape)


def read_zarr(path: Path, options: Options) -> Table:
    """A table from a Zarr array, or from a group with one; above 1 GiB it stays in the store."""
    zarr = library("zarr", "files", path)
    with parsing(path, "Zarr store"):
        store = zarr.open(str(path), mode="r")
        members = [("array", store)] if isinstance(store, zarr.Array) else store.members(max_depth=None)
        items = {name: item for name, item in members if isinstance(item, zarr.Array)}
        arrays = {name: ArrayInfo(tuple(item.shape), np.dtype(item.dtype)) for name, item in items.items()}
        return table_of_arrays(
            path, arrays, lambda name: _zarr_array(path, name, items[name]), options.without_slashes()
        )


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
