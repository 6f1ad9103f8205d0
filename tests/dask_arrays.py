"""What tests of Dask arrays share: data in chunks, schedulers, and a limit that fails instead of hanging."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, LocalCluster
from scipy import sparse

N, M, K = 600, 24, 4
LAYOUTS = ((100,) * 6, (250, 250, 100), (1, 599), (0, 300, 0, 0, 300))
_QUICK = ((LAYOUTS[0], np.float32), (LAYOUTS[3], np.float64))  # on a cluster
CASES = [  # scheduler, layout and type; most of those on a cluster are slow
    pytest.param(
        where, layout, dtype, marks=[pytest.mark.slow] * (where == "cluster" and (layout, dtype) not in _QUICK)
    )
    for where in ("synchronous", "threads", "cluster")
    for layout in LAYOUTS
    for dtype in (np.float64, np.float32)
]


def data(dtype: Any = np.float64) -> np.ndarray:
    """A third of it zeros."""
    X = np.random.default_rng(0).random((N, M))
    return np.where(X < 0.3, 0, X).astype(dtype)


def chunked(X: np.ndarray | sparse.csr_array, rows: int | tuple[int, ...] = 100) -> da.Array:
    """X in chunks of rows, made by tasks (so it can be made again)."""
    sizes = rows if isinstance(rows, tuple) else (rows,) * (X.shape[0] // rows)
    ends = np.cumsum(sizes)
    parts = [dask.delayed(X[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    name = f"chunks-{uuid.uuid4().hex}"
    tasks = {(name, number, 0): part.key for number, part in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=parts)  # concatenate leaves out empty chunks
    return da.Array(graph, name, (sizes, (X.shape[1],)), meta=X[:0])


@contextmanager
def two_workers() -> Iterator[Client]:
    """Two worker processes of one thread; those that die are started again."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def scheduler(name: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """One of Dask's schedulers; "cluster" is that of the fixture `client`."""
    if name == "cluster":
        with request.getfixturevalue("client").as_current():
            yield
    else:
        with dask.config.set(scheduler=name, num_workers=2):
            yield


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail instead of hanging."""

    def late(*_: object) -> None:
        raise AssertionError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5)  # again and again: a callback may lose what a handler raises
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kill_workers(client: Client, number: int = 1) -> None:
    """Kill some workers as a crash or the system would: without a word."""
    for process in list(client.run(os.getpid).values())[:number]:
        os.kill(process, signal.SIGKILL)
