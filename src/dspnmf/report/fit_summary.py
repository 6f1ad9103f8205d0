# Pages write Greek letters, products and a real minus sign.
# ruff: noqa: RUF001
"""The numbers of a fit as the page shows them: headline, table of measures, notes, settings, cosines of components."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import cosine_similarity

from dspnmf import metrics
from dspnmf.report.fit_components import picture
from dspnmf.report.fit_figures import MAX_COLUMNS
from dspnmf.report.fit_measurements import FitInputs
from dspnmf.report.formatting import MISSING, TableCell, amount, capital, counted, percent, share

_LARGEST_TABLE = 40  # components whose correlations are written as numbers; more are a picture

FitFacts: TypeAlias = dict[str, Any]  # what `fit_facts` returns

# Name, meaning, and whether the lower (-1) or the higher (1) is better; 0: neither.
_MEASURES = {
    "reconstruction_error": ("Reconstruction error", "‖X − UV‖ ÷ ‖X‖: what is lost of the data", -1),
    "structure_error": (
        "Structure error",
        "‖XXᵀ − c UUᵀ‖ ÷ ‖XXᵀ‖: what is lost of the similarities between samples",
        -1,
    ),
    "trustworthiness": ("Trustworthiness", "whether neighbours in the codes were neighbours in the data", 1),
    "neighbour_recall": ("Neighbour recall", "share of neighbours in the data that are neighbours in the codes", 1),
    "component_correlation": (
        "Correlation of components",
        "mean cosine of two components: 0 if none share a feature",
        -1,
    ),
    "component_sparseness": ("Sparseness of components", "0 if all weights are equal, 1 if there is but one", 0),
}
_BETTER = {-1: "Lower is better.", 1: "Higher is better.", 0: ""}


class Measure(NamedTuple):
    """One row of the table of measures."""

    name: str
    about: str
    cells: tuple[TableCell, ...]
    iterations: tuple[tuple[str, str], ...] = ()  # their number, and whether the fit converged


class CosineTable(NamedTuple):
    """Cosines of components: cells of text and shade (0 to 10), or a picture where there are many."""

    name: str
    mean: str
    cells: tuple[tuple[tuple[str, int], ...], ...]
    address: str = ""


def headline(facts: FitFacts) -> str:
    """What came out, in a sentence or two."""
    baseline = facts["baseline"]

    def compared(name: str) -> str:
        return f" (plain NMF: {percent(baseline[name])})" if baseline and baseline[name] is not None else ""

    losses = {"structure_error": "of the similarities between samples", "reconstruction_error": "of the data"}
    lost = [f"{percent(facts[n])} {what}{compared(n)}" for n, what in losses.items() if facts[n] is not None]
    sentence = f"With {counted(facts['rank'], 'component')}, {facts['method']} loses {' and '.join(lost)}."
    if facts["converged"] is False:
        sentence += f" It had not converged after {facts['iterations']:,} iterations."
    return sentence


def measures(facts: FitFacts) -> list[Measure]:
    """Every measure with its values; what is printed like the best is the best too."""
    both = [facts] if facts["baseline"] is None else [facts, facts["baseline"]]
    rows = []
    for key, (name, about, sign) in _MEASURES.items():
        texts = ["" if one[key] is None else share(one[key]) for one in both]
        known = [one[key] for one in both if one[key] is not None]
        best = share((max if sign > 0 else min)(known)) if sign and len(set(filter(None, texts))) > 1 else None
        cells = tuple(TableCell(text, text, text == best) if text else TableCell() for text in texts)
        rows.append(Measure(name, " ".join(filter(None, (f"{capital(about)}.", _BETTER[sign]))), cells))
    rows.append(Measure("Iterations", "", (), tuple(_iterations(one) for one in both)))
    return rows


def notes(inputs: FitInputs, facts: FitFacts) -> list[str]:
    """How the numbers were measured: rows drawn, neighbours asked for, missing cells, columns left out."""
    n, near, basis = inputs.shape[0], len(inputs.neighbour_rows), len(inputs.structure_rows)
    found = []
    if near < n:
        found.append(
            f"Trustworthiness and neighbour recall are measured on {near:,} samples drawn from the {n:,}, with "
            f"{facts['neighbours']} neighbours among them{'; the other measures on all' if basis == n else ''}."
        )
    else:
        found.append(f"Trustworthiness and neighbour recall are measured with {facts['neighbours']} neighbours.")
    if basis < n:
        found.append(f"The structure error is measured on {basis:,} samples drawn from the {n:,}.")
    if inputs.missing:
        found.append(
            f"{inputs.missing:,} cells of X are missing. The reconstruction error is that of the known cells; the "
            "other measures are taken on rows whose missing cells come from the fit itself (X with UV in the gaps)."
        )
    if len(inputs.table.columns) > MAX_COLUMNS:
        found.append(f"Of {len(inputs.table.columns)} columns that are no features, the first {MAX_COLUMNS} are shown.")
    return found


def settings(inputs: FitInputs, facts: FitFacts) -> list[tuple[str, str]]:
    """What was fitted, as pairs of name and text."""
    X, (n, m) = inputs.table.X, inputs.shape
    kind = f"sparse, {percent(X.nnz / (n * m))} of the cells stored" if sparse.issparse(X) else "dense"
    missing = f"{inputs.missing:,} of {n * m:,} cells ({percent(inputs.missing / (n * m))})" if inputs.missing else ""
    labels = inputs.table.labels
    objective = facts["objective"]
    found = [
        ("Data", f"{counted(n, 'sample')} × {counted(m, 'feature')}, {kind}, {X.dtype}"),
        ("Missing", missing),
        ("Labels", "" if labels is None else f"column {inputs.table.label}"),
        ("Method", f"{facts['method']}, rank {facts['rank']}"),
        ("Parameters", _parameters(facts)),
        (
            "Objective",
            "" if objective is None else f"{amount(objective)} after {' iterations, '.join(_iterations(facts))}",
        ),
    ]
    if (baseline := facts["baseline"]) is not None:
        found.append((f"Plain {baseline['method']}", _parameters(baseline)))
    if len(inputs.scatter_rows) < n:
        found.append(("Samples shown", f"{len(inputs.scatter_rows):,} of {n:,}, drawn at random"))
    return [(name, text) for name, text in found if text]


def cosine_tables(inputs: FitInputs) -> list[CosineTable]:
    """Cosines between components, of each fit that has some."""
    found = []
    for fit in inputs.fits:
        if fit.V is None or len(fit.V) < 2:
            continue
        cosines = np.clip(cosine_similarity(fit.V), -1, 1)
        k, mean = len(cosines), f"{metrics.component_correlation(fit.V):.3f}"
        if k > _LARGEST_TABLE:
            found.append(CosineTable(capital(fit.label), mean, (), picture(np.abs(cosines), (k, k))))
            continue
        cells = tuple(
            tuple(("1", -1) if i == j else (_cosine(v), round(10 * abs(float(v)))) for j, v in enumerate(row))
            for i, row in enumerate(cosines)
        )
        found.append(CosineTable(capital(fit.label), mean, cells))
    return found


def _cosine(value: float) -> str:
    """A cosine to two digits."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")


def _parameters(facts: FitFacts) -> str:
    """Parameters of a fit, written as arguments of a call."""
    return ", ".join(f"{name}={value!r}" for name, value in facts["parameters"].items() if name != "verbose")


def _iterations(facts: FitFacts) -> tuple[str, str]:
    """The number of iterations, and whether the fit converged."""
    if facts["iterations"] is None:
        return MISSING, ""
    end = {True: "converged", False: "not converged", None: "no stopping rule"}[facts["converged"]]
    return f"{facts['iterations']:,}", end
