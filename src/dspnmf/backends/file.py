"""X in a file larger than memory: memory-mapped .npy, Zarr, HDF5.

Memory: a slab of X a thread (`dspnmf.backends.file_slabs`), m x k and k x k arrays, at most 256 MiB for ``||X'X||^2``
once, and arrays of the codes' shape: two with hals, eight and one of a byte an entry with newton-cg, one more each with
several starts, a checkpoint or labels; where the codes go to a file, a group of their rows. With missing cells one or
two copies of the codes more: cells are completed whenever a slab is read.

hals reads X once an iteration, newton-cg twice, missing cells once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from dspnmf import _validation
from dspnmf._threads import added, spread, team
from dspnmf._typing import Array, ArrayLike, Matrix, SmallArray
from dspnmf.backends import norms
from dspnmf.backends.base_data import BaseData
from dspnmf.backends.chunk_facts import ChunkFacts, ordinary_unit
from dspnmf.backends.file_slabs import ScratchFolder, SlabReader, is_mapped
from dspnmf.backends.incomplete import SIMILARITIES, CompletesCells
from dspnmf.backends.memory import MEMORY, MemoryBackend, unit_rows
from dspnmf.backends.memory_divergence import SweepsDivergences
from dspnmf.backends.memory_rows import Arrays, MemoryRows
from dspnmf.backends.protocol import Backend, Capability, Data
from dspnmf.backends.row_model import BlockNorms, Operator

IN_MEMORY = 2**30  # bytes up to which a memory map is taken for an array in memory


class Survey(NamedTuple):
    """What one reading of X tells."""

    facts: ChunkFacts
    means: Array | None = None  # of the known cells of every column, where cells may be missing
    missing: NDArray[np.intp] | None = None  # their number in every column, where there are any
    gram_norm2: float | None = None  # ||XX'||^2, where it was asked for and X'X fits into memory


Columns = Matrix | Callable[[Array], Array]  # of a block: in memory, or made of the rows of X that were read


def _itself(X: Array) -> Array:
    """X, a second time where cells are missing."""
    return X


class FileData(BaseData):
    """A checked X in a file, and columns it was widened by, which are in memory."""

    def __init__(self, reader: SlabReader, backend: FileBackend, survey: Survey) -> None:
        super().__init__(_itself, reader.shape, reader.dtype, backend, survey.facts.largest)
        self.reader, self.scratch, self._survey, self.facts = reader, backend.scratch, survey, survey.facts

    @property
    def missing(self) -> NDArray[np.intp] | None:
        """The number of missing cells in every column, None where X is complete."""
        return self._survey.missing

    def mean(self) -> float:
        """The mean of X, missing cells at those of their columns."""
        filled = 0.0 if self.missing is None else float(self.column_means() @ self.missing) * self.unit
        return super().mean() + filled / (self.shape[0] * self.shape[1])

    def norm2(self, scale: float) -> float:
        """||X||^2, missing cells at the means of their columns."""
        filled = 0.0 if self.missing is None else float((self.column_means() * (self.unit / scale)) ** 2 @ self.missing)
        return super().norm2(scale) + filled

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2: known, or by whichever side needs fewer reads; missing cells at the means of their columns."""
        if block == "X" and self._survey.gram_norm2 is not None:
            return self._survey.gram_norm2 / scale**4
        scale = scale / self.unit
        if self.missing is not None:
            return FileCells(self).gram_norm2(scale, block)
        made = self.blocks[block]
        assert callable(made)  # columns given are labels, whose similarities no term preserves

        def slabs(first: int) -> Iterator[tuple[int, Array]]:
            return ((at, made(X)) for at, X in self.reader.slabs(first))

        return norms.streamed(slabs, self.shape, self.reader.step, scale**2)

    @property
    def width(self) -> int:
        """Columns of all blocks."""
        return sum(self._widths().values())

    def _widths(self) -> dict[str, int]:
        """Columns of every block."""
        return {name: self.shape[1] if callable(part) else part.shape[1] for name, part in self.blocks.items()}

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> FileRows:
        """Rows that read the file."""
        if self.missing is None:
            return FileRows(self, k, scale / self.unit, operators)
        rows = IncompleteFileRows(self, k, scale / self.unit, operators)
        rows.hold(rows.cells, self.column_means(), self.norm2(scale), twice=SIMILARITIES in self.blocks)
        return rows

    def has_zeros(self) -> bool:
        """Whether a cell is zero, for a reading of X."""
        return any(bool((X == 0).any()) for _, X in self.reader.slabs())

    def divergence_rows(self, k: int, scale: float) -> FileDivergenceRows:
        """Rows that read the file, missing cells as they are."""
        return FileDivergenceRows(self, k, scale / self.unit)

    def with_similarity_block(self) -> tuple[Self, str]:
        """Itself, or X twice where cells are missing."""
        return (self, "X") if self.missing is None else (self.widened(SIMILARITIES, _itself), SIMILARITIES)

    def with_unit_rows(self, scale: float) -> Self:
        """X with its rows at unit length, recomputed from every slab that is read."""
        if self.missing is not None:
            raise ValueError(_validation.INCOMPLETE_ROWS)
        return self.widened("unit rows", partial(unit_rows, scale=scale / self.unit))

    def widened(self, name: str, columns: Columns) -> Self:
        """X with further columns, given or made of the rows of a slab."""
        if not callable(columns) and self.unit != 1:
            columns = (columns / self.unit).astype(self.dtype)
        return self._with_block(name, columns)

    def _divided(self, unit: float) -> Self:
        data = copy(self)
        means = self._survey.means
        data.reader, data.unit = self.reader.divided(unit), unit
        data._survey = self._survey._replace(means=None if means is None else means / unit)
        return data

    def column_means(self) -> Array:
        """Means of the known cells of every column."""
        assert self._survey.means is not None  # asked for with missing="mask" only
        return self._survey.means


