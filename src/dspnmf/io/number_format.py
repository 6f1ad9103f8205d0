"""How a text file writes numbers: its decimal mark, what separates thousands, and words for missing values.

No cell decides alone: `Tally` counts over all cells which formats could have written them, and says which one did. A
cell such as 3.255 may be 3.255 or 3255; where nothing in the file tells, the user is asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._option_words import option
from dspnmf.io.columns import texts, whole
from dspnmf.io.errors import plain, quoted, refused
from dspnmf.io.text_file import Row

_WORDS = (  # for missing values, in small letters; the last two are dashes
    "na n/a #n/a #na n.a. n.a nan -nan null nil none missing ? . - -- --- * n.d. n.d nd n/d bdl bld udl lod loq n.q. "
    "nq b.d. b.d.l. b.l.d. k.a. n.b. n.m. trace traces over overflow ovrflw overrange saturated nodata unknown "
    "#div/0! #value! #ref! #num! #name? #null! \u2013 \u2014"
)
_PHRASES = (
    "n. n.",
    "n.n.",
    "u.d.n.",
    "no data",
    "not detected",
    "not determined",
    "not measured",
    "not available",
    "not applicable",
    "k. a.",
    "n. d.",
)
MISSING = frozenset(("", *_WORDS.split(), *_PHRASES))
_LIMIT = re.compile(  # <LOD, < 0.05, and what spreadsheets write where a column is too narrow
    r"[<>≤≥]=?\s*(?:[a-z]*\s?(?:lod|loq|dl|ql|rl|ng|bg|limit)|[0-9][0-9.,]*)|#{2,}"
)
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]*\.[0-9]+[dD][+-]?[0-9]+|inf|infinity)",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r'="(.*)"|\'(.*)')  # as spreadsheets keep numbers from being changed
_LOSS = re.compile(r"\(([0-9.,]+)\)")  # a negative number, as accountants write it
_MARKED = re.compile(r"[+-]?[0-9.,][0-9., ']*(?:[eEdD][+-]?[0-9]+)?")
_BLANKS = str.maketrans("\u00a0\u202f\u2009\u2019\u2212", "   '-")  # as spreadsheets separate thousands; and the minus
_PLAIN = str.maketrans("123456789", "1" * 9)
_MONEY = "$€£¥"
_DIGITS = r"[+-]?(?:[0-9][0-9.,' ]*[0-9]|[0-9]|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?"
MEASURED = re.compile(  # a number with its unit, or with an error
    rf"(?P<money>[{_MONEY}]?)\s*(?P<number>{_DIGITS})"
    rf"(?P<error>\s*(?:±|\+/?-)\s*{_DIGITS}|\s*\({_DIGITS}\))?\s?"
    rf"(?P<unit>(?:[^\W\d_]|[°%µμΩ{_MONEY}*†‡])[\w°%µμΩ/·*^²³⁻¹†‡ -]{{0,12}})?"
)
_BELOW_THOUSAND = 3  # digits
_LONG = 60  # letters of a cell that are looked at


@dataclass(frozen=True)
class NumberFormat:
    """A decimal mark, what separates thousands ("": nothing), and words for missing values in small letters."""

    decimal: str = "."
    thousands: str = ""
    missing: frozenset[str] = frozenset()

    @property
    def is_usual(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self.decimal == "." and not self.thousands

    def words(self) -> str:
        """The format as the reader says it was assumed; "" for the usual one."""
        if self.is_usual:
            return ""
        decimal = f"decimal {'points' if self.decimal == '.' else 'commas'}"
        return decimal + (f", thousands separated by {quoted(self.thousands)}" if self.thousands else "")

    def is_missing(self, cell: str) -> bool:
        """Whether a cell is empty, or says that its value is missing or beyond what could be measured."""
        text = cell.strip().lower()
        return not text or text in MISSING or text in self.missing or bool(_LIMIT.fullmatch(text))

    def number(self, cell: str) -> float | None:
        """The number in a cell, NaN if it is missing, None if it is text."""
        if self.is_missing(cell):
            return math.nan
        text = _bare(cell)
        if self.thousands and self.thousands in text:
            if not _grouped(self.decimal, self.thousands).fullmatch(text):
                return None
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            text = "" if "." in text or text.endswith(",") else text.replace(",", ".", 1)
        return float(text.replace("d", "e").replace("D", "e")) if _NUMBER.fullmatch(text) else None

    def numbers(self, cells: Sequence[str]) -> list[float | None]:
        """The same for a row, quickly where nothing is special in it."""
        joined = "".join(cells)
        if self.is_usual and joined.isascii() and "_" not in joined:  # float takes 1_000 and digits of any script
            try:
                return [float(cell) for cell in cells] if not self.missing else [*map(self._quick, cells)]
            except ValueError:
                pass
        return [self.number(cell) for cell in cells]

    def _quick(self, cell: str) -> float:
        return math.nan if cell.strip().lower() in self.missing else float(cell)

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number."""
        value = self.number(cell)
        return value is not None and value == value

    def tidy(self, cells: Sequence[str]) -> NDArray[Any]:
        """A column that is not a feature: whole numbers, numbers, or the texts as they are."""
        values = self.numbers(cells)
        if None in values or not np.isfinite(np.array(values, float)).any():
            return texts(cells)
        return whole(np.array(values, float))


