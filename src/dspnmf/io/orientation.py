"""Which way round a table is: files of instruments have an axis in the first column, and a sample in each other one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dspnmf._option_words import option
from dspnmf.io.columns import numbered, positions, texts
from dspnmf.io.errors import quoted, refused
from dspnmf.io.row_numbers import is_axis_of_spectra
from dspnmf.io.table import Options, Table


def oriented(path: Path, table: Table, options: Options) -> Table:
    """The table with samples as rows: turned if asked for, or if its index is the axis of spectra."""
    if options.transpose is None:
        if (
            options.index is not None
            or options.label is not None
            or not is_axis_of_spectra(table.index_name, table.index)
        ):
            return table
        table = replace(
            table, assumed=(*table.assumed, f"samples in columns, over the axis {quoted(table.index_name)}")
        )
    elif not options.transpose:
        return table
    if table.in_file:
        raise refused(
            path, f"{option('transpose', 'True')} would load it: save it transposed, with a sample in each row."
        )
    if table.label is not None:
        what = f"with {option('transpose', 'True')} columns are samples, and no column can have their labels"
        raise refused(path, f"{what}. Leave {option('label')} out.")
    return turned(table)


def turned(table: Table) -> Table:
    """Columns as samples, rows as features; other columns of the file are gone, and `left_out` names them."""
    n, m = table.X.shape
    X: Any = sparse.csr_array(table.X.T) if sparse.issparse(table.X) else np.ascontiguousarray(table.X.T)
    named = table.index_name or not np.array_equal(table.index, numbered(n))
    return Table(
        X=X,
        features=texts([str(name) for name in table.index]) if named else positions(n),
        index=numbered(m) if np.array_equal(table.features, positions(m)) else table.features,
        assumed=table.assumed,
        left_out=table.left_out,
    )
