"""Rows on a device whose errors are measured by a beta divergence: one look at X an iteration.

A look reads X twice, in slabs: first for derivatives and curvature of all codes, which are then swept together, and
then for the objective of every row and the sums (`dspnmf.backends.tensor_divergence`). In plain Torch it takes, next to
X and the codes, about ten arrays of `SLAB` numbers, `HELD` numbers of curvature, and for a CSR tensor as much as two
copies of X; by kernels (`dspnmf.backends.cuda_fused_slabs`) the curvature, and copies of some rows. Products are of k
columns and once of k (k + 1) / 2. Sums are float64.
"""

from __future__ import annotations

import torch

from dspnmf._typing import Array
from dspnmf.backends.csr_tensors import stored_values
from dspnmf.backends.cuda import DeviceRows, fused_kernels
from dspnmf.backends.cuda_tiles import Tensor, gram
from dspnmf.backends.memory_divergence import FLOORS, SOLVED, SWEEPS
from dspnmf.backends.protocol import DivergenceRows
from dspnmf.backends.row_model import DivergenceModel, DivergenceSums
from dspnmf.backends.tensor_divergence import (
    Pairs,
    SmallModel,
    Step,
    best_constant,
    multiplied,
)
from dspnmf.backends.tensor_looks import Look
from dspnmf.backends.tensor_slabs import Slab, SlabsOf

_LOOK = 3  # sweeps over a model, for each one asked for: they cost no look at X
_SOLVE = 10  # the same where codes are solved for
_VANISHED = 0.01  # of the largest code of a row


class DeviceDivergenceRows(DeviceRows, DivergenceRows):
    """X, missing cells as they are, and its codes."""

    def __init__(self, X: Tensor, k: int, scale: float = 1.0) -> None:
        super().__init__(X, k, scale)
        self._pairs = Pairs.of(k, X.device)
        self._kept: Tensor | None = None
        self._slabs: dict[float, SlabsOf] = {}  # by beta
        values = stored_values(X)
        self._incomplete = bool(values.numel()) and bool(torch.isnan(values.min()))

    def begin(self, codes: Tensor | Array) -> None:
        """Start from these codes; no direction is kept."""
        super().begin(codes)
        self._w = {"U": self._w["U"]}

    def release(self) -> None:
        """Free the copy, too."""
        super().release()
        self._kept = None

    def remember(self) -> None:
        """A copy of the codes."""
        self._kept = self._w["U"].clone() if self._kept is None else self._kept.copy_(self._w["U"])

    def recall(self) -> None:
        """The copy becomes the codes."""
        assert self._kept is not None
        self._w["U"].copy_(self._kept)

    def improve(self, model: DivergenceModel, sweeps: int) -> DivergenceSums:
        """Sweeps over a model of the codes as they are; rows that they would raise take the multiplicative rule."""
        small, slabs, U = self._small(model, anchored=True), self._slabs_of(model), self._w["U"]
        found = _Sums(slabs, small, self._incomplete)
        for group in slabs.groups():
            first, step = group[0].start, None
            if sweeps:
                looks = ((slab, slab.look(self._U(part, small), small)) for part, slab in slabs.each(group))
                step = Step.joined([Step.of(slab, look, small) for slab, look in looks])
                proposed = slabs.swept(step, small, _LOOK * sweeps)[0]
            for part, slab in slabs.each(group):
                if step is None:
                    look = slab.look(self._U(part, small), small)
                else:
                    some = slice(part.start - first, part.stop - first)
                    look = _accepted(slab, step.part(some), proposed[:, some], small, U.dtype)
                    U[:, part] = look.U
                found.add(slab, look)
        return found.total(U)

    def solve_divergence(self, model: DivergenceModel, *, fresh: bool) -> Tensor:
        """Slab by slab; rows whose codes stand still are left out."""
        small, slabs = self._small(model, anchored=False), self._slabs_of(model)
        codes = torch.empty(self.k, self.shape[0], dtype=self._X.dtype, device=self._X.device)
        for part, slab in slabs.each(slabs.parts):
            u = best_constant(slab, small) if fresh else self._U(part, small)
            codes[:, part] = _solved(slabs, slab, u, small, SOLVED[self.dtype.itemsize])
        return codes

    def _small(self, model: DivergenceModel, *, anchored: bool) -> SmallModel:
        dtype = self._slabs_of(model).dtype
        adopt = self.small.adopt
        model = model._replace(Vt=adopt(model.Vt))
        if model.alpha > 0:
            model = model._replace(P=adopt(model.P), Q=adopt(model.Q))
        return SmallModel.of(model, self._pairs, dtype, FLOORS[dtype.itemsize], anchored=anchored)

    def _slabs_of(self, model: DivergenceModel) -> SlabsOf:
        beta = float(model.beta)
        if beta not in self._slabs:
            kernels = fused_kernels(self._X)
            kind = SlabsOf if kernels is None else kernels.slabs_for(self._X, beta, self.k, incomplete=self._incomplete)
            self._slabs[beta] = kind(self._X, beta, 1 / self.scale, self.k, incomplete=self._incomplete)
        return self._slabs[beta]

    def _U(self, part: slice, small: SmallModel) -> Tensor:
        """Codes of some rows, in the arithmetic's precision."""
        return self._w["U"][:, part].to(small.V.dtype)


