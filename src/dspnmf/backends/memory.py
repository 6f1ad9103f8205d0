"""X in the memory of one machine: NumPy arrays, SciPy sparse matrices, data frames, lists.

What `Data` knows of such an X, and what comes back to the user. The work on rows is in `dspnmf.backends.memory_rows`;
an X with missing cells is made by `dspnmf.backends.incomplete`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_array

from dspnmf import _validation
from dspnmf._threads import team
from dspnmf._typing import Array, ArrayLike, Codes, Matrix, Sparse
from dspnmf.backends import norms
from dspnmf.backends.averaging import averaged
from dspnmf.backends.base_data import BaseData
from dspnmf.backends.chunk_facts import ChunkFacts
from dspnmf.backends.file_slabs import unmapped
from dspnmf.backends.memory_divergence import MemoryDivergenceRows
from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.protocol import Backend, Capability, Data
from dspnmf.backends.row_model import Operator


class MemoryData(BaseData):
    """A checked X in memory, and columns it was widened by."""

    _both: Array | None = None  # an array whose halves are X and its averaged rows

    def __init__(self, X: Matrix, backend: Backend, largest: float) -> None:
        super().__init__(X, X.shape, X.dtype, backend, largest)

    @property
    def _X(self) -> Matrix:
        """X without missing cells."""
        return self.blocks["X"]

    @cached_property
    def facts(self) -> ChunkFacts:  # type: ignore[override]
        """Facts of X, read when they are first asked for."""
        with team():
            held = ChunkFacts.of(self._X)
        return replace(held, largest=held.largest * self.unit, unit=held.unit * self.unit)

    def gram_norm2(self, scale: float, block: str = "X") -> float:
        """||XX'||^2."""
        return norms.gram_norm2(self._X if block == "X" else self.blocks[block], scale / self.unit)

    def rows(self, k: int, scale: float, operators: Sequence[Operator] = ()) -> MemoryRows:
        """Rows of all blocks together."""
        return MemoryRows(self._together(), k, scale / self.unit, operators)

    def has_zeros(self) -> bool:
        """Whether a cell is zero: cells that a sparse X does not store are."""
        X = self.blocks["X"]
        values = X.data if sparse.issparse(X) else X
        return values.size < X.shape[0] * X.shape[1] or bool((values == 0).any())

    def divergence_rows(self, k: int, scale: float) -> MemoryDivergenceRows:
        """Rows of X, missing cells as they are."""
        return MemoryDivergenceRows(self.blocks["X"], k, scale / self.unit)

    def _together(self) -> Matrix:
        parts = list(self.blocks.values())
        if len(parts) == 1:
            return parts[0]
        if self._both is not None and len(parts) == 2:
            return self._both
        if sparse.issparse(parts[0]):
            return sparse.csr_array(sparse.hstack(parts, format="csr"))
        return np.hstack([part.toarray() if sparse.issparse(part) else part for part in parts])

    def widened(self, name: str, columns: Matrix) -> Self:
        """X with further columns."""
        return self._with_block(name, columns if self.unit == 1 else (columns / self.unit).astype(self.dtype))

    def with_unit_rows(self, scale: float) -> Self:
        """X with its rows at unit length."""
        return self._with_block("unit rows", unit_rows(self.blocks["X"], scale / self.unit))

    def with_averaged_rows(self, R: Sparse, steps: int, own: float = 0.0) -> Self:
        """X with its averaged rows; where they are dense, as halves of one array, which `rows` then take as it is."""
        X, m = self.blocks["X"], self.shape[1]
        if sparse.issparse(X) or len(self.blocks) > 1:
            return self._with_block("averaged rows", averaged(X, R, steps, own))
        both = np.empty((self.shape[0], 2 * m), X.dtype)
        both[:, :m] = X
        wide = self._with_block("averaged rows", averaged(X, R, steps, own, both[:, m:]))
        wide.blocks["X"], wide._both = both[:, :m], both
        return wide

    def without_features(self) -> MemoryData:
        """One empty column in place of X."""
        return MemoryData(sparse.csr_array((self.shape[0], 1), dtype=self.dtype), self.backend, 0.0)

    def transposed(self) -> MemoryData:
        """X'."""
        X = self.blocks["X"]
        return self._like(X.T.tocsr() if sparse.issparse(X) else np.asarray(X).T, self.unit)

    def as_float64(self) -> MemoryData:
        """X in float64."""
        return self._like(self.blocks["X"].astype(np.float64), self.unit)

    def _divided(self, unit: float) -> MemoryData:
        return self._like(divided(self.blocks["X"], unit), unit)

    def _like(self, X: Matrix, unit: float) -> MemoryData:
        """Another X, in some unit, of the same largest entry."""
        data = type(self)(X, self.backend, self.largest)
        data.unit = unit
        return data

    def some_rows(self, rows: NDArray[np.intp], block: str = "X") -> Array:
        """Some rows of a block, dense, in float64."""
        some = self.blocks[block][rows].astype(np.float64)
        return some.toarray() if sparse.issparse(some) else some

    def on_host(self) -> Matrix:
        """X itself."""
        return self.blocks["X"]

    def column_means(self) -> Array:
        """Means of the columns."""
        return np.asarray(self.blocks["X"].mean(axis=0, dtype=np.float64)).ravel()

    def singular_vectors(self, k: int, rng: np.random.RandomState) -> tuple[Array, Array, Array]:
        """By scikit-learn's randomised method."""
        left, values, right = randomized_svd(self._X, k, random_state=rng)
        return left, values, right


