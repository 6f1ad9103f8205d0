"""The scatter plot of the codes as data: samples with their names, and columns they can be coloured by.

A column of few values is shown by value; one of many numbers by classes of equal count; one whose values are (nearly)
all different is only read out. Texts are cut, as a page is no place for documents.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dspnmf.report.components import contributions
from dspnmf.report.texts import cut

if TYPE_CHECKING:
    from dspnmf.report.case import Case

CATEGORIES = 24  # that the page tells apart by colour and marker
CLASSES = 7
COLUMNS = 20  # at most, the labels first
NO_VALUE = "no value"
_SMALL = 500  # samples up to which markers are large


def scatter(case: Case) -> dict[str, Any]:
    """What ``assets/codes.js`` draws."""
    table, rows, Z = case.table, case.shown, case.fit.Z
    names = sorted(table.columns, key=lambda name: name != table.label)[:COLUMNS]
    columns = [column(name, table.columns[name][rows]) for name in names]
    first = np.argsort(-contributions(case.fit), kind="stable")
    k = Z.shape[1]
    return {
        "axes": [*(f"component {i + 1}" for i in range(k)), "sample number"],
        "values": [*Z[rows].T.tolist(), (rows + 1).tolist()],
        "start": [int(first[0]), int(first[1])] if k > 1 else [1, 0],
        "names": [cut(name) for name in table.index[rows]],
        "called": cut(table.index_name) or "sample",
        "columns": columns,
        "colour": next((i for i, found in enumerate(columns) if found["classes"]), -1),
        "size": 3.6 if len(rows) <= _SMALL else 2.6,
    }


def column(name: str, values: Any) -> dict[str, Any]:
    """One column: `classes` to colour by (none: not offered), and `of` each sample its class or level.

    Numbers come as `values`, others as `levels`; the first levels are the classes, the rest share the last class.
    """
    numbers = _numbers(values)
    if numbers is not None and len(np.unique(numbers[np.isfinite(numbers)])) > CATEGORIES:
        of, classes = _binned(numbers)
        return {"name": cut(name), "ordered": True, "classes": classes, "of": of, "values": numbers.tolist()}
    texts = [_text(value) for value in values]
    levels, classes = _categories(texts)
    place = {text: i for i, text in enumerate(levels)}
    return {"name": cut(name), "ordered": False, "classes": classes, "of": [place[t] for t in texts], "levels": levels}


def _numbers(values: Any) -> Any:
    """The column as numbers, if it has a numeric type."""
    values = np.asarray(values)
    return values.astype(np.float64) if values.dtype.kind in "iuf" else None


def _text(value: Any) -> str:
    """A value as a reader would write it."""
    if value is None or (isinstance(value, float | np.floating) and not math.isfinite(value)) or str(value) == "":
        return NO_VALUE
    return f"{value:.6g}" if isinstance(value, float | np.floating) else cut(value)


def _natural(text: str) -> tuple[bool, bool, float, str]:
    """Numbers by value, then words; what has no value comes last."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    known = math.isfinite(number)
    return text == NO_VALUE, not known, number if known else 0.0, text


def _categories(texts: list[str]) -> tuple[list[str], list[str]]:
    """The levels and the classes: the rarest levels share one where there are many; too many have none."""
    counts = Counter(texts)
    levels = sorted(counts, key=_natural)
    if len(levels) <= CATEGORIES:
        return levels, levels
    if len(levels) > len(texts) / 2:
        return levels, []
    often = set(sorted(levels, key=lambda text: -counts[text])[: CATEGORIES - 1])
    rest = [text for text in levels if text not in often]
    kept = [text for text in levels if text in often]
    return [*kept, *rest], [*kept, f"{len(rest)} others"]


def _binned(numbers: Any) -> tuple[list[int], list[str]]:
    """Each number's class and the classes, of about the same count, from low to high."""
    known = np.isfinite(numbers)
    edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, CLASSES + 1)))
    of = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, max(len(edges) - 2, 0))
    classes = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)] or [f"{edges[0]:g}"]
    if not known.all():
        of[~known] = len(classes)
        classes.append(NO_VALUE)
    return of.tolist(), classes
