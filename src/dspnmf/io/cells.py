"""What a cell of a text file is: a number, missing, or text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.names import texts, whole

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "?")
_MISSING = frozenset(MISSING)
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)


def is_missing(cell: str) -> bool:
    """Whether a cell is empty or says that its value is missing."""
    return cell.strip() in _MISSING


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number.

    >>> is_number("1.5"), is_number("1,5", ","), is_number("1.5", ","), is_number("1_000")
    (True, True, False, False)
    """
    text = cell.strip()
    if decimal == ",":
        text = "" if "." in text else text.replace(",", ".", 1)
    return _NUMBER.fullmatch(text) is not None


def is_text(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is neither a number nor missing."""
    return not (is_missing(cell) or is_number(cell, decimal))


def number(cell: str, decimal: str = ".") -> float:
    """The number in a cell, NaN if it is missing; ValueError for text.

    >>> number(" 1.5"), number("1,5", ","), number("NA")
    (1.5, 1.5, nan)
    """
    if is_missing(cell):
        return np.nan
    if is_number(cell, decimal):
        return float(cell.replace(",", ".") if decimal == "," else cell)
    raise ValueError(cell)


def numbers(cells: Sequence[str], decimal: str) -> list[float]:
    """The same for a row, quickly where nothing is special in it."""
    joined = "".join(cells)
    if decimal == "." and joined.isascii() and "_" not in joined:  # float takes 1_000 and digits of any script
        try:
            return [np.nan if cell in _MISSING else float(cell) for cell in cells]
        except ValueError:
            pass
    return [number(cell, decimal) for cell in cells]


def tidy(cells: Sequence[str], decimal: str = ".") -> NDArray[Any]:
    """A column that is not a feature: whole numbers, numbers, or the texts as they are.

    >>> tidy(["1", "2"]).dtype.kind, tidy(["1", "2.5"]).dtype.kind, tidy(["1", "b"]).dtype.kind
    ('i', 'f', 'U')
    """
    try:
        values = np.array(numbers(cells, decimal))
    except ValueError:
        return texts(cells)
    return whole(values) if np.isfinite(values).any() else texts(cells)
