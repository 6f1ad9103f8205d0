"""Thousands of damaged files: each becomes a valid table or one clear error, in little time and memory."""

from __future__ import annotations

import resource
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fuzz_files
from dspnmf.io import ReadError, Table, read

SECONDS = 5.0  # of computing, in this process and in those it starts
KILOBYTES = 200_000


def computed() -> float:
    """Seconds of computing so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def memory(name: str) -> int:
    """A line of what Linux tells of this process's memory, in kB: VmRSS now, VmHWM the most since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def check_table(table: Table) -> None:
    """Names for all rows and columns, texts all of them; two dimensions of numbers."""
    n, m = table.X.shape
    assert n > 0
    assert m > 0
    assert table.X.dtype in (np.float32, np.float64)
    assert sparse.issparse(table.X) or isinstance(table.X, np.ndarray)
    assert (table.features.shape, table.index.shape) == ((m,), (n,))
    assert all(isinstance(name, str) for name in [*table.features.tolist(), *table.index.tolist(), *table.columns])
    assert len(set(table.features.tolist())) == m
    assert all(column.shape == (n,) for column in table.columns.values())
    assert table.label is None or table.label in table.columns
    assert table.grid is None or table.grid[0] * table.grid[1] == n
    assert table.picture is None or table.picture[0] * table.picture[1] == m


def check_file(path: Path) -> bool:
    """Read one file; whether it was read. Anything but a table or a short error fails, as does a warning."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
        memory_before = memory("VmRSS")
    before = computed()
    try:
        check_table(read(path))
    except ReadError as error:
        message = str(error)
        assert path.name in message
        assert message.count("\n") < 3
        assert all(sign.isprintable() for sign in message)
        read_well = False
    else:
        read_well = True
    assert computed() - before < SECONDS, path.name
    if sys.platform == "linux":
        assert memory("VmHWM") - memory_before < KILOBYTES, path.name
    return read_well


def check_files(folder: Path, count: int, seed: int) -> int:
    """Read many files; how many were read."""
    good = 0
    for name, content in fuzz_files.damaged_files(count, seed):
        path = fuzz_files.placed(folder, name, content)
        good += check_file(path)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    assert list(folder.iterdir()) == []
    return good


def test_files_without_damage_are_read(tmp_path: Path) -> None:
    """Every kind of file is read when nothing is wrong with it."""
    for name, content in fuzz_files.whole_files().items():
        assert check_file(fuzz_files.placed(tmp_path, name, content)), name


def test_the_same_seed_makes_the_same_files() -> None:
    """Files depend on the seed and their number alone, so that a failure can be made again."""
    first = list(fuzz_files.damaged_files(60, 3))
    assert first == list(fuzz_files.damaged_files(80, 3))[:60]
    assert first != list(fuzz_files.damaged_files(60, 4))


def test_damaged_files(tmp_path: Path) -> None:
    """150 damaged files: a table or one clear error for each."""
    assert check_files(tmp_path, 150, seed=0) > 10


@pytest.mark.slow
def test_many_damaged_files(tmp_path: Path) -> None:
    """The same for 2,000."""
    assert check_files(tmp_path, 2000, seed=1) > 200
