"""Progress of a fit or a search: a bar in a terminal, lines elsewhere (in the logs of a cluster, say)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

_FIRST, _PAUSE = 10.0, 15.0  # seconds before the first line, and between two
_SOON = 1.0  # seconds left that need no line


class Share:
    """A callback of scikit-learn's that knows which share of all tasks is done; what it shows is up to others."""

    max_propagation_depth: int | None = None  # fits within fits are seen, too

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to count."""
        if context.parent is None:
            self.share, self.leaves = 0.0, 0
            self._within: dict[tuple[int, ...], float] = {}  # tasks that go on -> what their own tasks have added

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing is known of a task that begins."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Add the share of a task: all of it, also where it had fewer tasks of its own than it might have had."""
        above = list(_above(context))
        size = 1.0
        for one in above:
            size /= max(1, one.max_subtasks or 1)
        added = size - self._within.pop(_path(context), 0.0)
        for one in above:
            self._within[_path(one)] = self._within.get(_path(one), 0.0) + added
        self.share = min(1.0, self.share + added)
        if not context.max_subtasks:
            self.leaves += 1
            self.show(context)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is open."""

    def show(self, context: Any) -> None:
        """Show the share after a task that has none of its own."""


class ProgressLines(Share):
    """Lines that say how far a fit is, and how long it may still take."""

    def __init__(self, first: float = _FIRST, pause: float = _PAUSE) -> None:
        self.first, self.pause = first, pause

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to count."""
        super().setup(estimator, context)
        self._begin, self._before = time.monotonic(), 0.0
        self._next = self._begin + self.first

    def show(self, context: Any) -> None:
        """Print a line if it is time; what the first task took is not counted, as it may have compiled its loops."""
        now = time.monotonic()
        if self.leaves == 1:
            self._begin, self._before = now, self.share
        elif now >= self._next and self.share > self._before:
            left = (now - self._begin) / (self.share - self._before) * (1.0 - self.share)
            if left >= _SOON or self.first == 0:
                self._next = now + self.pause
                typer.echo(f"{self._done(context)} {timedelta(seconds=round(left))} left", err=True)

    def _done(self, context: Any) -> str:
        """How far it is; iterations end before the last one allowed where the fit converges."""
        if context.task_name == "iteration" and context.parent.parent.max_subtasks == 1:
            return f"Iteration {self.leaves} of at most {context.parent.max_subtasks}, at most"
        return f"{100 * self.share:.0f} % done, {'at most' if context.task_name == 'iteration' else 'about'}"


class ProgressInTerminal(Share):
    """One bar with the time left, which is gone when the fit is done."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Show the bar."""
        super().setup(estimator, context)
        if context.parent is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("Fitting", total=1.0)
            self._bar.start()

    def show(self, context: Any) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=self.share)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Take the bar away."""
        if context.parent is None:
            self._bar.stop()


def progress_shown(*, quiet: bool) -> Sequence[object]:
    """The callbacks of a fit."""
    if quiet:
        return ()
    return (ProgressInTerminal(),) if sys.stderr.isatty() else (ProgressLines(),)


def _above(context: Any) -> Iterator[Any]:
    """The tasks that a task is part of, the nearest first."""
    while (context := context.parent) is not None:
        yield context


def _path(context: Any) -> tuple[int, ...]:
    """What tells a task from all others of one fit."""
    return tuple(one.task_id for one in (context, *_above(context)))
