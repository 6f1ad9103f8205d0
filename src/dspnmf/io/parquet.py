"""Parquet files, through PyArrow; the index that pandas noted is honoured, and nothing else of what it noted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.cells import whole
from dspnmf.io.columns import roles_of, table_of
from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.limits import check_shape
from dspnmf.io.names import texts
from dspnmf.io.options import Options
from dspnmf.io.table import Table

_MADE_UP = "__index_level_0__"  # what pandas calls an index without a name


def read_parquet(path: Path, options: Options) -> Table:
    """A table from a Parquet file: columns of numbers are features."""
    options.only(path, "a Parquet file", "label", "index", "exclude")
    arrow = library("pyarrow", "cli", path)
    parquet = library("pyarrow.parquet", "cli", path)
    with parsing(path, "Parquet file"), parquet.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        check_shape(path, (rows, len(schema)), 8)
        names = list(schema.names)
        noted = None if options.index is not None else _index(schema.metadata, names)
        roles = roles_of(path, names, options)
        if noted is not None and noted != roles.label:
            roles = replace(roles, index=noted)
        kinds = [field.type for field in schema]
        numeric = [place for place, kind in enumerate(kinds) if place not in roles.apart and _is_number(arrow, kind)]
        table = file.read()
        if table.num_rows != rows or table.num_columns != len(names):
            raise refused(path, "its parts do not fit together: it is damaged. Write it again.")
        narrow = all(arrow.types.is_float32(kinds[place]) for place in numeric)
        X = np.empty((rows, len(numeric)), np.float32 if narrow and numeric else np.float64)
        for column, place in enumerate(numeric):
            X[:, column] = _numbers(arrow, table.column(place))
        chosen = set(numeric)
        others = {
            place: _values(path, arrow, name, table.column(place), as_text=place == roles.index)
            for place, name in enumerate(names)
            if place not in chosen
        }
    names = ["" if name == _MADE_UP and place == roles.index else name for place, name in enumerate(names)]
    return table_of(path, names, X, numeric, others, roles)


def _index(metadata: Any, names: list[str]) -> int | None:
    """Where the column is that pandas had as its index, if it had one."""
    try:
        noted = json.loads((metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if isinstance(noted, list) and len(noted) == 1 and isinstance(noted[0], str) and names.count(noted[0]) == 1:
        return names.index(noted[0])
    return None


def _is_number(arrow: Any, kind: Any) -> bool:
    """Whether a column of this type has numbers; true and false are none."""
    return any(test(kind) for test in (arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_decimal))


def _numbers(arrow: Any, column: Any) -> NDArray[Any]:
    """A column of numbers; NaN where it has none."""
    kind = column.type if arrow.types.is_float32(column.type) else arrow.float64()
    return column.cast(kind, safe=False).to_numpy()


def _values(path: Path, arrow: Any, name: str, column: Any, *, as_text: bool) -> NDArray[Any]:
    """A column that is no feature: numbers, or text."""
    kinds, kind = arrow.types, column.type
    if _is_number(arrow, kind) and not as_text:
        return whole(_numbers(arrow, column))
    if kinds.is_boolean(kind) and not column.null_count:
        return column.to_numpy().astype(bool)
    if kinds.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if kinds.is_nested(column.type):
        raise refused(
            path, f"column {quoted(name)} holds {quoted(kind)}. Write the file without it, or as plain columns."
        )
    return texts(["" if value is None else str(value) for value in column.to_pylist()])
