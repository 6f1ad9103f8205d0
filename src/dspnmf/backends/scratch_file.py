"""Arrays on disk in place of memory: in unnamed files, mapped, their pages released when a block has been used."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from dspnmf._typing import Array


class ScratchFolder:
    """Where such arrays lie; each one is gone with the last reference to it, or with the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def new(self, shape: tuple[int, int], dtype: Any) -> Array:
        """An array of zeros."""
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        with tempfile.TemporaryFile(dir=self._folder) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would be a crash later
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            pages = mmap.mmap(file.fileno(), size)
        self._maps.add(pages)
        return np.frombuffer(pages, dtype).reshape(shape)

    def release_pages(self) -> None:
        """Let what was touched leave this process's memory; the system writes it to disk in its own time."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)
