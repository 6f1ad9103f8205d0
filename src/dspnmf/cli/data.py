"""``dspnmf data``: which data sets there are, and how to get their files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dspnmf import datasets
from dspnmf.cli._errors import told, translated

app = typer.Typer(help="The paper's data sets: list them, fetch their files.", no_args_is_help=True)
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the data files; by default $DSPNMF_DATA, else the user's cache.")
]
Unverified = Annotated[bool, typer.Option("--unverified", help="Accept files whose checksum is not known.")]


@app.command("list", epilog="Example: dspnmf data list --data-dir ~/data")
def list_(data_dir: DataDir = None, unverified: Unverified = False) -> None:
    """Name the data sets, say which can be loaded, and why the others cannot."""
    for name in datasets.names():
        try:
            found = datasets.load(name, data_dir, unverified=unverified)
        except (OSError, ValueError) as error:
            typer.echo(f"{name:12} not ready: {translated(str(error))}")
        else:
            rows, features = found.X.shape
            typer.echo(f"{name:12} {rows} x {features}, {len(found.classes)} classes; {found.source}")


@app.command(epilog="Example: dspnmf data fetch COIL20 --data-dir ~/data")
def fetch(
    name: Annotated[str, typer.Argument(help="A name from `dspnmf data list`.")],
    data_dir: DataDir = None,
    unverified: Unverified = False,
) -> None:
    """Download the files of a data set from their publishers and verify them."""
    if name not in datasets.names():
        raise typer.BadParameter(f"{name!r} is no data set: choose from {', '.join(datasets.names())}.")
    with told():
        files = datasets.fetch(name, data_dir, unverified=unverified)
    for file in files:
        typer.echo(f"{name}: {file}")
    if not files:
        typer.echo(f"{name} comes with scikit-learn: there is nothing to fetch.")
