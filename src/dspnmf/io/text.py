"""Text files: CSV and its relatives, plain or compressed with gzip.

1. What the file does not say is found: its encoding (`text_file`), where the table is and what its columns are called
   (`text_layout`), and how it writes numbers (`number_format`).
2. All rows are read, cell by cell, or, of large files, through PyArrow where that reads the same. Where a cell does not
   fit, all cells are asked how the file writes numbers, and it is read again.
3. A column of numbers with a few texts is an error that names the first; one with more texts is text, and read again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import nan
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dspnmf._option_words import option
from dspnmf.io.cell_units import take_out_codes, without_units
from dspnmf.io.columns import Roles, roles_of, table_of_columns, texts
from dspnmf.io.errors import plain, quoted, refused, some
from dspnmf.io.large_text import read_large
from dspnmf.io.number_format import NumberFormat, Tally, allowed_formats
from dspnmf.io.other_rows import in_words, samples, statistics_at_end
from dspnmf.io.table import Options, Table
from dspnmf.io.text_file import Row, TextFile
from dspnmf.io.text_layout import WORDS, Layout, find_layout, other_delimiter

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
    known: Mapping[int, str]  # lines that are not samples, and why
    doubt: str = ""  # about its numbers

    def rows(self, left: dict[int, str] | None = None) -> Iterator[Row]:
        """Rows that may be samples; the lines of others come into `left`."""
        return _samples(self.file, self.layout, self.known, {} if left is None else left)


@dataclass(frozen=True)
class _Content:
    """Numbers of the numeric columns, texts of the others, and what was met on the way."""

    X: NDArray[np.float64]
    others: dict[int, list[str]]
    lines: NDArray[np.intp] | None = None
    wrong: frozenset[int] = frozenset()  # numeric columns in which there is text
    left: Mapping[int, str] = field(default_factory=dict)  # lines that are not samples, and why


def read_text(path: Path, options: Options) -> Table:
    """A table from a text file."""
    return table_of_text(TextFile(path, options.encoding), options)


def table_of_text(file: TextFile, options: Options) -> Table:
    """A table from text."""
    path = file.path
    allowed = allowed_formats(path, options.decimal, options.thousands)
    layout = find_layout(file, options, allowed)
    known = layout.names if layout.named else [f"x{column}" for column in range(len(layout.names))]
    roles = roles_of(path, known, options)
    unnamed = layout.unnamed_index and any(cells[0] for _, cells in layout.rows)
    if unnamed and roles.index is None and 0 not in roles.others:
        roles = replace(roles, index=0)
    words = frozenset(word.strip().lower() for word in options.na)
    find = partial(_read, file, layout, roles, allowed, words)
    reading, content = find()
    if ends := statistics_at_end(content.X, content.others):
        lines = _content(reading, large=False).lines if content.lines is None else content.lines
        assert lines is not None  # only of large files, which were read quickly
        reading, content = find({int(lines[row]): quoted(name) for row, name in ends.items()})
    reading, content, units = _without_units(reading, content)
    _check_mixed(reading, content.others)
    if not reading.numeric:
        mark = other_delimiter(file, options.skip_rows or 0)
        fix = f"If {quoted(mark)} separates cells, pass {option('delimiter', mark)}" if mark else "Check what it holds"
        raise refused(path, f"it has no column of numbers, only {some(known)}. {fix}.")
    codes = take_out_codes(content.X)
    columns = {
        column: texts(cells) if column == roles.index else reading.form.tidy(cells)
        for column, cells in content.others.items()
    }
    table = table_of_columns(
        path, layout.names, content.X, reading.numeric, columns, roles, written=partial(_as_written, reading)
    )
    return replace(
        table,
        assumed=(*_assumed(reading, content, options, units, codes), *table.assumed),
        units=_units(table, layout, units),
        lines=content.lines,
    )


def _read(
    file: TextFile,
    layout: Layout,
    roles: Roles,
    allowed: Sequence[NumberFormat],
    words: frozenset[str],
    known: Mapping[int, str] = MappingProxyType({}),
) -> tuple[_Reading, _Content]:
    """How a file is read, and what is in it, without the lines that are `known` to be no samples."""
    find = partial(_reading, file, layout, roles, allowed, words, known)
    reading = find()
    content = _content(reading, large=not known)
    if content.wrong:
        again = find(whole=True)
        if again.form != reading.form or again.numeric != reading.numeric:
            reading, content = again, _content(again, large=not known)
    if content.wrong:
        reading = replace(reading, numeric=[column for column in reading.numeric if column not in content.wrong])
        content = _content(reading, large=not known)
    return reading, content


def _samples(file: TextFile, layout: Layout, known: Mapping[int, str], left: dict[int, str]) -> Iterator[Row]:
    """Rows of a file that may be samples."""
    rows = file.rows(layout.delimiter, layout.skip)
    return samples(rows, layout.names, known, complete=file.ends_with_a_line, left=left)


def _reading(
    file: TextFile,
    layout: Layout,
    roles: Roles,
    allowed: Sequence[NumberFormat],
    words: frozenset[str],
    known: Mapping[int, str],
    *,
    whole: bool = False,
) -> _Reading:
    """How to read a file by its first rows, or by the `whole` of it."""
    first = list(samples(layout.rows, layout.names, known, complete=True, left={}))
    tally = Tally()
    for row in first:
        tally.add(row)
    if whole or tally.is_unclear(allowed):
        tally = Tally()
        for row in _samples(file, layout, known, {}):
            tally.add(row)
    form, doubt = tally.decided(file.path, allowed, layout.delimiter)
    form = replace(form, missing=words)
    numeric = set(range(len(layout.names))) - roles.others
    for _, cells in first:
        numeric -= {column for column in numeric if column < len(cells) and form.number(cells[column]) is None}
    return _Reading(file, layout, roles, form, sorted(numeric), known, doubt)


def _content(reading: _Reading, *, large: bool = True) -> _Content:
    """All rows; those of `large` files quickly, where that can be."""
    file, layout, form, numeric = reading.file, reading.layout, reading.form, reading.numeric
    width, left = len(layout.names), dict[int, str]()
    found = read_large(file, layout.delimiter, form, layout.skip, width, numeric) if large else None
    if found is not None:
        return _Content(*found)
    others: dict[int, list[str]] = {column: [] for column in sorted(set(range(width)) - set(numeric))}
    values, lines, wrong, printed = array("d"), array("q"), set[int](), layout.delimiter == "|"
    for line, row in reading.rows(left):
        if len(row) != width:
            raise refused(file.path, _unlike(line, len(row), width, layout.delimiter))
        numbers = form.numbers([row[column] for column in numeric] if others else row)
        try:
            values.extend(numbers)  # type: ignore[arg-type]
        except TypeError:  # a text
            wrong |= {column for column, value in zip(numeric, numbers, strict=True) if value is None}
            del values[len(lines) * len(numeric) :]
            values.extend([nan] * len(numeric))
        for column, kept in others.items():
            kept.append(row[column].strip() if printed else row[column])
        lines.append(line)
    X = np.frombuffer(values, dtype=np.float64).reshape(len(lines), len(numeric))
    return _Content(X, others, np.frombuffer(lines, dtype=np.int64), frozenset(wrong), left)


def _without_units(reading: _Reading, content: _Content) -> tuple[_Reading, _Content, dict[int, str]]:
    """Columns of numbers with a unit in every cell as columns of numbers; their units."""
    found = {
        column: measured
        for column, cells in content.others.items()
        if column not in reading.roles.others and (measured := without_units(cells, reading.form)) is not None
    }
    if not found:
        return reading, content, {}
    numeric = sorted([*reading.numeric, *found])
    columns = {column: content.X[:, at] for at, column in enumerate(reading.numeric)}
    columns |= {column: np.array(values) for column, (values, _) in found.items()}
    others = {column: cells for column, cells in content.others.items() if column not in found}
    X = np.column_stack([columns[column] for column in numeric])
    units = {column: unit for column, (_, unit) in found.items()}
    return replace(reading, numeric=numeric), replace(content, X=X, others=others), units


def _as_written(reading: _Reading, column: int) -> list[str] | None:
    """The cells of a column of whole numbers where they are more than these: 007, or 1.0; None where they are not."""
    plain = all(cells[column].strip() == str(int(float(cells[column]))) for _, cells in reading.layout.rows[:1])
    return None if plain else [cells[column].strip() for _, cells in reading.rows()]


def _unlike(line: int, cells: int, width: int, delimiter: str) -> str:
    """What is said of a row that is longer or shorter than the others."""
    separated = WORDS.get(delimiter, quoted(delimiter))
    what = (
        f"line {line} has {cells} cell{'s' * (cells != 1)}, but the rows above have {width} (separated by {separated})"
    )
    fix = f"Correct the line, or remove it; quote cells that contain the delimiter, or pass {option('delimiter')}."
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
    line, cells = next(islice(reading.rows(), row, None))
    more = f" There are more in {some(names[1:])}." if len(names) > 1 else ""
    raise refused(
        reading.file.path,
        f"line {line}, column {quoted(names[0])}: {quoted(cells[column])} is not a number, but {right:,} of the "
        f"column's {given:,} values are.{more} Correct it; pass {option('na', plain(cells[column].strip(), 60))} if it "
        f"means that the value is missing, or {option('exclude', plain(names[0], 60))} if the column is not a feature.",
    )


def _units(table: Table, layout: Layout, found: Mapping[int, str]) -> tuple[str, ...]:
    """The units of the features that the table has: from a line of the file, or from the cells."""
    if not layout.units and not any(found.values()):
        return ()
    units = dict(zip(layout.names, layout.units, strict=False)) | {layout.names[at]: unit for at, unit in found.items()}
    shown = [units.get(str(name), "").strip("[]() ") for name in table.features]
    if not any(unit.strip("-./_ ") for unit in shown):
        return ()  # dashes
    return tuple(shown)


def _assumed(
    reading: _Reading, content: _Content, options: Options, units: Mapping[int, str], codes: Sequence[str]
) -> tuple[str, ...]:
    """What was assumed of the file, in words."""
    encoding = reading.file.encoding
    found = [f"{_ENCODINGS.get(encoding, encoding.upper())} text"] * (
        options.encoding is None and not reading.file.is_utf8
    )
    if found and encoding == "cp1252" and _looks_odd("".join(reading.layout.names)):
        found = ["Windows-1252 text (if the letters of the names are wrong, give the encoding)"]
    found += reading.layout.assumed
    found += [words for words in (reading.form.words(), reading.doubt) if words]
    found += in_words(content.left)
    if any(cell.rstrip().endswith("%") for _, cells in reading.layout.rows for cell in cells):
        found.append("percent signs left out")
    if units:
        names = [quoted(reading.layout.names[at] or f"x{at}") for at in units]
        shown = list(dict.fromkeys(quoted(unit) for unit in units.values() if unit))
        taken = ", ".join(shown[:_SHOWN]) + ", ..." * (len(shown) > _SHOWN) if shown else "errors or marks"
        found.append(f"{taken} taken off the cells of {', '.join(names[:_SHOWN])}{', ...' * (len(names) > _SHOWN)}")
    gaps = np.isnan(content.X)
    words = _missing_words(reading, np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0)))
    words += [quoted(code) for code in codes]
    if words:
        found.append(f"missing: {', '.join(words[:_SHOWN])}{', ...' * (len(words) > _SHOWN)}")
    return tuple(found)


def _looks_odd(names: str) -> bool:
    """Whether half of the letters are none of English, as where an encoding is wrong."""
    letters = [letter for letter in names if letter.isalpha() or not letter.isascii()]
    return 2 * sum(not letter.isascii() for letter in letters) >= max(len(letters), 1)


def _missing_words(reading: _Reading, gaps: NDArray[np.intp]) -> list[str]:
    """What stands for missing values in the columns of numbers that have some."""
    if not gaps.size:
        return []
    columns = [reading.numeric[at] for at in gaps]
    seen: dict[str, None] = {}
    for _, cells in islice(reading.rows(), _LOOKED_THROUGH):
        if len(cells) == len(reading.layout.names):
            seen |= dict.fromkeys(cells[at].strip() for at in columns if reading.form.is_missing(cells[at]))
    return [quoted(word) if word else "empty cells" for word in seen]