class MemoryBackend:
    """Memory."""

    name = "in memory"
    capabilities: frozenset[Capability] = frozenset(get_args(Capability))
    solvers: tuple[str, ...] = ("newton-cg", "hals", "mm", "paper", "paper-appendix")

    def storing(self, codes_path: Path | None) -> Backend:
        """Codes are in memory until they are written."""
        return self

    def check(self, estimator: Any, X: ArrayLike, *, reset: bool) -> Data:
        """By scikit-learn's checks, then for negative, missing and infinite cells."""
        X, largest = _validation.check_data(estimator, unmapped(X), reset=reset)
        if _validation.has_missing(estimator, X):
            from dspnmf.backends.incomplete import IncompleteData

            return IncompleteData(X, self, largest)
        return MemoryData(X, self, largest)

    def codes(self, codes: Codes) -> ArrayLike:
        """As they are."""
        return codes

    def components(self, V: Array) -> ArrayLike:
        """As they are."""
        return V

    def samples(self, Z: ArrayLike, V: ArrayLike) -> ArrayLike:
        """A NumPy array."""
        Z = check_array(Z, accept_sparse="csr", dtype=[np.float64, np.float32])
        _validation.check_codes(Z, len(V))
        return np.asarray(Z @ on_host(V))


MEMORY = MemoryBackend()


def on_host(A: ArrayLike) -> Array:
    """An array as NumPy's, wherever it is: tensors and CuPy arrays know the way."""
    for way in ("cpu", "get"):
        A = getattr(A, way)() if hasattr(A, way) else A
    return np.asarray(A)


def divided(X: Matrix, unit: float) -> Matrix:
    """X over a power of two, which rounds nothing."""
    if sparse.issparse(X):
        return sparse.csr_array((X.data / X.dtype.type(unit), X.indices, X.indptr), X.shape)
    return np.asarray(X / X.dtype.type(unit))


def unit_rows(X: Matrix, scale: float) -> Matrix:
    """The rows of X at unit length, times `scale`; rows of zeros stay zero."""
    X64 = X.astype(np.float64) / scale
    if sparse.issparse(X):
        lengths = np.sqrt(np.asarray(X64.power(2).sum(axis=1)).ravel())
        unit = sparse.diags_array(scale / np.where(lengths > 0, lengths, 1.0)) @ X64
        return unit.astype(X.dtype)
    lengths = np.linalg.norm(X64, axis=1, keepdims=True)
    return (X64 * (scale / np.where(lengths > 0, lengths, 1.0))).astype(X.dtype)
