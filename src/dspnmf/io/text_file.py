"""The lines, rows and cells of a text file, plain or compressed with gzip; it may be read more than once."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.columns import texts, whole
from dspnmf.io.errors import parsing, plain, refused
from dspnmf.io.limits import FREE, RATIO, amount, check_size, memory

MISSING = frozenset(("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "?"))
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)

Row = tuple[int, list[str]]  # the number of its first line, and its cells


class TextFile:
    """A text file: UTF-8, or UTF-16 where a byte order mark says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _unpacked(path) if path.suffix.lower() == ".gz" else None
        self.size = path.stat().st_size if self._content is None else len(self._content)
        check_size(path, self.size, "its text")
        with self.open() as file:
            self.utf16 = file.read(2) in (b"\xff\xfe", b"\xfe\xff")

    def open(self) -> BinaryIO:
        """Its bytes, unpacked."""
        return self.path.open("rb") if self._content is None else io.BytesIO(self._content)

    def lines(self, skip: int = 0) -> Iterator[str]:
        """Its lines, with their ends, without the first `skip`."""
        encoding, errors = ("utf-16", "strict") if self.utf16 else ("utf-8-sig", "surrogateescape")
        with io.TextIOWrapper(self.open(), encoding, errors, newline="") as text:
            try:
                for number, line in enumerate(text, start=1):
                    if "\0" in line:
                        raise refused(self.path, f"line {number} has a zero byte: it is not text. Check its type.")
                    if not line.isascii():
                        line.encode()  # fails at a byte that is not UTF-8, which has become a surrogate
                    if number > skip:
                        yield line
            except UnicodeEncodeError as error:
                before, byte = line[: error.start].encode(), ord(line[error.start]) & 0xFF
                what = f"it is not UTF-8 text, at line {number}, byte {len(before) + 1} (0x{byte:02x})"
                fix = "Save it as UTF-8; for Western text: iconv -f LATIN1 -t UTF-8 OLD > NEW."
                raise refused(self.path, f"{what}. {fix}") from error
            except UnicodeError as error:
                what = "it begins as UTF-16 text, but is not, or is cut off"
                raise refused(self.path, f"{what}. Save it as UTF-8.") from error

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


def _unpacked(path: Path) -> bytes:
    """What a .gz file holds, as long as its size is plausible."""
    most = min(FREE + RATIO * path.stat().st_size, memory())
    with parsing(path, "gzip file"), gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        what = f"its {path.stat().st_size:,} bytes unpack to more than {amount(most)}"
        raise refused(path, f"{what}. If you trust it, unpack it with gunzip.")
    return content


def number(cell: str, decimal: str = ".") -> float | None:
    """The number in a cell, NaN if it is missing, None if it is text."""
    text = cell.strip()
    if text in MISSING:
        return math.nan
    if decimal == ",":
        text = "" if "." in text else text.replace(",", ".", 1)
    return float(text) if _NUMBER.fullmatch(text) else None


def numbers(cells: Sequence[str], decimal: str) -> list[float | None]:
    """The same for a row, quickly where nothing is special in it."""
    joined = "".join(cells)
    if decimal == "." and joined.isascii() and "_" not in joined:  # float takes 1_000 and digits of any script
        try:
            return [math.nan if cell in MISSING else float(cell) for cell in cells]
        except ValueError:
            pass
    return [number(cell, decimal) for cell in cells]


def is_missing(cell: str) -> bool:
    """Whether a cell is empty or says that its value is missing."""
    return cell.strip() in MISSING


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number."""
    return not is_missing(cell) and number(cell, decimal) is not None


def tidy(cells: Sequence[str], decimal: str) -> NDArray[Any]:
    """A column that is not a feature: whole numbers, numbers, or the texts as they are."""
    values = numbers(cells, decimal)
    if None in values or not np.isfinite(np.array(values, float)).any():
        return texts(cells)
    return whole(np.array(values, float))
