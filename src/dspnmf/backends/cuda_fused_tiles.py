"""The work on tiles by Triton kernels: CUDA, float32.

Where curvature differs from row to row (graphs with varying degrees, new rows tied to those of a fit), sweeps are those
of `PlainTiles`: the kernels keep one inverse diagonal for all rows.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from triton import language as tl

from dspnmf._typing import Scalar
from dspnmf.backends import triton_kernels as kernels
from dspnmf.backends.cuda_tiles import SOLVE_SWEEPS, PlainTiles, RowCurvature, Steps, Tensor, inverse_diagonal, stacked
from dspnmf.backends.small_arrays import COMPONENT_SWEEPS, LONGEST, SETTLED

_SPAN = 4096  # rows whose products one program adds up
_LARGEST = 64  # components for which tiles fit on the chip (and compile in seconds)
_PROGRAMS = 512  # that share a sweep over the components
_GRAMS = 528  # programs of a k x k sum
_SOLVED = 1e-14  # squared relative change of a tile that is done


def fits(X: Tensor, k: int) -> bool:
    """Whether these kernels take X."""
    return X.dtype == torch.float32 and k <= _LARGEST


class FusedTiles(PlainTiles):
    """A kernel for each kind of look; what leaves a program is added up in float64."""

    def __init__(self, X: Tensor, k: int) -> None:
        self._k, self._kp = k, max(16, int(triton.next_power_of_2(k)))  # a power of two the tensor units take
        self._device = X.device
        self._made: list[tuple[Tensor, Tensor]] = []
        self._always = torch.ones(1, dtype=torch.float64, device=X.device)
        self._going = self._always

    @property
    def _mode(self) -> str:
        """Torch's own switch says whether products may be rounded to TF32."""
        return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"

    # -- small arrays and sums as kernels take and leave them ------------------------------------------------------

    def _square(self, A: Tensor) -> Tensor:
        """A k x k array in float32, padded with zeros; the last few are kept, as a descent asks for them again."""
        for given, made in self._made:
            if given is A:
                return made
        made = torch.nn.functional.pad(A.float(), (0, self._kp - self._k, 0, self._kp - self._k)).contiguous()
        self._made = [*self._made[-2:], (A, made)]
        return made

    def _curvature(self, S: Tensor, rounding: float = 1e-14) -> tuple[Tensor, Tensor]:
        """S without its diagonal, and the diagonal's inverse; padded, in S's precision."""
        wide = (0, self._kp - self._k)
        off = torch.nn.functional.pad(S - torch.diag(S.diagonal()), wide * 2).contiguous()
        return off, torch.nn.functional.pad(inverse_diagonal(S, rounding), wide)

    def _steps(self, *steps: Scalar) -> Tensor:
        """Steps where kernels can read them."""
        if len(steps) == 1 and isinstance(steps[0], Tensor):
            return steps[0]
        return stacked(steps, self._device)

    def _grid(self, n: int, width: int) -> int:
        return int(triton.cdiv(n, width))

    def _room(self, programs: int, scalars: int) -> Tensor:
        return torch.empty(programs, scalars, device=self._device)

    def _total(self, parts: Tensor) -> list[Tensor]:
        return list(parts.sum(0, dtype=torch.float64).unbind())

    def _gram(
        self, A: Tensor, C: Tensor, B: Tensor | None = None, *, part: bool = False, going: Tensor | None = None
    ) -> list[Tensor]:
        """A C', C C' and, where B is given, B C'."""
        parts = torch.empty(_GRAMS, 3, self._kp, self._kp, dtype=torch.float64, device=self._device)
        kernels.gram[(_GRAMS,)](
            A, A if B is None else B, C, self._always if going is None else going, parts, A.shape[1],
            K=self._k, KP=self._kp, BM=32, MODE=self._mode, TWO=B is not None, PART=part, num_warps=2,
        )  # fmt: skip
        AC, CC, BC = parts.sum(0)[:, : self._k, : self._k].unbind()
        return [AC, CC] if B is None else [AC, CC, BC]

    # -- looks -----------------------------------------------------------------------------------------------------

    def pull(self, X: Tensor, M: Tensor, k: int) -> Tensor:
        """By tiles of rows."""
        if X.layout == torch.sparse_csr:
            return super().pull(X, M, k)
        (n, m), wide = X.shape, self._kp
        G = torch.empty(k, n, device=X.device)
        padded = torch.nn.functional.pad(M.float(), (0, wide - k)).contiguous()
        tile = {"BM": 128 if wide <= 64 else 64, "BK": 64 if wide <= 32 else 32}
        kernels.pull[(self._grid(n, tile["BM"]),)](
            X, padded, G, n, m, X.stride(0), K=k, KP=wide, MODE=self._mode, **tile, num_warps=4, num_stages=3
        )
        return G

    def push(self, X: Tensor, D: Tensor) -> Tensor:
        """By spans of rows, which are then added up in float64."""
        if X.layout == torch.sparse_csr:
            return super().push(X, D)
        (n, m), wide, spans = X.shape, self._kp, self._grid(X.shape[0], _SPAN)
        narrow = wide <= 32  # sums of few components fit into registers in float64
        parts = torch.empty(spans, m, wide, dtype=torch.float64 if narrow else torch.float32, device=X.device)
        kernels.push[(self._grid(m, 128), spans)](
            X, D, parts, n, m, X.stride(0), _SPAN,
            K=self._k, KP=wide, BM=32, BN=128, MODE=self._mode, SUM=tl.float64 if narrow else tl.float32,
            num_warps=4, num_stages=3 if wide <= 64 else 2,
        )  # fmt: skip
        return parts.sum(0, dtype=torch.float64)[:, : self._k]

    def _swept_by(
        self, kernel: Any, arrays: tuple[Tensor, ...], t: Scalar, S: Tensor, *numbers: float, **fixed: int
    ) -> list[Tensor]:
        """The two sums a kernel makes that takes the pending step and sweeps."""
        off, inverse = self._curvature(S.float())
        n, wide = arrays[0].shape[1], 64 if self._kp <= 32 else 32
        parts = self._room(self._grid(n, wide), 2)
        tile = {"K": self._k, "KP": self._kp, "BM": wide, "num_warps": 1, **fixed}
        kernel[(len(parts),)](*arrays, off, inverse, self._steps(t), parts, n, *numbers, **tile)
        return self._total(parts)

    def look(
        self, G: Tensor, U: Tensor, D: Tensor, t: Scalar, S: Tensor, sweeps: int, stretch: float,
        rows: RowCurvature | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """The sweeps, then the sums."""
        if rows is not None:
            return super().look(G, U, D, t, S, sweeps, stretch, rows)
        return [*self._swept_by(kernels.look, (G, U, D), t, S, sweeps, stretch), *self._gram(U, D)]

    def face(
        self, G: Tensor, U: Tensor, D: Tensor, t: Scalar, S: Tensor, sweeps: int, rows: RowCurvature | None = None
    ) -> list[Tensor]:
        """The sweeps, then the sums along D and along its part that ends at zero."""
        if rows is not None:
            return super().face(G, U, D, t, S, sweeps, rows)
        slopes = self._swept_by(kernels.face, (G, U, D), t, S, SWEEPS=sweeps)
        return [*slopes, *self._gram(U, D), *self._gram(U, D, D, part=True)]

    def _cg(
        self, kernel: Any, names: str, w: dict[str, Tensor], steps: Tensor, small: tuple[Tensor, ...], **flags: bool
    ) -> Tensor:
        tile = {"K": self._k, "KP": self._kp, "BM": 64 if self._kp <= 32 else 32, "MODE": self._mode}
        n = w["U"].shape[1]
        parts = self._room(self._grid(n, int(tile["BM"])), 1)
        squares = [self._square(A) for A in small]
        warps = 2 if self._kp <= 32 else 4
        arrays = [w[name] for name in names.split()]
        kernel[(len(parts),)](*arrays, *squares, steps, parts, n, **tile, **flags, num_warps=warps)
        return parts

    def cg_start(self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, T: Tensor) -> list[Tensor]:
        """The residual on the free entries."""
        parts = self._cg(kernels.cg_start, "U D G r u free", w, self._steps(*steps), (S, C, T))
        self._going = self._always
        return self._total(parts)

    def cg_step(
        self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, T: Tensor, W: Tensor | None, first: bool
    ) -> list[Tensor]:
        """One step; nothing where its length is zero."""
        at, held = self._steps(*steps), {**w, "W": w["u"] if W is None else W}  # a pointer that is not read
        names = "U r u free z p q W"
        parts = self._cg(kernels.cg_step, names, held, at, (S, C, T), FIRST=first, OPERATORS=W is not None)
        self._going = at
        return self._total(parts)

    def residual_sums(self, w: dict[str, Tensor]) -> list[Tensor]:
        """Nothing is added up after a step of length zero."""
        return self._gram(w["U"], w["u"], going=self._going)

    def project(self, w: dict[str, Tensor]) -> list[Tensor]:
        """The direction, then its sums."""
        n = w["U"].shape[1]
        parts = self._room(self._grid(n, 64), 1)
        arrays = [w[name] for name in ("U", "D", "G", "z")]
        kernels.project[(len(parts),)](*arrays, parts, n, K=self._k, KP=self._kp, BM=64, num_warps=4)
        Dz, zz, Uz = self._gram(w["D"], w["z"], w["U"])
        return [*self._total(parts), Dz, Uz, zz]

    def combine(self, w: dict[str, Tensor], tau: Scalar, stretch: float) -> list[Tensor]:
        """The direction, then its sums."""
        n = w["U"].shape[1]
        grid = (self._grid(n, 64),)
        kernels.combine[grid](
            w["U"], w["D"], w["z"], self._steps(tau), n, stretch, K=self._k, KP=self._kp, BM=64, num_warps=4
        )
        return self._gram(w["U"], w["D"])

    def solve(self, G: Tensor, S: Tensor, rows: RowCurvature | None = None) -> Tensor:
        """A tile sweeps until it changes no more."""
        if rows is not None:
            return super().solve(G, S, rows)
        U, width = torch.empty_like(G), 32
        off, inverse = self._curvature(S.float())
        kernels.solve[(self._grid(G.shape[1], width),)](
            G, U, off, inverse, G.shape[1], SOLVE_SWEEPS, _SOLVED, K=self._k, KP=self._kp, BM=width, num_warps=1
        )
        return U

    # -- the small side --------------------------------------------------------------------------------------------

    def components(self, Vt: Tensor, P: Tensor, Q: Tensor, rounding: float) -> Tensor:
        """A kernel for every sweep, without effect once they change little."""
        Vt, P = Vt.clone(), P.contiguous()
        off, inverse = self._curvature(Q, rounding)
        change, width = Vt.new_zeros(COMPONENT_SWEEPS, _PROGRAMS), 8
        grid = (min(_PROGRAMS, self._grid(len(Vt), width)),)
        for number in range(COMPONENT_SWEEPS):
            kernels.component_sweep[grid](
                Vt, P, off, inverse, change, len(Vt), number, SETTLED,
                K=self._k, KP=self._kp, BM=width, PROGRAMS=_PROGRAMS, num_warps=4,
            )  # fmt: skip
        return Vt

    def best_step(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """One small kernel."""
        t = torch.empty(2, dtype=torch.float64, device=c.device)
        kernels.quartic_step[(1,)](c, t, END=2 * LONGEST, POINTS=512, num_warps=4)
        return t[0], t[1]
