"""The inner solver `hals`: sweeps of the model without coupling between rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dspnmf._typing import Scalar
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import RowModel, Sums
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.requests import Requests, ask

ITERATION_COST = 5e7  # operations' worth of everything that does not grow with X
MOST = 20  # sweeps of a look


@dataclass
class Hals:
    """The model without coupling, by sweeps in one look at the rows; their number follows what they achieve.

    `sweeps` is fixed if given. Otherwise it begins at what half an iteration's other work would pay for, and moves by
    one from look to look: down when the last sweep changed less than a tenth of what the first did, up again when not.
    """

    sweeps: int | None = None
    now: int = 0
    most: int = 0

    @property
    def memory(self) -> dict[str, float]:
        """The number of sweeps of the next look."""
        return {"now": self.now}

    @memory.setter
    def memory(self, saved: dict[str, float]) -> None:
        self.now = min(int(saved["now"]), MOST)

    def effort(self, rows: Rows, objective: Objective, s: State) -> tuple[Scalar]:
        """The number of sweeps of the next look."""
        self.most = int(np.clip((2 * rows.product_cost + ITERATION_COST) / (2 * rows.sweep_cost), 2, MOST))
        self.now = self.now or self.most
        return (self.sweeps or self.now,)

    def __call__(self, rows: Rows, model: RowModel, stretch: Scalar, sweeps: Scalar) -> Requests[Sums]:
        """One look."""
        return (yield from ask(rows.look, model, sweeps, stretch))

    def adapt(self, settled: float) -> None:
        """One sweep more where the last one still changed a tenth of what the first did, one less where not."""
        self.now = int(np.clip(self.now + (1 if settled > 0.1 else -1), 1, self.most))
