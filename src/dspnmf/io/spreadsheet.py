"""Spreadsheets (.xlsx): a sheet as the text that the spreadsheet would save it as, which is then read like any text.

Files are not trusted: nothing in them is run, formulas count with the value that was saved with them, document types
(which could define entities) are refused, and what a file claims to hold is compared with its size.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from xml.parsers import expat

from dspnmf.io.columns import find
from dspnmf.io.errors import ReadError, parsing, plain, quoted, refused, some
from dspnmf.io.limits import check_size
from dspnmf.io.number_format import could_be_number
from dspnmf.io.table import Options, Table
from dspnmf.io.text import table_of_text
from dspnmf.io.text_file import TextFile

SUFFIXES = (".xlsx", ".xlsm")
_PIECE = 2**20
_COLUMNS = 16_384  # that a sheet can have
_ROWS = 1_048_576
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))  # formats that are built in
_LITERAL = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.|\*.')  # in formats
_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")

Attributes = Mapping[str, str]


@dataclass(frozen=True)
class _Book:
    """A workbook: its sheets with the names of their parts, its texts, and which styles are dates."""

    path: Path
    file: zipfile.ZipFile
    sheets: dict[str, str]
    texts: list[str]
    dates: frozenset[int]
    from_1904: bool


@dataclass
class _Sheet:
    """Cells of a sheet by row and column, and the formulas that have no value."""

    rows: dict[int, dict[int, str]] = field(default_factory=dict)
    numbers: int = 0
    unknown: int = 0


def read_spreadsheet(path: Path, options: Options) -> Table:
    """A table from a sheet: the one that is asked for, or the first with numbers."""
    with parsing(path, "spreadsheet"), zipfile.ZipFile(path) as file:
        book = _book(path, file)
        if options.variable is not None:
            find(path, options.variable, list(book.sheets), "sheet", "variable")
        chosen = [options.variable] if options.variable is not None else list(book.sheets)
        for name in chosen:
            sheet = _sheet(book, book.sheets[name])
            if sheet.numbers or len(chosen) == 1:
                break
        else:
            raise refused(path, f"none of its sheets has a number: {some(chosen)}. Check the file.")
        content = _text(path, sheet)
    try:
        table = table_of_text(TextFile(path, content=content), replace(options, delimiter=","))
    except ReadError as error:
        raise ReadError(error.template.replace(" (separated by ',')", "").replace(": line ", ": row ", 1)) from error
    others = [other for other in book.sheets if other != name]
    words = [f"sheet {quoted(name)}" + (f" (there are also {some(others, 4)})" if others else "")]
    words += [f"{sheet.unknown} formula{'s' * (sheet.unknown > 1)} without a value"] * bool(sheet.unknown)
    assumed = [one.replace("line", "row") for one in table.assumed if not one.startswith("cells separated by")]
    return replace(table, assumed=(*words, *assumed))


def _book(path: Path, file: zipfile.ZipFile) -> _Book:
    """What the parts of a workbook say about its sheets."""
    sheets: dict[str, str] = {}
    targets: dict[str, str] = {}
    from_1904 = False

    def relation(name: str, attributes: Attributes) -> None:
        if name == "Relationship":
            targets[attributes.get("Id", "")] = attributes.get("Target", "").removeprefix("/xl/")

    def workbook(name: str, attributes: Attributes) -> None:
        nonlocal from_1904
        if name == "sheet" and attributes.get("state", "visible") == "visible":
            reference = next((value for key, value in attributes.items() if key.endswith(":id")), "")
            part = f"xl/{targets.get(reference, '')}"
            if part in file.namelist() and "worksheets" in part:
                sheets[attributes.get("name", part)] = part
        from_1904 |= name == "workbookPr" and attributes.get("date1904", "0") in ("1", "true")

    _parse(path, file, "xl/_rels/workbook.xml.rels", relation)
    _parse(path, file, "xl/workbook.xml", workbook)
    if not sheets:
        raise refused(path, "it has no sheet that is not hidden. Check the file.")
    return _Book(path, file, sheets, _texts(path, file), _dates(path, file), from_1904)


def _texts(path: Path, file: zipfile.ZipFile) -> list[str]:
    """The texts that cells refer to."""
    found: list[str] = []
    reading = phonetic = False

    def start(name: str, attributes: Attributes) -> None:
        nonlocal reading, phonetic
        if name == "si":
            found.append("")
        phonetic |= name == "rPh"
        reading = name == "t" and not phonetic

    def end(name: str) -> None:
        nonlocal reading, phonetic
        reading, phonetic = False, phonetic and name != "rPh"

    def data(text: str) -> None:
        if reading and found:
            found[-1] += text

    if "xl/sharedStrings.xml" in file.namelist():
        _parse(path, file, "xl/sharedStrings.xml", start, end, data)
    return found


def _dates(path: Path, file: zipfile.ZipFile) -> frozenset[int]:
    """The styles of cells that show numbers as dates."""
    formats: dict[int, bool] = dict.fromkeys(_DATES, True)
    styles: list[bool] = []
    inside = False

    def start(name: str, attributes: Attributes) -> None:
        nonlocal inside
        if name == "numFmt":
            code = _LITERAL.sub("", attributes.get("formatCode", "")).lower()
            formats[int(attributes.get("numFmtId", "-1"))] = any(letter in code for letter in "ydhs") or code == "mmm"
        inside |= name == "cellXfs"
        if name == "xf" and inside:
            styles.append(formats.get(int(attributes.get("numFmtId", "0")), False))

    def end(name: str) -> None:
        nonlocal inside
        inside &= name != "cellXfs"

    if "xl/styles.xml" in file.namelist():
        _parse(path, file, "xl/styles.xml", start, end)
    return frozenset(number for number, is_date in enumerate(styles) if is_date)


def _sheet(book: _Book, part: str) -> _Sheet:
    """The cells of a sheet."""
    sheet, row, column = _Sheet(), 0, 0
    kind, style, formula, reading, content = "n", 0, False, False, list[str]()

    def start(name: str, attributes: Attributes) -> None:
        nonlocal row, column, kind, style, formula, reading
        if name == "row":
            row, column = int(attributes.get("r", row + 1)), 0
        elif name == "c":
            column += 1
            if found := _REFERENCE.fullmatch(attributes.get("r", "")):
                column, row = _column(found[1]), int(found[2])
            if not (0 < row <= _ROWS and 0 < column <= _COLUMNS):
                raise refused(
                    book.path, f"it has a cell in row {row}, column {column}, where no sheet has one: it is damaged."
                )
            kind, style, formula = attributes.get("t", "n"), int(attributes.get("s", "0")), False
            content.clear()
        formula |= name == "f"
        reading = name in ("v", "t")

    def data(text: str) -> None:
        if reading:
            content.append(text)

    def end(name: str) -> None:
        nonlocal reading
        reading = False
        if name != "c":
            return
        text = " ".join(_shown(book, kind, style, "".join(content)).split())
        sheet.unknown += formula and not content
        if text:
            sheet.rows.setdefault(row, {})[column] = text
            sheet.numbers += kind == "n" or could_be_number(text)

    _parse(book.path, book.file, part, start, end, data)
    return sheet


def _column(letters: str) -> int:
    """The number of a column from its letters."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _shown(book: _Book, kind: str, style: int, content: str) -> str:
    """A cell as text: numbers with all their digits and a decimal point, dates as in 2021-03-01."""
    if kind == "s":
        return book.texts[int(content)] if content else ""
    if kind == "b":
        return "TRUE" if content == "1" else "FALSE"
    if kind != "n" or not content:
        return content
    value = float(content)
    if style in book.dates and 0 <= value < 2_958_466:  # days until the year 10,000
        begin = datetime(1904, 1, 1) if book.from_1904 else datetime(1899, 12, 30)
        moment = begin + timedelta(days=value)
        return moment.isoformat(" ", "seconds") if value % 1 else moment.date().isoformat()
    return str(int(value)) if value == int(value) and abs(value) < 10**15 else repr(value)


