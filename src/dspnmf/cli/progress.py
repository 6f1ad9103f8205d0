"""Progress of a fit: a bar in a terminal, lines elsewhere (in the logs of a cluster, say)."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import typer
from sklearn.callback import ProgressBar

_FIRST, _PAUSE = 10.0, 15.0  # seconds before the first line, and between two


class ProgressLines:
    """A callback of scikit-learn's that says how many iterations a fit has made, and how long it may still take."""

    def __init__(self, first: float = _FIRST, pause: float = _PAUSE) -> None:
        self.first, self.pause = first, pause

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to count."""
        self._begin = time.monotonic()
        self._next, self._done = self._begin + self.first, 0

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to be said of a beginning."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count an iteration; print a line if it is time."""
        if context.task_name != "iteration":
            return
        self._done, now = self._done + 1, time.monotonic()
        if self._done == 1:
            self._begin = now  # the first one may have compiled its loops
        elif now >= self._next:
            self._next = now + self.pause
            self._say(int(estimator.max_iter) * int(getattr(estimator, "n_init", 1)), now - self._begin)

    def _say(self, most: int, taken: float) -> None:
        """Print how far the fit is, after it took so many seconds for all iterations but the first."""
        seconds = taken / (self._done - 1) * max(most - self._done, 0)
        left = timedelta(seconds=round(seconds))
        typer.echo(f"Iteration {self._done} of at most {most}, at most {left} left", err=True)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is open."""


def progress_shown(*, quiet: bool) -> Sequence[object]:
    """The callbacks of a fit."""
    if quiet:
        return ()
    return (ProgressBar(),) if sys.stderr.isatty() else (ProgressLines(),)
