"""Slabs of dense X without missing cells for the Kullback-Leibler divergence, by Triton kernels.

What `dspnmf.backends.tensor_slabs` does with arrays of the size of X is done entry by entry on the chip: a look reads X
once and writes nothing of its size, and so do the curvature and the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
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
_SHARES = 528  # programs among which sums over rows are divided: four for each processor of a large device
_FEWEST = 128  # rows that are worth a share
_PAIRS = 64  # pairs of components a program


def _padded(A: Tensor, height: int) -> Tensor:
    """With rows of zeros, as many as kernels read."""
    return pad(A, (0, 0, 0, height - len(A))).contiguous()


class FusedSlab(DenseSlab):
    """Rows as an array, in the user's unit."""

    def __init__(self, X: Tensor, unit: float) -> None:
        self._X, self._unit = X, unit

    @cached_property
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
        return FusedLook.at(self, U.contiguous(), model)

    def launched(
        self, kernel: triton.JITFunction, programs: int, U: Tensor, model: SmallModel, *arrays: Tensor,
        last: tuple[int, ...] = (), **numbers: int | str,
    ) -> None:  # fmt: skip
        """Run a kernel."""
        (n, m), k = self._X.shape, len(U)
        side = 16 if k <= 16 else 32
        mode = "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
        kernel[(programs,)](
            self._X, U, _padded(model.V, side), *arrays, n, m, self._X.stride(0), self._unit, model.floor, *last,
            K=k, KP=side, MODE=mode, **numbers, num_warps=4, num_stages=2,
        )  # fmt: skip


@dataclass(frozen=True)
class FusedLook(Look):
    """Nothing is kept of the entries."""

    slab: FusedSlab
    pulled: Tensor

    @classmethod
    def at(cls, slab: FusedSlab, U: Tensor, model: SmallModel) -> FusedLook:
        """From the entries."""
        pull, rows = torch.empty_like(U), torch.empty(U.shape[1], dtype=torch.float64, device=U.device)
        slab.launched(kernels.look, triton.cdiv(len(rows), 64), U, model, pull, rows, BM=64, BN=32)
        return cls(slab, model, U, model.totals, rows + (U.double() * model.totals).sum(0), pull)

    def pull(self) -> Tensor:
        """Made with the distances."""
        return self.pulled

    def curvature(self) -> Tensor:
        """One reading, some pairs a program."""
        pairs, n = self.model.products.shape[1], len(self.slab)
        blocks = triton.cdiv(pairs, _PAIRS)
        H = torch.empty(pairs, n, dtype=self.U.dtype, device=self.U.device)
        self.slab.launched(
            kernels.curvature, blocks * triton.cdiv(n, 64), self.U, self.model,
            _padded(self.model.products.T, blocks * _PAIRS), H,
            PAIRS=pairs, PP=blocks * _PAIRS, PB=_PAIRS, BM=64, BN=32,
        )  # fmt: skip
        return H

    def add_pull(self, sums: DenseSums | StoredSums) -> None:
        """One reading, by shares of rows."""
        assert isinstance(sums, DenseSums)
        (k, n), m = self.U.shape, self.model.V.shape[1]
        across = triton.cdiv(m, 64)
        shares = max(1, min(_SHARES // across, triton.cdiv(n, _FEWEST)))
        span = triton.cdiv(triton.cdiv(n, shares), 32) * 32
        parts = torch.empty(shares, m, 16 if k <= 16 else 32, dtype=torch.float64, device=self.U.device)
        self.slab.launched(
            kernels.sums, shares * across, self.U, self.model, parts, last=(span,),
            BM=32, BN=64, SUMS="float64" if multiplies_float64(self.U.device) else "tf32x3",
        )  # fmt: skip
        sums.add_part(parts.sum(0)[:, :k])


class FusedSlabsOf(SlabsOf):
    """X in such slabs: as many rows as are swept together."""

    def __init__(self, X: Tensor, beta: float, unit: float, k: int, *, incomplete: bool) -> None:
        super().__init__(X, beta, unit, k, incomplete=incomplete)
        self.parts = [slice(i, min(i + self._held, len(X))) for i in range(0, len(X), self._held)]

    def slab(self, part: slice) -> FusedSlab:
        """Rows of X as they are."""
        return FusedSlab(self._X[part], self._unit)

    def swept(self, step: Step, model: SmallModel, sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
        """By one kernel, without a structure term."""
        if step.similar is not None:
            return super().swept(step, model, sweeps)
        (k, n), number = step.U.shape, model.pairs.number
        side = 16 if k <= 16 else 32
        start, H = step.U.contiguous(), step.H.contiguous()
        U, G = torch.empty_like(start), (step.push - step.pull).to(start.dtype).contiguous()
        number = pad(number, (0, side - k, 0, side - k)).contiguous()
        changes = torch.empty(2, n, dtype=torch.float64, device=U.device)
        kernels.swept[(triton.cdiv(n, 32),)](
            start, G, H, number, U, changes, n, model.l1, 2 * model.l2, sweeps, K=k, KP=side, BM=32, num_warps=1
        )
        return U, changes[0], changes[1]
