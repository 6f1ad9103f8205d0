"""What happens to a chunk of X and its codes: pure functions, and nothing here knows Dask.

The state of a chunk is a pair (U, D): its codes, and the direction of the last look (None: none yet). An `Update` makes
a new state of a copy of the old one, and sums for the solver; a `Reduction` makes sums only. The tasks that apply them
change nothing they are given, so each can be repeated, on any worker, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from dspnmf._threads import alone
from dspnmf._typing import Array, ArrayLike, Matrix
from dspnmf.backends import kernels, norms
from dspnmf.backends.chunk_facts import ChunkFacts
from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.row_model import RandomCodes, RowModel

FAN_IN = 8  # sums added up by one task
Span: TypeAlias = tuple[int, int]  # first row of a chunk, and the one after its last
State: TypeAlias = tuple[Array, Array | None]
Addends: TypeAlias = tuple[Any, ...]  # sums over rows: `total` adds such tuples up
Update: TypeAlias = partial[tuple[State, Addends]]  # (X, span, state) -> new state and sums
Reduction: TypeAlias = partial[Addends]  # (X, span, codes or None) -> sums
Task: TypeAlias = Callable[..., object]
Before: TypeAlias = tuple[list[State], Addends] | None  # what `update_chunks` returned
States = TypeVar("States")


class Executor(Protocol[States]):
    """Applies updates and reductions to all chunks; `States` are those of all chunks, wherever they are kept."""

    def states(self, start: Update | Sequence[Array]) -> States:
        """The states a descent begins with: made of X, or with codes that are given for every chunk."""

    def update(self, update: Update, states: States) -> tuple[States, Addends]:
        """New states, and the sums over all chunks; the old states stay as they are."""

    def reduce(self, reduction: Reduction, states: States | None = None) -> Addends:
        """The sums over all chunks."""

    def codes(self, states: States) -> Iterator[Array]:
        """The codes of one chunk after the other, for the host."""


# -- updates: the first three make the first state ---------------------------------------------------------------------


def draw(X: ArrayLike, span: Span, state: None, *, random: RandomCodes) -> tuple[State, Addends]:
    """Random codes: nothing but the seed is sent."""
    return (random(*span), None), ()


def solve(X: ArrayLike, span: Span, state: None, *, model: RowModel, k: int, scale: float) -> tuple[State, Addends]:
    """The minimiser of a model for every row, solved to rounding."""
    return (MemoryRows(as_block(X), k, scale).solve(model), None), ()


def multiply(X: ArrayLike, span: Span, state: None, *, start: Update, factors: Array) -> tuple[State, Addends]:
    """Other codes times a number, or a number for every component."""
    (U, _), _ = start(X, span, state)
    return (U * factors.astype(U.dtype), None), ()


def take_step(X: ArrayLike, span: Span, state: State, *, t: float) -> tuple[State, Addends]:
    """U + t D, and no direction."""
    U, D = state
    if D is not None:
        kernels.take_step(U, D, t, 0, len(U))
    return (U, None), ()


def look(
    X: ArrayLike, span: Span, state: State, *, model: RowModel, scale: float, t: float, sweeps: int, stretch: float
) -> tuple[State, Addends]:
    """The pending step, then the sweeps of `Rows.look`; its sums, and squared changes of the first and last sweep."""
    chunk = Chunk(X, *state, scale)
    chunk.step(t)
    return state, chunk.swept(model, sweeps, stretch)


class Chunk(MemoryRows):
    """The rows of a chunk with these codes and this direction."""

    def __init__(self, X: ArrayLike, U: Array, D: Array | None, scale: float) -> None:
        super().__init__(as_block(X), U.shape[1], scale)
        self._U, self._D = U, self._D if D is None else D


def as_block(X: ArrayLike, dtype: DTypeLike | None = None) -> Matrix:
    """A chunk as `MemoryRows` take it, in float64 unless it is float32 (or what is asked for): an array, or CSR."""
    dtype = dtype or (X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if not hasattr(X, "tocsr"):  # sparse arrays of other libraries have it too
        return np.asarray(X).astype(dtype, copy=False)
    X = X.tocsr().astype(dtype, copy=False)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


# -- reductions --------------------------------------------------------------------------------------------------------


def facts(X: ArrayLike, span: Span, U: None) -> Addends:
    """`ChunkFacts`, with row numbers of all of X."""
    return (ChunkFacts.of(as_block(X), span[0]),)


def gram_stripe(X: ArrayLike, span: Span, U: None, *, lo: int, hi: int, unit: float) -> Addends:
    """Columns of X'X."""
    return (norms.gram_stripe(as_block(X), lo, hi, unit),)


def sums(X: ArrayLike, span: Span, U: Array, *, scale: float) -> Addends:
    """P = X'U and Q = U'U."""
    return Chunk(X, U, None, scale).sums()[:2]


def residual2(X: ArrayLike, span: Span, U: Array, *, Vt: Array, scale: float) -> Addends:
    """||X - UV||^2."""
    return (Chunk(X, U, None, scale).residual2(Vt),)


def triangle(X: ArrayLike, span: Span, U: Array, *, scale: float) -> Addends:
    """The triangular factor of [X U]."""
    return (Triangle(Chunk(X, U, None, scale).triangle()),)


class Triangle(NamedTuple):
    """The triangular factor R of some rows; a sum is the factor of the rows of both."""

    R: Array

    def __add__(self, other: Triangle) -> Triangle:  # type: ignore[override]
        R: Any = np.linalg.qr(np.vstack([self.R, other.R]), mode="r")
        return Triangle(R)


# -- tasks: some chunks, on one thread, because every other has its own ------------------------------------------------


def update_chunks(
    update: Update, spans: Sequence[Span], before: Before, *blocks: ArrayLike
) -> tuple[list[State], Addends]:
    """New states, and the sums over these chunks."""
    with alone():
        states = _copies(before[0]) if before else [None] * len(blocks)
        made = [update(X, span, state) for X, span, state in zip(blocks, spans, states, strict=True)]
        return [state for state, _ in made], total(*(sums for _, sums in made))


def _copies(states: Sequence[State]) -> Iterator[State]:
    """States that may be changed, with a direction; in two large pieces, which cost a fraction of many small ones."""
    cuts = np.cumsum([len(U) for U, _ in states])[:-1]
    U = np.concatenate([U for U, _ in states])
    D = [D for _, D in states if D is not None]
    return zip(np.split(U, cuts), np.split(np.concatenate(D) if D else np.zeros_like(U), cuts), strict=True)


def reduce_chunks(reduction: Reduction, spans: Sequence[Span], before: Before, *blocks: ArrayLike) -> Addends:
    """The sums over these chunks."""
    with alone():
        codes = [U for U, _ in before[0]] if before else [None] * len(blocks)
        return total(*(reduction(X, span, U) for X, span, U in zip(blocks, spans, codes, strict=True)))


def total(*parts: Addends) -> Addends:
    """Sums added up."""
    return tuple(reduce(add, column) for column in zip(*parts, strict=True))
