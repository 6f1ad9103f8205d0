"""The summary: every sentence follows from the numbers, and none hides a loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from comparison import as_published, full, made_up
from dspnmf.paper.protocol import Run, plan
from dspnmf.paper.published import disagreements
from dspnmf.paper.results import Results
from dspnmf.paper.store import Measurement
from dspnmf.paper.summary import Summary, scores, summary
from dspnmf.paper.summary_experiments import experiments

FIVE = ("BC", "Wine", "COIL20", "Digits", "IndianPines")


def lowered(**by: float) -> object:
    """Published scores, those of some methods lower by so much (names with spaces: in a dict)."""
    return lambda run, task: as_published(run, task) - by.get(run.method, 0.0)


def test_cells_are_thirty() -> None:
    """Five data sets, three tasks, mean and max: thirty cells, counted once each."""
    cells = scores(made_up(full(*FIVE)))
    assert len({cell[:3] for cell in cells}) == len(cells) == 30
    assert "in 30 of 30 cells" in summary(made_up(full(*FIVE))).headline


@pytest.mark.parametrize(("by", "met"), [(0.0, True), (0.0099, True), (0.0101, False), (-0.2, True)])
def test_a_cell_is_met_to_a_hundredth(by: float, met: bool) -> None:
    """At most 0.01 below is met, more is not; what is printed after rounding does not decide."""
    results = made_up(full("BC"), lambda run, task: 0.95 - by)
    cell = next(cell for cell in scores(results) if cell[:3] == ("svm", "BC", "mean"))
    assert cell.met is met


def test_met_and_short_are_all() -> None:
    """Every cell below is listed with a reason, the others are named as met, and the headline counts them."""
    results = made_up(full(*FIVE), lambda run, task: as_published(run, task) - 0.05 * (run.dataset == "Wine"))
    found = summary(results)
    assert "in 24 of 30 cells" in found.headline
    assert len(found.short) == 6
    assert all(" on Wine, " in sentence and "0.0" in sentence for sentence in found.short)
    assert sum(sentence.count("(0.") for sentence in found.met) == 24


def short(score: object, *, data: str = "Wine", runs: list[Run] | None = None) -> str:
    """The sentence of the SVM mean on one data set."""
    found = summary(made_up(full(data) if runs is None else runs, score))  # type: ignore[arg-type]
    return next(sentence for sentence in found.short if sentence.startswith(f"SVM on {data}, mean"))


def test_reason_few_runs() -> None:
    """A reduced run is the first reason given."""
    sentence = short(lambda run, task: 0.5, runs=plan(quick=True))
    assert "Only ranks 3 and 9 and 2 runs were made, where the paper has ranks 2, 3, 5, 7, 9 and 11" in sentence


def test_reason_without_reduction() -> None:
    """Where all features fall short too, both numbers say so; far below, the column counts as not reproducible."""
    sentence = short(lowered(**{"All": 0.09, "DSP-NMF": 0.17}), data="IndianPines")
    assert (
        "without reduction, score 0.892 here and 0.98 in the paper, so 0.088 of the difference is not due" in sentence
    )
    assert "not reproducible with the protocol as described" in sentence
    sentence = short(lowered(**{"All": 0.02, "DSP-NMF": 0.02}))
    assert "so the whole difference is not due to the method." in sentence
    assert "not reproducible" not in sentence


def test_reason_spread() -> None:
    """Where single runs differ by more than what is missing, their range is given."""
    sentence = short(lambda run, task: 0.93 + 0.01 * (run.repeat - 2) if run.method == "DSP-NMF" else 1.0)
    assert "averages of our 5 runs lie between 0.910 and 0.950" in sentence


def test_reason_not_converged() -> None:
    """Where the rule as printed reaches the value, that is said."""
    sentence = short(lambda run, task: 0.9 if run.method == "DSP-NMF" else 1.0)
    assert "The printed rule, which does not converge, reaches 1.000" in sentence


def test_no_reason_is_invented() -> None:
    """Where nothing explains it, it says so and gives related scores."""
    levels = {"DSP-NMF": 0.8, "NMF": 0.7, "DSP-NMF (printed rule)": 0.6}
    sentence = short(lambda run, task: levels.get(run.method, 1.0))
    assert "Our results do not explain it" in sentence
    assert "plain NMF 0.700" in sentence
    assert "the printed rule 0.600" in sentence


def test_averages_tell_losses() -> None:
    """Methods that are better, in print or in our own runs, are named as such; a tie does not count as better."""
    levels = {"DSP-NMF": 0.85, "GNMF": 0.9, "NMF": 0.85, "SDNMF": 0.8}
    found = summary(made_up(full("Wine"), lambda run, task: levels.get(run.method, 0.1))).averages[0]
    printed, own = found.split("Compared with our own runs")
    assert "DSP-NMF 0.850" in printed
    assert "not above GNMF (0.900), SymNMF (0.970) and SDNMF (0.930)" in printed
    assert "SymNMF (0.100), SDNMF (0.800) and NS-NMF (0.100) and not above NMF (0.850) and GNMF (0.900)" in own
    assert "not above NMF (0.850) and GNMF (0.900)" in own


def test_averages_are_six() -> None:
    """Three tasks, by mean and by max."""
    assert len(summary(made_up()).averages) == 6


def test_experiments_lambda() -> None:
    """The flat sweep of the default solver and the widest one of the printed rule, with task and data set."""
    moving = made_up(score=lambda run, task: 0.5 + 0.04 * (run.setting > 1 and "rule" in run.method))
    assert "the scores of the default solver do not change in their first three decimals" in experiments(moving)[0]
    assert "change by up to 0.040" in experiments(moving)[0]
    assert "from 0.01 to 1e+08" in experiments(moving)[0]


def test_experiments_alpha() -> None:
    """The best alpha, what no structure gives, and both errors at both ends."""
    found = experiments(made_up(score=lambda run, task: 0.9 if run.setting == 0.1 else 0.8))
    assert "highest at alpha = 0.1: 0.900. It is 0.800 at alpha = 0 (plain NMF)" in found[1]
    assert "similarities goes from 1.000 to 0.000, that of the reconstruction from 0.100 to 0.200" in found[2]


def test_experiments_alpha_without_scores() -> None:
    """Fits without all their scores are not compared by scores; the cost of structure is reported all the same."""
    results = made_up()
    for lost in ({0.0}, {run.setting for run in plan(quick=True) if run.experiment == "alpha"}):
        kept = tuple(m for m in results.measurements if m.run.setting not in lost or m[:2] != (m.run, "knn"))
        found = experiments(dataclasses.replace(results, measurements=kept))
        assert any("highest at alpha" in sentence for sentence in found) is (len(lost) == 1)
        assert not any("(plain NMF)" in sentence for sentence in found)
        assert any("What the structure costs: from alpha = 0 to" in sentence for sentence in found)


def test_experiments_convergence() -> None:
    """Which solvers rise, which never do, and when each has converged."""
    rises, converged = experiments(made_up())[3:5]
    assert "rises in 250 (printed rule) and 250 (appendix rule) of 500 iterations at rank 10" in rises
    assert "never rises with mm, hals and newton-cg" in rises
    assert "newton-cg on 3 of 3 data sets after 10 iterations, 20 passes over the data" in converged


def test_convergence_is_lasting() -> None:
    """A curve that comes close and leaves again has not converged."""
    results = made_up()
    spoiled = tuple(
        Measurement(run, name, 3.0 if run.method == "hals" and name == "objective@0500" else value)
        for run, name, value in results.measurements
    )
    assert "hals on none of 3" in experiments(dataclasses.replace(results, measurements=spoiled))[4]


def test_experiments_theorem() -> None:
    """The rank correlation of overlap and errors, for the sum of both and for the larger of both."""
    (sentence,) = [s for s in experiments(made_up()) if s.startswith("Theorem 2")]
    assert "4 fits" in sentence
    assert "sum of both errors is" in sentence
    assert "the larger of both errors instead of the sum" in sentence


def test_not_run_is_named_with_its_reason() -> None:
    """Absent data sets, methods without results and failed runs, equal ones together, by the first line alone."""
    failures = tuple((Run("Wine", "LLE", 9, repeat), "LinAlgError: singular\nTraceback ...") for repeat in (0, 1))
    results = dataclasses.replace(made_up(), failures=failures, absent={"Pavia": "PaviaU.mat cannot be verified."})
    found = summary(results).not_run
    assert found == (
        "Pavia: PaviaU.mat cannot be verified.",
        "COIL20 and IndianPines: not part of this run.",
        "UMAP and SDNMF: no results in this run; only their published values are shown.",
        "LLE on Wine: 2 runs failed with LinAlgError: singular",
    )


def test_an_empty_store_has_a_summary() -> None:
    """No results at all: it says so, and still lists where the paper contradicts itself."""
    found = summary(Results(()))
    assert found.headline == "There are no results of DSP-NMF to compare yet."
    assert (found.met, found.short, found.averages, found.experiments) == ((), (), (), ())
    assert found.paper_disagreements == tuple(disagreements())


@pytest.mark.parametrize("method", ["DSP-NMF", "NMF", "All", "GNMF"])
@pytest.mark.parametrize("experiment", ["tables", "lambda", "alpha", "curves"])
def test_any_part_may_be_missing(method: str, experiment: str) -> None:
    """A method or an experiment alone makes a summary, and so does everything but it."""
    runs = plan(quick=True, sets=("Wine",))
    for kept in (True, False):
        some = [run for run in runs if ((run.method == method) & (run.experiment == experiment)) is kept]
        assert summary(made_up(some)).markdown().startswith("# Summary\n")


def test_every_prefix_of_a_store_has_a_summary() -> None:
    """Interrupted after any number of runs, in whichever order they ended, what is there makes a summary."""
    runs = plan(quick=True, sets=("Wine", "BC"))
    np.random.default_rng(0).shuffle(runs)  # type: ignore[arg-type]
    for count in range(0, len(runs), 7):
        assert summary(made_up(runs[:count])).headline


def test_markdown_has_every_sentence() -> None:
    """The page has the headline, a title for each part that has sentences, and all of them."""
    found = Summary("Headline.", ("one",), ("two",), not_run=("three",))
    text = found.markdown()
    assert all(f"\n- {sentence}\n" in text for sentence in ("one", "two", "three"))
    assert text.count("\n## ") == 3
