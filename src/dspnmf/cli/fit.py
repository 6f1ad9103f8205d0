"""``dspnmf fit`` and ``dspnmf transform``: from a file to codes, a model and a report; and codes of new rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.callback import ProgressBar

from dspnmf.cli import _reading
from dspnmf.cli._errors import plainly
from dspnmf.io import read, write_codes
from dspnmf.persistence import load
from dspnmf.workflow import OutputFolder, code_names, fit_table, index_name, matched, methods, model_of, write_fit
from dspnmf.workflow.results import FIT_FILES, FORMATS

FIT_EXAMPLES = """\b
Examples:
  dspnmf fit wine.csv --rank 3 --label class --out wine
  dspnmf fit counts.mtx --rank 20 --method NMF --out topics
  dspnmf fit scene.mat --variable scene --rank 10 --scale none --out scene
"""
TRANSFORM_EXAMPLES = """\b
Example:
  dspnmf transform wine/model.skops new.csv --out new-codes.csv
"""
_FORMAT = "{value!r} is no format: choose from " + ", ".join(FORMATS) + "."


def fit(
    data: _reading.Data,
    out: Annotated[Path, typer.Option(help="Folder for codes, components, model, metrics and report.")],
    rank: Annotated[int, typer.Option(min=1, help="Number of components.")] = 10,
    method: Annotated[str, typer.Option(help=", ".join(methods()) + ".")] = "DSPNMF",
    alpha: Annotated[float | None, typer.Option(help="Weight of the structure.", show_default="the method's")] = None,
    scale: _reading.Scale = None,
    label: _reading.Label = None,
    label_weight: Annotated[float, typer.Option(min=0, help="Weight of the labels in the fit; 0 only shows them.")] = 0,
    index: _reading.Index = None,
    delimiter: _reading.Delimiter = None,
    header: _reading.Header = None,
    variable: _reading.Variable = None,
    exclude: _reading.Exclude = None,
    missing: Annotated[str, typer.Option(help="Empty cells: error, or mask (they carry no weight).")] = "error",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the start.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, name=value; repeatable.")
    ] = None,
    codes: Annotated[str, typer.Option(help="Format of the codes: csv or parquet.")] = "csv",
    force: _reading.Force = False,
    as_json: _reading.Json = False,
    debug: _reading.Debug = False,
) -> None:
    """Factorize a file of data; write codes, components, the model, its numbers and a report."""
    _reading.check_scale(scale)
    if codes not in FORMATS:
        raise typer.BadParameter(_FORMAT.format(value=codes), param_hint="--codes")
    with plainly(debug=debug, as_json=as_json):
        folder = OutputFolder(out, FIT_FILES, force=force)
        weighs = {"b" if method.lower() == "gdnmf" else "label_weight": _weight(label_weight, label)}
        model = model_of(method, {**_parameters(rank, seed, alpha, missing), **_given(weighs)}, set_ or ())
        options = _reading.reading(label, index, delimiter, header, variable, exclude)
        table = read(data, **options)
        quiet = as_json or not sys.stderr.isatty()
        with folder:
            result = fit_table(table, model, scale, callbacks=() if quiet else (ProgressBar(),))
            settings = {"data": str(data.absolute()), "scale": result.scale, "label": label or "", "read": options}
            write_fit(result, folder, settings, codes)
    _say(result.facts, out, as_json)


def _parameters(rank: int, seed: int, alpha: float | None, missing: str) -> dict[str, Any]:
    """Parameters of the method; what was not asked for is left to it."""
    given = _given({"alpha": alpha, "missing": None if missing == "error" else missing})
    return {"n_components": rank, "random_state": seed, **given}


def _weight(label_weight: float, label: str | None) -> float | None:
    """The weight of labels, if there are any."""
    if label_weight > 0 and label is None:
        raise ValueError("--label-weight needs labels: name their column with --label.")
    return label_weight or None


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    """Those that have a value."""
    return {name: value for name, value in parameters.items() if value is not None}


def _say(facts: dict[str, Any], out: Path, as_json: bool) -> None:
    """The numbers that matter, and where the rest is."""
    if as_json:
        typer.echo((out / "metrics.json").read_text(encoding="utf-8").rstrip())
        return
    n, m = facts["shape"]
    work = f"{n} samples x {m} features, {facts['iterations']} iterations"
    how = "converged" if facts["converged"] else "stopped before it converged (raise --set max_iter=N)"
    typer.echo(f"{facts['method']} of rank {facts['rank']}: {work}")
    typer.echo(f"The fit {how}.")
    beside = facts["yardstick"]
    for name, word in (("reconstruction_error", "reconstruction error"), ("structure_error", "structure error")):
        if facts[name] is not None:
            other = f" (plain NMF {beside[name]:.4f})" if beside else ""
            typer.echo(f"{word.capitalize()}: {facts[name]:.4f}{other}")
    typer.echo(f"Report: {out / 'report.html'}")


def transform(
    model: Annotated[Path, typer.Argument(help="A model.skops, or the folder of a fit.", show_default=False)],
    data: _reading.Data,
    out: Annotated[Path, typer.Option(help="File for the codes: .csv or .parquet.")],
    label: _reading.Label = None,
    index: _reading.Index = None,
    delimiter: _reading.Delimiter = None,
    header: _reading.Header = None,
    variable: _reading.Variable = None,
    exclude: _reading.Exclude = None,
    force: _reading.Force = False,
    as_json: _reading.Json = False,
    debug: _reading.Debug = False,
) -> None:
    """Codes of new rows, by a saved model; columns are matched by their names."""
    if out.suffix.lstrip(".") not in FORMATS:
        raise typer.BadParameter(f"{out} must end in .csv or .parquet.", param_hint="--out")
    with plainly(debug=debug, as_json=as_json):
        if out.exists() and not force:
            raise ValueError(f"{out} is there already: name another file, or replace it with --force.")
        pipeline = load(model / "model.skops" if model.is_dir() else model)
        features = getattr(pipeline, "table_features_", None)
        if features is None:
            raise ValueError(f"{model} was not written by `dspnmf fit`: use dspnmf.load in Python.")
        table = matched(read(data, **_reading.reading(label, index, delimiter, header, variable, exclude)), features)
        Z = pipeline.transform(table.X)
        out.parent.mkdir(parents=True, exist_ok=True)
        names = code_names(Z.shape[1])
        write_codes(out, Z, table.index, index_name(table, names), names)
    if as_json:
        typer.echo(json.dumps({"codes": str(out), "samples": int(Z.shape[0]), "components": int(Z.shape[1])}))
    else:
        typer.echo(f"Codes of {Z.shape[0]} samples: {out}")
