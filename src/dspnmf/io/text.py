"""Text files: CSV and its relatives, plain or compressed with gzip.

1. What the file does not say is found: its encoding (`text_file`), where the table is and what its columns are called
   (`text_layout`), and how it writes numbers (`number_format`).
2. All rows are read, cell by cell, or, of large files, through PyArrow where that reads the same. Where a cell does not
   fit, all cells are asked how the file writes numbers, and it is read again.
3. A column of numbers with a few texts is an error that names the first; one with more texts is text, and read again.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspnmf._option_words import option
from dspnmf.io.columns import Roles, roles_of, table_of_columns, texts
from dspnmf.io.errors import plain, quoted, refused, some
from dspnmf.io.large_text import read_large
from dspnmf.io.number_format import NumberFormat, Tally, allowed_formats
from dspnmf.io.table import Options, Table
from dspnmf.io.text_file import TextFile
from dspnmf.io.text_layout import WORDS, Layout, find_layout, is_comment

_LOOKED_THROUGH = 20_000  # rows, for the words that stand for missing values
_SHOWN = 6  # of them
_ENCODINGS = {"cp1252": "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}


@dataclass(frozen=True)
class _Reading:
    """How the rows of a file are read: as numbers of a format in some columns, as texts in the others."""

    file: TextFile
    layout: Layout
    roles: Roles
    form: NumberFormat
    numeric: list[int]


@dataclass(frozen=True)
class _Content:
    """Numbers of the numeric columns, texts of the others, and what was met on the way."""

    X: NDArray[np.float64]
    others: dict[int, list[str]]
    lines: NDArray[np.intp] | None = None
    wrong: frozenset[int] = frozenset()  # numeric columns in which there is text
    comments: int = 0  # lines


def read_text(path: Path, options: Options) -> Table:
    """A table from a text file."""
    file, allowed = TextFile(path, options.encoding), allowed_formats(path, options.decimal, options.thousands)
    layout = find_layout(file, options, allowed)
    known = layout.names if layout.named else [f"x{column}" for column in range(len(layout.names))]
    roles = roles_of(path, known, options)
    if layout.unnamed_index and roles.index is None and 0 not in roles.others:
        roles = replace(roles, index=0)
    words = frozenset(word.strip() for word in options.na)
    reading, doubt = _reading(file, layout, roles, allowed, words)
    content = _content(reading)
    if content.wrong:
        again, doubt = _reading(file, layout, roles, allowed, words, whole=True)
        if again.form != reading.form or again.numeric != reading.numeric:
            reading, content = again, _content(again)
    if content.wrong:
        reading = replace(reading, numeric=[column for column in reading.numeric if column not in content.wrong])
        content = _content(reading)
    _check_mixed(reading, content.others)
    columns = {
        column: texts(cells) if column == roles.index else reading.form.tidy(cells)
        for column, cells in content.others.items()
    }
    table = table_of_columns(path, layout.names, content.X, reading.numeric, columns, roles)
    return replace(
        table,
        assumed=(*_assumed(reading, content, doubt, options), *table.assumed),
        units=_units(table, layout),
        lines=content.lines,
    )


def _reading(
    file: TextFile,
    layout: Layout,
    roles: Roles,
    allowed: Sequence[NumberFormat],
    words: frozenset[str],
    *,
    whole: bool = False,
) -> tuple[_Reading, str]:
    """How to read a file by its first rows, or by the `whole` of it; and what about its numbers was in doubt."""
    tally = Tally()
    for row in layout.rows:
        tally.add(row)
    if whole or tally.is_unclear(allowed):
        tally = Tally()
        for row in file.rows(layout.delimiter, layout.skip):
            tally.add(row)
    form, doubt = tally.decided(file.path, allowed, layout.delimiter)
    form = replace(form, missing=words)
    numeric = set(range(len(layout.names))) - roles.others
    for _, cells in layout.rows:
        numeric -= {column for column in numeric if column < len(cells) and form.number(cells[column]) is None}
    return _Reading(file, layout, roles, form, sorted(numeric)), doubt


def _content(reading: _Reading) -> _Content:
    """All rows."""
    file, layout, form, numeric = reading.file, reading.layout, reading.form, reading.numeric
    width = len(layout.names)
    large = read_large(file, layout.delimiter, form, layout.skip, width, numeric)
    if large is not None:
        return _Content(*large)
    others: dict[int, list[str]] = {column: [] for column in sorted(set(range(width)) - set(numeric))}
    values, lines, wrong, comments = array("d"), array("q"), set[int](), 0
    for line, row in file.rows(layout.delimiter, layout.skip):
        if len(row) != width:
            if is_comment(row, width):
                comments += 1
                continue
            raise refused(file.path, _unlike(line, len(row), width, layout.delimiter))
        found = form.numbers([row[column] for column in numeric] if others else row)
        try:
            values.extend(found)  # type: ignore[arg-type]
        except TypeError:  # a text
            wrong |= {column for column, value in zip(numeric, found, strict=True) if value is None}
            del values[len(lines) * len(numeric) :]
            values.extend([nan] * len(numeric))
        for column, kept in others.items():
            kept.append(row[column])
        lines.append(line)
    X = np.frombuffer(values, dtype=np.float64).reshape(len(lines), len(numeric))
    return _Content(X, others, np.frombuffer(lines, dtype=np.int64), frozenset(wrong), comments)


def _unlike(line: int, cells: int, width: int, delimiter: str) -> str:
    """What is said of a row that is longer or shorter than the others."""
    separated = WORDS.get(delimiter, quoted(delimiter))
    what = (
        f"line {line} has {cells} cell{'s' * (cells != 1)}, but the rows above have {width} (separated by {separated})"
    )
    fix = f"Correct the line; quote cells that contain the delimiter, or pass {option('delimiter')}."
    return f"{what}. {fix}"


def _check_mixed(reading: _Reading, others: dict[int, list[str]]) -> None:
    """A few texts among numbers are mistakes; to take the column for text would hide them."""
    mixed, form, layout = {}, reading.form, reading.layout
    for column in sorted(others.keys() - reading.roles.others):
        wrong = [row for row, value in enumerate(form.numbers(others[column])) if value is None]
        given = sum(not form.is_missing(cell) for cell in others[column])
        if 0 < len(wrong) < given - len(wrong):
            mixed[column] = wrong[0], given - len(wrong), given
    if not mixed:
        return
    names = [layout.names[column] or f"x{column}" for column in mixed]
    column, (row, right, given) = next(iter(mixed.items()))
    rows = (row for row in reading.file.rows(layout.delimiter, layout.skip) if len(row[1]) == len(layout.names))
    line, cells = next(islice(rows, row, None))
    more = f" There are more in {some(names[1:])}." if len(names) > 1 else ""
    raise refused(
        reading.file.path,
        f"line {line}, column {quoted(names[0])}: {quoted(cells[column])} is not a number, but {right:,} of the "
        f"column's {given:,} values are.{more} Correct it; pass {option('na', plain(cells[column].strip(), 60))} if it "
        f"means that the value is missing, or {option('exclude', plain(names[0], 60))} if the column is not a feature.",
    )


def _units(table: Table, layout: Layout) -> tuple[str, ...]:
    """The units of the features that the table has."""
    if not layout.units:
        return ()
    units = dict(zip(layout.names, layout.units, strict=False))
    return tuple(units.get(str(name), "") for name in table.features)


def _assumed(reading: _Reading, content: _Content, doubt: str, options: Options) -> tuple[str, ...]:
    """What was assumed of the file, in words."""
    encoding = reading.file.encoding
    found = [f"{_ENCODINGS.get(encoding, encoding.upper())} text"] * (
        options.encoding is None and not reading.file.is_utf8
    )
    found += reading.layout.assumed
    found += [words for words in (reading.form.words(), doubt) if words]
    found += [f"{content.comments} comment{'s' * (content.comments > 1)} left out"] * bool(content.comments)
    if any(cell.rstrip().endswith("%") for _, cells in reading.layout.rows for cell in cells):
        found.append("percent signs left out")
    gaps = np.isnan(content.X)
    if words := _missing_words(reading, np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))):
        found.append(f"missing: {words}")
    return tuple(found)


def _missing_words(reading: _Reading, gaps: NDArray[np.intp]) -> str:
    """What stands for missing values in the columns of numbers that have some."""
    if not gaps.size:
        return ""
    columns = [reading.numeric[at] for at in gaps]
    seen: dict[str, None] = {}
    for _, cells in islice(reading.file.rows(reading.layout.delimiter, reading.layout.skip), _LOOKED_THROUGH):
        if len(cells) == len(reading.layout.names):
            seen |= dict.fromkeys(cells[at].strip() for at in columns if reading.form.is_missing(cells[at]))
    words = [quoted(word) if word else "empty cells" for word in seen]
    return ", ".join(words[:_SHOWN]) + ", ..." * (len(words) > _SHOWN)