def _text(path: Path, sheet: _Sheet) -> bytes:
    """A sheet as text with commas, a line for each of its rows."""
    last = max(sheet.rows, default=0)
    width = max((max(cells) for cells in sheet.rows.values()), default=0)
    check_size(path, width * len(sheet.rows), "its sheet")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in range(1, last + 1):
        cells = sheet.rows.get(row)
        writer.writerow([cells.get(column, "") for column in range(1, width + 1)] if cells else [])
    return text.getvalue().encode()


def _parse(
    path: Path,
    file: zipfile.ZipFile,
    part: str,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] = lambda name: None,
    data: Callable[[str], None] = lambda text: None,
) -> None:
    """Go through a part of a workbook, with names without their prefixes."""
    check_size(path, file.getinfo(part).file_size, f"its {plain(part)}", path.stat().st_size)

    def refuse(*_: object) -> None:
        raise refused(path, "it defines a document type, which no spreadsheet does: it is not read.")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda name, attributes: start(name.rpartition(":")[2], attributes)
    parser.EndElementHandler = lambda name: end(name.rpartition(":")[2])
    parser.CharacterDataHandler = data
    for piece in _pieces(file, part):
        parser.Parse(piece)
    parser.Parse(b"", True)


def _pieces(file: zipfile.ZipFile, part: str) -> Iterator[bytes]:
    with file.open(part) as content:
        while piece := content.read(_PIECE):
            yield piece


def instead(path: Path) -> str:
    """What to do with files of programs that are not read; "" for others."""
    kinds = {
        (".xls", ".ods", ".numbers", ".xlsb"): "a spreadsheet of another kind",
        (".rds", ".rda", ".rdata", ".sav", ".dta", ".sas7bdat"): "a file of a statistics program",
        (".doc", ".docx", ".pdf", ".json", ".xml", ".html"): "not a table",
    }
    what = next((words for suffixes, words in kinds.items() if path.suffix.lower() in suffixes), "")
    xlsx = ".xlsx or " * ("spreadsheet" in what)
    return f"it is {what}: save the table as {xlsx}CSV there, and name that file" if what else ""
