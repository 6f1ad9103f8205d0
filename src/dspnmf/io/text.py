"""Text files: CSV and its relatives, plain or compressed with gzip.

1. what the file does not say is guessed from its first rows: delimiter, names, decimals, which columns have numbers;
2. all rows are read, columns of numbers quickly (`quick`) or exactly (`_numbers_and_texts`);
3. where a cell is not what its column seemed to be, all cells are counted: a column of numbers with a few texts is an
   error that names the first, and one of texts is no feature.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspnmf.io import quick, sniff
from dspnmf.io.cells import is_nothing, is_number, row_of_numbers, tidy
from dspnmf.io.columns import Roles, roles_of, table_of
from dspnmf.io.errors import quoted, refused, some
from dspnmf.io.names import texts
from dspnmf.io.options import Options
from dspnmf.io.source import Source
from dspnmf.io.table import Table

_ROWS, _CELLS = 200, 100_000  # that are looked at before all are read


@dataclass(frozen=True)
class Layout:
    """Where things are: lines before the data, one name a column, and the columns that have numbers."""

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


class _Count(NamedTuple):
    """Cells of a column, and the first that is text."""

    numbers: int = 0
    texts: int = 0
    line: int = 0
    cell: str = ""


def read_text(path: Path, options: Options) -> Table:
    """A table from a text file."""
    options.only(path, "a text file", "label", "index", "delimiter", "header", "exclude")
    source = Source(path)
    layout = _layout(source, options)
    layout, X, others = _cells(source, layout)
    misread = [place for place, cells in others.items() if _mostly_numbers(layout, place, cells)]
    if misread:
        _check_mixed(source, layout, _count(source, layout, misread))
    columns = {
        place: texts(cells) if place == layout.roles.index else tidy(cells, layout.decimal)
        for place, cells in others.items()
    }
    return table_of(path, layout.names, X, layout.numeric, columns, layout.roles)


def _layout(source: Source, options: Options) -> Layout:
    """What the first rows tell."""
    before = sniff.preface(source)
    told = options.delimiter or before.delimiter
    delimiter = sniff.spoken(source, told) if told else sniff.delimiter_of(source, before.lines)
    rows: sniff.Rows = []
    for row in source.rows(delimiter, before.lines):
        rows.append(row)
        if len(rows) > _ROWS or (len(rows) > 2 and len(rows) * len(row[1]) > _CELLS):
            break
    if not rows:
        raise refused(source.path, "it has no rows. Check how it was made.")
    decimal = sniff.decimal_of(rows, delimiter)
    header = sniff.has_names(rows, decimal) if options.header is None else options.header
    comment = before.names.split() if delimiter == " " else before.names.split(delimiter)
    if not header and options.header is None and len(comment) == len(rows[0][1]) > 1:
        rows.insert(0, (0, [name.strip(' "') for name in comment]))
        header = True
    names, rows = (rows[0][1], rows[1:]) if header else ([""] * len(rows[0][1]), rows)
    if not rows:
        raise refused(source.path, "it has names but no rows below them. Check how it was made.")
    unnamed_index = header and (len(rows[0][1]) == len(names) + 1 or (len(names) > 1 and not names[0].strip()))
    names = ["", *names] if len(rows[0][1]) == len(names) + 1 and header else names
    names = [name.strip() for name in names]
    roles = roles_of(source.path, names if header else [f"x{place}" for place in range(len(names))], options)
    if unnamed_index and roles.index is None and 0 not in roles.apart:
        roles = replace(roles, index=0)
    numeric = [place for place in range(len(names)) if place not in roles.apart and _numeric(rows, place, decimal)]
    return Layout(delimiter, decimal, rows[0][0] - 1, names, roles, numeric)


def _numeric(rows: sniff.Rows, place: int, decimal: str) -> bool:
    """Whether a column has nothing but numbers and gaps, in the rows that reach so far."""
    cells = (row[place] for _, row in rows if place < len(row))
    return all(is_nothing(cell) or is_number(cell, decimal) for cell in cells)


def _cells(source: Source, layout: Layout) -> tuple[Layout, NDArray[Any], dict[int, list[str]]]:
    """Numbers of the numeric columns and texts of all others, with as many passes over the file as that takes."""
    found = quick.read(source, layout) or _numbers_and_texts(source, layout)
    if found is None and layout.delimiter == ";" and layout.decimal == ".":  # the first rows had no decimals
        commas = replace(layout, decimal=",")
        found = _numbers_and_texts(source, commas)
        layout = layout if found is None else commas
    if found is None:
        counts = _count(source, layout, layout.numeric)
        _check_mixed(source, layout, counts)
        layout = replace(layout, numeric=[place for place in layout.numeric if not counts[place].texts])
        found = _numbers_and_texts(source, layout)
    if found is None:
        raise refused(source.path, "it changed while it was read. Read it again when it is complete.")
    return layout, *found


def _numbers_and_texts(source: Source, layout: Layout) -> tuple[NDArray[Any], dict[int, list[str]]] | None:
    """All rows; None where a cell of a numeric column is no number."""
    numeric, other, width = layout.numeric, layout.other, len(layout.names)
    values, columns, rows = array("d"), {place: list[str]() for place in layout.other}, 0
    for line, row in source.rows(layout.delimiter, layout.skip):
        if len(row) != width:
            raise _ragged(source, layout, line, len(row))
        try:
            values.extend(row_of_numbers([row[place] for place in numeric] if other else row, layout.decimal))
        except ValueError:
            return None
        for place in other:
            columns[place].append(row[place])
        rows += 1
    return np.frombuffer(values, dtype=np.float64).reshape(rows, len(numeric)), columns


def _ragged(source: Source, layout: Layout, line: int, width: int) -> Exception:
    """A row with more or fewer cells than the others."""
    delimiter = {"\t": "tabs", " ": "blanks"}.get(layout.delimiter, quoted(layout.delimiter))
    what = f"{width} cell{'s' * (width != 1)}, but the rows above have {len(layout.names)} (parted by {delimiter})"
    fix = "Correct the line; quote cells that contain the delimiter, or pass delimiter."
    return refused(source.path, f"line {line} has {what}. {fix}")


def _mostly_numbers(layout: Layout, place: int, cells: Sequence[str]) -> bool:
    """Whether a column of texts has more numbers than texts, and nobody said that it is no feature."""
    if place in layout.roles.apart:
        return False
    given = [cell for cell in cells if not is_nothing(cell)]
    return 2 * sum(is_number(cell, layout.decimal) for cell in given) > len(given)


def _count(source: Source, layout: Layout, places: Sequence[int]) -> dict[int, _Count]:
    """What is in some columns, cell by cell."""
    counts = dict.fromkeys(places, _Count())
    for line, row in source.rows(layout.delimiter, layout.skip):
        if len(row) != len(layout.names):
            raise _ragged(source, layout, line, len(row))
        for place in places:
            cell, (numbers, words, first, what) = row[place], counts[place]
            if is_number(cell, layout.decimal):
                counts[place] = _Count(numbers + 1, words, first, what)
            elif not is_nothing(cell):
                counts[place] = _Count(numbers, words + 1, first or line, what if first else cell)
    return counts


def _check_mixed(source: Source, layout: Layout, counts: dict[int, _Count]) -> None:
    """A few texts among numbers are mistakes; to take the column for text would hide them."""
    mixed = [place for place, count in counts.items() if 0 < count.texts < count.numbers]
    if not mixed:
        return
    numbers, words, line, cell = counts[mixed[0]]
    names = [layout.names[place] or f"x{place}" for place in mixed]
    more = f" There are more in {some(names[1:])}." if len(names) > 1 else ""
    raise refused(
        source.path,
        f"line {line}, column {quoted(names[0])}: {quoted(cell)} is no number, but {numbers:,} of the column's "
        f"{numbers + words:,} values are.{more} Correct it (leave it empty if it is missing), or name the column in "
        "exclude if it is no feature.",
    )
