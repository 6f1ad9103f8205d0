"""Runs the protocol: in parallel, resumable, and never stopped by a run that fails.

A run fails when it raises, when it measures something that is no number, or when its process dies (no memory). Worker
processes end with the one that started them, however that ends: each holds one end of a pipe whose other end closes.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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


class _Outcome(NamedTuple):
    """What comes back from a process."""

    values: dict[str, float] | None
    error: str | None


_Outcomes = Generator[tuple[Run, _Outcome], None, list[Run]]


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
        with closing(_outcomes(todo, data_dir, jobs)) as outcomes:
            for run, outcome in outcomes:
                results.add(run, outcome.values, outcome.error)
                done += 1
                watch(Progress(run, done, len(runs), outcome.error))


def _outcomes(runs: list[Run], data_dir: str | None, jobs: int) -> Generator[tuple[Run, _Outcome], None, None]:
    """Every run with its outcome, as they end. If a process dies, those in flight are run again, one at a time."""
    waiting = deque(runs)
    while waiting:
        suspects = deque((yield from _in_pool(waiting, data_dir, jobs, 2 * jobs)))
        while suspects:
            for run in (yield from _in_pool(suspects, data_dir, 1, 1)):
                yield run, _Outcome(None, "ProcessDied: the process of this run was ended, perhaps for its memory.")


def _in_pool(waiting: deque[Run], data_dir: str | None, jobs: int, ahead: int) -> _Outcomes:
    """Outcomes from one pool of processes, until all are done or a process dies; then, the runs that were in flight.

    `ahead` is how many are in flight at a time: enough to keep all busy, few enough to lose little.
    """
    context = multiprocessing.get_context("spawn")  # a forked child would inherit threads it cannot use
    end, lifeline = context.Pipe(duplex=False)
    flying: dict[Future[_Outcome], Run] = {}
    with lifeline, end, ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(end,)) as pool:
        try:
            while waiting or flying:
                with _interrupts_held():
                    while waiting and len(flying) < ahead:
                        flying[pool.submit(_attempt, waiting[0], data_dir)] = waiting[0]
                        waiting.popleft()
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    outcome = future.result()
                    yield flying.pop(future), outcome
        except BrokenProcessPool:
            return list(flying.values())
        except BaseException:
            lifeline.close()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return []


def _attempt(run: Run, data_dir: str | None) -> _Outcome:
    """Measure; an error becomes part of the result."""
    try:
        values = measure(run, data_dir)
    except Exception as error:  # whatever a method raises, the other runs go on
        return _Outcome(None, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
    if odd := [f"{name} = {value}" for name, value in values.items() if not math.isfinite(value)]:
        return _Outcome(None, f"NotFinite: measured {', '.join(odd)}, where a finite number is needed.")
    return _Outcome(values, None)


def _begin(end: Any) -> None:
    """One thread for BLAS and for our own kernels, which follow it, and for OpenMP; and an end with the parent's."""
    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, args=(end,), daemon=True).start()


def _end_with_parent(end: Any) -> None:
    """Wait until the other end of the pipe closes, which a killed process's does too."""
    end.poll(None)
    os._exit(1)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started here never see Ctrl-C, which a terminal sends to all: the parent decides what it means."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
