"""Ctrl-C at any moment: KeyboardInterrupt within two seconds, nothing changed, no thread left, the next fit works.

The study (slow) is 60 interrupts at random moments; ``DSPNMF_INTERRUPTS=600`` makes it ten times as long. Run as a
script it prints every interrupt with its delay.
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import dask
import h5py
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import dspnmf
from dask_arrays import chunked, two_workers
from dspnmf import DSPNMF, DSPNMFCV, GNMF, NMF, NSNMF, SDNMF, graphs
from dspnmf._compiled import compiled
from dspnmf._interrupts import interrupts_kept
from dspnmf._threads import spread, team
from model_files import assert_same

LATEST = 2.0  # seconds from the signal to the exception
NUMBER = int(os.environ.get("DSPNMF_INTERRUPTS", "60"))
PACKAGE = str(Path(dspnmf.__file__).parent)
ENDLESS: dict[str, Any] = {"max_iter": 10**7, "tol": 0.0}
QUICK: dict[str, Any] = {"max_iter": 3, "tol": 0.0}
rng = np.random.default_rng(0)


def delay_of_interrupt(call: Callable[[], object], after: float) -> float:
    """Interrupt a call that would never end, and return the seconds until KeyboardInterrupt came out of it."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.cancel()
    raise AssertionError("the call ended by itself")


def busy_threads() -> list[str]:
    """Other threads that run code of the package."""
    found = []
    for thread, frame in sys._current_frames().items():
        here: Any = frame if thread != threading.get_ident() else None
        while here is not None:
            if here.f_code.co_filename.startswith(PACKAGE):
                found.append(here.f_code.co_name)
            here = here.f_back
    return found


class Case(NamedTuple):
    """A model, data, what must be open around a fit, and the parameters that make it endless."""

    model: Any
    X: Any
    inside: Callable[[], AbstractContextManager[Any]] = nullcontext
    endless: dict[str, Any] = ENDLESS


def dense(n: int, m: int) -> np.ndarray:
    """Random data."""
    return rng.random((n, m))


def with_gaps(n: int, m: int) -> np.ndarray:
    """Random data, a tenth of it missing."""
    X = dense(n, m)
    X[rng.random((n, m)) < 0.1] = np.nan
    return X


@contextmanager
def on_threads() -> Iterator[None]:
    """Dask's threads."""
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@contextmanager
def on_cluster() -> Iterator[None]:
    """Two workers."""
    with two_workers() as client, client.as_current():
        yield


def in_file(folder: Path, X: np.ndarray) -> h5py.Dataset:
    """Data in an HDF5 file, which is read in slabs."""
    return h5py.File(folder / "X.h5", "w").create_dataset("X", data=X, chunks=(min(256, len(X)), X.shape[1]))


