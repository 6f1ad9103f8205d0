"""The format of MATLAB files of versions 5 to 7.2 (version 7.3 is HDF5).

They are read here and not by SciPy, whose reader can end the process when a file is damaged. Of the file only arrays of
numbers are read; cells, structures, texts, functions and objects are never looked into.

A file is a sequence of elements: type, size, content. An array is an element that holds elements: flags, dimensions,
name, numbers (of a sparse array: row indices, column pointers, numbers). It may be compressed as a whole.
"""

from __future__ import annotations

import struct
import zlib
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.errors import plain, quoted, refused
from dspnmf.io.limits import FREE, RATIO, check_shape
from dspnmf.io.matrices import compressed

HEADER = 128
_ARRAY, _COMPRESSED, _SPARSE, _COMPLEX = 14, 15, 5, 0x0800
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_FIRST = 4096  # bytes that hold an array's flags, dimensions and name
_DIMENSIONS = 32


class Variable(NamedTuple):
    """An array in the file, and where it is."""

    name: str
    shape: tuple[int, ...]
    kind: int
    flags: int
    begin: int
    size: int
    packed: bool

    @property
    def real(self) -> bool:
        """Whether it holds real numbers."""
        return (self.kind in _CLASSES or self.kind == _SPARSE) and not self.flags & _COMPLEX


class _Cut(Exception):  # noqa: N818 - it never leaves this module
    """Bytes end where more should be."""


class MatFile:
    """The arrays of a file of version 5 to 7.2."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        head = file.read(HEADER)
        order = head[126:128]
        if len(head) < HEADER or order not in (b"IM", b"MI"):
            raise refused(path, "it is no MATLAB file of version 5 or later. Save it with save(..., '-v7').")
        self._order = "<" if order == b"IM" else ">"
        self.variables = self._listed()

    def _listed(self) -> dict[str, Variable]:
        """What is in the file, without reading it."""
        found: dict[str, Variable] = {}
        at, end = HEADER, self.path.stat().st_size
        while at < end:
            self._file.seek(at)
            tag = self._file.read(8)
            if len(tag) < 8:
                raise self._cut_off(at)
            kind, size = struct.unpack(f"{self._order}II", tag)
            if at + 8 + size > end:
                raise self._cut_off(at)
            if kind in (_ARRAY, _COMPRESSED):
                variable = self._described(at + 8, size, kind == _COMPRESSED)
                found |= {variable.name: variable} if variable.name else {}
            at += 8 + size
        return found

    def _described(self, begin: int, size: int, packed: bool) -> Variable:
        """Flags, dimensions and name of one array."""
        content = self._content(begin, size, packed, _FIRST)
        try:
            first, at = self._element(content, 0)
            flags = int(first[0]) if len(first) and first.dtype.kind == "u" else 0
            if not 0 < flags & 0xFF <= max(_CLASSES):  # functions and objects are built otherwise
                return Variable("", (), 0, 0, begin, size, packed)
            shape, at = self._element(content, at)
            name, at = self._element(content, at)
        except _Cut as error:
            raise self._cut_off(begin) from error
        if shape.dtype.kind not in "iu" or not 2 <= len(shape) <= _DIMENSIONS or shape.min() < 0:
            raise refused(self.path, f"the array at byte {begin} is damaged: it has no dimensions. Save it again.")
        words = name.tobytes().decode("utf-8", "replace")
        return Variable(words, tuple(map(int, shape)), flags & 0xFF, flags, begin, size, packed)

    def read(self, variable: Variable) -> Any:
        """One array of real numbers: dense, or CSR."""
        # stored numbers are never wider than eight bytes; a sparse array has its own length
        check_shape(self.path, variable.shape[1:] if variable.kind == _SPARSE else variable.shape, 8)
        most = FREE + RATIO * variable.size if variable.kind == _SPARSE else _FIRST + 8 * prod(variable.shape)
        content = self._content(variable.begin, variable.size, variable.packed, most)
        try:
            at = 0
            for _ in range(3):
                _, at = self._element(content, at)
            if variable.kind != _SPARSE:
                return self._dense(variable, self._element(content, at)[0])
            indices, at = self._element(content, at)
            indptr, at = self._element(content, at)
            data, at = self._element(content, at)
        except _Cut as error:
            raise self._cut_off(variable.begin) from error
        kept = min(len(indices), len(data))  # room for more may be there
        parts = {"data": data[:kept], "indices": indices[:kept], "indptr": indptr}
        return compressed(self.path, parts, variable.shape, "csc")

    def _dense(self, variable: Variable, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers in their shape, column by column, as their class says (they may be stored narrower)."""
        if len(values) != prod(variable.shape):
            raise refused(
                self.path,
                f"{quoted(variable.name)} has {len(values):,} numbers, but its shape {variable.shape} needs "
                f"{prod(variable.shape):,}: it is damaged. Save it again.",
            )
        return values.astype(_CLASSES[variable.kind]).reshape(variable.shape, order="F")

    def _content(self, begin: int, size: int, packed: bool, most: int) -> bytes:
        """The first bytes of an array's element: at most `most`, where it is an array that was compressed."""
        self._file.seek(begin)
        if not packed:
            return self._file.read(min(size, most))
        try:
            content = zlib.decompressobj().decompress(
                self._file.read(size if most > _FIRST else min(size, _FIRST)), most + 8
            )
        except zlib.error as error:
            what = f"the array at byte {begin} cannot be unpacked ({plain(error)})"
            raise refused(self.path, f"{what}: it is damaged. Copy or save it again.") from error
        if len(content) < 8 or struct.unpack(f"{self._order}I", content[:4])[0] != _ARRAY:
            raise refused(self.path, f"the array at byte {begin} is damaged. Copy or save it again.")
        return content[8:]

    def _element(self, content: bytes, at: int) -> tuple[NDArray[Any], int]:
        """The numbers of the element at a place, and the place of the next."""
        if at + 8 > len(content):
            raise _Cut
        (first,) = struct.unpack_from(f"{self._order}I", content, at)
        if first >> 16:  # a short element: type, size and content in eight bytes
            kind, size, begin, after = first & 0xFFFF, first >> 16, at + 4, at + 8
        else:
            kind, size = struct.unpack_from(f"{self._order}II", content, at)
            begin, after = at + 8, at + 8 + -(-size // 8) * 8
        if kind not in _STORED:
            raise refused(
                self.path, f"an element of type {kind} is where numbers should be: it is damaged. Save it again."
            )
        dtype = np.dtype(self._order + _STORED[kind])
        if begin + size > len(content) or (first >> 16 and size > 4):
            raise _Cut
        return np.frombuffer(content, dtype, size // dtype.itemsize, begin), after

    def _cut_off(self, at: int) -> Exception:
        """A file that ends too early."""
        return refused(self.path, f"the array at byte {at} is not complete: it is cut off. Copy or save it again.")
