"""Columns of numbers that name the rows instead of measuring something: row numbers, ids, keys."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_IDS = frozenset(("id", "ids", "uid", "uuid", "guid", "pid", "barcode", "rowid", "rownames", "rownumber", "recordid"))
_NAMES = (  # that name rows where the numbers are whole, and each is there once
    "index idx key row rows record case sample samples subject patient specimen observation obs item entry spectrum "
    "unnamed"
)
_COUNTERS = frozenset(("no", "nr", "num", "number", "code", "line", "#"))  # that name rows where they also rise
_QUANTITIES = (  # that rise from row to row, and are measured or set all the same
    "time times date year month day hour minute second seconds age duration wavelength wavenumber frequency energy "
    "shift nm hz mz ppm channel depth height length width distance position altitude elevation dose level temperature "
    "temp pressure voltage current concentration conc mass weight count counts volume speed power size area total sum "
    "price income population"
)
_FIRST, _ANYWHERE = 5, 10  # rows from which numbers alone tell, in the first column of numbers and in the others
_BEGIN = 1000  # values that are looked at before all others
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|#")


def names_rows(name: str, values: NDArray[np.float64], *, first: bool) -> str:
    """Why a column of numbers is taken for row numbers or ids; "" where it is not."""
    if len(values) < 2 or not (_are_whole(values[:_BEGIN]) and _are_whole(values)):
        return ""
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and (words[-1] in _IDS or "".join(words) in _IDS):
        return "its name is that of an id"
    if words and words[0] in _NAMES.split() and len(np.unique(values)) == len(values):
        return "whole numbers, each once, under a name of row numbers"
    if not ((np.diff(values[:_BEGIN]) > 0).all() and (np.diff(values) > 0).all()):
        return ""
    if words and words[-1] in _COUNTERS:
        return "whole numbers that rise, under a name of row numbers"
    if set(_QUANTITIES.split()) & set(words):
        return ""
    if values[-1] - values[0] == len(values) - 1 >= (_FIRST if first else _ANYWHERE) - 1:
        return "it counts the rows"
    return "whole numbers that rise from row to row" if first and len(values) >= _ANYWHERE else ""


def _are_whole(values: NDArray[np.float64]) -> bool:
    return bool((np.isfinite(values) & (values == np.floor(values))).all())


def may_be_axis(name: str, values: NDArray[np.float64]) -> bool:
    """Whether a quantity rises from row to row, as an axis does, and time in a series."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(set(_QUANTITIES.split()) & words) and len(values) >= _ANYWHERE and bool((np.diff(values) > 0).all())
