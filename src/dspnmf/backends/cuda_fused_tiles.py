"""The work on tiles by Triton kernels, on CUDA devices.

`FusedTiles` take any number of components up to 256; few in float32 have tiles of their own
(`dspnmf.backends.cuda_narrow_tiles`). Sums over rows are made in float64 on devices that multiply in float64 at speed,
elsewhere of short runs in float32. Where curvature differs from row to row (graphs with varying degrees), sweeps are
those of `PlainTiles`: the kernels keep one inverse diagonal for all rows.
"""

from __future__ import annotations

import torch
import triton
from torch.nn.functional import pad

from dspnmf._typing import Scalar
from dspnmf.backends import triton_kernels as kernels
from dspnmf.backends import triton_small_kernels as small_kernels
from dspnmf.backends.cuda_fused_nnls import FusedProblem
from dspnmf.backends.cuda_tiles import VANISHING, PlainTiles, Steps, Tensor, least_diagonal, stacked
from dspnmf.backends.row_model import RowModel, Slope
from dspnmf.backends.small_arrays import COMPONENT_SWEEPS, LONGEST, SETTLED, ConjugateStep, Small
from dspnmf.backends.tensor_nnls import RowCurvature, solve_rows

NARROW = 64  # components of a tile that fits on the chip (and compiles in seconds)
_PROGRAMS = 512  # that share a sweep over the components
_SHARES = 528  # programs among which sums over rows are divided: four for each processor of a large device
_FEWEST = 128  # rows that are worth a share
_FLOAT64_UNITS = {(8, 0), (9, 0), (10, 0)}  # compute capabilities with tensor units for float64


