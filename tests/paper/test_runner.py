"""The runner: makes every run once, survives failures and kills, and continues where it was interrupted."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dspnmf.paper import runner
from dspnmf.paper.protocol import Run
from dspnmf.paper.store import Measurement, Store

SMALL = [Run("Wine", method, rank, repeat) for method in ("NMF", "DSP-NMF") for rank in (2, 3) for repeat in (0, 1)]
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


def test_sessions_are_recorded(undisturbed: tuple[Path, list[runner.Progress]]) -> None:
    """The store says how many runs one call made and how long it took; a call with nothing to do is no session."""
    path, _ = undisturbed
    with Store(path) as store:
        ((runs, seconds),) = store.sessions()
    assert runs == len(SMALL) + 1
    assert seconds > 0


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
    runner.execute({runs!r}, Path("store.sqlite"), jobs={jobs})
"""


def write_script(folder: Path, runs: list[Run], jobs: int) -> list[str]:
    """Write a script that makes these runs with a quick evaluation; returns the command that starts it."""
    (folder / "script.py").write_text(SCRIPT.format(runs=runs, jobs=jobs))
    return [sys.executable, "script.py"]


@pytest.mark.slow
def test_a_dying_process_stops_nothing(tmp_path: Path) -> None:
    """A run that kills its process, or measures NaN, is stored with an error, and all others have results."""
    methods = ("first", "killed", "third", "not finite", "last")
    command = write_script(tmp_path, [Run("Wine", method, 2, 0) for method in methods], jobs=2)
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    with Store(tmp_path / "store.sqlite") as store:
        assert {m.run.method for m in store.measurements()} == {"first", "third", "last"}
        errors = {run.method: error for run, error in store.failures()}
    assert errors.keys() == {"killed", "not finite"}
    assert errors["killed"].startswith("ProcessDied")
    assert errors["not finite"].startswith("NotFinite: measured svm = nan")


@pytest.mark.slow
def test_kill_and_resume(tmp_path: Path) -> None:
    """Killed with SIGKILL at several moments and started again, it ends with the results of an undisturbed run."""
    runs = [Run("Wine", "NMF", rank, 0) for rank in range(2, 18)]
    store, command = tmp_path / "store.sqlite", write_script(tmp_path, runs, jobs=1)
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
