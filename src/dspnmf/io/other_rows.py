"""Rows of a text file that are not samples: names again, headings and remarks, and sums or means of the rows above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.errors import quoted
from dspnmf.io.number_format import could_be_number
from dspnmf.io.text_file import Row

_SHOWN = 4  # rows that are named in words
_STATISTICS = {  # what they are called
    "sum": "total totals sum sums subtotal gesamt summe somme suma totale",
    "mean": "mean means average averages avg mittel mittelwert moyenne media",
    "": "median sd std stdev stddev min minimum max maximum n count variance var se sem cv rsd",
}
_KINDS = {word: kind for kind, words in _STATISTICS.items() for word in words.split()}
_COMMENT = "a comment"
_DRAWN = "-=:+_"
_DASHES = 3  # of a line that is drawn
_NEAR = 0.02  # of a sum or mean, for rounding


def is_comment(cells: Sequence[str], width: int) -> bool:
    """Whether a row among those of a table is a comment."""
    return len(cells) != width and cells[0].startswith("#")


def is_ruler(cells: Sequence[str]) -> bool:
    """Whether a row is a line drawn with dashes, as below the names of printed tables."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return bool(filled) and all(len(cell) >= _DASHES and set(cell) <= set(_DRAWN) for cell in filled)


def is_heading(cells: Sequence[str], width: int) -> bool:
    """Whether a row of a table has a text in one cell, and nothing in the others."""
    filled = [cell for cell in cells if cell.strip()]
    return len(cells) == width > 2 and len(filled) == 1 and not could_be_number(filled[0])


def is_note(cells: Sequence[str], width: int, *, apart: bool) -> bool:
    """Whether a row below a table is a remark: shorter than the table's rows, without a number or `apart` from them."""
    filled = [cell for cell in cells if cell.strip()]
    return 0 < len(cells) < width and bool(filled) and not any(map(could_be_number, filled[:1] if apart else filled))


def statistics_at_end(X: NDArray[np.float64], others: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """Rows at the end that are sums, means and the like of those above: what each is called.

    Their names say so, and the numbers of at least one of them, a sum or a mean, are what its name says.
    """
    kinds, names = dict[int, str](), dict[int, str]()
    for row in range(len(X) - 1, 0, -1):
        name = next((column[row].strip() for column in others.values() if column[row].strip()), "")
        kind = _KINDS.get(name.lower().strip(".:() "))
        if kind is None:
            break
        kinds[row], names[row] = kind, name
    if not names:
        return {}
    above = X[: min(names)]
    known, sums = np.maximum(np.isfinite(above).sum(axis=0), 1), np.nansum(above, axis=0)
    for row, kind in kinds.items():
        given = np.isfinite(X[row]) & bool(kind)
        expected = sums if kind == "sum" else sums / known
        if 2 * np.isclose(X[row][given], expected[given], rtol=_NEAR).sum() > given.sum():
            return dict(sorted(names.items()))
    return {}


def in_words(left: Mapping[int, str]) -> list[str]:
    """The lines that were left out, with the reason for each, and how many comments."""
    comments = sum(why == _COMMENT for why in left.values())
    words = [f"{comments} comment{'s' * (comments > 1)} left out"] * bool(comments)
    lines = [f"line {line} ({why})" for line, why in sorted(left.items()) if why != _COMMENT]
    more = f", ... ({len(lines):,} in all)" if len(lines) > _SHOWN else ""
    return words + [f"not samples: {', '.join(lines[:_SHOWN])}{more}"] * bool(lines)


def _is_plain(cells: Sequence[str], names: Sequence[str], width: int) -> bool:
    """Whether a row is none of the others, as its ends tell for most."""
    if len(cells) != width:
        return False
    first, last = cells[0].strip(), cells[-1].strip()
    return bool(first and last) and first != names[0] and last[0] not in _DRAWN


def samples(
    rows: Iterable[Row], names: Sequence[str], known: Mapping[int, str], *, complete: bool, left: dict[int, str]
) -> Iterator[Row]:
    """Rows that may be samples; lines of the others and what they are come into `left`.

    Lines in `known` are not samples, for the reason there. Shorter rows at the end are remarks if the file is
    `complete` (its last line has an end), or if a blank line is above them; others that are shorter or longer are
    passed on.
    """
    width, waiting, last = len(names), list[Row](), 0
    named = any(name and not could_be_number(name) for name in names)
    for line, cells in rows:
        if _is_plain(cells, names, width) and line not in known:
            yield from waiting
            yield line, cells
            waiting, last = [], line
            continue
        note = is_note(cells, width, apart=bool(waiting) or line > last + 1 > 1) and not is_ruler(cells)
        if waiting and not note:
            yield from waiting
            waiting = []
        if line in known:
            left[line] = known[line]
        elif is_comment(cells, width):
            left[line] = _COMMENT
        elif is_ruler(cells):
            pass
        elif note:
            waiting.append((line, cells))
        elif named and [cell.strip() for cell in cells] == list(names):
            left[line] = "the names again"
        elif is_heading(cells, width):
            left[line] = f"{quoted(next(cell for cell in cells if cell.strip()))}, no values"
        else:
            yield line, cells
            last = line
    if waiting and not complete and waiting[0][0] == last + 1:
        yield from waiting
        return
    left |= {line: f"{quoted(' '.join(map(str.strip, cells)).strip())}, a note" for line, cells in waiting}
