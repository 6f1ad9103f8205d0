"""The loop: one iteration after another, for an observer; and when to stop.

What an iteration does is an `Update`: a descent (`dspnmf.solvers.descent`) or a published rule
(`dspnmf.solvers.multiplicative`, and those of single methods next to their estimators).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dspnmf._typing import SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.requests import Requests, answered

_FINE, _COARSE = 1e-5, 1e-3  # errors of a recorded objective, over its value: aimed at, and allowed
_LONG = 32  # iterations over which a change that cannot be told from rounding is none
_EVERY = 8  # iterations after which making sums anew costs little against them


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
        return answered([self.requests(rows, objective, s)])[0]

    def requests(self, rows: Rows, objective: Objective, s: State) -> Requests[tuple[float, State]]:
        """The same for one of several starts, which asks for its looks at X if it `shares` them."""
        yield from ()
        return self(rows, objective, s)

    def renewed(self, value: float) -> None:
        """The sums were made anew; the objective is `value`."""

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
        ((value, s),) = answered([iteration(rows, objective, update, s)])


def iteration(rows: Rows, objective: Objective, update: Update, s: State) -> Requests[tuple[float, State]]:
    """One iteration of one start, with its requests for looks at X; objective and state after it.

    Rows with missing cells complete them after every iteration; the sums are then made anew.
    """
    value, s = yield from update.requests(rows, objective, s)
    norms = rows.refresh(s.Vt)
    if norms is not None:
        s = replace(s.with_sums(*rows.sums()), norms=norms)
        (value,) = rows.small.fetch([objective.value(s)])
        update.renewed(value)
    return value, s


@dataclass(frozen=True)
class Resolution:
    """What running sums tell of an objective F that is a difference of numbers of the size N.

    Sums made anew have float64's rounding. Every look adds to them, and its rounding, independent of the others',
    changes F by about ``rounding sqrt(F N)``: so large steps, the early ones, spoil the sums for small values later.
    """

    size: float  # N: the objective at U = 0
    rounding: float  # of the sums of a look: that of `Rows`

    @property
    def floor(self) -> float:
        """Rounding of F where its sums are made anew."""
        return float(np.finfo(np.float64).eps) * self.size

    def error(self, drift: float) -> float:
        """The error of F, about, where `drift` is the sum of F over the steps since the sums were made anew."""
        return self.rounding * (drift * self.size) ** 0.5

    def reached(self, value: float) -> float:
        """The error of values like this one, where sums are made anew every few iterations or when they must be."""
        return min(self.error(_EVERY * abs(value)), _COARSE * abs(value))

    def worn(self, value: float, drift: float) -> bool:
        """Whether a value has a larger error than it need have: its sums are to be made anew."""
        return self.error(drift) > max(self.floor, self.reached(value), _FINE * abs(value))


@dataclass(frozen=True)
class Stopping:
    """Converged when an iteration changes the objective by at most `tol` of its value, or by no more than rounding.

    Where the sums do not resolve such a change, it is the mean over as many iterations as it takes for that, up to
    `_LONG`. Nothing here depends on the unit of X or on the weights. ``tol=0`` never stops.
    """

    tol: float
    resolution: Resolution = Resolution(0.0, 0.0)

    def __call__(self, history: Sequence[float]) -> bool:
        """Whether the iteration that ended this history of the objective was the last one needed."""
        if self.tol == 0:
            return False
        now = history[-1]
        wanted, error = self.tol * abs(now), self.resolution.reached(now)
        steps = 1 if 3 * error <= wanted else min(math.ceil(3 * error / wanted), _LONG)
        least = max(steps * wanted, self.resolution.floor, error if steps == _LONG else 0.0)
        return steps < len(history) and abs(history[-1 - steps] - now) <= least
