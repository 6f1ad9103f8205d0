"""What does a pass on a Dask cluster cost, against one over the same data in memory?

Two worker processes on this machine, X 2,000,000 x 100 float32 in 40 chunks, k = 20; the baseline is the whole array in
memory, both threads. A pass is a look of `hals` with four sweeps and a step, as in every iteration; both run in turn,
pass by pass, checkpoints of the codes included. The second table is the cost of a cluster alone: 40 chunks with next to
nothing in them, early and late in a fit.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Iterator

import dask.array as da
import numpy as np
from distributed import Client
from sklearn.base import BaseEstimator

import _report
from dspnmf._threads import team
from dspnmf.backends import RowModel, backend_for
from dspnmf.backends.row_model import RandomCodes

N, M, K, CHUNKS = 2_000_000, 100, 20, 40


def chunk(rows: int, block_info: dict) -> np.ndarray:
    """Uniform rows, other ones in every chunk."""
    rng = np.random.default_rng(block_info[None]["chunk-location"][0])
    return rng.random((rows, M), dtype=np.float32)


def data(n: int) -> da.Array:
    """X in chunks of rows, made by the workers."""
    rows = n // CHUNKS
    chunks = ((rows,) * CHUNKS, (M,))
    return da.map_blocks(lambda block_info=None: chunk(rows, block_info), chunks=chunks, dtype=np.float32)


def passes(X: da.Array | np.ndarray) -> Iterator[float]:
    """Seconds of looks and steps from a random start, for ever."""
    rows = backend_for(X).check(BaseEstimator(), X, reset=True).rows(K, 1.0)
    rows.begin(rows.draw(RandomCodes(0, 0.1, K, np.dtype(np.float32))))
    Vt = np.random.default_rng(0).random((M, K))
    model = RowModel(Vt.T @ Vt, Vt)
    while True:
        begin = time.perf_counter()
        rows.look(model, sweeps=4)
        rows.step(0.1)
        yield time.perf_counter() - begin


def main(n: int = N) -> None:
    """Print the tables."""
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as client, team():
        X = data(n).persist()
        on_cluster, in_memory = passes(X), passes(X.compute())
        times = [(next(on_cluster), next(in_memory)) for _ in range(43)][3:]
        ours, theirs = (statistics.fmean(column) for column in zip(*times, strict=True))
        shape = f"{n:,} x {M}, {CHUNKS} chunks"
        rows = [(shape, f"{ours * 1e3:.0f} ms", f"{theirs * 1e3:.0f} ms", ours / theirs)]
        _report.table("Time per pass", ("X", "2 workers", "in memory, 2 threads", "ratio"), rows)
        del on_cluster, in_memory, X
        gc.collect()
        small = passes(data(40 * CHUNKS))
        times = [next(small) for _ in range(520)]
        early, late = statistics.median(times[5:105]), statistics.median(times[420:])
        held = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        row = [(CHUNKS, f"{early * 1e3:.1f} ms", f"{late * 1e3:.1f} ms", late / early, held)]
        header = ("chunks", "passes 5 to 105", "passes 420 to 520", "ratio", "tasks the scheduler holds")
        _report.table("Cost of a cluster alone", header, row)
    _report.versions()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
