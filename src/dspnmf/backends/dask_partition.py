"""What happens where the chunks of X are: a lane holds the codes of some chunks, and obeys orders.

A lane is work for one thread. It is changed in place, never copied between iterations; what it answers is small. Orders
that change a lane are numbered: its `clock` says which was the last, so an order that comes twice (because the answer
was lost on the way) is not obeyed twice, and a lane that is behind (because it was lost and begun again) says so.

Nothing here knows Dask.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf._threads import alone
from dspnmf.backends.memory import ArrayRows, _kernels
from dspnmf.backends.row_model import Array, RandomCodes, RowModel

Span = tuple[int, int]  # first row, and the one after the last
FAN_IN = 8  # sums added up by one task


class Lane:
    """Codes of some chunks of rows."""

    def __init__(self, spans: Sequence[Span], row_bytes: int = 0) -> None:
        self.spans = tuple(spans)
        self.clock = 0
        self.answer: Any = None
        self.U: list[Array] = []
        self.D: list[Array] = []
        self.held: dict[int, list[Array]] = {}  # codes kept under a number
        self._bytes = row_bytes * sum(hi - lo for lo, hi in self.spans)
        self._lock = threading.Lock()

    def __sizeof__(self) -> int:
        return max(self._bytes, 1024)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def obey(self, order: Order, clock: int, blocks: Sequence[Any]) -> tuple[Any, ...] | None:
        """The answer to an order; None where an earlier one is missing."""
        with self._lock, alone():
            if not order.changes:
                return order.run(self, blocks) if clock == self.clock else None
            if clock == self.clock + 1:
                self.clock = -1  # until it is done: what is half done is lost
                self.answer = order.run(self, blocks)
                self.clock = clock
            return self.answer if clock == self.clock else None

    def copy(self) -> Lane:
        """The lane as it is now; changing one does not change the other."""
        with self._lock:
            twin = Lane(self.spans)
            twin.__dict__.update(self.__getstate__())
            twin.U, twin.D = [U.copy() for U in self.U], [D.copy() for D in self.D]
            twin.held = {name: twin.U if codes is self.U else codes for name, codes in self.held.items()}
            return twin

    def recover(self, *copies: Lane) -> int:
        """Go on from a copy where one is ahead, from nothing where an order was left half done; the clock then."""
        with self._lock:
            source = max([Lane(self.spans), *copies], key=lambda copy: copy.clock)
            if source.clock > self.clock:
                self.__dict__.update(source.copy().__getstate__())
            return self.clock

    def codes(self, recipe: Recipe, number: int, X: Any, k: int, scale: float, unit: Array | None) -> Array:
        """Codes of a chunk for the user, in the units given; X is looked at if the recipe says so."""
        with alone():
            codes = recipe.make(self, number, X, k, scale)
        return codes.copy() if unit is None else codes * unit.astype(codes.dtype)

    def writable(self) -> list[Array]:
        """The codes, apart from those that are kept."""
        if any(codes is self.U for codes in self.held.values()):
            self.U = [U.copy() for U in self.U]
        return self.U


class Chunk(ArrayRows):
    """One chunk of X and its codes, for as long as an order takes."""

    def __init__(self, X: Any, k: int, scale: float, codes: Array | None = None) -> None:
        super().__init__(as_block(X), k, scale)
        if codes is not None:
            self._U = codes

    def sweep(self, model: RowModel, U: Array, D: Array, t: float, sweeps: int, stretch: float) -> tuple[Any, ...]:
        """As `look`, but the sums bare: X'D, U'D, D'D, and what the first and the last sweep changed."""
        S, M, *_ = self._cast(model)
        arrays = (None, None, U, D)
        (sums,) = self._with_X(_kernels().look, 0.0, arrays, None, t, M, S, last=(sweeps, stretch))
        return (sums[0] / self.scale, *sums[1:])


