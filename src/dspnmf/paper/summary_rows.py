"""The rows of DSP-NMF next to UMAP and to the other NMF methods, in sentences computed from the numbers.

Each row is DSP-NMF with one setting for all data sets. A cell is one task on one data set.
"""

from __future__ import annotations

from typing import NamedTuple

from dspnmf.paper.published import TASKS, Cell, published
from dspnmf.paper.results import Results
from dspnmf.paper.tables import STATISTICS, average, listed, shared_datasets

ROWS = ("DSP-NMF", "DSP-NMF (diffused)", "DSP-NMF (clustering)", "DSP-NMF (auto weight)")
DIFFUSED = ("DSP-NMF (diffused)", "DSP-NMF (clustering)")
MARGIN = 0.01
ROUNDING = 1e-9
_RIVAL = "UMAP"
_FAMILY = ("GNMF", "SymNMF", "SDNMF")


class Maximum(NamedTuple):
    """The best score of a row in one cell, and UMAP's: as published, and in our own runs (None without any)."""

    task: str
    data: str
    ours: float
    published: float
    rival: float | None

    def reaches(self, value: float | None) -> bool:
        """Whether ours is at most 0.01 below a value."""
        return value is not None and self.ours >= value - MARGIN - ROUNDING


def maxima(results: Results, row: str) -> list[Maximum]:
    """Every cell of a row that the paper has for UMAP."""
    found = []
    for task in TASKS:
        for data in shared_datasets(results):
            if cell := results.cell(task, row, data):
                rival = results.cell(task, _RIVAL, data)
                found.append(
                    Maximum(
                        task, data, cell.max, published(task)[_RIVAL][data].max, None if rival is None else rival.max
                    )
                )
    return found


def reached(results: Results) -> str:
    """How many of UMAP's published maxima each row reaches, in one sentence; empty without results."""
    counts = {row: [cell.reaches(cell.published) for cell in maxima(results, row)] for row in ROWS}
    parts = [f"{row} reaches {sum(cells)}" for row, cells in counts.items() if cells]
    if not parts:
        return ""
    total = max(len(cells) for cells in counts.values())
    return f"Of the {total} maxima that the paper prints for {_RIVAL}, {listed(parts)} (to {MARGIN})."


def compared_with_umap(results: Results) -> list[str]:
    """For each row, and for the best of the rows, in which cells UMAP's maxima are reached and in which not."""
    rows = {row: cells for row in ROWS if (cells := maxima(results, row))}
    sentences = [f"{row}: {_reached(cells)}" for row, cells in rows.items()]
    if len(rows) > 1:
        keys = list(dict.fromkeys(cell[:2] for cells in rows.values() for cell in cells))
        best = [
            max((c for cells in rows.values() for c in cells if c[:2] == key), key=lambda c: c.ours) for key in keys
        ]
        sentences.append(
            f"The best of the {len(rows)} rows in each cell: {_reached(best)} Each row has one setting for all data "
            "sets, but which row is best in a cell is seen from the same scores, so this count is optimistic."
        )
    return sentences


def compared_with_family(results: Results) -> list[str]:
    """Where rows with diffused similarities are below our own runs of GNMF, SymNMF or SDNMF."""
    return [sentence for row in DIFFUSED for sentence in _compared_with_family(results, row)]


def _compared_with_family(results: Results, row: str) -> list[str]:
    """One sentence on averages over the data sets, one on single data sets."""
    pairs = [(task, statistic) for task in TASKS for statistic in STATISTICS]
    averages: list[tuple[int, str]] = []  # methods compared with; which are above, in words
    singles: list[tuple[int, str]] = []
    for task, statistic in pairs:
        for place, cells in _places(results, task, row).items():
            mine = cells.get(row)
            if mine is None:
                continue
            value = round(getattr(mine, statistic), 3)  # as printed: equal digits are a tie
            others = {m: round(getattr(cells[m], statistic), 3) for m in _FAMILY if cells.get(m)}
            above = [f"{m} {other:.3f}" for m, other in others.items() if other > value]
            where = averages if place == "average" else singles
            what = f"{TASKS[task]}, {statistic}" if place == "average" else f"{TASKS[task]} on {place}, {statistic}"
            where.append((len(others), f"{what}: {value:.3f}, below {listed(above)}" if above else ""))
    sentences = []
    for name, where in (("averages over the data sets", averages), ("cells of single data sets", singles)):
        compared = [text for count, text in where if count]
        if compared:
            below = [text for text in compared if text]
            exceptions = f" The others are: {'; '.join(below)}." if below else ""
            sentences.append(
                f"{row} is at or above our own runs of {listed(_FAMILY)} in {len(compared) - len(below)} of "
                f"{len(compared)} {name} (three tasks, mean and max; in three decimals).{exceptions}"
            )
    return sentences


def _reached(cells: list[Maximum]) -> str:
    """In how many cells UMAP's maximum is reached, published and our own, and in which it is not."""
    theirs = [cell for cell in cells if not cell.reaches(cell.published)]
    text = (
        f"the maximum over ranks and runs reaches the one that the paper prints for {_RIVAL}, or is at most {MARGIN} "
        f"below it, in {len(cells) - len(theirs)} of {len(cells)} cells."
    )
    if theirs:
        text += f" Not reached: {listed(_cell(cell, cell.published, 2) for cell in theirs)}."
    if own := [cell for cell in cells if cell.rival is not None]:
        missed = [cell for cell in own if not cell.reaches(cell.rival)]
        text += f" Of the maxima of our own runs of {_RIVAL} it reaches {len(own) - len(missed)} of {len(own)}."
        if missed:
            text += f" Not reached: {listed(_cell(cell, cell.rival, 3) for cell in missed)}."
    return text


def _cell(cell: Maximum, other: float | None, decimals: int) -> str:
    """A cell with both values."""
    return f"{TASKS[cell.task]} on {cell.data} ({cell.ours:.3f}; {_RIVAL} {other:.{decimals}f})"


def _places(results: Results, task: str, row: str) -> dict[str, dict[str, Cell | None]]:
    """Cells of a row and of the other methods, by data set or "average"."""
    methods = (row, *_FAMILY)
    found: dict[str, dict[str, Cell | None]] = {
        data: {m: results.cell(task, m, data) for m in methods} for data in shared_datasets(results)
    }
    found["average"] = {m: average(results, task, m)[0] for m in methods}
    return found
