"""Rows on a device: dense or CSR tensors of Torch. Everything stays there between iterations.

Requirements: X is n x m, float32 or float64; codes and what has their shape are kept k x n. The solver's small arrays
are float64 tensors on the device; one transfer an iteration tells the host what it must know (`DeviceSmall.fetch`). For
newton-cg the k x k curvature travels as well, while the device is busy with the first pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from dspnmf.backends.csr_tensors import csr_on_host, csr_rows, transposed
from dspnmf.backends.cuda_tiles import PlainTiles, Tensor, Tiles
from dspnmf.backends.memory import TRIANGLE, ArrayRows
from dspnmf.backends.row_model import GROUP, RandomCodes, RowModel, Slope, Sums
from dspnmf.backends.small_arrays import HOST, Scalar, Small, dot

_CHUNK = 2**26  # entries of X that are looked at in float64 at once
_MEMORY_BOUND = 3.0  # what work on codes costs beside that on X, operation by operation


class DeviceSmall:
    """Small arrays on the device."""

    def __init__(self, tiles: Tiles, device: torch.device) -> None:
        self._tiles = tiles
        self._device = device

    def where(self, condition: Any, yes: Scalar, no: Scalar) -> Scalar:
        """Chosen on the device."""
        if not isinstance(condition, Tensor):
            return yes if condition else no
        return torch.where(condition, yes, no)

    def over(self, going: Any) -> bool:
        """The host does not know."""
        return False

    def fetch(self, scalars: Sequence[Scalar]) -> list[float]:
        """One transfer."""
        values: list[float] = self._stacked(scalars).tolist()
        return values

    def _stacked(self, scalars: Sequence[Scalar]) -> Tensor:
        """Scalars of the device and of the host side by side on the device, without waiting."""
        return torch.stack([
            s.double() if isinstance(s, Tensor) else torch.full((), s, dtype=torch.float64, device=self._device)
            for s in scalars
        ])  # fmt: skip

    def host(self, A: Any) -> Any:
        """Copied."""
        return A.cpu().numpy() if isinstance(A, Tensor) else np.asarray(A)

    def adopt(self, A: Any) -> Any:
        """Copied."""
        if isinstance(A, Tensor):
            return A
        copy = torch.from_numpy(np.array(A, order="C"))  # pinned memory is copied while the host goes on
        return copy.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else copy

    def best_step(self, c: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
        """By the device."""
        return self._tiles.best_step(self._stacked(c))

    def components(self, Vt: Any, P: Any, Q: Any, rounding: float) -> Any:
        """By the device."""
        return self._tiles.components(Vt, P, Q, rounding)

    def inverse(self, S: Any, floor: float, tiny: float) -> Any:
        """By the host, where it is a matter of microseconds."""
        return self.adopt(HOST.inverse(self.host(S), floor, tiny))


class DeviceRows:
    """X and its codes on a device."""

    cg_steps = (3, 24)

    def __init__(self, X: Tensor, k: int, scale: float = 1.0) -> None:
        self.scale = scale
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.k = k
        self.dtype = np.dtype(np.float32 if X.dtype == torch.float32 else np.float64)
        self._X = X
        self._sparse = X.layout == torch.sparse_csr
        self._pushed = transposed(X).double() if self._sparse else X
        self._tiles = _tiles_for(X, k)
        self.small: Small = DeviceSmall(self._tiles, X.device)
        self._w: dict[str, Tensor] = {}
        self._pending: Any = 0.0
        self._curvature: Any = None
        self._first = True
        stored = X._nnz() if self._sparse else X.numel()
        self.product_cost = 2.0 * stored * k
        self.sweep_cost = _MEMORY_BOUND * 2.0 * self.shape[0] * k**2

    @property
    def data(self) -> Any:
        """X as it was given."""
        return self._X

    @property
    def codes(self) -> Any:
        """The codes (k x n), all steps taken."""
        U = self._w["U"]
        if not (isinstance(self._pending, float) and self._pending == 0.0):
            step = torch.as_tensor(self._pending, device=U.device).to(U.dtype)
            U.copy_(torch.clamp(U + step * self._w["D"], min=0))
            self._pending = 0.0
        return U

    def draw(self, start: RandomCodes) -> Any:
        """Drawn on the host, so that they are the same everywhere."""
        U = torch.empty(self.k, self.shape[0], dtype=self._X.dtype, device=self._X.device)
        for i in range(0, self.shape[0], GROUP):
            j = min(i + GROUP, self.shape[0])
            U[:, i:j] = torch.as_tensor(start(i, j), device=U.device).T
        return U

    def save_codes(self, codes: Any = None) -> Iterator[Any]:
        """Blocks of rows on the host."""
        U = self.codes if codes is None else codes
        for i in range(0, self.shape[0], GROUP):
            yield U[:, i : i + GROUP].T.contiguous().cpu().numpy()

    def restore_codes(self, blocks: Iterable[Any]) -> Any:
        """Blocks of rows, on the device again."""
        U, at = torch.empty(self.k, self.shape[0], dtype=self._X.dtype, device=self._X.device), 0
        for block in blocks:
            U[:, at : at + len(block)] = torch.from_numpy(np.ascontiguousarray(block)).to(U.device).T
            at += len(block)
        return U

    def begin(self, codes: Any) -> None:
        """Start from these codes: k x n on the device, or n x k of the host."""
        if isinstance(codes, np.ndarray):
            codes = torch.as_tensor(np.ascontiguousarray(codes.T), dtype=self._X.dtype, device=self._X.device)
        self._w["U"] = codes
        self._w["D"] = torch.zeros_like(codes) if "D" not in self._w else self._w["D"].zero_()
        self._pending = 0.0

    def release(self) -> None:
        """Give back the memory only a descent needs."""
        self._w = {"U": self.codes, "D": self._w["D"]}

    def sums(self) -> tuple[Any, Any, tuple[Any, ...]]:
        """P = X'U and Q = U'U."""
        U = self.codes
        nothing = {"U": U, "D": U.clone(), "z": U}
        Q = self._tiles.combine(nothing, 0.0, 1.0)[1]  # D'D of a copy
        return self._tiles.push(self._pushed, U) / self.scale, Q, ()

    def step(self, t: Scalar) -> None:
        """U += t D."""
        self._pending = t

    def _pull(self, model: RowModel) -> Tensor:
        return self._tiles.pull(self._X, model.M / self.scale, self.k)

    def look(self, model: RowModel, sweeps: int, stretch: float = 1.0) -> Sums:
        """Pull, sweep, push."""
        G, w = self._pull(model), self._w
        first, last, UD, DD = self._tiles.look(
            G, w["U"], w["D"], self._pending, self.small.adopt(model.S), sweeps, stretch
        )
        self._pending = 0.0
        settled = torch.where(first > 0, torch.sqrt(last / first), 0.0)
        return Sums(self._tiles.push(self._pushed, w["D"]) / self.scale, UD, DD, settled=settled)

    def face(self, model: RowModel, sweeps: int) -> tuple[Slope, Slope, Any]:
        """First pass of newton-cg."""
        w, S = self._w, self.small.adopt(model.S)
        if "z" not in w:
            w.update({name: torch.empty_like(w["U"]) for name in ("z", "r", "u", "p", "q")})
            w["free"] = torch.empty(w["U"].shape, dtype=torch.int8, device=w["U"].device)
        self._curvature = _Sent(S)
        w["G"] = self._pull(model)
        GD, GA, UD, DD, UA, AA, DA = self._tiles.face(w["G"], w["U"], w["D"], self._pending, S, sweeps)
        self._pending = 0.0
        return Slope(dot(S, UD) - GD, UD, DD), Slope(dot(S, UA) - GA, UA, AA), DA

    def preconditioner(self, model: RowModel, floor: float) -> Any:
        """Inverse of the curvature, by the host, from what was sent before the first pass."""
        inverse = HOST.inverse(self._curvature.received(), floor, 1e4 * float(torch.finfo(self._X.dtype).tiny))
        return self.small.adopt(inverse)

    def cg_start(self, tau: Scalar, sigma: Scalar, model: RowModel, UD: Any, inverse: Any) -> Any:
        """The residual on the free entries, preconditioned."""
        self._first = True
        (energy,) = self._tiles.cg_start(self._w, (tau, sigma), model.S, model.coupling * UD, inverse)
        return _Residual(energy, self._tiles, self._w)

    def cg_step(self, alpha: Scalar, beta: Scalar, model: RowModel, Uu: Any, inverse: Any) -> Any:
        """One conjugate-gradient step."""
        first, self._first = self._first, False
        (energy,) = self._tiles.cg_step(self._w, (alpha, beta), model.S, model.coupling * Uu, inverse, first)
        return _Residual(energy, self._tiles, self._w)

    def project(self) -> tuple[Slope, Any, tuple[Any, ...]]:
        """The direction to the projection; half the gradient is U S - G."""
        Gz, Dz, Uz, zz = self._tiles.project(self._w)
        return Slope(dot(self._curvature.sent, Uz) - Gz, Uz, zz), Dz, ()

    def combine(self, tau: Scalar, stretch: float = 1.0) -> Sums:
        """Second pass."""
        UD, DD = self._tiles.combine(self._w, tau, stretch)
        return Sums(self._tiles.push(self._pushed, self._w["D"]) / self.scale, UD, DD)

    def map(self, rule: Any, model: RowModel) -> tuple[Any, ...]:
        """Rules are written for NumPy; `check_place` refuses them before a fit."""
        raise NotImplementedError

    def solve(self, model: RowModel, extra: Any = None, delta: Any = None, kappa: Any = None) -> Any:
        """Codes (k x n) that minimise the model sample by sample."""
        S, M = self.small.adopt(model.S), self.small.adopt(model.M)
        return self._tiles.solve(self._tiles.pull(self._X, M / self.scale, self.k), S)

    # -- once a fit ------------------------------------------------------------------------------------------------

    def _chunks(self) -> Any:
        """Blocks of rows, dense, in float64 and in the unit."""
        rows = max(1, _CHUNK // self.shape[1])
        for i in range(0, self.shape[0], rows):
            X = csr_rows(self._X, i, i + rows).to_dense() if self._sparse else self._X[i : i + rows]
            yield i, X.double() / self.scale

    def _values(self) -> Tensor:
        return self._X.values() if self._sparse else self._X

    def mean(self) -> float:
        """The mean of X, summed in float64."""
        return float(self._values().sum(dtype=torch.float64)) / (self.shape[0] * self.shape[1])

    def norm2(self) -> float:
        """||X||^2."""
        values = self._values()
        step = _CHUNK if self._sparse else max(1, _CHUNK // self.shape[1])
        parts = (values[i : i + step].double() / self.scale for i in range(0, len(values), step))
        return float(sum(part.square().sum() for part in parts))

    def gram_norm2(self) -> float:
        """||XX'||^2: of the smaller side where dense, by the host where sparse."""
        if self._sparse:
            return ArrayRows(csr_on_host(self._X), 1, self.scale).gram_norm2()
        if self.shape[0] < self.shape[1]:
            X = self._X.double() / self.scale
            return float((X @ X.T).square().sum())
        total = torch.zeros(self.shape[1], self.shape[1], dtype=torch.float64, device=self._X.device)
        for _, X in self._chunks():
            total += X.T @ X
        return float(total.square().sum())

    def residual2(self, Vt: Any) -> float:
        """||X - UV||^2 from the residuals themselves."""
        U, V = self.codes, self.small.adopt(Vt).T
        return float(sum((X - U[:, i : i + len(X)].T.double() @ V).square().sum() for i, X in self._chunks()))

    def gram_residual2(self) -> float | None:
        """||XX' - UU'||^2 through a triangular factor of [X U]."""
        m = self.shape[1]
        if m > TRIANGLE:
            return None
        U, R = self.codes, torch.empty(0, m + self.k, dtype=torch.float64, device=self._X.device)
        for i, X in self._chunks():
            block = torch.cat([X, U[:, i : i + len(X)].T.double()], dim=1)
            R = torch.linalg.qr(torch.cat([R, block]), mode="r").R
        return float(torch.linalg.norm(R[:, :m] @ R[:, :m].T - R[:, m:] @ R[:, m:].T)) ** 2


