"""Files that are there completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def write_text(path: Path, text: str) -> None:
    """Write a file (UTF-8) of which no reader ever sees half."""
    with complete(path) as file:
        file.write(text.encode())


def part_of(path: Path) -> Path:
    """The file that `complete` writes before it becomes `path`."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def complete(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; when the block ends it has reached the disk and takes the place of `path`.

    Until then it is called ``path.part``: what a killed process leaves of it is overwritten next time.
    """
    part = part_of(path)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make sure that new names in a folder have reached the disk."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def write_array(file: Any, blocks: Iterable[Any], shape: tuple[int, int], dtype: Any) -> None:
    """An array that comes in blocks of rows, in the format of ``numpy.save``."""
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": descr})
    for block in blocks:
        if len(block):  # no bytes can be made of nothing
            file.write(np.ascontiguousarray(block, dtype).data.cast("B"))


def umask() -> int:
    """The process's mask; there is no way to read it but to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
