"""Codes of a slab of rows in plain Torch, where errors are measured by a beta divergence.

What `dspnmf.backends.kernels.divergence` does code by code while a row is in cache would be dozens of passes over X
here. So a step takes derivatives and curvature of all codes at once, from a few products with X, and sweeps the codes
over that model (`swept`), with the same Newton steps in powers of a code. Curvature that stands still guarantees
nothing: a row whose objective would rise takes the multiplicative rule (`multiplied`), which minimises a bound. It is
that of Fevotte and Idier (Neural Computation 23(9), 2011), with the penalties and Yang and Oja's bound of a structure
term included.

======  ==========  ================================================================================
x       B x m       a slab of X in the solver's unit, 0 where a cell is missing; or its stored entries
U, G    k x B       codes, derivatives of the divergence in them
H       pairs x B   curvature of its bound, an entry for every pair of components (`Pairs`)
======  ==========  ================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from dspnmf.backends.cuda_tiles import Tensor
from dspnmf.backends.row_model import DivergenceModel
from dspnmf.backends.tensor_looks import Look

if TYPE_CHECKING:
    from dspnmf.backends.tensor_slabs import Slab

_TINY = 1e-290
_ROOT = 1e-9, 1e30  # of a factor, at least and at most
_NEWTON = 8  # steps to a factor where it has no closed form


class Pairs(NamedTuple):
    """The pairs of k components: which they are, and where the pair (a, b) stands among them.

    Numbers of the pairs (a, a) are known to the host, so that nothing waits for the device.
    """

    first: Tensor
    second: Tensor
    number: Tensor  # k x k
    own: tuple[int, ...]  # k

    @classmethod
    def of(cls, k: int, device: torch.device) -> Self:
        """All pairs a <= b."""
        first, second = torch.triu_indices(k, k, device=device)
        number = torch.zeros(k, k, dtype=torch.long, device=device)
        number[first, second] = number[second, first] = torch.arange(len(first), device=device)
        return cls(first, second, number, tuple(a * k - a * (a - 1) // 2 for a in range(k)))


@dataclass(frozen=True)
class SmallModel:
    """A `DivergenceModel` as the slabs take it."""

    beta: float
    V: Tensor  # k x m, in the arithmetic's precision
    products: Tensor  # m x pairs, of the entries of V
    pairs: Pairs
    totals: Tensor  # k x 1, float64: sums of the components
    floor: float
    l1: float
    l2: float
    P: Tensor | None  # m x k, float64: 4 alpha X'U; None without a structure term
    S: Tensor | None  # k x k, 4 alpha U'U
    anchored: bool  # whether the structure term is bounded at the codes as they are; else it is a quadratic

    @classmethod
    def of(cls, model: DivergenceModel, pairs: Pairs, dtype: torch.dtype, floor: float, *, anchored: bool) -> Self:
        """Precisions and powers settled."""
        Vt = model.Vt.to(dtype)
        structured, weight = model.alpha > 0, 4 * model.alpha
        return cls(
            float(model.beta), Vt.T.contiguous(), Vt[:, pairs.first] * Vt[:, pairs.second], pairs,
            Vt.sum(0, dtype=torch.float64)[:, None], floor, float(model.l1), float(model.l2),
            weight * model.P.double() if structured else None, weight * model.Q.double() if structured else None,
            anchored,
        )  # fmt: skip

    @property
    def rising(self) -> float:
        """The power of a code in which a Newton step upwards ends before the minimum."""
        least = 3.0 if self.S is not None and self.anchored else 1.0
        return max(least, self.beta - 1)

    @property
    def falling(self) -> float:
        """The same downwards."""
        return max(1.0, 2 - self.beta)

    @property
    def bent(self) -> tuple[float, float]:
        """Of the bound's curvature, the shares of ``y^(beta - 2)`` and of ``x y^(beta - 3)``."""
        if self.beta < 1:
            return 0.0, 2 - self.beta
        return (self.beta - 1, 0.0) if self.beta > 2 else (self.beta - 1, 2 - self.beta)


class Similarities(NamedTuple):
    """What a structure term says of the codes of a slab: its derivative in them is ``pushed - drawn``."""

    pushed: Tensor  # k x B, U S
    drawn: Tensor  # k x B, x P


class Step(NamedTuple):
    """A model of the divergence around codes, and all that new ones are compared by."""

    U: Tensor  # k x B, as they are
    pull: Tensor
    push: Tensor  # k x B or k x 1
    H: Tensor
    before: Tensor  # B, objective of every row: its divergence, penalties and the structure's part
    similar: Similarities | None

    @classmethod
    def of(cls, slab: Slab, look: Look, model: SmallModel) -> Self:
        """Around codes that were looked at."""
        similar = None
        if model.P is not None and model.S is not None:
            similar = Similarities(model.S @ look.U.double(), slab.times(slab.x, model.P))
        made = cls(look.U, look.pull(), look.push, look.curvature(), look.distances, similar)
        return made._replace(before=look.distances + made.others(look.U, model))

    @classmethod
    def joined(cls, steps: list[Self]) -> Self:
        """Of several slabs next to each other."""
        if len(steps) == 1:
            return steps[0]
        *parts, similar = zip(*steps, strict=True)
        own = None if similar[0] is None else Similarities(*map(_beside, zip(*similar, strict=True)))
        U, pull, push, H, before = map(_beside, parts)
        return cls(U, pull, push, H, before, own)

    def part(self, some: slice) -> Step:
        """Of some of its rows."""
        *parts, similar = self
        push = self.push if self.push.shape[1] < self.U.shape[1] else self.push[:, some]
        own = None if similar is None else Similarities(*(A[:, some] for A in similar))
        U, pull, _, H, before = (A[..., some] for A in parts)
        return Step(U, pull, push, H, before, own)

    def others(self, U: Tensor, model: SmallModel) -> Tensor:
        """Penalties and the structure term, or its bound, of other codes of every row."""
        U = U.double()
        total = torch.zeros(U.shape[1], dtype=torch.float64, device=U.device)
        if model.l1 > 0:
            total += model.l1 * U.sum(0)
        if model.l2 > 0:
            total += model.l2 * U.square().sum(0)
        if self.similar is None or model.S is None:
            return total
        pushed, drawn = self.similar
        if not model.anchored:
            return total + (U * (0.5 * (model.S @ U) - drawn)).sum(0)
        start = self.U.double()
        t = torch.where(start > 0, U / start, 0.0)
        return total + (start * t * (0.25 * pushed * t**3 - drawn)).sum(0)


