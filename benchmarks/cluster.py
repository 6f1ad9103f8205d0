"""What does an iteration on a Dask cluster cost, beside one on the same data in memory?

Two worker processes on this machine, X 2,000,000 x 100 float32 in 40 chunks, k = 20; the yardstick is `hals` on the
whole array in memory, both threads. Both run in turn, iteration by iteration. The second table is the cost of a cluster
alone: 40 chunks with next to nothing in them, early and late in a fit.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator

import dask.array as da
import numpy as np
from distributed import Client

import _report
from dspnmf import DSPNMF
from dspnmf._threads import team
from dspnmf.backends import Rows
from dspnmf.backends.dispatch import as_rows, place_of
from dspnmf.backends.row_model import RandomCodes
from dspnmf.objective.terms import GramSimilarity, Objective, Reconstruction
from dspnmf.solvers.loop import Descent, Hals, iterate

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


def steps(X: object) -> Iterator[object]:
    """Iterations of DSP-NMF from a random start."""
    checked, _ = place_of(X).check(DSPNMF(K), X, reset=True)
    rows: Rows = as_rows(checked, K)
    start = RandomCodes(np.random.RandomState(0).get_state(), 0, 0.1, K, np.dtype(np.float32))
    rows.begin(rows.draw(start))
    objective = Objective((Reconstruction(rows.norm2()), GramSimilarity(rows.gram_norm2())), (1.0, 1.0))
    return iterate(rows, objective, np.random.default_rng(0).random((M, K)), Descent(Hals()))


def seconds(iterations: Iterator[object]) -> float:
    """Of the next one."""
    begin = time.perf_counter()
    next(iterations)
    return time.perf_counter() - begin


def main() -> None:
    """Print the tables."""
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client, team():
        X = data(N).persist()
        on_cluster, in_memory = steps(X), steps(X.compute())
        times = [(seconds(on_cluster), seconds(in_memory)) for _ in range(23)][3:]
        ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        shape = f"{N:,} x {M}, {CHUNKS} chunks"
        rows = [(shape, f"{ours * 1e3:.0f} ms", f"{theirs * 1e3:.0f} ms", ours / theirs)]
        _report.table("Time per iteration", ("X", "2 workers", "in memory, 2 threads", "ratio"), rows)
        del on_cluster, in_memory, X
        gc.collect()
        small = steps(data(40 * CHUNKS))
        times = [seconds(small) for _ in range(520)]
        early, late = statistics.median(times[5:105]), statistics.median(times[420:])
        held = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        row = [(CHUNKS, f"{early * 1e3:.1f} ms", f"{late * 1e3:.1f} ms", late / early, held)]
        header = ("chunks", "iterations 5 to 105", "iterations 420 to 520", "ratio", "tasks the scheduler holds")
        _report.table("Cost of a cluster alone", header, row)
    _report.versions()


if __name__ == "__main__":
    main()
