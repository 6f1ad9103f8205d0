"""MATLAB (.mat) and Matrix Market files (.mtx, .mtx.gz), read by SciPy in a child process."""

from __future__ import annotations

from pathlib import Path

from dspnmf.io.child_process import ChildProcess
from dspnmf.io.hdf5 import has_signature
from dspnmf.io.named_arrays import table_of_arrays
from dspnmf.io.table import Options, Table


def read_mat(path: Path, options: Options) -> Table:
    """A table from a MATLAB file: its only matrix or scene, or the one named `variable`; version 7.3 is HDF5."""
    with ChildProcess(path, "matlab73" if has_signature(path) else "matlab") as file:
        return table_of_arrays(path, file.arrays, file.load, options, scenes=True)


def read_mtx(path: Path, options: Options) -> Table:
    """A table from a .mtx file: sparse where it lists entries, dense where it lists all numbers."""
    with ChildProcess(path, "matrix_market") as file:
        return table_of_arrays(path, file.arrays, file.load, options)
