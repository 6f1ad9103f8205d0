"""``dspnmf select``: rank and weight by cross-validation."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from joblib import cpu_count
from sklearn.exceptions import ConvergenceWarning

from dspnmf.cli import shared_options as shared
from dspnmf.cli.error_messages import errors_as_messages, say
from dspnmf.cli.progress import progress_shown
from dspnmf.io import read
from dspnmf.workflow import assumptions, described, fit_command, output_folder, scaling, select_table, write_selection
from dspnmf.workflow.result_files import SELECTION_FILES, check_folder

EXAMPLES = """\b
Examples:
  dspnmf select spectra.csv --ranks 2,3,5 --out choice
  dspnmf select examples/wine.csv --label cultivar --rule one-se --out choice
"""
_OPTIONS = {
    "n_components": "--ranks",
    "cv": "--folds",
    "y": "--label",
    "random_state": "--seed",
    "n_jobs": "--jobs",
} | {name: f"--{name}" for name in ("alphas", "rule", "scale", "exclude", "force")}


@shared.reads_file
def select(
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="Folder for the scores, the choice and the page.")],
    read_options: dict[str, Any],
    ranks: Annotated[
        str, typer.Option(help="Ranks to try, separated by commas; auto tries up to six from 2 to 20.")
    ] = "auto",
    alphas: Annotated[int, typer.Option(min=2, help="Number of weights (alpha) to try.")] = 7,
    folds: Annotated[
        int, typer.Option(min=2, help="Number of parts the data are cut into; each is held out once.")
    ] = 5,
    rule: Annotated[
        str,
        typer.Option(
            help="Which candidate is chosen: the best, or the simplest within one standard error (one-se).",
            autocompletion=lambda: ["best", "one-se"],
        ),
    ] = "best",
    scale: shared.Scale = None,
    seed: shared.Seed = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes; by default one for each core.")] = None,
    force: shared.Force = False,
    as_json: shared.Json = False,
    debug: shared.Debug = False,
) -> None:
    """Choose rank and weight by cross-validation.

    Without --label, ranks are compared by how well they predict cells that were held out, and weights by the neighbours
    that codes of held-out rows keep. With --label, both are compared by how well a classifier does on the codes.
    """
    with errors_as_messages(debug=debug, as_json=as_json, options=_OPTIONS):
        check_folder(out, SELECTION_FILES, force=force)
        table = read(data, **read_options)
        if not as_json:
            say(described(data, table))
        parameters = {"alphas": alphas, "cv": folds, "rule": rule, "random_state": seed, "n_jobs": jobs or cpu_count()}
        with output_folder(out, SELECTION_FILES) as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            parameters["n_components"] = ranks if ranks == "auto" else shared.numbers(ranks, "--ranks")
            cv, chosen_scale, why = select_table(table, parameters, scale, callbacks=progress_shown(quiet=as_json))
            settings = {"data": str(data.absolute()), "label": read_options.get("label", ""), "read": read_options}
            settings |= assumptions(table, why)
            choice = write_selection(cv, folder, settings, chosen_scale)
    if as_json:
        typer.echo(json.dumps(choice))
        return
    say([scaling(choice["scale"], why), f"Rank {choice['n_components']}, alpha {choice['alpha']:.4g}"])
    typer.echo(f"To fit it: {fit_command(str(data), read_options, choice)} --out DIR")
    typer.echo(f"Page: {out / 'selection.html'}")