USUAL = NumberFormat()
_FORMATS = (
    USUAL,
    NumberFormat(","),
    NumberFormat(".", ","),
    NumberFormat(",", "."),
    *(NumberFormat(decimal, thousands) for thousands in " '" for decimal in ".,"),
)  # the simplest first
_UNCLEAR = {  # what a mark before three digits may mean
    ".": frozenset((USUAL, NumberFormat(",", "."))),
    ",": frozenset((NumberFormat(","), NumberFormat(".", ","))),
}


@lru_cache(maxsize=16)
def _grouped(decimal: str, thousands: str) -> re.Pattern[str]:
    """Numbers with thousands in groups of three."""
    group, rest = re.escape(thousands), re.escape(decimal)
    more = rf"(?:{group}[0-9]{{2,3}})*" if thousands == "," else rf"(?:{group}[0-9]{{3}})*"  # 12,34,567 in India
    return re.compile(rf"[+-]?[1-9][0-9]{{0,2}}{more}{group}[0-9]{{3}}(?:{rest}[0-9]*)?")


def _bare(cell: str) -> str:
    """A cell without what programs write around a number."""
    text = cell.strip()
    if text[:1] in ("=", "'", "(", "\u2019"):
        if wrapped := _WRAPPED.fullmatch(text):
            text = (wrapped[1] or wrapped[2] or "").strip()
        text = _LOSS.sub(r"-\1", text)
    if not text.isascii():
        text = text.translate(_BLANKS)
    return text[:-1].rstrip() if text.endswith("%") else text


def could_be_number(cell: str) -> bool:
    """Whether a cell is a number in any format."""
    return bool(_formats_of(_shape(cell)))


def _shape(cell: str) -> str:
    """A cell with all digits but zeros alike: cells of one shape are written by the same formats."""
    return _bare(cell).translate(_PLAIN)[:_LONG]


@lru_cache(maxsize=2**14)
def _formats_of(shape: str) -> frozenset[NumberFormat]:
    """The formats that write cells of a shape."""
    if not _MARKED.fullmatch(shape):
        return frozenset()
    return frozenset(one for one in _FORMATS if (value := one.number(shape)) is not None and value == value)


