"""Rows on a device: dense or CSR tensors of Torch. Everything stays there between iterations.

Requirements: X is n x m, float32 or float64; codes and what has their shape are kept k x n. The solver's small arrays
are float64 tensors on the device; one transfer an iteration brings the host what it must know
(`DeviceSmall.fetch_all`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dspnmf._typing import Array, Codes, Scalar, SmallArray
from dspnmf.backends.csr_tensors import csr_rows, is_csr, stored_values, transposed
from dspnmf.backends.cuda_operators import DeviceOperators
from dspnmf.backends.cuda_small import DeviceSmall
from dspnmf.backends.cuda_tiles import PlainTiles, Steps, Tensor
from dspnmf.backends.memory_rows import MOST_STARTS, STARTS_ARRAYS, STARTS_BYTES, TRIANGLE
from dspnmf.backends.protocol import ConjugateGradientRows, Request
from dspnmf.backends.row_model import GROUP, BlockNorms, Completion, Operator, RandomCodes, RowModel, Slope, Sums, Ties
from dspnmf.backends.small_arrays import dot
from dspnmf.backends.tensor_nnls import RowCurvature

CHUNK = 2**26  # entries of X that are looked at in float64 at once
WIDEST = 256  # columns of a product with X that all starts share
_RESOLVED = 1e-9  # of the norms they are made of: errors above have digits enough where they come from sums in float64
_STARTS_SHARE = 4  # of the device's free memory that starts may take, one part
_TINY = 1e-300  # stands for a change of nothing
_MEMORY_BOUND = 3.0  # what work on codes costs, operation by operation, relative to that on X


class DeviceRows(ConjugateGradientRows):
    """X and its codes on a device; `scale` is the unit X is measured in (every sum returned is in that unit)."""

    cg_steps = (3, 24)

    def __init__(
        self,
        X: Tensor,
        k: int,
        scale: float = 1.0,
        operators: Sequence[Operator] = (),
        norms: BlockNorms | None = None,  # of X, where it stands still
    ) -> None:
        self.scale, self._norms_of_X = scale, norms
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.k = k
        self.dtype = numpy_dtype(X)
        self._X = X
        self._operators = DeviceOperators(operators, X.dtype, X.device)
        self._tiles = self._new_tiles()
        kernels_alone = type(self._tiles) is not PlainTiles and not is_csr(X) and not operators
        records = X.is_cuda and kernels_alone and not self.completes
        self.small: DeviceSmall = DeviceSmall(self._tiles, X.device, records=records)
        self._w: dict[str, Tensor] = {}
        self._common: dict[str, Tensor] = {}  # U and D of several starts (r x k x n), of which this one has a slice
        self._start = 0  # which
        self._wide = self._tiles  # for products with all starts
        self._pending = torch.zeros((), dtype=torch.float64, device=X.device)  # always there: recordings write it
        self._first = True  # whether the next conjugate-gradient step is the first
        self._last: Steps = (0.0, 0.0)  # the last conjugate-gradient step, which has not been taken yet
        self.product_cost = 2.0 * stored_values(X).numel() * k
        self.sweep_cost = _MEMORY_BOUND * 2.0 * self.shape[0] * k**2
        self.rounding = float(np.finfo(self.dtype).eps) / (max(self.shape[0], 1) * k) ** 0.5  # of the codes

    def _new_tiles(self, starts: int = 1) -> PlainTiles:
        """Tiles, which keep arrays of their own, for codes of some starts side by side."""
        kernels = fused_kernels(self._X)
        return PlainTiles() if kernels is None else kernels.tiles_for(self._X, starts * self.k)

    @cached_property
    def _pushed(self) -> Tensor:
        """X as `push` takes it."""
        return transposed(self._X).double() if is_csr(self._X) else self._X

    # -- codes -----------------------------------------------------------------------------------------------------

    @property
    def codes(self) -> Tensor:
        """The codes (k x n), all steps taken."""
        U = self._w["U"]
        if "D" in self._w:
            U.add_(self._pending * self._w["D"]).clamp_(min=0)
            self._pending.zero_()
        return U

    def draw(self, start: RandomCodes) -> Tensor:
        """Codes drawn on the device, or where it has no kernels for that by the host."""
        n, kernels = self.shape[0], fused_kernels(self._X)
        if kernels is None:
            return self.restore_codes(start(i, min(i + GROUP, n)) for i in range(0, n, GROUP))
        U = torch.empty(self.k, n, dtype=self._X.dtype, device=self._X.device)
        kernels.draw(start, U)
        return U

    def scaled(self, codes: Tensor, factors: Array | float) -> Tensor:
        """Codes times a number, or a number for every component, in place."""
        by = self.small.adopt(factors)  # in float64: a factor alone may leave the range of float32
        return codes.mul_(by.reshape(-1, 1))

    def save_codes(self, codes: Tensor | None = None) -> Iterator[Array]:
        """Codes in blocks of rows on the host: those given, or the current ones, all steps taken."""
        U = self.codes if codes is None else codes
        for i in range(0, self.shape[0], GROUP):
            yield U[:, i : i + GROUP].T.contiguous().cpu().numpy()

    def some_codes(self, rows: NDArray[np.intp]) -> Array:
        """Codes of some rows, copied."""
        return self.codes[:, torch.from_numpy(rows).to(self._X.device)].T.double().cpu().numpy()

    def restore_codes(self, blocks: Iterable[Array]) -> Tensor:
        """Codes for `begin`, from blocks of rows of the host in their order."""
        U, at = torch.empty(self.k, self.shape[0], dtype=self._X.dtype, device=self._X.device), 0
        for block in blocks:
            U[:, at : at + len(block)] = torch.from_numpy(np.array(block, order="C")).to(U.device).T
            at += len(block)
        return U

    def begin(self, codes: Tensor | Array) -> None:
        """Start from these codes: k x n on the device, or n x k of the host."""
        if isinstance(codes, np.ndarray):
            codes = torch.from_numpy(np.array(codes.T, order="C")).to(self._X.device, self._X.dtype)
        self._w["U"] = self._w["U"].copy_(codes) if self._common else codes
        self._w["D"] = torch.zeros_like(codes) if "D" not in self._w else self._w["D"].zero_()
        self._pending.zero_()
        self.small.forget()

    def release(self) -> None:
        """Free the memory that only a descent needs."""
        self._w = {"U": self.codes}
        self.small.forget()

    # -- several starts --------------------------------------------------------------------------------------------

    def several(self, wanted: int) -> Sequence[Self]:
        """Rows for up to `wanted` starts that share X; fewer where their codes would take much of the memory."""
        of_codes, of_X = (
            size * self.dtype.itemsize for size in (self.shape[0] * self.k, stored_values(self._X).numel())
        )
        free = torch.cuda.mem_get_info(self._X.device)[0] if self._X.is_cuda else 0
        room = max(STARTS_BYTES, of_X, free // _STARTS_SHARE)
        size = int(min(wanted, MOST_STARTS, WIDEST // self.k, room / (STARTS_ARRAYS * of_codes)))
        if size < 2 or self.completes:
            return [self]
        shape, wide = (size, self.k, self.shape[0]), self._new_tiles(size)
        common = {name: torch.zeros(shape, dtype=self._X.dtype, device=self._X.device) for name in ("U", "D")}
        assert self._pushed is not None  # made once, for all
        made = [copy(self) for _ in range(size)]
        for start, rows in enumerate(made):
            rows._common, rows._start, rows._wide = common, start, wide
            rows._w, rows._pending = {name: A[start] for name, A in common.items()}, self._pending.clone()
            rows._tiles = self._new_tiles()
        return made

    def own_codes(self, codes: Tensor) -> Tensor:
        """A copy."""
        return codes.clone()

    def together(self, requests: Sequence[Request]) -> list[Any]:
        """Products with X for all starts at once, the rest side by side; one after another where most have ended."""
        starts: list[DeviceRows] = [request.rows for request in requests]
        name, given = requests[0].name, [request.arguments for request in requests]
        if 2 * len(starts) < len(self._common["D"]):  # kernels are compiled for a width: it stays the same
            return super().together(requests)
        if name == "combine":
            made = self._side_by_side(starts, DeviceRows._combined, given)
        else:
            M = {rows._start: self.small.adopt(model.M) for rows, (model, *_) in zip(starts, given, strict=True)}
            none = torch.zeros_like(M[starts[0]._start])
            all_M = torch.cat([M.get(start, none) for start in range(len(self._common["D"]))], dim=1)
            G = self._wide.pull(self._X, self._in_unit(all_M), all_M.shape[1]).view(self._common["D"].shape)
            look = DeviceRows._face if name == "face" else DeviceRows._look
            own = [(G[rows._start], *arguments) for rows, arguments in zip(starts, given, strict=True)]
            made = self._side_by_side(starts, look, own)
            if name == "face":
                return made
        PD = self._in_unit(self._wide.push(self._pushed, self._common["D"].flatten(0, 1)))
        parts = PD.view(len(PD), -1, self.k).unbind(1)
        sums = [(parts[rows._start], *left) for rows, left in zip(starts, made, strict=True)]
        return self._side_by_side(starts, DeviceRows._summed, sums)

    def _side_by_side(
        self, starts: Sequence[DeviceRows], work: Callable[..., Any], given: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """What every start returns from arguments of its own."""
        results: dict[int, Any] = {}

        def one(i: int) -> None:
            results[i] = work(starts[i], *given[i])

        self.small.side_by_side(one, len(starts))
        return [results[i] for i in range(len(starts))]

    # -- one look at every row -------------------------------------------------------------------------------------

    def sums(self) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """P = X'U, Q = U'U, and U'LU for every operator."""
        U = self.codes
        return self._push(U), self._tiles.gram(U)[0], self._operators.between((U,), U)[0]

    def step(self, t: Scalar) -> Tensor:
        """U += t D, at the next look."""
        taken = torch.as_tensor(t, dtype=torch.float64, device=self._X.device).to(self._X.dtype).double()
        self._pending.copy_(taken)
        return taken

    def look(self, model: RowModel, sweeps: Scalar, stretch: Scalar = 1.0) -> Sums:
        """Sweeps by the tiles."""
        made = self._look(self._pull(model.M), model, sweeps, stretch)
        return self._summed(self._push(self._w["D"]), *made)

    def _look(self, G: Tensor, model: RowModel, sweeps: Scalar, stretch: Scalar) -> tuple[Tensor, Tensor, Tensor]:
        """The direction in D, from X M: U'D, D'D, and how far the sweeps have settled."""
        (S, rows), (_, G) = self._operators.curvature(model), self._pulls(G, model)
        U, D = self._w["U"], self._w["D"]
        first, last, DD, UD = self._tiles.look(G, U, D, self._pending, S, sweeps, stretch, rows)
        self._pending.zero_()
        return UD, DD, (last / first.clamp(min=_TINY)).sqrt()

    def _summed(self, PD: Tensor, UD: Tensor, DD: Tensor, settled: Scalar = 0.0) -> Sums:
        """The sums along D, with those of the operators."""
        ULD, DLD = self._operators.between((self._w["U"], self._w["D"]), self._w["D"])
        return Sums(PD, UD, DD, ULD, DLD, settled)

    # -- newton-cg: the same look in two passes, conjugate gradients between them -----------------------------------

    def face(self, model: RowModel, sweeps: int) -> tuple[Slope, Slope, Tensor]:
        """Half the gradient is ``U S - G``; it is not formed, its products follow from sums."""
        return self._face(self._pull(model.M), model, sweeps)

    def _face(self, G: Tensor, model: RowModel, sweeps: int) -> tuple[Slope, Slope, Tensor]:
        """The same from X M."""
        w, operators, own = self._w, self._operators, self.small.adopt(model.S)
        if "z" not in w:
            w.update({name: torch.empty_like(w["U"]) for name in ("z", "r", "u", "p", "q")})
            w["free"] = torch.empty(w["U"].shape, dtype=torch.int8, device=w["U"].device)
        self._S = own
        S, rows = operators.curvature(model)
        w["G"], G = self._pulls(G, model)
        GD, GA, DD, UD, AA, UA, DA = self._tiles.face(G, w["U"], w["D"], self._pending, S, sweeps, rows)
        self._pending.zero_()
        D = w["D"]
        if model.curves:  # the sweeps' pull was another
            A = torch.where(w["U"] + D == 0, D, 0)
            GD, GA = ((w["G"] * B).sum(dtype=torch.float64) for B in (D, A))
        (DLD,) = operators.between((D,), D)
        return Slope(dot(own, UD) - GD, UD, DD, DLD), Slope(dot(own, UA) - GA, UA, AA), DA

    def common_curvature(self, model: RowModel) -> Tensor:
        """S, and the means of what operators add."""
        return self._operators.common_curvature(model)

    def cg_start(self, tau: Scalar, sigma: Scalar, model: RowModel, UD: Tensor, inverse: Tensor) -> Tensor:
        """Shorten D by tau, its part A by sigma; U'r of the residual r on the free entries."""
        self._first, self._last, self._inverse = True, (0.0, 0.0), inverse
        W = self._operators.curved(model, self._w["D"], tau)
        w = self._w if W is None else {**self._w, "G": self._w["G"] - W}
        return self._tiles.cg_start(w, (tau, sigma), self._S, model.coupling * UD)

    def cg_step(self, alpha: Scalar, beta: Scalar, model: RowModel, Uu: Tensor, inverse: Tensor) -> Tensor:
        """One conjugate-gradient step; U'r."""
        first, self._first, self._inverse = self._first, False, inverse
        W = self._operators.curved(model, self._w["u"])
        return self._tiles.cg_step(self._w, (alpha, beta), self._S, model.coupling * Uu, W, first)

    def couple(self, C: Tensor) -> Slope:
        """Make u of the residual: r inverse + U C on the free entries; the model along u."""
        energy, uu, Uu = self._tiles.couple(self._w, C.T, self._inverse)
        u = self._w["u"]
        return Slope(energy, Uu, uu, self._operators.between((u,), u)[0])

    def cg_last(self, alpha: Scalar, beta: Scalar) -> None:
        """The last conjugate-gradient step, which `project` takes."""
        self._last = (alpha, beta)

    def project(self) -> tuple[Slope, Tensor, tuple[Tensor, ...]]:
        """Make z the direction from U + D to the projection of U + D + z; the model along it, D'z and D'Lz."""
        Gz, zz, Dz, Uz = self._tiles.project(self._w, self._last, self._first)
        z = self._w["z"]
        zLz, DLz = self._operators.between((z, self._w["D"]), z)
        return Slope(dot(self._S, Uz) - Gz, Uz, zz, zLz), Dz, DLz

    def combine(self, tau: Scalar, stretch: Scalar = 1.0) -> Sums:
        """Second pass: D += tau z, times `stretch` as in `look`; the sums along it."""
        made = self._combined(tau, stretch)
        return self._summed(self._push(self._w["D"]), *made)

    def _combined(self, tau: Scalar, stretch: Scalar) -> tuple[Tensor, Tensor]:
        """The direction in D: U'D, D'D."""
        DD, UD = self._tiles.combine(self._w, tau, stretch)
        return UD, DD

    # -- everything but descent ------------------------------------------------------------------------------------

    def solve(self, model: RowModel, ties: Ties | None = None, completion: Completion | None = None) -> Tensor:
        """Codes (k x n); a pull of the ties is n x k of the host, or k x n on the device."""
        ties = ties or Ties(None)
        pull: Codes = ties.pull
        G = self._pull(model.M)
        if pull is not None:
            G += (pull if isinstance(pull, Tensor) else self.small.adopt(pull.T)).to(G)
        rows = None
        if ties.weight is not None and ties.lengths is not None:
            rows = RowCurvature(*(self.small.adopt(part).to(G) for part in (ties.weight, ties.lengths)))
        return self._tiles.solve(G, self.small.adopt(model.S), rows)

    def residual2(self, Vt: SmallArray) -> float:
        """||X - UV||^2: from sums where they leave digits enough, otherwise from the residuals themselves."""
        U, Vt, norms = self.codes, self.small.adopt(Vt), self._norms_of_X
        if norms is not None:
            P, Q, _ = self.sums()
            error2 = norms.norm2 + float(dot(Vt.T @ Vt, Q) - 2 * dot(Vt, P))
            if error2 > _RESOLVED * norms.norm2:
                return error2
        parts = ((X / self.scale, U[:, i : i + len(X)].T.double()) for i, X in dense_chunks(self._X))
        return float(sum((X - Z @ Vt.T).square().sum() for X, Z in parts))

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2: from sums where they leave digits enough, otherwise through a triangular factor of [X U].

        None where there are too many features for that.
        """
        m, norms = self.shape[1], self._norms_of_X
        if norms is not None:
            (P, Q, _), size2 = self.sums(), norms.gram_norm2()
            error2 = size2 + float(dot(Q, Q) - 2 * dot(P, P))
            if error2 > _RESOLVED * size2:
                return error2
        if m > TRIANGLE:
            return None
        U, R = self.codes, torch.empty(0, m + self.k, dtype=torch.float64, device=self._X.device)
        for i, X in dense_chunks(self._X):
            block = torch.cat([X / self.scale, U[:, i : i + len(X)].T.double()], dim=1)
            R = torch.linalg.qr(torch.cat([R, block]), mode="r").R
        return float(torch.linalg.norm(R[:, :m] @ R[:, :m].T - R[:, m:] @ R[:, m:].T)) ** 2

    def _pull(self, M: SmallArray) -> Tensor:
        """(X M)'."""
        return self._tiles.pull(self._X, self._in_unit(self.small.adopt(M)), self.k)

    def _pulls(self, G: Tensor, model: RowModel) -> tuple[Tensor, Tensor]:
        """The pull of the model, and that of the sweeps: these hold the diagonals of operators in their curvature."""
        if model.pulls:
            G += self._operators.pull(model, self.codes)
        return G, G + self._operators.own(model, self.codes) if model.curves else G

    def _push(self, D: Tensor) -> Tensor:
        """X'D."""
        return self._in_unit(self._tiles.push(self._pushed, D))

    def _in_unit(self, A: Tensor) -> Tensor:
        """In the unit that X is measured in."""
        return A if self.scale == 1 else A / self.scale


def numpy_dtype(X: Tensor) -> np.dtype[np.floating]:
    """The type of a tensor's numbers, in NumPy's words."""
    return np.dtype(np.float32 if X.dtype == torch.float32 else np.float64)


def dense_chunks(X: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows in their order, dense and in float64: the number of the first row, and the block."""
    step = max(1, CHUNK // int(X.shape[1]))
    for i in range(0, X.shape[0], step):
        yield i, (csr_rows(X, i, i + step).to_dense() if is_csr(X) else X[i : i + step]).double()


def fused_kernels(X: Tensor) -> ModuleType | None:
    """The module of Triton kernels, where they are to be had for X."""
    if not X.is_cuda:
        return None
    try:
        from dspnmf.backends import cuda_fused
    except ImportError:  # Torch for this platform comes without Triton, or with an old one
        return None
    return cuda_fused
