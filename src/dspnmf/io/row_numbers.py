"""Columns of numbers that name the rows instead of measuring something: row numbers, ids, keys, labels."""

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
_LABELS = "class classes label labels target targets classlabel"
_GROUPS = "replicate rep batch block group cluster fold plate plot site"
_CLASSES = 20  # values of a column that may be labels, at most
LABEL = "its name is that of a label"
GROUP = "its name is that of groups of samples"
_SPECTRA = (  # what the axis of a spectrum, a chromatogram or a diffractogram is called
    "wavelength wavelengths wavenumber wavenumbers lambda wl nm cm1 1cm mz raman shift energy ev kev frequency freq hz "
    "mhz ppm theta twotheta channel band retention rt"
)
_SERIES = "time times timestamp date datetime year years day days elapsed datum zeit"
_STEADY = 3.0  # ratio of the largest step of an axis to its smallest
_EQUAL = 1.01  # the same for columns whose names do not tell
AXIS = "an axis: it rises or falls in regular steps"
SERIES = "a time that rises from row to row"
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
    whole_name = "".join(words)
    if whole_name in f"{_LABELS} {_GROUPS}".split() and 1 < len(np.unique(values)) <= min(_CLASSES, len(values) // 2):
        return LABEL if whole_name in _LABELS.split() else GROUP
    if words and words[0] in _NAMES.split() and len(np.unique(values)) == len(values):
        return "whole numbers, each once, under a name of row numbers"
    if not ((np.diff(values[:_BEGIN]) > 0).all() and (np.diff(values) > 0).all()):
        return ""
    if words and words[-1] in _COUNTERS:
        return "whole numbers that rise, under a name of row numbers"
    if _has_word(name, _QUANTITIES):
        return ""
    if values[-1] - values[0] == len(values) - 1 >= (_FIRST if first else _ANYWHERE) - 1:
        return "it counts the rows"
    return "whole numbers that rise from row to row" if first and len(values) >= _ANYWHERE else ""


def is_axis(name: str, values: NDArray[np.float64]) -> str:
    """Why the first column of numbers is the axis or the time of the others; "" where it is not."""
    if len(values) < _ANYWHERE or not np.isfinite(values[:_BEGIN]).all() or not np.isfinite(values).all():
        return ""
    steps = np.diff(values)
    if not ((steps > 0).all() or (steps < 0).all()):
        return ""
    ratio = float(np.abs(steps).max() / np.abs(steps).min())
    if _has_word(name, _SERIES) and values[-1] > values[0]:
        return SERIES
    return AXIS if ratio <= (_STEADY if _has_word(name, _SPECTRA) else _EQUAL) else ""


def is_axis_of_spectra(name: str, index: NDArray[np.str_]) -> bool:
    """Whether the names of rows are numbers along the axis of spectra."""
    if not _has_word(name, _SPECTRA) or len(index) < _ANYWHERE:
        return False
    try:
        values = np.array([float(text) for text in index])
    except ValueError:
        return False
    return is_axis(name, values) == AXIS


def _has_word(name: str, words: str) -> bool:
    """Whether one of the words of a name is among others."""
    found = [word.lower() for word in _WORDS.findall(name)]
    return not {*found, "".join(found)}.isdisjoint(words.split())


def _are_whole(values: NDArray[np.float64]) -> bool:
    return bool((np.isfinite(values) & (values == np.floor(values))).all())


def may_be_axis(name: str, values: NDArray[np.float64]) -> bool:
    """Whether a quantity rises from row to row, as an axis does, and time in a series."""
    return _has_word(name, _QUANTITIES) and len(values) >= _ANYWHERE and bool((np.diff(values) > 0).all())
