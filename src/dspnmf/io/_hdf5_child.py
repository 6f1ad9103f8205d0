"""HDF5 in a process of its own, which opens one file and answers questions about it.

On a damaged file the HDF5 library may hang or crash, and would take the whole program along. Run as a script: the file
is the only argument, a request is a line of JSON, an answer is a line of JSON and as many bytes as it says. It imports
nothing of this package, to start quickly. Seconds of computing are limited for every request.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from contextlib import suppress
from typing import Any

import numpy as np

SECONDS, BYTES_PER_SECOND = 2.0, 5e7  # that a request may take: some, and more for the bytes it asks for
_ATTRIBUTES = ("encoding-type", "_index", "shape", "MATLAB_class", "MATLAB_sparse", "MATLAB_empty")
_MEMBERS = 20_000
_MEMORY = 6 * 2**30  # bytes of address space: a gigabyte of numbers twice, libraries, and room


def allow(count: int) -> None:
    """Let the next request compute as long as `count` bytes may take; the process ends when it takes longer."""
    try:
        import resource
    except ImportError:  # on Windows; whoever asked also looks at the clock
        return
    seconds = int(time.process_time() + SECONDS + count / BYTES_PER_SECOND) + 1
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if most < 0 else min(seconds, most), most))


def plain(value: Any) -> Any:
    """An attribute as JSON has it; None for what it has not."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iub" and value.size <= 8:
        return value.tolist()
    return None


def member(group: Any, name: str, h5py: Any) -> dict[str, Any]:
    """What one member of a group is."""
    if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        return {"kind": "foreign"}
    item = group.get(name)
    if item is None:
        return {"kind": "lost"}
    attributes = {key: plain(item.attrs[key]) for key in _ATTRIBUTES if key in item.attrs}
    if isinstance(item, h5py.Group):
        return {"kind": "group", "attributes": attributes}
    if not isinstance(item, h5py.Dataset):
        return {"kind": "type"}
    if item.is_virtual or item.external:
        return {"kind": "foreign"}
    text = h5py.check_string_dtype(item.dtype) is not None
    return {
        "kind": "array",
        "shape": list(item.shape or ()) if item.shape is not None else [0],
        "dtype": "text" if text else item.dtype.str,
        "chunks": list(item.chunks or ()),
        "attributes": attributes,
    }


def listed(file: Any, name: str, h5py: Any) -> dict[str, Any]:
    """Members of a group."""
    group = file[name]
    names = [key for key, _ in zip(group, range(_MEMBERS), strict=False)]
    return {"members": {key: member(group, key, h5py) for key in names}}


def content(file: Any, name: str) -> tuple[dict[str, Any], Any]:
    """A dataset: numbers as bytes, texts as JSON."""
    item = file[name]
    if item.dtype.kind in "OS":
        values = np.asarray(item[()]).ravel().tolist()
        return {}, json.dumps([plain(value) or "" for value in values]).encode()
    allow(int(np.prod(item.shape, dtype=float)) * item.dtype.itemsize)
    return {}, np.ascontiguousarray(item[()]).reshape(-1).view(np.uint8).data


def main(path: str) -> None:
    """Answer until nobody asks."""
    h5py: Any = importlib.import_module("h5py")
    with suppress(ImportError, ValueError, OSError):  # not every system has this limit
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected: nothing is to be left of it
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    file = None
    for request in sys.stdin.buffer:
        what, name = json.loads(request)
        allow(0)
        answer: dict[str, Any]
        found: Any = b""
        try:
            file = file or h5py.File(path, "r")
            answer, found = (listed(file, name, h5py), b"") if what == "list" else content(file, name)
        except Exception as error:
            answer = {"error": (str(error).strip().splitlines() or [type(error).__name__])[0]}
        sys.stdout.buffer.write(json.dumps(answer | {"bytes": len(found)}).encode() + b"\n")
        sys.stdout.buffer.write(found)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
