"""What a cell of a text file is: a number, nothing, or text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.names import texts

NOTHING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "?")
_NOTHING = frozenset(NOTHING)
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")


def is_nothing(cell: str) -> bool:
    """Whether a cell is empty or says that its value is missing."""
    return cell.strip() in _NOTHING


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number."""
    text = cell.strip()
    if decimal == ",":
        text = "" if "." in text else text.replace(",", ".", 1)
    return _NUMBER.fullmatch(text) is not None


def has_decimal_comma(cell: str) -> bool:
    """Whether a cell is a number with a decimal comma.

    >>> has_decimal_comma("1,5"), has_decimal_comma("1.5")
    (True, False)
    """
    return _COMMA.fullmatch(cell.strip()) is not None


def number(cell: str, decimal: str = ".") -> float:
    """The number in a cell, NaN for nothing; ValueError for text.

    >>> number(" 1.5"), number("1,5", ","), number("NA")
    (1.5, 1.5, nan)
    """
    if is_nothing(cell):
        return np.nan
    if is_number(cell, decimal):
        return float(cell.replace(",", ".") if decimal == "," else cell)
    raise ValueError(cell)


def row_of_numbers(cells: Sequence[str], decimal: str) -> list[float]:
    """The same for a row, quickly where nothing is special in it."""
    joined = "".join(cells)
    if decimal == "." and joined.isascii() and "_" not in joined:  # float takes 1_000 and digits of any script
        try:
            return list(map(float, cells))
        except ValueError:
            pass
        try:
            return [np.nan if cell in _NOTHING else float(cell) for cell in cells]
        except ValueError:
            pass
    return [number(cell, decimal) for cell in cells]


def tidy(cells: Sequence[str], decimal: str = ".") -> NDArray[Any]:
    """A column that is no feature: whole numbers, numbers, or the texts as they are.

    >>> tidy(["1", "2"]).dtype.kind, tidy(["1", "2.5"]).dtype.kind, tidy(["1", "b"]).dtype.kind
    ('i', 'f', 'U')
    """
    try:
        values = np.array(row_of_numbers(cells, decimal))
    except ValueError:
        return texts(cells)
    return whole(values) if np.isfinite(values).any() else texts(cells)


def whole(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as integers: labels, mostly."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            exact = bool(np.all(np.isfinite(values) & (np.abs(values) < 2**53) & (values == np.floor(values))))
        return values.astype(np.int64) if exact else values
    return values.astype(np.int64) if values.dtype.kind in "iu" and np.all(values < 2**63) else values
