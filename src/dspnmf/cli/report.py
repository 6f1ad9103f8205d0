"""``dspnmf report``: the page of a fit, made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dspnmf.cli import _reading
from dspnmf.cli._errors import plainly
from dspnmf.report import write_fit_report
from dspnmf.workflow import read_fit

EXAMPLES = """\b
Examples:
  dspnmf report wine
  dspnmf report wine --data moved/wine.csv --out wine.html
"""


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `dspnmf fit` wrote.", show_default=False)],
    data: Annotated[Path | None, typer.Option(help="The file of data, if it has moved.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="File of the page.", show_default="FOLDER/report.html")] = None,
    as_json: _reading.Json = False,
    debug: _reading.Debug = False,
) -> None:
    """Make the page of a fit again, from its model, its codes and its data."""
    with plainly(debug=debug, as_json=as_json):
        model, table, codes, _, settings = read_fit(folder, data)
        page = out or folder / "report.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        write_fit_report(model, table, codes, page, settings=settings)
    typer.echo(json.dumps({"report": str(page)}) if as_json else f"Report: {page}")
