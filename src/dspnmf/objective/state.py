"""Where a descent stands: the small arrays that terms are written in, and solvers move.

======  ======  ===============================
V       k x m   components; ``Vt`` is m x k
P       m x k   X'U
Q       k x k   U'U
L       k x k   U'LU for every operator
before  m x k   V' one iteration ago
======  ======  ===============================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.row_model import X_BLOCK, Block, BlockNorms, DivergenceSums, Sums
from dspnmf.backends.small_arrays import Small, stepped


@dataclass(frozen=True)
class State:
    """The small arrays every term is written in."""

    Vt: SmallArray
    P: SmallArray
    Q: SmallArray
    L: tuple[SmallArray, ...] = ()
    norms: Mapping[str, BlockNorms] = field(default_factory=dict)  # of blocks of X that have changed since the start
    before: SmallArray | None = None  # None: there was no iteration yet, or the solver does not ask
    divergence: DivergenceSums | None = None  # of the last look, where errors are measured by a divergence

    @cached_property
    def _VV(self) -> SmallArray:
        """V V' over all features: several terms and steps ask for it."""
        return self.Vt.T @ self.Vt

    def VV(self, features: Block) -> SmallArray:
        """V V' over some features (k x k)."""
        if features == X_BLOCK:
            return self._VV
        Vt = self.Vt[features.columns]
        return Vt.T @ Vt

    def norm2(self, block: Block, at_start: float) -> float:
        """||X||^2 of a block, as it is now."""
        return self.norms[block.name].norm2 if block.name in self.norms else at_start

    def gram_norm2(self, block: Block, at_start: float) -> float:
        """||XX'||^2 of a block, as it is now."""
        return self.norms[block.name].gram_norm2() if block.name in self.norms else at_start

    def on_host(self, small: Small) -> State:
        """The same on the host."""
        host, before, found = small.host, self.before, self.divergence
        return replace(
            self,
            Vt=host(self.Vt),
            P=host(self.P),
            Q=host(self.Q),
            L=tuple(map(host, self.L)),
            before=None if before is None else host(before),
            divergence=None if found is None else DivergenceSums(*(A if A is None else host(A) for A in found)),
        )

    def moved(self, t: Scalar, d: Sums) -> State:
        """After the codes took a step t along D; components as they are."""
        t2, across = t * t, zip((self.Q, *self.L), (d.UD, *d.ULD), (d.DD, *d.DLD), strict=True)
        Q, *L = (stepped(stepped(here, t, UD + UD.T), t2, DD) for here, UD, DD in across)
        return replace(self, P=stepped(self.P, t, d.PD), Q=Q, L=tuple(L))

    def with_sums(self, P: SmallArray, Q: SmallArray, L: tuple[SmallArray, ...]) -> State:
        """With recomputed sums."""
        return replace(self, P=P, Q=Q, L=L)