def multiplies_float64(device: torch.device) -> bool:
    """Whether a device multiplies in float64 at speed."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) in _FLOAT64_UNITS


def _packing(k: int) -> tuple[int, int, int]:
    """Programs that share k components, and the two widths of each: multiples of eight with the least padding."""
    widths = [(one, other) for one in (8, 16, 32, 64) for other in (0, 8, 16, 32) if other < one]
    shared = [(-(-k // (one + other)), one, other) for one, other in widths]
    return min(shared, key=lambda p: (p[0] * (p[1] + p[2] + 4), p[0]))  # a program costs as much as four components


class FusedTiles(PlainTiles):
    """Products with X, sums over rows and sweeps by kernels, block of components by block."""

    def __init__(self, X: Tensor, k: int) -> None:
        self._k, self._block = k, 32 if 16 < k <= NARROW else 16  # for sums over rows
        self._kp = self._grid(k, self._block) * self._block
        self._device, self._dtype = X.device, X.dtype
        self._sums = "float64" if X.dtype == torch.float64 or multiplies_float64(X.device) else "tf32x3"
        self._always = torch.ones(1, dtype=torch.float64, device=X.device)
        self._going = self._always
        self._packed = _packing(k)
        self._square = self._grid(k, 32) * 32  # side of the squares that conjugate gradients take
        self._squares = torch.zeros(4, self._square, self._square, dtype=X.dtype, device=X.device)
        self._kept: Tensor | None = None  # the preconditioner among them

    @property
    def _mode(self) -> str:
        """How codes are multiplied: Torch's own switch says whether products may be rounded to TF32."""
        if self._dtype == torch.float64:
            return "float64"
        return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"

    @property
    def _products(self) -> str:
        """As `_mode`, where units for float64 are as fast as three products of TF32."""
        return self._sums if self._mode == "tf32x3" else self._mode

    def _grid(self, n: int, width: int) -> int:
        return int(triton.cdiv(n, width))

    def _curvature(self, S: Tensor, rounding: float, wide: int, kind: torch.dtype, block: int = 0) -> list[Tensor]:
        """S without its diagonal, that diagonal's inverse, and S without its diagonal blocks (if wanted); padded."""
        off = torch.empty(wide, wide, dtype=kind, device=S.device)
        inverse, between = off.new_empty(wide), torch.empty_like(off) if block else off
        small_kernels.curvature[(wide,)](
            S, *S.stride(), off, inverse, between, ROUNDING=rounding, LEAST=least_diagonal(kind),
            K=self._k, KP=int(triton.next_power_of_2(wide)), WIDE=wide, KB=block, num_warps=1,
        )  # fmt: skip
        return [off, inverse, between]

    def _number(self, number: Scalar) -> Tensor:
        """A number where kernels can read it."""
        if isinstance(number, Tensor):
            return number
        return torch.full((1,), number, dtype=torch.float64, device=self._device)

    # -- products and sums -----------------------------------------------------------------------------------------

    def pull(self, X: Tensor, M: Tensor, k: int) -> Tensor:
        """By tiles of rows."""
        if X.layout == torch.sparse_csr:
            return super().pull(X, M, k)
        (n, m), mode = X.shape, self._products
        G = torch.empty(k, n, dtype=X.dtype, device=X.device)
        programs, one, other = self._packed
        wide = programs * (one + other)
        padded = pad(M if mode == "float64" else M.float(), (0, wide - k)).contiguous()
        height = 64 if one == 64 else 128
        kernels.pull[(self._grid(n, height) * programs,)](
            X, padded, G, n, m, X.stride(0),
            K=k, KP=wide, KA=one, KB=other, BM=height, BK=32, MODE=mode, num_warps=4, num_stages=4,
        )  # fmt: skip
        return G

    def push(self, X: Tensor, D: Tensor) -> Tensor:
        """By shares of rows, which are then added up."""
        if X.layout == torch.sparse_csr:
            return super().push(X, D)
        (n, m), (programs, one, other) = X.shape, self._packed
        across, wide = self._grid(m, 128) * programs, programs * (one + other)
        few = wide <= 32  # three programs of a processor are enough
        shares = max(1, min((_SHARES * 3 // 4 if few else _SHARES) // across, self._grid(n, _FEWEST)))
        span = self._grid(self._grid(n, shares), 32) * 32
        parts = torch.empty(shares, m, wide, dtype=torch.float64, device=X.device)
        kernels.push[(shares * across,)](
            X, D, parts, n, m, X.stride(0), span,
            K=self._k, KP=wide, KA=one, KB=other, BM=16 if few else 32, BN=128, MODE=self._sums,
            num_warps=4, num_stages=4 if few else 3,
        )  # fmt: skip
        return parts.sum(0)[:, : self._k]

    def gram(self, C: Tensor, *left: Tensor, part: bool = False, going: Tensor | None = None) -> list[Tensor]:
        """C C', and A C' for every A in `left`; with `part`, C is what ends at zero of the second of these."""
        across, A, B = (self._kp // self._block) ** 2, left[0] if left else C, left[1] if len(left) > 1 else C
        width = 16 if len(left) == 2 else 64  # three sums leave few registers
        most = (2 if across == 1 else 4) * _SHARES
        shares = max(1, min(most // across, self._grid(C.shape[1], _FEWEST)))
        parts = torch.empty(shares, 1 + len(left), self._kp, self._kp, dtype=torch.float64, device=self._device)
        kernels.gram[(shares * across,)](
            C, A, B, self._always if going is None else going, parts, C.shape[1],
            K=self._k, KP=self._kp, KB=self._block, BM=width, MODE=self._sums, LEFT=len(left), PART=part,
            num_warps=1 if across > 1 and self._block == 16 else 2,
        )  # fmt: skip
        return list(parts.sum(0)[:, : self._k, : self._k].unbind())

    # -- looks -----------------------------------------------------------------------------------------------------

    def _looked(
        self, G: Tensor, U: Tensor, D: Tensor, t: Tensor, S: Tensor, sweeps: Scalar, stretch: Scalar
    ) -> list[Tensor]:
        """Pending step, sweeps, new direction: first and last change, <G,D>, <G,A>. Components in blocks of 16."""
        wide = self._grid(self._k, 16) * 16
        off, inverse, between = self._curvature(S, VANISHING[U.dtype], wide, U.dtype, 16)
        parts = torch.empty(self._grid(U.shape[1], 64), 4, dtype=U.dtype, device=self._device)
        kernels.block_look[(len(parts),)](
            G, U, D, between, off, inverse, t, self._number(stretch), self._number(sweeps), parts, U.shape[1],
            K=self._k, KP=wide, KB=16, KO=32, BM=64, MODE=self._products, num_warps=2, num_stages=1,
        )  # fmt: skip
        return list(parts.sum(0, dtype=torch.float64).unbind())

    def look(
        self, G: Tensor, U: Tensor, D: Tensor, t: Tensor, S: Tensor, sweeps: Scalar, stretch: Scalar,
        rows: RowCurvature | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """The sweeps, then the sums."""
        if rows is not None:
            return super().look(G, U, D, t, S, sweeps, stretch, rows)
        return [*self._looked(G, U, D, t, S, sweeps, stretch)[:2], *self.gram(D, U)]

    def face(
        self, G: Tensor, U: Tensor, D: Tensor, t: Tensor, S: Tensor, sweeps: int, rows: RowCurvature | None = None
    ) -> list[Tensor]:
        """The sweeps, then the sums along D and along its part that ends at zero."""
        if rows is not None:
            return super().face(G, U, D, t, S, sweeps, rows)
        along = self._looked(G, U, D, t, S, sweeps, 1.0)[2:]
        return [*along, *self.gram(D, U), *self.gram(D, U, D, part=True)]

    def solve(self, G: Tensor, S: Tensor, rows: RowCurvature | None = None) -> Tensor:
        """From where all codes may have either sign, cut off at zero."""
        if rows is not None:
            return super().solve(G, S, rows)
        ridge = 1e-6 * S.diagonal().max() * torch.ones_like(S.diagonal()).diag()
        start = (torch.linalg.inv_ex(S + ridge)[0].to(G.dtype) @ G).nan_to_num(0.0, 0.0)
        return solve_rows(G, S, start=start, kind=FusedProblem)

    # -- conjugate gradients ---------------------------------------------------------------------------------------

    def _cg(
        self, kernel: triton.JITFunction, names: str, w: dict[str, Tensor], *numbers: Tensor, **flags: bool
    ) -> None:
        n = w["U"].shape[1]
        kernel[(self._grid(n, 64),)](
            *(w[name] for name in names.split()), self._squares, *numbers, n,
            K=self._k, KP=self._square, KR=64 if self._square == 64 else 32, KB=32, BM=64, MODE=self._products,
            LONG=self._k * n >= 2**31, **flags,
            num_warps=2 if self._square == 32 else 4, num_stages=1 if self._square <= NARROW else 2,
        )  # fmt: skip

    def _keep(self, number: int, A: Tensor) -> None:
        """A small square where kernels find it."""
        self._squares[number, : self._k, : self._k].copy_(A)

    def _keep_inverse(self, T: Tensor) -> None:
        """The preconditioner, once for all steps."""
        if T is not self._kept:
            self._keep(2, T)
            self._kept = T

    def cg_start(self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor) -> Tensor:
        """The residual on the free entries."""
        for number, A in enumerate((S, S + C)):
            self._keep(number, A)
        self._going, self._kept = self._always, None
        self._cg(kernels.cg_start, "U D G r free", w, stacked(steps, self._device))
        return self.gram(w["r"], w["U"], going=self._going)[1]

    def cg_step(
        self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, W: Tensor | None, first: bool
    ) -> Tensor:
        """One step; nothing where its length is zero."""
        self._keep(1, C)
        self._going = stacked(steps, self._device)
        held = {**w, "W": w["u"] if W is None else W}  # a pointer that is not read
        names = "U r u free z p q W"
        self._cg(kernels.cg_step, names, held, self._going, FIRST=first, OPERATORS=W is not None)
        return self.gram(w["r"], w["U"], going=self._going)[1]

    def couple(self, w: dict[str, Tensor], C: Tensor, T: Tensor) -> list[Tensor]:
        """Nothing is changed and nothing added up after a step of length zero."""
        self._keep_inverse(T)
        self._keep(3, C)
        parts = torch.empty(self._grid(w["U"].shape[1], 64), dtype=torch.float64, device=self._device)
        self._cg(kernels.couple, "U r u free", w, self._going, parts)
        return [parts.sum(), *self.gram(w["u"], w["U"], going=self._going)]

    def project(self, w: dict[str, Tensor], steps: Steps, first: bool) -> list[Tensor]:
        """The direction, then its sums."""
        n, wide = w["U"].shape[1], int(triton.next_power_of_2(self._square))
        width = max(16, 2048 // wide)
        parts = torch.empty(self._grid(n, width), dtype=self._dtype, device=self._device)
        arrays = [w[name] for name in ("U", "D", "G", "z", "u", "p")]
        kernels.project[(len(parts),)](
            *arrays, stacked(steps, self._device), parts, n,
            K=self._k, KP=wide, BM=width, FIRST=first, num_warps=4,
        )  # fmt: skip
        return [parts.sum(dtype=torch.float64), *self.gram(w["z"], w["D"], w["U"])]

    def combine(self, w: dict[str, Tensor], tau: Scalar, stretch: Scalar) -> list[Tensor]:
        """The direction, then its sums."""
        n, wide = w["U"].shape[1], int(triton.next_power_of_2(self._square))
        width = max(16, 2048 // wide)
        kernels.combine[(self._grid(n, width),)](
            w["U"], w["D"], w["z"], self._number(tau), self._number(stretch), n,
            K=self._k, KP=wide, BM=width, num_warps=4,
        )  # fmt: skip
        return self.gram(w["D"], w["U"])

    # -- the small side --------------------------------------------------------------------------------------------

    def components(self, Vt: Tensor, P: Tensor, Q: Tensor, rounding: float) -> Tensor:
        """A kernel for every sweep, without effect once they change little."""
        Vt, P, wide = Vt.clone(), P.contiguous(), self._one_program
        off, inverse, _ = self._curvature(Q, rounding, wide, Q.dtype)
        change, width = Vt.new_zeros(COMPONENT_SWEEPS, _PROGRAMS), 1
        grid = (min(_PROGRAMS, self._grid(len(Vt), width)),)
        for number in range(COMPONENT_SWEEPS):
            small_kernels.component_sweep[grid](
                Vt, P, off, inverse, change, len(Vt), number, SETTLED,
                K=self._k, KP=wide, BM=width, PROGRAMS=_PROGRAMS, STAGES=3, num_warps=1,
            )  # fmt: skip
        return Vt

    def best_step(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One small kernel."""
        t = torch.empty(3, dtype=torch.float64, device=c.device)
        small_kernels.quartic_step[(1,)](c, t, END=2 * LONGEST, POINTS=512, num_warps=4)
        return t[0], t[1], t[2]

    @property
    def _one_program(self) -> int:
        """Side of small squares in a kernel of one program."""
        return max(16, int(triton.next_power_of_2(self._k)))

    def coupling_part(self, Ur: Tensor, preconditioner: Tensor) -> Tensor:
        """One small kernel, where there are few components."""
        if self._k > NARROW:
            return super().coupling_part(Ur, preconditioner)
        C = torch.empty(self._k, self._k, dtype=torch.float64, device=Ur.device)
        small_kernels.coupling_part[(1,)](
            Ur, Ur.stride(0), preconditioner, C, K=self._k, KP=self._one_program, num_warps=4
        )
        return C

    def conjugate_step(
        self, small: Small, along: Slope, model: RowModel, before: ConjugateStep | None, reduction: float, eps: float
    ) -> ConjugateStep:
        """One small kernel, where there are few components."""
        if self._k > NARROW:
            return super().conjugate_step(small, along, model, before, reduction, eps)
        step = torch.empty(len(ConjugateStep._fields), dtype=torch.float64, device=self._device)
        squares = [number for A in (along.UD, along.DD, small.adopt(model.S)) for number in (A, A.stride(0))]
        small_kernels.conjugate_step[(1,)](
            along.slope, *squares, self._number(model.coupling), self._always if before is None else before.alpha, step,
            reduction**2, eps, K=self._k, KP=self._one_program, FIRST=before is None, num_warps=4,
        )  # fmt: skip
        return ConjugateStep(*step.unbind())
