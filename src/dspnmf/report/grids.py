"""A table of the comparison as the page shows it: texts, signs, and which value of a column is the best."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dspnmf.paper.tables import Column, Table

REFERENCE = "All"  # the data without reduction: shown, but no method that could be the best
MISSING = "\N{EN DASH}"


@dataclass(frozen=True)
class Value:
    """One number: as text, as the number to sort by (empty where there is none), and whether it leads its column."""

    text: str = MISSING
    key: str = ""
    best: bool = False
    sign: str = ""  # of a difference: "more", "less" or "same"


@dataclass(frozen=True)
class Square:
    """Ours, published, and ours less published."""

    ours: Value
    published: Value
    difference: Value


@dataclass(frozen=True)
class Grid:
    """A table ready to be written.

    `groups` are the upper headers with their widths; `columns` are group, statistic, and whether it begins a group.
    Where the paper has nothing to `compare`, only our numbers are shown.
    """

    name: str
    caption: str
    note: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, str, bool], ...]
    rows: tuple[tuple[str, tuple[Square, ...]], ...]
    compare: bool


def grid(table: Table) -> Grid:
    """What the page shows of a table."""
    columns = [_column(table, column) for column in table.columns]
    names = [group for group, _ in table.columns]
    return Grid(
        table.name,
        table.caption,
        table.note,
        tuple((name, len(list(same))) for name, same in groupby(names)),
        tuple((*column, i == 0 or column[0] != names[i - 1]) for i, column in enumerate(table.columns)),
        tuple((row, tuple(column[i] for column in columns)) for i, row in enumerate(table.rows)),
        bool(table.number),
    )


def _column(table: Table, column: Column) -> list[Square]:
    """One column, from top to bottom. What is printed like the best is the best too; a table of ours alone has none."""
    texts = {row: table.texts(row, column) for row in table.rows}
    ranked = [row for row in table.rows if row != REFERENCE and table.number]
    ours, printed = (max((float(texts[row][i]) for row in ranked if texts[row][i]), default=None) for i in (0, 1))
    squares = []
    for row in table.rows:
        entry, (mine, theirs, difference) = table.entries[row, column], texts[row]
        leads = [
            row in ranked and text != "" and float(text) == best for text, best in ((mine, ours), (theirs, printed))
        ]
        squares.append(
            Square(
                _value(mine, entry.ours, best=leads[0]),
                _value(theirs, entry.published, best=leads[1]),
                _value(difference.replace("-", "\N{MINUS SIGN}"), entry.difference, sign=_sign(difference)),
            )
        )
    return squares


def _value(text: str, number: float | None, *, best: bool = False, sign: str = "") -> Value:
    """A number, or a dash."""
    return Value() if number is None else Value(text, repr(float(number)), best, sign)


def _sign(difference: str) -> str:
    """Which way a difference goes, as it is printed."""
    value = float(difference or 0)
    return "more" if value > 0 else "less" if value < 0 else "same"
