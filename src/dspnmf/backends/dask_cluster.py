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

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import dask
import distributed
import numpy as np
from dask.delayed import Delayed
from dask.sizeof import sizeof
from dask.utils import parse_timedelta
from distributed import Client, Future, KilledWorker

from dspnmf._typing import Array
from dspnmf.backends.dask_partition import Addends, Command, Span, apply, improve, on_rows, total, tree

Result = TypeVar("Result")
Group: TypeAlias = tuple[str, list[int]]  # a worker, and the chunks that one of its threads works on

_EMBED = 2**20  # bytes sent along with the tasks of a pass; more are scattered, and workers pass them on
_CHECKPOINT_EVERY = 8  # updates at least between two checkpoints
_CHECKPOINT_COST = 0.05  # of the time of a fit: checkpoints are rarer where they would take more
_CHECKPOINT_BYTES = 2**33  # larger codes stay on the workers; where they are lost, a descent is repeated from its start
_REPEATED = (on_rows, improve)  # updates of an iteration
_BATCH = 16  # chunks whose codes come here at once
_TRIES = 10  # times a pass is repeated because workers were lost
_POLL = 5  # seconds without a result until somebody looks whether there are workers
_WAIT = 40  # seconds without any worker until a fit gives up, unless Dask's own option for that is set
_WAIT_OPTION = "distributed.scheduler.no-workers-timeout"
_AGAIN = "then fit again; with checkpoint_path=PATH a fit goes on from its last checkpoint."
_GAVE_UP = (
    "Workers were lost again and again during one pass over X, so the fit gave up. Look for the cause in the workers' "
    f"logs (often memory: use smaller chunks or more workers), {_AGAIN}"
)


@dataclass(eq=False)
class ClusterStates:
    """The states of all chunks: how they are made, and futures of them where they were."""

    checkpoint: Sequence[Array] | None = None  # codes of every chunk; None: there were none
    updates: tuple[Command, ...] = ()  # since the checkpoint
    groups: Sequence[Group] = ()
    futures: list[Future] | None = None  # of what `apply` returns for every group; None: to be made


