"""``dspnmf fit``, ``transform`` and ``report``: a file to codes, model and page; codes of new rows; the page again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dspnmf._option_words import option
from dspnmf.cli import shared_options as shared
from dspnmf.cli.error_messages import errors_as_messages, say
from dspnmf.cli.progress import progress_shown
from dspnmf.io import read
from dspnmf.persistence import load
from dspnmf.report import explained, write_fit_report
from dspnmf.workflow import (
    assumptions,
    described,
    fit_table,
    mask_missing,
    methods,
    model_of,
    output_folder,
    read_fit,
    read_matched,
    scaling,
    without_names,
    write_fit,
    write_table_codes,
)
from dspnmf.workflow.preparation import check_new_values
from dspnmf.workflow.result_files import FIT_FILES, FORMATS, check_folder

FIT_EXAMPLES = """\b
Examples:
  dspnmf fit examples/wine.csv --rank 3 --label cultivar --out wine
  dspnmf fit counts.mtx --rank 20 --method NMF --out topics
  dspnmf fit scene.mat --variable scene --rank 10 --no-baseline --out scene
"""
TRANSFORM_EXAMPLES = """\b
Example:
  dspnmf transform wine/model.skops new.csv --out new-codes.csv
"""
REPORT_EXAMPLES = """\b
Examples:
  dspnmf report wine --force
  dspnmf report wine --data moved/wine.csv --out wine.html