class FileRows(MemoryRows):
    """Rows read in slabs; arrays of the codes' shape are in memory, or in scratch files."""

    def __init__(self, data: FileData, k: int, scale: float, operators: Sequence[Operator] = ()) -> None:
        untouched = np.broadcast_to(np.zeros((), data.dtype), (data.shape[0], data.width))  # one number, never read
        super().__init__(untouched, k, scale, operators)
        self._data, self._reader, self._scratch = data, data.reader, data.scratch

    def several(self, wanted: int) -> Sequence[Self]:
        """One start at a time: arrays of the codes' shape may be as large as X."""
        return [self]

    def _assembled(self, at: int, X: Array) -> Array:
        """A slab of X with the columns it was widened by, read-only as the kernels know X in memory."""
        parts = [self._part(name, at, X) for name in self._data.blocks]
        whole = parts[0] if len(parts) == 1 else np.hstack(parts)
        whole.flags.writeable = False
        return whole

    def _part(self, name: str, at: int, X: Array) -> Array:
        """The rows of a block that belong to a slab."""
        columns = self._data.blocks[name]
        if callable(columns):
            return columns(X)
        some = columns[at : at + len(X)]
        return some.toarray() if sparse.issparse(some) else some

    def _new(self, dtype: Any = None) -> Array:
        if self._scratch is None:
            return super()._new(dtype)
        return self._scratch.new((self.shape[0], self.k), dtype or self.dtype)

    def _groups(self) -> Iterator[slice]:
        for group in super()._groups():
            yield group
            self._release_pages()

    def _slabs(self) -> Iterator[tuple[int, Array]]:
        for at, X in self._reader.slabs():
            yield at, self._assembled(at, X)
            self._release_pages()

    def _with_X(self, kernel: Any, work: float, arrays: Arrays, *small: Any, last: Arrays = ()) -> Any:
        def task(at: int, X: Array) -> Any:
            here = (_of_rows(A, slice(at, at + len(X))) for A in arrays)
            result = kernel(self._assembled(at, X), *here, *small, 0, len(X), self._block, *last)
            self._release_pages()
            return result

        return self._reader.each(task, work)

    def _spread(self, kernel: Any, work: float, arrays: Arrays, *small: Any, last: Arrays = ()) -> Any:
        if self._scratch is None:
            return super()._spread(kernel, work, arrays, *small, last=last)
        block, total = self._block, None
        for group in self._groups():
            here, n = [_of_rows(A, group) for A in arrays], group.stop - group.start

            def task(lo: int, hi: int, here: Any = here) -> Any:
                return kernel(*here, *small, lo, hi, block, *last)

            total = added(total, spread(task, n, work * n / self.shape[0], block))
        return total

    def _release_pages(self) -> None:
        if self._scratch is not None:
            self._scratch.release_pages()


