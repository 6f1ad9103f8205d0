"""What happens to a chunk of X and its codes, and Dask's schedulers for one machine: threads, processes, synchronous.

The state of a chunk is a pair (U, D): its codes, and the direction of the last look (None: none yet). A `Command` makes
the next state of a copy of the last one, and sums for the solver. `apply` changes nothing it is given, so it can be
repeated, anywhere, with the same result. `LocalExecutor` computes (reads) chunks of X again for every pass, so X may be
larger than memory unless it was persisted; the states of all chunks stay in this process.
"""

from __future__ import annotations

import signal
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from operator import add, itemgetter
from typing import Any, TypeAlias, TypeVar

import dask
import dask.multiprocessing
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse

from dspnmf import _validation
from dspnmf._threads import alone
from dspnmf._typing import Array, ArrayLike, Matrix
from dspnmf.backends import kernels, norms
from dspnmf.backends.chunk_facts import ChunkFacts
from dspnmf.backends.memory_divergence import MemoryDivergenceRows
from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.row_model import DivergenceModel, RandomCodes, RowModel

Span: TypeAlias = tuple[int, int]  # first row of a chunk, and the one after its last
State: TypeAlias = Any  # (U, D), or None where a chunk has no codes yet
Addends: TypeAlias = tuple[Any, ...]  # sums over rows: `total` adds such tuples up
Command: TypeAlias = partial[tuple[State, Addends]]  # (X, span, state) -> next state and sums
Method: TypeAlias = Callable[..., object]  # of `MemoryRows`
Part = TypeVar("Part")


def draw(X: ArrayLike, span: Span, state: State, *, random: RandomCodes) -> tuple[State, Addends]:
    """Random codes: nothing but the seed is sent."""
    return (random(*span), None), ()


def solve(X: ArrayLike, span: Span, state: State, *, model: RowModel, k: int, scale: float) -> tuple[State, Addends]:
    """The minimiser of a model for every row, solved to rounding."""
    return (MemoryRows(as_block(X), k, scale).solve(model), None), ()


def multiply(X: ArrayLike, span: Span, state: State, *, factors: Array) -> tuple[State, Addends]:
    """Codes times a number, or a number for every component."""
    U = state[0]
    return ((U * factors.astype(np.float64)).astype(U.dtype), None), ()


def take_step(X: ArrayLike, span: Span, state: State, *, t: float) -> tuple[State, Addends]:
    """U + t D, and no direction."""
    U, D = state
    kernels.take_step(U, D, t, 0, len(U))
    return (U, None), ()


def on_rows(
    X: ArrayLike, span: Span, state: State, *, method: Method, scale: float, t: float = 0.0, **arguments: object
) -> tuple[State, Addends]:
    """What a method of rows in memory returns for a chunk, after a step along its direction."""
    rows = MemoryRows(as_block(X), state[0].shape[1], scale)
    rows._U, rows._D = state
    rows.step(t)
    sums = method(rows, **arguments)
    return state, sums if isinstance(sums, tuple) else (sums,)


def improve(
    X: ArrayLike, span: Span, state: State, *, model: DivergenceModel, sweeps: int, scale: float
) -> tuple[State, Addends]:
    """Codes improved by sweeps, errors measured by a divergence, and the `DivergenceSums` they leave."""
    rows = MemoryDivergenceRows(as_block(X), state[0].shape[1], scale)
    rows._U = state[0]
    sums = rows.improve(model, sweeps)
    return (rows._U, None), tuple(sums)


def solve_divergence(
    X: ArrayLike, span: Span, state: State, *, model: DivergenceModel, k: int, scale: float
) -> tuple[State, Addends]:
    """The minimiser of a model for every row; from its codes, or where it has none from the best constant."""
    rows = MemoryDivergenceRows(as_block(X), k, scale)
    if state is not None:
        rows._U = state[0]
    elif model.beta <= 0 and zeros(X, span, state)[1][0]:
        raise ValueError(_validation.ZEROS.format(loss=model.beta))
    return (rows.solve_divergence(model, fresh=state is None), None), ()


def zeros(X: ArrayLike, span: Span, state: State) -> tuple[State, Addends]:
    """How many cells are zero."""
    block = as_block(X)
    stored = block.data if sparse.issparse(block) else block
    return state, (int((stored == 0).sum()) + block.shape[0] * block.shape[1] - stored.size,)


def as_block(X: ArrayLike) -> Matrix:
    """A chunk as `MemoryRows` take it, in float64 unless it is float32: an array, or CSR."""
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    if not hasattr(X, "tocsr"):  # sparse arrays of other libraries have it too
        return np.asarray(X).astype(dtype, copy=False)
    X = X.tocsr().astype(dtype, copy=False)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def with_column(X: ArrayLike, value: float) -> Matrix:
    """A chunk with one more column, of a number."""
    X = as_block(X)
    column = np.full((X.shape[0], 1), value, X.dtype)
    return sparse.csr_array(sparse.hstack([X, column], format="csr")) if sparse.issparse(X) else np.hstack([X, column])


