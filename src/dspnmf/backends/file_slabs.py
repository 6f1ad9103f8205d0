"""Reading X from a file in slabs of rows: one slab is read while another is worked on.

Requirements: X is a memory map of a .npy or raw file, a Zarr array or an HDF5 dataset, two-dimensional, of numbers.
What is not float32 or float64 in this machine's byte order becomes so slab by slab, as scikit-learn would have it. A
memory map with contiguous rows is read through its file, not through the map: then its pages do not count as memory,
and a file that was cut off is an error, where touching the map would end the process.

A fit rests on X staying as it is. Every slab must have the checksum it had when it was first read, and the storage must
hold at the end of that first reading what it held before: chunks of Zarr and ends of HDF5 files that are gone read as
zeros. Whatever else goes wrong while rows are read becomes an `OSError` that names them.

Every thread holds a slab of `SLAB` bytes; where the rows of one chunk have more (at most `CHUNK`), the threads share
two slabs of that size. Arrays of the codes' shape may lie in unnamed files too (`ScratchFolder`), mapped, their pages
released when a block has been used.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from functools import partial, reduce
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from dspnmf._threads import added, spread
from dspnmf._typing import Array, ArrayLike

SLAB = 2**22
CHUNK = 2**28
_READ_COST = 40.0  # operations in the time it takes to read a number
_WHOLE_BLOCKS = 128  # rows a kernel takes at once, at most: slabs are cut where its blocks end

_LEAVE_ALONE = "Leave the data alone during a fit, open them again, and fit again."
_TOO_SHORT = "{path} has {size} bytes, but X needs {needed}: the file was cut off since it was opened. " + _LEAVE_ALONE
_CHANGED = (
    "{path} was changed since X was opened or the fit began: rows {lo} to {hi} are others now, so the rows of X do not "
    "belong together. " + _LEAVE_ALONE
)
_RESHAPED = "X had shape {before} when the fit began and has {now} now. " + _LEAVE_ALONE
_LOST = "{path} has lost a part of X since the fit began. " + _LEAVE_ALONE
_GONE = "{path} no longer holds X: it was deleted or moved. Restore it, open it again, and fit again."
_UNREADABLE = (
    "Rows {lo} to {hi} of X cannot be read from {path} ({error}): it is damaged, or was changed, closed or deleted. "
    + _LEAVE_ALONE
)
_CHUNKS_TOO_TALL = (
    "X is stored in chunks of shape {chunks}, so one slab of whole rows has {size} bytes, but at most {most} are read "
    "at once: store X again in chunks of fewer rows (for example 1,000 rows and all columns)."
)

Read = Callable[[int, int, Array], None]  # rows lo to hi into an array
Task = Callable[[int, Array], Any]  # the number of the first of some rows, and these rows


class FileChangedError(OSError):
    """X is not what it was when it was opened or the fit began."""


class SlabReader:
    """Rows of an array in a file, slab by slab, as float32 or float64."""

    def __init__(self, X: ArrayLike, dtype: np.dtype[Any]) -> None:
        self.shape: tuple[int, int] = tuple(X.shape)
        self.dtype = np.dtype(dtype)
        self.step = min(self.shape[0], _slab_rows(X, self.shape[1] * self.dtype.itemsize))
        self._X, self._path = X, path_of(X) or "its storage"
        self._source, self._stored = _source(X), _amount_stored(X)
        self._checksums: dict[int, np.uint64] = {}  # of every slab, by its first row
        self._unit = self.dtype.type(1)  # that rows are divided by

    def divided(self, unit: float) -> Self:
        """The same rows, divided by a number."""
        reader = copy(self)
        reader._unit = self.dtype.type(unit)
        return reader

    def slabs(self, first: int = 0) -> Iterator[tuple[int, Array]]:
        """Rows in their order from the slab that begins at `first`; each slab is overwritten by the next but one."""
        n, step = self.shape[0], self.step
        buffers = [np.empty((step, self.shape[1]), self.dtype) for _ in range(2 if first + step < n else 1)]
        with self._source.opened() as read, ThreadPoolExecutor(1, thread_name_prefix="dspnmf-read") as reader:
            coming = reader.submit(self._read, read, first, min(first + step, n), buffers[0])
            for at in range(first, n, step):
                coming.result()
                here, buffers = buffers[0], buffers[::-1]
                if at + step < n:
                    coming = reader.submit(self._read, read, at + step, min(at + 2 * step, n), buffers[0])
                yield at, here[: min(step, n - at)]

    def each(self, task: Task, operations: float) -> Any:
        """What `task` returns for all rows, added up; every thread reads the slabs it works on.

        Slabs taller than need be (whole chunks of the file) are held once and shared instead, with read-ahead.
        """
        n, step = self.shape[0], self.step
        if step * self.shape[1] * self.dtype.itemsize <= SLAB:
            reading = _READ_COST * float(n) * self.shape[1]
            return spread(partial(self._own_slabs, task), -(-n // step), max(operations, reading))

        def share(at: int, X: Array) -> Any:
            work = operations * len(X) / n
            return spread(lambda lo, hi: task(at + lo, X[lo:hi]), len(X), work, _WHOLE_BLOCKS)

        return reduce(added, (share(at, X) for at, X in self.slabs()))

    def _own_slabs(self, task: Task, lo: int, hi: int) -> Any:
        """The sum over slabs `lo` to `hi`, by the calling thread alone."""
        ends = min(hi * self.step, self.shape[0])
        buffer = np.empty((self.step, self.shape[1]), self.dtype)

        def parts(read: Read) -> Iterator[Any]:
            for at in range(lo * self.step, ends, self.step):
                X = buffer[: min(self.step, ends - at)]
                self._read(read, at, at + len(X), X)
                yield task(at, X)

        with self._source.opened() as read:
            return reduce(added, parts(read))

    def _read(self, read: Read, lo: int, hi: int, out: Array) -> None:
        """Read a slab and make sure that it is the one it was."""
        from dspnmf.backends import kernels

        where = {"path": self._path, "lo": lo, "hi": hi - 1}
        try:
            read(lo, hi, out)
        except (FileChangedError, MemoryError):
            raise
        except Exception as error:  # whatever h5py, Zarr, a codec or a network may raise
            raise OSError(_UNREADABLE.format(**where, error=error)) from error
        numbers = out[: hi - lo].reshape(-1)
        found = kernels.checksum(numbers.view("u4" if numbers.nbytes % 8 else "u8"))
        if self._checksums.setdefault(lo, found) != found:
            raise FileChangedError(_CHANGED.format(**where))
        if self._unit != 1:
            out[: hi - lo] /= self._unit

    def check_complete(self) -> None:
        """An error if the storage holds less of X than at the beginning."""
        if _amount_stored(self._X) < self._stored:
            raise FileChangedError(_LOST.format(path=self._path))


class _Contiguous:
    """A memory map with rows one after the other in the file, read through the file."""

    def __init__(self, X: np.memmap[Any, Any]) -> None:
        pages: mmap.mmap = X._mmap  # type: ignore[attr-defined]  # where the map begins is known nowhere else
        begin = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
        self._offset = begin + X.ctypes.data - np.frombuffer(pages, np.uint8).ctypes.data
        self._path = Path(str(X.filename))
        self._dtype, self._width, self._bytes = X.dtype, X.shape[1], X.nbytes
        _check_length(X)
        with self.opened() as read:  # the file may have been replaced since it was mapped
            for row in {0, len(X) - 1}:
                there = np.empty((1, X.shape[1]), X.dtype)
                read(row, row + 1, there)
                if there.tobytes() != np.ascontiguousarray(X[row]).tobytes():
                    raise FileChangedError(_CHANGED.format(path=self._path, lo=row, hi=row))

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """The file, if there is one."""
        try:
            file = self._path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise FileChangedError(_GONE.format(path=self._path)) from error
        with file:
            yield partial(self._read, file)

    def _read(self, file: BinaryIO, lo: int, hi: int, out: Array) -> None:
        rows = out[: hi - lo]
        same = self._dtype == out.dtype
        raw = rows if same else np.empty(rows.shape, self._dtype)
        wanted, done = memoryview(raw.reshape(-1).view(np.uint8).data), 0
        file.seek(self._offset + lo * self._width * self._dtype.itemsize)
        while done < len(wanted):
            got = file.readinto(wanted[done:])  # type: ignore[attr-defined]  # opened without a buffer
            done += got
            if not got:
                size, needed = os.fstat(file.fileno()).st_size, self._offset + self._bytes
                raise FileChangedError(_TOO_SHORT.format(path=self._path, size=size, needed=needed))
        if not same:
            rows[...] = raw


class _Sliced:
    """Anything whose rows come by slicing."""

    def __init__(self, X: ArrayLike) -> None:
        self._X, self._shape = X, X.shape
        mapped = isinstance(X, np.memmap) and X.mode != "c" and hasattr(mmap, "MADV_DONTNEED")
        self._pages = X._mmap if mapped else None  # of a private copy, changes would be lost
        self._direct = hasattr(X, "read_direct")

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """The array."""
        yield self._read

    def _read(self, lo: int, hi: int, out: Array) -> None:
        if self._X.shape != self._shape:
            raise FileChangedError(_RESHAPED.format(before=self._shape, now=self._X.shape))
        if isinstance(self._X, np.memmap):
            _check_length(self._X)
        if self._direct and self._X.dtype == out.dtype:
            self._X.read_direct(out, np.s_[lo:hi], np.s_[: hi - lo])
        else:
            out[: hi - lo] = self._X[lo:hi]
        if self._pages is not None:
            self._pages.madvise(mmap.MADV_DONTNEED)


def _check_length(X: ArrayLike) -> None:
    """What is mapped is there: touching what is not would end the process."""
    size, needed = X._mmap.size(), X.offset - X.offset % mmap.ALLOCATIONGRANULARITY + len(X._mmap)
    if size < needed:
        raise FileChangedError(_TOO_SHORT.format(path=X.filename, size=size, needed=needed))


def _source(X: ArrayLike) -> _Contiguous | _Sliced:
    """By the file where rows lie there as they lie in the map, and the file has a name; by slicing otherwise."""
    mapped = isinstance(X, np.memmap) and X.flags.c_contiguous and X.mode != "c" and X.filename is not None
    return _Contiguous(X) if mapped else _Sliced(X)


def _amount_stored(X: ArrayLike) -> int:
    """How many chunks of a Zarr array there are, how many bytes an HDF5 file has; 0 where nothing is lost unnoticed."""
    if hasattr(type(X), "nchunks_initialized") and X.store.supports_listing:
        try:
            return int(type(X).open(X.store_path).nchunks_initialized)
        except FileNotFoundError as error:
            raise FileChangedError(_GONE.format(path=path_of(X))) from error
    if getattr(getattr(X, "file", None), "driver", None) == "sec2":
        return os.fstat(X.file.id.get_vfd_handle()).st_size
    return 0


def is_mapped(X: ArrayLike) -> bool:
    """Whether X is a memory map of a file of the user's: joblib makes others for its workers, and leaves them alone."""
    return getattr(X, "_mmap", None) is not None and "joblib_memmapping_folder" not in str(X.filename)


