"""The lines, rows and cells of a text file, plain or compressed with gzip; it may be read more than once."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.errors import parsing, plain, refused
from dspnmf.io.limits import FREE, RATIO, amount, check_size, memory
from dspnmf.io.names import texts, whole

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "?")
_MISSING = frozenset(MISSING)
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)

Row = tuple[int, list[str]]  # the number of its first line, and its cells


class TextFile:
    """A text file: UTF-8, or UTF-16 where a byte order mark says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = _unpacked(path) if path.suffix.lower() == ".gz" else None
        self.size = path.stat().st_size if self.content is None else len(self.content)
        with self.open() as file:
            self.encoding = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        check_size(path, self.size, "its text")

    def open(self) -> BinaryIO:
        """Its bytes, unpacked."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def lines(self, skip: int = 0) -> Iterator[str]:
        """Its lines, with their ends, without the first `skip`."""
        with io.TextIOWrapper(self.open(), encoding=self.encoding, newline="") as text:
            try:
                for at, line in enumerate(text):
                    if "\0" in line:
                        raise refused(self.path, f"line {at + 1} has a zero byte: it is not text. Check its type.")
                    if at >= skip:
                        yield line
            except UnicodeError as error:
                raise self._undecodable() from error

    def rows(self, delimiter: str, skip: int = 0) -> Iterator[Row]:
        """Rows that are not blank; the delimiter " " is any white space."""
        lines: Iterable[str] = self.lines(skip)
        if delimiter == " ":
            lines = (" ".join(line.split()) for line in lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        first = skip + 1
        try:
            for row in reader:
                if row and not (len(row) == 1 and row[0].isspace()):
                    yield first, row
                first = skip + reader.line_num + 1
        except csv.Error as error:
            where = f"the row that begins in line {first} cannot be split into cells ({plain(error)})"
            raise refused(self.path, f"{where}. Is a quote there not closed, or not doubled?") from error

    def _undecodable(self) -> Exception:
        """The error for bytes that are not text; it names the first."""
        if self.encoding == "utf-16":
            return refused(self.path, "it begins as UTF-16 text, but is not, or is cut off. Save it as UTF-8.")
        where = "its end"
        with self.open() as file:
            for at, line in enumerate(file):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    where = f"line {at + 1}, byte {error.start + 1} (0x{line[error.start]:02x})"
                    break
        fix = "Save it as UTF-8; for Western text: iconv -f LATIN1 -t UTF-8 OLD > NEW."
        return refused(self.path, f"it is not UTF-8 text, at {where}. {fix}")


def _unpacked(path: Path) -> bytes:
    """What a .gz file holds, as long as its size is plausible."""
    most = min(FREE + RATIO * path.stat().st_size, memory())
    with parsing(path, "gzip file"), gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        what = f"its {path.stat().st_size:,} bytes unpack to more than {amount(most)}"
        raise refused(path, f"{what}. If you trust it, unpack it with gunzip.")
    return content


def is_missing(cell: str) -> bool:
    """Whether a cell is empty or says that its value is missing."""
    return cell.strip() in _MISSING


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number.

    >>> is_number("1.5"), is_number("1,5", ","), is_number("1.5", ","), is_number("1_000")
    (True, True, False, False)
    """
    text = cell.strip()
    if decimal == ",":
        text = "" if "." in text else text.replace(",", ".", 1)
    return _NUMBER.fullmatch(text) is not None


def is_text(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is neither a number nor missing."""
    return not (is_missing(cell) or is_number(cell, decimal))


def number(cell: str, decimal: str = ".") -> float:
    """The number in a cell, NaN if it is missing; ValueError for text.

    >>> number(" 1.5"), number("1,5", ","), number("NA")
    (1.5, 1.5, nan)
    """
    if is_missing(cell):
        return np.nan
    if is_number(cell, decimal):
        return float(cell.replace(",", ".") if decimal == "," else cell)
    raise ValueError(cell)


def numbers(cells: Sequence[str], decimal: str) -> list[float]:
    """The same for a row, quickly where nothing is special in it."""
    joined = "".join(cells)
    if decimal == "." and joined.isascii() and "_" not in joined:  # float takes 1_000 and digits of any script
        try:
            return [np.nan if cell in _MISSING else float(cell) for cell in cells]
        except ValueError:
            pass
    return [number(cell, decimal) for cell in cells]


def tidy(cells: Sequence[str], decimal: str = ".") -> NDArray[Any]:
    """A column that is not a feature: whole numbers, numbers, or the texts as they are.

    >>> tidy(["1", "2"]).dtype.kind, tidy(["1", "2.5"]).dtype.kind, tidy(["1", "b"]).dtype.kind
    ('i', 'f', 'U')
    """
    try:
        values = np.array(numbers(cells, decimal))
    except ValueError:
        return texts(cells)
    return whole(values) if np.isfinite(values).any() else texts(cells)
