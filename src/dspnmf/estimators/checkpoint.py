"""Fits that survive being killed: their state in a file, written every so often, removed when the fit is done.

The file is an .npz (no pickle): codes, V', P, Q, history, the state of the random numbers, the best run so far, and an
identity that says which fit it belongs to. It is complete at every moment, because a new one is written beside it and
then takes its place. A fit called again with the same arguments goes on where the file was written, and ends where it
would have ended undisturbed. A file of another fit, or one that is damaged, is refused and left alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspnmf._files import complete, write_array
from dspnmf.rows import Rows
from dspnmf.rows._model import GROUP, Array
from dspnmf.rows.places import Place
from dspnmf.terms import Objective, State

_MEMBERS = ("Vt", "P", "Q")
_SAME_SUMS = {4: 1e-3, 8: 1e-6}  # X'U then and now, by the bytes of X's numbers
_UNLIKE = ("verbose",)  # parameters that do not change a fit


class Run(NamedTuple):
    """One descent from one start, in the solver's units."""

    codes: Any
    state: State
    history: list[float]
    converged: bool


class Point(NamedTuple):
    """Where a fit stands between two iterations; the codes are with the rows."""

    start: int  # which of `n_init`
    state: State
    history: list[float]
    memory: dict[str, float]  # of the solver
    generator: Any  # state of the random numbers
    best: Run | None  # of earlier starts

    def earlier(self, random_state: Any) -> tuple[Run | None, np.random.RandomState]:
        """What earlier starts left: the best of them, and the random numbers (the user's generator if there is one)."""
        rng = random_state if isinstance(random_state, np.random.RandomState) else np.random.RandomState()
        rng.set_state(self.generator)
        return self.best, rng


class Checkpoint:
    """The file of one fit; without a path it does nothing."""

    def __init__(self, path: Any, every: float) -> None:
        self._path = in_a_folder("checkpoint", path)
        if not (isinstance(every, int | float) and 0 <= every < math.inf) or isinstance(every, bool):
            raise ValueError(f"checkpoint_every={every!r} is not allowed: it must be a number of seconds >= 0.")
        self._every = every
        self._last = time.monotonic()
        self._identity: dict[str, Any] = {}

    def identify(self, estimator: Any, rows: Rows, objective: Objective, *given: Any) -> None:
        """Say which fit this is: method, parameters, data, and what was given beside them (y, W, H)."""
        if self._path is None:
            return
        from dspnmf import __version__

        parameters = {name: _shown(value) for name, value in estimator.get_params(deep=False).items()}
        self._identity = {
            "method": type(estimator).__name__,
            **{name: value for name, value in parameters.items() if name not in _UNLIKE},
            "shape of X": list(rows.shape),
            "dtype of X": str(rows.dtype),
            "norms of X": [float(term.norm2) for term in objective.terms],
            "weights": list(objective.weights),
            "unit of X": float(rows.scale),
            "y, W, H": [_shown(value) for value in given],
            "version of dspnmf": __version__,
        }

    def load(self, rows: Rows) -> Point | None:
        """Put the rows where the file says, if there is one; None: begin at the beginning."""
        if self._path is None or not self._path.exists():
            return None
        try:
            with zipfile.ZipFile(self._path) as archive:
                about = json.loads(str(_member(archive, "about")))
                difference = _difference(about["identity"], self._identity)
                point = None if difference else self._point(archive, about, rows)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
            raise ValueError(
                f"checkpoint={str(self._path)!r} is damaged, or no checkpoint of dspnmf ({error}). It was left as it "
                "is: delete it to begin anew, or pass another path."
            ) from error
        if point is None:
            raise ValueError(
                f"checkpoint={str(self._path)!r} belongs to another fit: {difference}. It was left as it is: pass the "
                "arguments it was written with, another path, or delete it to begin anew."
            )
        then, now = rows.small.host(point.state.P), rows.small.host(rows.sums()[0])
        if not np.linalg.norm(now - then) <= _SAME_SUMS[rows.dtype.itemsize] * np.linalg.norm(then):
            raise ValueError(
                f"checkpoint={str(self._path)!r} belongs to another fit: X has other rows now, or has them in another "
                "order. It was left as it is: pass the X it was written with, another path, or delete it to begin anew."
            )
        return point

    def _point(self, archive: zipfile.ZipFile, about: dict[str, Any], rows: Rows) -> Point:
        def run(name: str) -> Run:
            codes = rows.restore_codes(_blocks(archive, f"{name}codes"))
            small = [rows.small.adopt(_member(archive, name + part)) for part in _MEMBERS]
            L = tuple(rows.small.adopt(_member(archive, f"{name}L{j}")) for j in range(about["operators"]))
            history = _member(archive, f"{name}history").tolist()
            return Run(codes, State(small[0], small[1], small[2], L), history, about["converged"])

        here, best = run(""), run("best_") if about["best"] else None
        rows.begin(here.codes)
        kind, position, has_gauss, gauss = about["generator"]
        generator = (kind, _member(archive, "generator"), position, has_gauss, gauss)
        return Point(about["start"], here.state, here.history, about["memory"], generator, best)

    def save(self, rows: Rows, point: Point) -> None:
        """Write the file, if it is time to."""
        if self._path is None or time.monotonic() - self._last < self._every:
            return
        kind, keys, *rest = point.generator
        about = {
            "identity": self._identity,
            "start": point.start,
            "memory": point.memory,
            "operators": len(point.state.L),
            "best": point.best is not None,
            "converged": bool(point.best and point.best.converged),
            "generator": [kind, *(item.item() if hasattr(item, "item") else item for item in rest)],
        }
        with complete(self._path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _write(archive, "about", np.array(json.dumps(about)))
            _write(archive, "generator", keys)
            runs = {"": Run(None, point.state, point.history, False)} | ({"best_": point.best} if point.best else {})
            for name, run in runs.items():
                s = run.state.on(rows.small)
                small = {**dict(zip(_MEMBERS, (s.Vt, s.P, s.Q), strict=True)), "history": np.array(run.history)}
                for part, array in (small | {f"L{j}": L for j, L in enumerate(s.L)}).items():
                    _write(archive, name + part, array)
                with archive.open(f"{name}codes.npy", "w", force_zip64=True) as member:
                    write_array(member, rows.save_codes(run.codes), (rows.shape[0], rows.k), rows.dtype)
        self._last = time.monotonic()

    def remove(self) -> None:
        """The fit is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def codes_path(path: Any, X: Any) -> Path | None:
    """Where codes go; not where X comes from."""
    path, source = in_a_folder("codes", path), getattr(X, "filename", None)
    if path is not None and source is not None and Path(str(source)) == path:
        raise ValueError(f"codes={str(path)!r} is the file X is read from: pass another path.")
    return path


def delivered(place: Place, rows: Rows, codes: Any, path: Path | None) -> Any:
    """Codes as the user gets them, or as a memory map of a file."""
    if path is None:
        return place.codes(codes)
    with complete(path) as file:
        write_array(file, rows.save_codes(codes), (rows.shape[0], rows.k), rows.dtype)
    return np.load(path, mmap_mode="r")


def in_a_folder(name: str, path: Any) -> Path | None:
    """The path of a file to be written, in a folder that exists."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name}={path!r} is not allowed: it must be the path of a file, or None.")
    path = Path(path).absolute()
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{name}={str(path)!r} is not allowed: it must name a file in a folder that exists.")
    return path


