"""The transcription of the paper's tables: complete, plausible, and caught by its own averages where it is mistyped."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from contradictions import averages, contradictions
from dspnmf.paper import published as module
from dspnmf.paper.methods import methods
from dspnmf.paper.published import DATASETS, TASKS, Cell, disagreements, published, rankings

METHODS = ["All", "UMAP", "LLE", "SE", "GNMF", "SymNMF", "SDNMF", "DSP-NMF"]  # in the order of the paper's rows
RANKED = {"nmf": METHODS[4:], "all": METHODS[1:]}
KNOWN = [
    "Table 5 (all methods), SVM by max: first places of UMAP are counted as 3, but the cells give 1 to 2.",
    "Table 5 (all methods), SVM by max: first places of SE are counted as 0, but the cells give 1.",
    "Table 5 (all methods), SVM by max: first places of GNMF are counted as 1, but the cells give 0.",
    "Table 5 (all methods), SVM by max: first places of DSP-NMF are counted as 1, but the cells give 3.",
    "Table 5 (all methods), SVM by max: 5 first places are counted, but each of the six data sets has one at least.",
]
# Totals of the columns as printed (mean and max of every data set, then Avgm and Avgx), in hundredths.
TOTALS = {
    "svm": [749, 758, 751, 765, 671, 730, 677, 750, 732, 779, 627, 654, 703, 740],
    "knn": [750, 756, 751, 764, 655, 701, 681, 754, 485, 515, 606, 637, 654, 688],
    "kmeans": [315, 430, 581, 658, 593, 658, 548, 616, 336, 361, 409, 461, 466, 531],
}
# Typed a second time from the LaTeX source.
RETYPED = [
    ("svm", "All", "IndianPines", 0.98, 0.99),
    ("svm", "SDNMF", "Digits", 0.69, 0.74),
    ("svm", "DSP-NMF", "COIL20", 0.88, 0.97),
    ("svm", "LLE", "Pavia", 0.69, 0.79),
    ("knn", "SymNMF", "Wine", 0.97, 0.99),
    ("knn", "GNMF", "COIL20", 0.62, 0.71),
    ("knn", "DSP-NMF", "IndianPines", 0.67, 0.71),
    ("kmeans", "SE", "BC", 0.32, 0.71),
    ("kmeans", "UMAP", "Pavia", 0.57, 0.58),
    ("kmeans", "DSP-NMF", "Wine", 0.81, 0.88),
]
# fmt: off
COUNTS = {
    "nmf": [[0, 1, 0, 0, 1, 0], [1, 1, 2, 2, 1, 5], [0, 0, 1, 0, 0, 0], [5, 5, 3, 4, 6, 1]],
    "all": [[4, 4, 5, 2, 3, 3], [0, 0, 0, 0, 0, 2], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0],
            [1, 1, 0, 1, 0, 2], [0, 0, 1, 0, 0, 0], [2, 1, 2, 3, 1, 0]],
}
# fmt: on


def hundredths(task: str, method: str) -> list[int]:
    """A row as the paper prints it, averages last."""
    cells = [published(task)[method][data] for data in DATASETS] + [averages(task)[method]]
    return [round(100 * value) for cell in cells for value in cell]


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A copy of the numbers that a test may break."""
    broken = copy.deepcopy(module._numbers())
    monkeypatch.setattr(module, "_numbers", lambda: broken)
    return broken


@pytest.mark.parametrize("task", TASKS)
def test_no_cell_is_missing(task: str) -> None:
    """Every method has every data set and an average, in the paper's order, and nothing else is there."""
    assert list(published(task)) == list(averages(task)) == METHODS
    assert all(tuple(row) == DATASETS for row in published(task).values())


def test_rankings_are_complete() -> None:
    """Both rankings count every method that takes part, in every task."""
    assert {name: list(rows) for name, rows in rankings().items()} == RANKED
    assert all(list(row) == list(TASKS) for rows in rankings().values() for row in rows.values())


