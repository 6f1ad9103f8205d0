"""The paper's experiment: plan, measurements, store and runner."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dspnmf import DSPNMF
from dspnmf.backends import ArrayRows
from dspnmf.paper import protocol, runner
from dspnmf.paper.evaluation import evaluate, task_scores
from dspnmf.paper.methods import methods
from dspnmf.paper.protocol import CURVES, PASSES, Run, plan
from dspnmf.paper.store import Measurement, Store, StoreError

RUN_COUNT, RUN_DIGEST = 3226, "aa04f46660cb326f8df4d0112b650785d81b4be7eaa714836ed6ebc6bac3cb43"
SMALL = [Run("Wine", method, rank, repeat) for method in ("NMF", "DSP-NMF") for rank in (2, 3) for repeat in (0, 1)]


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
        monkeypatch.setattr(ArrayRows, name, counted(getattr(ArrayRows, name)))
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


def test_store_keeps_and_resumes(tmp_path: Path) -> None:
    """What was added is there after reopening; failed runs are errors, not results, and are still missing."""
    with Store(tmp_path / "results.sqlite") as store:
        store.add(SMALL[0], {"svm": 0.5})
        store.add(SMALL[1], None, "ValueError: no")
        assert store.missing(SMALL) == SMALL[1:]
    with Store(tmp_path / "results.sqlite") as store:
        assert [(m.run, m.name, m.value) for m in store.measurements()] == [(SMALL[0], "svm", 0.5)]
        assert store.failures() == [(SMALL[1], "ValueError: no")]
        store.add(SMALL[1], {"svm": 0.7})
        assert store.failures() == []


def test_a_store_is_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any statement of its making, a store leaves a file that the next start can use."""
    path, connect = tmp_path / "results.sqlite", sqlite3.connect
    left: list[bytes] = []

    def traced(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.set_trace_callback(lambda statement: left.append(path.read_bytes()))
        return db

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced)
        Store(path).close()
    assert len(left) > 5
    for content in left:
        path.write_bytes(content)
        with Store(path) as store:
            store.add(SMALL[0], {"svm": 0.5})


@pytest.mark.parametrize("kind", ["text", "truncated", "other version", "other database"])
def test_foreign_and_damaged_stores_are_left_alone(kind: str, tmp_path: Path) -> None:
    """A file that is not a store of this version is refused with a clear message and not changed by a byte."""
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        for run in SMALL:
            store.add(run, {f"metric {i}": i for i in range(200)})
    if kind == "text":
        path.write_text("not a database, but somebody's notes\n" * 50)
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:3000] + b"garbage" * 300)
    elif kind == "other version":
        with sqlite3.connect(path) as db:
            db.execute("UPDATE meta SET value = '999'")
        db.close()
    else:
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE something (x)")
        db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="left as it is"):
        Store(path)
    assert path.read_bytes() == before


IMPOSSIBLE = Run("NoSuchData", "NMF", 2, 0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[runner.Progress]]:
    """The store after the runs of SMALL and one that fails, without an interruption, and the progress reported."""
    path, seen = tmp_path_factory.mktemp("undisturbed") / "results.sqlite", []
    runner.execute([IMPOSSIBLE, *SMALL], path, jobs=2, callback=seen.append)
    return path, seen


def test_runner_runs_everything_once(undisturbed: tuple[Path, list[runner.Progress]]) -> None:
    """All runs end in the store; a second start has nothing to do; progress is reported for each."""
    path, seen = undisturbed
    assert [progress.done for progress in seen] == list(range(1, len(SMALL) + 2))
    assert {progress.run for progress in seen} == {IMPOSSIBLE, *SMALL}
    runner.execute(SMALL, path, jobs=2, callback=lambda progress: pytest.fail("nothing to do"))
    with Store(path) as store:
        assert {m.run for m in store.measurements()} == set(SMALL)


def test_failures_do_not_stop_the_rest(undisturbed: tuple[Path, list[runner.Progress]]) -> None:
    """A run that fails is recorded with its error, which is also reported, and the others go on."""
    path, seen = undisturbed
    with Store(path) as store:
        ((failed, error),) = store.failures()
    assert failed == IMPOSSIBLE
    assert "NoSuchData" in error
    assert [progress.error for progress in seen if progress.run == IMPOSSIBLE] == [error]


SCRIPT = """
import os, signal, time
from pathlib import Path
from dspnmf.paper import runner
from dspnmf.paper.protocol import Run

def evaluate(run, data_dir):
    if run.method == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return {{"svm": float("nan") if run.method == "not finite" else float(run.seed)}}

runner.evaluate = evaluate  # here and, as this file is imported there, in every process
if __name__ == "__main__":
    runner.execute({runs!r}, Path("store.sqlite"), jobs=2)
"""


def write_script(folder: Path, runs: list[Run]) -> list[str]:
    """Write a script that makes these runs with a quick evaluation; returns the command that starts it."""
    (folder / "script.py").write_text(SCRIPT.format(runs=runs))
    return [sys.executable, "script.py"]


def test_a_dying_process_stops_nothing(tmp_path: Path) -> None:
    """A run that kills its process, or measures NaN, is stored with an error, and all others have results."""
    methods = ("first", "killed", "third", "not finite", "last")
    command = write_script(tmp_path, [Run("Wine", method, 2, 0) for method in methods])
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    with Store(tmp_path / "store.sqlite") as store:
        assert {m.run.method for m in store.measurements()} == {"first", "third", "last"}
        errors = {run.method: error for run, error in store.failures()}
    assert errors.keys() == {"killed", "not finite"}
    assert errors["killed"].startswith("ProcessDied")
    assert errors["not finite"].startswith("NotFinite: measured svm = nan")


def test_kill_and_resume(tmp_path: Path) -> None:
    """Killed with SIGKILL at several moments and started again, it ends with the results of an undisturbed run."""
    runs = [Run("Wine", "NMF", rank, 0) for rank in range(2, 18)]
    store, command = tmp_path / "store.sqlite", write_script(tmp_path, runs)
    for results_before_the_kill in (1, 5):
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and _results(store) < results_before_the_kill:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert results_before_the_kill <= _results(store) < len(runs)
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    with Store(store) as results:
        assert results.measurements() == [Measurement(run, "svm", float(run.seed)) for run in runs]


def _results(path: Path) -> int:
    """How many runs a store holds, looked at from outside while it is written."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT COUNT(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        if "db" in locals():
            db.close()
