"""Files that hold arrays (.npy, .npz, .mat, .mtx, HDF5, Zarr): which is the data, which the labels, and are they sound.

Each such format lists its arrays (`ArrayInfo`) and loads one by name; `table_of_arrays` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf._option_words import option
from dspnmf.io.columns import find, numbered, positions, whole
from dspnmf.io.errors import parsing, plain, quoted, refused
from dspnmf.io.limits import check_array
from dspnmf.io.table import Options, Table

_SHOWN = 8

Array: TypeAlias = Any  # a NumPy array, a SciPy csr_array, a memory map, a Zarr array or an HDF5 dataset


@dataclass(frozen=True)
class ArrayInfo:
    """What a file says of one of its arrays, before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | str  # "text", or what else is there, where it is not an array of NumPy's
    size: int = 0  # bytes it takes in memory
    sparse: str = ""  # "csr" or "csc"
    problem: str = ""  # why it cannot be read
    is_index: bool = False  # whether it names the rows of other arrays

    @property
    def real(self) -> bool:
        """Whether it holds real numbers."""
        return isinstance(self.dtype, np.dtype) and self.dtype.kind in "fiub" and not self.problem

    def check_real(self, path: Path, name: str) -> None:
        """Refuse everything but real numbers; nothing is ever unpickled."""
        if self.problem:
            raise refused(path, f"{quoted(name)} {self.problem}")
        if isinstance(self.dtype, np.dtype) and self.dtype.hasobject:
            raise refused(path, f"{quoted(name)} holds Python objects, which are never loaded. Save plain numbers.")
        if not self.real:
            what = f"{quoted(name)} holds {quoted(self.dtype)}, but must hold real numbers"
            raise refused(path, f"{what}. Save float32 or float64.")


def table_of_arrays(
    path: Path,
    arrays: Mapping[str, ArrayInfo],
    load: Callable[[str], Array],
    options: Options,
    *,
    scenes: bool = False,
) -> Table:
    """A table of the array that holds the data, with its labels.

    With `scenes`, three dimensions are a scene of height x width x bands, whose pixels are the samples, line by line.
    """
    variable, label = (  # HDF5 and Zarr list names without the slash of the root
        name if name is None or name in arrays else name.strip("/") for name in (options.variable, options.label)
    )
    name = _chosen(path, arrays, variable, label, scenes=scenes)
    info, grid = arrays[name], None
    info.check_real(path, name)
    if scenes and len(info.shape) == 3 and 0 not in info.shape:
        grid = (info.shape[0], info.shape[1])
        X = load(name).reshape(-1, info.shape[2])
    else:
        check_matrix(path, info.shape, name)
        X = load(name)
    n, m = X.shape
    columns = {} if label is None else {label: _labels(path, label, arrays[label], load, n, grid)}
    return Table(as_float(X), positions(m), numbered(n), columns=columns, label=label, grid=grid)


def _chosen(
    path: Path, arrays: Mapping[str, ArrayInfo], variable: str | None, label: str | None, *, scenes: bool
) -> str:
    """The array with the data: the one that is asked for, or the only one that can be it."""
    for parameter, name in (("label", label), ("variable", variable)):
        if name is not None:
            find(path, name, list(arrays), "array", parameter)
    if variable is not None:
        return variable
    if len(arrays) == 1:
        return next(iter(arrays))
    allowed = (2, 3) if scenes else (2,)
    able = {
        name: info.shape
        for name, info in arrays.items()
        if info.real and len(info.shape) in allowed and 0 not in info.shape and name != label
    }
    able = {name: shape for name, shape in able.items() if min(shape) > 1} or able
    cubes = [name for name, shape in able.items() if len(shape) == 3]
    if len(cubes) == 1 and all(shape == able[cubes[0]][:2] for shape in able.values() if len(shape) == 2):
        return cubes[0]  # the others are maps of the same scene
    if len(able) != 1:
        many = f"{len(able)} arrays" if able else "no array"
        shown = [f"{quoted(name)} {info.shape}" for name, info in list(arrays.items())[:_SHOWN]]
        more = f", ... ({len(arrays)} in all)" if len(arrays) > _SHOWN else ""
        fix = f"Name one with {option('variable')}." if able else "Check how it was made."
        raise refused(path, f"it has {many} of samples x features: {', '.join(shown) or 'it is empty'}{more}. {fix}")
    return next(iter(able))


def _labels(
    path: Path, name: str, info: ArrayInfo, load: Callable[[str], Array], n: int, grid: tuple[int, int] | None
) -> NDArray[Any]:
    """One label per sample, from a column, a row, or a map of the scene."""
    if info.shape not in ((n,), (n, 1), (1, n), grid) or info.sparse:
        raise refused(
            path,
            f"{option('label', plain(name))} has shape {info.shape}{' and is sparse' * bool(info.sparse)}, but there "
            f"are {n:,} samples. Name an array with one label for each.",
        )
    if not (info.real or info.dtype == "text" or (isinstance(info.dtype, np.dtype) and info.dtype.kind in "SU")):
        raise refused(
            path, f"{option('label', plain(name))} holds {quoted(info.dtype)}, but must hold numbers or text."
        )
    values = np.asarray(load(name)).ravel()
    return whole(np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values)


def check_matrix(path: Path, shape: tuple[int, ...], name: str) -> None:
    """Refuse all but samples x features, at least one of each."""
    if len(shape) != 2:
        what = f"{quoted(name)} has shape {shape}, but must have two dimensions, samples x features."
        fix = " Save it as X.reshape(len(X), -1) for pictures, X.reshape(-1, X.shape[-1]) for a scene."
        raise refused(path, what + fix * (len(shape) > 2))
    if 0 in shape:
        raise refused(path, f"{quoted(name)} has shape {shape}: there is nothing in it. Check how it was made.")


def as_float(X: Array) -> Array:
    """float32 or float64 in this machine's byte order; arrays that stay in their file are returned as they are."""
    if isinstance(X, np.memmap) or not (isinstance(X, np.ndarray) or sparse.issparse(X)):
        return X
    single = X.dtype.kind == "f" and X.dtype.itemsize == 4
    X = X.astype(np.float32 if single else np.float64, copy=False)
    if isinstance(X, np.ndarray) and (unknown := np.isnan(X)).any():
        return np.where(unknown, X.dtype.type(np.nan), X)  # damaged files may have one that signals
    return X


def sparse_array(path: Path, form: str, parts: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> sparse.csr_array:
    """A CSR array from the arrays of a CSR or CSC matrix; SciPy checks every index before any is followed."""
    check_matrix(path, shape, "sparse matrix")
    for length in shape:
        check_array(path, (length,), 16 * length)
    with parsing(path, "sparse matrix"):
        data, indices, indptr = (parts[name].ravel() for name in ("data", "indices", "indptr"))
        ArrayInfo(data.shape, data.dtype).check_real(path, "data")
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
            raise refused(path, "its sparse matrix is damaged: an index is not a whole number. Save it again.")
        make = {"csr": sparse.csr_array, "csc": sparse.csc_array}[form]
        X = make((as_float(data), indices.astype(np.int64), indptr.astype(np.int64)), shape=shape)
        X.check_format(full_check=True)
        X = X.tocsr()
        X.sum_duplicates()
    return X
