"""Workbooks (.xlsx) as spreadsheets write them, for the tests of reading."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STYLES = (
    f'<styleSheet xmlns="{MAIN}"><numFmts count="1"><numFmt numFmtId="164" formatCode="dd\\.mm\\.yyyy"/></numFmts>'
    '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/>'
    '<xf numFmtId="10"/></cellXfs></styleSheet>'
)
Row = Sequence[Any]  # numbers, texts, None, dates, True and False; "=1+1" is a formula without a value


def letters(column: int) -> str:
    """The letters of a column, from 1."""
    text = ""
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def _cell(value: Any, place: str, texts: list[str]) -> str:
    """A cell as XML."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, date):
        return f'<c r="{place}" s="1"><v>{(value - date(1899, 12, 30)).days}</v></c>'
    if isinstance(value, str) and value.startswith("="):
        return f'<c r="{place}"><f>{escape(value[1:])}</f></c>'
    if isinstance(value, str) and value.startswith("#"):
        return f'<c r="{place}" t="e"><v>{escape(value)}</v></c>'
    if isinstance(value, str):
        texts.append(value)
        return f'<c r="{place}" t="s"><v>{len(texts) - 1}</v></c>'
    return f'<c r="{place}"><v>{value!r}</v></c>'


def write_workbook(
    path: Path, sheets: Mapping[str, Sequence[Row]], *, hidden: Sequence[str] = (), before: str = ""
) -> Path:
    """A workbook with these sheets; `before` comes before their XML."""
    texts: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        listed, related = "", ""
        for number, (name, rows) in enumerate(sheets.items(), start=1):
            state = ' state="hidden"' if name in hidden else ""
            listed += f'<sheet name="{escape(name)}" sheetId="{number}"{state} r:id="rId{number}"/>'
            related += f'<Relationship Id="rId{number}" Type="x" Target="worksheets/sheet{number}.xml"/>'
            content = ""
            for at, row in enumerate(rows, start=1):
                cells = "".join(_cell(value, f"{letters(c)}{at}", texts) for c, value in enumerate(row, start=1))
                content += f'<row r="{at}">{cells}</row>' if cells else ""
            sheet = f'{before}<worksheet xmlns="{MAIN}"><sheetData>{content}</sheetData></worksheet>'
            file.writestr(f"xl/worksheets/sheet{number}.xml", sheet)
        file.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{listed}</sheets></workbook>'
        )
        file.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="x">{related}</Relationships>')
        shared = "".join(f"<si><r><t>{escape(text[:1])}</t></r><r><t>{escape(text[1:])}</t></r></si>" for text in texts)
        file.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}">{shared}</sst>')
        file.writestr("xl/styles.xml", _STYLES)
    return path
