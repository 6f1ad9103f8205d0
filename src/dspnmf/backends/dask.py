"""Dask arrays: chunks of rows, dense or sparse, on any Dask scheduler.

Requirements: X is n x m, chunked by rows (columns are joined, with a warning). Chunks stay where Dask has them, the
states of their codes next to them (`dspnmf.backends.dask_partition`); one tree reduction of (m + 2k) k numbers brings
the sums of a look here. Only `hals` works, and errors measured by a divergence: they need nothing but that. Codes come
back as a Dask array with the row chunks of X, made of X's own graph or of codes in this process, so that Dask can
compute them again on any worker.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dspnmf import _validation
from dspnmf._threads import alone
from dspnmf._typing import Array, ArrayLike
from dspnmf.backends import dask_partition as partition
from dspnmf.backends import norms
from dspnmf.backends.base_data import BaseData
from dspnmf.backends.incomplete import means_of_known
from dspnmf.backends.memory import MemoryBackend, on_host
from dspnmf.backends.memory_rows import TRIANGLE, MemoryRows, Triangle, rounding_of_looks
from dspnmf.backends.protocol import Backend, Capability, DivergenceRows, Rows
from dspnmf.backends.row_model import (
    Completion,
    DivergenceModel,
    DivergenceSums,
    Operator,
    RandomCodes,
    RowModel,
    Sums,
    Ties,
)
from dspnmf.backends.small_arrays import HOST, Small

_KEPT = 2**26  # bytes of codes that come to this process where X can be lost with the cluster's memory
_STRIPE = {False: 2**22, True: 2**25}  # numbers of X'X summed at once, if X is dense and if it is sparse


class DaskData(BaseData):
    """A checked Dask array, float, chunked by rows only; Dask begins to compute it when `executor` is first used."""

    def __init__(self, X: da.Array, method: str) -> None:
        super().__init__(X, X.shape, np.dtype(X.dtype), DaskBackend(), math.nan)
        self.method = method  # the estimator's name, for messages
        self.chunks = X  # X and the columns it was widened by
        self.missing = False  # whether NaN is a missing cell
        self.filled = 0.0  # sum of the missing cells at the means of their columns, in the user's unit
        self.lasting = True  # whether X can be computed from its graph alone, as far as known

    @cached_property
    def executor(self) -> partition.LocalExecutor:
        """What applies commands to the chunks, and keeps states."""
        X = self.chunks
        spans = list(itertools.pairwise(itertools.accumulate(X.chunks[0], initial=0)))
        blocks, client = X.to_delayed().ravel().tolist(), client_of(X)
        if client is None:
            return partition.LocalExecutor(blocks, spans)
        import distributed

        from dspnmf.backends.dask_cluster import ClusterExecutor

        self.lasting = not distributed.futures_of(X)  # persisted or scattered chunks are in the cluster's memory only
        return ClusterExecutor(client, blocks, spans)  # type: ignore[return-value]  # same methods, other states

    def survey(self) -> None:
        """All facts, from one pass."""
        self.facts, *more = self.executor.apply(partial(partition.facts, missing=self.missing))[1]
        self.facts.check(self.method)
        self.largest = self.facts.largest
        if self.missing:
            sums, lost = more
            n, m = self.shape
            if lost.sum() == n * m:
                raise ValueError(_validation.NOTHING_KNOWN.format(shape=f"{n} x {m}"))
            self.filled = float(means_of_known(sums, n - lost) @ lost)

    def mean(self) -> float:
        """The mean of X, missing cells at those of their columns."""
        return super().mean() + self.filled / (self.shape[0] * self.shape[1])

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2 = ||X'X||^2, in stripes of columns."""
        m, value = self.shape[1], 0.0
        width = max(1, _STRIPE[sparse.issparse(self.blocks["X"]._meta)] // m)
        for lo in range(0, m, width):
            hi, unit = min(lo + width, m), (scale / self.unit) ** 2
            stripe = partial(partition.gram_stripe, width=m, lo=lo, hi=hi, unit=unit)
            value += norms.stripe_norm2(self.executor.apply(stripe)[1][0])
        return value

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> DaskRows:
        """Rows for `hals`."""
        if operators:
            self._refuse("operators")
        return DaskRows(self, k, scale / self.unit)

    def has_zeros(self) -> bool:
        """Whether a cell is zero, for a pass over X; where codes are lazy, that is found when they are computed."""
        return not math.isnan(self.largest) and bool(self.executor.apply(partial(partition.zeros))[1][0])

    def divergence_rows(self, k: int, scale: float) -> DaskDivergenceRows:
        """Rows whose errors are measured by a divergence."""
        return DaskDivergenceRows(self, k, scale / self.unit)

    def with_ones(self, scale: float) -> DaskData:
        """X with a column of ones, chunk by chunk."""
        data, X = DaskData(self.blocks["X"], self.method), self.blocks["X"]
        one = self.dtype.type(scale / self.unit)
        data.blocks["ones"] = da.full((self.shape[0], 1), one, chunks=(X.chunks[0], 1))
        meta = partition.with_column(partition.as_block(X._meta), one)
        data.chunks = X.map_blocks(
            partition.with_column, one, dtype=X.dtype, chunks=(X.chunks[0], (self.shape[1] + 1,)), meta=meta
        )
        data.unit, data.facts, data.largest = self.unit, self.facts, self.largest
        return data

    def _divided(self, unit: float) -> DaskData:
        data = DaskData(self.blocks["X"] / self.dtype.type(unit), self.method)
        data.unit, data.facts, data.largest = unit, self.facts, self.largest
        data.missing, data.filled = self.missing, self.filled
        return data


class DaskCodes(NamedTuple):
    """Codes by how they are made: by updates that nobody has applied yet, from states of the executor or from X."""

    rows: DaskRows
    states: Any  # None: the first update makes them of X
    updates: tuple[partition.Command, ...] = ()


class DaskRows(Rows):
    """Rows of a Dask array, for `hals`."""

    small: Small = HOST

    def __init__(self, data: DaskData, k: int, scale: float) -> None:
        self.data, self.shape, self.dtype = data, (data.shape[0], int(data.chunks.shape[1])), data.dtype
        self.k, self.scale = k, scale
        self.product_cost = 2.0 * data.facts.stored * k
        self.sweep_cost = 2.0 * self.shape[0] * k**2
        self.rounding = rounding_of_looks(self.dtype, data.facts.stored * k)
        self._states: Any = None
        self._pending = 0.0
        self._known: tuple[Array, Array, tuple[Array, ...]] | None = None  # the sums of the codes as they are

    @property
    def codes(self) -> DaskCodes:
        """The codes as they are now; states do not change, so nothing is copied."""
        self._settle()
        return DaskCodes(self, self._states)

    def draw(self, start: RandomCodes) -> DaskCodes:
        """Codes drawn at random, where the rows are."""
        return DaskCodes(self, None, (partial(partition.draw, random=start),))

    def solve(self, model: RowModel, ties: Ties | None = None, completion: Completion | None = None) -> DaskCodes:
        """Codes that minimise the model row by row, solved when they are needed."""
        if ties is not None or completion is not None:
            self.data._refuse("missing" if ties is None else "operators")
        return DaskCodes(self, None, (partial(partition.solve, model=model, k=self.k, scale=self.scale),))

    def scaled(self, codes: DaskCodes, factors: Array | float) -> DaskCodes:
        """Codes times a number, or a number for every component, when they are needed."""
        multiply = partial(partition.multiply, factors=np.asarray(factors))
        return codes._replace(updates=(*codes.updates, multiply))

    def save_codes(self, codes: DaskCodes | None = None) -> Iterator[Array]:
        """Codes for the host, chunk by chunk: those given, or the current ones."""
        return self.data.executor.codes(self._made(codes or self.codes))

    def some_codes(self, rows: NDArray[np.intp]) -> Array:
        """Refused."""
        self.data._refuse("batches")

    def restore_codes(self, blocks: Iterable[Array]) -> DaskCodes:
        """Codes for `begin`, from blocks of rows in their order."""
        whole = np.concatenate([np.asarray(block, self.dtype) for block in blocks])
        cuts = np.cumsum(self.data.blocks["X"].chunks[0])[:-1]
        return DaskCodes(self, self.data.executor.states(np.split(whole, cuts)))

    def begin(self, codes: DaskCodes | Array) -> None:
        """Start from these codes."""
        self._states = self._made(self.restore_codes([codes]) if isinstance(codes, np.ndarray) else codes)
        self._pending, self._known = 0.0, None

    def release(self) -> None:
        """Directions go with the states they belong to."""
        self._settle()

    def _settle(self) -> None:
        """Take the pending step."""
        if self._pending:
            self._states = self._made(DaskCodes(self, self._states, (partial(partition.take_step, t=self._pending),)))
            self._pending = 0.0

    def _made(self, codes: DaskCodes) -> Any:
        """States with these codes."""
        states = codes.states
        for update in codes.updates:
            states, _ = self.data.executor.apply(update, states)
        return states

    def step(self, t: float) -> float:
        """U += t D."""
        self._pending, self._known = float(self.dtype.type(t)), None
        return self._pending

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """One update, and one tree of sums."""
        if model.pulls or model.curves:
            self.data._refuse("operators")
        model = model._replace(S=model.S.astype(self.dtype), M=model.M.astype(self.dtype))  # as the kernels use it
        arguments = {"t": self._pending, "model": model, "sweeps": sweeps, "stretch": stretch}
        self._states, (PD, UD, DD, first, last) = self._on_rows(MemoryRows.swept, **arguments)
        self._pending = 0.0
        return Sums(PD, UD, DD, settled=(last / first) ** 0.5 if first > 0 else 0.0)

    def sums(self) -> tuple[Array, Array, tuple[Array, ...]]:
        """P = X'U and Q = U'U; asked twice, they are computed once."""
        if self._known is None:
            self._settle()
            _, (P, Q, none) = self._on_rows(MemoryRows.sums)
            self._known = P, Q, none
        return self._known

    def residual2(self, Vt: Array) -> float:
        """||X - UV||^2 from the residuals themselves."""
        self._settle()
        return float(self._on_rows(MemoryRows.residual2, Vt=Vt)[1][0])

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 through a triangular factor of [X U], one for every chunk, combined two by two."""
        if self.shape[1] > TRIANGLE:
            return None
        self._settle()
        triangle: Triangle = self._on_rows(MemoryRows.triangle)[1][0]
        return triangle.residual2(self.shape[1])

    def _on_rows(self, method: partition.Method, **arguments: Any) -> tuple[Any, partition.Addends]:
        command = partial(partition.on_rows, method=method, scale=self.scale, **arguments)
        return self.data.executor.apply(command, self._states)


class DaskDivergenceRows(DaskRows, DivergenceRows):
    """Rows of a Dask array whose errors are measured by a divergence; one tree of sums for a look."""

    _kept: Any = None

    def improve(self, model: DivergenceModel, sweeps: int) -> DivergenceSums:
        """By the compiled loops, where the rows are."""
        command = partial(partition.improve, model=model, sweeps=sweeps, scale=self.scale)
        self._states, sums = self.data.executor.apply(command, self._states)
        self._known = None
        return DivergenceSums(*sums)

    def solve_divergence(self, model: DivergenceModel, *, fresh: bool) -> DaskCodes:
        """Codes that minimise the model row by row, solved when they are needed: convex problems from X alone."""
        solve = partial(partition.solve_divergence, model=model, k=self.k, scale=self.scale)
        return DaskCodes(self, None if fresh or 1 <= model.beta <= 2 else self._states, (solve,))

    def remember(self) -> None:
        """The states: they do not change."""
        self._kept = self._states

    def recall(self) -> None:
        """The states that were kept."""
        self._states, self._known = self._kept, None

    def release(self) -> None:
        """Free what was kept, too."""
        super().release()
        self._kept = None


class DaskBackend(MemoryBackend):
    """Dask arrays."""

    name = "a Dask array"
    capabilities: frozenset[Capability] = frozenset({"divergences"})
    solvers: tuple[str, ...] = ("hals",)

    def storing(self, codes_path: Path | None) -> Backend:
        """Codes are a Dask array, which knows how to write itself."""
        _validation.check_no_codes_path(codes_path)
        return self

    def check(self, estimator: BaseEstimator, X: da.Array, *, reset: bool) -> DaskData:
        """Shape and type at once. Values in one pass before a fit; where codes are lazy, when they are computed."""
        method = type(estimator).__name__
        _validation.check_dask(method, X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if len(X.chunks[1]) > 1:
            _validation.warn_column_chunks(X)
            X = X.rechunk({1: -1})
        meta = partition.as_block(X._meta)
        if (type(meta), meta.dtype) != (type(X._meta), X.dtype):
            X = X.map_blocks(partition.as_block, dtype=meta.dtype, meta=meta)
        if reset and np.isnan(X.shape[0]):
            _validation.warn_unknown_chunks()
            X, computed = X.copy(), X.persist() if client_of(X) is not None else X.copy()
            X._chunks = computed.compute_chunk_sizes().chunks  # its own graph stays: what is persisted can be lost
        data = DaskData(X, method)
        data.missing = _validation.takes_missing(estimator)
        if reset:
            _validation.check_not_empty(method, data.shape)
            data.survey()
        return data

    def codes(self, codes: DaskCodes) -> da.Array:
        """A Dask array with the row chunks of X: made of these where they last, otherwise of codes in this process."""
        data, X = codes.rows.data, codes.rows.data.chunks
        meta, chunks = np.empty((0, 0), data.dtype), (X.chunks[0], (codes.rows.k,))
        if codes.states is None and (data.lasting or data.shape[0] * codes.rows.k * data.dtype.itemsize > _KEPT):
            small = dask.delayed((codes.updates, data.method, data.missing), traverse=False)
            return X.map_blocks(_codes_of_chunk, small, dtype=data.dtype, chunks=chunks, meta=meta)
        name = f"codes-{uuid.uuid4().hex}"
        graph = {(name, number, 0): U for number, U in enumerate(codes.rows.save_codes(codes))}
        return da.Array(graph, name, chunks, meta=meta)

    def samples(self, Z: da.Array, V: ArrayLike) -> da.Array:
        """A Dask array, not computed yet."""
        _validation.check_codes(Z, len(V))
        return Z @ on_host(V)


def backend_for(X: ArrayLike) -> Backend:
    """The same for every Dask collection; `check` takes arrays only."""
    return DaskBackend()


def client_of(X: da.Array) -> Any:
    """The client of a cluster where that would compute X, or None."""
    owner = getattr(dask.base.get_scheduler(collections=[X]), "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _codes_of_chunk(
    X: ArrayLike, small: tuple[Sequence[partition.Command], str, bool], block_info: Mapping[Any, Any]
) -> Array:
    """Codes of a chunk whose values are allowed, by updates."""
    updates, method, missing = small
    lo, hi = block_info[0]["array-location"][0]
    span = (0, 0) if np.isnan(hi) else (int(lo), int(hi))  # rows of chunks of unknown size have no number
    state: Any = None
    with alone():
        partition.facts(X, span, None, missing=missing)[1][0].check(method)
        for update in updates:
            state, _ = update(X, span, state)
    return np.asarray(state[0])
