"""Names of rows and columns, and which columns of a text file or Parquet are features, the index and the labels."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._option_words import option
from dspnmf.io.errors import plain, quoted, refused, some
from dspnmf.io.row_numbers import AXIS, GROUP, LABEL, is_axis, may_be_axis, names_rows
from dspnmf.io.table import Options, Table

_WIDE = 2**26  # bytes an array of texts may have when all are as wide as the widest
_COMPARED = 2000
_LISTED = 40
_NO_VALUE = "it has no value"


def numbered(n: int) -> NDArray[np.str_]:
    """Names of rows that have none: their numbers."""
    return np.arange(n).astype(f"U{len(str(max(n - 1, 0)))}")


def positions(m: int) -> NDArray[np.str_]:
    """Names of features that have none, as scikit-learn makes them: x0, x1, ..."""
    return np.char.add("x", numbered(m))


def distinct(names: Iterable[str]) -> list[str]:
    """Unique names: an empty one becomes its position, a second "a" becomes "a.1"."""
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
    else:
        exact = values < 2**63 if values.dtype.kind in "iu" else np.False_
    return values.astype(np.int64) if exact.all() else values


def find(path: Path, name: str, names: Sequence[str], what: str, parameter: str) -> int:
    """Where a name is; it must be there, and once."""
    found = [at for at, other in enumerate(names) if other == name]
    if not found:
        close = difflib.get_close_matches(plain(name), names[:_COMPARED], n=3, cutoff=0.6)
        hint = f"Its {what}s: {some(names, _LISTED)}." if names else f"It has no {what}s."
        hint = f"Is it {' or '.join(map(quoted, close))}?" if close else hint
        raise refused(path, f"it has no {what} {quoted(name)}. {hint} Correct {option(parameter)}.")
    if len(found) > 1:
        where = " and ".join(str(at + 1) for at in found[:3])
        what = f"{option(parameter, plain(name))} is ambiguous: {what}s {where} have that name. Rename one."
        raise refused(path, what)
    return found[0]


@dataclass(frozen=True)
class Roles:
    """Positions of columns that are not features."""

    index: int | None = None
    label: int | None = None
    excluded: frozenset[int] = frozenset()
    included: frozenset[int] = frozenset()

    @property
    def others(self) -> frozenset[int]:
        """All of them."""
        return self.excluded | {column for column in (self.index, self.label) if column is not None}


def roles_of(path: Path, names: Sequence[str], options: Options) -> Roles:
    """What the options say about the columns."""
    index, label = (
        None if name is None else find(path, name, names, "column", parameter)
        for parameter, name in (("index", options.index), ("label", options.label))
    )
    if index is not None and index == label:
        what = f"{option('index')} and {option('label')} both name the column {quoted(names[index])}: name two columns."
        raise refused(path, what)
    given = {
        parameter: frozenset(find(path, name, names, "column", parameter) for name in columns)
        for parameter, columns in (("exclude", options.exclude), ("include", options.include))
    }
    roles = Roles(index, label, given["exclude"], given["include"])
    for column in roles.included & roles.others:
        where = f"{option('include')} names the column {quoted(names[column])}"
        raise refused(path, f"{where}, which another option names, too: name it in one of them.")
    return roles


def table_of_columns(
    path: Path,
    names: Sequence[str],
    X: NDArray[Any],
    features: Sequence[int],
    others: Mapping[int, NDArray[Any]],
    roles: Roles,
    written: Callable[[int], Sequence[str] | None] = lambda column: None,
) -> Table:
    """A table of `X`, whose columns are the `features` of the file, by position, and of the `others`.

    Row numbers, ids, labels and columns without any value are not features. `written` gives the cells of a column of
    numbers where they are more than the numbers.
    """
    if not len(X):
        raise refused(path, "it has names but no rows below them. Check how it was made.")
    known, others = distinct(names), dict(others)
    for column in roles.included - set(features):
        what = f"{option('include')} names the column {quoted(known[column])}, which is not a column of numbers."
        raise refused(path, f"{what} Leave it out of {option('include')}, or correct the column.")
    why = {column: "excluded" if column in roles.excluded else "text" for column in others}
    reasons = _reasons(names, X, features, roles)
    empty = {features[at] for at, reason in enumerate(reasons) if reason == _NO_VALUE}
    index, first = roles.index, min(set(range(len(names))) - empty, default=0)
    if index is None and first in others and first not in roles.others:
        cells = others[first].tolist()  # it is the index if it is text that names every row, each differently
        if len(set(cells)) == len(cells) and all(isinstance(name, str) and name.strip() for name in cells):
            index = first
    kept = list[int]()
    for at, reason in enumerate(reasons):
        column, values = features[at], X[:, at]
        if not reason:
            kept.append(at)
        elif names[column] or reason != _NO_VALUE:  # else a delimiter ended every line
            others[column], why[column] = whole(values), reason
            if index is None and reason not in (_NO_VALUE, LABEL, GROUP) and len(np.unique(values)) == len(values):
                index = column
                if (cells := written(column)) is not None:
                    others[column] = texts(cells)
    assumed = tuple(
        f"{quoted(known[features[at]])} is a feature although it rises from row to row (if it is an axis, name it as "
        "the index)"
        for at in kept[:1]
        if may_be_axis(names[features[at]], X[:, at])
    )
    if index is not None and not names[index] and why.get(index) == AXIS:
        assumed += (
            "the first column is an axis, not a feature (if its other columns are samples, transpose the table)",
        )
    if len(kept) < len(features):
        X, features = np.ascontiguousarray(X[:, kept]), [features[at] for at in kept]
    if not features:
        raise refused(path, f"it has no column of numbers, only {some(known)}. Check the file and its delimiter.")
    return Table(
        X=X,
        features=texts([known[column] for column in features]),
        index=numbered(len(X)) if index is None else texts([str(name) for name in others[index].tolist()]),
        index_name="" if index is None else names[index],
        columns={known[column]: values for column, values in others.items() if column != index},
        label=None if roles.label is None else known[roles.label],
        assumed=assumed,
        left_out={known[column]: reason for column, reason in why.items() if column not in (index, roles.label)},
    )


def _reasons(names: Sequence[str], X: NDArray[Any], features: Sequence[int], roles: Roles) -> list[str]:
    """Why columns of numbers are not features; "" where they are. Row numbers are features where there is no other."""
    empty = [bool(np.isnan(X[0, at]) and np.isnan(X[:, at]).all()) for at in range(len(features))]
    nothing = {column for at, column in enumerate(features) if empty[at]}
    begin = min(set(range(len(names))) - nothing, default=0)
    found, first = list[str](), True
    for at, column in enumerate(features):
        known = column in roles.included or empty[at]
        found.append("" if known else names_rows(names[column], X[:, at], first=first))
        if column == begin and not known and not found[-1] and roles.index is None:
            found[-1] = is_axis(names[column], X[:, at])
        first &= bool(found[-1]) or empty[at]
    alone = all(reason or nothing for reason, nothing in zip(found, empty, strict=True))
    return [_NO_VALUE if nothing else "" if alone else why for why, nothing in zip(found, empty, strict=True)]
