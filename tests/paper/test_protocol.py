"""The list of runs: complete, with ids and seeds that never change."""

from __future__ import annotations

import hashlib

from dspnmf.paper import protocol
from dspnmf.paper.methods import methods
from dspnmf.paper.protocol import Run, plan

RUN_COUNT, RUN_DIGEST = 3916, "53b4241b075d92c2b2261d1c4d7e08dbe83bfe15a1e80e3772c71f84509da0fc"


def test_plan_is_the_papers() -> None:
    """Every method x data set x rank x five runs; wine stops at rank 11; "All" has no rank; ids are unique."""
    assert len({run.id for run in plan()}) == len(plan())
    runs = [run for run in plan() if run.experiment == "tables"]
    digits = [run for run in runs if run.dataset == "Digits" and run.method == "DSP-NMF"]
    assert sorted({run.rank for run in digits}) == list(protocol.RANKS)
    assert len(digits) == len(protocol.RANKS) * 5
    assert max(run.rank for run in runs if run.dataset == "Wine") == 11
    assert {run.rank for run in runs if run.method == "All"} == {0}
    assert {run.method for run in runs} <= set(methods())


def test_seeds_follow_from_names() -> None:
    """A run's seed and id depend on its content alone, and differ between runs."""
    assert Run("Wine", "NMF", 2, 0).seed == Run("Wine", "NMF", 2, 0).seed
    tables = [run for run in plan() if run.experiment == "tables"]
    assert len({run.seed for run in tables}) > 0.99 * len(tables)
    assert Run("Wine", "NMF", 2, 0).id != Run("Wine", "NMF", 2, 1).id


def test_ids_and_seeds_are_those_of_the_committed_run() -> None:
    """Ids and seeds never change within a version of the protocol: stores can be continued, and results repeated."""
    runs = plan()
    assert len(runs) == RUN_COUNT
    digest = hashlib.sha256("".join(f"{run.id} {run.seed}" for run in runs).encode()).hexdigest()
    assert digest == RUN_DIGEST


def test_what_is_compared_shares_a_seed() -> None:
    """Along a sweep, and between the solvers of the curves, runs differ only in what is compared."""
    assert Run("Wine", "DSP-NMF", 3, 0, "lambda", 1.0).seed == Run("Wine", "DSP-NMF", 3, 0, "lambda", 1e8).seed
    assert Run("Wine", "hals", 10, 1, "curves").seed == Run("Wine", "mm", 10, 1, "curves").seed
    assert Run("Wine", "hals", 10, 1, "curves").seed != Run("Wine", "mm", 10, 2, "curves").seed