def as_block(X: Any, dtype: Any = None) -> Any:
    """A chunk as `ArrayRows` take it, in float64 unless it is float32 (or what is asked for): an array, or CSR."""
    if not sparse.issparse(X):
        if hasattr(X, "tocsr"):  # other libraries' sparse arrays
            X = X.tocsr()
        else:
            X = np.asarray(X)
            return X.astype(dtype or _float(X.dtype), copy=False)
    X = X.tocsr().astype(dtype or _float(X.dtype), copy=False)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _float(dtype: Any) -> Any:
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def total(answers: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Answers added up."""
    return tuple(reduce(add, column) for column in zip(*answers, strict=True))


# -- where codes come from ---------------------------------------------------------------------------------------------


class Recipe:
    """How the codes of any rows are made."""

    needs: ClassVar[str] = ""  # "X", "lane" or neither

    def part(self, spans: Sequence[Span]) -> Recipe:
        """What is needed of it for some rows."""
        return self

    def make(self, lane: Lane, number: int, X: Any, k: int, scale: float) -> Array:
        """Codes of a lane's chunk."""
        raise NotImplementedError


@dataclass(frozen=True)
class Drawn(Recipe):
    """At random, then multiplied."""

    start: RandomCodes
    factors: tuple[float, ...] = ()

    def make(self, lane: Lane, number: int, X: Any, k: int, scale: float) -> Array:
        """Drawn here: nothing but the seed is sent."""
        codes = self.start(*lane.spans[number])
        for factor in self.factors:
            codes *= factor
        return codes


@dataclass(frozen=True)
class Given(Recipe):
    """Handed over; `blocks` maps spans to codes (an empty chunk shares its first row with the next)."""

    blocks: dict[Span, Array]

    def part(self, spans: Sequence[Span]) -> Recipe:
        """The blocks of these rows."""
        return Given({span: self.blocks[span] for span in spans})

    def make(self, lane: Lane, number: int, X: Any, k: int, scale: float) -> Array:
        """A copy, because codes are changed in place."""
        return np.array(self.blocks[lane.spans[number]], order="C")


@dataclass(frozen=True)
class Solved(Recipe):
    """The minimiser of a model for every row."""

    needs = "X"
    model: RowModel

    def make(self, lane: Lane, number: int, X: Any, k: int, scale: float) -> Array:
        """Solved to rounding."""
        return Chunk(X, k, scale).solve(self.model)


@dataclass(frozen=True)
class Held(Recipe):
    """Kept in the lanes under a number."""

    needs = "lane"
    name: int

    def make(self, lane: Lane, number: int, X: Any, k: int, scale: float) -> Array:
        """The codes themselves: who changes them copies them first."""
        return lane.held[self.name][number]


# -- orders ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """Something to do with every chunk of a lane; this one asks nothing."""

    changes: ClassVar[bool] = False  # whether the lane is another one afterwards

    @property
    def nbytes(self) -> int:
        """Roughly what it takes to send or keep it."""
        return 1024

    def part(self, spans: Sequence[Span]) -> Order:
        """The same for a lane with these rows."""
        return self

    def run(self, lane: Lane, blocks: Sequence[Any]) -> tuple[Any, ...]:
        """What is to be added up over all lanes."""
        return total([self.ask(lane, number, X) for number, X in enumerate(blocks)])

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """The same for a chunk."""
        return ()


@dataclass(frozen=True)
class Begin(Order):
    """Start from these codes."""

    changes = True
    recipe: Recipe
    k: int
    scale: float

    def part(self, spans: Sequence[Span]) -> Order:
        """With the codes of these rows only."""
        return replace(self, recipe=self.recipe.part(spans))

    def run(self, lane: Lane, blocks: Sequence[Any]) -> tuple[Any, ...]:
        """Answers nothing."""
        make = self.recipe.make
        lane.U = [make(lane, number, X, self.k, self.scale) for number, X in enumerate(blocks)]
        lane.D = []
        if isinstance(self.recipe, Held):
            lane.U = lane.held[self.recipe.name]
        return ()


@dataclass(frozen=True)
class Settle(Order):
    """Take the pending step, keep the codes under a number, forget others."""

    changes = True
    t: float = 0.0
    keep: int | None = None
    forget: tuple[int, ...] = ()

    def run(self, lane: Lane, blocks: Sequence[Any]) -> tuple[Any, ...]:
        """Answers nothing."""
        for name in self.forget:
            lane.held.pop(name, None)
        if self.t and lane.D:
            for U, D in zip(lane.writable(), lane.D, strict=True):
                _kernels().take_step(U, D, self.t, 0, len(U))
        if self.keep is not None:
            lane.held[self.keep] = lane.U
        return ()


@dataclass(frozen=True)
class Look(Order):
    """The pending step, then the sweeps of a look: leaves the direction with the lane."""

    changes = True
    model: RowModel
    scale: float
    t: float
    sweeps: int
    stretch: float

    @property
    def nbytes(self) -> int:
        """That of the model."""
        return int(self.model.S.nbytes + self.model.M.nbytes)

    def run(self, lane: Lane, blocks: Sequence[Any]) -> tuple[Any, ...]:
        """X'D, U'D, D'D, what the first sweep changed and the last."""
        lane.writable()
        lane.D = lane.D or [np.zeros_like(U) for U in lane.U]
        return super().run(lane, blocks)

    def ask(self, lane: Lane, number: int, X: Any) -> tuple[Any, ...]:
        """Of a chunk."""
        U, D = lane.U[number], lane.D[number]
        chunk = Chunk(X, U.shape[1], self.scale)
        return chunk.sweep(self.model, U, D, self.t, self.sweeps, self.stretch)
