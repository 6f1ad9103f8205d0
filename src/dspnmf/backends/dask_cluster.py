"""A `distributed` cluster: chunks and states stay on the workers, one tree of small sums comes back per pass.

Every worker thread has one group of chunks. The states of a group are one future, which is never changed: an update
makes the next one, and the one before is dropped. The first states of a descent depend on something that was scattered
and then released. Dask cannot compute that again, so it forgets states as soon as they are dropped (the scheduler holds
as many tasks after 500 iterations as after 5), and cancels states that are lost with a worker, and what waits for them.

Whatever is lost, recovery is the same: this process keeps the codes of a checkpoint and the updates since then, and
applies them again to all chunks, on the workers there are; Dask computes lost chunks of X again. Updates are pure, so
the numbers are the same as if nothing had happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import distributed
from dask.delayed import Delayed
from dask.sizeof import sizeof
from distributed import Client, Future, KilledWorker

from dspnmf._typing import Array
from dspnmf.backends.dask_partition import (
    FAN_IN,
    Addends,
    Before,
    Reduction,
    Span,
    Task,
    Update,
    reduce_chunks,
    total,
    update_chunks,
)

Result = TypeVar("Result")
Command: TypeAlias = Update | Reduction
Futures: TypeAlias = Sequence[Future]

_EMBED = 2**20  # bytes sent along with the tasks of a pass; more are scattered, and workers pass them on
_CHECKPOINT_EVERY = 8  # updates at least between two checkpoints
_CHECKPOINT_COST = 0.05  # of the time of a fit: checkpoints are rarer where they would take more
_CHECKPOINT_BYTES = 2**33  # larger codes stay on the workers; where they are lost, a descent is repeated from its start
_BATCH = 16  # chunks whose codes come here at once
_TRIES = 10  # times a pass is repeated because workers were lost
_POLL = 5  # seconds without a result until somebody looks whether there are workers
_WAIT = 300  # seconds without any worker until a fit gives up
_AGAIN = "then fit again; with checkpoint_path=PATH a fit goes on from its last checkpoint."
_GAVE_UP = (
    "Workers were lost again and again during one pass over X, so the fit gave up. Look for the cause in the workers' "
    f"logs (often memory: use smaller chunks or more workers), {_AGAIN}"
)


@dataclass
class Group:
    """Chunks that one worker thread works on."""

    worker: str
    chunks: list[int]
    rows: int = 0

    def take(self, chunk: int, rows: int) -> None:
        """One more chunk."""
        self.chunks.append(chunk)
        self.rows += rows


@dataclass(eq=False)
class ClusterStates:
    """The states of all chunks: how they are made, and futures of them where they were."""

    checkpoint: Sequence[Array] | None  # codes of every chunk; None: the first update makes them
    updates: tuple[Update, ...] = ()  # since the checkpoint
    groups: Sequence[Group] = ()
    futures: Futures | None = None  # of what `update_chunks` returns for every group; None: to be made


class ClusterExecutor:
    """The chunks of a Dask array on the workers of a client (see `Executor`)."""

    def __init__(self, client: Client, blocks: Sequence[Delayed], spans: Sequence[Span]) -> None:
        self._client = client
        self._spans = spans
        self._blocks: list[Future] = client.compute(list(blocks))  # in the order of the rows
        self._groups: list[Group] = []  # none: to be formed
        self._threads: dict[str, int] = {}  # of the workers when groups were formed
        self._checkpoint_end = self._checkpoint_seconds = 0.0

    def states(self, start: Update | Sequence[Array]) -> ClusterStates:
        """Made when they are first needed."""
        return ClusterStates(None, (start,)) if isinstance(start, partial) else ClusterStates(start)

    def update(self, update: Update, states: ClusterStates) -> tuple[ClusterStates, Addends]:
        """One task for every group, and a tree of sums."""

        def work() -> tuple[ClusterStates, Addends]:
            groups, updates = states.groups, (*states.updates, update)
            futures = self._apply(update_chunks, update, groups, states.futures)
            sums = [self._submit(group, itemgetter(1), pair) for group, pair in zip(groups, futures, strict=True)]
            return ClusterStates(states.checkpoint, updates, groups, futures), self._total(sums)

        new, sums = self._insist(work, states)
        self._consider_checkpoint(new)
        return new, sums

    def reduce(self, reduction: Reduction, states: ClusterStates | None = None) -> Addends:
        """One task for every group, and a tree of sums."""

        def work() -> Addends:
            groups, futures = (states.groups, states.futures) if states else (self._formed_groups(), None)
            return self._total(self._apply(reduce_chunks, reduction, groups, futures))

        return self._insist(work, states)

    def codes(self, states: ClusterStates) -> Iterator[Array]:
        """A few chunks at a time."""
        if states.checkpoint is not None and not states.updates:
            yield from states.checkpoint
            return
        for first in range(0, len(self._spans), _BATCH):

            def work(wanted: range = range(first, min(first + _BATCH, len(self._spans)))) -> list[Array]:
                made = {}
                for group, pair in zip(states.groups, states.futures or (), strict=True):
                    for number, chunk in enumerate(group.chunks):
                        if chunk in wanted:
                            made[chunk] = self._submit(group, _codes_of, pair, number)
                return self._gather([made[chunk] for chunk in wanted])

            yield from self._insist(work, states)

    # -- recovery ----------------------------------------------------------------------------------------------------

    def _insist(self, work: Callable[[], Result], states: ClusterStates | None) -> Result:
        """The result of some work, repeated where something was lost; makes states that are not there."""
        for _ in range(_TRIES):
            try:
                if states is not None and states.futures is None:
                    self._make(states)
                return work()
            except CancelledError:  # something is gone that Dask cannot compute again
                self._check_chunks()
                self._groups = []
                if states is not None:
                    states.futures = None
        raise RuntimeError(_GAVE_UP)

    def _make(self, states: ClusterStates) -> None:
        """States from their checkpoint, or from nothing, by the updates since."""
        groups, futures = self._formed_groups(), None
        if (codes := states.checkpoint) is not None:
            pairs: list[Before] = [([(codes[chunk], None) for chunk in group.chunks], ()) for group in groups]
            futures = [self._scatter(pair, [group.worker]) for group, pair in zip(groups, pairs, strict=True)]
        for update in states.updates:
            futures = self._apply(update_chunks, update, groups, futures)
        self._wait(futures or [])
        states.groups, states.futures = groups, futures

    def _consider_checkpoint(self, states: ClusterStates) -> None:
        """If it is time, keep the codes as they were before the last direction; then let new workers take part."""
        begin, model = time.monotonic(), states.updates[-1].keywords.get("model")
        affordable = self._checkpoint_seconds <= _CHECKPOINT_COST * (begin - self._checkpoint_end)
        if len(states.updates) <= _CHECKPOINT_EVERY or not affordable or model is None:
            return
        if self._spans[-1][1] * model.S[0].nbytes > _CHECKPOINT_BYTES:
            return
        states.checkpoint, states.updates = list(self.codes(states)), (partial(states.updates[-1], t=0.0),)
        self._checkpoint_end = time.monotonic()
        self._checkpoint_seconds = self._checkpoint_end - begin
        if self._workers() != self._threads:
            self._groups, states.futures = [], None

    def _check_chunks(self) -> None:
        """Whether X is still there, or can be computed again."""
        for (lo, hi), block in zip(self._spans, self._blocks, strict=True):
            if block.status == "cancelled" and self._client.status == "running":
                raise RuntimeError(
                    f"Rows {lo} to {hi} of X were lost with a worker and cannot be computed again, because they were "
                    "sent there as data (scatter). Make X from files or tasks (dask.array.from_zarr, from_delayed), "
                    "or fit again."
                )

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _apply(self, task: Task, command: Command, groups: Sequence[Group], before: Futures | None) -> list[Future]:
        """A task for every group; what nothing comes before depends on something scattered."""
        sent: object = command
        if before is None or len(groups) * sizeof(command.keywords) > _EMBED:
            sent = self._scatter(command)
        made = []
        for group, old in zip(groups, before or [None] * len(groups), strict=True):
            spans, blocks = ([of[chunk] for chunk in group.chunks] for of in (self._spans, self._blocks))
            made.append(self._submit(group, task, sent, spans, old, *blocks))
        return made

    def _total(self, parts: list[Future]) -> Addends:
        """Sums added up a few at a time, the last few here."""
        while len(parts) > FAN_IN:
            parts = [self._submit(None, total, *parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        return total(*self._gather(parts))

    def _submit(self, group: Group | None, task: Task, *arguments: object) -> Future:
        """A task for the worker of a group; for any other where that is gone."""
        where = {"workers": [group.worker], "allow_other_workers": True} if group else {}
        return self._client.submit(task, *arguments, pure=False, **where)

    def _scatter(self, value: object, workers: list[str] | None = None) -> Future:
        try:
            return self._client.scatter([value], workers=workers, hash=False)[0]
        except (OSError, TimeoutError) as error:  # no such worker any more
            raise CancelledError from error

    def _gather(self, futures: Futures) -> list[Any]:
        self._wait(futures)
        return self._client.gather(futures)

    def _wait(self, futures: Futures) -> None:
        """Wait for futures; raise what their tasks raised."""
        with self._client.as_current():
            while True:
                try:
                    distributed.wait(futures, timeout=_POLL)
                    break
                except TimeoutError:
                    self._workers()
        for future in futures:
            if future.status == "error":
                try:
                    future.result()
                except KilledWorker as error:
                    raise RuntimeError(_GAVE_UP) from error

    # -- workers -----------------------------------------------------------------------------------------------------

    def _workers(self) -> dict[str, int]:
        """Threads of every worker there is; waits for one."""
        deadline = time.monotonic() + _WAIT
        while self._client.status == "running":
            threads: dict[str, int] = self._client.nthreads()
            if threads:
                return threads
            if time.monotonic() > deadline:
                raise RuntimeError(f"The cluster has had no worker for {_WAIT} seconds: start workers, {_AGAIN}")
            time.sleep(0.2)
        raise RuntimeError(f"The connection to the Dask scheduler was lost: connect again, {_AGAIN}")

    def _formed_groups(self) -> list[Group]:
        """A group for every thread; chunks that must move for that are brought to their worker."""
        if not self._groups:
            self._threads = self._workers()
            self._wait(self._blocks)
            where = self._client.who_has(self._blocks)
            at = [next(iter(where.get(block.key, ())), "") for block in self._blocks]
            self._groups = balanced_groups(at, [hi - lo for lo, hi in self._spans], self._threads)
            for group in self._groups:
                for chunk in group.chunks:
                    if at[chunk] != group.worker:
                        self._blocks[chunk] = self._submit(group, _same, self._blocks[chunk])
        return self._groups


def balanced_groups(at: Sequence[str], rows: Sequence[int], threads: Mapping[str, int]) -> list[Group]:
    """Chunks of every thread: ``at[i]`` is the worker that has chunk i; it stays there up to a fair share of rows."""
    groups, homeless = [Group(worker, []) for worker, number in threads.items() for _ in range(number)], []
    fair, by_size = sum(rows) / len(groups), sorted(range(len(at)), key=lambda chunk: -rows[chunk])
    for chunk in by_size:
        room = [group for group in groups if group.worker == at[chunk] and group.rows + rows[chunk] / 2 <= fair]
        if room:
            min(room, key=lambda group: group.rows).take(chunk, rows[chunk])
        else:
            homeless.append(chunk)
    for chunk in homeless:
        min(groups, key=lambda group: group.rows).take(chunk, rows[chunk])
    return [group for group in groups if group.chunks]


def _same(value: Result) -> Result:
    """What was there, here."""
    return value


def _codes_of(pair: tuple[list[tuple[Array, object]], Addends], number: int) -> Array:
    return pair[0][number][0]