def test_methods_are_ours() -> None:
    """Every published method is one we can run, under the same name."""
    assert set(METHODS) <= set(methods())


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_scores(task: str) -> None:
    """Every score is in [0, 1], printed with two digits, and no max is below its mean."""
    for cell in [cell for row in published(task).values() for cell in row.values()] + list(averages(task).values()):
        assert 0 <= cell.mean <= cell.max <= 1
        assert all(value == round(value, 2) for value in cell)


def test_counts_are_counts() -> None:
    """No method is first on more data sets than there are."""
    pairs = [pair for rows in rankings().values() for row in rows.values() for pair in row.values()]
    assert all(isinstance(count, int) and 0 <= count <= len(DATASETS) for pair in pairs for count in pair)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_averages_are_of_the_printed_cells(task: str, method: str) -> None:
    """Every Avgm and Avgx is the average of the cells as printed, to half a unit: the paper averaged rounded values."""
    row = hundredths(task, method)
    for cells, average in ((row[0:12:2], row[12]), (row[1:12:2], row[13])):
        assert abs(6 * average - sum(cells)) <= 3


@pytest.mark.parametrize("task", TASKS)
def test_columns_add_up(task: str) -> None:
    """Columns have the totals of the LaTeX source, so that no single number can be mistyped."""
    assert [sum(column) for column in zip(*(hundredths(task, method) for method in METHODS), strict=True)] == TOTALS[
        task
    ]


@pytest.mark.parametrize(("task", "method", "data", "mean", "best"), RETYPED)
def test_cells_typed_again(task: str, method: str, data: str, mean: float, best: float) -> None:
    """Cells are those of the LaTeX source."""
    assert published(task)[method][data] == Cell(mean, best)


@pytest.mark.parametrize("name", RANKED)
def test_rankings_typed_again(name: str) -> None:
    """Tables 4 and 5 are those of the LaTeX source, whose columns are KNN, SVM, K-means by mean, then by max."""
    for method, (*by_mean, knn, svm, kmeans) in zip(RANKED[name], COUNTS[name], strict=True):
        pairs = {"knn": (by_mean[0], knn), "svm": (by_mean[1], svm), "kmeans": (by_mean[2], kmeans)}
        assert rankings()[name][method] == {task: Cell(*pair) for task, pair in pairs.items()}


def test_known_disagreements() -> None:
    """The paper disagrees with itself in one column, SVM by max of Table 5, and nowhere else."""
    assert contradictions() == disagreements() == KNOWN


def test_a_wrong_average_is_named(numbers: Any) -> None:
    """An average that its cells exclude is reported, with both values."""
    numbers["averages"]["knn"]["LLE"][0] = 0.83
    assert "Table 2 (3-NN), LLE: Avgm is printed as 0.83, but its cells average 0.810." in contradictions()


def test_rounding_is_no_disagreement(numbers: Any) -> None:
    """An average one unit off could still be that of the unrounded cells."""
    numbers["averages"]["knn"]["LLE"][0] = 0.82
    assert contradictions() == KNOWN


def test_a_max_below_its_mean_is_named(numbers: Any) -> None:
    """A cell whose max is below its mean is reported."""
    numbers["kmeans"]["All"]["BC"] = [0.63, 0.62]
    assert "Table 3 (k-means), All, BC: the max 0.62 is below the mean 0.63." in contradictions()


def test_a_wrong_count_is_named(numbers: Any) -> None:
    """A count of first places that the cells exclude is reported."""
    numbers["rankings"]["nmf"]["SDNMF"]["svm"] = [0, 1]
    expected = "Table 4 (NMF-based methods), SVM by max: first places of SDNMF are counted as 1, but the cells give 0."
    assert contradictions() == [expected, *KNOWN]


def test_answers_are_copies() -> None:
    """What a caller does to an answer does not change the next one."""
    published("svm")["DSP-NMF"].clear()
    assert published("svm")["DSP-NMF"]["BC"] == Cell(0.95, 0.96)


def test_unknown_task() -> None:
    """A task without a table is refused with the tasks that have one."""
    with pytest.raises(ValueError, match="task='SVM' has no published table: it must be one of 'svm', 'knn', 'kmeans'"):
        published("SVM")
