# Pages write Greek letters, products and a real minus sign.
# ruff: noqa: RUF001
"""The numbers of a fit in words, tables and squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dspnmf.report.codes import COLUMNS
from dspnmf.report.grids import MISSING, Value
from dspnmf.report.images import picture
from dspnmf.report.texts import amount, capital, counted, percent, share

if TYPE_CHECKING:
    from dspnmf.report.case import Case
    from dspnmf.report.facts import Facts

_LARGEST_TABLE = 40  # components whose correlations are written as numbers; more are a picture

# Name, what it says, and whether the lower (-1) or the higher (1) is better; 0: neither.
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


@dataclass(frozen=True)
class Measure:
    """One row of the table of measures."""

    name: str
    about: str
    values: tuple[Value, ...]
    ended: tuple[tuple[str, str], ...] = ()  # iterations, and whether they sufficed


@dataclass(frozen=True)
class Matrix:
    """Cosines of components: cells of text and shade (0 to 10), or a picture where there are many."""

    name: str
    mean: str
    cells: tuple[tuple[tuple[str, int], ...], ...]
    address: str = ""


def headline(facts: Facts) -> str:
    """What came out, in a sentence or two."""
    other = facts["yardstick"]

    def beside(name: str) -> str:
        return f" (plain NMF: {percent(other[name])})" if other and other[name] is not None else ""

    losses = {"structure_error": "of the similarities between samples", "reconstruction_error": "of the data"}
    said = [f"{percent(facts[n])} {what}{beside(n)}" for n, what in losses.items() if facts[n] is not None]
    sentence = f"With {counted(facts['rank'], 'component')}, {facts['method']} loses {' and '.join(said)}."
    if facts["converged"] is False:
        sentence += f" It had not converged after {facts['iterations']:,} iterations."
    return sentence


def measures(facts: Facts) -> list[Measure]:
    """Every measure with its values; what is printed like the best is the best too."""
    both = [facts] if facts["yardstick"] is None else [facts, facts["yardstick"]]
    rows = []
    for key, (name, about, sign) in _MEASURES.items():
        texts = ["" if one[key] is None else share(one[key]) for one in both]
        known = [one[key] for one in both if one[key] is not None]
        best = share((max if sign > 0 else min)(known)) if sign and len(set(filter(None, texts))) > 1 else None
        values = tuple(Value(text, text, text == best) if text else Value() for text in texts)
        rows.append(Measure(name, " ".join(filter(None, (f"{capital(about)}.", _BETTER[sign]))), values))
    rows.append(Measure("Iterations", "", (), tuple(_ended(one) for one in both)))
    return rows


def spoken(case: Case, facts: Facts) -> list[str]:
    """What the reader must know of how it was measured."""
    n, near, basis = case.shape[0], len(case.near), len(case.basis)
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
    if case.missing:
        found.append(
            f"{case.missing:,} cells of X are missing. The reconstruction error is that of the known cells; the other "
            "measures are taken on rows whose missing cells come from the fit itself (X with UV in the gaps)."
        )
    if len(case.table.columns) > COLUMNS:
        found.append(f"Of {len(case.table.columns)} columns beside the features, the first {COLUMNS} are shown.")
    return found


def described(case: Case, facts: Facts) -> list[tuple[str, str]]:
    """What was fitted, as pairs of name and text."""
    X, (n, m) = case.table.X, case.shape
    kind = f"sparse, {percent(X.nnz / (n * m))} of the cells stored" if sparse.issparse(X) else "dense"
    missing = f"{case.missing:,} of {n * m:,} cells ({percent(case.missing / (n * m))})" if case.missing else ""
    labels = case.table.labels
    objective = facts["objective"]
    found = [
        ("Data", f"{counted(n, 'sample')} × {counted(m, 'feature')}, {kind}, {X.dtype}"),
        ("Missing", missing),
        ("Labels", "" if labels is None else f"column {case.table.label}"),
        ("Method", f"{facts['method']}, rank {facts['rank']}"),
        ("Parameters", _parameters(facts)),
        ("Objective", "" if objective is None else f"{amount(objective)} after {' iterations, '.join(_ended(facts))}"),
    ]
    other = facts["yardstick"]
    if other is not None:
        found.append((f"Plain {other['method']}", _parameters(other)))
    if len(case.shown) < n:
        found.append(("Samples shown", f"{len(case.shown):,} of {n:,}, drawn at random"))
    return [(name, text) for name, text in found if text]


def heat(case: Case) -> list[Matrix]:
    """Cosines between components, of each fit that has some."""
    found = []
    for fit in case.fits:
        if fit.V is None or len(fit.V) < 2:
            continue
        lengths = np.linalg.norm(fit.V, axis=1, keepdims=True)
        unit = fit.V / np.where(lengths > 0, lengths, 1)
        cosines = np.clip(unit @ unit.T, -1, 1)
        k = len(cosines)
        mean = f"{cosines[~np.eye(k, dtype=bool)].mean():.3f}"
        if k > _LARGEST_TABLE:
            found.append(Matrix(capital(fit.label), mean, (), picture(np.abs(cosines), (k, k))))
            continue
        cells = tuple(
            tuple(("1", -1) if i == j else (_cosine(v), round(10 * abs(float(v)))) for j, v in enumerate(row))
            for i, row in enumerate(cosines)
        )
        found.append(Matrix(capital(fit.label), mean, cells))
    return found


def _cosine(value: Any) -> str:
    """Two digits."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")


def _parameters(facts: Facts) -> str:
    """Parameters of a fit, as one would write the call."""
    return ", ".join(f"{name}={value!r}" for name, value in facts["parameters"].items() if name != "verbose")


def _ended(facts: Facts) -> tuple[str, str]:
    """How many iterations, and whether they sufficed."""
    if facts["iterations"] is None:
        return MISSING, ""
    said = {True: "converged", False: "not converged", None: "no stopping rule"}[facts["converged"]]
    return f"{facts['iterations']:,}", said
