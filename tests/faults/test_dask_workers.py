"""Dask workers that are killed before, during and after a fit: the same objective, readable codes, or a clear error.

Workers are processes of their own without anybody who starts them again, killed by SIGKILL. Run this file as a script
to see how long every case takes (``python tests/faults/test_dask_workers.py 40``: cases, first seed 0).
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import CancelledError, Client, LocalCluster
from sklearn.exceptions import EfficiencyWarning

from dask_arrays import K, chunked, data, within
from dspnmf import DSPNMF, NMF
from dspnmf.backends import dask_cluster

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stopped after max_iter"),  # fits are cut short on purpose
    pytest.mark.filterwarnings("ignore:Port 8787 is already in use"),  # of a dashboard nobody asked for
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # sockets of killed workers
]
LIMIT = 60  # seconds for a case, all of it
CODES = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}  # how far codes may be from those of memory
ITERATIONS = 40


class Workers:
    """Worker processes of one thread, which stay dead when they are killed."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, number: int) -> None:
        """Have that many workers more."""
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.client.scheduler.address]
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        for _ in range(number):
            self.processes.append(subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL))
        self.client.wait_for_workers(len(self.processes), timeout=LIMIT)

    def kill(self, number: int) -> None:
        """Kill the oldest ones as a crash or the system would: without a word."""
        killed, self.processes = self.processes[:number], self.processes[number:]
        for process in killed:
            process.kill()
            process.wait()

    def have(self, number: int) -> None:
        """Have exactly that many workers."""
        self.kill(len(self.processes) - number)
        self.start(number - len(self.processes))


@contextmanager
def running_cluster() -> Iterator[Workers]:
    """A scheduler, a client, and no worker yet."""
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        workers = Workers(client)
        try:
            yield workers
        finally:
            workers.kill(len(workers.processes))


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """A cluster for all tests; each begins with the workers it wants."""
    with running_cluster() as workers:
        yield workers


def method(kind: type[NMF] | type[DSPNMF] = DSPNMF, **parameters: Any) -> Any:
    """A short fit that no tolerance ends."""
    return kind(K, **{"solver": "hals", "max_iter": ITERATIONS, "tol": 0, "random_state": 0, **parameters})


@cache
def undisturbed(kind: type[NMF] | type[DSPNMF], dtype: np.dtype[Any]) -> tuple[float, np.ndarray]:
    """Objective and codes of the fit in memory, for NumPy."""
    model = method(kind)
    codes = model.fit_transform(data(dtype))
    return model.objective_, codes


def lazy(client: Client, X: np.ndarray) -> da.Array:
    """X made by tasks."""
    return chunked(X)


def persisted(client: Client, X: np.ndarray) -> da.Array:
    """X in the memory of the workers, made by tasks."""
    return chunked(X).persist()


def scattered(client: Client, X: np.ndarray) -> da.Array:
    """X in the memory of the workers and nowhere else."""
    futures = client.scatter(np.split(X, 4), hash=False)
    return da.concatenate([da.from_delayed(future, (len(X) // 4, X.shape[1]), X.dtype) for future in futures])


def counted(client: Client, X: np.ndarray) -> da.Array:
    """X in chunks whose rows nobody has counted."""
    array = chunked(X)
    return array[array[:, 0] >= 0]


@contextmanager
def meanwhile(*steps: tuple[float, Callable[[], None]]) -> Iterator[None]:
    """Do things in another thread, each some seconds after the one before; all are done in the end."""

    def work() -> None:
        for seconds, step in steps:
            time.sleep(seconds)
            step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def check_nothing_is_left(client: Client) -> None:
    """The cluster forgets all of a fit, soon after its codes are deleted."""
    deadline = time.monotonic() + 10
    while held := client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks))):
        assert time.monotonic() < deadline, held
        gc.collect()  # tracebacks hold futures
        time.sleep(0.1)


def check_disturbed_fit(seed: int, workers: Workers) -> str:
    """A fit, workers killed and added at moments a seed chooses, codes read afterwards; what happened, in words."""
    rng = np.random.default_rng(seed)
    kind, form = (DSPNMF, NMF)[seed % 2], (lazy, persisted, counted)[seed % 3]
    dtype = np.dtype(np.float32 if seed % 4 == 3 else np.float64)
    begin_with, killed = [(2, 1), (2, 2), (1, 1), (3, 2), (1, 0)][seed % 5]  # (1, 0): one worker, more join
    when, pause = (float(rng.uniform(0, high)) for high in (2.0, 1.0))
    objective, codes = undisturbed(kind, dtype)
    workers.have(begin_with)
    began, model = time.monotonic(), method(kind)
    warns = pytest.warns(EfficiencyWarning, match="unknown numbers of rows") if form is counted else nullcontext()
    with within(LIMIT), warns:
        X = form(workers.client, data(dtype))
        if rng.random() < 0.3 and len(workers.processes) > 1:
            workers.kill(1)  # before
        with meanwhile((when, lambda: workers.kill(killed)), (pause, lambda: workers.start(max(killed, 1)))):
            Z = model.fit_transform(X)
            fitted = time.monotonic() - began
        lazy_codes = model.transform(X)
        del X
        workers.kill(len(workers.processes))  # after: all that took part, and whatever they had
        workers.start(1)
        mine, again = workers.client.gather(workers.client.compute([Z, lazy_codes]))
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    del Z, lazy_codes
    check_nothing_is_left(workers.client)
    for found in (mine, again):
        np.testing.assert_allclose(found, codes, rtol=CODES[dtype], atol=CODES[dtype])
    return (
        f"{seed}: {kind.__name__}, {dtype}, {form.__name__}, {killed} of {begin_with} killed after {when:.2f} s: "
        f"fit {fitted:.1f} s, all {time.monotonic() - began:.1f} s, "
        f"objective off by {abs(model.objective_ / objective - 1):.0e}"
    )


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20) if seed != 2)])
def test_workers_killed_at_any_moment(seed: int, workers: Workers) -> None:
    """Workers die before, during and after a fit, and others join: objective and codes are those of memory."""
    check_disturbed_fit(seed, workers)


