"""Slabs of X on a device: products with all entries of some rows, or with those that are stored, and sums over slabs.

What `dspnmf.backends.tensor_divergence` asks of X. The precision of a product is that of its small side; sums are
float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Self

import torch

from dspnmf.backends.csr_tensors import csr_of_parts, csr_rows, csr_with_values, is_csr, row_numbers, transposition
from dspnmf.backends.csr_tensors import transposed as csr_transposed
from dspnmf.backends.cuda_tiles import PlainTiles, Tensor
from dspnmf.backends.tensor_divergence import SmallModel, Step, swept
from dspnmf.backends.tensor_looks import Look, PlainLook

SLAB = 2**25  # entries of X, and numbers of the curvature, that are looked at at once
HELD = 2**26  # numbers of the curvature whose rows are swept at once
GATHERED = 2**24  # numbers of codes and components gathered at once for stored entries
_PLAIN = PlainTiles()


class Slab:
    """Entries of some rows: all of them, or those that are stored (Kullback-Leibler asks for no others)."""

    x: Tensor
    known: Tensor | None = None  # 1 or 0 for every entry of x; None: no cell is missing

    def __len__(self) -> int:
        """The number of rows."""
        raise NotImplementedError

    def product(self, U: Tensor, V: Tensor) -> Tensor:
        """UV, where x has entries."""
        raise NotImplementedError

    def times(self, A: Tensor, M: Tensor) -> Tensor:
        """(A M)' for entries A where x has its own and M of m rows, in the precision of M."""
        raise NotImplementedError

    def row_sums(self, A: Tensor) -> Tensor:
        """Sums of the rows, in float64."""
        raise NotImplementedError

    def rows(self, some: Tensor) -> Slab:
        """Some of its rows."""
        raise NotImplementedError

    def look(self, U: Tensor, model: SmallModel) -> Look:
        """What the entries say of codes of its rows."""
        return PlainLook.at(self, U, model)

    @property
    def missing(self) -> Tensor | None:
        """1 where a cell is missing."""
        return None if self.known is None else 1 - self.known


class DenseSlab(Slab):
    """Rows as an array."""

    def __init__(self, x: Tensor, known: Tensor | None = None) -> None:
        self.x, self.known = x, known

    @classmethod
    def of(cls, X: Tensor, dtype: torch.dtype, unit: float, *, incomplete: bool) -> Self:
        """Rows of X in the solver's unit."""
        x = X.to(dtype)
        known = None
        if incomplete:
            missing = torch.isnan(x)
            x, known = torch.where(missing, 0.0, x), (~missing).to(dtype)
        return cls(x if unit == 1 else x * unit, known)

    def __len__(self) -> int:
        return len(self.x)

    def product(self, U: Tensor, V: Tensor) -> Tensor:
        """One product."""
        return U.T @ V

    def times(self, A: Tensor, M: Tensor) -> Tensor:
        """One product."""
        return M.T @ A.to(M.dtype).T

    def row_sums(self, A: Tensor) -> Tensor:
        """Added up in float64."""
        return A.sum(1, dtype=torch.float64)

    def rows(self, some: Tensor) -> DenseSlab:
        """Copied."""
        return DenseSlab(self.x[some], None if self.known is None else self.known[some])


