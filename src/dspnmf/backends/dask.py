"""Rows in a Dask array: chunks of rows, dense or sparse, on any Dask scheduler.

Requirements: X is n x m, chunked by rows (columns are joined, with a warning). Chunks stay where Dask has them; the
codes of a chunk live next to it (`dspnmf.backends.dask_partition`), and one tree reduction of (m + 2k) k numbers brings
the sums of a look here. Only `hals` works here: it needs nothing but that. Codes come back as a Dask array with the row
chunks of X.
"""

from __future__ import annotations

import itertools
import math
import uuid
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from dspnmf import _validation
from dspnmf.backends import dask_validation as _dask_input
from dspnmf.backends.dask_local import Local
from dspnmf.backends.dask_partition import (
    Begin,
    Drawn,
    Given,
    Held,
    Lane,
    Look,
    Order,
    Recipe,
    Settle,
    Solved,
    Span,
    as_block,
)
from dspnmf.backends.dask_reductions import AskFacts, CodeSums, Facts, GramStripe, Residual2, Triangular
from dspnmf.backends.dispatch import Place, on_host
from dspnmf.backends.memory import TRIANGLE
from dspnmf.backends.row_model import Array, RandomCodes, RowModel, Sums
from dspnmf.backends.small_arrays import HOST, Small

_STRIPE = {False: 2**22, True: 2**25}  # numbers of X'X summed at once, if X is dense and if it is sparse
_names = itertools.count()


class Data:
    """A checked Dask array, and where its chunks are."""

    def __init__(self, given: Any, X: Any, place: Place, method: str) -> None:
        self.given = given
        self.X = X  # float, chunked by rows only
        self.place = place
        self.method = method  # for messages
        self.facts = Facts(0.0, 1.0, 0.0, 0.0, 0)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        shape: tuple[int, int] = self.X.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of X."""
        return np.dtype(self.X.dtype)

    @property
    def spans(self) -> list[Span]:
        """First and last row of every chunk."""
        ends = list(itertools.accumulate(self.X.chunks[0]))
        return list(zip([0, *ends], ends, strict=False))

    @cached_property
    def crew(self) -> Any:
        """Who works on the chunks; with this, Dask begins to compute them."""
        blocks, client = self.X.to_delayed().ravel().tolist(), client_of(self.X)
        if client is None:
            return Local(blocks, self.spans)
        from dspnmf.backends.dask_cluster import Cluster

        return Cluster(client, blocks, self.spans, self.dtype.itemsize)


class Codes:
    """Codes that are somewhere else, by how they are made."""

    def __init__(self, rows: DaskRows, recipe: Recipe) -> None:
        self.rows = rows
        self.recipe = recipe
        self.unit: Array | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of X."""
        return self.rows.dtype

    def __imul__(self, factor: float) -> Codes:
        assert isinstance(self.recipe, Drawn)
        self.recipe = Drawn(self.recipe.start, (*self.recipe.factors, factor))
        return self


