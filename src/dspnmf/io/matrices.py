"""Arrays of a file as a table has them: two dimensions, real numbers, float32 or float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf.io.errors import quoted, refused
from dspnmf.io.limits import check_shape
from dspnmf.io.names import numbered, positions
from dspnmf.io.table import Table


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of this type are real."""
    return dtype.kind in "fiub"


def check_real(path: Path, dtype: np.dtype[Any], what: str = "its array") -> None:
    """Real numbers; nothing is ever unpickled."""
    if dtype.hasobject:
        raise refused(path, f"{what} holds Python objects, which are never loaded. Save plain numbers.")
    if not is_real(dtype):
        raise refused(path, f"{what} holds {quoted(dtype)}, but must hold real numbers. Save float32 or float64.")


def check_matrix(path: Path, shape: tuple[int, ...], what: str = "its array") -> None:
    """Samples x features, at least one of each."""
    if len(shape) != 2:
        fix = " Save it as X.reshape(len(X), -1) for pictures, X.reshape(-1, X.shape[-1]) for a scene."
        raise refused(
            path,
            f"{what} has shape {shape}, but must have two dimensions, samples x features.{fix * (len(shape) > 2)}",
        )
    if 0 in shape:
        raise refused(path, f"{what} has shape {shape}: there is nothing in it. Check how it was made.")


def as_float(X: Any) -> Any:
    """float32 stays float32, everything else becomes float64, both in this machine's byte order."""
    single = X.dtype.kind == "f" and X.dtype.itemsize == 4
    return X.astype(np.float32 if single else np.float64, copy=False)


def unnamed(X: Any, **facts: Any) -> Table:
    """A table of an array that comes without names."""
    return Table(X, positions(X.shape[1]), numbered(X.shape[0]), **facts)


def compressed(path: Path, parts: dict[str, NDArray[Any]], shape: tuple[int, ...], by: str) -> Any:
    """A CSR array from the three arrays of a CSR or CSC matrix; nothing in them is trusted.

    SciPy follows indices without looking where they point, so all are checked before it does.
    """
    check_matrix(path, shape, "its matrix")
    check_shape(path, shape[:1], 16)
    check_shape(path, shape[1:], 16)
    data, indices, indptr = (parts[name].ravel() for name in ("data", "indices", "indptr"))
    check_real(path, data.dtype, "its matrix")
    lines, length = shape if by == "csr" else shape[::-1]
    bounds = indptr.astype(np.int64) if indptr.dtype.kind in "iu" else np.empty(0, np.int64)
    if len(bounds) != lines + 1 or bounds[0] != 0 or np.any(np.diff(bounds) < 0) or bounds[-1] > len(data):
        raise refused(
            path, f"its sparse matrix is damaged: the index pointers do not fit the shape {shape}. Save it again."
        )
    kept = int(bounds[-1])
    if indices.dtype.kind not in "iu" or len(indices) < kept:
        raise refused(path, "its sparse matrix is damaged: it has fewer indices than values. Save it again.")
    inside = indices[:kept]
    if kept and (inside.min() < 0 or inside.max() >= length):
        raise refused(path, f"its sparse matrix is damaged: an index is outside the shape {shape}. Save it again.")
    make = sparse.csr_array if by == "csr" else sparse.csc_array
    X = make((as_float(data[:kept]), inside.astype(np.int64), bounds), shape=shape).tocsr()
    X.sum_duplicates()
    return X


def scattered(path: Path, row: NDArray[Any], col: NDArray[Any], data: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """A CSR array from places and values; a place outside is an error."""
    check_matrix(path, shape, "its matrix")
    check_real(path, data.dtype, "its matrix")
    for places, length in ((row, shape[0]), (col, shape[1])):
        check_shape(path, (length,), 16)
        if places.shape != data.shape or data.ndim != 1 or places.dtype.kind not in "iu":
            raise refused(path, "its sparse matrix is damaged: not every value has a place. Save it again.")
        if len(places) and (places.min() < 0 or places.max() >= length):
            raise refused(path, f"its sparse matrix is damaged: a place is outside the shape {shape}. Save it again.")
    return sparse.coo_array((as_float(data), (row, col)), shape=shape).tocsr()
