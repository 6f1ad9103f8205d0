"""Errors measured by a beta divergence, as a term of the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from dspnmf._typing import Scalar
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import RowModel, Sums
from dspnmf.objective.state import State


@dataclass(frozen=True)
class Divergence:
    """``d(X | UV)`` over the known cells, and penalties on codes and components.

    ``codes_l1 ||U||_1 + codes_l2 ||U||^2``, and the same of V. The divergence of y from x is
    ``(x^beta + (beta - 1) y^beta - beta x y^(beta - 1)) / (beta (beta - 1))``; beta = 1: ``x log(x / y) - x + y``
    (Kullback-Leibler), beta = 0: ``x / y - log(x / y) - 1`` (Itakura-Saito). It is not a polynomial along a line, so it
    has its own descent (`dspnmf.solvers.divergence`), which leaves the value in the `State`.
    """

    beta: float
    size: float  # of the numbers whose sum it is
    codes_l1: float = 0.0
    codes_l2: float = 0.0
    components_l1: float = 0.0
    components_l2: float = 0.0
    coupled: ClassVar[bool] = False

    @property
    def norm2(self) -> float:
        """Of numbers as large as this it is the sum."""
        return self.size

    def distance(self, s: State) -> Scalar:
        """The divergence alone."""
        return float("nan") if s.divergence is None else s.divergence.value

    def value(self, s: State) -> Scalar:
        """With penalties."""
        if s.divergence is None:
            return float("nan")
        value = s.divergence.value
        if self.codes_l1 > 0:
            value = value + self.codes_l1 * s.divergence.ones.sum()
        if self.codes_l2 > 0:
            value = value + self.codes_l2 * s.divergence.squares.sum()
        if self.components_l1 > 0:
            value = value + self.components_l1 * s.Vt.sum()
        if self.components_l2 > 0:
            value = value + self.components_l2 * (s.Vt * s.Vt).sum()
        return value

    def exact(self, s: State, rows: Rows) -> None:
        """Its value is exact: a sum over entries that have one sign each."""

    def model(self, s: State) -> RowModel:
        """Refused: it is not quadratic."""
        self._refuse()

    def along(self, s: State, d: Sums) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """Refused: it is not a quartic."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotImplementedError("A divergence has a descent of its own: use dspnmf.solvers.divergence.")
