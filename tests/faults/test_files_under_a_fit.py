"""Files that are cut off, overwritten, replaced or deleted during a fit, and checkpoints that cannot be written.

A fit from a file that changes ends with an `OSError` in the iteration that meets the change, and the estimator is as it
was. A checkpoint that cannot be written is one warning, and the fit goes on.
"""

from __future__ import annotations

import copy
import errno
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from sklearn.exceptions import ConvergenceWarning

from dspnmf import DSPNMF, NMF
from dspnmf.backends import file, file_slabs
from dspnmf.estimators import base, checkpoint
from model_files import assert_same

N, M = 700, 24


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every memory map counts as larger than memory, and is read in slabs of 128 rows."""
    monkeypatch.setattr(file, "IN_MEMORY", 0)
    monkeypatch.setattr(file_slabs, "SLAB", 30_000)


def data() -> np.ndarray:
    """Noise."""
    return np.random.default_rng(0).random((N, M)) + 0.1


def npy(folder: Path) -> Any:
    """A memory map."""
    np.save(folder / "x.npy", data())
    return np.load(folder / "x.npy", mmap_mode="r")


def columns_of_npy(folder: Path) -> Any:
    """A memory map that is read through the map."""
    return npy(folder)[:, 1:]


def zarr_array(folder: Path) -> Any:
    """A Zarr array of 36 chunks."""
    X = zarr.create_array(str(folder / "x.zarr"), shape=(N, M), chunks=(60, 8), dtype="f8")
    X[:] = data()
    return zarr.open_array(str(folder / "x.zarr"), mode="r")


def hdf5(folder: Path) -> Any:
    """An HDF5 dataset in a file opened for reading and writing."""
    with h5py.File(folder / "x.h5", "w") as written:
        written.create_dataset("X", data=data(), chunks=(60, M), maxshape=(None, M))
    return h5py.File(folder / "x.h5", "r+")["X"]


def flat_hdf5(folder: Path) -> Any:
    """An HDF5 dataset without chunks, whose file reads as zeros where it was cut off."""
    with h5py.File(folder / "x.h5", "w") as written:
        written.create_dataset("X", data=data())
    return h5py.File(folder / "x.h5", "r")["X"]


def one_number(folder: Path, X: Any) -> None:
    """Overwrite one number of row 600 in the file."""
    changed = np.load(folder / "x.npy", mmap_mode="r+")
    changed[600, 5] *= 2
    changed.flush()


def two_rows(folder: Path, X: Any) -> None:
    """Exchange two rows of a slab."""
    changed = np.load(folder / "x.npy", mmap_mode="r+")
    changed[[300, 310]] = changed[[310, 300]]
    changed.flush()


def replaced(folder: Path, X: Any) -> None:
    """Put another file under the same name."""
    np.save(folder / "y.npy", data()[::-1])
    (folder / "y.npy").replace(folder / "x.npy")


def chunk_written(folder: Path, X: Any) -> None:
    """Write to a Zarr array from elsewhere."""
    zarr.open_array(str(folder / "x.zarr"), mode="r+")[500, 3] = 9.0


CHANGED = r"was changed since X was opened or the fit began: rows \d+ to \d+ are others now.* fit again"
HARMS: dict[str, tuple[Callable[[Path], Any], Callable[[Path, Any], object], str]] = {
    "npy cut off": (npy, lambda d, X: os.truncate(d / "x.npy", 9_000), r"x.npy has 9000 bytes, but X needs 134528"),
    "npy deleted": (npy, lambda d, X: (d / "x.npy").unlink(), r"x.npy no longer holds X: it was deleted or moved"),
    "one number of npy": (npy, one_number, f"x.npy {CHANGED}"),
    "two rows of npy": (npy, two_rows, f"x.npy {CHANGED}"),
    "npy replaced": (npy, replaced, f"x.npy {CHANGED}"),
    "columns of npy cut off": (columns_of_npy, lambda d, X: os.truncate(d / "x.npy", 9_000), "has 9000 bytes, but X"),
    "one number of columns": (columns_of_npy, one_number, f"x.npy {CHANGED}"),
    "Zarr deleted": (zarr_array, lambda d, X: shutil.rmtree(d / "x.zarr"), f"x.zarr {CHANGED}"),
    "Zarr chunk deleted": (zarr_array, lambda d, X: (d / "x.zarr/c/9/1").unlink(), f"x.zarr {CHANGED}"),
    "Zarr chunk cut off": (
        zarr_array,
        lambda d, X: os.truncate(d / "x.zarr/c/9/1", 20),
        "Rows 480 to .* cannot",
    ),
    "Zarr chunk written": (zarr_array, chunk_written, f"x.zarr {CHANGED}"),
    "HDF5 shrunken": (hdf5, lambda d, X: X.resize((500, M)), r"X had shape \(700, 24\).*has \(500, 24\) now"),
    "HDF5 written": (hdf5, lambda d, X: X.write_direct(2 * data()), f"x.h5 {CHANGED}"),
    "HDF5 closed": (hdf5, lambda d, X: X.file.close(), r"Rows 0 to \d+ of X cannot be read from .*x.h5"),
    "HDF5 cut off": (flat_hdf5, lambda d, X: os.truncate(d / "x.h5", 80_000), f"x.h5 {CHANGED}"),
}


@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
@pytest.mark.parametrize("name", HARMS)
def test_a_change_ends_the_fit(name: str, solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next iteration says what happened; the estimator is as after the fit before."""
    make, harm, text = HARMS[name]
    X, iterations = make(tmp_path), []
    model = DSPNMF(2, solver=solver, tol=0, max_iter=5, random_state=0).fit(data()[:50])
    before = copy.deepcopy(vars(model))

    def watch(_: Any, iteration: int, value: float) -> None:
        iterations.append(iteration)
        if iteration == 2:
            harm(tmp_path, X)

    monkeypatch.setattr(base.Factorization, "_log", watch)
    with pytest.raises(OSError, match=text):
        model.fit(X)
    assert iterations == [1, 2]
    assert_same(vars(model), before)


