"""``dspnmf select``: rank and weight by cross-validation."""

from __future__ import annotations

import json
import shlex
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from joblib import cpu_count
from sklearn.exceptions import ConvergenceWarning

from dspnmf.cli import _reading
from dspnmf.cli._errors import plainly
from dspnmf.io import read
from dspnmf.workflow import OutputFolder, write_selection
from dspnmf.workflow.results import SELECTION_FILES
from dspnmf.workflow.selecting import select_table

EXAMPLES = """\b
Examples:
  dspnmf select wine.csv --ranks 2,3,5 --out choice
  dspnmf select wine.csv --label class --ranks 2,3,5 --rule one-se --out choice
"""


def select(
    data: _reading.Data,
    out: Annotated[Path, typer.Option(help="Folder for the scores, the choice and the page.")],
    ranks: Annotated[str, typer.Option(help="Ranks to try, with commas; auto: 2 to 20, as the data allow.")] = "auto",
    alphas: Annotated[int, typer.Option(min=2, help="Number of weights to try, around the natural scale.")] = 7,
    folds: Annotated[int, typer.Option(min=2, help="Parts the data are cut into.")] = 5,
    rule: Annotated[str, typer.Option(help="best, or one-se: the simplest within one standard error.")] = "best",
    scale: _reading.Scale = None,
    label: _reading.Label = None,
    index: _reading.Index = None,
    delimiter: _reading.Delimiter = None,
    header: _reading.Header = None,
    variable: _reading.Variable = None,
    exclude: _reading.Exclude = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of starts and folds.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at a time; by default one a core.")] = None,
    force: _reading.Force = False,
    as_json: _reading.Json = False,
    debug: _reading.Debug = False,
) -> None:
    """Choose the rank and the weight of the structure; with --label, by how well classes are told apart."""
    _reading.check_scale(scale)
    with plainly(debug=debug, as_json=as_json, words={"n_components": "--ranks"}):
        folder = OutputFolder(out, SELECTION_FILES, force=force)
        options = _reading.reading(label, index, delimiter, header, variable, exclude)
        table = read(data, **options)
        parameters = {"alphas": alphas, "cv": folds, "rule": rule, "random_state": seed, "n_jobs": jobs or cpu_count()}
        with folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            cv, scale = select_table(table, {"n_components": _numbers(ranks), **parameters}, scale)
            settings = {"data": str(data.absolute()), "label": label or "", "read": options}
            choice = write_selection(cv, folder, settings, scale)
    _say(choice, [str(data), *_repeated(options)], out, as_json)


def _numbers(text: str) -> tuple[int, ...] | str:
    """Whole numbers with commas between them."""
    if text == "auto":
        return text
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"--ranks {text!r} is no list of whole numbers: write for example 2,3,5.") from None


def _repeated(options: dict[str, Any]) -> list[str]:
    """What was said about the file, to be said again."""
    words = []
    for name, value in options.items():
        if name == "header":
            words.append("--header" if value else "--no-header")
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{name}", str(one)]
    return words


def _say(choice: dict[str, Any], data: list[str], out: Path, as_json: bool) -> None:
    """The choice, and the command that fits it."""
    if as_json:
        typer.echo(json.dumps(choice))
        return
    typer.echo(f"Rank {choice['n_components']}, alpha {choice['alpha']:.4g}")
    words = {"rank": choice["n_components"], "alpha": f"{choice['alpha']:.6g}", "scale": choice["scale"]}
    command = ["dspnmf", "fit", *data, *(part for name, value in words.items() for part in (f"--{name}", str(value)))]
    typer.echo(f"To fit it: {shlex.join(command)} --out DIR")
    typer.echo(f"Page: {out / 'selection.html'}")
