"""Rows in a file larger than memory: memory-mapped .npy, Zarr, HDF5.

Memory: a slab of X a thread (`dspnmf.backends.file_slabs`), m x k and k x k arrays, at most 256 MiB for ``||X'X||^2``
once, and arrays of the codes' shape: two with hals, eight and one of a byte an entry with newton-cg, one more with
several starts or a checkpoint; where the codes go to a file, a group of their rows.
hals reads X once an iteration, newton-cg twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dspnmf._threads import spread
from dspnmf.backends import gram_norm as gram
from dspnmf.backends.dispatch import MEMORY, Place
from dspnmf.backends.file_slabs import FileData, checked
from dspnmf.backends.memory import ArrayRows, Arrays
from dspnmf.backends.row_model import GROUP, Array, RowModel
from dspnmf.backends.scratch_file import Shelf

IN_MEMORY = 2**30  # bytes up to which a memory map is taken for an array in memory


class FileRows(ArrayRows):
    """Rows read in slabs; arrays of the codes' shape are in memory, or on a shelf."""

    def __init__(self, X: FileData, k: int, scale: float = 1.0, shelf: Shelf | None = None) -> None:
        super().__init__(X, k, scale)
        self._file = X
        self._shelf = shelf
        self._known: Any = None  # the sums of the codes as they are

    def begin(self, codes: Array) -> None:
        """Start from these codes."""
        self._known = None
        super().begin(codes)

    def step(self, t: float) -> None:
        """U += t D."""
        self._known = None
        super().step(t)

    def sums(self) -> tuple[Array, Array, tuple[Array, ...]]:
        """P = X'U, Q = U'U; asked twice, they are read once."""
        if self._known is None:
            self._known = super().sums()
        return self._known

    def map(self, rule: Callable[[Array, Array, Array], Array], model: RowModel) -> tuple[Any, ...]:
        """Replace every block of codes by ``rule(U, gain, loss)``; the sums of the new codes."""
        self._known = None
        return super().map(rule, model)

    def mean(self) -> float:
        """Known since X was checked."""
        facts = self._file.facts
        return facts.total / self._file.size * facts.unit

    def norm2(self) -> float:
        """Known since X was checked."""
        facts = self._file.facts
        return facts.squares * (facts.unit / self.scale) ** 2

    def gram_norm2(self) -> float:
        """||XX'||^2 = ||X'X||^2, by whichever needs fewer reads."""
        return gram.streamed(self._file.slabs, self.shape, self._file.step, self.scale**2)

    def _new(self, dtype: Any = None) -> Array:
        if self._shelf is None:
            return super()._new(dtype)
        return self._shelf.new((self.shape[0], self.k), dtype or self.dtype)

    def _groups(self) -> Iterator[slice]:
        for group in super()._groups():
            yield group
            self._forget()

    def _slabs(self) -> Iterator[tuple[int, Array]]:
        for at, X in self._file.slabs():
            X.flags.writeable = False  # as the kernels know X in memory
            yield at, X
            self._forget()

    def _with_X(self, kernel: Any, work: float, arrays: Arrays, *small: Any, last: tuple[float, ...] = ()) -> list[Any]:
        def task(at: int, X: Array) -> Any:
            here = (None if A is None else A[at : at + len(X)] for A in arrays)
            X.flags.writeable = False  # as the kernels know X in memory
            result = kernel(X, *here, *small, 0, len(X), self._block, *last)
            self._forget()
            return result if isinstance(result, tuple) else ()

        return [self._file.each(task, work)]

    def _spread(self, kernel: Any, work: float, arrays: Arrays, *small: Any, last: tuple[float, ...] = ()) -> list[Any]:
        if self._shelf is None:
            return super()._spread(kernel, work, arrays, *small, last=last)
        block, parts = self._block, []
        for group in self._groups():
            here, n = [None if A is None else A[group] for A in arrays], group.stop - group.start

            def task(lo: int, hi: int, here: Any = here) -> Any:
                return kernel(*here, *small, lo, hi, block, *last)

            parts += spread(task, n, work * n / self.shape[0], block)
        return parts

    def _forget(self) -> None:
        if self._shelf is not None:
            self._shelf.forget()


class FilePlace(Place):
    """Files on this machine."""

    name = "in a file"
    whole_family = False
    solvers = ("hals", "newton-cg", "mm", "paper", "paper-appendix")

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = shelf

    def storing(self, path: Path | None) -> Place:
        """Arrays of the codes' shape beside the file the codes go to."""
        return self if path is None else FilePlace(Shelf(path.parent))

    def check(self, estimator: Any, X: Any, *, reset: bool) -> tuple[Any, float]:
        """One read."""
        return checked(estimator, X, self, reset=reset)

    def rows(self, X: Any, k: int, scale: float) -> FileRows:
        """Rows that read the file."""
        return FileRows(X, k, scale, self._shelf)

    def scaled(self, codes: Any, factor: float) -> Any:
        """A group of rows at a time."""
        return self.in_units(codes, np.full(codes.shape[1], factor))

    def in_units(self, codes: Any, unit: Array) -> Any:
        """A group of rows at a time."""
        for i in range(0, len(codes), GROUP):
            codes[i : i + GROUP] *= unit.astype(codes.dtype)
            if self._shelf is not None:
                self._shelf.forget()
        return codes


FILE = FilePlace()


def place_of(X: Any) -> Place:
    """Zarr and HDF5 are read in slabs, and so are large memory maps; those joblib makes for its workers are not.

    A fit would otherwise depend on `n_jobs`.
    """
    if not isinstance(X, np.memmap):
        return FILE
    mapped = getattr(X, "_mmap", None) is not None and X.nbytes > IN_MEMORY
    return FILE if mapped and "joblib_memmapping_folder" not in str(X.filename) else MEMORY