@dataclass
class Tally:
    """Counts over cells: which formats could have written them."""

    written: Counter[NumberFormat] = field(default_factory=Counter)  # cells that a format writes
    unclear: dict[str, tuple[int, str]] = field(default_factory=dict)  # marks: line and cell where it may mean either
    unclear_columns: dict[str, set[int]] = field(default_factory=lambda: {".": set(), ",": set()})
    whole_numbers: dict[int, set[bool]] = field(default_factory=dict)  # by columns: whether they are below 1000

    def add(self, row: Row) -> None:
        """Count the cells of a row."""
        line, cells = row
        for column, cell in enumerate(cells):
            if cell.isdigit():
                self.whole_numbers.setdefault(column, set()).add(len(cell) <= _BELOW_THOUSAND)
                continue
            shape = _shape(cell)
            formats = _formats_of(shape)
            if not formats and (measured := MEASURED.fullmatch(cell.strip())):
                shape = _shape(measured["number"])
                formats = _formats_of(shape)
            self.written.update(formats)
            for mark, meanings in _UNCLEAR.items():
                if mark in shape and meanings <= formats:
                    self.unclear.setdefault(mark, (line, cell.strip()))
                    self.unclear_columns[mark].add(column)

    def best(self, allowed: Sequence[NumberFormat]) -> NumberFormat:
        """The format that writes most cells; of several the simplest."""
        return max(allowed, key=lambda one: self.written[one])  # the first of those that write as many

    def is_unclear(self, allowed: Sequence[NumberFormat]) -> bool:
        """Whether two formats write as many cells, and read other numbers in them."""
        chosen = self.best(allowed)
        return any(
            mark in self.unclear
            and chosen in meanings
            and all(one in allowed and self.written[one] == self.written[chosen] for one in meanings)
            for mark, meanings in _UNCLEAR.items()
        )

    def decided(self, path: Path, allowed: Sequence[NumberFormat], delimiter: str) -> tuple[NumberFormat, str]:
        """The format of the file, and what had to be assumed for it; an error asks where nothing in the file tells.

        A mark before three digits is a decimal mark where other columns of whole numbers do without it above 999, and
        where the delimiter says so: commas separate the cells of languages with decimal points, semicolons those of
        languages with decimal commas. Where every number of its columns has three digits behind the mark, and tabs or
        blanks separate the cells, points are decimal.
        """
        chosen = self.best(allowed)
        if not self.is_unclear(allowed):
            return chosen, ""
        mark = chosen.decimal
        line, cell = self.unclear[mark]
        simple, grouped = NumberFormat(mark), NumberFormat("," if mark == "." else ".", mark)
        seen = set[bool]().union(*(self.whole_numbers.get(column, ()) for column in self.unclear_columns[mark]))
        name = "point" if mark == "." else "comma"
        if False in seen:  # 4310 has no mark
            return simple, ""
        if delimiter == ",":
            return (simple, "") if mark == "." else (grouped, f"the {name} in {quoted(cell)} separates thousands")
        if not seen and (mark == ".") == (delimiter != ";"):
            return simple, f"{quoted(cell)} has three decimals (its {name} could separate thousands)"
        raise refused(
            path,
            f"line {line}: {quoted(cell)} may be {cell.replace(',', '.')} or {cell.replace(mark, '')}, and no cell of "
            f"the file tells which. Pass {option('decimal', mark)} if its {name} is a decimal mark, or "
            f"{option('thousands', mark)} if it separates thousands.",
        )


def allowed_formats(path: Path, decimal: str | None, thousands: str | None) -> list[NumberFormat]:
    """The formats that the options leave, the simplest first."""
    thousands = "" if thousands == "none" else " " if thousands == "space" else thousands
    if decimal not in (None, ".", ","):
        raise refused(path, f"{option('decimal', plain(decimal))} is not allowed: it must be . or ,")
    if thousands not in (None, "", ".", ",", " ", "'"):
        what = f"{option('thousands', plain(thousands))} is not allowed"
        raise refused(path, f"{what}: it must be one of . , ' space none")
    found = [one for one in _FORMATS if decimal in (None, one.decimal) and thousands in (None, one.thousands)]
    if not found:
        raise refused(path, f"{option('decimal')} and {option('thousands')} are the same mark. Correct one of them.")
    return found
