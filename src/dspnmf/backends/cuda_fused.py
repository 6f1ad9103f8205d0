"""What Triton kernels do on a CUDA device: tiles of codes, slabs of divergences, facts about X, random codes."""

from __future__ import annotations

import torch
import triton

from dspnmf.backends import triton_kernels as kernels
from dspnmf.backends.csr_tensors import is_csr
from dspnmf.backends.cuda_fused_slabs import MOST, FusedSlabsOf
from dspnmf.backends.cuda_fused_tiles import NARROW, FusedTiles
from dspnmf.backends.cuda_narrow_tiles import NarrowTiles, OnChipTiles
from dspnmf.backends.cuda_tiles import PlainTiles, Tensor
from dspnmf.backends.kernels.philox import MIDDLE
from dspnmf.backends.row_model import RandomCodes
from dspnmf.backends.tensor_slabs import SlabsOf

if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 5):
    raise ImportError(f"Triton {triton.__version__} makes no products in float64; Triton 3.5 (of Torch 2.9) does.")

_LARGEST = 256  # components that the kernels take
_ON_CHIP = 32  # components whose conjugate gradients need no memory between
_FACTS = 2112  # programs among which a reading of X is divided


def tiles_for(X: Tensor, k: int) -> PlainTiles:
    """The kernels that take X."""
    if k > _LARGEST:
        return PlainTiles()
    if k > NARROW or X.dtype != torch.float32:
        return FusedTiles(X, k)
    return (OnChipTiles if k <= _ON_CHIP else NarrowTiles)(X, k)


def slabs_for(X: Tensor, beta: float, k: int, *, incomplete: bool) -> type[SlabsOf]:
    """The slabs that a divergence is looked at in."""
    fused = beta == 1 and k <= MOST and not incomplete and not is_csr(X) and X.dtype == torch.float32
    return FusedSlabsOf if fused else SlabsOf


def facts(X: Tensor) -> tuple[float, float, float, float]:
    """Of a dense X: the largest entry, the sums of entries and of squares, and how many are not allowed."""
    parts = torch.empty(_FACTS, 4, dtype=torch.float64, device=X.device)
    kernels.facts[(len(parts),)](X, parts, *X.shape, X.stride(0), BM=8, BN=128, num_warps=4)
    largest, total, squares, bad = torch.cat([parts[:, :1].amax(0), parts[:, 1:].sum(0)]).tolist()
    return largest, total, squares, bad


def draw(start: RandomCodes, U: Tensor) -> None:
    """Random codes (k x n), in place."""
    k, n = U.shape
    factor = torch.full((), start.factor, dtype=torch.float64, device=U.device)
    kernels.draw[(triton.cdiv(n, 512), k)](U, factor, start.key, n, MIDDLE=MIDDLE, BM=512, num_warps=4)
