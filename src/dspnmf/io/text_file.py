"""The lines, rows and cells of a text file, plain or compressed with gzip; it may be read more than once.

The encoding is what a byte order mark says, UTF-16 where every other byte is zero, UTF-8 where all of the file is, and
Windows-1252 otherwise, unless the bytes look like UTF-8 that was damaged.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dspnmf._option_words import option
from dspnmf.io.errors import parsing, plain, quoted, refused
from dspnmf.io.limits import FREE, RATIO, amount, check_size, memory

Row = tuple[int, list[str]]  # the number of its first line, and its cells

_MARKS = (  # the longer one first: the mark of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PIECE = 2**22
_SIGNIFICANT = 0.3  # share of zero bytes at even or odd places that makes a text UTF-16
_OTHERS = (
    f"{option('encoding', 'mac_roman')} or {option('encoding', 'cp437')} for old Mac or DOS programs, "
    f"{option('encoding', 'shift_jis')} for Japanese, {option('encoding', 'gb18030')} for Chinese"
)


class TextFile:
    """A text file, decoded as `encoding` says, or as it was found; or the `content` that stands for a file."""

    def __init__(self, path: Path, encoding: str | None = None, *, content: bytes | None = None) -> None:
        self.path = path
        self._content = _unpacked(path) if content is None and path.suffix.lower() == ".gz" else content
        self.size = path.stat().st_size if self._content is None else len(self._content)
        check_size(path, self.size, "its text")
        self.encoding = self._found() if encoding is None else self._known(encoding)

    def open(self) -> BinaryIO:
        """Its bytes, unpacked."""
        return self.path.open("rb") if self._content is None else io.BytesIO(self._content)

    @property
    def is_utf8(self) -> bool:
        """Whether its bytes are UTF-8, with or without a byte order mark."""
        return self.encoding in ("utf-8", "utf-8-sig")

    @property
    def ends_with_a_line(self) -> bool:
        """Whether its last line has an end, as in a file that is not cut off."""
        with self.open() as file:
            file.seek(-min(self.size, 4), 2)
            return file.read().strip(b"\0\x1a")[-1:] in (b"\n", b"\r")

    def lines(self, skip: int = 0) -> Iterator[str]:
        """Its lines, with their ends, without the first `skip`."""
        with io.TextIOWrapper(self.open(), self.encoding, newline="") as text:
            try:
                for number, line in enumerate(text, start=1):
                    if "\x1a" in line and not line.strip("\x1a\r\n"):
                        return  # the end of files of old DOS programs
                    if "\0" in line:
                        raise refused(self.path, f"line {number} has a zero byte: it is not text. Check its type.")
                    if number > skip:
                        yield line.lstrip("\ufeff")  # where files were put together
            except UnicodeError as error:
                if self.encoding.startswith("utf-16"):
                    what = "it begins as UTF-16 text, but is not, or is cut off. Save it as UTF-8."
                else:
                    what = f"it is not {quoted(self.encoding)} text ({plain(error)}). Correct {option('encoding')}."
                raise refused(self.path, what) from error

    def rows(self, delimiter: str, skip: int = 0) -> Iterator[Row]:
        """Rows in which a cell is not blank; the delimiter " " is any white space."""
        lines: Iterable[str] = self.lines(skip)
        if delimiter == " ":
            lines = (" ".join(line.split()) for line in lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        first = skip + 1
        try:
            for row in reader:
                if row == [""] or any(cell and not cell.isspace() for cell in row):  # "" alone is a missing cell
                    yield first, row
                first = skip + reader.line_num + 1
        except csv.Error as error:
            where = f"the row that begins in line {first} cannot be split into cells ({plain(error)})"
            raise refused(self.path, f"{where}. Is a quote there not closed, or not doubled?") from error

    def _known(self, encoding: str) -> str:
        """An encoding that is asked for."""
        try:
            io.TextIOWrapper(io.BytesIO(), encoding).close()
            return codecs.lookup(encoding).name
        except LookupError as error:
            known = "utf-8, utf-16, cp1252, latin-1, mac_roman, cp437, shift_jis, gb18030 and others of Python"
            what = f"there is no encoding {quoted(encoding)}: choose from {known}."
            raise refused(self.path, what) from error

    def _found(self) -> str:
        """The encoding that the bytes suggest."""
        with self.open() as file:
            begin = file.read(2**16)
            for mark, encoding in _MARKS:
                if begin.startswith(mark):
                    return encoding
            for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
                if begin[start::2].count(0) > _SIGNIFICANT * len(begin) / 2 > begin[1 - start :: 2].count(0):
                    return encoding
            file.seek(0)
            decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
            while True:
                piece, held = file.read(_PIECE), len(decoder.getstate()[0])
                try:
                    decoder.decode(piece, final=not piece)
                except UnicodeDecodeError as error:
                    self._check_western(error, done - held + error.start)
                    return "cp1252"
                if not piece:
                    return "utf-8"
                done += len(piece)

    def _check_western(self, error: UnicodeDecodeError, at: int) -> None:
        """Refuse what is not UTF-8 and cannot be Windows-1252 either, or is UTF-8 but for some bytes."""
        with self.open() as file:
            before = file.read(at)
        where = f"line {before.count(10) + 1}, byte {at - before.rfind(10)}"
        what = f"it is not UTF-8 text, at {where} (0x{error.object[error.start]:02x})"
        if error.reason == "unexpected end of data":
            raise refused(self.path, f"{what}, where it ends: it is cut off. Copy it again.")
        with self.open() as file:
            content = file.read(_PIECE)
        letters = content.decode("utf-8", "surrogateescape")
        strange = sum("\udc80" <= letter <= "\udcff" for letter in letters)
        if sum(not letter.isascii() for letter in letters) - strange >= max(strange, 1):
            fix = f"If that does not matter, pass {option('encoding', 'cp1252')}."
            raise refused(self.path, f"{what}, and in most other places it is: it is damaged there. Correct it. {fix}")
        try:
            with self.open() as file:
                for _ in io.TextIOWrapper(file, "cp1252", newline=""):
                    pass
        except UnicodeError:
            fix = f"Save it as UTF-8, or name its encoding: {_OTHERS}."
            raise refused(self.path, f"{what}, nor Windows-1252. {fix}") from None


def _unpacked(path: Path) -> bytes:
    """What a .gz file holds, as long as its size is plausible."""
    most = min(FREE + RATIO * path.stat().st_size, memory())
    with parsing(path, "gzip file"), gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        what = f"its {path.stat().st_size:,} bytes unpack to more than {amount(most)}"
        raise refused(path, f"{what}. If you trust it, unpack it with gunzip.")
    return content
