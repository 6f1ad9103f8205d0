"""The work on tiles of few components in float32: all of a tile on the chip, its sums in the pass that makes it.

That is limited by what is read and written. With three conjugate-gradient steps an iteration of newton-cg reads and
writes 50 arrays of the codes' size by `OnChipTiles`, and 71 by `FusedTiles`, next to X.
"""

from __future__ import annotations

import torch
import triton

from dspnmf._typing import Scalar
from dspnmf.backends import triton_kernels as kernels
from dspnmf.backends import triton_narrow_kernels as narrow
from dspnmf.backends.cuda_fused_tiles import FusedTiles
from dspnmf.backends.cuda_tiles import VANISHING, Steps, Tensor, stacked

_HEIGHT = 64  # rows of a tile
_WARPS = 2
_MANY = 2**17  # rows from which on the lengths of conjugate-gradient steps need no more digits than TF32 has
_PROGRAMS = 1056  # that share a pass: eight for each processor of a large device


class NarrowTiles(FusedTiles):
    """Sweeps over all of a tile on the chip: up to 64 components."""

    def _looked(
        self, G: Tensor, U: Tensor, D: Tensor, t: Tensor, S: Tensor, sweeps: Scalar, stretch: Scalar
    ) -> list[Tensor]:
        """All of a tile on the chip."""
        off, inverse, _ = self._curvature(S, VANISHING[self._dtype], self._kp, self._dtype)
        n = U.shape[1]
        parts = torch.empty(self._grid(n, 32), 4, dtype=self._dtype, device=self._device)
        kernels.look[(len(parts),)](
            G, U, D, off, inverse, t, self._number(stretch), self._number(sweeps), parts, n,
            K=self._k, KP=self._kp, BM=32, num_warps=1,
        )  # fmt: skip
        return list(parts.sum(0, dtype=torch.float64).unbind())


class OnChipTiles(NarrowTiles):
    """Conjugate gradients too: up to 32 components."""

    def __init__(self, X: Tensor, k: int) -> None:
        super().__init__(X, k)
        self._squares = torch.zeros(4, self._kp, self._kp, dtype=X.dtype, device=X.device)
        self._before = self._always  # length of the first conjugate-gradient step
        self._done = 0  # conjugate-gradient steps

    def _summed(
        self, kernel: triton.JITFunction, n: int, sums: int, *arrays: Tensor, mode: str, number: bool = False,
        **flags: int | bool | str,
    ) -> list[Tensor]:  # fmt: skip
        """What a kernel adds up: squares, and with `number` one in front of them."""
        k, side = self._k, self._kp
        size = sums * side * side
        programs = max(1, min(_PROGRAMS, self._grid(n, _HEIGHT)))
        parts = torch.empty(programs, size + 1, dtype=torch.float64, device=self._device)
        kernel[(programs,)](
            *arrays, parts, n,
            K=k, KP=side, BM=_HEIGHT, MODE=mode, LONG=k * n >= 2**31, SUMS=sums, **flags,
            num_warps=_WARPS, num_stages=1,
        )  # fmt: skip
        total = parts.sum(0)
        squares = list(total[:size].view(sums, side, side)[:, :k, :k].unbind())
        return [total[size], *squares] if number else squares

    def _few_digits(self, n: int) -> str:
        """How sums are made that only say how far to go."""
        return "tf32" if n >= _MANY else self._mode

    def cg_start(self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor) -> Tensor:
        """The residual on the free entries."""
        for number, A in enumerate((S, S + C)):
            self._keep(number, A)
        self._going, self._kept, self._done = self._always, None, 0
        arrays = [w[name] for name in ("U", "D", "G", "r")]
        given = self._squares, stacked(steps, self._device)
        (Ur,) = self._summed(
            narrow.cg_start, w["U"].shape[1], 1, *arrays, *given, mode=self._products, SUMMED=self._mode
        )
        return Ur

    def cg_step(
        self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, W: Tensor | None, first: bool
    ) -> Tensor:
        """One step; after the first u is p, and z is p times the length of that step."""
        self._keep(1, C)
        self._going = stacked(steps, self._device)
        arrays = [w[name] for name in ("U", "r", "u", "z", "p", "q")]
        (Ur,) = self._summed(
            narrow.cg_step, w["U"].shape[1], 1, *arrays, w["u"] if W is None else W, self._squares, self._going,
            self._before, mode=self._products, SUMMED=self._mode, DONE=min(self._done, 2), OPERATORS=W is not None,
        )  # fmt: skip
        if self._done == 0:
            self._before, w["p"], w["u"] = self._going, w["u"], w["p"]
        self._done += 1
        return Ur

    def couple(self, w: dict[str, Tensor], C: Tensor, T: Tensor) -> list[Tensor]:
        """In one pass; after a step of length zero nothing, unless it was the first, which leaves u empty."""
        self._keep_inverse(T)
        self._keep(3, C)
        arrays, n = [w[name] for name in ("U", "r", "u")], w["U"].shape[1]
        return self._summed(
            narrow.couple, n, 2, *arrays, self._squares, self._going,
            mode=self._products, number=True, SUMMED=self._few_digits(n), EMPTY=self._done < 2,
        )  # fmt: skip

    def project(self, w: dict[str, Tensor], steps: Steps, first: bool) -> list[Tensor]:
        """In one pass."""
        arrays, n = [w[name] for name in ("U", "D", "G", "z", "u", "p")], w["U"].shape[1]
        return self._summed(
            narrow.project, n, 3, *arrays, stacked(steps, self._device), self._before,
            mode=self._sums, number=True, SUMMED=self._few_digits(n), DONE=min(self._done, 2),
        )  # fmt: skip

    def combine(self, w: dict[str, Tensor], tau: Scalar, stretch: Scalar) -> list[Tensor]:
        """In one pass."""
        arrays = [w[name] for name in ("U", "D", "z")]
        given = stacked((tau, stretch), self._device)
        return self._summed(narrow.combine, w["U"].shape[1], 2, *arrays, given, mode=self._sums)
