"""What a text file does not say, guessed from its first rows: the delimiter, whether there are names, the decimals."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile

from dspnmf.io.columns import Roles, roles_of
from dspnmf.io.errors import quoted, refused
from dspnmf.io.table import Options
from dspnmf.io.text_file import Row, TextFile, is_missing, is_number, is_text, number

_DELIMITERS = ("\t", ";", "|", ",", " ")  # the first that fits wins a tie
_LINES, _LETTERS = 40, 2**21  # that are looked at for the delimiter
_ROWS, _CELLS = 200, 100_000  # and for all else
_FEW, _MANY = 4, 8  # cells that may be numbers and yet names: counted, rising
_IDENTIFIERS = ("id", "ids", "index", "key", "name", "names", "row", "sample", "samples")
_NAMED = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class Layout:
    """Lines before the data, one name a column, and the columns that have numbers."""

    delimiter: str
    decimal: str
    skip: int
    names: list[str]
    roles: Roles
    numeric: list[int]

    @property
    def other(self) -> list[int]:
        """Columns that are kept as text."""
        return sorted(set(range(len(self.names))) - set(self.numeric))


def layout_of(file: TextFile, options: Options) -> Layout:
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
    numeric = [
        column
        for column in range(len(names))
        if column not in roles.others and not any(is_text(row[column], decimal) for _, row in rows if column < len(row))
    ]
    return Layout(delimiter, decimal, rows[0][0] - 1, names, roles, numeric)


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
    numbers = sum(is_number(cell) or (delimiter == ";" and is_number(cell, ",")) for cell in cells)
    return same, same > 0 and delimiter != " ", 1.0 if same else common / len(rows), numbers / len(cells)


def _has_names(rows: Sequence[Row], decimal: str) -> bool:
    """Whether the first row has names: a text over numbers, one cell less than below, or numbers that are names."""
    first, below = rows[0][1], [row for _, row in rows[1:]]
    text = [is_text(cell, decimal) for cell in first]
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
    return _are_names(first[text[0] :], [row[text[0] :] for row in below], decimal)


def _are_names(cells: list[str], below: list[list[str]], decimal: str) -> bool:
    """Whether numbers are names: columns counted from 0 or 1, or many that rise (wave lengths) as no row below does."""
    counted = (list(map(str, range(len(cells)))), list(map(str, range(1, len(cells) + 1))))
    if len(cells) >= _FEW and [cell.strip() for cell in cells] in counted:
        return True
    return len(cells) >= _MANY and _rises(cells, decimal) and not any(_rises(row, decimal) for row in below)


def _rises(cells: list[str], decimal: str) -> bool:
    """Whether all cells are numbers, each above the one before."""
    return all(is_number(cell, decimal) for cell in cells) and all(
        low < high for low, high in pairwise(number(cell, decimal) for cell in cells)
    )
