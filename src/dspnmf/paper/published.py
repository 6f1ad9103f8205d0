"""The numbers the paper prints in its Tables 1-5, and where they contradict each other (``published.toml``).

Tasks are "svm", "knn" (3-NN) and "kmeans"; methods have the names of `methods`, data sets those of the paper.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

TASKS = {"svm": "SVM", "knn": "3-NN", "kmeans": "k-means"}
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
    if task not in TASKS:
        raise ValueError(f"task={task!r} has no published table: it must be one of {', '.join(map(repr, TASKS))}.")
    return _cells(_numbers()[task])


def rankings() -> dict[str, dict[str, dict[str, Cell]]]:
    """First places as the paper counts them, by ranking ("nmf": Table 4, "all": Table 5), method and task."""
    return {name: _cells(table) for name, table in _numbers()["rankings"].items()}


def disagreements() -> list[str]:
    """Contradictions between the paper's numbers that rounding does not explain, one sentence each."""
    return list(_numbers()["disagreements"])


def _cells(table: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Cell]]:
    """The pairs of a table as cells."""
    return {method: {name: Cell(*pair) for name, pair in row.items()} for method, row in table.items()}


@cache
def _numbers() -> dict[str, Any]:
    """The content of the TOML file."""
    return tomllib.loads(files("dspnmf.paper").joinpath("published.toml").read_text(encoding="utf-8"))
