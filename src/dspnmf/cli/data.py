"""``dspnmf data``: the data sets of the paper, and how to get their files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dspnmf import datasets
from dspnmf.cli.error_messages import INPUT_ERRORS, errors_as_messages, options_line

app = typer.Typer(help="List and fetch the data sets of the paper.", no_args_is_help=True)
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the data files; by default $DSPNMF_DATA, else the user's cache.")
]
OPTIONS = {"data_dir": "--data-dir DIR", "unverified=True": "--unverified", "datasets.fetch": "dspnmf data fetch"}
Unverified = Annotated[bool, typer.Option("--unverified", help="Accept files whose checksum is not known.")]


@app.command("list", epilog="Example: dspnmf data list --data-dir ~/data")
def list_(data_dir: DataDir = None, unverified: Unverified = False) -> None:
    """List the data sets and whether they can be loaded.

    Where one cannot, the reason is given.
    """
    ready = True
    for name in datasets.names():
        try:
            found = datasets.load(name, data_dir, unverified=unverified)
        except (OSError, ValueError) as error:
            typer.echo(f"{name:12} not ready: {error}")
            ready = False
        else:
            rows, features = found.X.shape
            typer.echo(f"{name:12} {rows} x {features}, {len(found.classes)} classes; {found.source}")
    if not ready:
        typer.echo(options_line(OPTIONS))


@app.command(epilog="Example: dspnmf data fetch COIL20 --data-dir ~/data")
def fetch(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A name from `dspnmf data list`.", autocompletion=lambda: datasets.names()),
    ],
    data_dir: DataDir = None,
    unverified: Unverified = False,
) -> None:
    """Download and verify the files of a data set.

    They come from their publishers.
    """
    if name not in datasets.names():
        raise typer.BadParameter(f"There is no data set {name!r}: choose from {', '.join(datasets.names())}.")
    with errors_as_messages(INPUT_ERRORS, advice=options_line(OPTIONS)):
        files = datasets.fetch(name, data_dir, unverified=unverified)
    for file in files:
        typer.echo(f"{name}: {file}")
    if not files:
        typer.echo(f"{name} comes with scikit-learn: there is nothing to fetch.")