def in_the_middle(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something when the second slab has been read for the first time."""
    read = file_slabs.SlabReader._read

    def watched(self: Any, source: Any, lo: int, hi: int, out: np.ndarray) -> None:
        read(self, source, lo, hi, out)
        if lo > 0 and act is not None:
            monkeypatch.setattr(file_slabs.SlabReader, "_read", read)
            act()

    monkeypatch.setattr(file_slabs.SlabReader, "_read", watched)


@pytest.mark.parametrize(
    ("make", "harm", "text"),
    [
        (zarr_array, lambda d: (d / "x.zarr/c/9/1").unlink(), "x.zarr has lost a part of X since the fit began"),
        (zarr_array, lambda d: shutil.rmtree(d / "x.zarr"), "x.zarr no longer holds X: it was deleted or moved"),
        (flat_hdf5, lambda d: os.truncate(d / "x.h5", 80_000), "x.h5 has lost a part of X since the fit began"),
    ],
    ids=["Zarr chunk deleted", "Zarr deleted", "HDF5 cut off"],
)
def test_what_is_lost_in_the_first_reading(
    make: Callable[[Path], Any],
    harm: Callable[[Path], object],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that read as zeros the first time are not taken for data, in fit and transform."""
    model = NMF(2, random_state=0, max_iter=5, tol=0).fit(data())
    for method in (NMF(2, max_iter=5).fit, model.transform):
        folder = tmp_path / method.__name__
        folder.mkdir()
        X = make(folder)
        in_the_middle(lambda folder=folder: harm(folder), monkeypatch)  # type: ignore[misc]
        with pytest.raises(OSError, match=text):
            method(X)


def test_a_store_that_was_deleted_before(tmp_path: Path) -> None:
    """An array whose store is gone is not an array of zeros."""
    X = zarr_array(tmp_path)
    shutil.rmtree(tmp_path / "x.zarr")
    with pytest.raises(OSError, match=r"x\.zarr no longer holds X"):
        NMF(2).fit(X)


def test_chunks_that_were_never_written(tmp_path: Path) -> None:
    """Chunks of a Zarr array that are not stored are zeros, as ever."""
    X = zarr.create_array(str(tmp_path / "x.zarr"), shape=(N, M), chunks=(60, 8), dtype="f8")
    X[100:400] = data()[100:400]
    model, expected = (NMF(2, random_state=0, max_iter=5, tol=0) for _ in range(2))
    expected.fit(np.asarray(X[:]))
    np.testing.assert_allclose(model.fit(X).objective_history_, expected.objective_history_, rtol=1e-9)


_TRUNCATED = """
import os, sys, numpy as np
from dspnmf import NMF
from dspnmf.estimators import base
for path in sys.argv[1:]:
    X = np.load(path, mmap_mode="r")
    base.Factorization._log = lambda _, i, value: os.truncate(path, 500) if i == 2 else None
    print(repr(NMF(2, random_state=0, max_iter=5, tol=0).fit(X).objective_))
"""


def test_small_maps_are_out_of_reach(tmp_path: Path) -> None:
    """A memory map that fits into memory is read once: a file that is cut off later does not matter."""
    paths = [str(tmp_path / f"{order}.npy") for order in "CF"]
    for path, order in zip(paths, "CF", strict=True):
        np.save(path, np.asarray(data(), order=order))  # type: ignore[call-overload]
    expected = NMF(2, random_state=0, max_iter=5, tol=0).fit(data()).objective_
    done = subprocess.run([sys.executable, "-c", _TRUNCATED, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, rtol=1e-9)


def no_space(path: Path) -> Any:
    """`complete` on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@pytest.fixture
def undisturbed(wine: np.ndarray) -> np.ndarray:
    """The history of a fit without a checkpoint."""
    return DSPNMF(3, random_state=0, max_iter=12, tol=0).fit(wine).objective_history_


@pytest.mark.parametrize("fault", ["no space", "folder gone"])
def test_a_checkpoint_that_cannot_be_written(
    fault: str, undisturbed: np.ndarray, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning, the fit goes on, and writes again as soon as it can; the result is the same to the last bit."""
    folder, complete, written = tmp_path / "folder", checkpoint.complete, []
    folder.mkdir()

    def watch(_: Any, iteration: int, value: float) -> None:
        if iteration in (4, 8):
            written.append((folder / "fit.npz").exists())
        if iteration == 2 and fault == "no space":
            monkeypatch.setattr(checkpoint, "complete", no_space)
            (folder / "fit.npz").unlink()
        elif iteration == 2:
            shutil.rmtree(folder)
        elif iteration == 5:
            monkeypatch.setattr(checkpoint, "complete", complete)
            folder.mkdir(exist_ok=True)

    monkeypatch.setattr(base.Factorization, "_log", watch)
    model = DSPNMF(3, random_state=0, max_iter=12, tol=0)
    with pytest.warns(RuntimeWarning, match=r"fit.npz' cannot be written .*The fit goes on") as seen:
        model.fit(wine, checkpoint_path=folder / "fit.npz", checkpoint_every=0)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert written == [False, True]
    np.testing.assert_array_equal(model.objective_history_, undisturbed)
    assert list(folder.iterdir()) == []


def test_a_checkpoint_that_cannot_be_removed(
    undisturbed: np.ndarray, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes of a fit that is done are not lost over the file it no longer needs."""
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: no_space(self))
    with pytest.warns(RuntimeWarning, match="cannot be written or removed") as seen:
        model = DSPNMF(3, random_state=0, max_iter=12, tol=0).fit(wine, checkpoint_path=tmp_path / "fit.npz")
    assert len(seen) == 1
    np.testing.assert_array_equal(model.objective_history_, undisturbed)


def test_what_a_killed_write_left_is_removed(wine: np.ndarray, tmp_path: Path) -> None:
    """A fit that is done leaves neither a checkpoint nor a part of one."""
    (tmp_path / "fit.npz.part").write_bytes(b"half")
    NMF(3, random_state=0, max_iter=5, tol=0).fit(wine, checkpoint_path=tmp_path / "fit.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The objective after every iteration, as the stopping rule sees it."""
    seen: list[float] = []
    monkeypatch.setattr(base.Factorization, "_log", lambda _, i, value: seen.append(value))
    return seen


def test_the_warning_names_the_change_of_the_last_iteration(histories: list[float]) -> None:
    """Data that the last codes fit exactly: the change is the one the stopping rule saw, not that to zero."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = NMF(6, solver="hals", inner_iter=20, random_state=0, max_iter=2).fit(np.eye(6))
    before, last = histories[-2:]
    assert model.objective_history_[-1] < 1e-4 * last  # the codes that end the fit change it by far more
    assert [warning.category for warning in seen] == [ConvergenceWarning]
    assert f"changed by {abs(before - last) / last:.1e} of its value" in str(seen[0].message)
