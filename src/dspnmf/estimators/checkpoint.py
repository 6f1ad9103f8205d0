"""Fits that survive being killed: their state in a file, written every so often, removed when the fit is done.

The file is an .npz (no pickle): codes, V' (and that of the iteration before), P, Q, history, the state of the random
numbers, the best run so far, V' of the other runs, and what says which fit it belongs to: an identity, and sums over
the rows of X with fixed random weights. It is complete at every moment, because a new one is written next to it and
then takes its place. A fit called again with the same arguments goes on where the file was written, and ends where it
would have ended undisturbed. A file of another fit, or one that is damaged, is refused and left alone: everything in it
is checked before it is used. A file that cannot be written does not end the fit. Ctrl-C waits for the end of the
iteration, for `_PATIENCE` seconds at most, so that the file has it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspnmf._atomic_files import complete, part_of, write_array
from dspnmf._interrupts import Deferred, interrupt_deferred
from dspnmf._typing import Array, ArrayLike, Codes
from dspnmf._untrusted_files import ANY_SIGN, FLOATS, ROUNDED_SUMS, StoredArchive, generator_faults
from dspnmf._validation import FLAG, ParameterError, number, users_frame
from dspnmf.backends.file_slabs import path_of
from dspnmf.backends.protocol import Backend, Rows
from dspnmf.backends.row_model import GROUP, RandomCodes
from dspnmf.backends.small_arrays import Small
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.loop import Update

_SAME_SUMS = {4: 2e-6, 8: 1e-12}  # weighted sums of the same rows differ by rounding, by the bytes of X's numbers
_PATIENCE = 1.5  # seconds that Ctrl-C waits for the end of an iteration
_UNLIKE = ("verbose", "forget_factor")  # parameters that do not change a fit


class Run(NamedTuple):
    """One descent from one start, in the solver's units."""

    codes: Codes
    state: State
    history: list[float]
    converged: bool
    others: tuple[Array, ...] = ()  # V' of the starts that ended above this one
    measured: State | None = None  # with the sums of the codes as they are, where these are known

    def better(self, earlier: Run | None, small: Small) -> Run:
        """The better of this run and the best earlier one, with the components of all others."""
        if earlier is None:
            return self
        best, other = (self, earlier) if self.history[-1] < earlier.history[-1] else (earlier, self)
        return best._replace(others=(*earlier.others, small.host(other.state.Vt)))


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

    def __init__(self, path: str | Path | None, every: float) -> None:
        self.path = in_a_folder("checkpoint_path", path)
        if not (isinstance(every, int | float) and 0 <= every < math.inf) or isinstance(every, bool):
            raise ValueError(f"checkpoint_every={every!r} is not allowed: it must be a number of seconds >= 0.")
        self._every = every
        self._last = time.monotonic()
        self._warned = False
        self._interrupt = Deferred()
        self._identity: dict[str, Any] = {}
        self._fingerprint: Array = np.empty((0, 0))
        self._update = Update()
        self._objective = Objective({}, {})

    def identify(
        self, estimator: Any, solver: str, rows: Rows, objective: Objective, update: Update, *given: Any
    ) -> None:
        """Say which fit this is: method, parameters, data, and what else was given (y, W, H).

        `solver` is the one that runs: "auto" depends on the backend, and no solver can resume from another's memory
        (`update`: a new one of this kind).
        """
        if self.path is None:
            return
        from dspnmf import __version__

        self._update, self._objective = update, objective
        parameters = {name: _shown(value) for name, value in estimator.get_params(deep=False).items()}
        self._identity = {
            "method": type(estimator).__name__,
            **{name: value for name, value in parameters.items() if name not in _UNLIKE},
            "solver": solver,
            "shape of X": list(rows.shape),
            "dtype of X": str(rows.dtype),
            "norms of X": [float(term.norm2) for term in objective.terms.values()],
            "weights": list(objective.weights.values()),
            "unit of X": float(rows.scale),
            "y, W, H": [_shown(value) for value in given],
            "version of dspnmf": __version__,
        }

    def refuse(self, estimator: object, why: str) -> None:
        """An error where a fit that cannot be resumed is given a path."""
        if self.path is not None:
            name = type(estimator).__name__
            raise ParameterError(
                f"{name} keeps no checkpoint here: {why}. Leave checkpoint_path out.", "checkpoint_path"
            )

    def load(self, rows: Rows) -> Point | None:
        """Put the rows where the file says, if there is one; None: begin at the beginning."""
        if self.path is None:
            return None
        self._fingerprint = _fingerprint(rows, self._update, self._objective)
        if not self.path.exists():
            return None
        try:
            with StoredArchive(self.path) as archive:
                about = json.loads(archive.text("about"))
                difference = _difference(about["identity"], self._identity)
                then = archive.array("fingerprint", (None, None), *FLOATS, below=ANY_SIGN)
                same = not difference and _same_rows(then, self._fingerprint, _SAME_SUMS[rows.dtype.itemsize])
                point = self._point(archive, about, rows) if same else None
        except Exception as error:  # a damaged file may hold anything, and its readers raise anything
            raise ValueError(
                f"checkpoint_path={str(self.path)!r} is damaged, or not a checkpoint of dspnmf ({error}). It was left "
                "as it is: delete it to start again, or pass another path."
            ) from error
        if point is None:
            given = "the arguments" if difference else "the X"
            raise ValueError(
                f"checkpoint_path={str(self.path)!r} belongs to another fit: "
                f"{difference or 'X has other rows now, or has them in another order'}. It was left as it is: pass "
                f"{given} it was written with, another path, or delete it to start again."
            )
        return point

    def _point(self, archive: StoredArchive, about: dict[str, Any], rows: Rows) -> Point:
        """Where the fit stood; what no fit writes is an error."""
        (n, m), k = rows.shape, rows.k
        starts, iterations = (int(self._identity.get(name, 1)) for name in ("n_init", "max_iter"))
        start, best, memory = about["start"], about["best"], about["memory"]
        kind, position, *gauss = about["generator"]
        sound = {
            "start": start in range(starts) and FLAG.test(best) and best == (start > 0),
            "operators": about["operators"] == (len(self._fingerprint) - m) // k,
            "others": about["others"] == max(start - 1, 0),
            "converged": FLAG.test(about["converged"]),
            "memory": memory.keys() == self._update.memory.keys() and all(map(number(0).test, memory.values())),
            "generator": kind == "MT19937" and not any(generator_faults("", position)),
        }
        if unsound := [name for name, holds in sound.items() if not holds]:
            raise ValueError(f"no fit writes {unsound[0]}={about[unsound[0]]!r}")

        def run(name: str) -> Run:
            codes = rows.restore_codes(archive.row_blocks(f"{name}codes", (n, k), rows.dtype, GROUP))
            Vt = archive.array(f"{name}Vt", (m, k), np.float64)
            before = archive.array(f"{name}before", (m, k), np.float64)
            P = archive.array(f"{name}P", (m, k), np.float64, below=ROUNDED_SUMS)
            Q = archive.array(f"{name}Q", (k, k), np.float64, below=ROUNDED_SUMS)
            names = (f"{name}L{j}" for j in range(about["operators"]))
            L = [archive.array(one, (k, k), np.float64, below=ANY_SIGN) for one in names]
            history = archive.array(f"{name}history", (None,), np.float64, below=ANY_SIGN).tolist()
            if not 0 < len(history) <= iterations + 1:
                raise ValueError(f"a history of {len(history)} values, but max_iter={iterations}")
            others = [archive.array(f"other{j}", (m, k), np.float64) for j in range(about["others"] if name else 0)]
            rows.begin(codes)
            with np.errstate(all="ignore"):
                _, now = self._update.begin(rows, self._objective, Vt)
                for there, here in zip((P, Q, *L), (now.P, now.Q, *now.L), strict=True):
                    if not np.allclose(there, made := rows.small.host(here), 0, ROUNDED_SUMS * np.abs(made).max()):
                        raise ValueError("its sums are not those of its codes")
                adopt = rows.small.adopt
                state = replace(now.with_sums(adopt(P), adopt(Q), tuple(map(adopt, L))), before=adopt(before))
                (value,) = rows.small.fetch([self._objective.value(state)])
            size = abs(history[-1]) + sum(weight * term.norm2 for weight, term in self._objective.weighted())
            if not abs(value - history[-1]) <= ROUNDED_SUMS * size:
                raise ValueError(f"its objective is {value}, but its history ends with {history[-1]}")
            return Run(codes, state, history, about["converged"], tuple(others))

        here, earlier = run(""), run("best_") if best else None
        rows.begin(here.codes)
        generator = (kind, archive.array("generator", (624,), np.uint32), position, *gauss)
        np.random.RandomState().set_state(generator)  # an error where the rest of it is none
        return Point(start, here.state, here.history, memory, generator, earlier)

    def save(self, rows: Rows, point: Point) -> None:
        """Write the file, if it is time to; where that fails, again when it is time the next time.

        If an interrupt waits for it, it is time, and the fit ends here.
        """
        interrupted = self._interrupt.waiting
        if self.path is None or not (interrupted or time.monotonic() - self._last >= self._every):
            return
        if interrupted:
            self._interrupt.hold()
        self._attempt(partial(self._write, self.path, rows, point))
        self._last = time.monotonic()
        if interrupted:
            self._interrupt.arrive()

    @contextmanager
    def interrupts_saved(self) -> Iterator[None]:
        """Have an interrupt wait for the end of the iteration and for the file; a second one does not wait."""
        if self.path is None:
            yield
            return
        with interrupt_deferred(_PATIENCE) as self._interrupt:
            yield

    def _write(self, path: Path, rows: Rows, point: Point) -> None:
        kind, keys, *rest = point.generator
        about = {
            "identity": self._identity,
            "start": point.start,
            "memory": point.memory,
            "operators": len(point.state.L),
            "best": point.best is not None,
            "converged": bool(point.best and point.best.converged),
            "others": len(point.best.others) if point.best else 0,
            "generator": [kind, *(item.item() if hasattr(item, "item") else item for item in rest)],
        }
        with complete(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _write(archive, "about", np.array(json.dumps(about)))
            _write(archive, "generator", keys)
            _write(archive, "fingerprint", self._fingerprint)
            for j, Vt in enumerate(point.best.others if point.best else ()):
                _write(archive, f"other{j}", Vt)
            runs = {"": Run(None, point.state, point.history, False)} | ({"best_": point.best} if point.best else {})
            for name, run in runs.items():
                s = run.state.on_host(rows.small)
                before = s.Vt if s.before is None else s.before
                small = {"Vt": s.Vt, "before": before, "P": s.P, "Q": s.Q, "history": np.array(run.history)}
                for part, array in (small | {f"L{j}": L for j, L in enumerate(s.L)}).items():
                    _write(archive, name + part, array)
                with archive.open(f"{name}codes.npy", "w", force_zip64=True) as member:
                    write_array(member, rows.save_codes(run.codes), (rows.shape[0], rows.k), rows.dtype)

    def remove(self) -> None:
        """The fit is done."""
        if self.path is not None:
            for path in (self.path, part_of(self.path)):
                self._attempt(partial(path.unlink, missing_ok=True))

    def _attempt(self, act: Callable[[], None]) -> None:
        """What fails with the file is a warning, the first time: the fit does not need it unless it is killed."""
        try:
            act()
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"checkpoint_path={str(self.path)!r} cannot be written or removed ({error}). The fit goes on and "
                    "tries again later; if it is killed before, it begins at the last checkpoint there is: make room, "
                    "or make the folder writable.",
                    RuntimeWarning,
                    stacklevel=users_frame(),
                )
            self._warned = True


