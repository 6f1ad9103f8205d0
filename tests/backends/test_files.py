"""X in a file: the same fit as in memory, read once an iteration, in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from dspnmf import DSPNMF, FRNMF, GNMF, NMF, SDNMF
from dspnmf.backends import file, norms
from dspnmf.backends import file_slabs as reading
from dspnmf.estimators import base

N, M, K = 700, 23, 4


def data(dtype: Any = np.float64, n: int = N, m: int = M) -> np.ndarray:
    """Mostly noise: the objective is not small against the norms it is a difference of."""
    rng = np.random.default_rng(0)
    X = rng.random((n, m))
    return np.where(X < 0.7, 0.1 * rng.random((n, 3)) @ rng.random((3, m)), X).astype(dtype)


def npy(X: np.ndarray, folder: Path) -> Any:
    """A memory map."""
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def zarr_array(X: np.ndarray, folder: Path) -> Any:
    """A Zarr array whose chunks hold parts of rows."""
    A = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(60, 13), dtype=X.dtype)
    A[:] = X
    return A


def hdf5(X: np.ndarray, folder: Path) -> Any:
    """An HDF5 dataset with chunks of rows."""
    return h5py.File(folder / "x.h5", "w").create_dataset("X", data=X, chunks=(90, X.shape[1]))


STORES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "npy": npy,
    "some rows of npy": lambda X, folder: npy(np.vstack([X[:5], X, X[:9]]), folder)[5:-9],
    "some columns of npy": lambda X, folder: npy(np.hstack([X, X]), folder)[:, : X.shape[1]],
    "Fortran npy": lambda X, folder: npy(np.asfortranarray(X), folder),
    "Zarr": zarr_array,
    "HDF5": hdf5,
    "HDF5 with tall chunks": lambda X, folder: h5py.File(folder / "z.h5", "w").create_dataset(
        "X", data=X, chunks=(450, X.shape[1])
    ),
    "HDF5 without chunks": lambda X, folder: h5py.File(folder / "y.h5", "w").create_dataset("X", data=X),
}


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every memory map counts as larger than memory, and is read in slabs of a few hundred rows at most."""
    monkeypatch.setattr(file, "IN_MEMORY", 0)
    monkeypatch.setattr(reading, "SLAB", 30_000)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of every read of a file."""
    seen, read = [], reading._Contiguous._read

    def counted(self: Any, file: Any, lo: int, hi: int, out: Any) -> None:
        seen.append(hi - lo)
        read(self, file, lo, hi, out)

    monkeypatch.setattr(reading._Contiguous, "_read", counted)
    return seen


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
def test_same_fit_as_in_memory(store: str, dtype: Any, solver: str, tmp_path: Path) -> None:
    """From the same start, files of every kind give the history, codes and transform of the array in memory."""
    X = data(dtype)
    expected = DSPNMF(K, solver=solver, max_iter=50, tol=0, random_state=0)
    Z = expected.fit_transform(X)
    stored = STORES[store](X, tmp_path)
    model = DSPNMF(K, solver=solver, max_iter=50, tol=0, random_state=0)
    Y = model.fit_transform(stored)
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=tolerance)
    assert Y.dtype == dtype
    if dtype == np.float64:
        np.testing.assert_allclose(Y, Z, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(model.transform(stored), model.transform(X), rtol=1e-9, atol=1e-9)
    assert model.reconstruction_err_ == pytest.approx(expected.reconstruction_err_, rel=10 * tolerance)
    assert model.structure_err_ == pytest.approx(expected.structure_err_, rel=10 * tolerance)


@pytest.mark.parametrize("solver", ["auto", "mm", "paper", "paper-appendix"])
@pytest.mark.parametrize("cls", [DSPNMF, NMF])
def test_other_solvers(cls: type, solver: str, tmp_path: Path) -> None:
    """Multiplicative rules work on files too, and "auto" is hals there."""
    X = data()
    expected = cls(K, solver="hals" if solver == "auto" else solver, max_iter=20, tol=0, random_state=0).fit(X)
    model = cls(K, solver=solver, max_iter=20, tol=0, random_state=0).fit(npy(X, tmp_path))
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)


def holes() -> np.ndarray:
    """A fifth of the cells missing, one row and one column nearly so."""
    X, rng = data(), np.random.default_rng(4)
    missing = rng.random(X.shape) < 0.2
    missing[7, 1:], missing[3:, 5] = True, True
    return np.where(missing, np.nan, X)


def labels() -> np.ndarray:
    """Three classes; half of the rows have no label."""
    return np.where(np.arange(N) % 2 == 0, np.arange(N) % 3, -1)


EXTRAS: dict[str, tuple[dict[str, Any], Callable[[], np.ndarray], bool]] = {  # parameters, X, whether with labels
    "labels": ({"label_weight": 0.7}, data, True),
    "missing cells": ({"missing": "mask"}, holes, False),
    "both": ({"label_weight": 0.7, "missing": "mask"}, holes, True),
    "cosines": ({"similarity": "cosine"}, data, False),
    "cosines and labels": ({"similarity": "cosine", "label_weight": 0.7}, data, True),
}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("codes_in_a_file", [False, True])
def test_labels_cosines_and_missing_cells(extra: str, alpha: float, codes_in_a_file: bool, tmp_path: Path) -> None:
    """Further columns and completed cells are those of memory: history, codes, components, errors and transform."""
    parameters, make, labelled = EXTRAS[extra]
    X, y = make(), labels() if labelled else None
    stored, more = npy(X, tmp_path), {"codes_path": tmp_path / "codes.npy"} if codes_in_a_file else {}
    fits = [DSPNMF(K, alpha=alpha, solver="hals", max_iter=20, tol=0, random_state=0, **parameters) for _ in range(2)]
    Z, Y = fits[0].fit_transform(X, y), fits[1].fit_transform(stored, y, **more)
    np.testing.assert_allclose(Y, Z, rtol=1e-9, atol=1e-9)
    for name in ("objective_history_", "components_", "reconstruction_err_", "structure_err_", "objective_"):
        np.testing.assert_allclose(getattr(fits[1], name), getattr(fits[0], name), rtol=1e-9, atol=1e-9)
    if labelled:
        np.testing.assert_allclose(fits[1].label_components_, fits[0].label_components_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fits[0].transform(stored), fits[0].transform(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fits[1].transform(stored), fits[0].transform(X), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("solver", ["newton-cg", "mm"])
@pytest.mark.parametrize("extra", ["both", "cosines and labels"])
def test_extras_with_other_solvers(extra: str, solver: str, tmp_path: Path) -> None:
    """And so they are for the other solvers."""
    parameters, make, _ = EXTRAS[extra]
    X = make()
    model, expected = (DSPNMF(K, solver=solver, max_iter=15, tol=0, random_state=1, **parameters) for _ in range(2))
    model.fit(npy(X, tmp_path), labels())
    np.testing.assert_allclose(model.objective_history_, expected.fit(X, labels()).objective_history_, rtol=1e-9)


def test_several_starts_with_missing_cells(tmp_path: Path) -> None:
    """Every start begins with the column means again."""
    model, expected = (NMF(K, missing="mask", n_init=3, max_iter=10, tol=0, random_state=1) for _ in range(2))
    model.fit(npy(holes(), tmp_path)), expected.fit(holes())
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)
    np.testing.assert_allclose(model.stability_, expected.stability_, rtol=1e-9)


@pytest.mark.parametrize(
    ("X", "parameters", "text"),
    [
        (np.full((N, M), np.nan), {"missing": "mask"}, "All 700 x 23 cells of X are missing"),
        (np.where(np.isnan(holes()), -1.0, holes()), {"missing": "mask"}, r"Negative values .*X\[0, "),
        (holes(), {}, r'contains NaN, first at X\[.*missing="mask"'),
        (holes(), {"missing": "mask", "similarity": "cosine"}, "needs complete rows"),
    ],
    ids=["nothing known", "negative", "not asked for", "cosines"],
)
def test_cells_that_are_refused(X: np.ndarray, parameters: dict[str, Any], text: str, tmp_path: Path) -> None:
    """What cannot be completed is refused as in memory."""
    with pytest.raises(ValueError, match=text):
        DSPNMF(2, **parameters).fit(npy(X, tmp_path))


@pytest.mark.parametrize("slab", [1, 5_000, 2**24])
@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
def test_slabs_of_any_size(slab: int, solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs of one row and of all rows give the same fit."""
    monkeypatch.setattr(reading, "SLAB", slab)
    X = data(n=150)
    expected = DSPNMF(K, solver=solver, max_iter=15, tol=0, random_state=0).fit(X)
    model = DSPNMF(K, solver=solver, max_iter=15, tol=0, random_state=0).fit(npy(X, tmp_path))
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)


