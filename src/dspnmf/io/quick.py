"""Large text files through PyArrow, where it reads them exactly as the slow way does: no quotes, one delimiter.

Whatever it does not understand is left to the slow way, which knows the line and the cell to name.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.cells import NOTHING
from dspnmf.io.source import Source

_WORTHWHILE = 2**21  # bytes, below which importing PyArrow takes longer
_PIECE = 2**24


class _Layout(Protocol):
    """What is known of the file; see `text.Layout`."""

    @property
    def delimiter(self) -> str: ...
    @property
    def decimal(self) -> str: ...
    @property
    def skip(self) -> int: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def numeric(self) -> list[int]: ...
    @property
    def other(self) -> list[int]: ...


def read(source: Source, layout: _Layout) -> tuple[NDArray[Any], dict[int, list[str]]] | None:
    """Numbers and texts of all rows; None where this is not the way."""
    if source.size < _WORTHWHILE or layout.delimiter == " " or source.encoding != "utf-8-sig":
        return None
    try:
        pyarrow, csv = import_module("pyarrow"), import_module("pyarrow.csv")
    except ImportError:
        return None
    if _is_special(source, layout.skip):
        return None
    names = [str(place) for place in range(len(layout.names))]
    types = {name: pyarrow.string() for name in names} | {str(place): pyarrow.float64() for place in layout.numeric}
    try:
        table = csv.read_csv(
            source.open() if source.content is not None else str(source.path),
            csv.ReadOptions(column_names=names, skip_rows=layout.skip, block_size=_PIECE),
            csv.ParseOptions(delimiter=layout.delimiter, quote_char=False),
            csv.ConvertOptions(
                column_types=types, null_values=list(NOTHING), strings_can_be_null=False, decimal_point=layout.decimal
            ),
        )
    except (pyarrow.ArrowException, UnicodeError):
        return None
    X = np.empty((table.num_rows, len(layout.numeric)))
    for column, place in enumerate(layout.numeric):
        X[:, column] = table.column(place).to_numpy()
    return X, {place: table.column(place).to_pylist() for place in layout.other}


def _is_special(source: Source, skip: int) -> bool:
    """Whether among the rows is a quote, a zero byte, or a line that ends as on no machine of today."""
    with source.open() as file:
        for _ in range(skip):
            file.readline()
        while piece := file.read(_PIECE):
            if b'"' in piece or b"\0" in piece or piece.count(b"\r") != piece.count(b"\r\n"):
                return True
    return False
