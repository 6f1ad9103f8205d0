"""The bytes of a text file, plain or compressed, to be read more than once."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from dspnmf.io.errors import parsing, plain, refused
from dspnmf.io.limits import FREE, RATIO, amount, check_size, memory

_PIECE = 2**20


class Source:
    """A text file: UTF-8, or UTF-16 where a byte order mark says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = inflated(path) if path.suffix.lower() == ".gz" else None
        with self.open() as file:
            begin = file.read(2)
        self.encoding = "utf-16" if begin in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        check_size(path, self.size, "its text")

    @property
    def size(self) -> int:
        """Bytes, after decompression."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    def open(self) -> BinaryIO:
        """Its bytes."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def lines(self, skip: int = 0) -> Iterator[str]:
        """Its lines, with their ends, without the first `skip`."""
        text: TextIO
        with io.TextIOWrapper(self.open(), encoding=self.encoding, newline="") as text:
            try:
                for place, line in enumerate(text):
                    if "\0" in line:
                        raise refused(self.path, f"line {place + 1} has a zero byte: it is no text. Check its type.")
                    if place >= skip:
                        yield line
            except UnicodeError as error:
                raise self._undecodable() from error

    def rows(self, delimiter: str, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not blank, each with the number of its first line; a blank parts at any white space."""
        lines: Iterable[str] = self.lines(skip)
        if delimiter == " ":
            lines = (" ".join(line.split()) for line in lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        begins = skip + 1
        try:
            for row in reader:
                if row and not (len(row) == 1 and row[0].isspace()):
                    yield begins, row
                begins = skip + reader.line_num + 1
        except csv.Error as error:
            where = f"the row that begins in line {begins} cannot be split into cells ({plain(error)})"
            raise refused(self.path, f"{where}. Is a quote there not closed, or not doubled?") from error

    def _undecodable(self) -> Exception:
        """The first byte that is no text."""
        if self.encoding == "utf-16":
            return refused(self.path, "it begins as UTF-16 text, but is none or is cut off. Save it as UTF-8.")
        where = "its end"
        with self.open() as file:
            for place, line in enumerate(file):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    where = f"line {place + 1}, byte {error.start + 1} (0x{line[error.start]:02x})"
                    break
        fix = "Save it as UTF-8; for Western text: iconv -f LATIN1 -t UTF-8 OLD > NEW."
        return refused(self.path, f"it is no UTF-8 text, at {where}. {fix}")


def inflated(path: Path) -> bytes:
    """What a .gz file holds, as long as that is believable."""
    size = path.stat().st_size
    most, pieces, total = min(FREE + RATIO * size, memory()), [], 0
    with parsing(path, "gzip file"), gzip.open(path) as file:
        while piece := file.read(_PIECE):
            pieces.append(piece)
            total += len(piece)
            if total > most:
                raise refused(
                    path,
                    f"its {size:,} bytes unpack to more than {amount(most)}. If you trust it, unpack it with gunzip.",
                )
    return b"".join(pieces)