class FileDivergenceRows(SweepsDivergences, FileRows):
    """Rows read in slabs, whose errors are measured by a divergence."""

    def _any_missing(self) -> bool:
        return self._data.missing is not None


def _of_rows(A: Array | None, some: slice) -> Array | None:
    """The part of an array that belongs to some rows; what several starts share has them in its second dimension."""
    return None if A is None else A[:, some] if A.ndim == 3 else A[some]


class FileCells:
    """Missing cells of a file, completed in every slab that is read: by column means, or by U and V as they were."""

    def __init__(self, data: FileData) -> None:
        self._data, self._counts = data, np.zeros(data.shape[1]) if data.missing is None else data.missing
        self._source: dict[str, tuple[Array, Array] | Array] = {}
        self._squares: dict[int, float] = {}  # of completed cells, by the first row of their slab
        self.fill(data.column_means())

    def fill(self, means: Array) -> None:
        """Every missing cell becomes the mean of its column."""
        self._means, self._source = means, {"X": means, SIMILARITIES: means}

    def complete(self, U: Array, Vt: Array, similarities: bool) -> None:
        """Missing cells become those of UV, from the next reading on."""
        factors = (U.copy(), Vt.astype(self._data.dtype))
        self._squares = {}
        for name in ("X", SIMILARITIES)[: 1 + similarities]:
            self._source[name] = factors

    def completed(self, name: str, at: int, X: Array) -> Array:
        """A slab of a block with its cells completed."""
        missing, source, some = np.isnan(X), self._source[name], slice(at, at + len(X))
        cells = source.astype(X.dtype) if isinstance(source, np.ndarray) else source[0][some] @ source[1].T
        X = np.where(missing, cells, X)
        if name == "X":
            self._squares[at] = float(np.square(X[missing], dtype=np.float64).sum())
        return X

    def slabs(self, name: str, first: int = 0) -> Iterator[tuple[int, Array]]:
        """A block, slab by slab."""
        for at, X in self._data.reader.slabs(first):
            yield at, self.completed(name, at, X)

    def squares(self) -> float:
        """The sum of squares of completed cells: of the last reading, or of one for it."""
        if isinstance(self._source["X"], np.ndarray):
            return float(self._means**2 @ self._counts)
        if not self._squares:
            for _ in self.slabs("X"):
                pass
        return sum(self._squares.values())

    def gram_norm2(self, scale: float, block: str) -> float:
        """||XX'||^2 of one of the blocks as it is."""
        return norms.streamed(partial(self.slabs, block), self._data.shape, self._data.reader.step, scale**2)

    def pull(self, M: Array) -> Array:
        """X M."""
        return np.vstack([X @ M.astype(X.dtype) for _, X in self.slabs("X")])


class IncompleteFileRows(CompletesCells, FileRows):
    """X in a file, its missing cells completed as it is read, and its codes."""

    def __init__(self, data: FileData, k: int, scale: float, operators: Sequence[Operator] = ()) -> None:
        super().__init__(data, k, scale, operators)
        self.cells = FileCells(data)

    def refresh(self, Vt: SmallArray) -> Mapping[str, BlockNorms] | None:
        """Missing cells become those of UV; the sums are recomputed in the reading that tells their squares."""
        renewed = self._complete(Vt)
        self.sums()
        return self._norms(renewed)

    def _part(self, name: str, at: int, X: Array) -> Array:
        if callable(self._data.blocks[name]):
            return self.cells.completed(name, at, X)
        return super()._part(name, at, X)


