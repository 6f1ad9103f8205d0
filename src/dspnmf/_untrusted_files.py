"""Arrays in files that anyone may have written: model files, checkpoints.

Nothing is unpacked before its size is known, no array is made before its shape is, and none is used before its type,
its entries and their sign are checked.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspnmf._typing import ArrayLike

Shape = tuple[int | None, ...]  # None: any length

FLOATS: tuple[DTypeLike, ...] = (np.float32, np.float64)
ANY_SIGN = float("inf")
ROUNDED_SUMS = 1e-3  # sums of non-negative numbers that were kept up to date by adding differences, in float32
_KINDS = "biufcUSMm"  # numbers, text and times; neither objects nor records
_FREE = 2**25  # bytes that compressed arrays may take in any case, and
_RATIO = 32  # bytes in addition for each of the archive: sparse arrays of ones and zeros compress to a twentieth


class ArrayHeader(NamedTuple):
    """What an array in the format of ``numpy.save`` says of itself."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


class StoredArchive(ZipFile):
    """A zip archive whose members are all different, not compressed, and together no larger than the file."""

    def __init__(self, file: Path | BinaryIO) -> None:
        if isinstance(file, Path) and not file.is_file():
            raise ValueError("it is not a regular file")  # reading from a pipe might never end
        super().__init__(file)
        try:
            self._check_members()
        except BaseException:
            self.close()
            raise

    def _check_members(self) -> None:
        assert self.fp is not None
        size = self.fp.seek(0, 2)
        _check_names(self)
        for member in self.infolist():
            if member.compress_type != ZIP_STORED or member.compress_size != member.file_size:
                raise ValueError(f"its member {member.filename!r} is compressed, which dspnmf never does")
        if (claimed := sum(member.file_size for member in self.infolist())) > size:
            raise ValueError(f"its members claim {claimed:,} bytes, but it has {size:,}")

    def check_array(self, name: str) -> None:
        """Refuse a member that is not an array in the format of ``numpy.save``, of just the size it says."""
        with self.open(name) as member:
            array_header(member, self.getinfo(name))

    def check_sparse(self, name: str, budget: int) -> int:
        """Refuse a member that is not a sparse matrix of SciPy's, or takes more than `budget` bytes; those it takes."""
        with ZipFile(io.BytesIO(self.read(name))) as inner:
            _check_names(inner)
            taken = sum(part.file_size for part in inner.infolist())
            if taken > budget:
                raise ValueError(f"its member {name!r} claims {taken:,} bytes, more than a file of this size can hold")
            for part in inner.infolist():
                if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                    raise ValueError(f"its member {name!r} is compressed in an unusual way")
                with inner.open(part) as member:
                    array_header(member, part)
        return taken

    def budget(self) -> int:
        """Bytes that all sparse matrices together may take."""
        assert self.fp is not None
        return _FREE + _RATIO * self.fp.seek(0, 2)

    def array(self, name: str, shape: Shape, *dtypes: DTypeLike, below: float = 0.0) -> NDArray[Any]:
        """The array ``name.npy`` of this shape and one of these types, checked as by `value_faults`."""
        with self.open(f"{name}.npy") as member:
            header = array_header(member, self.getinfo(f"{name}.npy"))
            _refuse(_header_faults(name, header.shape, header.dtype, shape, dtypes))
        with self.open(f"{name}.npy") as member:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        _refuse(value_faults(name, array, below))
        return array

    def text(self, name: str) -> str:
        """The text ``name.npy``."""
        self.check_array(f"{name}.npy")
        with self.open(f"{name}.npy") as member:
            return str(np.lib.format.read_array(member, allow_pickle=False))

    def row_blocks(self, name: str, shape: tuple[int, int], dtype: DTypeLike, length: int) -> Iterator[NDArray[Any]]:
        """The same for a large array (entries >= 0), in blocks of `length` rows."""
        n, k = shape
        with self.open(f"{name}.npy") as member:
            header = array_header(member, self.getinfo(f"{name}.npy"))
            _refuse(_header_faults(name, header.shape, header.dtype, shape, (dtype,)))
            if header.fortran_order and min(shape) > 1:
                raise ValueError(f"{name} is stored by columns, but must be stored by rows")
            for i in range(0, n, length):
                rows = min(length, n - i)
                block = np.frombuffer(member.read(rows * k * header.dtype.itemsize), header.dtype).reshape(rows, k)
                _refuse(value_faults(name, block))
                yield block
            member.read(1)  # nothing is left; makes sure of the checksum


def array_header(file: IO[bytes], member: ZipInfo) -> ArrayHeader:
    """The header of the array that a member of an archive holds, and nothing else."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    header = ArrayHeader(*read(file))
    if header.dtype.kind not in _KINDS or header.dtype.itemsize == 0 or min(header.shape, default=0) < 0:
        raise ValueError(f"{member.filename!r} holds {header.dtype} of shape {header.shape}, not plain values")
    if (needed := prod(header.shape) * header.dtype.itemsize) != member.file_size - file.tell():
        raise ValueError(
            f"{member.filename!r} has {member.file_size - file.tell():,} bytes for an array of shape {header.shape}, "
            f"which takes {needed:,}"
        )
    return header


def array_faults(name: str, array: ArrayLike, shape: Shape, below: float = 0.0) -> Iterator[str]:
    """What is wrong with an array of floats, dense or sparse: its kind, its shape, its type, or what it holds."""
    if not (isinstance(array, np.ndarray) or sparse.issparse(array)):
        yield f"{name} is a {type(array).__name__}, but must be an array"
        return
    yield from (found := list(_header_faults(name, array.shape, array.dtype, shape, FLOATS)))
    if not found:
        yield from value_faults(name, array.data if sparse.issparse(array) else array, below)


def _header_faults(
    name: str, found: tuple[int, ...], dtype: np.dtype[Any], shape: Shape, dtypes: tuple[DTypeLike, ...]
) -> Iterator[str]:
    if len(found) != len(shape) or any(b not in (a, None) for a, b in zip(found, shape, strict=True)):
        yield f"{name} has shape {found}, but must have {shape}"
    if dtype not in dtypes:
        yield f"{name} has dtype {dtype}, but must be {' or '.join(str(np.dtype(one)) for one in dtypes)}"


def value_faults(name: str, values: NDArray[Any], below: float = 0.0) -> Iterator[str]:
    """Whether entries are not finite, or further below 0 than `below` times the largest (ANY_SIGN: of any sign)."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)  # NaN where there is one
    if not (np.isfinite(low) and np.isfinite(high) and (below == ANY_SIGN or low >= -below * high)):
        yield f"{name} has entries that are not finite{'' if below == ANY_SIGN else ', or negative'}"


def generator_faults(name: str, position: object) -> Iterator[str]:
    """What is wrong with the position of a Mersenne twister among its 624 words, which NumPy does not check."""
    if not (isinstance(position, int) and 0 <= position <= 624):
        yield f"{name} is at position {position!r}, but must be at one from 0 to 624"


def _check_names(archive: ZipFile) -> None:
    if len(set(archive.namelist())) < len(archive.namelist()):
        raise ValueError("it has two members of one name")


def _refuse(faults: Iterator[str]) -> None:
    for fault in faults:
        raise ValueError(fault)
