"""Makes the runs of the protocol in worker processes; it can be resumed, and a run that fails stops no other.

A run fails when it raises, when a measurement is not finite, or when its process dies (out of memory). Workers end with
the process that started them, even if that is killed: they watch a pipe whose other end then closes.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from dspnmf.paper.evaluation import evaluate
from dspnmf.paper.protocol import Run
from dspnmf.paper.store import Store


class Progress(NamedTuple):
    """What the callback receives after every run."""

    run: Run
    done: int
    total: int
    error: str | None


_Outcome = tuple[dict[str, float] | None, str | None]  # measurements of a run, or its error


def execute(
    runs: Iterable[Run],
    store: Path,
    *,
    data_dir: str | None = None,
    jobs: int = 1,
    callback: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Make the runs that the store does not have, in `jobs` processes of one thread each, and store each result.

    It may be interrupted at any moment; called again, it continues with the runs that are missing.
    """
    runs = list(runs)
    with Store(store) as results:
        todo, begin = results.missing(runs), time.monotonic()
        if todo:
            results.begin_session()
        with closing(_outcomes(todo, data_dir, jobs)) as outcomes:
            for done, (run, (values, error)) in enumerate(outcomes, len(runs) - len(todo) + 1):
                results.add(run, values, error)
                results.extend_session(time.monotonic() - begin)
                callback(Progress(run, done, len(runs), error))


def _outcomes(runs: list[Run], data_dir: str | None, jobs: int) -> Generator[tuple[Run, _Outcome], None, None]:
    """Every run with its outcome, as they end. If a process dies, the submitted runs are repeated one at a time."""
    waiting = deque(runs)
    while waiting:
        suspects = deque((yield from _in_pool(waiting, data_dir, jobs, 2 * jobs)))
        while suspects:
            for run in (yield from _in_pool(suspects, data_dir, 1, 1)):
                yield run, (None, "ProcessDied: the process of this run was killed, perhaps for its memory.")


def _in_pool(
    waiting: deque[Run], data_dir: str | None, jobs: int, limit: int
) -> Generator[tuple[Run, _Outcome], None, list[Run]]:
    """Outcomes from one pool of processes until all runs have ended; if a process dies, returns the submitted runs.

    At most `limit` runs are submitted at a time: enough to keep all processes busy, few enough to repeat few.
    """
    context = multiprocessing.get_context("spawn")  # a forked child would inherit threads it cannot use
    watched, held = context.Pipe(duplex=False)
    submitted: dict[Future[_Outcome], Run] = {}
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(watched,))
    with held, watched, executor as pool:
        try:
            while waiting or submitted:
                with _sigint_blocked():
                    while waiting and len(submitted) < limit:
                        submitted[pool.submit(_attempt, waiting[0], data_dir)] = waiting[0]
                        waiting.popleft()
                for future in wait(submitted, return_when=FIRST_COMPLETED).done:
                    outcome = future.result()
                    yield submitted.pop(future), outcome
        except BrokenProcessPool:
            return list(submitted.values())
        except BaseException:
            held.close()
            for process in list((pool._processes or {}).values()):  # its own exit waits for code that holds the GIL
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return []


def _attempt(run: Run, data_dir: str | None) -> _Outcome:
    """Evaluate a run; an exception becomes its error."""
    try:
        values = evaluate(run, data_dir)
    except Exception as error:  # whatever a method raises, the other runs go on
        return None, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    if odd := [f"{name} = {value}" for name, value in values.items() if not math.isfinite(value)]:
        return None, f"NotFinite: measured {', '.join(odd)}, where a finite number is needed."
    return values, None


def _start_worker(watched: Connection) -> None:
    """Limit BLAS, OpenMP and our own kernels to one thread, and exit when the parent closes its end of the pipe."""

    def exit_with_parent() -> None:
        watched.poll(None)
        os._exit(1)

    threadpool_limits(1)
    threading.Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for processes started here: a terminal sends Ctrl-C to all of them, and the parent handles it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
