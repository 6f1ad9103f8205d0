"""The files of a fit or a selection, written to a folder and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

import dspnmf
from dspnmf._atomic_files import write_text
from dspnmf._option_words import option
from dspnmf._validation import ParameterError
from dspnmf.io import Table, read, write_codes
from dspnmf.persistence import load
from dspnmf.report import write_fit_report, write_selection_report
from dspnmf.report.fit_measurements import FloatArray
from dspnmf.selection import DSPNMFCV
from dspnmf.workflow.description import fit_command
from dspnmf.workflow.fitting import FitResult
from dspnmf.workflow.preparation import read_matched, scaled
from dspnmf.workflow.scaling import in_units_of_data

FORMATS = ("csv", "parquet")
FIT_FILES = ("codes.csv", "codes.parquet", "components.csv", "model.skops", "metrics.json", "report.html")
SELECTION_FILES = ("selection.csv", "ranks.csv", "choice.json", "selection.html")
FORCE = option("force")
_NO_FIT = "{path} holds no fit (there is no {name} in it): name a folder that `dspnmf fit` wrote."


def check_folder(path: Path, names: tuple[str, ...], *, force: bool = False) -> None:
    """Refuse a path where no folder can be, and, unless `force`, a folder that has files of these names."""
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{path} is a link that leads nowhere: name another folder.")
    for folder in (path, *path.absolute().parents):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file: name a folder for the results.")
    there = [name for name in names if (path / name).exists()]
    if there and not force:
        raise ValueError(f"{path} holds {', '.join(there)} already: name another folder, or replace them with {FORCE}.")


def code_names(k: int) -> list[str]:
    """Names of the columns of codes."""
    return [f"component_{a + 1}" for a in range(k)]


def index_name(table: Table, names: list[str]) -> str:
    """The name of the column of samples in a file with columns of these names."""
    return table.index_name if table.index_name and table.index_name not in names else "sample"


def write_table_codes(path: Path, codes: FloatArray, table: Table) -> None:
    """Write codes with the names of their samples."""
    names = code_names(codes.shape[1])
    write_codes(path, codes, table.index, index_name(table, names), names)


def write_fit(result: FitResult, folder: Path, settings: Mapping[str, Any], form: str = "csv") -> None:
    """Write codes, components, model, numbers and page."""
    table, model = result.table, result.pipeline[-1]
    V = np.asarray(model.components_)
    write_table_codes(folder / f"codes.{form}", result.codes, table)
    V, least = in_units_of_data(result.pipeline[0], V)
    names = [*code_names(len(V)), *(["minimum"] if least is not None else [])]
    rows = V if least is None else np.vstack([V, least])
    write_codes(folder / "components.csv", rows, names, "component", with_units(table, result.scale))
    dspnmf.save(result.pipeline, folder / "model.skops")
    about = {"dspnmf": dspnmf.__version__, "seconds": round(result.seconds, 3), "settings": dict(settings)}
    write_text(folder / "metrics.json", json.dumps({**about, **result.facts}, indent=1) + "\n")
    options = {"baseline": result.baseline, "facts": result.facts, "settings": _shown(settings, result.seconds)}
    write_fit_report(model, table, result.codes, folder / "report.html", **options)


def _shown(settings: Mapping[str, Any], seconds: float | None = None) -> dict[str, str]:
    """Settings as the page shows them."""
    shown = {name.capitalize(): str(settings[name]) for name in ("data", "scale", "label") if settings.get(name)}
    return shown | ({} if seconds is None else {"Time": f"{seconds:.2f} s"})


def with_units(table: Table, scale: str) -> list[str]:
    """Names of features with their units, such as "mass [g]", where the file has them apart from the names."""
    names = [str(name) for name in table.features]
    if scale == "l2" or not table.units:  # samples of unit length have no unit
        return names
    return [f"{name} [{unit}]" if unit else name for name, unit in zip(names, table.units, strict=True)]


class SavedFit(NamedTuple):
    """What the page of a fit needs, read from its folder; `baseline` is whether the fit had one."""

    model: BaseEstimator
    table: Table  # after scaling
    codes: FloatArray
    settings: dict[str, str]
    baseline: bool


def read_fit(folder: Path, data: Path | None = None) -> SavedFit:
    """The fit in a folder, and its table from the same file as then, or from `data`."""
    for name in ("metrics.json", "model.skops"):
        if not (folder / name).is_file():
            raise ValueError(_NO_FIT.format(path=folder, name=name))
    try:
        facts = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        settings = facts["settings"]
        options: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in settings["read"].items()}
        source = Path(data or settings["data"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / 'metrics.json'} is damaged ({error!r}): fit again.") from error
    pipeline = load(folder / "model.skops")
    table = read_matched(source, pipeline.table_features_, options)
    here = scaled(table, pipeline[0])
    form = next((form for form in FORMATS if (folder / f"codes.{form}").is_file()), None)
    if form is None:
        raise ValueError(_NO_FIT.format(path=folder, name="codes.csv or codes.parquet"))
    codes = read(folder / f"codes.{form}", index=index_name(table, code_names(pipeline[-1].n_components_))).X
    if len(codes) != here.X.shape[0]:
        raise ParameterError(
            f"{source} has {here.X.shape[0]} samples, but {folder} holds codes of {len(codes)}: name the file of the "
            "fit as data, or fit again.",
            "data",
        )
    shown, baseline = _shown(settings, facts.get("seconds")), settings.get("baseline", True)
    return SavedFit(pipeline[-1], here, codes, shown, baseline)


def write_selection(cv: DSPNMFCV, folder: Path, settings: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """Write the candidates, the curve of the ranks, the choice and the page; return the choice."""
    _write_columns(folder / "selection.csv", cv.cv_results_)
    if cv.rank_results_ is not None:
        _write_columns(folder / "ranks.csv", cv.rank_results_)
    choice = {
        "dspnmf": dspnmf.__version__,
        "settings": dict(settings),
        "scale": scale,
        "n_components": int(cv.n_components_),
        "similarity": cv.similarity_,
        "diffusion_steps": int(cv.diffusion_steps_),
        "alpha": float(cv.alpha_),
        "label_weight": float(cv.label_weight_),
    }
    write_text(folder / "choice.json", json.dumps(choice, indent=1) + "\n")
    shown = _shown({**settings, "scale": scale})
    command = f"{fit_command(settings['data'], settings['read'], choice)} --out FOLDER"
    write_selection_report(cv, folder / "selection.html", settings=shown, command=command)
    return choice


def _write_columns(path: Path, columns: Mapping[str, ArrayLike]) -> None:
    """Write those of the arrays that are columns of numbers as CSV."""
    plain = {name: np.asarray(values) for name, values in columns.items() if np.ndim(values) == 1}
    numbers = {name: values.astype(float) for name, values in plain.items() if values.dtype.kind in "fiub"}
    X = np.column_stack(list(numbers.values()))
    write_codes(path, X, np.arange(len(X)).astype(str), "candidate", list(numbers))
