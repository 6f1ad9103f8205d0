"""All commands under one name."""

from __future__ import annotations

import typer

from dspnmf.cli import data, fit, reproduce, select

app = typer.Typer(
    name="dspnmf",
    help="Non-negative matrix factorization that keeps the shape of the data.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("fit", epilog=fit.FIT_EXAMPLES)(fit.fit)
app.command("transform", epilog=fit.TRANSFORM_EXAMPLES)(fit.transform)
app.command("select", epilog=select.EXAMPLES)(select.select)
app.command("report", epilog=fit.REPORT_EXAMPLES)(fit.report)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.add_typer(data.app, name="data")
