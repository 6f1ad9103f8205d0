"""All commands under one name."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from dspnmf.cli import data, fit, reproduce, select
from dspnmf.cli.commands import Command, Commands

app = typer.Typer(
    name="dspnmf",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"dspnmf {import_module('dspnmf').__version__}")
        raise typer.Exit


@app.callback()
def dspnmf(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Non-negative matrix factorization that keeps the shape of the data."""


app.command("fit", cls=Command, epilog=fit.FIT_EXAMPLES)(fit.fit)
app.command("transform", cls=Command, epilog=fit.TRANSFORM_EXAMPLES)(fit.transform)
app.command("select", cls=Command, epilog=select.EXAMPLES)(select.select)
app.command("report", cls=Command, epilog=fit.REPORT_EXAMPLES)(fit.report)
app.command("reproduce", cls=Command, epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.add_typer(data.app, name="data")
