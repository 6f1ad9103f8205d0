"""Threads for the kernels: as many as BLAS may use here, BLAS itself single-threaded meanwhile.

The kernels call BLAS on blocks too small to be worth its own threads, so rows are split among Python threads instead
(the kernels release the GIL). The number follows what the user set for BLAS (``OMP_NUM_THREADS``, `threadpoolctl`,
joblib's workers), so that nested parallel work does not oversubscribe the cores. A forked child makes its own threads.
Where other threads run at the same time on purpose (tasks of a cluster), work is done `alone`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

_WORTH_A_THREAD = 6e6  # floating-point operations below which handing work over costs more than doing it
_PIECE = 4e8  # operations after which a thread returns to Python: some tenths of a second at most
_WORTH_THEIR_THREADS = 3  # items for every thread that are better done each on one thread
_lock = threading.RLock()
_here = threading.local()  # .alone: whether this thread starts no others; .caller: events of the one it works for
_state: dict[str, Any] = {"controller": None, "limit": None, "users": 0, "threads": 1, "pool": None, "size": 0}


def _forget() -> None:
    """In a forked child: its parent's threads and fits do not exist here, and a lock may be held by one of them."""
    global _lock
    _lock = threading.RLock()
    if _state["users"]:
        _state["limit"].restore_original_limits()
    _state.update(pool=None, size=0, users=0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def team() -> Iterator[None]:
    """Hold BLAS at one thread; `spread` may use the others. Re-entrant, and safe in concurrent fits."""
    with _lock:
        if _state["users"] == 0:
            if _state["controller"] is None:
                _state["controller"] = ThreadpoolController()
            controller = _state["controller"].select(user_api="blas")
            _state["threads"] = max([lib["num_threads"] for lib in controller.info()], default=1)
            _state["limit"] = controller.limit(limits=1)
        _state["users"] += 1
    try:
        yield
    finally:
        with _lock:
            _state["users"] -= 1
            if _state["users"] == 0:
                _state["limit"].restore_original_limits()


@contextmanager
def alone() -> Iterator[None]:
    """As `team`, but `spread` keeps to the calling thread: the others have work of their own."""
    before = getattr(_here, "alone", False)
    _here.alone = True
    try:
        with team():
            yield
    finally:
        _here.alone = before


def _pool(size: int) -> ThreadPoolExecutor:
    """The process's threads, started when first needed."""
    with _lock:
        if _state["size"] < size:
            _state["pool"] = ThreadPoolExecutor(size, thread_name_prefix="dspnmf")
            _state["size"] = size
        pool: ThreadPoolExecutor = _state["pool"]
        return pool


def spread(task: Callable[[int, int], Result], n: int, operations: float, block: int = 1) -> Result:
    """Sum of ``task(lo, hi)`` over pieces that cover ``range(n)``, cut at multiples of `block` (see `added`).

    Every thread works through the pieces of one part. Between two pieces the main thread can be interrupted; an
    interrupt or an error anywhere stops all threads, and leaves here when the last of them has finished its piece.
    """
    blocks, threads = -(-n // block), _allowed()
    parts = max(1, min(threads, blocks, int(operations / _WORTH_A_THREAD) + 1))
    each = max(1, min(blocks // parts, round(operations / parts / _PIECE)))
    pieces = parts * each
    if pieces == 1:
        return task(0, n)
    return _added_up(task, [min(n, block * (blocks * piece // pieces)) for piece in range(pieces)] + [n], each)


def dealt(task: Callable[[int], Result], n: int) -> list[Result]:
    """What ``task(item)`` returns for every item of ``range(n)``, in their order.

    Every item is done on one thread alone, by the first that is free. Where there are too few items for all threads,
    one is done after the other, and the threads may take part in each.
    """
    threads = _allowed()
    if threads == 1 or n < _WORTH_THEIR_THREADS * threads:
        return [task(item) for item in range(n)]
    waiting, results = deque(range(n)), dict[int, Result]()

    def work(lo: int, hi: int) -> None:
        with alone():
            while waiting:
                _check_going(getattr(_here, "caller", None))
                try:
                    item = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                results[item] = task(item)

    _added_up(work, list(range(threads + 1)), 1)
    return [results[item] for item in range(n)]


def _allowed() -> int:
    """How many threads work may be split among here."""
    return _state["threads"] if _state["users"] and not getattr(_here, "alone", False) else 1


def _added_up(task: Callable[[int, int], Result], cuts: list[int], each: int) -> Result:
    """The sum of ``task(lo, hi)`` over the pieces between cuts, `each` of them one after another on one thread."""
    pieces, outer = len(cuts) - 1, getattr(_here, "caller", None)
    stop, begun = threading.Event(), threading.Event()

    def work(first: int) -> Any:
        total = None
        if first:
            _here.caller = begun, stop
        try:
            for lo, hi in pairwise(cuts[first : first + each + 1]):
                _check_going(outer)
                if not stop.is_set():
                    total = added(total, task(lo, hi))
                    begun.set()
        except BaseException:
            stop.set()
            raise
        return total

    others = [_pool(_state["threads"] - 1).submit(work, first) for first in range(each, pieces, each)]
    try:
        total = work(0)
        wait(others)
        failed = [error for error in (other.exception() for other in others) if error]
        if failed:  # those that were only told to stop are not the reason
            raise next((error for error in failed if not isinstance(error, CancelledError)), failed[0])
        return reduce(added, (other.result() for other in others), total)
    finally:
        stop.set()
        begun.set()
        wait(others)


def _check_going(caller: tuple[threading.Event, threading.Event] | None) -> None:
    """An error where the thread that this one works for has been told to stop."""
    if caller and caller[1].is_set():
        raise CancelledError


def compile_after_caller() -> None:
    """In a thread that `spread` uses: wait until the calling thread has compiled what both are about to call.

    Compiling takes seconds, and only the main thread can be interrupted in it.
    """
    if caller := getattr(_here, "caller", None):
        caller[0].wait()
        _check_going(caller)


def added(total: Any, part: Any) -> Any:
    """The sum of two numbers or arrays, or of two tuples of them, item by item; None is nothing."""
    if total is None:
        return part
    return tuple(map(add, total, part)) if isinstance(part, tuple) else total if part is None else total + part