def unmapped(X: ArrayLike) -> ArrayLike:
    """A memory map of two dimensions as an array in memory, out of reach of what happens to the file; others as is."""
    if not is_mapped(X) or X.ndim != 2 or X.size == 0:
        return X
    copy = np.empty_like(X, subok=False)
    with _source(X).opened() as read:
        read(0, len(X), copy)
    return copy


def path_of(X: ArrayLike) -> Path | None:
    """The file or folder X is read from: of a memory map, an HDF5 dataset, or a Zarr array on this machine."""
    store = getattr(X, "store", None)
    named = [getattr(owner, "filename", None) for owner in (X, getattr(X, "file", None))]
    local = [path for path in (getattr(store, "root", None), getattr(store, "path", None)) if isinstance(path, Path)]
    return next((Path(path) for path in (*named, *local) if isinstance(path, str | os.PathLike)), None)


def _slab_rows(X: ArrayLike, row_bytes: int) -> int:
    """Rows of a slab: whole blocks of the kernels, or whole chunks of the file."""
    rows = max(1, SLAB // max(row_bytes, 1))
    rows -= rows % _WHOLE_BLOCKS if rows > _WHOLE_BLOCKS else 0
    chunks = getattr(X, "shards", None) or getattr(X, "chunks", None)
    if chunks is None:
        return rows
    height = min(chunks[0], X.shape[0])
    if height * row_bytes > CHUNK:
        raise ValueError(_CHUNKS_TOO_TALL.format(chunks=chunks, size=height * row_bytes, most=CHUNK))
    return max(1, rows // height) * height


class ScratchFolder:
    """Where arrays lie on disk, not in memory; each is gone with the last reference to it, or with the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def new(self, shape: tuple[int, int], dtype: Any) -> Array:
        """An array of zeros."""
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        with tempfile.TemporaryFile(dir=self._folder) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would be a crash later
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            pages = mmap.mmap(file.fileno(), size)
        self._maps.add(pages)
        return np.frombuffer(pages, dtype).reshape(shape)

    def release_pages(self) -> None:
        """Let what was touched leave this process's memory; the system writes it to disk in its own time."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)
