# Pages write Greek letters and a real minus sign.
# ruff: noqa: RUF001
"""The page of a reproduction: every table and figure, ours next to what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from dspnmf._atomic_files import write_text
from dspnmf.paper.protocol import ALPHA_RANK, CURVE_LENGTH, CURVE_RANK, LAMBDA_RANK, VERSION
from dspnmf.paper.results import Results
from dspnmf.paper.summary import Summary
from dspnmf.paper.tables import Column, Table, extent
from dspnmf.report.formatting import TableCell, power
from dspnmf.report.page import render
from dspnmf.report.reproduction_figures import figures, rises_table

_SHORT = {"ranks": "Ranks", "lambda": "λ", "alpha": "α", "convergence": "Convergence", "components": "Theorem 2"}
_FORMATS = ("csv", "md", "tex")
REFERENCE = "All"  # the data without reduction: shown, but never the best method
_FILES = {"other": "Other measurements", "measurements": "Every measurement", "summary": "Summary"}


class ComparisonCell(NamedTuple):
    """Ours, published, and ours minus published."""

    ours: TableCell
    published: TableCell
    difference: TableCell


class ComparisonTable(NamedTuple):
    """A table as the page shows it.

    `groups` are the upper headers with their widths; `columns` are group, statistic, and whether it begins a group.
    """

    table: Table
    groups: list[tuple[str, int]]
    columns: list[tuple[str, str, bool]]
    rows: list[tuple[str, list[ComparisonCell]]]


def write_reproduction(
    results: Results,
    tables: Sequence[Table],
    summary: Summary,
    path: Path,
    *,
    provenance: Mapping[str, str] | None = None,
) -> None:
    """Write the page of a reproduction: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    results, tables, summary
        As `dspnmf.paper` makes them, of all measurements, of some or of none.
    path : Path
        The file. It is replaced in one stroke. Files with the numbers in the same folder (``table1.csv``,
        ``measurements.csv``, ...) are linked.
    provenance : mapping of str to str, optional
        Versions, command: shown as they are.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dspnmf.paper.results import Results
    >>> from dspnmf.paper.summary import Summary
    >>> from dspnmf.report import write_reproduction
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_reproduction(Results(()), [], Summary("Nothing was run."), Path(folder) / "index.html")
    """
    heads, rows = rises_table(results)
    text = render(
        "reproduction.html",
        title="The paper's comparison, next to its published numbers",
        short=_SHORT,
        summary=summary,
        tables=[comparison_table(table) for table in tables],
        figures=figures(results),
        rises=rows,
        rises_heads=heads,
        rises_caption=f"Iterations, of {CURVE_LENGTH}, in which the objective rose by more than rounding "
        "(mean of the runs)",
        settings=_settings(results),
        provenance=list((provenance or {}).items()),
        downloads=_downloads(path.parent),
    )
    write_text(path, text)


def comparison_table(table: Table) -> ComparisonTable:
    """A table of the comparison with the texts, signs and best values that the page shows."""
    columns = [_cells(table, column) for column in table.columns]
    names = [group for group, _ in table.columns]
    return ComparisonTable(
        table,
        [(name, len(list(same))) for name, same in groupby(names)],
        [(*column, i == 0 or column[0] != names[i - 1]) for i, column in enumerate(table.columns)],
        [(row, [column[i] for column in columns]) for i, row in enumerate(table.rows)],
    )


def _cells(table: Table, column: Column) -> list[ComparisonCell]:
    """A column from top to bottom. All values printed like the best are marked; a table of ours alone has no marks."""
    texts = {row: table.texts(row, column) for row in table.rows}
    ranked = [row for row in table.rows if row != REFERENCE and table.number]
    best = [max((float(texts[row][i]) for row in ranked if texts[row][i]), default=None) for i in (0, 1)]
    cells = []
    for row in table.rows:
        entry, (ours, published, difference) = table.entries[row, column], texts[row]
        leads = [
            row in ranked and text != "" and float(text) == top for text, top in zip(texts[row], best, strict=False)
        ]
        change = float(difference or 0)
        sign = "more" if change > 0 else "less" if change < 0 else "same"
        cells.append(
            ComparisonCell(
                _cell(ours, entry.ours, best=leads[0]),
                _cell(published, entry.published, best=leads[1]),
                _cell(difference.replace("-", "\N{MINUS SIGN}"), entry.difference, sign=sign),
            )
        )
    return cells


def _cell(text: str, number: float | None, *, best: bool = False, sign: str = "") -> TableCell:
    """A number, or a dash."""
    return TableCell() if number is None else TableCell(text, repr(float(number)), best, sign)


def _settings(results: Results) -> list[tuple[str, str]]:
    """Data, methods and protocol, as pairs of name and text."""
    absent = "; ".join(f"{name}: {why}" for name, why in results.absent.items())
    found = [
        ("Data sets", ", ".join(results.datasets) or "none"),
        ("Not available", absent),
        ("Methods", ", ".join(results.methods) or "none"),
        ("Scaling", "every feature to [0, 1]; components of DSP-NMF, NMF and NS-NMF to unit length, codes accordingly"),
        ("Ranks and runs", extent(results)),
        ("Codes", "learned from all samples, without labels; All stands for the features as they are"),
        ("Seeds", "follow from the name of a run (data set, method, rank, repeat), so that any run can be made alone"),
        ("SVM", "radial basis functions, C = 1000; accuracy in stratified 5-fold cross-validation"),
        ("3-NN", "3 nearest neighbours; accuracy in the same folds"),
        ("k-means", "as many clusters as classes, 10 starts; normalised mutual information with the classes"),
        ("Columns", "mean: over ranks and runs; max: the best of them"),
        ("λ", _range(results, "lambda", LAMBDA_RANK)),
        ("α", _range(results, "alpha", ALPHA_RANK, " times ‖X‖² / ‖XXᵀ‖²")),
        ("Convergence", f"{CURVE_LENGTH} iterations without a stopping rule, rank {CURVE_RANK}, λ = 1000"),
        ("Version of the protocol", str(VERSION)),
    ]
    return [(name, text) for name, text in found if text]


def _range(results: Results, experiment: str, rank: int, unit: str = "") -> str:
    """The settings that were run, as the figures show them; empty without any."""
    settings = results.settings(experiment)
    positive = [power(setting) for setting in settings if setting]
    parts = ["0"] * (0.0 in settings) + [" to ".join(dict.fromkeys((*positive[:1], *positive[-1:])))] * bool(positive)
    return f"{', and '.join(parts)}{unit}, rank {rank}" if settings else ""


def _downloads(folder: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Files in the folder of the page, by what they contain."""
    stems = {**{f"table{number}": f"Table {number}" for number in range(1, 6)}, **_FILES}
    found = {
        title: [(f"{stem}.{form}", form.upper()) for form in _FORMATS if (folder / f"{stem}.{form}").is_file()]
        for stem, title in stems.items()
    }
    return [(title, links) for title, links in found.items() if links]