class ClusterExecutor:
    """The chunks of a Dask array on the workers of a client."""

    states = ClusterStates

    def __init__(self, client: Client, blocks: Sequence[Delayed], spans: Sequence[Span]) -> None:
        self._client, self._spans = client, spans
        self._blocks: list[Future] = client.compute(list(blocks))  # in the order of the rows
        self._groups: list[Group] = []  # none: to be formed
        self._threads: dict[str, int] = {}  # of the workers when groups were formed
        self._checkpoint_end = self._checkpoint_seconds = 0.0

    def apply(self, command: Command, states: ClusterStates | None = None) -> tuple[ClusterStates, Addends]:
        """Next states, and the sums over all chunks: two tasks for every group, and a tree; the last few sums here."""
        old = states or ClusterStates()

        def work() -> tuple[ClusterStates, Addends]:
            futures = self._apply(command, old.groups, old.futures)
            sums = [self._submit(itemgetter(1), pair) for pair in futures]
            new = ClusterStates(old.checkpoint, (*old.updates, command), old.groups, futures)
            return new, total(*self._gather(tree(partial(self._submit, total), sums, 8)))

        new, sums = self._insist(work, old)
        self._consider_checkpoint(new)
        return new, sums

    def codes(self, states: ClusterStates) -> Iterator[Array]:
        """The codes of one chunk after the other; a few chunks come here at a time."""
        for first in range(0, len(self._spans), _BATCH):

            def work(wanted: range = range(first, min(first + _BATCH, len(self._spans)))) -> list[Array]:
                made: dict[int, tuple[Future, int]] = {}
                for (_, chunks), pair in zip(states.groups, states.futures or (), strict=True):
                    made |= {chunk: (pair, number) for number, chunk in enumerate(chunks)}
                return self._gather([self._submit(lambda pair, i: pair[0][i][0], *made[chunk]) for chunk in wanted])

            yield from self._insist(work, states)

    def _insist(self, work: Callable[[], Result], states: ClusterStates) -> Result:
        """The result of some work, repeated where something was lost; makes states that are not there."""
        for _ in range(_TRIES):
            try:
                if states.futures is None:
                    self._make(states)
                return work()
            except CancelledError:  # something is gone that Dask cannot compute again
                self._check_chunks()
                self._groups, states.futures = [], None
        raise RuntimeError(_GAVE_UP)

    def _make(self, states: ClusterStates) -> None:
        """States from their checkpoint, or from nothing, by the updates since."""
        groups, futures = self._formed_groups(), None
        if (codes := states.checkpoint) is not None:
            pairs = [(worker, ([(codes[chunk], None) for chunk in chunks], ())) for worker, chunks in groups]
            futures = [self._scatter(pair, [worker]) for worker, pair in pairs]
        for update in states.updates:
            futures = self._apply(update, groups, futures)
        states.groups, states.futures = groups, futures

    def _consider_checkpoint(self, states: ClusterStates) -> None:
        """If it is time, keep the codes, without the last direction; then let new workers take part."""
        begin, last = time.monotonic(), states.updates[-1]
        affordable = self._checkpoint_seconds <= _CHECKPOINT_COST * (begin - self._checkpoint_end)
        model, look = last.keywords.get("model"), last.func is on_rows
        if len(states.updates) <= _CHECKPOINT_EVERY or not affordable or model is None or last.func not in _REPEATED:
            return
        if self._spans[-1][1] * (model.S if look else model.Vt)[0].nbytes > _CHECKPOINT_BYTES:
            return
        again = (partial(last, t=0.0),) if look else ()  # makes the direction; improved codes are all there is
        states.checkpoint, states.updates = list(self.codes(states)), again
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
                    "nowhere else (scattered, or persisted and then cancelled). Make X from files or tasks "
                    "(dask.array.from_zarr, from_delayed), or send it again, then fit again."
                )

    def _apply(self, command: Command, groups: Sequence[Group], before: list[Future] | None) -> list[Future]:
        """A task for every group; what nothing comes before depends on something scattered."""
        sent: object = command
        if before is None or len(groups) * sizeof(command.keywords) > _EMBED:
            sent = self._scatter(command)
        made = []
        for (worker, chunks), old in zip(groups, before or [None] * len(groups), strict=True):
            spans, blocks = ([of[chunk] for chunk in chunks] for of in (self._spans, self._blocks))
            made.append(self._submit(apply, sent, spans, old, *blocks, at=worker))
        return made

    def _submit(self, task: Callable[..., object], *arguments: object, at: str | None = None) -> Future:
        """A task for a worker; for any other where that is gone."""
        return self._client.submit(task, *arguments, pure=False, workers=at, allow_other_workers=at is not None)

    def _scatter(self, value: object, workers: list[str] | None = None) -> Future:
        try:
            sent = self._begin(self._client.scatter([value], workers=workers, hash=False, asynchronous=True))
            return sent.result()[0]  # an interrupt does not end it halfway: Dask would never forget what was sent
        except (OSError, TimeoutError, KeyError) as error:  # no such worker any more
            raise CancelledError from error

    def _begin(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Work of the client, in its own thread."""
        return asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)

    def _gather(self, futures: list[Future]) -> list[Any]:
        """Results of tasks, or what they raised; looks now and then whether there are workers.

        Futures are released, because the client keeps what they raised, whose traceback would keep all others alive.
        """
        results = self._begin(self._client.gather(futures, asynchronous=True))
        try:
            while not concurrent.futures.wait([results], _POLL).done:
                self._workers()
            return results.result()
        except KilledWorker as error:
            raise RuntimeError(_GAVE_UP) from error
        finally:
            results.cancel()
            for future in futures:
                future.release()

    def _wait(self, futures: list[Future]) -> None:
        """Wait for tasks; look now and then whether there are workers."""
        while True:
            with suppress(TimeoutError), self._client.as_current():
                distributed.wait(futures, timeout=_POLL)
                return
            self._workers()

    def _workers(self) -> dict[str, int]:
        """Threads of every worker there is; waits for one."""
        patience = parse_timedelta(dask.config.get(_WAIT_OPTION, None) or _WAIT)
        deadline = time.monotonic() + patience
        while self._client.status == "running":
            threads: dict[str, int] = self._client.nthreads()
            if threads:
                return threads
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"The cluster has had no worker for {patience:g} seconds: start workers (where that takes longer, "
                    f'dask.config.set({{"{_WAIT_OPTION}": "10 minutes"}})), {_AGAIN}'
                )
            time.sleep(0.2)
        raise RuntimeError(f"The connection to the Dask scheduler was lost: connect again, {_AGAIN}")

    def _formed_groups(self) -> list[Group]:
        """A group for every thread; chunks that must move for that are brought to their worker."""
        if not self._groups:
            self._threads = self._workers()
            self._wait(self._blocks)
            where = self._client.who_has(self._blocks)
            at = [next(iter(where.get(block.key, ())), "") for block in self._blocks]
            self._groups = fair_groups(at, [hi - lo for lo, hi in self._spans], self._threads)
            for chunk, worker in ((chunk, worker) for worker, chunks in self._groups for chunk in chunks):
                if at[chunk] != worker:  # a task, because mere copies would be dropped again
                    self._blocks[chunk] = self._submit(lambda block: block, self._blocks[chunk], at=worker)
        return self._groups


def fair_groups(at: Sequence[str], rows: Sequence[int], threads: Mapping[str, int]) -> list[Group]:
    """Chunks of every thread, about as many rows for each; ``at[i]`` is the worker that has chunk i."""
    slots = [worker for worker in sorted(threads) for _ in range(threads[worker])]
    by_worker = sorted(range(len(at)), key=lambda chunk: at[chunk])
    sizes = np.array(rows)[by_worker]
    cuts = np.searchsorted(np.cumsum(sizes) - sizes / 2, np.arange(1, len(slots)) * sizes.sum() / len(slots))
    shares = np.split(np.array(by_worker), cuts)
    return [(worker, share.tolist()) for worker, share in zip(slots, shares, strict=True) if len(share)]
