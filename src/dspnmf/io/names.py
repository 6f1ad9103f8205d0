"""Names of rows and columns: those of a file, or numbers where it has none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.errors import plain, quoted, refused, some

_WIDE = 2**26  # bytes an array of texts may have when all are as wide as the widest
_COMPARED = 2000


def numbered(n: int) -> NDArray[np.str_]:
    """Names of rows that have none: their numbers.

    >>> numbered(3).tolist()
    ['0', '1', '2']
    """
    return np.arange(n).astype(f"U{len(str(max(n - 1, 0)))}")


def positions(m: int) -> NDArray[np.str_]:
    """Names of features that have none, as scikit-learn makes them.

    >>> positions(3).tolist()
    ['x0', 'x1', 'x2']
    """
    return np.char.add("x", numbered(m))


def distinct(names: Iterable[str]) -> list[str]:
    """Names none of which comes twice: an empty one becomes its position, a second "a" becomes "a.1".

    >>> distinct(["a", "a", "", "a"])
    ['a', 'a.1', 'x2', 'a.2']
    """
    names = [name or f"x{place}" for place, name in enumerate(names)]
    taken, again, chosen = set(names), dict.fromkeys(names, 0), []
    for name in names:
        new = name
        while again[name] and new in taken:
            new = f"{name}.{again[name]}"
            again[name] += 1
        again[name] = again[name] or 1
        taken.add(new)
        chosen.append(new)
    return chosen


def texts(values: Sequence[str]) -> NDArray[Any]:
    """An array of texts; of objects where one long text would make all others as wide."""
    width = max(map(len, values), default=0)
    if 4 * width * len(values) <= _WIDE:
        return np.array(values, dtype=f"U{max(width, 1)}")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def find(path: Path, name: str, names: Sequence[str], what: str, option: str) -> int:
    """Where a name is; it must be there, and once."""
    found = [place for place, other in enumerate(names) if other == name]
    if len(found) == 1:
        return found[0]
    if found:
        where = " and ".join(str(place + 1) for place in found[:3])
        raise refused(path, f"{option}={quoted(name)} is not clear: {what}s {where} have that name. Rename one.")
    raise refused(path, f"it has no {what} {quoted(name)}. {nearest(name, names, what)} Correct {option}.")


def nearest(name: str, names: Sequence[str], what: str) -> str:
    """What there is instead, close names first."""
    close = difflib.get_close_matches(plain(name), names[:_COMPARED], n=3, cutoff=0.6)
    if close:
        return f"Is it {' or '.join(map(quoted, close))}?"
    return f"Its {what}s: {some(names)}." if names else f"It has no {what}s."
