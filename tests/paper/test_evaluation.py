"""Evaluating one run: reproducible, and what each experiment is about can be seen in its numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dspnmf import DSPNMF, metrics
from dspnmf.backends import MemoryRows
from dspnmf.paper.evaluation import evaluate, task_scores
from dspnmf.paper.kept_structure import KeptStructure
from dspnmf.paper.protocol import CURVES, PASSES, Run


def test_lambda_changes_nothing_in_the_default_solver() -> None:
    """The sweep of lambda is flat: scores at 1e-2 and 1e8 are the same numbers."""
    low, high = (evaluate(Run("Wine", "DSP-NMF", 3, 0, "lambda", setting)) for setting in (1e-2, 1e8))
    assert [low[name] for name in ("svm", "knn", "kmeans")] == [high[name] for name in ("svm", "knn", "kmeans")]


def test_alpha_lowers_the_structure_error() -> None:
    """Along the sweep of alpha the structure error falls."""
    errors = [evaluate(Run("Wine", "DSP-NMF", 9, 0, "alpha", a))["structure_error"] for a in (0.0, 1.0, 1e3)]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("solver", PASSES)
def test_passes_over_the_data(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration of a solver reads X as often as the curves say: each of these methods of the rows does so once."""
    reads = 0

    def counted(method: Callable[..., object]) -> Callable[..., object]:
        def count(*arguments: object, **named: object) -> object:
            nonlocal reads
            reads += 1
            return method(*arguments, **named)

        return count

    for name in ("look", "face", "combine", "sums", "map"):  # map ends with sums
        monkeypatch.setattr(MemoryRows, name, counted(getattr(MemoryRows, name)))
    X, counts = np.random.default_rng(0).random((50, 20)), []
    for iterations in (10, 20):
        reads = 0
        DSPNMF(3, solver=CURVES[solver], max_iter=iterations, tol=0, random_state=0).fit(X)
        counts.append(reads)
    assert counts[1] - counts[0] == 10 * PASSES[solver]


def test_curves_count_rises() -> None:
    """A curve holds the objective from start to end, and counts rises: the printed rule has them, newton-cg none."""
    printed, newton = (evaluate(Run("Wine", name, 10, 0, "curves")) for name in ("printed rule", "newton-cg"))
    assert newton["rises"] == 0 < printed["rises"]
    assert newton["objective@0500"] < newton["objective@0010"] < newton["objective@0000"]


def test_evaluation_is_reproducible() -> None:
    """The same run gives the same numbers, and all of them are there."""
    run = Run("Wine", "DSP-NMF", 3, 0)
    one, other = evaluate(run), evaluate(run)
    assert one.keys() >= {"svm", "knn", "kmeans", "objective", "iterations", "structure_error", "neighbour_recall"}
    for name in one.keys() - {"seconds"}:
        assert one[name] == other[name]
    assert 0.85 < one["knn"] <= 1


def test_scores_of_perfect_codes() -> None:
    """Codes that are the classes score 1 in all three tasks; codes without information score near chance."""
    y = np.arange(120) % 3
    assert task_scores(np.eye(3)[y], y, 0) == {"svm": 1.0, "knn": 1.0, "kmeans": 1.0}
    noise = task_scores(np.random.default_rng(0).random((120, 2)), y, 0)
    assert noise["knn"] < 0.55
    assert noise["kmeans"] < 0.2


def test_kept_structure_is_that_of_the_metrics() -> None:
    """What is computed once for a data set gives the numbers of `dspnmf.metrics`, to the last digit."""
    X = np.random.default_rng(0).random((60, 5)).round(1)  # with ties
    for Z in (X[:, :2], X @ X.T, np.ones((60, 2))):
        found = KeptStructure.of(X).measure(Z)
        assert found["trustworthiness"] == metrics.trustworthiness(X, Z)
        assert found["neighbour_recall"] == metrics.neighbour_recall(X, Z)
        assert found["structure_error"] == metrics.structure_error(X, Z)
