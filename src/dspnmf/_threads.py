"""Threads for the kernels: as many as BLAS may use here, BLAS itself single-threaded meanwhile.

The kernels call BLAS on blocks too small to be worth its own threads, so rows are split among Python threads instead
(the kernels release the GIL). The number follows what the user set for BLAS (``OMP_NUM_THREADS``, `threadpoolctl`,
joblib's workers), so that nested parallel work does not oversubscribe the cores. A forked child makes its own threads.
Where other threads run at the same time on purpose (tasks of a cluster), work is done `alone`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

_WORTH_A_THREAD = 6e6  # floating-point operations below which handing work over costs more than doing it
_lock = threading.RLock()
_here = threading.local()  # .alone: whether this thread starts no others
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


def spread(task: Callable[[int, int], Result], n: int, operations: float, block: int = 1) -> list[Result]:
    """Call ``task(lo, hi)`` for parts that cover ``range(n)``, cut at multiples of `block`; results in their order."""
    blocks = -(-n // block)
    threads = _state["threads"] if _state["users"] and not getattr(_here, "alone", False) else 1
    parts = max(1, min(threads, blocks, int(operations / _WORTH_A_THREAD) + 1))
    cuts = [min(n, block * (blocks * part // parts)) for part in range(parts)] + [n]
    if parts == 1:
        return [task(0, n)]
    others = [_pool(threads - 1).submit(task, lo, hi) for lo, hi in pairwise(cuts[1:])]
    try:
        first = task(cuts[0], cuts[1])
    finally:  # an interrupt arrives here: no thread goes on writing when it leaves
        wait(others)
    return [first, *(other.result() for other in others)]
