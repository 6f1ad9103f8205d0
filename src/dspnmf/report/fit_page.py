# Pages write Greek letters, products and a real minus sign.
# ruff: noqa: RUF001
"""The page of a fit: what was fitted, how well, and what came out, compared with plain NMF of the same rank."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf import __version__
from dspnmf._atomic_files import write_text
from dspnmf.io import Table
from dspnmf.report import fit_components as components
from dspnmf.report import fit_figures
from dspnmf.report.fit_agreement import agreement
from dspnmf.report.fit_measurements import Baseline, FitInputs, RandomState, fit_inputs, measured
from dspnmf.report.formatting import MISSING, TableCell, amount, capital, counted, percent, share
from dspnmf.report.page import Assets, render, require

ASSETS = Assets(
    (*Assets().styles, "fit.css"), ("scale.js", "chart.js", "figure.js", "codes.js", "theme.js"), pictures=True
)
_NARROW = 10  # components up to which two tables of cosines fit next to each other
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
FitFacts: TypeAlias = dict[str, Any]  # what `fit_facts` returns

# Name, meaning, and whether the lower (-1) or the higher (1) is better; 0: neither.
_MEASURES = {
    "explained_share": (
        "Explained share of the data",
        "1 − ‖X − UV‖² ÷ ‖X‖², the share of the squares, as the explained variance of PCA but without centring",
        1,
    ),
    "explained_similarities": ("Explained share of the similarities", "1 − ‖XXᵀ − c UUᵀ‖² ÷ ‖XXᵀ‖², of the squares", 1),
    "reconstruction_error": ("Reconstruction error", "‖X − UV‖ ÷ ‖X‖, a ratio of norms", -1),
    "structure_error": (
        "Structure error",
        "‖XXᵀ − c UUᵀ‖ ÷ ‖XXᵀ‖, a ratio of norms; XXᵀ has the similarities between samples",
        -1,
    ),
    "trustworthiness": ("Trustworthiness", "whether neighbours in the codes were neighbours in the data", 1),
    "neighbour_recall": ("Neighbour recall", "share of neighbours in the data that are neighbours in the codes", 1),
    "component_correlation": (
        "Mean cosine of components",
        "over all pairs of two components: 0 if none share a feature",
        -1,
    ),
    "component_sparseness": ("Sparseness of components", "0 if all weights are equal, 1 if only one is not 0", 0),
}
_BETTER = {-1: "Lower is better.", 1: "Higher is better.", 0: ""}


class Measure(NamedTuple):
    """One row of the table of measures."""

    name: str
    about: str
    cells: tuple[TableCell, ...]
    iterations: tuple[tuple[str, str], ...] = ()  # their number, and whether the fit converged


def fit_report(
    model: BaseEstimator,
    table: Table,
    Z: ArrayLike,
    *,
    baseline: Baseline = None,
    facts: dict[str, Any] | None = None,
    title: str | None = None,
    settings: Mapping[str, str] | None = None,
    random_state: RandomState = 0,
) -> str:
    """The page of a fit: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    model, table, Z, baseline, random_state
        As in `fit_facts`. Names, labels, grid and picture of the table decide how results are shown.
    facts : dict, optional
        The result of `fit_facts` for the same arguments, so that nothing is measured twice.
    title : str, optional
        By default the method and its rank.
    settings : mapping of str to str, optional
        File, scaling, time: shown as they are.

    Returns
    -------
    str
        The page. The same arguments with a seed give the same bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.report import fit_report
    >>> table = Table(np.eye(4), np.array(list("abcd")), np.arange(4).astype(str))
    >>> model = DSPNMF(2, random_state=0)
    >>> "Four &lt;features&gt;" in fit_report(model, table, model.fit_transform(table.X), title="Four <features>")
    True
    """
    require()
    if facts is not None and facts["baseline"] is None:
        baseline = False
    inputs = fit_inputs(model, table, Z, baseline, random_state)
    if facts is None or (inputs.baseline is None) != (facts["baseline"] is None):
        facts = measured(inputs)
    text = render("fit.html", ASSETS, **_content(inputs, facts, title, dict(settings or {})))
    return text.encode("utf-8", "replace").decode("utf-8")  # names may hold halves of characters


def write_fit_report(model: BaseEstimator, table: Table, Z: ArrayLike, path: Path, **options: Any) -> None:
    """Write `fit_report` (same arguments and options) to a file, which is replaced in one stroke.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dspnmf import NMF
    >>> from dspnmf.report import write_fit_report
    >>> table = Table(np.eye(4), np.array(list("abcd")), np.arange(4).astype(str))
    >>> model = NMF(2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_fit_report(model, table, model.fit_transform(table.X), Path(folder) / "report.html")
    """
    write_text(Path(path), fit_report(model, table, Z, **options))


def _content(inputs: FitInputs, facts: dict[str, Any], title: str | None, settings: dict[str, str]) -> dict[str, Any]:
    """The variables of the template."""
    kind = components.kind_of(inputs)
    n, m = inputs.shape
    versions = {"dspnmf": __version__, "Python": platform.python_version()} | {p: version(p) for p in _PACKAGES}
    return {
        "title": title or f"{facts['method']} of rank {facts['rank']}",
        "over": f"A fit of {counted(n, 'sample')} × {counted(m, 'feature')}",
        "headline": _headline(facts),
        "fits": [capital(fit.label) for fit in inputs.fits],
        "measures": _measures(facts),
        "notes": _notes(inputs, facts),
        "settings": [*settings.items(), *_settings(inputs, facts, settings)],
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "convergence": fit_figures.convergence(inputs),
        "agreement": agreement(inputs.fit.model),
        "kind": kind,
        "left_out": components.left_out(inputs),
        "order": "" if inputs.shares is None else components.ORDER,
        "unit": components.UNIT,
        "components": getattr(components, kind)(inputs) if kind else None,
        "all_bars": m <= components.ALL_BARS,
        "maps": components.maps(inputs),
        "codes": (codes := fit_figures.scatter(inputs)),
        "coloured": any(column["classes"] for column in codes["columns"]),
        "shown": len(inputs.scatter_rows),
        "total": n,
        "structure": fit_figures.structure(inputs),
        "neighbours": fit_figures.neighbours(inputs),
        "cosines": components.cosine_tables(inputs),
        "broad": facts["rank"] > _NARROW,
    }


def explained(facts: FitFacts) -> str:
    """The explained shares, next to those of plain NMF."""
    baseline = facts["baseline"]

    def compared(name: str) -> str:
        return f" (plain NMF: {percent(baseline[name])})" if baseline and baseline[name] is not None else ""

    shares = {"explained_share": "of the data", "explained_similarities": "of the similarities between samples"}
    return " and ".join(
        f"{percent(facts[n])} {what}{compared(n)}" for n, what in shares.items() if facts[n] is not None
    )


def _headline(facts: FitFacts) -> str:
    """What came out, in a sentence or two."""
    sentence = f"With {counted(facts['rank'], 'component')}, {facts['method']} explains {explained(facts)}."
    if facts["converged"] is False:
        sentence += f" It had not converged after {facts['iterations']:,} iterations."
    return sentence


def _measures(facts: FitFacts) -> list[Measure]:
    """Every measure with its values; what is printed like the best is the best too."""
    both = [facts] if facts["baseline"] is None else [facts, facts["baseline"]]
    rows = []
    for key, (name, about, sign) in _MEASURES.items():
        pairs = key != "component_correlation" or facts["rank"] > 1  # one component has no cosine with another
        values = [one[key] if pairs else None for one in both]
        texts = ["" if value is None else share(value) for value in values]
        known = [value for value in values if value is not None]
        best = share((max if sign > 0 else min)(known)) if sign and len(set(filter(None, texts))) > 1 else None
        cells = tuple(TableCell(text, text, text == best) if text else TableCell() for text in texts)
        rows.append(Measure(name, " ".join(filter(None, (f"{capital(about)}.", _BETTER[sign]))), cells))
    if any(one["iterations"] is not None for one in both):
        rows.append(Measure("Iterations", "", (), tuple(_iterations(one) for one in both)))
    return rows


def _notes(inputs: FitInputs, facts: FitFacts) -> list[str]:
    """How the numbers were measured: rows drawn, neighbours asked for, missing cells, columns left out."""
    n, near, basis = inputs.shape[0], len(inputs.neighbour_rows), len(inputs.structure_rows)
    how = f"with {facts['neighbours']} neighbours"
    if near < n:
        others = "; the other measures on all" if basis == n else ""
        how = f"on {near:,} samples drawn from the {n:,}, {how} among them{others}"
    chance = f"; by chance, recall would be {share(facts['neighbours'] / (near - 1))}" if near > 1 else ""
    found = [
        f"Explained shares are shares of squares. Trustworthiness and neighbour recall are measured {how}{chance}."
    ]
    unused = components.empty(inputs.fit) + 1
    if len(unused):
        which, them = ("components", "them") if len(unused) > 1 else ("component", "it")
        found.append(
            f"Empty: {which} {', '.join(map(str, unused))} of {facts['rank']}. No sample uses {them}; a smaller rank "
            "gives the same fit."
        )
    if basis < n:
        found.append(f"The structure error is measured on {basis:,} samples drawn from the {n:,}.")
    if inputs.missing:
        found.append(
            f"{inputs.missing:,} cells of X are missing. The reconstruction error is that of the known cells; the "
            "other measures are taken on rows whose missing cells come from the fit itself (X with UV in the gaps)."
        )
    columns, most = len(inputs.table.columns), fit_figures.MAX_COLUMNS
    if columns > most:
        found.append(f"Of {columns} columns that are not features, the first {most} are shown.")
    return found


def _settings(inputs: FitInputs, facts: FitFacts, given: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was fitted, as pairs of name and text, next to what is `given` of file and labels."""
    X, (n, m) = inputs.table.X, inputs.shape
    kind = f"sparse, {percent(X.nnz / (n * m))} of the cells stored" if sparse.issparse(X) else "dense"
    missing = f"{inputs.missing:,} of {n * m:,} cells ({percent(inputs.missing / (n * m))})" if inputs.missing else ""
    labels = inputs.table.labels
    objective = ""
    if facts["objective"] is not None:
        objective = amount(facts["objective"])
        if facts["iterations"] is not None:
            objective += f" after {' iterations, '.join(_iterations(facts))}"
    found = [
        (
            "Shape" if "Data" in given else "Data",
            f"{counted(n, 'sample')} × {counted(m, 'feature')}, {kind}, {X.dtype}",
        ),
        ("Missing", missing),
        ("Labels", "" if labels is None or "Label" in given else str(inputs.table.label)),
        ("Method", f"{facts['method']}, rank {facts['rank']}"),
        ("Parameters", _parameters(facts)),
        ("Objective", objective),
    ]
    if (baseline := facts["baseline"]) is not None:
        found.append((f"Plain {baseline['method']}", _parameters(baseline)))
    if len(inputs.scatter_rows) < n:
        found.append(("Samples shown", f"{len(inputs.scatter_rows):,} of {n:,}, drawn at random"))
    return [(name, text) for name, text in found if text]


def _parameters(facts: FitFacts) -> str:
    """Parameters of a fit, written as arguments of a call."""
    return ", ".join(f"{name}={value!r}" for name, value in facts["parameters"].items() if name != "verbose")


def _iterations(facts: FitFacts) -> tuple[str, str]:
    """The number of iterations, and whether the fit converged."""
    if facts["iterations"] is None:
        return MISSING, ""
    end = {True: "converged", False: "not converged", None: "no stopping rule"}[facts["converged"]]
    return f"{facts['iterations']:,}", end