class _Residual:
    """A `Slope` along the preconditioned residual; its sums are made when asked for, if anybody does."""

    DLD: tuple[Any, ...] = ()

    def __init__(self, energy: Tensor, tiles: Tiles, w: dict[str, Tensor]) -> None:
        self.slope = energy
        self._tiles = tiles
        self._w = w

    @cached_property
    def _sums(self) -> list[Tensor]:
        return self._tiles.residual_sums(self._w)

    @property
    def UD(self) -> Tensor:
        """U'u."""
        return self._sums[0]

    @property
    def DD(self) -> Tensor:
        """And u'u."""
        return self._sums[1]


class _Sent:
    """A small array on its way to the host; who needs it waits for it and for nothing else."""

    def __init__(self, A: Tensor) -> None:
        self.sent = A
        self._event: Any = None
        if not A.is_cuda:
            self._copy = A
            return
        self._copy = torch.empty(A.shape, dtype=A.dtype, pin_memory=True)
        self._copy.copy_(A, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def received(self) -> Any:
        """The array on the host."""
        if self._event is not None:
            self._event.synchronize()
        return self._copy.numpy()


def _tiles_for(X: Tensor, k: int) -> Tiles:
    """Triton kernels where they are to be had and take X."""
    if X.is_cuda:
        try:
            from dspnmf.backends import cuda_fused_tiles as _fused
        except ImportError:  # Torch for this platform comes without Triton
            return PlainTiles()
        if _fused.fits(X, k):
            return _fused.FusedTiles(X, k)
    return PlainTiles()
