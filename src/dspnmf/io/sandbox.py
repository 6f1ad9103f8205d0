"""Files opened in a child process, because damaged ones can crash or hang the libraries that read them.

`_sandbox_child.py` runs there and lists or sends arrays; this module starts it, and trusts nothing it sends: a crash, a
timeout, too much memory or something else than the announced arrays become a `ReadError`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io import _sandbox_child
from dspnmf.io.columns import texts
from dspnmf.io.errors import ReadError, library, plain, quoted, refused
from dspnmf.io.limits import IN_MEMORY, check_array, check_size
from dspnmf.io.named_arrays import Array, ArrayInfo, sparse_array

_WAIT = 60.0  # seconds on the clock for a request, and more for the bytes it asks for


class ChildProcess:
    """One file in a process of its own; `kind` is a key of `_sandbox_child.KINDS`."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self._kind = path, kind
        self._library = _sandbox_child.KINDS[kind][0]
        library(self._library.split(".")[0], "files", path)

    def __enter__(self) -> ChildProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-P", _sandbox_child.__file__, self._kind, str(self.path.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is for this process, which then ends the other
            # every thread of OpenBLAS would take a share of the memory
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent yet has no reader
                    pipe.close()
        self._process.wait()

    @cached_property
    def arrays(self) -> dict[str, ArrayInfo]:
        """What the file says of its arrays, by name."""
        answer, _ = self._ask("list", "", self.path.stat().st_size)
        try:
            return {
                name: ArrayInfo(**facts | {"shape": tuple(map(int, facts["shape"])), "dtype": _dtype(facts["dtype"])})
                for name, facts in answer["arrays"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._failed("") from error

    def load(self, name: str) -> Array:
        """One array: numbers or texts, or a CSR array; above 1 GiB of HDF5 a dataset, whose file stays open."""
        info = self.arrays[name]
        if self._kind == "hdf5" and info.size > IN_MEMORY and info.real and not info.sparse:
            check_array(self.path, info.shape, 0)
            dataset = library("h5py", "files", self.path).File(self.path, "r")[name]
            chunk = prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
            check_size(self.path, chunk, f"chunks of {dataset.chunks} numbers")
            return dataset
        if info.dtype != "text":
            info.check_real(self.path, name)
        check_array(self.path, info.shape, info.size)
        answer, parts = self._ask("read", name, info.size + 8 * self.path.stat().st_size)
        if info.sparse:
            return sparse_array(self.path, info.sparse, parts, info.shape)
        array = texts(list(map(str, answer["texts"]))) if "texts" in answer else parts.get("data")
        if array is None or array.size != prod(info.shape):
            raise self._failed(name)
        return array.reshape(info.shape)

    def _ask(self, what: str, name: str, size: int = 0) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Send one request; the answer and the arrays that follow it."""
        stdin, stdout, parts = self._process.stdin, self._process.stdout, {}
        assert stdin is not None
        assert stdout is not None
        clock = threading.Timer(_WAIT + size / _sandbox_child.BYTES_PER_SECOND, self._process.kill)
        clock.start()
        try:
            stdin.write(json.dumps([what, name, size]).encode() + b"\n")
            stdin.flush()
            answer = json.loads(stdout.readline())
            for part, dtype, shape in answer.get("parts", ()):
                info = ArrayInfo(tuple(shape), np.dtype(dtype))
                info.check_real(self.path, name)
                check_array(self.path, info.shape, prod(shape) * np.dtype(dtype).itemsize)
                parts[part] = np.empty(info.shape, dtype)
                if stdout.readinto(parts[part].reshape(-1).view(np.uint8)) != parts[part].nbytes:  # type: ignore[attr-defined]
                    raise self._failed(name)
        except ReadError:
            raise
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise self._failed(name) from error
        finally:
            clock.cancel()
        if "error" in answer:
            what, why = self._named(name, "{}") or "it", plain(answer["error"]).rstrip(".")
            raise refused(
                self.path, f"{what} cannot be read ({why}). Check that the file is complete, or make it again."
            )
        return answer, parts

    def _named(self, name: str, words: str) -> str:
        """The name of an array in some words, if there are several in the file."""
        return words.format(quoted(name)) if name and len(self.arrays) > 1 else ""

    def _failed(self, name: str) -> ReadError:
        """The error for a process that crashed, took too long, or sent something else than an array."""
        return refused(
            self.path,
            f"{self._library} fails on it{self._named(name, ', at {}')}: it is damaged, or takes too much time or "
            "memory. Check that it is complete, or make it again.",
        )


def _dtype(text: str) -> np.dtype[Any] | str:
    """The type of an array; types of NumPy begin with the byte order."""
    return np.dtype(text) if text.startswith(("<", ">", "|")) else text
