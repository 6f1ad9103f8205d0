"""Text files: CSV and its relatives, plain or compressed with gzip.

1. What the file does not say is guessed from its first rows: the delimiter, whether there are names, the decimals.
2. All rows are read, cell by cell, or, of large files, through PyArrow where that reads the same.
3. A column of numbers with a few texts is an error that names the first; one with more texts is text, and read again.
"""

from __future__ import annotations

import csv
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.columns import Roles, roles_of, table_of_columns, texts
from dspnmf.io.errors import quoted, refused, some
from dspnmf.io.large_text import read_large
from dspnmf.io.table import Options, Table
from dspnmf.io.text_file import Row, TextFile, is_missing, is_number, number, numbers, tidy

_DELIMITERS = ("\t", ";", "|", ",", " ")  # the first that fits wins a tie
_LINES, _LETTERS = 40, 2**21  # that are looked at for the delimiter
_ROWS, _CELLS = 200, 100_000  # and for all else
_FEW, _MANY = 4, 8  # cells that may be numbers and yet names: counted, rising
_IDENTIFIERS = ("id", "ids", "index", "key", "name", "names", "row", "sample", "samples")
_NAMED = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class _Layout:
    """How rows are separated, lines before the data, one name a column, and the columns that have numbers."""

    delimiter: str
    decimal: str
    skip: int
    names: list[str]
    roles: Roles
    numeric: list[int]


def read_text(path: Path, options: Options) -> Table:
    """A table from a text file."""
    file = TextFile(path)
    layout = _layout(file, options)
    X, others, wrong = _content(file, layout)
    if wrong and layout.delimiter == ";" and layout.decimal == ".":  # the first rows had no decimals
        commas = replace(layout, decimal=",")
        again = _content(file, commas)
        if not again[2]:
            layout, (X, others, wrong) = commas, again
    if wrong:
        layout = replace(layout, numeric=[column for column in layout.numeric if column not in wrong])
        X, others, _ = _content(file, layout)
    _check_mixed(file, layout, others)
    columns = {
        column: texts(cells) if column == layout.roles.index else tidy(cells, layout.decimal)
        for column, cells in others.items()
    }
    return table_of_columns(path, layout.names, X, layout.numeric, columns, layout.roles)


def _content(file: TextFile, layout: _Layout) -> tuple[NDArray[np.float64], dict[int, list[str]], set[int]]:
    """Numbers of the numeric columns, texts of the others, and numeric columns in which there is text."""
    numeric, width = layout.numeric, len(layout.names)
    large = read_large(file, layout.delimiter, layout.decimal, layout.skip, width, numeric)
    if large is not None:
        return *large, set()
    others: dict[int, list[str]] = {column: [] for column in sorted(set(range(width)) - set(numeric))}
    values, wrong, rows = array("d"), set[int](), 0
    for line, row in file.rows(layout.delimiter, layout.skip):
        if len(row) != width:
            delimiter = {"\t": "tabs", " ": "blanks"}.get(layout.delimiter, quoted(layout.delimiter))
            cells = f"{len(row)} cell{'s' * (len(row) != 1)}, but the rows above have {width}"
            fix = "Correct the line; quote cells that contain the delimiter, or pass delimiter."
            raise refused(file.path, f"line {line} has {cells} (separated by {delimiter}). {fix}")
        found = numbers([row[column] for column in numeric] if others else row, layout.decimal)
        try:
            values.extend(found)  # type: ignore[arg-type]
        except TypeError:  # a text
            wrong |= {column for column, value in zip(numeric, found, strict=True) if value is None}
            del values[rows * len(numeric) :]
            values.extend([nan] * len(numeric))
        for column, kept in others.items():
            kept.append(row[column])
        rows += 1
    return np.frombuffer(values, dtype=np.float64).reshape(rows, len(numeric)), others, wrong


def _check_mixed(file: TextFile, layout: _Layout, others: dict[int, list[str]]) -> None:
    """A few texts among numbers are mistakes; to take the column for text would hide them."""
    mixed = {}
    for column in sorted(others.keys() - layout.roles.others):
        wrong = [row for row, value in enumerate(numbers(others[column], layout.decimal)) if value is None]
        given = sum(not is_missing(cell) for cell in others[column])
        if 0 < len(wrong) < given - len(wrong):
            mixed[column] = wrong[0], given - len(wrong), given
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


