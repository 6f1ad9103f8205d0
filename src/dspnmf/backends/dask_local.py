"""Lanes on Dask's schedulers for one machine: threads, processes, or none.

Chunks of X are computed (read) again for every order, so X may be larger than memory unless it was persisted; the codes
stay here, a lane for every chunk. Processes are started once, not for every order.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from operator import itemgetter
from typing import Any

import dask
import dask.multiprocessing

from dspnmf._threads import alone
from dspnmf.backends.dask_partition import FAN_IN, Lane, Order, Recipe, Span, total


class Local:
    """The chunks of a Dask array, and the lanes that hold their codes."""

    def __init__(self, blocks: Sequence[Any], spans: Sequence[Span]) -> None:
        self._blocks = list(blocks)  # delayed
        self._lanes = [Lane([span]) for span in spans]
        self._options: dict[str, Any] = {}
        if dask.base.get_scheduler(collections=self._blocks) is dask.multiprocessing.get and not dask.config.get(
            "pool", None
        ):
            workers = dask.config.get("num_workers", None)
            pool = ProcessPoolExecutor(workers, mp_context=dask.multiprocessing.get_context())
            weakref.finalize(self, pool.shutdown)
            self._options = {"pool": pool}

    def run(self, order: Order) -> tuple[Any, ...]:
        """Give an order to every lane; the sum of their answers."""
        obey, add = dask.delayed(_obey, pure=False), dask.delayed(_total, pure=False)
        lanes, parts = [], []
        for lane, block in zip(self._lanes, self._blocks, strict=True):
            own = dask.delayed(order.part(lane.spans), traverse=False)
            both = obey(dask.delayed(lane, traverse=False), own, block)
            lanes.append(dask.delayed(itemgetter(0), pure=False)(both))
            parts.append(dask.delayed(itemgetter(1), pure=False)(both))
        while len(parts) > 1:
            parts = [add(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        self._lanes, answer = dask.compute(lanes, parts[0], **self._options)
        return tuple(answer)

    def codes(self, recipe: Recipe, chunks: Iterable[int], unit: Any, k: int, scale: float) -> list[Any]:
        """The codes of some chunks."""
        make, tasks = dask.delayed(Lane.codes, pure=False), []
        for lane, block in ((self._lanes[chunk], self._blocks[chunk]) for chunk in chunks):
            X = block if recipe.needs == "X" else None
            small = dask.delayed(recipe.part(lane.spans), traverse=False)
            tasks.append(make(dask.delayed(lane, traverse=False), small, 0, X, k, scale, unit))
        return list(dask.compute(*tasks, **self._options))

    def here(self, block: Any) -> Any:
        """The block is here."""
        return block


def _obey(lane: Lane, order: Order, block: Any) -> tuple[Lane, tuple[Any, ...]]:
    """The lane too: in another process it is another one."""
    with alone():
        return lane, order.run(lane, [block])


def _total(answers: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return total(answers)
