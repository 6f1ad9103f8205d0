"""What a text file does not say: what parts its cells, whether its first row has names, what its decimals look like."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from dspnmf.io.cells import has_decimal_comma, is_nothing, is_number, number
from dspnmf.io.errors import quoted, refused
from dspnmf.io.source import Source

_DELIMITERS = ("\t", ";", "|", ",", " ")  # the first that fits wins a tie
_LINES, _LETTERS = 40, 2**21
_FEW, _MANY = 4, 8  # cells that may be numbers and yet names: counted, rising
_IDENTIFIERS = ("id", "ids", "index", "key", "name", "names", "row", "sample", "samples")
_SPOKEN = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}

Rows = list[tuple[int, list[str]]]  # with the numbers of their first lines


class Preface(NamedTuple):
    """What stands before the rows: lines to skip, names in a comment, and a delimiter that is told (``sep=;``)."""

    lines: int = 0
    names: str = ""
    delimiter: str | None = None


def preface(source: Source) -> Preface:
    """Blank lines, comments and the line that tells Excel the delimiter."""
    count, comment, told = 0, "", None
    for line in source.lines():
        text = line.strip()
        if text.startswith("#"):
            comment = text.lstrip("#").strip(" ")
        elif text.lower().startswith("sep=") and len(text) <= 5 and count == 0:
            told = text[4:] or "\t"
        elif text:
            break
        count += 1
    else:
        raise refused(source.path, "it has no rows: it is empty, or all of it is comments. Check how it was made.")
    return Preface(count, comment, told)


def spoken(source: Source, delimiter: str) -> str:
    """A delimiter as people write it on a command line."""
    delimiter = _SPOKEN.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise refused(source.path, f"delimiter={quoted(delimiter)} must be one character, such as ';' or 'tab'.")
    return delimiter


def delimiter_of(source: Source, skip: int) -> str:
    """What parts the cells: what gives every line as many, and most of them numbers."""
    left, lines = _LETTERS, []
    for line in islice(source.lines(skip), _LINES):
        lines.append(line[:_LETTERS])
        left -= len(line)
        if left < 0:
            break
    return max(_DELIMITERS, key=lambda delimiter: _fit(lines, delimiter))


def _fit(lines: list[str], delimiter: str) -> tuple[int, bool, float, float]:
    """How well a delimiter fits: all rows as long (2; the first one shorter: 1), no blank, rows as long, numbers."""
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
    numbers = sum(is_number(cell) or (delimiter == ";" and has_decimal_comma(cell)) for cell in cells)
    return same, same > 0 and delimiter != " ", 1.0 if same else common / len(rows), numbers / len(cells)


def decimal_of(rows: Rows, delimiter: str) -> str:
    """A comma where semicolons part the cells and a number has one; else a point."""
    return "," if delimiter == ";" and any(has_decimal_comma(cell) for _, row in rows for cell in row) else "."


def has_names(rows: Rows, decimal: str) -> bool:
    """Whether the first row has names: a text over numbers, one cell less than below, or numbers that are names."""
    first, below = rows[0][1], [row for _, row in rows[1:]]
    text = [not (is_nothing(cell) or is_number(cell, decimal)) for cell in first]
    if not below:
        return all(text)
    if all(len(row) == len(first) + 1 for row in below):
        return True
    below = list(takewhile(lambda row: len(row) == len(first), below))
    for place in range(len(first)):
        column = [row[place] for row in below if not is_nothing(row[place])]
        if text[place] and column and all(is_number(cell, decimal) for cell in column):
            return True
    if not below or any(text[1:]):
        return all(text) and bool(below)
    if not first[0].strip():  # how pandas writes an index without a name
        return len(first) > 1 and not any(is_nothing(row[0]) for row in below) and not any(map(is_nothing, first[1:]))
    if text[0] and first[0].strip().lower() in _IDENTIFIERS:
        return True
    return _counts(first[text[0] :], [row[text[0] :] for row in below], decimal)


def _counts(cells: list[str], below: list[list[str]], decimal: str) -> bool:
    """Whether numbers are names: columns counted from 0 or 1, or many that rise (wave lengths) as no row below does."""
    counted = (list(map(str, range(len(cells)))), list(map(str, range(1, len(cells) + 1))))
    if len(cells) >= _FEW and [cell.strip() for cell in cells] in counted:
        return True
    return len(cells) >= _MANY and _rises(cells, decimal) and not any(_rises(row, decimal) for row in below)


def _rises(cells: list[str], decimal: str) -> bool:
    """Whether all cells are numbers, each above the one before."""
    if not all(is_number(cell, decimal) for cell in cells):
        return False
    values = [number(cell, decimal) for cell in cells]
    return all(low < high for low, high in pairwise(values))