def _layout(file: TextFile, options: Options) -> _Layout:
    """The layout that the options and the first rows suggest."""
    skip, comment, given = _preface(file)
    delimiter = _delimiter(file, skip, options.delimiter or given)
    rows: list[Row] = []
    for row in file.rows(delimiter, skip):
        rows.append(row)
        if len(rows) > _ROWS or (len(rows) > 2 and len(rows) * len(row[1]) > _CELLS):
            break
    if not rows:
        raise refused(file.path, "it has no rows. Check how it was made.")
    commas = delimiter == ";" and any("," in cell and is_number(cell, ",") for _, row in rows for cell in row)
    decimal = "," if commas else "."
    header = _has_names(rows, decimal) if options.header is None else options.header
    noted = comment.split() if delimiter == " " else comment.split(delimiter)
    if not header and options.header is None and len(noted) == len(rows[0][1]) > 1:
        rows.insert(0, (0, [name.strip(' "') for name in noted]))
        header = True
    names = [name.strip() for name in rows.pop(0)[1]] if header else [""] * len(rows[0][1])
    if not rows:
        raise refused(file.path, "it has names but no rows below them. Check how it was made.")
    shifted = header and len(rows[0][1]) == len(names) + 1
    unnamed_index = shifted or (header and len(names) > 1 and not names[0])
    names = ["", *names] if shifted else names
    roles = roles_of(file.path, names if header else [f"x{column}" for column in range(len(names))], options)
    if unnamed_index and roles.index is None and 0 not in roles.others:
        roles = replace(roles, index=0)
    numeric = set(range(len(names))) - roles.others
    for _, cells in rows:
        numeric -= {column for column in numeric if column < len(cells) and number(cells[column], decimal) is None}
    return _Layout(delimiter, decimal, rows[0][0] - 1, names, roles, sorted(numeric))


def _preface(file: TextFile) -> tuple[int, str, str | None]:
    """Lines before the rows, the last comment in them, and the delimiter, if a first line ``sep=;`` gives it."""
    comment, given = "", None
    for count, line in enumerate(file.lines()):
        text = line.strip()
        if text.startswith("#"):
            comment = text.lstrip("#").strip(" ")
        elif text.lower().startswith("sep=") and len(text) <= 5 and count == 0:
            given = text[4:] or "\t"
        elif text:
            return count, comment, given
    raise refused(file.path, "it has no rows: it is empty, or all of it is comments. Check how it was made.")


def _delimiter(file: TextFile, skip: int, given: str | None) -> str:
    """The delimiter that is given, or what gives every line as many cells, and most of them numbers."""
    if given:
        delimiter = _NAMED.get(given, given)
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise refused(file.path, f"delimiter={quoted(delimiter)} must be one character, such as ';' or 'tab'.")
        return delimiter
    left, lines = _LETTERS, []
    for line in islice(file.lines(skip), _LINES):
        lines.append(line[:_LETTERS])
        left -= len(line)
        if left < 0:
            break
    return max(_DELIMITERS, key=lambda delimiter: _fit(lines, delimiter))


def _fit(lines: list[str], delimiter: str) -> tuple[int, bool, float, float]:
    """How well a delimiter fits: rows of one length (2; the first one shorter: 1), no blank, rows as long, numbers."""
    if delimiter == " ":
        lines = [" ".join(line.split()) for line in lines]
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return 0, False, 0.0, 0.0
    widths = Counter(len(row) for row in rows[1:] or rows)
    width, common = max(widths.items(), key=lambda item: (item[0] > 1, item[1]))
    if width < 2:
        return 0, False, 0.0, 0.0
    same = (len(widths) == 1) * {width: 2, width - 1: 1}.get(len(rows[0]), 0)
    cells = [cell for row in rows for cell in row]
    found = sum(is_number(cell) or (delimiter == ";" and is_number(cell, ",")) for cell in cells)
    return same, same > 0 and delimiter != " ", 1.0 if same else common / len(rows), found / len(cells)


def _has_names(rows: Sequence[Row], decimal: str) -> bool:
    """Whether the first row has names: a text over numbers, one cell less than below, or numbers that are names."""
    first, below = rows[0][1], [row for _, row in rows[1:]]
    text = [number(cell, decimal) is None for cell in first]
    if not below:
        return all(text)
    if all(len(row) == len(first) + 1 for row in below):
        return True
    below = list(takewhile(lambda row: len(row) == len(first), below))
    for column in range(len(first)):
        cells = [row[column] for row in below if not is_missing(row[column])]
        if text[column] and cells and all(is_number(cell, decimal) for cell in cells):
            return True
    if not below or any(text[1:]):
        return all(text) and bool(below)
    if not first[0].strip():  # how pandas writes an index without a name
        return len(first) > 1 and not any(is_missing(row[0]) for row in below) and not any(map(is_missing, first[1:]))
    if text[0] and first[0].strip().lower() in _IDENTIFIERS:
        return True
    cells = [cell.strip() for cell in first[text[0] :]]
    if len(cells) >= _FEW and [str(column + int(cells[0] != "0")) for column in range(len(cells))] == cells:
        return True  # columns counted from 0 or 1
    rises = [_rises(row[text[0] :], decimal) for row in (first, *below)]
    return len(cells) >= _MANY and rises[0] and not any(rises[1:])  # wave lengths


def _rises(cells: list[str], decimal: str) -> bool:
    """Whether all cells are numbers, each above the one before."""
    values = [nan if value is None else value for value in numbers(cells, decimal)]
    return all(low < high for low, high in pairwise(values))
