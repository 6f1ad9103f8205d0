"""Dask arrays: chunks of rows, dense or sparse, on any Dask scheduler.

Requirements: X is n x m, chunked by rows (columns are joined, with a warning). Chunks stay where Dask has them, the
states of their codes next to them (`dspnmf.backends.dask_partition`); one tree reduction of (m + 2k) k numbers brings
the sums of a look here. Only `hals` works: it needs nothing but that. Codes come back as a Dask array with the row
chunks of X, made of X's own graph or of codes in this process, so that Dask can compute them again on any worker.
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
from dspnmf.backends.chunk_facts import ChunkFacts
from dspnmf.backends.dask_partition import Addends, Command, LocalExecutor
from dspnmf.backends.memory import MemoryBackend, on_host
from dspnmf.backends.memory_rows import TRIANGLE, triangle_residual2
from dspnmf.backends.protocol import Backend, Capability
from dspnmf.backends.row_model import Completion, Operator, RandomCodes, RowModel, Sums, Ties
from dspnmf.backends.small_arrays import HOST, Small

_STRIPE = {False: 2**22, True: 2**25}  # numbers of X'X summed at once, if X is dense and if it is sparse


class DaskData(BaseData):
    """A checked Dask array, float, chunked by rows only; Dask begins to compute it when `executor` is first used."""

    def __init__(self, X: da.Array, method: str) -> None:
        super().__init__(X, X.shape, np.dtype(X.dtype), DASK, math.nan)
        self.unchecked: str | None = method  # the estimator, until its values were looked at
        self.facts = ChunkFacts()

    @cached_property
    def executor(self) -> Any:
        """What applies commands to the chunks, and keeps states: a `LocalExecutor` or `ClusterExecutor`."""
        X = self.blocks["X"]
        spans = list(itertools.pairwise(itertools.accumulate(X.chunks[0], initial=0)))
        blocks, client = X.to_delayed().ravel().tolist(), client_of(X)
        if client is None:
            return LocalExecutor(blocks, spans)
        from dspnmf.backends.dask_cluster import ClusterExecutor

        return ClusterExecutor(client, blocks, spans)

    def check_values(self, method: str) -> None:
        """Facts from one pass over X; an error if a cell is not allowed."""
        self.facts = self.executor.apply(partial(partition.facts))[1][0].check(method)
        self.largest, self.unchecked = self.facts.largest, None

    def mean(self) -> float:
        """The mean of X."""
        return self.facts.total / (self.shape[0] * self.shape[1]) * self.facts.unit

    def norm2(self, scale: float) -> float:
        """||X||^2."""
        return self.facts.norm2(scale)

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2 = ||X'X||^2, in stripes of columns."""
        m, value = self.shape[1], 0.0
        width = max(1, _STRIPE[sparse.issparse(self.blocks["X"]._meta)] // m)
        for lo in range(0, m, width):
            stripe = partial(partition.gram_stripe, lo=lo, hi=min(lo + width, m), unit=scale**2)
            value += norms.stripe_norm2(self.executor.apply(stripe)[1][0])
        return value

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> DaskRows:
        """Rows for `hals`."""
        if operators:
            self._refuse("operators")
        return DaskRows(self, k, scale)


class DaskCodes(NamedTuple):
    """Codes by how they are made: by updates that nobody has applied yet, from states of the executor or from X."""

    rows: DaskRows
    states: Any  # None: the first update makes them of X
    updates: tuple[Command, ...] = ()


class DaskRows:
    """Rows of a Dask array (see `Rows`), for `hals`."""

    completes = False
    small: Small = HOST

    def __init__(self, data: DaskData, k: int, scale: float) -> None:
        self.data = data
        self.k = k
        self.scale = scale
        self.shape = data.shape
        self.dtype = data.dtype
        self.product_cost = 2.0 * data.facts.stored * k
        self.sweep_cost = 2.0 * self.shape[0] * k**2
        self._states: Any = None
        self._pending = 0.0
        self._known: tuple[Array, Array, tuple[Array, ...]] | None = None  # the sums of the codes as they are

    # -- codes

    @property
    def codes(self) -> DaskCodes:
        """The codes as they are now; states do not change, so nothing is copied."""
        self.release()
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
        saved: Iterator[Array] = self.data.executor.codes(self._made(codes or self.codes))
        return saved

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

    def restart(self) -> None:
        """X is as it was."""

    def refresh(self, Vt: Array) -> None:
        """X is as it was."""

    def release(self) -> None:
        """Take the pending step: directions go with the states they belong to."""
        if self._pending:
            self._update(partial(partition.take_step, t=self._pending))

    def _made(self, codes: DaskCodes) -> Any:
        """States with these codes."""
        states = codes.states
        for update in codes.updates:
            states, _ = self.data.executor.apply(update, states)
        return states

    # -- looks

    def step(self, t: float) -> None:
        """U += t D."""
        self._pending, self._known = t, None

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """One update, and one tree of sums."""
        model = model._replace(S=model.S.astype(self.dtype), M=model.M.astype(self.dtype))  # as the kernels use it
        look = partial(partition.look, model=model, scale=self.scale, t=self._pending, sweeps=sweeps, stretch=stretch)
        PD, UD, DD, first, last = self._update(look)
        return Sums(PD, UD, DD, settled=(last / first) ** 0.5 if first > 0 else 0.0)

    def sums(self) -> tuple[Array, Array, tuple[Array, ...]]:
        """P = X'U and Q = U'U; asked twice, they are computed once."""
        if self._known is None:
            P, Q = self._reduce(partial(partition.sums, scale=self.scale))
            self._known = P, Q, ()
        return self._known

    def residual2(self, Vt: Array) -> float:
        """||X - UV||^2 from the residuals themselves."""
        return float(self._reduce(partial(partition.residual2, Vt=Vt, scale=self.scale))[0])

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 through a triangular factor of [X U], one for every chunk, combined two by two."""
        if self.shape[1] > TRIANGLE:
            return None
        return triangle_residual2(self._reduce(partial(partition.triangle, scale=self.scale))[0].R, self.shape[1])

    def _update(self, update: Command) -> Addends:
        self._states, sums = self.data.executor.apply(update, self._states)
        self._pending = 0.0
        return sums

    def _reduce(self, reduction: Command) -> Addends:
        self.release()
        sums: Addends = self.data.executor.apply(reduction, self._states)[1]
        return sums


class DaskBackend(MemoryBackend):
    """Dask arrays."""

    name = "a Dask array"
    capabilities: frozenset[Capability] = frozenset()
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
        X = _by_rows(X)
        if reset and np.isnan(X.shape[0]):
            _validation.warn_unknown_chunks()
            X = (X.persist() if client_of(X) is not None else X.copy()).compute_chunk_sizes()
        data = DaskData(X, method)
        if reset:
            _validation.check_not_empty(method, data.shape)
            data.check_values(method)
        return data

    def codes(self, codes: DaskCodes) -> da.Array:
        """A Dask array with the row chunks of X: made of these where it can be, otherwise of codes in this process."""
        data, k = codes.rows.data, codes.rows.k
        X, meta = data.blocks["X"], np.empty((0, 0), data.dtype)
        chunks = (X.chunks[0], (k,))
        if codes.states is None:
            small = dask.delayed((codes.updates, data.unchecked), traverse=False)
            return X.map_blocks(_codes_of_chunk, small, dtype=data.dtype, chunks=chunks, meta=meta)
        name = f"codes-{uuid.uuid4().hex}"
        graph = {(name, number, 0): U for number, U in enumerate(codes.rows.save_codes(codes))}
        return da.Array(graph, name, chunks, meta=meta)

    def samples(self, Z: da.Array, V: ArrayLike) -> da.Array:
        """A Dask array, not computed yet."""
        _validation.check_codes(Z, len(V))
        return Z @ on_host(V)


DASK = DaskBackend()


def backend_for(X: ArrayLike) -> Backend:
    """The same for every Dask collection; `check` takes arrays only."""
    return DASK


def client_of(X: da.Array) -> Any:
    """The client of a cluster where that would compute X, or None."""
    owner = getattr(dask.base.get_scheduler(collections=[X]), "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _by_rows(X: da.Array) -> da.Array:
    """X in float, chunked by rows only."""
    if len(X.chunks[1]) > 1:
        _validation.warn_column_chunks(X)
        X = X.rechunk({1: -1})
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if X.dtype == dtype and type(X._meta) in (np.ndarray, sparse.csr_matrix, sparse.csr_array):
        return X
    meta = sparse.csr_array((0, 0), dtype=dtype) if hasattr(X._meta, "tocsr") else np.empty((0, 0), dtype)
    return X.map_blocks(partition.as_block, dtype, dtype=dtype, meta=meta)


def _codes_of_chunk(
    X: ArrayLike, small: tuple[tuple[Command, ...], str | None], block_info: Mapping[Any, Any]
) -> Array:
    """Codes of a chunk; its values are checked first where an estimator is named."""
    updates, unchecked = small
    lo, hi = block_info[0]["array-location"][0]
    span = (0, 0) if np.isnan(hi) else (int(lo), int(hi))  # rows of chunks of unknown size have no number
    if unchecked is not None:
        ChunkFacts.of(partition.as_block(X), span[0]).check(unchecked)
    state: Any = None
    with alone():
        for update in updates:
            state, _ = update(X, span, state)
    codes: Array = state[0]
    return codes