def checked_codes_path(path: str | Path | None, X: ArrayLike, keeper: Checkpoint | None = None) -> Path | None:
    """Where codes go; not where X comes from, nor where the checkpoint is, which is removed in the end."""
    path = in_a_folder("codes_path", path)
    if path is None:
        return None
    source, taken = path_of(X), ""
    if keeper is not None and keeper.path is not None and _same_file(path, keeper.path):
        taken = "is the file of the checkpoint too"
    elif source is not None and _same_file(path, source):
        taken = "is the file X is read from"
    elif source is not None and source.is_dir() and path.resolve().is_relative_to(source.resolve()):
        taken = f"is in the folder X is read from, {str(source)!r}"
    if taken:
        raise ValueError(f"codes_path={str(path)!r} {taken}: pass another path.")
    return path


def _same_file(a: Path, b: Path) -> bool:
    """Whether two paths lead to one file, by whatever names."""
    return a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b))


def delivered(backend: Backend, rows: Rows, codes: Codes, path: Path | None) -> ArrayLike:
    """Codes as the user gets them, or as a memory map of a file."""
    if path is None:
        return backend.codes(codes)
    with complete(path) as file:
        write_array(file, rows.save_codes(codes), (rows.shape[0], rows.k), rows.dtype)
    return np.load(path, mmap_mode="r")


def in_a_folder(name: str, path: str | Path | None) -> Path | None:
    """The path of a file to be written, in a folder that exists."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name}={path!r} is not allowed: it must be the path of a file, or None.")
    path = Path(path).absolute()
    if not path.parent.is_dir() or path.is_dir():
        raise ParameterError(f"{name}={str(path)!r} is not allowed: it must name a file in a folder that exists.", name)
    return path


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


def _fingerprint(rows: Rows, update: Update, objective: Objective) -> Array:
    """By which to know the rows again, and their order: sums over them with random weights >= 0 as codes."""
    weights = RandomCodes(0, 1.0, rows.k, rows.dtype)
    rows.begin(rows.draw(weights))
    return np.vstack([rows.small.host(part) for part in update.imprint(rows, objective)])


def _same_rows(then: Array, now: Array, rounding: float) -> bool:
    """Whether two fingerprints differ by rounding only, in every feature."""
    error = np.linalg.norm(now - then, axis=1) if now.shape == then.shape else np.inf
    return bool(np.all(error <= rounding * np.linalg.norm(then, axis=1)))


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
