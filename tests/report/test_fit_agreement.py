"""What a report says of a consensus: its numbers, its figures, and what a damaged model cannot make it say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspnmf import NMF, ConsensusNMF, load, save
from dspnmf.io import Table
from dspnmf.persistence import ModelFileError
from dspnmf.report import fit_facts, fit_report
from dspnmf.report.fit_agreement import agreement, agreement_facts

pytest.importorskip("jinja2", reason="pages need jinja2 (the extra `report`)")

RANKS, RUNS = [2, 3, 4], 6


@pytest.fixture(scope="module")
def table() -> Table:
    """Forty rows of rank 3."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 3)) @ rng.random((3, 7)) + 0.01 * rng.random((40, 7))
    return Table(X, np.arange(7).astype(str), np.arange(40).astype(str))


@pytest.fixture(scope="module")
def model(table: Table) -> ConsensusNMF:
    """A consensus that compared ranks."""
    estimator = ConsensusNMF(NMF(), n_components=3, n_runs=RUNS, ranks=RANKS, density_threshold=2.0, random_state=0)
    return estimator.fit(table.X)


def test_facts_are_those_of_the_model(model: ConsensusNMF, table: Table) -> None:
    """The numbers are the model's own, and JSON holds them."""
    facts = fit_facts(model, table, model.transform(table.X), baseline=False)["agreement"]
    assert json.loads(json.dumps(facts)) == facts == agreement_facts(model)
    assert facts["runs"] == RUNS
    assert facts["stability"] == model.stability_.tolist()
    assert facts["share_of_runs"] == model.share_of_runs_.tolist()
    assert facts["kept"] == pytest.approx((model.groups_ >= 0).mean())
    assert facts["ranks"]["n_components"] == RANKS
    assert facts["ranks"]["stability"] == model.ranks_results_["stability"].tolist()


def test_one_run_has_no_agreement(table: Table) -> None:
    """Of other models there is nothing to say, and no section on the page."""
    plain = NMF(3, random_state=0)
    codes = plain.fit_transform(table.X)
    assert agreement_facts(plain) is None
    assert agreement(plain) == []
    assert "Agreement of the runs" not in fit_report(plain, table, codes)


def test_figures_show_components_distances_and_ranks(model: ConsensusNMF) -> None:
    """Every component has its point, the curve of distances ends at 1, and the rank that was fitted is marked."""
    components, ranks = agreement(model)
    (found, shares), (distances, limit) = (chart.series for chart in components.views[0].charts)
    assert found.y == tuple(model.stability_)
    assert shares.x == (1.0, 2.0, 3.0)
    assert distances.y[-1] == 1.0
    assert distances.x == tuple(np.sort(distances.x))
    assert distances.x[-1] == model.density_.max()
    assert limit.x == (2.0, 2.0)
    for chart, name in zip(ranks.views[0].charts, ("stability", "error"), strict=True):
        assert chart.series[0].y == pytest.approx(model.ranks_results_[name])
        assert chart.series[0].marks == ("", "fitted", "")


def test_ranks_without_a_consensus_have_no_error(model: ConsensusNMF) -> None:
    """A rank whose error is not a number is left out of that curve only."""
    results = {name: values.astype(float) for name, values in model.ranks_results_.items()}
    results["error"][2] = np.nan
    changed = ConsensusNMF(NMF(), n_runs=RUNS, ranks=RANKS)
    vars(changed).update(vars(model) | {"ranks_results_": results})
    stability, error = (chart.series[0] for chart in agreement(changed)[1].views[0].charts)
    assert (len(stability.x), len(error.x)) == (3, 2)


def test_the_page_shows_them(model: ConsensusNMF, table: Table) -> None:
    """Both sections are on the page, with a link each, and no iterations of a fit that has none."""
    page = fit_report(model, table, model.transform(table.X), baseline=False)
    for name in ("agreement", "ranks"):
        assert f'href="#{name}"' in page
        assert f'<section id="{name}"' in page
    assert "6 runs from different random starts" in page
    assert "after \N{EN DASH}" not in page
    assert ">Iterations<" not in page


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("density_", np.zeros((RUNS, 9))),
        ("density_", np.zeros((0, 3))),
        ("groups_", np.zeros((RUNS, 3))),
        ("share_of_runs_", np.zeros(2)),
        ("stability_", None),
        ("silhouette_", "high"),
        ("ranks_results_", {"n_components": np.arange(3)}),
        ("ranks_results_", {"n_components": np.arange(3), "stability": np.zeros(2), "error": np.zeros(3)}),
        ("ranks_results_", [1, 2]),
    ],
)
def test_damaged_models_are_refused(model: ConsensusNMF, name: str, value: Any, tmp_path: Path) -> None:
    """What the page would show is checked when a model is loaded."""
    pytest.importorskip("skops", reason="model files need skops (the extra `models`)")
    save(model, tmp_path / "whole.skops")
    assert agreement_facts(load(tmp_path / "whole.skops")) == agreement_facts(model)
    damaged = ConsensusNMF(NMF(), n_components=3, n_runs=RUNS, ranks=RANKS)
    vars(damaged).update(vars(model) | {name: value})
    save(damaged, tmp_path / "damaged.skops")
    with pytest.raises(ModelFileError, match=name):
        load(tmp_path / "damaged.skops")