class _Sums:
    """What leaves a look, added up slab by slab."""

    def __init__(self, slabs: SlabsOf, model: SmallModel, incomplete: bool) -> None:
        self._model = model
        self._value = torch.zeros((), dtype=torch.float64, device=model.V.device)
        self._pull = slabs.sums()
        self._push = slabs.sums() if model.beta != 1 or incomplete else None
        self._XU = None if model.S is None else slabs.sums()

    def add(self, slab: Slab, look: Look) -> None:
        """A slab with its codes."""
        self._value += look.distances.sum()
        look.add_pull(self._pull)
        if self._push is not None:
            look.add_push(self._push)
        if self._XU is not None:
            self._XU.add(slab.x, look.U)

    def total(self, U: Tensor) -> DivergenceSums:
        """When all slabs were added; `U` are all codes."""
        Q, ones = gram(U, U), U.sum(1, dtype=torch.float64)
        push = None if self._push is None else self._push.total(U)
        if self._model.beta == 1:
            push = ones[None] if push is None else ones[None] - push
        P, own = (None, None) if self._XU is None else (self._XU.total(U), Q)
        return DivergenceSums(self._value, self._pull.total(U), push, ones, Q.diagonal(), P, own)


def _accepted(slab: Slab, step: Step, proposed: Tensor, model: SmallModel, kept: torch.dtype) -> Look:
    """Proposed codes, as they are `kept`; for rows that these would raise, those of the multiplicative rule.

    So for rows whose codes would all but vanish: a row near zero takes many steps to grow again.
    """
    proposed = proposed.to(kept).to(proposed.dtype)
    look = slab.look(proposed, model)
    raised = ~(look.distances + step.others(proposed, model) <= step.before)
    raised |= proposed.amax(0) < _VANISHED * step.U.amax(0)
    if not bool(raised.any()):
        return look
    plain = multiplied(step, model)
    plain = torch.where(torch.isfinite(plain), plain, step.U).to(kept).to(proposed.dtype)
    return look.with_codes(raised, plain)


def _solved(slabs: SlabsOf, slab: Slab, u: Tensor, model: SmallModel, tol: float) -> Tensor:
    """Codes that minimise the model row by row, until a step changes less than `tol` of them."""
    codes, going = u.clone(), torch.arange(u.shape[1], device=u.device)
    look = slab.look(u, model)
    for _ in range(SWEEPS):
        step = Step.of(slab, look, model)
        proposed, change, size = slabs.swept(step, model, _SOLVE)
        look = _accepted(slab, step, proposed, model, u.dtype)
        codes[:, going] = look.U
        more = torch.nonzero(~(change <= tol * tol * size)).reshape(-1)
        if len(more) == 0:
            break
        if len(more) < len(going):
            slab, going = slab.rows(more), going[more]
            look = slab.look(look.U[:, more], model)
    return codes
