"""The numbers the paper prints in its Tables 1-5 (``published.toml``), and where they disagree with each other.

Names: tasks are "svm", "knn" (3-NN) and "kmeans"; methods and data sets are those of `methods` and of the paper, as the
head of the TOML file says. Sums are taken in whole units of the last printed digit (0.01), so that no rounding of ours
blurs a comparison.
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
    """Mean and max of a score over ranks and runs; of averages, over data sets as well."""

    mean: float
    max: float


class Firsts(NamedTuple):
    """Number of data sets on which a method ranks first, by mean and by max."""

    mean: int
    max: int


def published(task: str) -> dict[str, dict[str, Cell]]:
    """Method -> data set -> published mean and max of a task.

    >>> published("svm")["DSP-NMF"]["Wine"]
    Cell(mean=0.95, max=0.99)
    """
    return {
        method: {data: Cell(*pair) for data, pair in row.items()} for method, row in _numbers()[_known(task)].items()
    }


def averages(task: str) -> dict[str, Cell]:
    """Method -> the paper's own averages over the six data sets, Avgm and Avgx.

    >>> averages("svm")["DSP-NMF"]
    Cell(mean=0.9, max=0.96)
    """
    return {method: Cell(*pair) for method, pair in _numbers()["averages"][_known(task)].items()}


def rankings() -> dict[str, dict[str, dict[str, Firsts]]]:
    """Ranking ("nmf": Table 4, "all": Table 5) -> method -> task -> how often the paper counts the method first.

    >>> rankings()["nmf"]["DSP-NMF"]["svm"]
    Firsts(mean=5, max=6)
    """
    return {
        name: {
            method: {task: Firsts(*pair) for task, pair in counts.items()}
            for method, counts in _numbers()["rankings"][name].items()
        }
        for name in ("nmf", "all")
    }


def disagreements() -> list[str]:
    """Where the paper disagrees with itself beyond rounding, one sentence each.

    Every printed score may be off by half a unit of its last digit. So an average is doubted only if it is more than
    one unit from that of its cells, and a count of first places only if the printed cells exclude it however their ties
    are broken; as every data set has a first, the counts of a column must also come to six at least.

    >>> disagreements()[1]
    'Table 5 (all methods), SVM by max: first places of SE are counted as 0, but the cells give 1.'
    """
    below = [sentence for task in TASKS for sentence in _maxima_below_means(task)]
    wrong = [sentence for task in TASKS for sentence in _wrong_averages(task)]
    columns = [(name, task, statistic) for name in rankings() for task in TASKS for statistic in Cell._fields]
    return below + wrong + [sentence for column in columns for sentence in _wrong_firsts(*column)]


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


def _wrong_firsts(ranking: str, task: str, statistic: str) -> list[str]:
    """Counts of first places, in one column of a ranking, that no unrounded cells can have."""
    counts = {method: int(getattr(row[task], statistic)) for method, row in rankings()[ranking].items()}
    scores, where = published(task), f"{_TABLES[ranking]}, {TASKS[task]} by {statistic}"
    leaders = [_leaders({method: _units(scores[method][data], statistic) for method in counts}) for data in DATASETS]
    sentences = []
    for method, count in counts.items():
        alone, most = sum(found == {method} for found in leaders), sum(method in found for found in leaders)
        if not alone <= count <= most:
            given = f"{alone}" if alone == most else f"{alone} to {most}"
            sentences.append(f"{where}: first places of {method} are counted as {count}, but the cells give {given}.")
    if (total := sum(counts.values())) < len(DATASETS):
        sentences.append(f"{where}: {total} first places are counted, but each of the six data sets has one at least.")
    return sentences


def _leaders(scores: dict[str, int]) -> set[str]:
    """Methods with the best score."""
    return {method for method, score in scores.items() if score == max(scores.values())}


def _units(cell: Cell, statistic: str) -> int:
    """A printed score in units of its last digit."""
    return round(100 * getattr(cell, statistic))


def _known(task: str) -> str:
    """The task, if there is such a table."""
    if task not in TASKS:
        raise ValueError(f"task={task!r} has no published table: it must be one of {', '.join(map(repr, TASKS))}.")
    return task


@cache
def _numbers() -> dict[str, Any]:
    """The TOML file."""
    return tomllib.loads(files("dspnmf.paper").joinpath("published.toml").read_text(encoding="utf-8"))