def test_codes_of_x_that_is_lost(workers: Workers) -> None:
    """X was scattered and is lost: codes of the fit are still there; another fit says what was lost, and the fix."""
    workers.have(1)
    with within(LIMIT):
        X, model = scattered(workers.client, data()), method(max_iter=5)
        codes = model.fit_transform(X)
        later = model.transform(X)
        expected = model.transform(data())
        workers.kill(1)
        workers.start(1)
        np.testing.assert_allclose(codes.compute(), expected, atol=1e-9)
        with pytest.raises(CancelledError, match="lost"):
            later.compute()
        with pytest.raises(RuntimeError, match=r"Rows 0 to 150 of X were lost.*scattered.*dask\.array\.from_zarr"):
            model.fit(X)


@pytest.mark.parametrize(
    "error", [KeyError, *(pytest.param(error, marks=pytest.mark.slow) for error in (OSError, TimeoutError))]
)
def test_worker_vanishes_while_data_are_sent(
    error: type[Exception], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Dask raises where a worker dies between its choice and the sending of data is recovered from."""
    scatter, failures = Client.scatter, [error("tcp://127.0.0.1:1")] * 2

    def failing(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return scatter(*arguments, **options)

    workers.have(1)
    monkeypatch.setattr(Client, "scatter", failing)
    with within(LIMIT):
        model = method().fit(chunked(data()))
    assert not failures
    assert model.objective_ == pytest.approx(undisturbed(DSPNMF, np.dtype(float))[0], rel=1e-6)


def test_no_worker_is_an_error_in_time(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers are lost in a fit and none joins: an error says so when Dask's option or our limit says so."""
    assert dask_cluster._WAIT + dask_cluster._POLL < LIMIT
    monkeypatch.setattr(dask_cluster, "_POLL", 0.5)
    workers.have(1)
    with (
        within(LIMIT),
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1 s"}),
        pytest.raises(RuntimeError, match=r"no worker for 1 seconds: start workers .*no-workers-timeout"),
        meanwhile((0.5, lambda: workers.kill(1))),
    ):
        method(max_iter=100_000).fit(chunked(data()))
    check_nothing_is_left(workers.client)


@pytest.mark.slow
def test_cluster_is_gone() -> None:
    """Codes of a finished fit can be read when there is no cluster any more, whatever X was."""
    with running_cluster() as workers:
        workers.start(1)
        made = {form: method(max_iter=5) for form in (lazy, persisted, scattered)}
        codes = {form: model.fit_transform(form(workers.client, data())) for form, model in made.items()}
    with within(LIMIT), dask.config.set(scheduler="threads"):  # not the cluster of the other tests
        for form, model in made.items():
            expected = model.transform(data())
            for mine in (codes[form], model.transform(chunked(data()))):
                np.testing.assert_allclose(mine.compute(), expected, atol=1e-9)


@pytest.mark.parametrize("after", [0.5, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.05, 0.2, 1, 1.5, 2, 3))])
def test_interrupt(after: float, workers: Workers) -> None:
    """An interrupt ends a fit within 2 s, changes nothing, leaves nothing on the cluster, and the next fit works."""
    workers.have(1)
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    model = method(max_iter=100_000)
    with within(LIMIT):
        with pytest.raises(KeyboardInterrupt), meanwhile((after, interrupt)):
            model.fit(chunked(data()))
        assert time.monotonic() - sent[0] < 2
        assert not hasattr(model, "components_")
        check_nothing_is_left(workers.client)
        assert method(max_iter=5).fit(chunked(data())).objective_ > 0


if __name__ == "__main__":
    with running_cluster() as running:
        for number in range(int(sys.argv[1])):
            sys.stdout.write(f"{check_disturbed_fit(number, running)}\n")
            sys.stdout.flush()
