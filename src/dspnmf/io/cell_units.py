"""Cells with a number and its unit, such as "5.7 cm" or "€ 12", and numbers that stand for a missing value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.number_format import MEASURED, NumberFormat, could_be_number

_MARKS = "*†‡"  # of footnotes and of significance
_MONTHS = ("jan", "feb", "mar", "apr", "may", "mai", "jun", "jul", "aug", "sep", "oct", "okt", "nov", "dec", "dez")
CODES = (-999.0, -9999.0, -99999.0, -999.25, -999.9, -9999.9)  # that stand for missing values
_GAPS = 0.5  # share of a column that may be missing so
_POSSIBLE = -99.0  # below which no other value is, where they do


def is_measured(cell: str) -> bool:
    """Whether a cell is a number with something after it, or with the sign of a currency."""
    found = MEASURED.fullmatch(cell.strip())
    return (
        found is not None
        and bool(found["money"] or found["error"] or found["unit"])
        and could_be_number(found["number"])
    )


def without_units(cells: Sequence[str], form: NumberFormat) -> tuple[list[float], str] | None:
    """The numbers of a column whose cells all have one unit, or marks of footnotes, and the unit; None otherwise."""
    values, units, tight = list[float](), set[str](), True
    for cell in cells:
        if form.is_missing(cell):
            values.append(float("nan"))
            continue
        found = MEASURED.fullmatch(cell.strip())
        value = form.number(found["number"]) if found else None
        if found is None or value is None:
            return None
        values.append(value)
        units.add((found["money"] + (found["unit"] or "").rstrip(_MARKS)).strip())
        tight &= found.end("number") == found.start("unit")
        if len(units) > 1:
            return None
    unit = units.pop() if units else ""
    is_name = tight and len(unit) == 1 and unit.isupper()  # 1A, 2A
    if not np.isfinite(values).any() or is_name or unit.lower().startswith(_MONTHS):
        return None
    return values, unit


def take_out_codes(X: NDArray[np.float64]) -> list[str]:
    """Make codes for missing values, such as -999, NaN where no other value is as low; which ones there were."""
    if not X.size or not np.nanmin(X, initial=0.0) <= CODES[0]:
        return []
    is_code = np.isin(X, CODES)
    if np.nanmin(np.where(is_code, 0.0, X), initial=0.0) < _POSSIBLE or is_code.mean(axis=0).max() > _GAPS:
        return []
    found = [f"{code:g}" for code in CODES if np.isin(code, X)]
    X[is_code] = np.nan
    return found
