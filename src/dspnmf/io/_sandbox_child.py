"""The program of the child process: opens one file with NumPy, SciPy or h5py, lists its arrays and sends them.

Run as a script with the kind of the file and its path. A request is a line of JSON: "list" or "read", the name of an
array, and the bytes it may take. The answer is a line of JSON, which says what arrays follow, and their bytes. Memory
and seconds of computing are limited. To start quickly it imports nothing of this package, and one library only.
"""

from __future__ import annotations

import gzip
import importlib
import json
import sys
import time
import zipfile
from contextlib import suppress
from itertools import islice
from math import prod
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import h5py

SECONDS, BYTES_PER_SECOND = 2.0, 2e7
MEMORY = 4 * 2**30  # bytes of address space for libraries and room; in addition four times the bytes asked for
_GROUPS, _MEMBERS = 500, 20_000
_CLASSES = {"double": "<f8", "single": "<f4", "logical": "|b1", "sparse": "<f8"}
_CLASSES |= {f"{sign}int{bits}": f"<{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FOREIGN = "is in another file, which is not opened. Save plain numbers in one file."
_SPARSE, _SPARSE_MATLAB = ("data", "indices", "indptr"), ("data", "ir", "jc")
_SPARSE_NPZ = "sparse matrix"
_CATEGORIES, _MASKED = ("codes", "categories"), ("values", "mask")

Facts: TypeAlias = dict[str, Any]  # about an array: the fields of `named_arrays.ArrayInfo`
Parts: TypeAlias = dict[str, NDArray[Any]]  # "data", and of a sparse array "indices" and "indptr"


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """What a .npy file says of its array: its shape, whether its columns come first, and its type."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    return readers[np.lib.format.read_magic(file)](file, max_header_size=2**16)


class _File:
    """A file, and the library that reads it."""

    def __init__(self, library: ModuleType, path: str) -> None:
        self._library, self._path = library, path


class NumpyArchive(_File):
    """A .npz file, through ``numpy.load``; what ``scipy.sparse.save_npz`` wrote is listed as one more array."""

    def arrays(self) -> dict[str, Facts]:
        """Its arrays; those of Python objects are listed, but never read."""
        found: dict[str, Facts] = {}
        with zipfile.ZipFile(self._path) as archive:
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as file:
                        shape, _, dtype = npy_header(file)
                    kind = "text" if dtype.kind in "SU" else dtype.str
                    size = prod(shape) * dtype.itemsize
                    found[name.removesuffix(".npy")] = {"shape": shape, "dtype": kind, "size": size}
        if found.keys() >= {"format", "shape", "data"}:
            size = 3 * sum(part["size"] for part in found.values())
            shape = self._library.load(self._path)["shape"].ravel().tolist()
            found[_SPARSE_NPZ] = found.pop("data") | {"shape": shape, "size": size, "sparse": "csr"}
        return found

    def read(self, name: str) -> Parts | list[str]:
        """An array of numbers or texts."""
        if name == _SPARSE_NPZ:
            return _parts(importlib.import_module("scipy.sparse").load_npz(self._path).tocsr())
        found = self._library.load(self._path)[name]
        return [_text(value) for value in found.ravel().tolist()] if found.dtype.kind in "SU" else {"data": found}


class MatlabFile(_File):
    """A MATLAB file of version 4 to 7.2, through ``scipy.io``."""

    def arrays(self) -> dict[str, Facts]:
        """Its variables; cells, structures, texts, functions and objects are listed, but never read."""
        found = {}
        for name, shape, kind in self._library.whosmat(self._path, appendmat=False):
            found[name] = {"shape": shape, "dtype": _CLASSES.get(kind, kind), "size": 8 * prod(shape)}
            if kind == "sparse":
                found[name] |= {"sparse": "csc", "size": 0}
        return found

    def read(self, name: str) -> Parts:
        """A variable of numbers; SciPy returns whole numbers in the narrow type they are stored in."""
        value = self._library.loadmat(self._path, appendmat=False, variable_names=[name])[name]
        single = self.arrays()[name]["dtype"] == "<f4" and value.dtype.kind in "iuf"
        return _parts(value.astype("f4") if single else value)


class MatrixMarketFile(_File):
    """A Matrix Market file, through ``scipy.io``."""

    def arrays(self) -> dict[str, Facts]:
        """Its only matrix."""
        rows, columns, entries, form, field, symmetry = self._library.mminfo(self._path)
        if symmetry != "general":
            self._check_symmetric(rows, columns, symmetry, dense=form == "array")
        facts = {"shape": [rows, columns], "dtype": "<c16" if field == "complex" else "<f8", "size": 8 * rows * columns}
        return {"matrix": facts | ({"sparse": "csr", "size": 24 * entries} if form == "coordinate" else {})}

    def _check_symmetric(self, rows: int, columns: int, symmetry: str, *, dense: bool) -> None:
        """Check what SciPy does not: it takes missing numbers of a dense symmetric matrix for zeros."""
        if rows != columns:
            raise ValueError(f"it claims to be {symmetry}, but has {rows:,} rows and {columns:,} columns")
        if dense:
            with gzip.open(self._path) if self._path.endswith(".gz") else Path(self._path).open("rb") as file:
                there = sum(1 for line in file if line.strip() and not line.startswith(b"%")) - 1
            needed = rows * (rows + (-1 if symmetry == "skew-symmetric" else 1)) // 2
            if there != needed:
                raise ValueError(f"it has {there:,} entries, but its header claims {needed:,}")

    def read(self, name: str) -> Parts:
        """Its matrix."""
        importlib.import_module("threadpoolctl").threadpool_limits(1)  # every thread takes a share of the memory
        return _parts(self._library.mmread(self._path))


class Hdf5File:
    """An HDF5 file. Groups may stand for an array: sparse matrices, categories and masked values of AnnData."""

    def __init__(self, h5py: ModuleType, path: str) -> None:
        self._h5py, self._file = h5py, h5py.File(path, "r")

    def arrays(self) -> dict[str, Facts]:
        """Arrays by their paths; groups after the first few hundred are left out."""
        found: dict[str, Facts] = {}
        groups, seen = [("", self._file)], 0
        while groups and seen < _GROUPS:
            (path, group), seen = groups.pop(0), seen + 1
            for key in islice(group, _MEMBERS):
                try:
                    item = self._member(group, key)
                    if parts := self._datasets(item):
                        found[path + key] = self._facts(item, parts)
                    if isinstance(item, self._h5py.Group):
                        groups.append((f"{path}{key}/", item))
                except (ValueError, TypeError, KeyError, OSError, RuntimeError) as error:
                    found[path + key] = {"shape": [], "dtype": "", "problem": str(error)}
            if "_index" in group.attrs:  # the column that names the rows of a data frame
                found.get(path + _text(group.attrs["_index"]), {})["is_index"] = True
        return found

    def _member(self, group: h5py.Group, key: str) -> h5py.Group | h5py.Dataset:
        """A member of a group, if it is in this file."""
        if isinstance(group.get(key, getlink=True), self._h5py.ExternalLink):
            raise ValueError(_FOREIGN)  # noqa: TRY004 - it is the value of the link that is refused
        item = group.get(key)
        if item is not None and item.file.filename != self._file.filename:
            raise ValueError(_FOREIGN)
        if isinstance(item, self._h5py.Dataset) and (item.is_virtual or item.external):
            raise ValueError(_FOREIGN)
        return item

    def _datasets(self, item: h5py.Group | h5py.Dataset) -> dict[str, h5py.Dataset]:
        """The datasets of an array: itself, or those of a group that stands for one."""
        if isinstance(item, self._h5py.Dataset):
            return {"data": item}
        if not isinstance(item, self._h5py.Group):
            return {}
        sparse = "shape" in item.attrs and _text(item.attrs.get("encoding-type")) in ("csr_matrix", "csc_matrix")
        for keys in (*(_SPARSE,) * sparse, *(_SPARSE_MATLAB,) * ("MATLAB_sparse" in item.attrs), _CATEGORIES, _MASKED):
            found = [self._member(item, key) for key in keys if key in item]
            if len(found) == len(keys) and all(isinstance(part, self._h5py.Dataset) for part in found):
                return dict(zip(keys, found, strict=True)) if len(found[0].shape) == 1 else {}
        return {}

    def _facts(self, item: h5py.Group | h5py.Dataset, parts: dict[str, h5py.Dataset]) -> Facts:
        """What is known of an array."""
        first, last = parts[next(iter(parts))], parts[next(reversed(parts))]
        widths = [64 if part.dtype.kind == "O" else part.dtype.itemsize for part in parts.values()]
        facts = {
            "shape": [0] if first.shape is None else first.shape,
            "dtype": self._dtype(last if tuple(parts) == _CATEGORIES else first),
            "size": sum((part.size or 0) * width for part, width in zip(parts.values(), widths, strict=True)),
        }
        if tuple(parts) == _SPARSE:
            facts |= {"shape": [int(n) for n in item.attrs["shape"]], "sparse": _text(item.attrs["encoding-type"])[:3]}
        if tuple(parts) == _SPARSE_MATLAB:
            facts |= {"shape": [int(item.attrs["MATLAB_sparse"]), last.size - 1], "sparse": "csc"}
        return facts

    def _dtype(self, item: h5py.Dataset) -> str:
        """The type of a dataset's values."""
        if self._h5py.check_string_dtype(item.dtype) is not None:
            return "text"
        return item.dtype.str if item.dtype.kind in "fiub" else str(item.dtype)

    def read(self, name: str) -> Parts | list[str]:
        """An array; categories by their names, and NaN where a value is masked."""
        parts = self._datasets(self._file[name])
        first, *rest = (np.asarray(part[()]) for part in parts.values())
        if tuple(parts) == _MASKED:
            return {"data": np.where(rest[0], np.nan, first.astype(float))}
        if tuple(parts) == _CATEGORIES:
            known = rest[0].astype(object if rest[0].dtype.kind in "OS" else float)
            first = np.append(known, "" if known.dtype == object else np.nan)[np.maximum(first, -1)]
        if first.dtype.kind in "OS":
            return [_text(value) for value in first.ravel().tolist()]
        return dict(zip(_SPARSE, (first, *rest), strict=False))


class Matlab73File(Hdf5File):
    """A MATLAB file of version 7.3: HDF5 with the axes in reverse order."""

    def arrays(self) -> dict[str, Facts]:
        """Its variables, which are all at the top."""
        found = {name: facts for name, facts in super().arrays().items() if not ("/" in name or name.startswith("#"))}
        for facts in found.values():
            facts["shape"] = facts["shape"] if facts.get("sparse") else facts["shape"][::-1]
        return found

    def _dtype(self, item: h5py.Dataset) -> str:
        """The type of a variable; texts are numbers to HDF5."""
        kind = "empty" if "MATLAB_empty" in item.attrs else _text(item.attrs.get("MATLAB_class", ""))
        return kind if kind in ("empty", "char") else super()._dtype(item)

    def read(self, name: str) -> Parts | list[str]:
        """A variable."""
        found = super().read(name)
        return {"data": found["data"].T} if isinstance(found, dict) and len(found) == 1 else found


def _text(value: object) -> str:
    """A text of a file; "" for anything else."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _parts(value: Any) -> Parts:
    """A dense or sparse matrix as arrays."""
    if isinstance(value, np.ndarray):
        return {"data": value}
    value = value if value.format == "csc" else value.tocsr()
    return {name: getattr(value, name) for name in _SPARSE}


def allow(size: int) -> None:
    """Let the next request take the memory and the seconds that `size` bytes may need, and no more."""
    try:
        import resource
    except ImportError:  # on Windows; the parent also looks at the clock
        return
    seconds = int(time.process_time() + SECONDS + size / BYTES_PER_SECOND) + 1
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_AS: MEMORY + 4 * size, resource.RLIMIT_CORE: 0}
    for limit, value in limits.items():
        with suppress(ValueError, OSError):  # not every system has every limit
            most = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (value if most < 0 else min(value, most), most))


KINDS: dict[str, tuple[str, type[NumpyArchive | MatlabFile | MatrixMarketFile | Hdf5File]]] = {
    "npz": ("numpy", NumpyArchive),
    "matlab": ("scipy.io", MatlabFile),
    "matrix_market": ("scipy.io", MatrixMarketFile),
    "hdf5": ("h5py", Hdf5File),
    "matlab73": ("h5py", Matlab73File),
}


def main(kind: str, path: str) -> None:
    """Answer requests until there are no more."""
    library, opener = importlib.import_module(KINDS[kind][0]), KINDS[kind][1]
    for request in sys.stdin.buffer:
        what, name, size = json.loads(request)
        answer: dict[str, Any]
        arrays: Parts = {}
        try:
            allow(size)
            file = opener(library, path)
            if what == "list":
                answer = {"arrays": file.arrays()}
            elif isinstance(found := file.read(name), list):
                answer = {"texts": found}
            else:
                arrays = {part: np.ascontiguousarray(array) for part, array in found.items()}
                answer = {"parts": [(part, array.dtype.str, array.shape) for part, array in arrays.items()]}
            line = json.dumps(answer).encode()
        except Exception as error:
            line, arrays = json.dumps({"error": str(error).strip() or type(error).__name__}).encode(), {}
        sys.stdout.buffer.write(line + b"\n")
        for array in arrays.values():
            sys.stdout.buffer.write(array.reshape(-1).view(np.uint8).data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