def cases(folder: Path, size: int) -> dict[str, Case]:
    """What is interrupted; `size` scales the number of rows."""
    n = 1000 * size
    return {
        "NMF": Case(NMF(20), dense(n, 300)),
        "DSPNMF": Case(DSPNMF(20), dense(n, 300)),
        "GNMF": Case(GNMF(10), dense(n, 100)),
        "SDNMF": Case(SDNMF(5), dense(n // 5, 64)),
        "missing cells": Case(NMF(10, missing="mask"), with_gaps(n, 100)),
        "DSPNMFCV": Case(DSPNMFCV([5, 10], alphas=3, cv=3), dense(n, 60)),
        "n_init": Case(DSPNMF(5), dense(n // 2, 50), endless={"n_init": 10**6}),
        "file": Case(NMF(10), in_file(folder, dense(n, 100))),
        "Dask threads": Case(NMF(10), chunked(dense(n, 100), n // 4), on_threads),
        "Dask cluster": Case(NMF(10), chunked(dense(n, 100), n // 4), on_cluster),
    }


def check_interrupt(case: Case, after: float) -> float:
    """Interrupt the refit of a fitted model; returns the delay.

    1. The exception is KeyboardInterrupt, and comes in time.
    2. Every attribute is as it was.
    3. No thread runs code of the package any more.
    4. The next fit gives what the first gave.
    """
    small, quick = dense(40, 12), {"random_state": 0, **QUICK}
    model = clone(case.model).set_params(**quick).fit(small)
    expected, parameters = np.array(model.components_), model.get_params()
    model.set_params(**case.endless)
    before = copy.deepcopy(vars(model))
    delay = delay_of_interrupt(lambda: model.fit(case.X), after)
    assert_same(vars(model), before)
    deadline = time.monotonic() + LATEST - min(delay, LATEST)
    while busy_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert busy_threads() == []
    model.set_params(**parameters).fit(small)
    np.testing.assert_allclose(model.components_, expected, rtol=1e-10)
    assert delay < LATEST
    return delay


@pytest.mark.parametrize(
    "name", ["NMF", "DSPNMF", "GNMF", "SDNMF", "missing cells", "DSPNMFCV", "n_init", "file", "Dask threads"]
)
def test_interrupt(name: str, tmp_path: Path) -> None:
    """One of each kind, small."""
    case = cases(tmp_path, 1)[name]
    with case.inside():
        check_interrupt(case, 0.1)


def test_transform_is_interrupted_too(wine: np.ndarray) -> None:
    """Everything that runs compiled code: here the codes of new rows, again and again."""
    model = NMF(5, random_state=0, **QUICK).fit(wine)

    def endless() -> None:
        while True:
            model.transform(wine)

    for _ in range(5):
        assert delay_of_interrupt(endless, 0.05) < LATEST


def test_a_search_of_scikit_learn_ends(wine: np.ndarray) -> None:
    """GridSearchCV takes errors of a fit for bad scores; an interrupt is none."""
    search = GridSearchCV(
        DSPNMF(3, random_state=0, max_iter=500, tol=0.0),
        {"n_components": [3, 4, 5]},
        scoring=lambda model, X, y=None: -model.reconstruction_err_,
        error_score=np.nan,
    )
    assert delay_of_interrupt(lambda: search.fit(np.tile(wine, (20, 1))), 0.2) < LATEST


def test_threads_stop_when_the_main_thread_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long call is cut into pieces; after an interrupt no thread begins another."""
    ended: list[int] = []

    def task(lo: int, hi: int) -> None:
        time.sleep(0.02)
        ended.append(lo)

    with team():
        monkeypatch.setitem(dspnmf._threads._state, "threads", 3)
        assert delay_of_interrupt(lambda: spread(task, 10**6, 1e13), 0.1) < 0.5
        assert busy_threads() == []
        number = len(ended)
        time.sleep(0.1)
    assert len(ended) == number < 50


def test_the_main_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only there can it be interrupted: other threads wait for the code, or for the end."""
    function, compiling = compiled(lambda x: x + 1), []  # type: ignore[var-annotated]
    original = CPUDispatcher.compile

    def watched(self: Any, sig: Any) -> Any:
        if not self.overloads:
            compiling.append(threading.current_thread())
        return original(self, sig)

    monkeypatch.setattr(CPUDispatcher, "compile", watched)
    with team():
        monkeypatch.setitem(dspnmf._threads._state, "threads", 3)
        assert spread(lambda lo, hi: function(lo), 3, 1e9) == 6
        assert set(compiling) == {threading.main_thread()}
        with pytest.raises(ZeroDivisionError):
            spread(lambda lo, hi: function(float(lo)) if lo else 1 / 0, 3, 1e9)


def test_an_interrupt_that_a_callback_loses_comes_again() -> None:
    """What is raised where nobody can catch it (in a finalizer, in a callback of the compiler) is not forgotten."""

    class Finalized:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def lose() -> None:
        with interrupts_kept():
            Finalized()
            time.sleep(LATEST)

    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        lose()
    assert sys.unraisablehook is hook


def test_a_graph_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours are searched a few rows at a time."""
    monkeypatch.setattr(graphs, "_SEARCHED_ROWS", 1)
    monkeypatch.setattr(graphs, "_SEARCHED", 1)
    X = dense(20_000, 30)
    assert delay_of_interrupt(lambda: graphs.knn(X), 0.2) < LATEST


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dspnmf.cli import main
print("ready", flush=True)
sys.argv[0] = "dspnmf"
main()
"""


def check_command(folder: Path, after: float, *arguments: str) -> float:
    """Interrupt a command and all its processes, as a terminal does; returns the seconds until its last word."""
    path = folder / "X.csv"
    if not path.exists():
        np.savetxt(path, dense(4000, 60), delimiter=",", fmt="%.4f")
    endless = ("--set", "max_iter=10000000", "--set", "tol=0", "--no-baseline")
    command = arguments or ("fit", str(path), "--rank", "10", "--out", str(folder / "out"), *endless)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    said = process.stderr.readline()
    delay = time.monotonic() - sent
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 130
    assert "interrupted" in said
    assert not (folder / "out").exists()
    assert delay < LATEST
    return delay


def test_the_command_line(tmp_path: Path) -> None:
    """Ctrl-C ends `dspnmf fit` with status 130 and one line."""
    check_command(tmp_path, 2.5)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def study(folder: Path, number: int) -> list[float]:
    """Interrupts at random moments, a tenth of them each of the ways to fit; returns their delays."""
    found = cases(folder, 10)
    del found["Dask threads"]  # whose tasks are those of the cluster
    names = [*found, "command line"]
    moments = np.random.default_rng(int(os.environ.get("DSPNMF_SEED", "0"))).uniform(0.0, 3.0, number)
    delays = []
    with ExitStack() as stack:
        stack.enter_context(found["Dask cluster"].inside())
        for at, after in enumerate(moments):
            name = names[at % len(names)]
            if name == "command line":
                delays.append(check_command(folder, 3 * after))
            else:
                delays.append(check_interrupt(found[name], after))
            say(f"{at + 1:4d}  {name:14s} after {after:5.2f} s: {1000 * delays[-1]:7.1f} ms")
    return delays


@pytest.mark.slow
def test_interrupts_at_random_moments(tmp_path: Path) -> None:
    """Each of them clean and in time."""
    assert max(study(tmp_path, NUMBER)) < LATEST


FIRST_FIT = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
from dspnmf import DSPNMF
model, X = DSPNMF(3, max_iter=2, tol=0, random_state=0), np.eye(40, 9)
threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.fit(X)
except KeyboardInterrupt:
    print(model.fit(X).objective_)
"""


@pytest.mark.slow
def test_the_first_fit_of_a_process(tmp_path: Path) -> None:
    """While numba is imported and compiles: it is not left half-way, and the next fit works."""
    found = set()
    for at, after in enumerate(np.random.default_rng(0).uniform(0.0, 6.0, NUMBER // 5)):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / str(at))}
        command = [sys.executable, "-c", FIRST_FIT, str(after)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), after
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GNMF, NSNMF])
def test_an_approximate_search_is_interrupted(kind: type[GNMF]) -> None:
    """Above 20,000 rows pynndescent takes minutes in compiled code: it runs in a process that is ended."""
    X = dense(25_000, 50)
    for after in (0.5, 5.0):
        assert delay_of_interrupt(lambda: kind(5, **ENDLESS).fit(X), after) < LATEST


@pytest.mark.slow
def test_a_large_problem() -> None:
    """Rows and components so many that one pass takes long: passes are cut into pieces."""
    X = dense(100_000, 300).astype(np.float32)
    model = NMF(50, random_state=0, max_iter=1, tol=0.0)
    for after in (1.0, 3.0, 6.0):
        assert delay_of_interrupt(lambda: [model.fit(X) for _ in range(100)], after) < LATEST


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        delays = study(Path(folder), NUMBER)
    say(f"{len(delays)} interrupts, all clean; largest delay {max(delays):.3f} s, median {np.median(delays):.3f} s")
