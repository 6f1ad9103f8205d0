"""``dspnmf reproduce``: the paper's whole comparison."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from joblib import cpu_count
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dspnmf import datasets
from dspnmf.cli.data import DataDir
from dspnmf.cli.error_messages import FILE_ERRORS, INPUT_ERRORS, errors_as_messages
from dspnmf.paper.reproduce import Comparison, file_names, prepare
from dspnmf.paper.runner import Progress
from dspnmf.report import write_reproduction
from dspnmf.report.page import require
from dspnmf.workflow import output_folder

EXAMPLES = """\b
Examples:
  dspnmf reproduce --quick
  dspnmf reproduce --full --data-dir ~/data --out results --jobs 8
  dspnmf reproduce --sets Wine,Digits
"""
_KEPT = "Every run that had ended is kept: start the same command again to continue."
_STOPPED = f"\nInterrupted. {_KEPT}"
_PAUSE = 15.0  # seconds between two lines, where the output is not a terminal


def reproduce(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick/--full",
            help="Few ranks and runs on data that come with scikit-learn (minutes), or everything (hours).",
        ),
    ] = False,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder for results, tables and the page.")] = Path("out/reproduction"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes; by default one for each core.")] = None,
    sets: Annotated[str | None, typer.Option(help="Names of data sets, separated by commas; by default all.")] = None,
) -> None:
    """Run the paper's comparison and write its page.

    Tables and figures show our values next to the published ones. You may interrupt the command at any time: started
    again, it goes on with the runs that are missing.
    """
    names = None if sets is None else _names(sets)
    with errors_as_messages(INPUT_ERRORS, options={"data_dir": "--data-dir", "sets": "--sets"}, interrupted=_STOPPED):
        require()  # refuse to start where the page could not be written at the end
        comparison = prepare(out, quick=quick, sets=names, data_dir=None if data_dir is None else str(data_dir))
    for name, reason in comparison.absent.items():
        typer.echo(f"Without {name}: {reason}", err=True)
    if comparison.absent:
        typer.echo("To get files: dspnmf data fetch NAME; to say where they are: --data-dir DIR.", err=True)
    with errors_as_messages(FILE_ERRORS, advice=_KEPT, interrupted=_STOPPED):
        _run(comparison, jobs or cpu_count())
        with output_folder(out, file_names()) as folder:
            results, tables, summary = comparison.write(folder)
            about = comparison.provenance()
            write_reproduction(results, tables, summary, folder / "index.html", provenance=about)
    typer.echo(summary.headline)
    if results.failures:
        typer.echo(f"{len(results.failures)} runs failed: the page names them, and the next start tries them again.")
    typer.echo(f"Page: {out / 'index.html'}")


def _names(text: str) -> tuple[str, ...]:
    """Names of data sets from a list with commas."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in datasets.names()]
    if unknown or not names:
        wrong = f"There is no data set {unknown[0]!r}" if unknown else f"{text!r} names no data set"
        raise typer.BadParameter(f"{wrong}: choose from {', '.join(datasets.names())}.", param_hint="--sets")
    return names


def _run(comparison: Comparison, jobs: int) -> None:
    """Run what is missing and show the progress."""
    missing, total = comparison.missing(), len(comparison.runs)
    typer.echo(f"{total} runs, {total - missing} of them done before; {jobs} at a time; results in {comparison.out}")
    if missing:
        with _progress_shown(total, total - missing) as watch:
            comparison.run(jobs, watch)


@contextmanager
def _progress_shown(total: int, done: int) -> Iterator[Callable[[Progress], None]]:
    """A function to be called after every run: it moves a bar in a terminal, and prints lines elsewhere."""
    terminal, console, begin = sys.stdout.isatty(), Console(), time.monotonic()
    printed = begin
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, disable=not terminal) as bar:
        task = bar.add_task("starting", total=total, completed=done)

        def watch(progress: Progress) -> None:
            nonlocal printed
            run, now = progress.run, time.monotonic()
            if progress.error is not None:
                what = f"{run.method} on {run.dataset}, rank {run.rank}, run {run.repeat + 1} ({run.experiment})"
                error = progress.error.partition("\n")[0]
                console.print(f"Failed: {what}: {error}", markup=False, highlight=False, soft_wrap=True)
            bar.update(task, completed=progress.done, description=f"{run.dataset}, {run.method}")
            if not terminal and (now - printed >= _PAUSE or progress.done == total):
                printed = now
                seconds = (now - begin) / max(1, progress.done - done) * (total - progress.done)
                typer.echo(f"{progress.done} of {total} runs, about {timedelta(seconds=round(seconds))} left")

        yield watch
