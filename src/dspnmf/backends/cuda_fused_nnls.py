"""Non-negative least squares for many rows on a CUDA device: what is done to every code, by kernels."""

from __future__ import annotations

import torch
import triton

from dspnmf.backends import triton_nnls_kernels as kernels
from dspnmf.backends.tensor_nnls import Problem, Solved, Tensor, Wrong

_PROGRAMS = 1584  # that solve rows: twelve for each processor of a large device
_AT_ONCE = 32  # rows that each of them solves at once
_TRIANGLES = 2**27  # numbers that all of them keep, at most
_TALL = 128  # rows of a tile, where every code is looked at by itself
_FEW = 2**16  # beyond any number of codes


class FusedProblem(Problem):
    """Rows without a curvature of their own."""

    def by_elimination(self, F: Tensor, slope: Tensor) -> Tensor:
        """Rows with about as many codes in their systems are solved side by side."""
        k, free = len(self.S), F.sum(0, dtype=torch.int32)
        few = 2 * free <= k
        sizes, rows = torch.where(few, free + _FEW, k - free).sort()
        among_zeros, among_free = sizes < _FEW, sizes > _FEW
        facts = torch.stack(
            [
                (sizes == 0).sum(),
                among_zeros.sum(),
                among_free.sum(),
                torch.where(among_zeros, sizes, 0).max(),
                torch.where(among_free, sizes - _FEW, 0).max(),
            ]
        )
        without, zeros, others, most_zeros, most_free = facts.tolist()
        turned, n = self.inverse @ slope, len(rows)
        if most_zeros:
            pushed = torch.zeros_like(slope)
            part = slice(without, zeros)
            self._eliminate(self.inverse, F, turned, pushed, rows[part], sizes[part], most_zeros, among=False)
            turned.addmm_(self.inverse, pushed, alpha=-1)
        turned *= F
        if most_free:
            part = slice(n - others, n)
            direct = torch.zeros_like(slope)
            self._eliminate(self.S, F, slope, direct, rows[part], sizes[part] - _FEW, most_free, among=True)
            turned = torch.where(few, direct, turned)
        return turned

    def _eliminate(
        self, A: Tensor, F: Tensor, b: Tensor, z: Tensor, rows: Tensor, sizes: Tensor, most: int, *, among: bool
    ) -> None:
        """Leave in z, for these rows, the solution of ``A z = b`` for the codes in F, or for the others."""
        most = 4 * triton.cdiv(most, 4)
        each = most * (most + 1) // 2 * _AT_ONCE
        programs = min(_PROGRAMS, triton.cdiv(len(rows), _AT_ONCE), max(1, _TRIANGLES // each))
        triangles = b.new_empty(programs * each)
        sides = b.new_empty(programs, most, _AT_ONCE)
        kernels.eliminate[(programs,)](
            A.contiguous(), F, b, z, rows, sizes, triangles, sides, torch.empty_like(sides, dtype=torch.int32),
            b.shape[1], len(rows), most, K=len(A), R=_AT_ONCE, AMONG=among, num_warps=1, num_stages=1,
        )  # fmt: skip

    def solved(self, Y: Tensor) -> Solved:
        """In one product."""
        return Solved(Y, torch.addmm(self.G, self.S, Y, alpha=-1))

    def wrong(self, F: Tensor, found: Solved) -> Wrong:
        """One reading."""
        k, n = F.shape
        codes, count, short = (torch.empty_like(F), *(F.new_empty(n, dtype=kind) for kind in (torch.int64, torch.bool)))
        kernels.judge[(triton.cdiv(n, _TALL),)](
            self.G.contiguous(), found.slope, found.codes, F, self.diagonal.contiguous(), codes, count,
            short, n, self.precision, K=k, R=_TALL, num_warps=4,
        )  # fmt: skip
        return Wrong(codes, count, short)

    def exchanged(self, F: Tensor, found: Solved, wrong: Tensor, everything: Tensor, share: Tensor) -> Tensor:
        """Two readings, the second from the cache."""
        k, n = F.shape
        new = torch.empty_like(F)
        kernels.exchange[(triton.cdiv(n, _TALL),)](
            F, found.codes, found.slope, wrong, *self._gains(), everything, share,
            new, n, K=k, R=_TALL, num_warps=4,
        )  # fmt: skip
        return new
