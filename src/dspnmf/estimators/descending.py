"""A start of a fit on its way down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dspnmf.estimators.checkpoint import Point, Run
from dspnmf.objective.state import State
from dspnmf.solvers.loop import Update, iteration
from dspnmf.solvers.requests import Requests

if TYPE_CHECKING:
    from dspnmf.estimators.base import Problem


@dataclass
class Descending:
    """One of the starts of a fit, on its way."""

    problem: Problem  # with the rows of this start
    update: Update
    first: Point  # where it began, or went on after the fit was killed
    state: State
    named: tuple[int, ...]  # its number, where there are several
    context: Any = None  # for callbacks
    converged: bool = False

    @property
    def history(self) -> list[float]:
        """The objective at the beginning and after every iteration."""
        return self.first.history

    @property
    def point(self) -> Point:
        """Where it stands, for a checkpoint."""
        return self.first._replace(state=self.state, memory=self.update.memory)

    @property
    def run(self) -> Run:
        """What it has come to."""
        return Run(self.problem.rows.codes, self.state, self.history, self.converged)

    def iteration(self) -> Requests[tuple[float, State]]:
        """The next iteration, with its requests for looks at X."""
        return iteration(self.problem.rows, self.problem.objective, self.update, self.state)