def refuse(estimator: Any, why: str, **arguments: Any) -> None:
    """Arguments of `fit` that mean nothing to a method with a loop of its own."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}={str(value)!r} is not supported by {type(estimator).__name__}: {why}.")


def _shown(value: Any) -> Any:
    """A value by which to know it again: itself, or the hash of its numbers."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return "a RandomState"
    if sparse.issparse(value):
        A = value.tocsr()
        return [_shown(part) for part in (A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64))]
    array = np.asarray(value)
    if array.dtype.kind == "O":
        array = array.astype(str)
    return f"{array.shape} {array.dtype} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]}"


def _difference(then: dict[str, Any], now: dict[str, Any]) -> str:
    """The first thing in which two identities differ, in words; "" where they do not."""
    for name in {**now, **then}:
        old, new = then.get(name), now.get(name)
        a, b = np.asarray(old), np.asarray(new)
        close = name in ("norms of X", "weights") and a.shape == b.shape
        if not (np.allclose(a, b, rtol=1e-6, atol=0) if close else old == new):
            return f"{name} is {old!r} there and {new!r} here"
    return ""


def _write(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    with archive.open(f"{name}.npy", "w") as member:
        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(f"{name}.npy") as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _blocks(archive: zipfile.ZipFile, name: str) -> Iterator[Array]:
    """An array in blocks of rows."""
    with archive.open(f"{name}.npy") as member:
        np.lib.format.read_magic(member)
        (n, k), _, dtype = np.lib.format.read_array_header_1_0(member)
        for i in range(0, n, GROUP):
            rows = min(GROUP, n - i)
            yield np.frombuffer(member.read(rows * k * dtype.itemsize), dtype).reshape(rows, k)
        if member.read(1):  # also makes sure of the checksum
            raise ValueError("more codes than rows")
