"""Codes written with the names of their rows, as CSV or Parquet files that `read` and other programs understand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspnmf._atomic_files import complete
from dspnmf.io.errors import library, quoted

Names: TypeAlias = Sequence[str] | NDArray[Any]

_ROWS = 10_000  # that are turned into text, or into a group of the file, at once


def write_codes(path: str | Path, Z: NDArray[Any], index: Names, index_name: str, names: Names) -> None:
    """Write codes, one row per sample, with the names of the samples in the first column.

    The file is there completely or not at all. Every number is written so that it is read back unchanged in the
    precision of `Z`; texts are written as they are.

    Parameters
    ----------
    path : str or Path
        Ends in ``.csv``, ``.tsv`` or ``.parquet`` (which needs pyarrow).
    Z : array of shape (n_samples, n_components)
        Codes, such as ``fit_transform`` returns; a memory map is read in blocks.
    index : sequence of str, length n_samples
        Names of the samples.
    index_name : str
        What the index is called; "" writes an empty name, as pandas does.
    names : sequence of str, length n_components
        Names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dspnmf.io import read, write_codes
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "codes.csv"
    ...     write_codes(file, np.array([[0.5, 0.0], [1.0, 2.0]]), ["ann", "bob"], "who", ["c1", "c2"])
    ...     print(file.read_text())
    who,c1,c2
    ann,0.5,0.0
    bob,1.0,2.0
    <BLANKLINE>
    """
    path = Path(path)
    writers = {".csv": _write_csv, ".tsv": _write_csv, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise ValueError(f"{path} ends in {quoted(path.suffix)}, but codes are written as {', '.join(writers)}.")
    expected = (len(index), len(names))
    if tuple(Z.shape) != expected:
        raise ValueError(f"Z has shape {tuple(Z.shape)}, but {expected[0]} rows and {expected[1]} columns have names.")
    writers[path.suffix.lower()](path, Z, index, str(index_name), [str(name) for name in names])


def _write_csv(path: Path, Z: NDArray[Any], index: Names, index_name: str, names: list[str]) -> None:
    """Text, with quotes where they are needed."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with complete(path) as file:
        file.write((delimiter.join(_cell(name) for name in [index_name, *names]) + "\n").encode())
        for lo in range(0, len(index), _ROWS):
            block = np.asarray(Z[lo : lo + _ROWS])  # Python is faster; NumPy knows how few digits float32 needs
            rows = block.tolist() if block.dtype == np.float64 else block.astype(str).tolist()
            named = zip(index[lo : lo + _ROWS], rows, strict=True)
            lines = (delimiter.join([_cell(str(name)), *map(str, row)]) + "\n" for name, row in named)
            file.write("".join(lines).encode())


def _cell(text: str) -> str:
    """A text as a cell: in quotes where it could be taken for something else (a comment, several cells or lines)."""
    special = text.startswith("#") or text != text.strip() or any(sign in text for sign in ',;|\t"\r\n')
    return '"' + text.replace('"', '""') + '"' if special else text


def _write_parquet(path: Path, Z: NDArray[Any], index: Names, index_name: str, names: list[str]) -> None:
    """A column a component, and a note that tells pandas which column is the index."""
    arrow, parquet = library("pyarrow", "cli", path), library("pyarrow.parquet", "cli", path)
    first = index_name or "__index_level_0__"
    dtype = np.asarray(Z[:1]).dtype
    described = {"name": index_name or None, "field_name": first, "pandas_type": "unicode", "numpy_type": "object"}
    noted = {"index_columns": [first], "column_indexes": [], "columns": [described | {"metadata": None}]}
    kinds = [(first, arrow.string()), *((name, arrow.from_numpy_dtype(dtype)) for name in names)]
    schema = arrow.schema(kinds, metadata={"pandas": json.dumps(noted)})
    with complete(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for lo in range(0, len(index), _ROWS):
            block = np.asarray(Z[lo : lo + _ROWS])
            columns = [arrow.array([str(name) for name in index[lo : lo + _ROWS]]), *map(arrow.array, block.T)]
            writer.write_table(arrow.table(columns, schema=schema))
