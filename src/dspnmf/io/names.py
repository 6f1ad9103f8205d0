"""Names of rows and columns, and columns that are not features, as a table has them."""

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
    """Unique names: an empty one becomes its position, a second "a" becomes "a.1".

    >>> distinct(["a", "a", "", "a"])
    ['a', 'a.1', 'x2', 'a.2']
    """
    names = [name or f"x{at}" for at, name in enumerate(names)]
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
    return np.array(values, dtype=f"U{max(width, 1)}" if 4 * width * len(values) <= _WIDE else object)


def whole(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as integers: labels, mostly."""
    if values.dtype.kind == "f":
        exact = np.isfinite(values) & (np.abs(values) < 2**53) & (values == np.floor(values))
        return values.astype(np.int64) if exact.all() else values
    return values.astype(np.int64) if values.dtype.kind in "iu" and np.all(values < 2**63) else values


def find(path: Path, name: str, names: Sequence[str], what: str, option: str) -> int:
    """Where a name is; it must be there, and once."""
    found = [at for at, other in enumerate(names) if other == name]
    if not found:
        raise refused(path, f"it has no {what} {quoted(name)}. {nearest(name, names, what)} Correct {option}.")
    if len(found) > 1:
        where = " and ".join(str(at + 1) for at in found[:3])
        raise refused(path, f"{option}={quoted(name)} is ambiguous: {what}s {where} have that name. Rename one.")
    return found[0]


def nearest(name: str, names: Sequence[str], what: str) -> str:
    """What there is instead, close names first."""
    close = difflib.get_close_matches(plain(name), names[:_COMPARED], n=3, cutoff=0.6)
    if close:
        return f"Is it {' or '.join(map(quoted, close))}?"
    return f"Its {what}s: {some(names)}." if names else f"It has no {what}s."
