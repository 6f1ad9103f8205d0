"""Runs the protocol: in parallel, resumable, and never stopped by a run that fails."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from dspnmf.paper.measure import measure
from dspnmf.paper.protocol import Run
from dspnmf.paper.store import Store


class Progress(NamedTuple):
    """Told after every run."""

    run: Run
    done: int
    total: int
    error: str | None


def execute(
    runs: Iterable[Run],
    store: Path,
    *,
    data_dir: str | None = None,
    jobs: int = 1,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Run what the store does not have yet, `jobs` processes at a time, and write each result as it comes.

    Every process uses one thread, so that `jobs` cores are busy and no more. Interrupt it at any moment and call it
    again: it goes on with the runs that are missing.
    """
    runs = list(runs)
    with Store(store) as results:
        todo = results.missing(runs)
        done = len(runs) - len(todo)
        context = multiprocessing.get_context("spawn")  # a forked child would inherit threads it cannot use
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=_single_threaded) as pool:
            waiting = iter(todo)
            flying: dict[Future[_Outcome], Run] = {}
            try:
                while True:
                    for run in waiting:
                        flying[pool.submit(_attempt, run, data_dir)] = run
                        if len(flying) >= 2 * jobs:  # enough to keep all busy, few enough to lose little
                            break
                    if not flying:
                        return
                    for future in wait(flying, return_when=FIRST_COMPLETED).done:
                        run, outcome = flying.pop(future), future.result()
                        results.add(run, outcome.values, outcome.error)
                        done += 1
                        watch(Progress(run, done, len(runs), outcome.error))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _Outcome(NamedTuple):
    """What comes back from a process."""

    values: dict[str, float] | None
    error: str | None


def _attempt(run: Run, data_dir: str | None) -> _Outcome:
    """Measure; an error becomes part of the result."""
    try:
        return _Outcome(measure(run, data_dir), None)
    except Exception as error:  # whatever a method raises, the other runs go on
        return _Outcome(None, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")


def _single_threaded() -> None:
    """One thread for BLAS and for our own kernels, which follow it; libraries with OpenMP as well."""
    threadpool_limits(1)