class StoredSlab(Slab):
    """Rows of a CSR tensor: stored entries only."""

    def __init__(self, pattern: Tensor, x: Tensor, known: Tensor | None = None) -> None:
        self._pattern, self.x, self.known = pattern, x, known

    @classmethod
    def of(cls, X: Tensor, dtype: torch.dtype, unit: float, *, incomplete: bool) -> Self:
        """Rows of X in the solver's unit."""
        dense = DenseSlab.of(X.values(), dtype, unit, incomplete=incomplete)
        return cls(X, dense.x, dense.known)

    @cached_property
    def _where(self) -> tuple[Tensor, Tensor]:
        """Row and column of every stored entry."""
        return row_numbers(self._pattern), self._pattern.col_indices().long()

    def __len__(self) -> int:
        return int(self._pattern.shape[0])

    def product(self, U: Tensor, V: Tensor) -> Tensor:
        """Entry by entry, some at a time."""
        (rows, columns), Ut, Vt = self._where, U.T.contiguous(), V.T.contiguous()
        y, step = torch.empty_like(self.x), max(1, GATHERED // len(U))
        for i in range(0, len(y), step):
            torch.sum(Ut[rows[i : i + step]] * Vt[columns[i : i + step]], 1, out=y[i : i + step])
        return y

    def times(self, A: Tensor, M: Tensor) -> Tensor:
        """A sparse product."""
        return (csr_with_values(self._pattern, A.to(M.dtype)) @ M.contiguous()).T.contiguous()

    def row_sums(self, A: Tensor) -> Tensor:
        """By a product with ones, in float64."""
        ones = torch.ones(self._pattern.shape[1], 1, dtype=torch.float64, device=A.device)
        return (csr_with_values(self._pattern, A.double()) @ ones)[:, 0]

    def rows(self, some: Tensor) -> StoredSlab:
        """Copied."""
        begin = self._pattern.crow_indices().long()
        counts = begin.diff()[some]
        own = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        entries = (begin[some] - own[:-1]).repeat_interleave(counts)
        entries = entries + torch.arange(len(entries), device=entries.device)
        columns, x = self._pattern.col_indices()[entries].long(), self.x[entries]
        pattern = csr_of_parts(own, columns, x, (len(some), int(self._pattern.shape[1])))
        return StoredSlab(pattern, x, None if self.known is None else self.known[entries])


class SlabsOf:
    """X in slabs, dense or as it is stored, and sums over all of them with weights for the entries."""

    def __init__(self, X: Tensor, beta: float, unit: float, k: int, *, incomplete: bool) -> None:
        self._X, self._unit, self._incomplete = X, unit, incomplete
        self.stored = is_csr(X) and beta == 1
        self.dtype = X.dtype if beta == 1 else torch.float64
        pairs = k * (k + 1) // 2
        n, m = int(X.shape[0]), int(X.shape[1])
        self._held = max(1, HELD // pairs)
        if self.stored:
            self.parts = _parts_of_csr(X, max(1, SLAB // pairs))
        else:
            step = max(1, SLAB // max(m, pairs))
            self.parts = [slice(i, min(i + step, n)) for i in range(0, n, step)]

    def groups(self) -> Iterator[list[slice]]:
        """Slabs whose rows are swept together."""
        group: list[slice] = []
        for part in self.parts:
            if group and part.stop - group[0].start > self._held:
                yield group
                group = []
            group.append(part)
        if group:
            yield group

    def slab(self, part: slice) -> Slab:
        """The entries of some rows."""
        X = self._X
        if self.stored:
            return StoredSlab.of(
                csr_rows(X, part.start, part.stop), self.dtype, self._unit, incomplete=self._incomplete
            )
        rows = csr_rows(X, part.start, part.stop).to_dense() if is_csr(X) else X[part]
        return DenseSlab.of(rows, self.dtype, self._unit, incomplete=self._incomplete)

    def each(self, parts: Iterable[slice]) -> Iterator[tuple[slice, Slab]]:
        """Slabs with the rows they have."""
        return ((part, self.slab(part)) for part in parts)

    def swept(self, step: Step, model: SmallModel, sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
        """Codes after sweeps over a model, squared changes and sizes."""
        return swept(step, model, sweeps)

    def sums(self) -> DenseSums | StoredSums:
        """To be added to, slab by slab."""
        return StoredSums(*self._transposed) if self.stored else DenseSums()

    @cached_property
    def _transposed(self) -> tuple[Tensor, Tensor]:
        """X', and the number of every of its entries in X."""
        return csr_transposed(self._X), transposition(self._X)


class DenseSums:
    """``A'U`` in float64 for entries A of X."""

    def __init__(self) -> None:
        self._total: Tensor | None = None

    def add(self, A: Tensor, U: Tensor) -> None:
        """Those of the next slab, with its codes."""
        self.add_part(_PLAIN.push(A, U))

    def add_part(self, here: Tensor) -> None:
        """A part that is made already."""
        self._total = here if self._total is None else self._total.add_(here)

    def total(self, U: Tensor) -> Tensor:
        """When all were added; `U` are all codes."""
        assert self._total is not None  # X has rows
        return self._total


class StoredSums:
    """The same for stored entries: they are kept, and multiplied at the end by way of the transpose."""

    def __init__(self, transpose: Tensor, order: Tensor) -> None:
        self._transpose, self._order, self._parts = transpose, order, list[Tensor]()

    def add(self, A: Tensor, U: Tensor) -> None:
        """Those of the next slab."""
        self._parts.append(A)

    def total(self, U: Tensor) -> Tensor:
        """When all were added; `U` are all codes."""
        values = torch.cat(self._parts)[self._order].double()
        return csr_with_values(self._transpose, values) @ U.T.double().contiguous()


def _parts_of_csr(X: Tensor, most: int) -> list[slice]:
    """Rows in parts of at most so many, and of at most `SLAB` stored entries where a row has no more."""
    begin, n, at, parts = X.crow_indices().cpu(), int(X.shape[0]), 0, []
    while at < n:
        room = int(torch.searchsorted(begin, begin[at] + SLAB, right=True)) - 1
        parts.append(slice(at, end := min(max(room, at + 1), at + most, n)))
        at = end
    return parts
