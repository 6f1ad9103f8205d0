"""Columns with names, as text files and Parquet have them: which are features, which is the index, which the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.errors import quoted, refused, some
from dspnmf.io.names import distinct, find, numbered, texts
from dspnmf.io.options import Options
from dspnmf.io.table import Table


@dataclass(frozen=True)
class Roles:
    """Columns that are no features, by their places."""

    index: int | None = None
    label: int | None = None
    excluded: frozenset[int] = frozenset()

    @property
    def apart(self) -> frozenset[int]:
        """All of them."""
        return self.excluded | {place for place in (self.index, self.label) if place is not None}


def roles_of(path: Path, names: Sequence[str], options: Options) -> Roles:
    """What the options say about the columns."""
    where = [
        None if name is None else find(path, name, names, "column", option)
        for option, name in (("index", options.index), ("label", options.label))
    ]
    excluded = frozenset(find(path, name, names, "column", "exclude") for name in options.exclude)
    roles = Roles(where[0], where[1], excluded)
    if roles.index is not None and roles.index == roles.label:
        raise refused(path, f"index and label both name the column {quoted(names[roles.index])}: name two columns.")
    return roles


def table_of(
    path: Path,
    names: Sequence[str],
    X: NDArray[Any],
    places: Sequence[int],
    others: Mapping[int, NDArray[Any]],
    roles: Roles,
) -> Table:
    """A table of `X`, whose columns are those at `places` in the file, and of the `others`."""
    X, places = _without_blanks(names, X, places)
    if not len(X):
        raise refused(path, "it has names but no rows below them. Check how it was made.")
    known = distinct(names)
    if not places:
        raise refused(path, f"it has no column of numbers, only {some(known)}. Check the file and its delimiter.")
    index = roles.index
    if index is None and 0 in others and 0 not in roles.apart and _identifies(others[0]):
        index = 0
    return Table(
        X=X,
        features=texts([known[place] for place in places]),
        index=numbered(len(X)) if index is None else _as_texts(others[index]),
        index_name="" if index is None else names[index],
        columns={known[place]: column for place, column in others.items() if place != index},
        label=None if roles.label is None else known[roles.label],
    )


def _without_blanks(names: Sequence[str], X: NDArray[Any], places: Sequence[int]) -> tuple[NDArray[Any], Sequence[int]]:
    """Without columns that have neither a name nor a value: a delimiter ended every line."""
    blank = [not names[place] and bool(np.isnan(X[:, column]).all()) for column, place in enumerate(places)]
    if not any(blank):
        return X, places
    kept = [column for column, empty in enumerate(blank) if not empty]
    return np.ascontiguousarray(X[:, kept]), [places[column] for column in kept]


def _identifies(column: NDArray[Any]) -> bool:
    """Whether a column is text that names every row, each differently."""
    values = column.tolist()
    return all(isinstance(value, str) and value.strip() for value in values) and len(set(values)) == len(values)


def _as_texts(column: NDArray[Any]) -> NDArray[Any]:
    """An index is text."""
    return column if column.dtype.kind == "U" else texts([str(value) for value in column.tolist()])
