"""Contradictions between the paper's printed numbers that rounding does not explain.

Every printed score may be off by half a unit of its last digit. An average is reported only if it is more than one unit
from that of its cells, and a count of first places only if the printed cells exclude it however ties are broken; as
every data set has a first place, the counts of a column must also sum to at least six. Sums are taken in whole units of
the last printed digit (0.01), so that floating-point rounding plays no part.
"""

from __future__ import annotations

from dspnmf.paper import published as module
from dspnmf.paper.published import DATASETS, TASKS, Cell, published, rankings

_TABLES = {
    "svm": "Table 1 (SVM)",
    "knn": "Table 2 (3-NN)",
    "kmeans": "Table 3 (k-means)",
    "nmf": "Table 4 (NMF-based methods)",
    "all": "Table 5 (all methods)",
}


def averages(task: str) -> dict[str, Cell]:
    """The paper's own averages over the six data sets (Avgm and Avgx), by method."""
    return {method: Cell(*pair) for method, pair in module._numbers()["averages"][task].items()}


def contradictions() -> list[str]:
    """All contradictions, one sentence each."""
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
