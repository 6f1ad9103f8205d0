"""The loop: one iteration after another, for an observer; and when to stop.

What an iteration does is an `Update`: a descent (`dspnmf.solvers.descent`) or a published rule
(`dspnmf.solvers.multiplicative`, and those of single methods next to their estimators).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dspnmf._typing import Codes, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.requests import Requests, answered

_LONG = 32  # iterations over which a change that cannot be told from rounding is none


class Update:
    """One iteration: new codes in the rows, new small arrays out. Subclasses say how (`__call__` or `requests`)."""

    resumable = True  # whether `memory` holds all that the next iteration needs in addition to codes and state
    shares = False  # whether several starts share looks at X: then `requests` asks for them

    def begin(self, rows: Rows, objective: Objective, Vt: SmallArray) -> tuple[float, State]:
        """Objective and state where the codes stand and V is given."""
        s = State(rows.small.adopt(Vt), *rows.sums())
        (value,) = rows.small.fetch([objective.value(s)])
        return value, s

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration; the objective there, and the state."""
        return answered([self.requests(rows, objective, s)], rows.small)[0]

    def requests(self, rows: Rows, objective: Objective, s: State) -> Requests[tuple[float, State]]:
        """The same for one of several starts, which asks for its looks at X if it `shares` them."""
        yield from ()
        return self(rows, objective, s)

    def solved(self, rows: Rows, objective: Objective, s: State) -> Codes | None:
        """The codes that `transform` would give to these rows; None where it has none for them."""
        model = objective.model(s)
        return None if model.pulls else rows.solve(model)

    def measured(self, rows: Rows, objective: Objective, s: State) -> State:
        """The state with the sums of the codes as they are."""
        return s.with_sums(*rows.sums())

    def error(self, value: float) -> float:
        """The error of the objective, about, that rounding of the sums leaves in values like this one."""
        return 0.0

    def renewed(self) -> None:
        """The sums were recomputed by someone else."""

    def imprint(self, rows: Rows, objective: Objective) -> tuple[SmallArray, ...]:
        """Sums over the rows by which to know X again, for the codes there are: X'U, and U'LU for every operator."""
        P, _, L = rows.sums()
        return P, *L

    @property
    def memory(self) -> dict[str, float]:
        """What one iteration leaves to the next in addition to codes and state."""
        return {}

    def restore(self, memory: Mapping[str, float]) -> None:
        """Restore what `memory` saved."""


def iterate(rows: Rows, objective: Objective, update: Update, value: float, s: State) -> Iterator[tuple[float, State]]:
    """Yield objective and state as they are and after every iteration, for ever: the observer decides when to stop.

    Several starts at once are advanced by `iteration`.
    """
    while True:
        yield value, s
        ((value, s),) = answered([iteration(rows, objective, update, s)], rows.small)


def iteration(rows: Rows, objective: Objective, update: Update, s: State) -> Requests[tuple[float, State]]:
    """One iteration of one start, with its requests for looks at X; objective and state after it.

    Rows with missing cells complete them after every iteration; the sums are then recomputed.
    """
    value, s = yield from update.requests(rows, objective, s)
    norms = rows.refresh(s.Vt)
    if norms is not None:
        s = replace(s.with_sums(*rows.sums()), norms=norms)
        (value,) = rows.small.fetch([objective.value(s)])
        update.renewed()
    return value, s


@dataclass(frozen=True)
class Stopping:
    """Converged when an iteration changes the objective by at most `tol` of its value, or by no more than rounding.

    Where the sums do not resolve such a change, it is the mean over as many iterations as it takes for that, up to
    `_LONG`. Nothing here depends on the unit of X or on the weights. ``tol=0`` never stops.
    """

    tol: float
    size: float = 0.0  # of the numbers whose difference the objective is

    def __call__(self, history: Sequence[float], error: float = 0.0) -> bool:
        """Whether the iteration that ended this history was the last one needed; `error`: of its values, about."""
        if self.tol == 0:
            return False
        now, rounding = history[-1], float(np.finfo(np.float64).eps) * self.size
        wanted = self.tol * abs(now)
        steps = 1 if 3 * error <= wanted else min(math.ceil(3 * error / wanted), _LONG) if wanted > 0 else _LONG
        least = max(steps * wanted, rounding, error if steps == _LONG else 0.0)
        return steps < len(history) and abs(history[-1 - steps] - now) <= least
