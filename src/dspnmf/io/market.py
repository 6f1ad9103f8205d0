"""Matrix Market files: .mtx, plain or compressed with gzip; a list of entries becomes a sparse array.

They are read here and not by SciPy, whose reader can end the process when a file is damaged.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.cells import is_nothing, is_number
from dspnmf.io.errors import quoted, refused
from dspnmf.io.limits import check_shape
from dspnmf.io.matrices import check_matrix, scattered, unnamed
from dspnmf.io.options import Options
from dspnmf.io.source import inflated
from dspnmf.io.table import Table

_PIECE = 2**22
_LONGEST = 2**16  # letters of a line before the numbers
_FIELDS = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "pattern": 0}  # numbers an entry has
_SIGNS = {"general": 0, "symmetric": 1, "skew-symmetric": -1}  # of the entry on the other side of the diagonal


class _Head(NamedTuple):
    """What stands before the numbers."""

    dense: bool
    values: int
    sign: int
    shape: tuple[int, int]
    entries: int
    lines: int


def read_market(path: Path, options: Options) -> Table:
    """A table from a .mtx file: sparse where it lists entries, dense where it lists all numbers."""
    options.only(path, "a .mtx file")
    content = inflated(path) if path.suffix.lower() == ".gz" else None
    size = path.stat().st_size if content is None else len(content)
    with path.open("rb") if content is None else io.BytesIO(content) as file:
        head = _head(path, file)
        check_matrix(path, head.shape, "its matrix")
        width = 1 if head.dense else 2 + head.values
        if 2 * width * head.entries > size + 1:  # a digit and a blank, or the end of a line, for each number
            raise refused(
                path,
                f"it claims {head.entries:,} entries, but has only {size:,} bytes: it is cut off or damaged. "
                "Copy or write it again.",
            )
        numbers = np.concatenate([np.empty((0, width)), *_numbers(path, file, width, head.lines)])
    if len(numbers) != head.entries:
        raise refused(
            path, f"it has {len(numbers):,} entries, but its header claims {head.entries:,}. Copy or write it again."
        )
    return unnamed(_dense(path, head, numbers) if head.dense else _sparse(path, head, numbers))


def _head(path: Path, file: BinaryIO) -> _Head:
    """The first line, the comments, and the sizes."""
    words = file.readline(_LONGEST).decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"] or words[2] not in ("array", "coordinate"):
        raise refused(path, "it does not begin with '%%MatrixMarket matrix coordinate' or 'array'. Check its type.")
    dense = words[2] == "array"
    for what, word, known in (("field", words[3], _FIELDS), ("symmetry", words[4], _SIGNS)):
        if word not in known or (dense and word == "pattern"):
            raise refused(path, f"its {what} is {quoted(word)}, but must be one of {', '.join(known)}. Write it again.")
    lines, line = 2, file.readline(_LONGEST)
    while line and (not line.strip() or line.startswith(b"%")):
        lines, line = lines + 1, file.readline(_LONGEST)
    sizes = line.split()
    if len(sizes) != 3 - dense or not all(word.isdigit() and len(word) < 19 for word in sizes):
        raise refused(
            path,
            f"line {lines} must have {3 - dense} sizes, but has {quoted(line.decode('ascii', 'replace').strip())}.",
        )
    rows, columns, *entries = map(int, sizes)
    sign = _SIGNS[words[4]]
    if sign and rows != columns:
        raise refused(
            path, f"it claims to be {words[4]}, but has {rows:,} rows and {columns:,} columns. Write it again."
        )
    triangle = rows * (rows + sign) // 2 if sign else rows * columns
    return _Head(dense, _FIELDS[words[3]], sign, (rows, columns), entries[0] if entries else triangle, lines)


def _numbers(path: Path, file: BinaryIO, width: int, lines: int) -> Iterator[NDArray[np.float64]]:
    """The numbers after the header, a piece of whole lines at a time; each line must have `width` of them."""
    while piece := file.read(_PIECE):
        piece += file.readline()
        signs = np.frombuffer(piece, np.uint8)
        filled = signs > 32
        begins = np.flatnonzero(filled & ~np.concatenate([[False], filled[:-1]]))  # of words
        ends = np.flatnonzero(signs == 10)  # of lines
        words = np.diff(np.append(np.searchsorted(begins, ends), len(begins)), prepend=0)
        wrong = np.flatnonzero((words != width) & (words != 0))
        if len(wrong):
            at, count = lines + 1 + int(wrong[0]), words[wrong[0]]
            raise refused(path, f"line {at} has {count} numbers, but must have {width}. Copy or write it again.")
        try:
            numbers = np.fromstring(piece, sep=" ")
        except (ValueError, DeprecationWarning) as error:
            raise _no_number(path, piece, lines) from error
        if len(numbers) != len(begins):  # where NumPy only warns
            raise _no_number(path, piece, lines)
        yield numbers.reshape(-1, width)
        lines += len(ends)


def _no_number(path: Path, piece: bytes, lines: int) -> Exception:
    """The first word that is no number."""
    for at, line in enumerate(piece.split(b"\n"), lines + 1):
        for word in line.decode("ascii", "replace").split():
            if not (is_number(word) or is_nothing(word)):
                return refused(path, f"line {at}: {quoted(word)} is no number. Copy or write the file again.")
    return refused(path, f"after line {lines} it is not readable. Copy or write it again.")


def _dense(path: Path, head: _Head, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """All numbers, column by column; of a symmetric matrix those on and below the diagonal."""
    if not head.sign:
        return np.ascontiguousarray(numbers.reshape(head.shape, order="F"))
    check_shape(path, head.shape, 8)
    X = np.zeros(head.shape)
    columns, rows = np.triu_indices(head.shape[0], 0 if head.sign > 0 else 1)
    X[rows, columns] = numbers[:, 0]
    X[columns, rows] = head.sign * numbers[:, 0]
    return X


def _sparse(path: Path, head: _Head, numbers: NDArray[np.float64]) -> Any:
    """Entries by their places, which count from 1."""
    places = numbers[:, :2]
    if not np.array_equal(places, np.floor(places)) or (len(places) and not np.abs(places).max() < 2**53):
        raise refused(path, "one of its places is no whole number: it is damaged. Copy or write it again.")
    row, column = places.astype(np.int64).T - 1
    values = numbers[:, 2] if head.values else np.ones(len(numbers))
    if head.sign:
        off = row != column
        row, column = np.concatenate([row, column[off]]), np.concatenate([column, row[off]])
        values = np.concatenate([values, head.sign * values[off]])
    return scattered(path, row, column, values, head.shape)
