"""The numbers the paper prints in its Tables 1-5 (``published.toml``), and where they contradict each other.

Tasks are "svm", "knn" (3-NN) and "kmeans"; methods have the names of `methods`, data sets those of the paper. Sums are
taken in whole units of the last printed digit (0.01), so that floating-point rounding plays no part.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

TASKS = {"svm": "SVM", "knn": "3-NN", "kmeans": "k-means"}
_TABLES = {
    "svm": "Table 1 (SVM)",
    "knn": "Table 2 (3-NN)",
    "kmeans": "Table 3 (k-means)",
    "nmf": "Table 4 (NMF-based methods)",
    "all": "Table 5 (all methods)",
}
DATASETS = ("BC", "Wine", "COIL20", "Digits", "IndianPines", "Pavia")


class Cell(NamedTuple):
    """Mean and max of a score over ranks and runs, or an average or a count of first places by each of the two."""

    mean: float
    max: float


def published(task: str) -> dict[str, dict[str, Cell]]:
    """Published mean and max of a task, by method and data set.

    >>> published("svm")["DSP-NMF"]["Wine"]
    Cell(mean=0.95, max=0.99)
    """
    return {
        method: {data: Cell(*pair) for data, pair in row.items()} for method, row in _numbers()[_known(task)].items()
    }


def averages(task: str) -> dict[str, Cell]:
    """The paper's own averages over the six data sets (Avgm and Avgx), by method.

    >>> averages("svm")["DSP-NMF"]
    Cell(mean=0.9, max=0.96)
    """
    return {method: Cell(*pair) for method, pair in _numbers()["averages"][_known(task)].items()}


def rankings() -> dict[str, dict[str, dict[str, Cell]]]:
    """First places as the paper counts them, by ranking ("nmf": Table 4, "all": Table 5), method and task.

    >>> rankings()["nmf"]["DSP-NMF"]["svm"]
    Cell(mean=5, max=6)
    """
    return {
        name: {method: {task: Cell(*pair) for task, pair in row.items()} for method, row in table.items()}
        for name, table in _numbers()["rankings"].items()
    }


def disagreements() -> list[str]:
    """Contradictions between the paper's numbers that rounding does not explain, one sentence each.

    Every printed score may be off by half a unit of its last digit. An average is reported only if it is more than one
    unit from that of its cells, and a count of first places only if the printed cells exclude it however ties are
    broken; as every data set has a first place, the counts of a column must also sum to at least six.

    >>> disagreements()[1]
    'Table 5 (all methods), SVM by max: first places of SE are counted as 0, but the cells give 1.'
    """
    columns = [(name, task, statistic) for name in rankings() for task in TASKS for statistic in Cell._fields]
    return [
        *(sentence for task in TASKS for sentence in _maxima_below_means(task)),
        *(sentence for task in TASKS for sentence in _wrong_averages(task)),
        *(sentence for column in columns for sentence in _wrong_first_places(*column)),
    ]


def _maxima_below_means(task: str) -> list[str]:
    """Cells whose max is less than their mean."""
    return [
        f"{_TABLES[task]}, {method}, {data}: the max {cell.max:.2f} is below the mean {cell.mean:.2f}."
        for method, row in published(task).items()
        for data, cell in row.items()
        if cell.max < cell.mean
    ]


def _wrong_averages(task: str) -> list[str]:
    """Averages that no unrounded cells can have."""
    sentences = []
    for method, row in published(task).items():
        for statistic, label in (("mean", "Avgm"), ("max", "Avgx")):
            printed, total = _units(averages(task)[method], statistic), sum(_units(c, statistic) for c in row.values())
            if abs(len(row) * printed - total) > len(row):  # half a unit of the average, and of every cell
                found = f"{printed / 100:.2f}, but its cells average {total / len(row) / 100:.3f}"
                sentences.append(f"{_TABLES[task]}, {method}: {label} is printed as {found}.")
    return sentences


def _wrong_first_places(ranking: str, task: str, statistic: str) -> list[str]:
    """Counts of first places, in one column of a ranking, that no unrounded cells can have."""
    counts = {method: int(getattr(row[task], statistic)) for method, row in rankings()[ranking].items()}
    scores, where = published(task), f"{_TABLES[ranking]}, {TASKS[task]} by {statistic}"
    units = [{method: _units(scores[method][data], statistic) for method in counts} for data in DATASETS]
    leaders = [{method for method in row if row[method] == max(row.values())} for row in units]
    sentences = []
    for method, count in counts.items():
        alone, most = sum(found == {method} for found in leaders), sum(method in found for found in leaders)
        if not alone <= count <= most:
            given = f"{alone}" if alone == most else f"{alone} to {most}"
            sentences.append(f"{where}: first places of {method} are counted as {count}, but the cells give {given}.")
    if (total := sum(counts.values())) < len(DATASETS):
        sentences.append(f"{where}: {total} first places are counted, but each of the six data sets has one at least.")
    return sentences


def _units(cell: Cell, statistic: str) -> int:
    """A printed score in units of its last digit."""
    return round(100 * getattr(cell, statistic))


def _known(task: str) -> str:
    """The task itself; an error if the paper has no table of it."""
    if task not in TASKS:
        raise ValueError(f"task={task!r} has no published table: it must be one of {', '.join(map(repr, TASKS))}.")
    return task


@cache
def _numbers() -> dict[str, Any]:
    """The content of the TOML file."""
    return tomllib.loads(files("dspnmf.paper").joinpath("published.toml").read_text(encoding="utf-8"))