class FileBackend(MemoryBackend):
    """Files on this machine."""

    name = "in a file"
    capabilities: frozenset[Capability] = frozenset(
        {"newton-cg", "multiplicative", "divergences", "operators", "features", "missing"}
    )
    solvers: tuple[str, ...] = ("hals", "newton-cg", "mm", "paper", "paper-appendix")

    def __init__(self, scratch: ScratchFolder | None = None) -> None:
        self.scratch = scratch

    def storing(self, codes_path: Path | None) -> Backend:
        """Arrays of the codes' shape in scratch files next to the file the codes go to."""
        return self if codes_path is None else FileBackend(ScratchFolder(codes_path.parent))

    def check(self, estimator: Any, X: ArrayLike, *, reset: bool) -> Data:
        """Shape and type, then one reading for everything else."""
        _check_kind(X)
        like = np.zeros((min(X.shape[0], 1), X.shape[1]), X.dtype)  # for scikit-learn's checks of shape and type
        reader = SlabReader(X, validate_data(estimator, like, reset=reset, dtype=[np.float64, np.float32]).dtype)
        masked = getattr(estimator, "missing", "error") == "mask"
        gram = reset and getattr(estimator, "_preserves_gram", False)
        return FileData(reader, self, survey(reader, type(estimator).__name__, masked=masked, gram=gram))


FILE = FileBackend()


def backend_for(X: ArrayLike) -> Backend:
    """Zarr and HDF5 are read in slabs, and so are large memory maps; those joblib makes for its workers are not.

    A fit would otherwise depend on `n_jobs`.
    """
    if not isinstance(X, np.memmap):
        return FILE
    return FILE if is_mapped(X) and X.nbytes > IN_MEMORY else MEMORY


def survey(reader: SlabReader, method: str, *, masked: bool = False, gram: bool = False) -> Survey:
    """One reading: largest entry, sum, sum of squares, column means, ||XX'||^2 if `gram` says so.

    An error names the first cell that is not allowed.
    """
    m = reader.shape[1]
    facts, sums, missing = ChunkFacts(), np.zeros(m), np.zeros(m, np.intp)
    G: Any = 0.0 if gram and m * m <= norms.HELD else None
    with team():
        for at, X in reader.slabs():
            if masked:
                unknown = np.isnan(X)
                missing += unknown.sum(axis=0)
                X[unknown] = 0
                sums += X.sum(axis=0, dtype=np.float64)
            facts += ChunkFacts.of(X, at).check(method)
            if G is not None:
                known = ordinary_unit(facts.largest, reader.dtype) == 1 and not missing.any()
                G = G + norms.product(X, X) if known else None
    reader.check_complete()
    counts = reader.shape[0] - missing
    if masked and not counts.any():
        raise ValueError(_validation.NOTHING_KNOWN.format(shape=" x ".join(map(str, reader.shape))))
    means = np.where(counts > 0, sums / np.maximum(counts, 1), sums.sum() / max(int(counts.sum()), 1))
    norm2 = None if G is None else float(np.vdot(G, G))
    return Survey(facts, means if masked else None, missing if missing.any() else None, norm2)


def _check_kind(X: ArrayLike) -> None:
    """An array of two dimensions."""
    name = f"{type(X).__module__.split('.')[0]} {type(X).__name__}"
    if not (hasattr(X, "shape") and hasattr(X, "dtype")):
        raise TypeError(
            f"X is a {name}, which holds arrays but is not an array itself: pass one of them, for example X['data']."
        )
    shape = tuple(X.shape or ())  # what h5py.Empty made has none
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(shape)}D array instead: X is a {name} of shape {shape}, "
            "but must have shape (n_samples, n_features)."
        )