def swept(step: Step, model: SmallModel, sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes after sweeps over a model whose curvature stands still; squared changes and sizes (B), in that curvature.

    A code that comes out as no number stays.
    """
    kind = torch.float64 if step.similar is not None else step.U.dtype
    (_, _, number, own), similar = model.pairs, step.similar
    l1, l2 = model.l1, 2 * model.l2
    start, H, G = step.U.to(kind), step.H.to(kind), (step.push - step.pull).to(kind)
    if similar is not None and model.S is not None and not model.anchored:
        H = H + model.S[model.pairs.first, model.pairs.second][:, None]
        G, similar = G + similar.pushed - similar.drawn, None
    U = start.clone()
    for _ in range(sweeps):
        for a in range(len(U)):
            u, slope, curve = U[a], G[a], H[own[a]]
            if l1 > 0 or l2 > 0:
                slope, curve = slope + l1 + l2 * u, curve + l2
            if similar is not None:
                t = u / start[a]
                slope = slope + similar.pushed[a] * t**3 - similar.drawn[a]
                curve = curve + 3 * similar.pushed[a] * t * t / start[a]
            new = stepped(u, slope, curve, model.rising, model.falling)
            new = torch.where(new < torch.inf, new, u)
            G.addcmul_(H.index_select(0, number[a]), (new - u)[None])
            U[a] = new
    curves = H.index_select(0, number.diagonal()) + l2
    if similar is not None:
        curves = curves + torch.where(start > 0, 3 * similar.pushed / start, 0.0)
    change, size = (((U - start).double().square() * curves).sum(0), (U.double().square() * curves).sum(0))
    return U.to(step.U.dtype), change, size


def stepped(u: Tensor, slope: Tensor, curve: Tensor, rising: float, falling: float) -> Tensor:
    """Codes after a Newton step in a power of them, as in `dspnmf.backends.kernels.divergence`; NaN: they stay."""
    at = u * curve
    more = u - slope / curve if rising == 1 else u * (1 - rising * slope / at) ** (1 / rising)
    if falling == 1:
        less = u * at / (at + slope)
    else:
        less = torch.where(at > 0, u * (1 + falling * slope / at) ** (-1 / falling), torch.where(slope > 0, 0.0, u))
    return torch.where(slope < 0, more, less)


def multiplied(step: Step, model: SmallModel) -> Tensor:
    """Codes that minimise a bound of the objective of their row, or come closer to that: never up.

    Their factor t solves ``push t^a + 2 l2 u t + c t^3 + l1 - drawn = pull t^-b`` with c = (U S) of the structure's
    bound; where that is no bound but a quadratic, Jensen's inequality separates it and its part is c t. Without these t
    has a closed form; otherwise Newton steps in powers of t never pass it. An L1 penalty is added to push, which bounds
    it.
    """
    a, b = max(model.beta - 1, 0.0), max(2 - model.beta, 0.0)
    push, pull, U = step.push.double() + model.l1, step.pull.double(), step.U.double()
    if model.l2 == 0 and step.similar is None:
        return (U * ((pull + _TINY) / (push + _TINY)) ** (1 / (a + b))).to(step.U.dtype)
    ridge, cubic, drawn = 2 * model.l2 * U, torch.zeros_like(U), torch.zeros_like(U)
    if step.similar is not None:
        drawn = step.similar.drawn
        if model.anchored:
            cubic = step.similar.pushed
        else:
            ridge = ridge + step.similar.pushed
    r, q, t = model.rising, model.falling, torch.ones_like(U)
    for _ in range(_NEWTON):
        rise, cube, fall = push * t**a + ridge * t, cubic * t**3, pull * t**-b
        curve = a * push * t**a + ridge * t + 3 * cube + b * fall + _TINY
        length = (rise + cube - drawn - fall) / curve
        down = (1 + q * length.clamp(min=0.0)) ** (-1 / q)
        t = (t * down * (1 - r * length.clamp(max=0.0)) ** (1 / r)).clamp(*_ROOT)
    return (U * t).to(step.U.dtype)


def best_constant(slab: Slab, model: SmallModel) -> Tensor:
    """Codes that are all alike, and as large as is best."""
    ones = torch.ones(len(model.V), len(slab), dtype=model.V.dtype, device=model.V.device)
    look = slab.look(ones, model)
    above, below = look.pull().double().sum(0), look.push.double().sum(0)
    return (torch.where(below > 0, above / below, 0.0) * ones.double()).to(ones.dtype)


def _beside(parts: tuple[Tensor, ...]) -> Tensor:
    """Joined along the rows; what is the same for all rows stays as it is."""
    return parts[0] if all(A is parts[0] for A in parts) else torch.cat(parts, dim=-1)