class DaskRows:
    """Rows of a checked Dask array (see `Rows`), for `hals`."""

    small: Small = HOST
    cg_steps = (0, 0)

    def __init__(self, data: Data, k: int, scale: float) -> None:
        self._data = data
        self.k = k
        self.scale = scale
        self.shape = data.shape
        self.dtype = data.dtype
        self._pending = 0.0
        self._forget: list[int] = []
        self._known: Any = None  # the sums of the codes as they are
        self.product_cost = 2.0 * data.facts.stored * k
        self.sweep_cost = 2.0 * self.shape[0] * k**2

    @property
    def data(self) -> Any:
        """X as it was given."""
        return self._data.given

    def _run(self, order: Order) -> tuple[Any, ...]:
        answer: tuple[Any, ...] = self._data.crew.run(order)
        return answer

    # -- codes -------------------------------------------------------------------------------------------------------

    def draw(self, start: RandomCodes) -> Codes:
        """Codes drawn at random, where the rows are."""
        return Codes(self, Drawn(start))

    def begin(self, codes: Codes | Array) -> None:
        """Start from these codes."""
        if isinstance(codes, np.ndarray):
            codes = self.restore_codes([codes])
        self._pending, self._known = 0.0, None
        self._run(Begin(codes.recipe, self.k, self.scale))

    @property
    def codes(self) -> Codes:
        """The codes as they are now."""
        held = Held(next(_names))
        self._settle(held.name)
        codes = Codes(self, held)
        weakref.finalize(codes, self._forget.append, held.name)
        return codes

    def save_codes(self, codes: Codes | None = None) -> Iterator[Array]:
        """Codes in blocks of rows, one block here at a time: those given, or the current ones."""
        codes = self.codes if codes is None else codes
        for chunk in range(len(self._data.spans)):
            (block,) = self._blocks(codes, [chunk])
            yield self._data.crew.here(block)

    def restore_codes(self, blocks: Iterable[Array]) -> Codes:
        """Codes for `begin`, from blocks of rows in their order."""
        whole = np.concatenate([np.asarray(block, self.dtype) for block in blocks])
        return Codes(self, Given({(lo, hi): whole[lo:hi] for lo, hi in self._data.spans}))

    def release(self) -> None:
        """Lanes hold nothing a descent alone needs but one direction, and that goes with the next start."""
        self._settle()

    def solve(self, model: RowModel, extra: Any = None, delta: Any = None, kappa: Any = None) -> Codes:
        """Codes that minimise the model row by row, solved when they are needed."""
        return Codes(self, Solved(model))

    def _settle(self, keep: int | None = None) -> None:
        """Take the pending step."""
        forget = tuple(self._forget)
        del self._forget[:]
        if self._pending or forget or keep is not None:
            self._run(Settle(self._pending, keep, forget))
        self._pending = 0.0

    def _blocks(self, codes: Codes, chunks: Iterable[int]) -> list[Any]:
        made: list[Any] = self._data.crew.codes(codes.recipe, chunks, codes.unit, self.k, self.scale)
        return made

    def array(self, codes: Codes) -> Any:
        """Codes as a Dask array: lazy where X was not looked at yet, computed beside X where it was."""
        X, meta = self._data.X, np.empty((0, 0), self.dtype)
        if "crew" not in vars(self._data):
            small = dask.delayed((codes.recipe, codes.unit, self.k, self.scale, self._data.method), traverse=False)
            return X.map_blocks(_transform, small, dtype=self.dtype, chunks=(X.chunks[0], (self.k,)), meta=meta)
        name = f"codes-{uuid.uuid4().hex}"
        blocks = self._blocks(codes, range(len(self._data.spans)))
        graph = {(name, number, 0): block for number, block in enumerate(blocks)}
        return da.Array(graph, name, (X.chunks[0], (self.k,)), meta=meta)

    # -- looks -------------------------------------------------------------------------------------------------------

    def step(self, t: float) -> None:
        """U += t D."""
        self._pending, self._known = t, None

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """One order, and one tree of sums."""
        model = RowModel(model.S.astype(self.dtype), model.M.astype(self.dtype))  # as the kernels use it
        PD, UD, DD, first, last = self._run(Look(model, self.scale, self._pending, sweeps, stretch))
        self._pending = 0.0
        return Sums(PD, UD, DD, settled=(last / first) ** 0.5 if first > 0 else 0.0)

    def sums(self) -> tuple[Any, Any, tuple[Any, ...]]:
        """P = X'U and Q = U'U; asked twice, they are computed once."""
        self._settle()
        self._known = self._known or (*self._run(CodeSums(self.scale)), ())
        return self._known

    def mean(self) -> float:
        """The mean of X."""
        facts = self._data.facts
        return facts.total / (self.shape[0] * self.shape[1]) * facts.unit

    def norm2(self) -> float:
        """||X||^2."""
        facts = self._data.facts
        return facts.squares * (facts.unit / self.scale) ** 2

    def gram_norm2(self) -> float:
        """||XX'||^2 = ||X'X||^2, in stripes of columns."""
        m, value = self.shape[1], 0.0
        width = max(1, _STRIPE[sparse.issparse(self._data.X._meta)] // m)
        for lo in range(0, m, width):
            stripe = GramStripe(lo, min(lo + width, m), self.scale)
            value += stripe.norm2(self._run(stripe)[0])
        return value

    def residual2(self, Vt: Any) -> float:
        """||X - UV||^2 from the residuals themselves."""
        self._settle()
        return float(self._run(Residual2(Vt, self.scale))[0])

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 through a triangular factor of [X U], one for every chunk, combined two by two."""
        m = self.shape[1]
        if m > TRIANGLE:
            return None
        self._settle()
        R = self._run(Triangular(self.scale))[0].R
        return float(np.linalg.norm(R[:, :m] @ R[:, :m].T - R[:, m:] @ R[:, m:].T)) ** 2


class DaskPlace(Place):
    """Dask arrays."""

    name = "a Dask array"
    whole_family = False
    solvers = ("hals",)

    def storing(self, path: Path | None) -> Place:
        """Codes are a Dask array, which knows how to write itself."""
        _dask_input.check_no_codes_path(path)
        return self

    def check(self, estimator: Any, X: Any, *, reset: bool) -> tuple[Any, float]:
        """Shape and type at once. Values in one pass before a fit; where codes are lazy, when they are computed."""
        method = type(estimator).__name__
        _dask_input.check_dask(method, X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        data = Data(X, _by_rows(X), self, method)
        if not reset:
            return data, math.nan
        if np.isnan(data.X.shape[0]):
            _dask_input.warn_unknown_chunks()
            data.X = (data.X.persist() if client_of(X) is not None else data.X.copy()).compute_chunk_sizes()
        _dask_input.check_not_empty(method, data.shape)
        facts = data.facts = data.crew.run(AskFacts())[0]
        if facts.bad is not None:
            raise ValueError(_validation.bad_cell(method, *facts.bad))
        return data, facts.high

    def rows(self, X: Any, k: int, scale: float) -> Any:
        """Rows for `hals`, so not all that `Rows` have."""
        return DaskRows(X, k, scale)

    def in_units(self, codes: Any, unit: Array) -> Any:
        """When they are computed."""
        codes.unit = unit
        return codes

    def codes(self, codes: Any) -> Any:
        """A Dask array with the row chunks of X."""
        return codes.rows.array(codes)

    def samples(self, Z: Any, V: Any) -> Any:
        """A Dask array, not computed yet."""
        _validation.check_codes(Z, len(V))
        return Z @ on_host(V)


DASK = DaskPlace()


def place_of(X: Any) -> Place:
    """Where X lives."""
    return DASK


def client_of(X: Any) -> Any:
    """The client of a cluster where that would compute X, or None."""
    get = dask.base.get_scheduler(collections=[X])
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _by_rows(X: Any) -> Any:
    """X in float, chunked by rows only."""
    if len(X.chunks[1]) > 1:
        _dask_input.warn_column_chunks(X)
        X = X.rechunk({1: -1})
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if X.dtype == dtype and type(X._meta) in (np.ndarray, sparse.csr_matrix, sparse.csr_array):
        return X
    meta = sparse.csr_array((0, 0), dtype=dtype) if hasattr(X._meta, "tocsr") else np.empty((0, 0), dtype)
    return X.map_blocks(as_block, dtype, dtype=dtype, meta=meta)


def _transform(X: Any, small: Any, block_info: Any = None) -> Array:
    """Codes of a chunk, checked first."""
    recipe, unit, k, scale, method = small
    X, first = as_block(X), block_info[0]["array-location"][0][0]
    facts = Facts.of(X, 0 if first is None or np.isnan(first) else int(first))
    if facts.bad is not None:
        raise ValueError(_validation.bad_cell(method, *facts.bad))
    return Lane([]).codes(recipe, 0, X, k, scale, unit)
