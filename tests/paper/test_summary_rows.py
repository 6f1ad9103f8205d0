"""The rows of DSP-NMF next to UMAP and the NMF methods: counts follow from the numbers, cells below are named."""

from __future__ import annotations

from comparison import Score, made_up
from dspnmf.paper.protocol import Run
from dspnmf.paper.published import TASKS, published
from dspnmf.paper.results import Results
from dspnmf.paper.summary_rows import ROWS, compared_with_family, compared_with_umap, maxima, reached

SETS = ("BC", "Wine")
OTHERS = ("UMAP", "GNMF", "SymNMF", "SDNMF")


def results(score: Score, methods: tuple[str, ...] = (*ROWS, *OTHERS)) -> Results:
    """Two ranks of every method on two data sets."""
    return made_up([Run(data, method, rank, 0) for data in SETS for method in methods for rank in (2, 3)], score)


def umap_less(by: float) -> Score:
    """UMAP's published maximum in rank 3, lower for every other method by so much."""
    return lambda run, task: (published(task)["UMAP"][run.dataset].max - by * (run.method != "UMAP")) * (run.rank == 3)


def test_maxima_are_reached_to_a_hundredth() -> None:
    """A maximum over ranks that is 0.01 below UMAP's is reached, 0.011 below is not."""
    for by, count in ((0.01, 6), (0.011, 0)):
        found = results(umap_less(by))
        assert sum(cell.reaches(cell.published) for cell in maxima(found, "DSP-NMF")) == count
        assert reached(found) == (
            f"Of the 6 maxima that the paper prints for UMAP, DSP-NMF reaches {count}, "
            f"DSP-NMF (diffused) reaches {count}, DSP-NMF (clustering) reaches {count} and DSP-NMF (auto weight) "
            f"reaches {count} (to 0.01)."
        )


def test_every_cell_below_umap_is_named() -> None:
    """Each row has its count for published and own maxima, with both values of every cell that is missed."""
    found = compared_with_umap(results(lambda run, task: 0.99 if run.method == "UMAP" or task != "kmeans" else 0.7))
    assert len(found) == len(ROWS) + 1
    for row, sentence in zip(ROWS, found, strict=False):
        assert sentence.startswith(f"{row}: ")
        assert "in 4 of 6 cells. Not reached: k-means on BC (0.700; UMAP 0.75) and k-means on Wine" in sentence
        assert "own runs of UMAP it reaches 4 of 6. Not reached: k-means on BC (0.700; UMAP 0.990)" in sentence


def test_the_best_row_counts_each_cell_once() -> None:
    """Rows that reach different cells together reach all of them, and the sentence says that this is optimistic."""
    good = {"DSP-NMF": ("svm", "knn"), "DSP-NMF (diffused)": ("kmeans",)}
    found = compared_with_umap(results(lambda run, task: float(task in good.get(run.method, ()))))
    assert "in 4 of 6 cells" in found[0]
    assert "in 2 of 6 cells" in found[1]
    assert "in 6 of 6 cells" in found[-1]
    assert "optimistic" in found[-1]


def test_methods_above_diffused_are_named() -> None:
    """Averages and cells in which another NMF method is above DSP-NMF (diffused) are listed; a tie is not above."""
    none = compared_with_family(results(lambda run, task: 0.5))
    assert "in 6 of 6 averages" in none[0]
    assert "in 12 of 12 cells" in none[1]
    some = compared_with_family(results(lambda run, task: 0.5 + 0.1 * (run.method == "SDNMF" and task == "kmeans")))
    assert "in 4 of 6 averages" in some[0]
    assert "k-means, mean: 0.500, below SDNMF 0.600" in some[0]
    assert "in 8 of 12 cells" in some[1]
    assert "k-means on Wine, max: 0.500, below SDNMF 0.600" in some[1]


def test_rows_without_results_have_no_sentence() -> None:
    """Only what was run is compared; without the three other methods there is no comparison with them."""
    alone = results(lambda run, task: 0.9, ("DSP-NMF",))
    assert len(compared_with_umap(alone)) == 1
    assert "own runs of UMAP" not in compared_with_umap(alone)[0]
    assert compared_with_family(alone) == []
    assert compared_with_umap(Results(())) == []
    assert reached(Results(())) == ""
    assert compared_with_family(results(lambda run, task: 0.9, ("DSP-NMF (diffused)",))) == []
    assert all(task in TASKS for task, *_ in maxima(alone, "DSP-NMF"))
