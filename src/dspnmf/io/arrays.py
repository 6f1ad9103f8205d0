"""NumPy files: .npy, one array, and .npz, an archive of them, which may be a SciPy sparse matrix."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.choice import Seen, choose, labels
from dspnmf.io.errors import parsing, quoted, refused
from dspnmf.io.limits import IN_MEMORY, amount, check_shape
from dspnmf.io.matrices import as_float, check_matrix, check_real, compressed, is_real, scattered, unnamed
from dspnmf.io.options import Options
from dspnmf.io.table import Table

_LONGEST = 2**16  # letters of a header
_SPARSE = {"format", "shape", "data"}


class Header(NamedTuple):
    """What a .npy file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Bytes the array must have."""
        return prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path, options: Options) -> Table:
    """A table from a .npy file; above 1 GiB its array stays there, as a memory map."""
    options.only(path, "a .npy file")
    with path.open("rb") as file:
        header = _header(path, file)
        check_real(path, header.dtype)
        check_matrix(path, header.shape)
        begin, there = file.tell(), path.stat().st_size - file.tell()
        if header.size > there:
            raise _too_short(path, "the file", header, there)
        order = "F" if header.fortran else "C"
        if header.size > IN_MEMORY:
            check_shape(path, header.shape, 0)
            return unnamed(np.memmap(path, header.dtype, "r", begin, header.shape, order))  # type: ignore[call-overload]
        check_shape(path, header.shape, 8)
        with parsing(path, ".npy file"):
            X = np.fromfile(file, header.dtype, prod(header.shape)).reshape(header.shape, order=order)  # type: ignore[call-overload]
    return unnamed(as_float(X))


def read_npz(path: Path, options: Options) -> Table:
    """A table from a .npz file: its only matrix, the one named `variable`, or what ``scipy.sparse.save_npz`` wrote."""
    options.only(path, "a .npz file", "variable", "label")
    with _opened(path) as archive:
        headers = {name: _member_header(path, archive, name) for name in _members(archive)}
        if headers.keys() >= _SPARSE and options.variable is None:
            options.only(path, "a sparse matrix in a .npz file")
            return unnamed(_sparse(path, archive, headers))
        seen = {name: Seen(header.shape, is_real(header.dtype)) for name, header in headers.items()}
        chosen = choose(path, seen, options)
        check_real(path, headers[chosen].dtype, f"the array {quoted(chosen)}")
        check_matrix(path, headers[chosen].shape, f"the array {quoted(chosen)}")
        table = unnamed(as_float(_member(path, archive, chosen)))
        if options.label is None:
            return table
        found = labels(path, options.label, _member(path, archive, options.label), len(table.X))
    return Table(table.X, table.features, table.index, columns={options.label: found}, label=options.label)


def _header(path: Path, file: IO[bytes]) -> Header:
    """The header of an array; only what is plain data is taken."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        header = Header(*readers[np.lib.format.read_magic(file)](file, max_header_size=_LONGEST))
    except Exception as error:  # NumPy parses the header as Python, and raises what the parser does
        what = "it does not begin as an array of numbers saved by NumPy: it is cut off, damaged or something else"
        raise refused(path, f"{what}. Copy or save it again.") from error
    if any(length < 0 for length in header.shape):
        raise refused(path, f"its header claims the shape {header.shape}: it is damaged. Copy or save it again.")
    return header


def _too_short(path: Path, what: str, header: Header, there: int) -> Exception:
    """An array that is not there, or not all of it."""
    shape = " x ".join(f"{length:,}" for length in header.shape)
    return refused(
        path,
        f"its header claims {shape} numbers, {amount(header.size)}, but {what} has only {there:,} bytes for them: it "
        "is cut off or damaged. Copy or save it again.",
    )


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive."""
    with parsing(path, ".npz file"), zipfile.ZipFile(path) as archive:
        yield archive


def _members(archive: zipfile.ZipFile) -> list[str]:
    """Names of the arrays in an archive."""
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _member_header(path: Path, archive: zipfile.ZipFile, name: str) -> Header:
    """What a member says of its array."""
    with archive.open(f"{name}.npy") as file:
        return _header(path, file)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array of an archive, read into memory; what the archive says of its size is not trusted either."""
    claimed = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as file:
        header = _header(path, file)
        if header.dtype.hasobject:
            check_real(path, header.dtype, f"the array {quoted(name)}")
        if header.size > claimed:
            raise _too_short(path, f"the array {quoted(name)}", header, claimed)
        check_shape(path, header.shape or (1,), header.dtype.itemsize)
        content = bytearray(file.read(header.size))
    if len(content) < header.size:
        raise _too_short(path, f"the array {quoted(name)}", header, len(content))
    return np.frombuffer(content, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")


def _sparse(path: Path, archive: zipfile.ZipFile, headers: dict[str, Header]) -> Any:
    """The matrix that ``scipy.sparse.save_npz`` wrote."""
    parts = {name: _member(path, archive, name) for name in headers}
    form, shape = parts["format"].item(), tuple(int(length) for length in parts["shape"].ravel())
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if form in ("csr", "csc") and {"indices", "indptr"} <= parts.keys():
        return compressed(path, parts, shape, form)
    if form == "coo" and {"row", "col"} <= parts.keys():
        return scattered(path, parts["row"], parts["col"], parts["data"], shape)
    raise refused(path, f"its sparse matrix has the format {quoted(form)}. Save X.tocsr() instead.")