"""
_OPTIONS = (
    {"n_components": "--rank", "ranks": "--ranks", "random_state": "--seed", "y": "--label"}
    | {
        name: f"--{name.replace('_', '-')}"
        for name in ("alpha", "missing", "label_weight", "scale", "exclude", "force")
    }
    | {"checkpoint_path": "--checkpoint"}
)
_RANK, _SEED = 10, 0
_INTERRUPTED = "dspnmf: interrupted; nothing was written."
_EXISTS = "{path} exists already: name another file, or replace it with --force."


@shared.reads_file
def fit(
    data: shared.Data,
    read_options: dict[str, Any],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for codes, components, model, metrics and report.", show_default="NAME-fit"),
    ] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="Number of components.", show_default=str(_RANK))] = None,
    method: Annotated[
        str, typer.Option(help=f"What is fitted: {', '.join(methods())}.", autocompletion=lambda: [*methods()])
    ] = "DSPNMF",
    alpha: Annotated[
        float | None, typer.Option(help="Weight of the similarities between samples.", show_default="the method's")
    ] = None,
    scale: shared.Scale = None,
    label_weight: Annotated[
        float | None, typer.Option(min=0, help="Weight of the labels in the fit; 0 only shows them.", show_default="0")
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="What to do with empty cells: refuse them (error), or give them no weight in the fit (mask).",
            autocompletion=lambda: ["error", "mask"],
            show_default="mask, if METHOD can",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of random numbers.", show_default=str(_SEED))] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another parameter of the method, as name=value; may be given several times."),
    ] = None,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline/--no-baseline", help="Whether plain NMF is fitted as well, to compare the numbers with."
        ),
    ] = True,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File for the state of a long fit: if it is interrupted, the same command goes on from there.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=2, help="Number of random starts; the result is what they agree on.", show_default="one start"
        ),
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option(
            help="Ranks that the runs compare, separated by commas; unless --rank says which, the largest is fitted "
            "whose runs agree nearly best.",
            show_default=False,
        ),
    ] = None,
    codes: Annotated[Literal["csv", "parquet"], typer.Option(help="Format of the codes.")] = "csv",
    force: shared.Force = False,
    as_json: shared.Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the objective of every iteration.")] = False,
    debug: shared.Debug = False,
) -> None:
    """Factorize a file of data and report the fit.

    Writes codes, components, the model, its numbers and a report into a folder.
    """
    out = Path(f"{data.resolve().name.partition('.')[0]}-fit") if out is None else out

    def interrupted() -> str:
        kept = checkpoint is not None and checkpoint.exists()
        return f"dspnmf: interrupted; the same command goes on from {checkpoint}." if kept else _INTERRUPTED

    with errors_as_messages(
        debug=debug, as_json=as_json, options=_OPTIONS, other_option="--set {}=VALUE", interrupted=interrupted
    ):
        check_folder(out, FIT_FILES, force=force)
        compared = None if ranks is None else shared.numbers(ranks, "--ranks")
        if compared is not None and runs is None:
            raise ValueError(
                "--ranks compares ranks by what many runs agree on: say how many with --runs 100, or use dspnmf select."
            )
        label = read_options.get("label", "")
        given = {
            "n_components": rank,
            "random_state": seed,
            "alpha": alpha,
            "missing": missing if missing != "error" else None,
            "label_weight": label_weight or None,
            "verbose": verbose or None,
        }
        defaults: dict[str, object] = {"n_components": _RANK, "random_state": _SEED}
        defaults |= {} if label_weight is None else {"label_weight": 0.0}  # not every method has the parameter
        model = model_of(method, {name: v for name, v in given.items() if v is not None}, set_ or (), defaults)
        table = read(data, **read_options)
        weight = getattr(model, "label_weight", 0)
        if isinstance(weight, int | float) and weight > 0 and table.labels is None:
            name, without = type(model).__name__, "; GNMF is the same without labels"
            raise ValueError(
                f"{name} with label_weight={weight:g} needs labels: name their column with {option('label')}"
                f"{without * (name == 'GDNMF')}."
            )
        own = missing is not None or _is_set("missing", set_)
        masked = 0 if own else mask_missing(table, model)
        if not as_json:
            say(described(data, table))
            say([f"Missing cells carry no weight ({option('missing', 'error')} refuses them)."] * bool(masked))
            if checkpoint is not None and checkpoint.exists():
                typer.echo(f"Going on from {checkpoint}.", err=True)
        with output_folder(out, FIT_FILES) as folder:
            result = fit_table(
                table,
                model,
                scale,
                baseline=baseline,
                callbacks=progress_shown(quiet=as_json or verbose),
                checkpoint=checkpoint,
                announce=None if as_json else lambda line: say([line], err=True),
                runs=runs,
                ranks=compared,
                rank=model.n_components if rank is not None or _is_set("n_components", set_) else None,
            )
            settings = {"data": str(data.absolute()), "scale": result.scale, "label": label, "read": read_options}
            write_fit(result, folder, {**settings, **assumptions(table, result.why), "baseline": baseline}, codes)
    if as_json:
        typer.echo((out / "metrics.json").read_text(encoding="utf-8").rstrip())
    else:
        say([scaling(result.scale, result.why)])
        _print_summary(result.facts)
        typer.echo(f"Report: {out / 'report.html'}")


def _is_set(name: str, texts: list[str] | None) -> bool:
    """Whether a parameter is given as name=value."""
    return any(text.partition("=")[0].strip() == name for text in texts or ())


def _print_agreement(agreement: dict[str, Any]) -> None:
    """Print how well the runs found each component, and the stability of the ranks."""
    typer.echo(f"Stability of the components: {', '.join(f'{score:.3f}' for score in agreement['stability'])}")
    if (ranks := agreement["ranks"]) is not None:
        pairs = zip(ranks["n_components"], ranks["stability"], strict=True)
        typer.echo(f"Stability of the ranks: {', '.join(f'{rank}: {score:.3f}' for rank, score in pairs)}")


def _print_summary(facts: dict[str, Any]) -> None:
    """Print the size of the fit, whether it converged, and its errors with those of the baseline."""
    n, m = facts["shape"]
    title = f"{facts['method']} of rank {facts['rank']}: {n} sample{'s' * (n != 1)} x {m} feature{'s' * (m != 1)}"
    if (agreement := facts["agreement"]) is not None:
        typer.echo(f"{title}, {agreement['runs']} runs")
        _print_agreement(agreement)
    else:
        how = "converged" if facts["converged"] else "stopped before it converged (raise --set max_iter=N)"
        typer.echo(f"{title}, {facts['iterations']} iterations\nThe fit {how}.")
    typer.echo(f"It explains {explained(facts)}.".replace("\N{NO-BREAK SPACE}", " "))
    if facts["rank"] > min(n, m):
        fewer = f"{n} sample{'s' * (n != 1)}" if n <= m else f"{m} feature{'s' * (m != 1)}"
        typer.echo(f"The rank is larger than {fewer} can tell apart: other components would fit as well.")
    for name in ("reconstruction_error", "structure_error"):
        if facts[name] is not None:
            plain = f" (plain NMF: {facts['baseline'][name]:.4f})" if facts["baseline"] else ""
            typer.echo(f"{name.replace('_', ' ').capitalize()}: {facts[name]:.4f}{plain}")


@shared.reads_file
def transform(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model.skops, or the folder of a fit.", show_default=False)
    ],
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="File for the codes: .csv or .parquet.")],
    read_options: dict[str, Any],
    force: shared.Force = False,
    as_json: shared.Json = False,
    debug: shared.Debug = False,
) -> None:
    """Compute the codes of new rows with a saved model.

    Columns are matched by their names, so their order does not matter, and further ones are left out.
    """
    if out.suffix.lstrip(".") not in FORMATS:
        raise typer.BadParameter(f"{out} must end in .csv or .parquet.", param_hint="--out")
    with errors_as_messages(debug=debug, as_json=as_json, options={}):
        if out.exists() and not force:
            raise ValueError(_EXISTS.format(path=out))
        pipeline = load(model / "model.skops" if model.is_dir() else model)
        features = getattr(pipeline, "table_features_", None)
        if features is None:
            raise ValueError(f"{model} was not written by `dspnmf fit`: use dspnmf.load in Python.")
        table = read_matched(data, features, read_options)
        if not as_json:
            say(described(data, table)[:2], err=True)
        check_new_values(table, pipeline)
        Z = without_names(pipeline.transform, table.X)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_table_codes(out, Z, table)
    if as_json:
        typer.echo(json.dumps({"codes": str(out), "samples": int(Z.shape[0]), "components": int(Z.shape[1])}))
    else:
        typer.echo(f"Codes of {Z.shape[0]} samples: {out}")


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder that `dspnmf fit` wrote.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Option(help="The data file, if it has moved since the fit.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the report.", show_default="FOLDER/report.html")] = None,
    force: shared.Force = False,
    as_json: shared.Json = False,
    debug: shared.Debug = False,
) -> None:
    """Write the report of a fit again.

    The report is made from the model, the codes and the data of the fit.
    """
    with errors_as_messages(debug=debug, as_json=as_json, options={"data": "--data"}):
        page = out or folder / "report.html"
        if page.exists() and not force:
            raise ValueError(_EXISTS.format(path=page))
        saved = read_fit(folder, data)
        page.parent.mkdir(parents=True, exist_ok=True)
        options = {"settings": saved.settings, "baseline": None if saved.baseline else False}
        write_fit_report(saved.model, saved.table, saved.codes, page, **options)
    typer.echo(json.dumps({"report": str(page)}) if as_json else f"Report: {page}")
