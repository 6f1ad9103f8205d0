"""``dspnmf fit``, ``transform`` and ``report``: a file to codes, model and page; codes of new rows; the page again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from sklearn.callback import ProgressBar

from dspnmf.cli import shared_options as shared
from dspnmf.cli.error_messages import errors_as_messages
from dspnmf.io import read
from dspnmf.persistence import load
from dspnmf.report import write_fit_report
from dspnmf.workflow import (
    fit_table,
    matched,
    methods,
    model_of,
    output_folder,
    read_fit,
    write_fit,
    write_table_codes,
)
from dspnmf.workflow.result_files import FIT_FILES, FORMATS, check_folder

FIT_EXAMPLES = """\b
Examples:
  dspnmf fit wine.csv --rank 3 --label class --out wine
  dspnmf fit counts.mtx --rank 20 --method NMF --out topics
  dspnmf fit scene.mat --variable scene --rank 10 --scale none --no-baseline --out scene
"""
TRANSFORM_EXAMPLES = """\b
Example:
  dspnmf transform wine/model.skops new.csv --out new-codes.csv
"""
REPORT_EXAMPLES = """\b
Examples:
  dspnmf report wine
  dspnmf report wine --data moved/wine.csv --out wine.html
"""
_OPTIONS = {"n_components": "--rank", "random_state": "--seed"} | {
    name: f"--{name.replace('_', '-')}" for name in ("alpha", "missing", "label_weight", "scale", "exclude", "force")
}


@shared.reads_file
def fit(
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="Folder for codes, components, model, metrics and report.")],
    read_options: dict[str, Any],
    rank: Annotated[int, typer.Option(min=1, help="Number of components.")] = 10,
    method: Annotated[str, typer.Option(help=", ".join(methods()) + ".")] = "DSPNMF",
    alpha: Annotated[float | None, typer.Option(help="Weight of the structure.", show_default="the method's")] = None,
    scale: shared.Scale = None,
    label_weight: Annotated[float, typer.Option(min=0, help="Weight of the labels in the fit; 0 only shows them.")] = 0,
    missing: Annotated[str, typer.Option(help="Empty cells: error, or mask (they carry no weight).")] = "error",
    seed: shared.Seed = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, name=value; repeatable.")
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline/--no-baseline", help="Also fit plain NMF, to compare the numbers with.")
    ] = True,
    codes: Annotated[Literal["csv", "parquet"], typer.Option(help="Format of the codes.")] = "csv",
    force: shared.Force = False,
    as_json: shared.Json = False,
    debug: shared.Debug = False,
) -> None:
    """Factorize a file of data; write codes, components, the model, its numbers and a report."""
    with errors_as_messages(debug=debug, as_json=as_json, options=_OPTIONS, other_option="--set {}=VALUE"):
        check_folder(out, FIT_FILES, force=force)
        label = read_options.get("label", "")
        if label_weight > 0 and not label:
            raise ValueError("--label-weight needs labels: name their column with --label.")
        masked = None if missing == "error" else missing  # not every method has the parameter
        optional = {"alpha": alpha, "missing": masked, "label_weight": label_weight or None}
        parameters = {name: value for name, value in optional.items() if value is not None}
        model = model_of(method, {"n_components": rank, "random_state": seed, **parameters}, set_ or ())
        table = read(data, **read_options)
        quiet = as_json or not sys.stderr.isatty()
        with output_folder(out, FIT_FILES) as folder:
            result = fit_table(table, model, scale, baseline=baseline, callbacks=() if quiet else (ProgressBar(),))
            settings = {"data": str(data.absolute()), "scale": result.scale, "label": label, "read": read_options}
            write_fit(result, folder, {**settings, "baseline": baseline}, codes)
    if as_json:
        typer.echo((out / "metrics.json").read_text(encoding="utf-8").rstrip())
    else:
        _print_summary(result.facts)
        typer.echo(f"Report: {out / 'report.html'}")


def _print_summary(facts: dict[str, Any]) -> None:
    """Print the size of the fit, whether it converged, and its errors with those of the baseline."""
    n, m = facts["shape"]
    how = "converged" if facts["converged"] else "stopped before it converged (raise --set max_iter=N)"
    size = f"{n} samples x {m} features, {facts['iterations']} iterations"
    typer.echo(f"{facts['method']} of rank {facts['rank']}: {size}\nThe fit {how}.")
    for name in ("reconstruction_error", "structure_error"):
        if facts[name] is not None:
            plain = f" (plain NMF {facts['baseline'][name]:.4f})" if facts["baseline"] else ""
            typer.echo(f"{name.replace('_', ' ').capitalize()}: {facts[name]:.4f}{plain}")


@shared.reads_file
def transform(
    model: Annotated[Path, typer.Argument(help="A model.skops, or the folder of a fit.", show_default=False)],
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="File for the codes: .csv or .parquet.")],
    read_options: dict[str, Any],
    force: shared.Force = False,
    as_json: shared.Json = False,
    debug: shared.Debug = False,
) -> None:
    """Codes of new rows, by a saved model; columns are matched by their names."""
    if out.suffix.lstrip(".") not in FORMATS:
        raise typer.BadParameter(f"{out} must end in .csv or .parquet.", param_hint="--out")
    with errors_as_messages(debug=debug, as_json=as_json, options={}):
        if out.exists() and not force:
            raise ValueError(f"{out} exists already: name another file, or replace it with --force.")
        pipeline = load(model / "model.skops" if model.is_dir() else model)
        features = getattr(pipeline, "table_features_", None)
        if features is None:
            raise ValueError(f"{model} was not written by `dspnmf fit`: use dspnmf.load in Python.")
        table = matched(read(data, **read_options), features)
        Z = pipeline.transform(table.X)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_table_codes(out, Z, table)
    if as_json:
        typer.echo(json.dumps({"codes": str(out), "samples": int(Z.shape[0]), "components": int(Z.shape[1])}))
    else:
        typer.echo(f"Codes of {Z.shape[0]} samples: {out}")


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `dspnmf fit` wrote.", show_default=False)],
    data: Annotated[Path | None, typer.Option(help="The file of data, if it has moved.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="File of the page.", show_default="FOLDER/report.html")] = None,
    as_json: shared.Json = False,
    debug: shared.Debug = False,
) -> None:
    """Make the page of a fit again, from its model, its codes and its data."""
    with errors_as_messages(debug=debug, as_json=as_json, options={"data": "--data"}):
        saved, page = read_fit(folder, data), out or folder / "report.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        options = {"settings": saved.settings, "baseline": None if saved.baseline else False}
        write_fit_report(saved.model, saved.table, saved.codes, page, **options)
    typer.echo(json.dumps({"report": str(page)}) if as_json else f"Report: {page}")
