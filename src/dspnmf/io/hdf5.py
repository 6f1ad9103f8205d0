"""HDF5 files: what is in them, and arrays out of them, asked of a process that may die instead of this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io import _hdf5_child
from dspnmf.io.errors import library, plain, quoted, refused
from dspnmf.io.limits import FREE, IN_MEMORY, check_shape, check_size
from dspnmf.io.matrices import as_float

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_WAIT = 60.0  # seconds on the clock, where seconds of computing cannot be limited
_LISTED = 500


@dataclass(frozen=True)
class Member:
    """What is known of a member of a group before it is read."""

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    chunks: tuple[int, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def real(self) -> bool:
        """Whether it is an array of real numbers."""
        return self.kind == "array" and self.dtype not in ("", "text") and np.dtype(self.dtype).kind in "fiub"

    @property
    def size(self) -> int:
        """Bytes of its array; of texts, a guess."""
        return prod(self.shape) * self.width

    @property
    def width(self) -> int:
        """Bytes of an entry."""
        return {"": 0, "text": 64}.get(self.dtype) or np.dtype(self.dtype or "u1").itemsize


class Hdf5:
    """One HDF5 file."""

    def __init__(self, path: Path) -> None:
        library("h5py", "files", path)
        self.path = path
        if not has_signature(path):
            raise refused(path, "it is no HDF5 file. Check its type, and that it is complete.")

    def __enter__(self) -> Hdf5:
        self._process = subprocess.Popen(
            [sys.executable, "-P", _hdf5_child.__file__, str(self.path.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not said yet has no listener
                    pipe.close()
        self._process.wait()

    def members(self, group: str = "/") -> dict[str, Member]:
        """What a group holds, by name."""
        found, _ = self._ask("list", group)
        return {name: _member(f"{group.rstrip('/')}/{name}", told) for name, told in found["members"].items()}

    def arrays(self) -> dict[str, Member]:
        """All arrays in the file, by their paths; groups behind the first few hundred are not looked into."""
        found: dict[str, Member] = {}
        groups, seen = ["/"], 0
        while groups and seen < _LISTED:
            for member in self.members(groups.pop(0)).values():
                if member.kind == "group":
                    groups.append(member.name)
                elif member.kind in ("array", "foreign"):
                    found[member.name.lstrip("/")] = member
            seen += 1
        return found

    def numbers(self, member: Member) -> NDArray[Any]:
        """An array of real numbers."""
        self._check(member)
        if not member.real:
            raise refused(self.path, f"{quoted(member.name)} does not hold real numbers. Save plain numbers.")
        _, content = self._ask("read", member.name, member.size)
        if len(content) != member.size:
            raise self._failed(member.name)
        return np.frombuffer(content, member.dtype).reshape(member.shape)

    def texts(self, member: Member) -> list[str]:
        """An array of texts."""
        self._check(member)
        _, content = self._ask("read", member.name, member.size)
        return list(map(str, json.loads(content)))

    def matrix(self, member: Member) -> Any:
        """An array of numbers as a table has it; above 1 GiB it stays in the file, which stays open."""
        self._check(member)
        if member.size <= IN_MEMORY or not member.real:
            return as_float(self.numbers(member))
        check_shape(self.path, member.shape, 0)
        return library("h5py", "files", self.path).File(self.path, "r")[member.name]

    def _check(self, member: Member) -> None:
        """Whether an array is in this file, and believable."""
        if member.kind != "array":
            what = "in another file, which is not opened" if member.kind == "foreign" else "no array"
            raise refused(self.path, f"{quoted(member.name)} is {what}. Save plain numbers in one file.")
        if member.size <= IN_MEMORY:
            check_shape(self.path, member.shape or (1,), member.width)
        check_size(self.path, prod(member.chunks or (0,)) * member.width, f"chunks of {member.chunks} numbers")

    def _ask(self, what: str, name: str, size: int = 0) -> tuple[dict[str, Any], bytes]:
        """One question, and the answer."""
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        clock = threading.Timer(_WAIT + size / _hdf5_child.BYTES_PER_SECOND, pipes.kill)
        clock.start()
        try:
            pipes.stdin.write(json.dumps([what, name]).encode() + b"\n")
            pipes.stdin.flush()
            answer = json.loads(pipes.stdout.readline() or b"null")
            if answer and answer["bytes"] > FREE:
                check_size(self.path, answer["bytes"], f"what {quoted(name)} holds")
            content = pipes.stdout.read(answer["bytes"]) if answer else b""
        except OSError as error:
            raise self._failed(name) from error
        finally:
            clock.cancel()
        if answer is None or len(content) < answer["bytes"]:
            raise self._failed(name)
        if "error" in answer:
            what, why = "it" if name == "/" else quoted(name), plain(answer["error"]).rstrip(".")
            raise refused(
                self.path, f"{what} cannot be read ({why}). Check that the file is complete, or make it again."
            )
        return answer, content

    def _failed(self, name: str) -> Exception:
        """The HDF5 library hung or crashed."""
        return refused(self.path, f"the HDF5 library fails on it, at {quoted(name)}: it is damaged. Make it again.")


def has_signature(path: Path) -> bool:
    """Whether a file is HDF5: its signature is at its beginning, or at 512, 1024, 2048... bytes."""
    size, at = path.stat().st_size, 0
    with path.open("rb") as file:
        while at < min(size, 2**20):
            file.seek(at)
            if file.read(8) == SIGNATURE:
                return True
            at = 2 * at or 512
    return False


def _member(path: str, told: dict[str, Any]) -> Member:
    """What a process told of a member."""
    shape, chunks = tuple(told.get("shape", ())), tuple(told.get("chunks", ()))
    return Member(path, told["kind"], shape, told.get("dtype", ""), chunks, told.get("attributes", {}))
