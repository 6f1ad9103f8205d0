"""How pages write names and numbers, and the cells of their tables."""

from __future__ import annotations

import math
from typing import NamedTuple

MAX_LETTERS = 80  # of a name or a value
MISSING = "\N{EN DASH}"
_MOST_DIGITS = 6  # behind the point
_SMALLEST, _LARGEST = 1e-3, 1e6  # numbers beyond are written with a power of ten
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class TableCell(NamedTuple):
    """One number: as text, as the number to sort by (empty where there is none), and whether it leads its column."""

    text: str = MISSING
    key: str = ""
    best: bool = False
    sign: str = ""  # of a difference: "more", "less" or "same"


def cut(text: object) -> str:
    """The text, shortened to at most `MAX_LETTERS` letters."""
    text = str(text)
    return text if len(text) <= MAX_LETTERS else text[: MAX_LETTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"


def amount(value: float) -> str:
    """A number to four digits."""
    size = abs(value)
    if size == 0 or _SMALLEST <= size < _LARGEST:
        text = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
    else:
        mantissa, exponent = f"{value:.3e}".split("e")
        text = f"{float(mantissa):g}\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}{_power_of_ten(exponent)}"
    return text.replace("-", "\N{MINUS SIGN}")


def power(value: float) -> str:
    """A power of ten as it is written by hand, other numbers as they are."""
    mantissa, exponent = f"{value:e}".split("e")
    return f"{value:g}" if float(mantissa) != 1 or int(exponent) in (0, 1) else _power_of_ten(exponent)


def _power_of_ten(exponent: str) -> str:
    """10 with an exponent in superscript."""
    return "10" + str(int(exponent)).translate(_SUPERSCRIPTS)


def percent(share: float) -> str:
    """A share in percent, to two digits; nearly all is not rounded to all, but ends at three decimals."""
    value = 100 * share
    if value < 0:
        return f"\N{MINUS SIGN}{percent(-share)}"
    digits = max(0, 1 - _exponent(value)) if value > 0 else 0
    if 99.999 < value < 100 - 10.0**-_MOST_DIGITS:
        return "over\N{NO-BREAK SPACE}99.999\N{NO-BREAK SPACE}%"
    if 99 < value <= 99.999:
        digits = max(1, -_exponent(100 - value))
    return f"{value:.{min(digits, _MOST_DIGITS)}f}\N{NO-BREAK SPACE}%"


def share(value: float) -> str:
    """A measure between 0 and 1, to three decimals or two digits; nearly 1 is not rounded to it."""
    digits = 3
    if 0 < abs(value) < 0.01:
        digits = min(1 - _exponent(abs(value)), 9)
    elif 0.999 < value < 1 - 10.0**-_MOST_DIGITS:
        digits = -_exponent(1 - value)
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _exponent(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(value) + 1e-9)


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def counted(number: int, thing: str) -> str:
    """A number with its noun, singular or plural."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
