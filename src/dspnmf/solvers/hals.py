"""The inner solver `hals`: sweeps of the model without coupling between rows."""

from __future__ import annotations

from dataclasses import dataclass

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import RowModel, Sums
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.requests import Requests, ask

ITERATION_COST = 5e7  # operations' worth of everything that does not grow with X
MOST = 20  # sweeps of a look
FIRST = 2  # sweeps of the first look where rows are not coupled: components of a random start deserve no more
WORTHWHILE = {True: 0.1, False: 0.3}  # change of a last sweep over that of the first; whether rows are coupled


@dataclass
class Hals:
    """The model without coupling, by sweeps in one look at the rows; their number follows what they achieve.

    `sweeps` is fixed if given. Otherwise it moves by one from look to look: up while the last sweep is `WORTHWHILE`, as
    far as half an iteration's other work would pay for, down when not. It begins at the most where rows are coupled
    (the model then knows little of the others, and each look must achieve much), at `FIRST` where they are not.
    """

    sweeps: int | None = None
    now: int = 0
    most: int = 0
    worthwhile: float = 0.0

    @property
    def memory(self) -> dict[str, float]:
        """The number of sweeps of the next look."""
        return {"now": self.now}

    @memory.setter
    def memory(self, saved: dict[str, float]) -> None:
        self.now = min(int(saved["now"]), MOST)

    def facts(self, rows: Rows, objective: Objective, s: State) -> tuple[SmallArray, ...]:
        """Small arrays that `effort` takes from the host: none."""
        return ()

    def effort(self, rows: Rows, objective: Objective) -> tuple[Scalar]:
        """The number of sweeps of the next look."""
        self.most = int(min(max((2 * rows.product_cost + ITERATION_COST) / (2 * rows.sweep_cost), 2), MOST))
        self.now = self.now or (self.most if objective.coupled else FIRST)
        self.worthwhile = WORTHWHILE[objective.coupled]
        return (self.sweeps or self.now,)

    def __call__(self, rows: Rows, model: RowModel, stretch: Scalar, sweeps: Scalar) -> Requests[Sums]:
        """One look."""
        return (yield from ask(rows.look, model, sweeps, stretch))

    def adapt(self, settled: float) -> None:
        """One sweep more where the last one was worthwhile, one less where not."""
        self.now = min(max(self.now + (1 if settled > self.worthwhile else -1), 1), self.most)
