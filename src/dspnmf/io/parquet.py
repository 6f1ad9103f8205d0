"""Parquet files, through PyArrow; of what pandas noted in them, only the index is used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.columns import roles_of, table_of_columns, texts, whole
from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.limits import check_array
from dspnmf.io.table import Options, Table

if TYPE_CHECKING:
    import pyarrow

_UNNAMED = "__index_level_0__"  # what pandas calls an index without a name


def read_parquet(path: Path, options: Options) -> Table:
    """A table from a Parquet file: columns of numbers are features."""
    arrow, parquet = library("pyarrow", "cli", path), library("pyarrow.parquet", "cli", path)
    with parsing(path, "Parquet file"), parquet.ParquetFile(path) as file:
        schema, rows, names = file.schema_arrow, file.metadata.num_rows, list(file.schema_arrow.names)
        check_array(path, (rows, len(names)), 8 * rows * len(names))
        roles = roles_of(path, names, options)
        noted = None if options.index is not None else _index(schema.metadata or {}, names)
        if noted is not None and noted != roles.label:
            roles = replace(roles, index=noted)
        table = file.read()
        if table.num_rows != rows or table.num_columns != len(names):
            raise refused(path, "its parts do not fit together: it is damaged. Write it again.")
        kinds = [field.type for field in schema]
        numeric = [at for at, kind in enumerate(kinds) if at not in roles.others and _is_number(arrow, kind)]
        single = numeric and all(arrow.types.is_float32(kinds[at]) for at in numeric)
        X = np.empty((rows, len(numeric)), np.float32 if single else np.float64)
        for column, at in enumerate(numeric):
            X[:, column] = table.column(at).cast(arrow.float32() if single else arrow.float64(), safe=False).to_numpy()
        others = {
            at: _values(path, arrow, name, table.column(at), as_text=at == roles.index)
            for at, name in enumerate(names)
            if at not in set(numeric)
        }
    names = ["" if name == _UNNAMED and at == roles.index else name for at, name in enumerate(names)]
    return table_of_columns(path, names, X, numeric, others, roles)


def _index(metadata: dict[bytes, bytes], names: list[str]) -> int | None:
    """The position of the column that pandas had as its index, if it had one."""
    try:
        (noted,) = json.loads(metadata[b"pandas"])["index_columns"]
        return names.index(noted) if names.count(noted) == 1 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_number(arrow: ModuleType, kind: pyarrow.DataType) -> bool:
    """Whether a column of this type has numbers, which true and false are not."""
    return any(test(kind) for test in (arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_decimal))


def _values(path: Path, arrow: ModuleType, name: str, column: pyarrow.ChunkedArray, *, as_text: bool) -> NDArray[Any]:
    """A column that is not a feature: numbers, or text."""
    kinds, kind = arrow.types, column.type
    if _is_number(arrow, kind) and not as_text:
        return whole(column.cast(arrow.float64(), safe=False).to_numpy())
    if kinds.is_boolean(kind) and not column.null_count:
        return column.to_numpy().astype(bool)
    if kinds.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if kinds.is_nested(column.type):
        fix = "Write the file without it, or as plain columns."
        raise refused(path, f"column {quoted(name)} holds {quoted(kind)}. {fix}")
    return texts(["" if value is None else str(value) for value in column.to_pylist()])
