"""Lanes on a `distributed` cluster: chunks and codes stay on the workers, one tree of small sums per order.

Every worker thread has one lane, a future that is changed in place, so that an order costs one task a thread and a
tree of sums, and refers to nothing that came before: the scheduler holds as many tasks after 500 iterations as after 5.

What makes up for changing futures in place is the clock of a lane and the log of orders here. Tasks with a lane run on
its worker only (elsewhere they would change a replica). A worker that is lost takes its lanes along, and their tasks
wait: whoever waits looks from time to time whether all workers are there. Lost lanes begin again on other workers, Dask
computes their chunks of X again, and they obey the log again, from a copy that another worker has of them (made every
now and then) or from the first order. The numbers are the same as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

import distributed

from dspnmf.backends.dask_partition import FAN_IN, Lane, Order, Recipe, Span, total

_EMBED = 2**20  # bytes of orders sent along with the tasks; larger ones are scattered, and workers pass them on
_COPY_EVERY = 50  # orders after which lanes are copied to another worker
_COPY_BYTES = 2**26  # or bytes of orders
_LOG_BYTES = 2**28  # bytes of orders kept, unless they are needed after the last copy
_TRIES = 10  # times an order is given again because workers were lost
_LOOK_UP = 2  # seconds without an answer until somebody looks whether all workers are there
_WAIT = 300  # seconds without any worker until a fit gives up
_GAVE_UP = (
    f"Workers were lost {_TRIES} times during one pass over X, so the fit gave up. Look for the cause in the workers' "
    "logs (often memory: use smaller chunks or more workers), then fit again."
)


@dataclass
class _Seat:
    """What is known here of a lane."""

    worker: str
    chunks: list[int]
    lane: Any = None  # future of the Lane
    copies: list[tuple[str, Any]] = field(default_factory=list)  # its last two: another worker, and a future there


@dataclass(frozen=True)
class _Behind:
    """Numbers of lanes that have missed orders, in place of a sum."""

    seats: frozenset[int]


class Cluster:
    """The chunks of a Dask array on the workers of a client, and the lanes that hold their codes."""

    def __init__(self, client: Any, blocks: Sequence[Any], spans: Sequence[Span], row_bytes: int) -> None:
        self.client = client
        self.spans = spans
        self.row_bytes = row_bytes
        self._sources = list(blocks)  # delayed
        self.blocks = client.compute(self._sources)  # futures, in the order of the rows
        self.clock = 0
        self._log: list[Order] = []
        self._copied = (0, 0)  # clocks of the copies, and of those before them
        self._seats = self._plan()

    def run(self, order: Order) -> tuple[Any, ...]:
        """Give an order to every lane; the sum of their answers."""
        clock = self.clock + order.changes
        for _ in range(_TRIES):
            try:
                answer = self._round(order, clock)
                if not isinstance(answer, _Behind):
                    break
                self._catch_up(answer.seats)
            except CancelledError:  # something was lost that Dask cannot compute again
                self._check_blocks()
        else:
            raise RuntimeError(_GAVE_UP)
        if order.changes:
            self.clock = clock
            self._log.append(order)
            self._copy()
        return answer

    def codes(self, recipe: Recipe, chunks: Iterable[int], unit: Any, k: int, scale: float) -> list[Any]:
        """Futures of the codes of some chunks, each on the worker that has the chunk."""
        chunks = list(chunks)
        if recipe.needs != "lane":
            spans = [self.spans[chunk] for chunk in chunks]
            blocks = [self.blocks[chunk] if recipe.needs == "X" else None for chunk in chunks]
            parts = [(Lane([span]), recipe.part([span]), 0, X) for span, X in zip(spans, blocks, strict=True)]
            return [self._submit(Lane.codes, *part, k, scale, unit) for part in parts]
        for _ in range(_TRIES):
            self.run(Order())  # lanes that are behind catch up
            at = {chunk: (seat, number) for seat in self._seats for number, chunk in enumerate(seat.chunks)}
            made = []
            for seat, number in (at[chunk] for chunk in chunks):
                arguments = (seat.lane, recipe, number, None, k, scale, unit)
                made.append(self._submit(Lane.codes, *arguments, worker=seat.worker))
            if self._wait(made):
                return made
        raise RuntimeError(_GAVE_UP)

    def here(self, block: Any) -> Any:
        """What a future stands for."""
        return block.result()

    # -- one order ---------------------------------------------------------------------------------------------------

    def _round(self, order: Order, clock: int) -> Any:
        sent = self._sent(order)
        parts = [self._obey(number, order, sent, clock) for number in range(len(self._seats))]
        while len(parts) > 1:
            parts = [self._submit(_total, *parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        return parts[0].result() if self._wait(parts) else _Behind(self._gone())

    def _wait(self, futures: Sequence[Any], *others: str) -> bool:
        """Wait for futures; False if a worker that has a lane (or one of the others named) is gone meanwhile."""
        while True:
            try:
                distributed.wait(futures, timeout=_LOOK_UP)
            except TimeoutError:
                if self._gone() or set(others) - set(self._threads()):
                    return False
            else:
                return True

    def _gone(self) -> frozenset[int]:
        """Numbers of the lanes whose worker is no longer there."""
        threads = self._threads()
        return frozenset(number for number, seat in enumerate(self._seats) if seat.worker not in threads)

    def _sent(self, order: Order) -> Any:
        """The order as tasks refer to it."""
        if order.nbytes * len(self._seats) <= _EMBED:
            return order
        return self.client.scatter(order, hash=False)

    def _obey(self, number: int, order: Order, sent: Any, clock: int, *, quiet: bool = False) -> Any:
        seat = self._seats[number]
        own = order.part([self.spans[chunk] for chunk in seat.chunks])
        blocks = [self.blocks[chunk] for chunk in seat.chunks]
        order = sent if own is order else own
        return self._submit(_obey, seat.lane, number, order, clock, quiet, *blocks, worker=seat.worker)

    def _submit(self, task: Any, *arguments: Any, worker: str | None = None) -> Any:
        """Submit a task, to one worker if it is named."""
        return self.client.submit(task, *arguments, pure=False, **({"workers": [worker]} if worker else {}))

    # -- where lanes are ---------------------------------------------------------------------------------------------

    def _plan(self) -> list[_Seat]:
        """A lane for every worker thread; chunks stay where they are as far as the threads then have alike to do."""
        distributed.wait(self.blocks)
        for block in self.blocks:
            if block.status == "error":
                block.result()  # raises what its source raised
        where = self.client.who_has(self.blocks)
        at = [next(iter(where.get(block.key, ())), "") for block in self.blocks]
        seats = []
        for worker, chunks in shares(at, [hi - lo for lo, hi in self.spans], self._threads()):
            self._bring([chunk for chunk in chunks if at[chunk] != worker], worker)
            seats.append(_Seat(worker, chunks, self._new_lane(worker, chunks)))
        return seats

    def _new_lane(self, worker: str, chunks: Sequence[int]) -> Any:
        return self._submit(Lane, [self.spans[chunk] for chunk in chunks], self.row_bytes, worker=worker)

    def _threads(self) -> dict[str, int]:
        """Threads of every worker there is; waits for one."""
        self.client.wait_for_workers(1, timeout=_WAIT)
        threads: dict[str, int] = self.client.nthreads()
        return threads

    def _least_busy(self, threads: Mapping[str, int]) -> str:
        lanes = [seat.worker for seat in self._seats]
        return min(threads, key=lambda worker: lanes.count(worker) / threads[worker])

    def _balance(self) -> None:
        """Where workers have joined, give them lanes of those that have more than they have threads."""
        threads = self._threads()
        for seat in self._seats:
            lanes = [other.worker for other in self._seats]
            to = self._least_busy(threads)
            if lanes.count(seat.worker) > threads.get(seat.worker, 0) and lanes.count(to) < threads[to]:
                lane = self._submit(Lane.copy, seat.lane, worker=to)
                if not self._wait([lane], to):
                    return
                seat.worker, seat.lane = to, lane
                self._bring(seat.chunks, to)

    def _bring(self, chunks: Sequence[int], worker: str) -> None:
        """Chunks to a worker, from wherever Dask has them or makes them."""
        for chunk in chunks:
            self.blocks[chunk] = self._submit(_same, self.client.compute(self._sources[chunk]), worker=worker)

    # -- lost workers ------------------------------------------------------------------------------------------------

    def _catch_up(self, numbers: frozenset[int]) -> None:
        """Let lanes that are behind obey the log again."""
        threads, since, others = self._threads(), {}, []
        for number in numbers:
            seat = self._seats[number]
            if seat.worker not in threads:
                seat.worker = ""  # counts no more
                seat.worker = self._least_busy(threads)
                self._bring(seat.chunks, seat.worker)
                seat.lane = self._new_lane(seat.worker, seat.chunks)
            copies = [(worker, copy) for worker, copy in seat.copies if copy.status == "finished"]
            others += [worker for worker, _ in copies]
            recover = self._submit(Lane.recover, seat.lane, *(copy for _, copy in copies), worker=seat.worker)
            since[number] = recover
        if not self._wait(list(since.values()), *others):
            return
        since = dict(zip(since, self.client.gather(list(since.values())), strict=True))
        first = self.clock - len(self._log)
        if min(since.values()) < first:
            raise RuntimeError(
                f"The codes of some rows were lost with their worker and with the worker that had a copy, and the "
                f"first {first} orders that made them are no longer kept. Fit again; on machines that fail often, "
                "with checkpoint=PATH, which goes on from the last checkpoint."
            )
        for clock in range(min(since.values()) + 1, self.clock + 1):
            order = self._log[clock - first - 1]
            sent = self._sent(order)
            late = [number for number in numbers if since[number] < clock]
            if not self._wait([self._obey(number, order, sent, clock, quiet=True) for number in late]):
                return

    def _check_blocks(self) -> None:
        """Whether X is still there, or can be computed again."""
        for (lo, hi), block in zip(self.spans, self.blocks, strict=True):
            if block.status in ("cancelled", "lost"):
                raise RuntimeError(
                    f"Rows {lo} to {hi} of X were lost with a worker and cannot be computed again, because they were "
                    "sent there as data (scatter). Make X from files or tasks (dask.array.from_zarr, from_delayed), "
                    "or fit again."
                )

    def _copy(self) -> None:
        """Every now and then copy lanes to another worker; forget what was logged before the copies before these."""
        first = self.clock - len(self._log)
        recent = self._log[self._copied[0] - first :]
        if len(recent) < _COPY_EVERY and sum(order.nbytes for order in recent) < _COPY_BYTES:
            return
        self._balance()
        workers = sorted(self._threads())
        for number, seat in enumerate(self._seats):
            others = [worker for worker in workers if worker != seat.worker]
            if others:
                there, copy = others[number % len(others)], self._submit(Lane.copy, seat.lane, worker=seat.worker)
                seat.copies = [*seat.copies[-1:], (there, self._submit(_same, copy, worker=there))]
        self._copied = (self.clock, self._copied[0])
        if sum(order.nbytes for order in self._log) > _LOG_BYTES:
            del self._log[: self._copied[1] - first]


def shares(at: Sequence[str], rows: Sequence[int], threads: Mapping[str, int]) -> list[tuple[str, list[int]]]:
    """Chunks of every worker thread: ``at[i]`` is the worker that has chunk i, ``rows[i]`` what it takes."""
    fair = sum(rows) / sum(threads.values())
    load, chunks, homeless = dict.fromkeys(threads, 0), {worker: list[int]() for worker in threads}, []
    for chunk, worker in enumerate(at):
        if worker in threads and load[worker] + rows[chunk] / 2 <= fair * threads[worker]:
            load[worker] += rows[chunk]
            chunks[worker].append(chunk)
        else:
            homeless.append(chunk)
    for chunk in sorted(homeless, key=lambda chunk: -rows[chunk]):
        worker = min(threads, key=lambda worker: (load[worker] + rows[chunk]) / threads[worker])
        load[worker] += rows[chunk]
        chunks[worker].append(chunk)
    lanes = []
    for worker, mine in chunks.items():
        split: list[list[int]] = [[] for _ in range(min(threads[worker], len(mine)))]
        for chunk in sorted(mine, key=lambda chunk: -rows[chunk]):
            min(split, key=lambda lane: sum(rows[other] for other in lane)).append(chunk)
        lanes += [(worker, sorted(lane)) for lane in split]
    return lanes


# -- tasks -------------------------------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    """What was there, here."""
    return value


def _obey(lane: Lane, number: int, order: Order, clock: int, quiet: bool, *blocks: Any) -> Any:
    answer = lane.obey(order, clock, blocks)
    if answer is None:
        return _Behind(frozenset([number]))
    return () if quiet else answer


def _total(*answers: Any) -> Any:
    behind = [answer.seats for answer in answers if isinstance(answer, _Behind)]
    return _Behind(frozenset().union(*behind)) if behind else total(answers)
