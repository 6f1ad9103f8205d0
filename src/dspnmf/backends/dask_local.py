"""Dask's schedulers for one machine: threads, processes, synchronous.

Chunks of X are computed (read) again for every pass, so X may be larger than memory unless it was persisted; the states
of all chunks stay in this process. Processes are started once, not for every pass.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from operator import itemgetter
from typing import Any

import dask
import dask.multiprocessing
from dask.delayed import Delayed

from dspnmf._typing import Array
from dspnmf.backends import dask_partition
from dspnmf.backends.dask_partition import FAN_IN, Addends, Reduction, Span, State, Task, Update, total


class LocalExecutor:
    """The chunks of a Dask array on a scheduler of this machine (see `Executor`)."""

    def __init__(self, blocks: Sequence[Delayed], spans: Sequence[Span]) -> None:
        self._blocks = blocks
        self._spans = spans
        self._options: dict[str, Any] = {}
        scheduler = dask.base.get_scheduler(collections=blocks)
        if scheduler is dask.multiprocessing.get and not dask.config.get("pool", None):
            workers = dask.config.get("num_workers", None)
            pool = ProcessPoolExecutor(workers, mp_context=dask.multiprocessing.get_context())
            weakref.finalize(self, pool.shutdown)
            self._options = {"pool": pool}

    def states(self, start: Update | Sequence[Array]) -> list[State]:
        """Codes of the host as they are, others in one pass."""
        return self.update(start, None)[0] if isinstance(start, partial) else [(U, None) for U in start]

    def update(self, update: Update, states: list[State] | None) -> tuple[list[State], Addends]:
        """One task for every chunk, and a tree of sums."""
        made = self._apply(dask_partition.update_chunks, update, states)
        first, second = dask.delayed(itemgetter(0), pure=False), dask.delayed(itemgetter(1), pure=False)
        new, sums = dask.compute(
            [first(pair) for pair in made], _tree([second(pair) for pair in made]), **self._options
        )
        return [state for (state,) in new], sums

    def reduce(self, reduction: Reduction, states: list[State] | None = None) -> Addends:
        """One task for every chunk, and a tree of sums."""
        (sums,) = dask.compute(_tree(self._apply(dask_partition.reduce_chunks, reduction, states)), **self._options)
        return sums

    def codes(self, states: list[State]) -> Iterator[Array]:
        """They are here."""
        return (U for U, _ in states)

    def _apply(self, task: Task, command: Update | Reduction, states: list[State] | None) -> list[Delayed]:
        sent, task = dask.delayed(command, traverse=False), dask.delayed(task, pure=False)
        nothing = [None] * len(self._spans)
        before = [dask.delayed(([state], ()), traverse=False) for state in states] if states else nothing
        return [task(sent, [span], *rest) for span, *rest in zip(self._spans, before, self._blocks, strict=True)]


def _tree(parts: list[Delayed]) -> Delayed:
    """Sums added up, a few at a time."""
    add = dask.delayed(total, pure=False)
    while len(parts) > 1:
        parts = [add(*parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return parts[0]
