"""What does an iteration on a Dask cluster cost, against one on the same data in memory?

Two worker processes on this machine, X 2,000,000 x 100 float32 in 40 chunks, k = 20; the baseline is `hals` on the
whole array in memory, both threads. Both run in turn, iteration by iteration, checkpoints of the codes included. The
second table is the cost of a cluster alone: 40 chunks with next to nothing in them, early and late in a fit. Run as
``python cluster.py 200000`` for other numbers of rows.
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

import _report
from _descent import checked, descent, preserving
from dspnmf._threads import team
from dspnmf.backends.row_model import RandomCodes
from dspnmf.solvers.hals import Hals

N, M, K, CHUNKS = 2_000_000, 100, 20, 40


def chunk(rows: int, block_info: dict) -> np.ndarray:
    """Uniform rows, other ones in every chunk."""
    rng = np.random.default_rng(block_info[None]["chunk-location"][0])
    return rng.random((rows, M), dtype=np.float32)


def in_chunks(n: int) -> da.Array:
    """X in chunks of rows, made by the workers."""
    rows = n // CHUNKS
    chunks = ((rows,) * CHUNKS, (M,))
    return da.map_blocks(lambda block_info=None: chunk(rows, block_info), chunks=chunks, dtype=np.float32)


def times(X: da.Array | np.ndarray) -> Iterator[float]:
    """Seconds of every iteration of DSP-NMF from a random start, for ever."""
    data = checked(X)
    rows = data.rows(K, 1.0)
    codes = rows.draw(RandomCodes(np.random.RandomState(0).get_state(), 0, 0.1, K, np.dtype(np.float32)))
    steps = descent(rows, preserving(data), codes, np.random.default_rng(0).random((M, K)), Hals())
    next(steps)
    while True:
        begin = time.perf_counter()
        next(steps)
        yield time.perf_counter() - begin


def main(n: int = N) -> None:
    """Print the tables."""
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client, team():
        X = in_chunks(n).persist()
        on_cluster, in_memory = times(X), times(X.compute())
        pairs = [(next(on_cluster), next(in_memory)) for _ in range(43)][3:]
        ours, theirs = (statistics.fmean(column) for column in zip(*pairs, strict=True))
        shape = f"{n:,} x {M}, {CHUNKS} chunks"
        rows = [(shape, f"{ours * 1e3:.0f} ms", f"{theirs * 1e3:.0f} ms", ours / theirs)]
        _report.table("Time per iteration", ("X", "2 workers", "in memory, 2 threads", "ratio"), rows)
        del on_cluster, in_memory, X
        gc.collect()
        small = times(in_chunks(40 * CHUNKS))
        each = [next(small) for _ in range(520)]
        early, late = statistics.median(each[5:105]), statistics.median(each[420:])
        held = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        row = [(CHUNKS, f"{early * 1e3:.1f} ms", f"{late * 1e3:.1f} ms", late / early, held)]
        header = ("chunks", "iterations 5 to 105", "iterations 420 to 520", "ratio", "tasks the scheduler holds")
        _report.table("Cost of a cluster alone", header, row)
    _report.versions()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