@pytest.mark.parametrize("shape", [(N, M), (12, 300)])
@pytest.mark.parametrize("held", [1, 60, 900, 2**24])
def test_norms(shape: tuple[int, int], held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean, ||X||^2, ||XX'||^2 and the residuals, however little may be held, for X of any size of numbers."""
    monkeypatch.setattr(norms, "HELD", held)
    for number, unit in enumerate((1.0, 1e-120, 1e70)):
        X = data(n=shape[0], m=shape[1]) * unit
        X[: len(X) // 2] /= 1e9  # the largest numbers come late
        (tmp_path / str(number)).mkdir()
        checked = file.FILE.check(NMF(), npy(X, tmp_path / str(number)), reset=True)
        largest = checked.largest
        rows = checked.rows(K, largest)
        rng, A = np.random.default_rng(3), X / largest
        U, V = rng.random((shape[0], K)), rng.random((K, shape[1]))
        rows.begin(U.copy())
        assert largest == X.max()
        assert checked.mean() == pytest.approx(X.mean(), rel=1e-12)
        assert checked.norm2(largest) == pytest.approx(np.sum(A**2), rel=1e-12)
        assert checked.gram_norm2(largest) == pytest.approx(np.sum((A @ A.T) ** 2), rel=1e-12)
        assert rows.residual2(V.T) == pytest.approx(np.sum((A - U @ V) ** 2), rel=1e-12)
        assert rows.gram_residual2() == pytest.approx(np.sum((A @ A.T - U @ U.T) ** 2), rel=1e-10)


def test_the_gram_matrix_takes_one_read(tmp_path: Path, reads: list[int]) -> None:
    """Up to 4,096 features, ||X'X||^2 is had from one read: that which checks X, where a fit preserves XX'."""
    checked = file.FILE.check(NMF(), npy(data(), tmp_path), reset=True)
    checked.mean(), checked.norm2(1.0)
    assert sum(reads) // checked.shape[0] == 1
    found = checked.gram_norm2(3.0)
    assert sum(reads) // checked.shape[0] == 2
    reads.clear()
    assert file.FILE.check(DSPNMF(), npy(data(), tmp_path), reset=True).gram_norm2(3.0) == pytest.approx(found, 1e-14)
    assert sum(reads) // checked.shape[0] == 1


@pytest.mark.parametrize(("solver", "each"), [("hals", 1), ("newton-cg", 2)])
def test_reads_per_iteration(solver: str, each: int, tmp_path: Path, reads: list[int]) -> None:
    """An iteration of hals reads the file once, of newton-cg twice; what is around the iterations takes eight reads."""
    X = npy(data(), tmp_path)
    counts = []
    for iterations in (13, 20):
        reads.clear()
        DSPNMF(K, solver=solver, max_iter=iterations, tol=0, random_state=0).fit(X)
        counts.append(sum(reads) // len(X))
    assert counts[1] - counts[0] == 7 * each
    assert counts[0] <= 13 * each + 8


@pytest.mark.parametrize("dtype", ["<i4", "u1", "?", "<f2", ">f8", ">f4", ">i2"])
def test_other_types_become_what_scikit_learn_makes_of_them(dtype: str, tmp_path: Path) -> None:
    """Integers and numbers of another byte order are converted slab by slab, as in memory."""
    X = (10 * data()).astype(dtype)
    for stored in (npy(X, tmp_path), np.asfortranarray(X)):
        model = NMF(K, random_state=0, max_iter=5, tol=0)
        Z = model.fit_transform(stored)
        expected = NMF(K, random_state=0, max_iter=5, tol=0).fit_transform(np.ascontiguousarray(X))
        assert Z.dtype == expected.dtype
        np.testing.assert_allclose(Z, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("solver", ["hals", "newton-cg", "mm"])
def test_codes_in_a_file(solver: str, tmp_path: Path) -> None:
    """`codes_path` names a .npy that holds the codes when fit or transform return, and nothing else is left behind."""
    X = data()
    stored = npy(X, tmp_path)
    model = DSPNMF(K, solver=solver, max_iter=10, tol=0, random_state=0, n_init=2)
    expected = model.fit_transform(stored)
    Z = model.fit_transform(stored, codes_path=tmp_path / "codes.npy")
    assert isinstance(Z, np.memmap)
    np.testing.assert_array_equal(Z, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), expected)
    model.fit(stored, codes_path=str(tmp_path / "again.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "again.npy"), expected)
    np.testing.assert_array_equal(model.transform(stored, codes_path=tmp_path / "new.npy"), model.transform(stored))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"x.npy", "codes.npy", "again.npy", "new.npy"}


@pytest.mark.parametrize("cls", [DSPNMF, GNMF, FRNMF, SDNMF])
def test_codes_in_a_file_while_X_is_in_memory(cls: type, tmp_path: Path) -> None:
    """`codes_path` works for arrays in memory too, for every method of the shared loop."""
    X = data(n=60)
    model = cls(K, random_state=0, max_iter=5, tol=0)
    expected = model.fit_transform(X)
    np.testing.assert_array_equal(model.fit_transform(X, codes_path=tmp_path / "codes.npy"), expected)


def bad(value: float) -> np.ndarray:
    """One cell far down the file is not allowed."""
    X = data()
    X[531, 7] = value
    return X


BAD = [
    (lambda folder: npy(bad(np.nan), folder), r"contains NaN, first at X\[531, 7\] = nan.*SimpleImputer"),
    (lambda folder: hdf5(bad(np.inf), folder), r"contains infinity, first at X\[531, 7\] = inf"),
    (lambda folder: zarr_array(bad(-0.5), folder), r"Negative values .*X\[531, 7\] = -0.5.*MinMaxScaler"),
    (lambda folder: npy(data()[0], folder), r"Expected 2D array, got 1D array.*shape \(23,\)"),
    (lambda folder: npy(data() + 1j, folder), "Complex data not supported"),
    (lambda folder: zarr_array(data(), folder)[:, 0], "Expected 2D array"),
    (lambda folder: h5py.File(folder / "g.h5", "w").create_dataset("X", data=h5py.Empty("f4")), "got 0D array"),
    (lambda folder: h5py.File(folder / "e.h5", "w").create_dataset("X", (0, 5), "f4"), "0 sample"),
    (lambda folder: h5py.File(folder / "f.h5", "w").create_dataset("X", (5, 0), "f4"), "0 feature"),
]


@pytest.mark.parametrize(("make", "text"), BAD)
def test_bad_files(make: Callable[[Path], Any], text: str, tmp_path: Path) -> None:
    """Bad data are refused as in memory, the cell named by its row in the file."""
    with pytest.raises(ValueError, match=text):
        NMF(2).fit(make(tmp_path))


def test_a_group_is_not_an_array(tmp_path: Path) -> None:
    """A file that holds arrays is refused with the way to name one."""
    with pytest.raises(TypeError, match=r"X is a h5py File.* pass one of them, for example X\['data'\]"):
        NMF(2).fit(h5py.File(tmp_path / "x.h5", "w"))
    with pytest.raises(TypeError, match="X is a zarr Group"):
        NMF(2).fit(zarr.create_group(str(tmp_path / "g.zarr")))


def test_what_needs_all_of_X(tmp_path: Path) -> None:
    """Methods, starts and similarities that need all of X in memory say so."""
    X = npy(data(), tmp_path)
    for model in (GNMF(2), FRNMF(2), SDNMF(2)):
        name = type(model).__name__
        with pytest.raises(ValueError, match=f"{name} needs all of X in memory.*but X is in a file: use DSPNMF or NMF"):
            model.fit(X)
    with pytest.raises(ValueError, match='use init="random"'):
        NMF(2, init="nndsvd").fit(X)
    with pytest.raises(ValueError, match='use similarity="gram"'):
        DSPNMF(2, similarity="knn").fit(X)


def test_chunks_that_are_too_tall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose chunks cannot be held is refused before it is read."""
    monkeypatch.setattr(reading, "CHUNK", 1000)
    with pytest.raises(ValueError, match=r"chunks of shape \(90, 23\).*16560 bytes.*at most 1000.*fewer rows"):
        NMF(2).fit(hdf5(data(), tmp_path))


def test_other_features_in_transform(tmp_path: Path) -> None:
    """A file must have the features of the fit."""
    model = NMF(2, random_state=0).fit(data())
    with pytest.raises(ValueError, match="X has 5 features, but NMF is expecting 23 features"):
        model.transform(npy(data()[:, :5], tmp_path))


def at_iteration(number: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something in the middle of a fit."""
    monkeypatch.setattr(base.Factorization, "_log", lambda _, i, value: act() if i == number else None)


@pytest.mark.parametrize("columns", [slice(None), slice(0, 20)])
def test_a_file_that_is_cut_off(columns: slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that becomes shorter, before a fit or during it, is an error with both lengths and not a crash."""
    X = npy(data(), tmp_path)[:, columns]
    path = tmp_path / "x.npy"
    at_iteration(3, lambda: os.truncate(path, 9_000), monkeypatch)
    with pytest.raises(OSError, match=r"x.npy has 9000 bytes, but X needs 128928: the file was cut off"):
        NMF(2, tol=0, max_iter=10).fit(X)
    os.truncate(path, 0)
    with pytest.raises(OSError, match=r"x.npy has 0 bytes, but X needs 128928: the file was cut off"):
        NMF(2, tol=0, max_iter=10).fit(X)


def test_a_file_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file written to during a fit, or replaced since it was opened, is an error."""
    X = npy(data(), tmp_path)
    at_iteration(3, lambda: np.save(tmp_path / "x.npy", 2 * data()), monkeypatch)
    with pytest.raises(OSError, match=r"x.npy was changed since X was opened or the fit began: rows \d+ to"):
        NMF(2, tol=0, max_iter=10).fit(X)
    X = npy(data(), tmp_path)
    np.save(tmp_path / "new.npy", data()[::-1])
    (tmp_path / "new.npy").replace(tmp_path / "x.npy")
    with pytest.raises(OSError, match=r"x.npy was changed since X was opened or the fit began: rows \d+ to"):
        NMF(2).fit(X)


def test_an_array_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Zarr array that changes its shape during a fit is an error."""
    X = zarr_array(data(), tmp_path)
    at_iteration(3, lambda: X.resize((N + 5, M)), monkeypatch)
    with pytest.raises(OSError, match=r"X had shape \(700, 23\) when the fit began and has \(705, 23\) now"):
        NMF(2, tol=0, max_iter=10).fit(X)


def test_changes_nobody_saved_are_seen(tmp_path: Path) -> None:
    """A copy-on-write map is read as it is in memory, not as it is in the file."""
    np.save(tmp_path / "x.npy", data())
    X = np.load(tmp_path / "x.npy", mmap_mode="c")
    X[:100] *= 3
    expected = NMF(K, random_state=0, max_iter=5, tol=0).fit(np.array(X))
    model = NMF(K, random_state=0, max_iter=5, tol=0).fit(X)
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)


def test_codes_are_not_written_over_X(tmp_path: Path) -> None:
    """The file X is read from is not for codes, and neither is a folder that does not exist."""
    X = npy(data(), tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.npy").symlink_to(tmp_path / "x.npy")
    (tmp_path / "twin.npy").hardlink_to(tmp_path / "x.npy")
    for name in ("x.npy", "sub/../x.npy", "link.npy", "twin.npy"):
        with pytest.raises(ValueError, match="is the file X is read from"):
            NMF(2).fit(X, codes_path=tmp_path / name)
    with pytest.raises(ValueError, match="is the file X is read from"):
        NMF(2).fit(hdf5(data(), tmp_path), codes_path=tmp_path / "x.h5")
    model = NMF(2, random_state=0).fit(data())
    with pytest.raises(ValueError, match=r"is in the folder X is read from, '.*x\.zarr'"):
        model.transform(zarr_array(data(), tmp_path), codes_path=tmp_path / "x.zarr" / "codes.npy")
    with pytest.raises(ValueError, match="must name a file in a folder that exists"):
        NMF(2).fit(X, codes_path=tmp_path / "nowhere" / "codes.npy")
    with pytest.raises(TypeError, match=r"codes_path=3 is not allowed: it must be the path of a file"):
        NMF(2).fit(X, codes_path=3)


def test_maps_that_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small maps and those joblib makes for its workers are arrays in memory; Zarr and HDF5 never are."""
    X = npy(data(), tmp_path)
    assert file.backend_for(X) is file.FILE
    (tmp_path / "joblib_memmapping_folder_1").mkdir()
    assert file.backend_for(npy(data(), tmp_path / "joblib_memmapping_folder_1")).name == "in memory"
    monkeypatch.setattr(file, "IN_MEMORY", 2**30)
    assert file.backend_for(X).name == "in memory"
    assert file.backend_for(zarr_array(data(), tmp_path)).name == "in a file"


_MEASURED = """
import sys, resource, numpy as np
from dspnmf import DSPNMF
from dspnmf.backends import file
path, codes = sys.argv[1], sys.argv[2] or None
def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
X = np.load(path, mmap_mode="r")
np.save(path + ".few.npy", X[:5000])
file.IN_MEMORY = 0
def fit(A, **more): return DSPNMF(3, max_iter=2, tol=0, random_state=0).fit(A, **more)
few = np.load(path + ".few.npy", mmap_mode="r")
fit(few, codes_path=codes).transform(few)
before = peak()
model = fit(X, codes_path=codes)
model.transform(X, codes_path=codes)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory from /proc")
@pytest.mark.parametrize("on_disk", [False, True])
def test_memory(on_disk: bool, tmp_path: Path) -> None:
    """Fit and transform of a 0.5 GB file hold two slabs and three arrays of the codes' shape; without codes, slabs."""
    n, m = 400_000, 300
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(n, m))
    X[:: n // 50] = data(np.float32, 50, m)  # the rest of the file is a hole
    del X
    codes = tmp_path / "codes.npy" if on_disk else ""
    command = [sys.executable, "-c", _MEASURED, str(tmp_path / "x.npy"), str(codes)]
    used = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (tmp_path / "x.npy").unlink()
    slabs, spare = 2 * 2**24, 2**26
    assert used < slabs + spare + (0 if on_disk else 3 * n * 3 * 4)


@pytest.mark.parametrize(("cls", "readings"), [(DSPNMF, 5), (NMF, 4)])
def test_readings_of_a_whole_fit(cls: Any, readings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X is read once for all its facts, once or twice for the start, once an iteration, and twice for the codes."""
    X, rows, iterations = npy(data(np.float32), tmp_path), 0, 3
    read = reading.SlabReader._read

    def counted(self: Any, source: Any, lo: int, hi: int, out: np.ndarray) -> None:
        nonlocal rows
        rows += hi - lo
        read(self, source, lo, hi, out)

    monkeypatch.setattr(reading.SlabReader, "_read", counted)
    cls(K, solver="hals", max_iter=iterations, tol=0, random_state=0).fit(X)
    assert rows == N * (readings + iterations)
