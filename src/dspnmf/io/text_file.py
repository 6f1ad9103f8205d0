"""The lines and rows of a text file, plain or compressed with gzip; it may be read more than once."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dspnmf.io.errors import parsing, plain, refused
from dspnmf.io.limits import FREE, RATIO, amount, check_size, memory

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
