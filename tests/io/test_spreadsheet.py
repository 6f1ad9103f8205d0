"""Spreadsheets: sheets as people make them, and files that are damaged or made up."""

from __future__ import annotations

import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from workbooks import write_workbook

from dspnmf.io import ReadError, read

NAMES = ["plot", "height", "mass"]
ROWS = [[f"plot {row}", 1.5 + row, 3.255 / (row + 1)] for row in range(8)]
X = np.array([row[1:] for row in ROWS])


def test_a_sheet_is_read(tmp_path: Path) -> None:
    """Numbers have all their digits, texts are put together from their runs, and what was assumed is said."""
    table = read(write_workbook(tmp_path / "x.xlsx", {"Data": [NAMES, *ROWS]}))
    np.testing.assert_array_equal(table.X, X)
    assert table.features.tolist() == NAMES[1:]
    assert table.index.tolist() == [row[0] for row in ROWS]
    assert table.assumed == ("sheet 'Data'", "names in row 1")


def test_a_messy_sheet(tmp_path: Path) -> None:
    """Titles, merged headers, units, sums and remarks, as in text files; empty rows count."""
    rows = [
        ["Trial 7"], [], ["", "A", None, "B"], ["plot", "mean", "sd", "mean"], [None, "cm", "cm", "g"],
        *([f"p{row}", row + 0.5, 2.0, "#N/A" if row == 3 else 7 - row] for row in range(6)),
        ["Total", 18, 12, 23], [], ["Source: WHO"],
    ]  # fmt: skip
    table = read(write_workbook(tmp_path / "x.xlsx", {"Data": rows}))
    assert table.features.tolist() == ["A mean", "A sd", "B mean"]
    assert table.units == ("cm", "cm", "g")
    assert table.X.shape == (6, 3)
    assert np.isnan(table.X).sum() == 1
    assert "not samples: row 12 ('Total'), row 14 ('Source: WHO', no values)" in table.assumed


def test_several_sheets(tmp_path: Path) -> None:
    """The first sheet that is shown and has numbers is read, the others are named, and each can be asked for."""
    sheets = {
        "Notes": [["About"], ["this file"]],
        "Old": [["a"], [1]],
        "2021": [NAMES, *ROWS],
        "2022": [["a", "b"], [1, 2]],
    }
    path = write_workbook(tmp_path / "x.xlsx", sheets, hidden=["Old"])
    assert read(path).assumed[0] == "sheet '2021' (there are also 'Notes', '2022')"
    assert read(path, variable="2022").X.tolist() == [[1, 2]]
    with pytest.raises(ReadError, match=r"it has no sheet '2020'\. Is it '2022' or '2021'\? Correct variable"):
        read(path, variable="2020")
    with pytest.raises(ReadError, match="none of its sheets has a number: 'a', 'b'"):
        read(write_workbook(tmp_path / "y.xlsx", {"a": [["x"]], "b": [["y"]]}))


def test_dates_formulas_and_truth(tmp_path: Path) -> None:
    """Dates name the rows, formulas that were never computed are missing, true and false are not numbers."""
    rows = [
        ["day", "a", "ok", "c"],
        *([date(2021, 3, 1 + i), i + 0.5, i % 2 == 0, "=A1" if i else 2] for i in range(4)),
    ]
    table = read(write_workbook(tmp_path / "x.xlsx", {"Data": rows}))
    assert table.index.tolist() == ["2021-03-01", "2021-03-02", "2021-03-03", "2021-03-04"]
    assert table.features.tolist() == ["a", "c"]
    assert table.columns["ok"].tolist() == ["TRUE", "FALSE", "TRUE", "FALSE"]
    assert "3 formulas without a value" in table.assumed


def test_a_mistake_in_a_cell(tmp_path: Path) -> None:
    """A text among numbers is named by its row and column, and the advice works."""
    path = write_workbook(tmp_path / "x.xlsx", {"Data": [NAMES, *ROWS, ["plot 8", "tall", 3.0]]})
    with pytest.raises(ReadError, match="row 10, column 'height': 'tall' is not a number"):
        read(path)
    assert np.isnan(read(path, na="tall").X[-1, 0])
    assert read(path, exclude="height").features.tolist() == ["mass"]


def test_files_that_are_no_spreadsheets(tmp_path: Path) -> None:
    """Damaged files, document types, cells where none can be and claims of size are refused, other programs named."""
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ReadError, match="it is not a readable spreadsheet"):
        read(path)
    write_workbook(path, {"Data": [NAMES, *ROWS]}, before='<!DOCTYPE x [<!ENTITY a "b">]>')
    with pytest.raises(ReadError, match="it defines a document type"):
        read(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(ReadError, match="it is not a readable spreadsheet"):
        read(path)
    write_workbook(path, {"Data": [["a"], [1]]})
    parts = {info.filename: zipfile.ZipFile(path).read(info) for info in zipfile.ZipFile(path).infolist()}
    for cells, says in (
        ('<row r="9"><c r="ZZZ9"><v>1</v></c></row>', "where no sheet has one"),
        ('<row r="1"><c r="A1" t="s"><v>77</v></c></row>', "it is not a readable spreadsheet"),
        ('<row r="1"><c r="A1"><v>x</v></c></row>', "it is not a readable spreadsheet"),
        (
            "".join(f'<row r="{r}"><c r="XFD{r}"><v>1</v></c></row>' for r in range(1, 9000)),
            "it claims to hold its sheet",
        ),
    ):
        sheet = f"<worksheet><sheetData>{cells}</sheetData></worksheet>"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in (parts | {"xl/worksheets/sheet1.xml": sheet.encode()}).items():
                file.writestr(name, content)
        with pytest.raises(ReadError, match=says):
            read(path)
    for name, says in (("x.xls", "save the table as .xlsx or CSV"), ("x.rds", "save the table as CSV there")):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ReadError, match=says):
            read(tmp_path / name)
