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
from dspnmf.io.table import Options, Table


@dataclass(frozen=True)
class Roles:
    """Positions of columns that are not features."""

    index: int | None = None
    label: int | None = None
    excluded: frozenset[int] = frozenset()

    @property
    def others(self) -> frozenset[int]:
        """All of them."""
        return self.excluded | {column for column in (self.index, self.label) if column is not None}


def roles_of(path: Path, names: Sequence[str], options: Options) -> Roles:
    """What the options say about the columns."""
    index, label = (
        None if name is None else find(path, name, names, "column", option)
        for option, name in (("index", options.index), ("label", options.label))
    )
    if index is not None and index == label:
        raise refused(path, f"index and label both name the column {quoted(names[index])}: name two columns.")
    return Roles(index, label, frozenset(find(path, name, names, "column", "exclude") for name in options.exclude))


def table_of_columns(
    path: Path,
    names: Sequence[str],
    X: NDArray[Any],
    features: Sequence[int],
    others: Mapping[int, NDArray[Any]],
    roles: Roles,
) -> Table:
    """A table of `X`, whose columns are the `features` of the file, by position, and of the `others`."""
    if not len(X):
        raise refused(path, "it has names but no rows below them. Check how it was made.")
    kept = [at for at, column in enumerate(features) if names[column] or not np.isnan(X[:, at]).all()]
    if len(kept) < len(features):  # a delimiter ended every line: that column has neither a name nor a value
        X, features = np.ascontiguousarray(X[:, kept]), [features[at] for at in kept]
    known = distinct(names)
    if not features:
        raise refused(path, f"it has no column of numbers, only {some(known)}. Check the file and its delimiter.")
    index = roles.index
    if index is None and 0 in others and 0 not in roles.others and _identifies(others[0]):
        index = 0
    return Table(
        X=X,
        features=texts([known[column] for column in features]),
        index=numbered(len(X)) if index is None else texts([str(name) for name in others[index].tolist()]),
        index_name="" if index is None else names[index],
        columns={known[column]: values for column, values in others.items() if column != index},
        label=None if roles.label is None else known[roles.label],
    )


def _identifies(column: NDArray[Any]) -> bool:
    """Whether a column is text that names every row, each differently."""
    values = column.tolist()
    return all(isinstance(value, str) and value.strip() for value in values) and len(set(values)) == len(values)
