"""Slabs of dense X without missing cells for the Kullback-Leibler divergence, by Triton kernels.

What `dspnmf.backends.tensor_slabs` does with arrays of the size of X is done entry by entry on the chip. Distances,
what a step needs to know, and the sums are one reading of X each, and write nothing of its size.
"""

from __future__ import annotations

from functools import cached_property

import torch
import triton
from torch.nn.functional import pad

from dspnmf.backends import triton_divergence_kernels as kernels
from dspnmf.backends.cuda_fused_tiles import multiplies_float64
from dspnmf.backends.cuda_tiles import Tensor
from dspnmf.backends.tensor_divergence import SmallModel, Step
from dspnmf.backends.tensor_looks import Look
from dspnmf.backends.tensor_slabs import DenseSlab, DenseSums, SlabsOf, StoredSums

MOST = 32  # components
_ENTRIES = 2**29  # of X in a slab: what is copied of it, for some of its rows or a structure term, takes no more
_SHARES = 528  # programs among which sums over rows are divided: four for each processor of a large device
_FEWEST = 128  # rows that are worth a share
_PAIRS = 64  # pairs of components a program


def _side(k: int) -> int:
    """Components that kernels hold."""
    return 16 if k <= 16 else 32


def _padded(A: Tensor, height: int) -> Tensor:
    """With rows of zeros, as many as kernels read."""
    return pad(A, (0, 0, 0, height - len(A))).contiguous()


class FusedSlab(DenseSlab):
    """Rows as an array, in the user's unit."""

    def __init__(self, X: Tensor, unit: float) -> None:
        self._X, self._unit = X, unit

    @property
    def x(self) -> Tensor:  # type: ignore[override]
        """In the solver's unit; only a structure term asks for it."""
        return self._X * self._unit

    def __len__(self) -> int:
        return len(self._X)

    def rows(self, some: Tensor) -> FusedSlab:
        """Copied."""
        return FusedSlab(self._X[some], self._unit)

    def look(self, U: Tensor, model: SmallModel) -> FusedLook:
        """One reading."""
        return FusedLook(self, U.contiguous(), model)

    def launched(
        self, kernel: triton.JITFunction, programs: int, U: Tensor, model: SmallModel, *arrays: Tensor,
        last: tuple[int, ...] = (), num_warps: int = 4, num_stages: int = 2, **numbers: int | str,
    ) -> None:  # fmt: skip
        """Run a kernel on all rows, with what every one of them takes."""
        (n, m), k = self._X.shape, len(U)
        side = _side(k)
        mode = "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
        kernel[(programs,)](
            self._X, U, _padded(model.V, side), *arrays, n, m, self._X.stride(0), self._unit, model.floor, *last,
            K=k, KP=side, MODE=mode, **numbers, num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip


class FusedLook(Look):
    """Nothing is kept of the entries: they are read when something is asked for."""

    slab: FusedSlab

    def __init__(self, slab: FusedSlab, U: Tensor, model: SmallModel) -> None:
        self.slab, self.model, self.U, self.push = slab, model, U, model.totals

    def _all_distances(self, rows: Tensor) -> Tensor:
        """The divergence of every row, from what its entries add to the sum of UV."""
        return rows + (self.U.double() * self.model.totals).sum(0)

    @cached_property
    def distances(self) -> Tensor:  # type: ignore[override]
        """One reading."""
        rows = torch.empty(len(self.slab), dtype=torch.float64, device=self.U.device)
        self.slab.launched(kernels.distances, triton.cdiv(len(rows), 64), self.U, self.model, rows, BM=64, BN=32)
        return self._all_distances(rows)

    @cached_property
    def _derivatives(self) -> tuple[Tensor, Tensor]:
        """Pull and curvature, some pairs of components a program; the distances come with them."""
        pairs, n = self.model.products.shape[1], len(self.slab)
        blocks = triton.cdiv(pairs, _PAIRS)
        pull, H = torch.empty_like(self.U), torch.empty(pairs, n, dtype=self.U.dtype, device=self.U.device)
        rows = torch.empty(n, dtype=torch.float64, device=self.U.device)
        self.slab.launched(
            kernels.derivatives, blocks * triton.cdiv(n, 64), self.U, self.model,
            _padded(self.model.products.T, blocks * _PAIRS), pull, H, rows,
            PAIRS=pairs, PP=blocks * _PAIRS, PB=_PAIRS, BM=64, BN=16, num_stages=3,
        )  # fmt: skip
        self.__dict__["distances"] = self._all_distances(rows)
        return pull, H

    def pull(self) -> Tensor:
        """With curvature and distances."""
        return self._derivatives[0]

    def curvature(self) -> Tensor:
        """With pull and distances."""
        return self._derivatives[1]

    def with_codes(self, rows: Tensor, codes: Tensor) -> FusedLook:
        """Only these rows are read again, unless they are many."""
        some = rows.nonzero()[:, 0]
        look = FusedLook(self.slab, torch.where(rows, codes, self.U), self.model)
        if 2 * len(some) < len(self.slab):
            other = FusedLook(self.slab.rows(some), codes[:, some].contiguous(), self.model)
            look.__dict__["distances"] = self.distances.index_copy(0, some, other.distances)
        return look

    def add_pull(self, sums: DenseSums | StoredSums) -> None:
        """One reading, by shares of rows."""
        assert isinstance(sums, DenseSums)
        (k, n), m = self.U.shape, self.model.V.shape[1]
        across = triton.cdiv(m, 64)
        shares = max(1, min(_SHARES // across, triton.cdiv(n, _FEWEST)))
        span = triton.cdiv(triton.cdiv(n, shares), 32) * 32
        parts = torch.empty(shares, m, _side(k), dtype=torch.float64, device=self.U.device)
        self.slab.launched(
            kernels.sums, shares * across, self.U, self.model, parts, last=(span,),
            BM=32, BN=64, num_warps=2, num_stages=3, SUMS="float64" if multiplies_float64(self.U.device) else "tf32x3",
        )  # fmt: skip
        sums.add_part(parts.sum(0)[:, :k])


class FusedSlabsOf(SlabsOf):
    """X in such slabs: as many rows as are swept together, unless these have many entries."""

    def __init__(self, X: Tensor, beta: float, unit: float, k: int, *, incomplete: bool) -> None:
        super().__init__(X, beta, unit, k, incomplete=incomplete)
        step = max(1, min(self._held, _ENTRIES // int(X.shape[1])))
        self.parts = [slice(i, min(i + step, len(X))) for i in range(0, len(X), step)]

    def slab(self, part: slice) -> FusedSlab:
        """Rows of X as they are."""
        return FusedSlab(self._X[part], self._unit)

    def swept(self, step: Step, model: SmallModel, sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
        """By one kernel, without a structure term."""
        if step.similar is not None:
            return super().swept(step, model, sweeps)
        (k, n), number = step.U.shape, model.pairs.number
        side = _side(k)
        start, H = step.U.contiguous(), step.H.contiguous()
        U, G = torch.empty_like(start), (step.push - step.pull).to(start.dtype).contiguous()
        number = pad(number, (0, side - k, 0, side - k)).contiguous()
        changes = torch.empty(2, n, dtype=torch.float64, device=U.device)
        kernels.swept[(triton.cdiv(n, 32),)](
            start, G, H, number, U, changes, n, model.l1, 2 * model.l2, sweeps, K=k, KP=side, BM=32, num_warps=1
        )
        return U, changes[0], changes[1]
