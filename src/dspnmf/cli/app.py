"""All commands under one name."""

from __future__ import annotations

import typer

from dspnmf.cli import data, reproduce

app = typer.Typer(
    name="dspnmf",
    help="Non-negative matrix factorization that keeps the shape of the data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.add_typer(data.app, name="data")