def facts(X: ArrayLike, span: Span, state: State, *, missing: bool = False) -> tuple[State, Addends]:
    """`ChunkFacts`, with row numbers of all of X; if cells may be `missing`, those of the known ones.

    Then also the sums of the columns over these, and how many cells every column misses.
    """
    block = as_block(X)
    if not missing:
        return state, (ChunkFacts.of(block, span[0]),)
    known, lost = known_cells(block)
    return state, (ChunkFacts.of(known, span[0]), np.asarray(known.sum(axis=0, dtype=np.float64)).ravel(), lost)


def known_cells(X: Matrix) -> tuple[Matrix, NDArray[np.intp]]:
    """X with zeros in place of missing cells, and their number in every column."""
    if sparse.issparse(X):
        gone = np.isnan(X.data)
        known = sparse.csr_array((np.where(gone, 0, X.data), X.indices, X.indptr), X.shape)
        return known, np.bincount(X.indices[gone], minlength=X.shape[1]).astype(np.intp)
    gone = np.isnan(X)
    return np.where(gone, X.dtype.type(0), X), np.count_nonzero(gone, axis=0).astype(np.intp)


def gram_stripe(
    X: ArrayLike, span: Span, state: State, *, width: int, lo: int, hi: int, unit: float
) -> tuple[State, Addends]:
    """Columns of X'X, without what stands behind the first `width` columns of a chunk."""
    block = as_block(X)
    return state, (norms.gram_stripe(block if block.shape[1] == width else block[:, :width], lo, hi, unit),)


def apply(
    command: Command, spans: Sequence[Span], before: tuple[list[State], Addends] | None, *blocks: ArrayLike
) -> tuple[list[State], Addends]:
    """The task: next states, and the sums over some chunks, on one thread, because every other has its own."""
    with alone():
        states = _copies(before[0]) if before else [None] * len(blocks)
        made = [command(X, span, state) for X, span, state in zip(blocks, spans, states, strict=True)]
        return [state for state, _ in made], total(*(sums for _, sums in made))


def _copies(states: Sequence[State]) -> Iterator[State]:
    """States that may be changed, with a direction; in two large pieces, which cost a third of many small ones."""
    cuts = np.cumsum([len(U) for U, _ in states])[:-1]
    U = np.concatenate([U for U, _ in states])
    D = [D for _, D in states if D is not None]
    return zip(np.split(U, cuts), np.split(np.concatenate(D) if D else np.zeros_like(U), cuts), strict=True)


def total(*parts: Addends) -> Addends:
    """Sums added up."""
    return tuple(reduce(add, column) for column in zip(*parts, strict=True))


def tree(task: Callable[..., Part], parts: list[Part], most: int) -> list[Part]:
    """At most that many parts: eight at a time become one by a task for `total`."""
    while len(parts) > most:
        parts = [task(*parts[i : i + 8]) for i in range(0, len(parts), 8)]
    return parts


class LocalExecutor:
    """The chunks of a Dask array on a scheduler of this machine; processes are started once."""

    def __init__(self, blocks: Sequence[Delayed], spans: Sequence[Span]) -> None:
        self._blocks, self._spans = blocks, spans
        self._options: dict[str, Any] = {}
        scheduler = dask.base.get_scheduler(collections=blocks)
        if scheduler is dask.multiprocessing.get and not dask.config.get("pool", None):
            workers = dask.config.get("num_workers", None)
            self._options["pool"] = ProcessPoolExecutor(
                workers,
                dask.multiprocessing.get_context(),
                signal.signal,  # Ctrl-C in a terminal is for this process
                (signal.SIGINT, signal.SIG_IGN),
            )
            weakref.finalize(self, self._options["pool"].shutdown)

    def states(self, codes: Iterable[Array]) -> list[State]:
        """The states a descent begins with, with codes of every chunk."""
        return [(U, None) for U in codes]

    def apply(self, command: Command, states: list[State] | None = None) -> tuple[list[State], Addends]:
        """Next states, and the sums over all chunks: one task for every chunk, and a tree."""
        task, first, second, add = (dask.delayed(f, pure=False) for f in (apply, itemgetter(0), itemgetter(1), total))
        sent = dask.delayed(command, traverse=False)
        before = [
            state and dask.delayed(([state], ()), traverse=False) for state in states or [None] * len(self._spans)
        ]
        pairs = [task(sent, [span], *rest) for span, *rest in zip(self._spans, before, self._blocks, strict=True)]
        sums = tree(add, [second(pair) for pair in pairs], 1)
        new, (total_sums,) = dask.compute([first(pair) for pair in pairs], sums, **self._options)
        return [state for (state,) in new], total_sums

    def codes(self, states: list[State]) -> Iterator[Array]:
        """The codes of one chunk after the other."""
        return (U for U, _ in states)
