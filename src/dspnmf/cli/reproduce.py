"""``dspnmf reproduce``: the paper's whole comparison."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Protocol

import typer
from joblib import cpu_count
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from dspnmf import datasets
from dspnmf.cli._errors import FILES, told, translated
from dspnmf.cli.data import DataDir
from dspnmf.paper.reproduce import Comparison, prepare
from dspnmf.paper.runner import Progress
from dspnmf.report import write_reproduction

EXAMPLES = """\b
Examples:
  dspnmf reproduce --quick
  dspnmf reproduce --full --data-dir ~/data --out results --jobs 8
  dspnmf reproduce --sets Wine,Digits
"""
_KEPT = "Every run that had ended is kept: start the same command again to continue."
_PAUSE = 15.0  # seconds between two lines, where the output is no terminal


def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Embedded data, few ranks and runs (minutes), or all (hours).")
    ] = False,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder of results, tables and the page.")] = Path("out/reproduction"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at a time; by default one a core.")] = None,
    sets: Annotated[str | None, typer.Option(help="Data sets, by name with commas; by default all.")] = None,
) -> None:
    """Run the paper's comparison and write its tables and figures, ours beside the published values.

    Interrupt it whenever you like: the same command goes on with the runs that are missing.
    """
    names = None if sets is None else _names(sets)
    try:
        with told():
            _check_page()
            comparison = prepare(out, quick=quick, sets=names, data_dir=None if data_dir is None else str(data_dir))
        _say_absent(comparison)
        with told(FILES, then=_KEPT):
            _run(comparison, jobs or cpu_count())
            results, tables, summary = comparison.write()
            page = out / "index.html"
            write_reproduction(results, tables, summary, page, provenance=comparison.provenance())
    except KeyboardInterrupt:
        typer.echo(f"\nInterrupted. {_KEPT}", err=True)
        raise typer.Exit(130) from None
    typer.echo(summary.headline)
    if results.failures:
        typer.echo(f"{len(results.failures)} runs failed: the page names them, and the next start tries them again.")
    typer.echo(f"Page: {page}")


def _check_page() -> None:
    """What the page needs is missed before the work, not after it."""
    if find_spec("jinja2") is None:
        raise ImportError('The page needs jinja2: install it with pip install "dspnmf[report]".')


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas, if there are such data sets."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if unknown := [name for name in names if name not in datasets.names()]:
        allowed = ", ".join(datasets.names())
        raise typer.BadParameter(f"{unknown[0]!r} is no data set: choose from {allowed}.", param_hint="--sets")
    if not names:
        raise typer.BadParameter(f"{text!r} names no data set: choose from {', '.join(datasets.names())}.")
    return names


def _say_absent(comparison: Comparison) -> None:
    """Name what cannot be run, before the work."""
    for name, reason in comparison.absent.items():
        typer.echo(f"Without {name}: {translated(reason)}", err=True)
    if comparison.absent:
        typer.echo("To get files: dspnmf data fetch NAME; to say where they are: --data-dir DIR.", err=True)


def _run(comparison: Comparison, jobs: int) -> None:
    """Run what is missing and tell how far it is."""
    missing, total = comparison.missing(), len(comparison.runs)
    typer.echo(f"{total} runs, {total - missing} of them done before; {jobs} at a time; results in {comparison.out}")
    if missing:
        with (_bar if sys.stdout.isatty() else _lines)(total, total - missing) as watch:
            comparison.run(jobs, watch)


class _Watch(Protocol):
    """Told after every run."""

    def __call__(self, progress: Progress) -> None: ...


@contextmanager
def _bar(total: int, done: int) -> Iterator[_Watch]:
    """A bar in a terminal."""
    left, console = _Left(done), Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("starting", total=total, completed=done, left="")

        def watch(progress: Progress) -> None:
            if progress.error is not None:
                console.print(_failed(progress), markup=False, highlight=False, soft_wrap=True)
            now = f"{progress.run.dataset}, {progress.run.method}"
            bar.update(task, completed=progress.done, description=now, left=left.after(progress))

        yield watch


@contextmanager
def _lines(total: int, done: int) -> Iterator[_Watch]:
    """A line from time to time, where there is no terminal."""
    left, said = _Left(done), time.monotonic()

    def watch(progress: Progress) -> None:
        nonlocal said
        if progress.error is not None:
            typer.echo(_failed(progress))
        if time.monotonic() - said >= _PAUSE or progress.done == total:
            said = time.monotonic()
            typer.echo(f"{progress.done} of {total} runs, {left.after(progress)}")

    yield watch


def _failed(progress: Progress) -> str:
    """A failed run in one line."""
    run, error = progress.run, (progress.error or "").partition("\n")[0]
    return f"Failed: {run.method} on {run.dataset}, rank {run.rank}, run {run.repeat + 1} ({run.experiment}): {error}"


class _Left:
    """How long it will take, from how long it took."""

    def __init__(self, done: int) -> None:
        self._begin, self._before = time.monotonic(), done

    def after(self, progress: Progress) -> str:
        """In words."""
        each = (time.monotonic() - self._begin) / max(1, progress.done - self._before)
        seconds = each * (progress.total - progress.done)
        amount = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else ""
        return f"about {amount or f'{seconds / 3600:.1f} h'} left"
