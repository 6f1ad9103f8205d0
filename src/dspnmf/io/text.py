"""Text files: CSV and its relatives, plain or compressed with gzip.

1. what the file does not say is guessed from its first rows (`text_layout`);
2. all rows are read: quickly through PyArrow, or exactly, cell by cell;
3. a column of numbers with a few texts is an error that names the first; one with more texts is text, and read again.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.columns import table_of_columns
from dspnmf.io.errors import quoted, refused, some
from dspnmf.io.names import texts
from dspnmf.io.table import Options, Table
from dspnmf.io.text_file import MISSING, TextFile, is_missing, is_text, numbers, tidy
from dspnmf.io.text_layout import Layout, layout_of

_WORTHWHILE = 2**21  # bytes of text, below which importing PyArrow takes longer than reading
_PIECE = 2**24


class _Content(NamedTuple):
    """Numbers of the numeric columns, texts of the others, and numeric columns in which there is text."""

    X: NDArray[np.float64]
    others: dict[int, list[str]]
    wrong: set[int]


def read_text(path: Path, options: Options) -> Table:
    """A table from a text file."""
    file = TextFile(path)
    layout = layout_of(file, options)
    content = _quickly(file, layout) or _exactly(file, layout)
    if content.wrong and layout.delimiter == ";" and layout.decimal == ".":  # the first rows had no decimals
        commas = replace(layout, decimal=",")
        again = _exactly(file, commas)
        layout, content = (layout, content) if again.wrong else (commas, again)
    if content.wrong:
        layout = replace(layout, numeric=[column for column in layout.numeric if column not in content.wrong])
        content = _exactly(file, layout)
    _check_mixed(file, layout, content.others)
    columns = {
        column: texts(cells) if column == layout.roles.index else tidy(cells, layout.decimal)
        for column, cells in content.others.items()
    }
    return table_of_columns(path, layout.names, content.X, layout.numeric, columns, layout.roles)


def _exactly(file: TextFile, layout: Layout) -> _Content:
    """All rows, cell by cell."""
    numeric, other = layout.numeric, layout.other
    values, others, wrong, rows = array("d"), {column: list[str]() for column in other}, set[int](), 0
    for line, row in file.rows(layout.delimiter, layout.skip):
        if len(row) != len(layout.names):
            raise _ragged(file, layout, line, len(row))
        try:
            values.extend(numbers([row[column] for column in numeric] if other else row, layout.decimal))
        except ValueError:
            values.extend([np.nan] * len(numeric))
            wrong |= {column for column in numeric if is_text(row[column], layout.decimal)}
        for column in other:
            others[column].append(row[column])
        rows += 1
    return _Content(np.frombuffer(values, dtype=np.float64).reshape(rows, len(numeric)), others, wrong)


def _quickly(file: TextFile, layout: Layout) -> _Content | None:
    """The same through PyArrow for large files; None where it would not read them exactly so, or is not installed."""
    if file.size < _WORTHWHILE or layout.delimiter == " " or file.encoding != "utf-8-sig":
        return None
    try:
        pyarrow, csv = import_module("pyarrow"), import_module("pyarrow.csv")
    except ImportError:
        return None
    if _is_special(file, layout.skip):
        return None
    names = [str(column) for column in range(len(layout.names))]
    types = dict.fromkeys(names, pyarrow.string()) | {str(column): pyarrow.float64() for column in layout.numeric}
    try:
        table = csv.read_csv(
            file.open() if file.content is not None else str(file.path),
            csv.ReadOptions(column_names=names, skip_rows=layout.skip, block_size=_PIECE),
            csv.ParseOptions(delimiter=layout.delimiter, quote_char=False),
            csv.ConvertOptions(
                column_types=types, null_values=list(MISSING), strings_can_be_null=False, decimal_point=layout.decimal
            ),
        )
    except (pyarrow.ArrowException, UnicodeError):
        return None
    X = np.empty((table.num_rows, len(layout.numeric)))
    for at, column in enumerate(layout.numeric):
        X[:, at] = table.column(column).to_numpy()
    return _Content(X, {column: table.column(column).to_pylist() for column in layout.other}, set())


def _is_special(file: TextFile, skip: int) -> bool:
    """Whether among the rows is a quote, a zero byte, or a carriage return alone."""
    with file.open() as content:
        for _ in range(skip):
            content.readline()
        while piece := content.read(_PIECE):
            if b'"' in piece or b"\0" in piece or piece.count(b"\r") != piece.count(b"\r\n"):
                return True
    return False


def _ragged(file: TextFile, layout: Layout, line: int, width: int) -> Exception:
    """The error for a row with more or fewer cells than the others."""
    delimiter = {"\t": "tabs", " ": "blanks"}.get(layout.delimiter, quoted(layout.delimiter))
    what = f"{width} cell{'s' * (width != 1)}, but the rows above have {len(layout.names)} (separated by {delimiter})"
    fix = "Correct the line; quote cells that contain the delimiter, or pass delimiter."
    return refused(file.path, f"line {line} has {what}. {fix}")


def _check_mixed(file: TextFile, layout: Layout, others: dict[int, list[str]]) -> None:
    """A few texts among numbers are mistakes; to take the column for text would hide them."""
    mixed = {}
    for column in sorted(others.keys() - layout.roles.others):
        wrong = [row for row, cell in enumerate(others[column]) if is_text(cell, layout.decimal)]
        right = sum(not is_missing(cell) for cell in others[column]) - len(wrong)
        if 0 < len(wrong) < right:
            mixed[column] = wrong[0], right, len(wrong) + right
    if not mixed:
        return
    names = [layout.names[column] or f"x{column}" for column in mixed]
    column, (row, right, given) = next(iter(mixed.items()))
    line, cells = next(islice(file.rows(layout.delimiter, layout.skip), row, None))
    more = f" There are more in {some(names[1:])}." if len(names) > 1 else ""
    raise refused(
        file.path,
        f"line {line}, column {quoted(names[0])}: {quoted(cells[column])} is not a number, but {right:,} of the "
        f"column's {given:,} values are.{more} Correct it (leave it empty if it is missing), or name the column in "
        "exclude if it is not a feature.",
    )
