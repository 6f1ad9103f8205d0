"""NumPy files and Zarr stores become tables; pickles in them are never loaded."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from scipy import sparse

import fuzz_files
from dspnmf.io import ReadError, arrays, limits, read
from io_helpers import THIN, X


def test_npy(tmp_path: Path) -> None:
    """float32 stays float32, everything else becomes float64, in any order of bytes and of axes."""
    for dtype in ("f4", ">f4", "f8", ">f8", "f2", "i4", "u1", "?", ">u2"):
        for order in ("C", "F"):
            values = np.asarray(9 * X, dtype=dtype, order=order)
            np.save(tmp_path / "x.npy", values)
            found = read(tmp_path / "x.npy")
            assert found.X.dtype == (np.float32 if dtype.endswith("f4") else np.float64)
            assert np.array_equal(found.X, values.astype(float))
    assert found.features.tolist() == ["x0", "x1", "x2", "x3"]
    assert found.index.tolist() == list("012345")


def test_large_npy_stays_in_the_file(tmp_path: Path) -> None:
    """Above 1 GiB X is a memory map, so that a fit reads it piece by piece."""
    with (tmp_path / "x.npy").open("wb") as file:  # a file with a hole: it takes no room
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**15, 2**14)})
        file.truncate(file.tell() + 2**31)
    found = read(tmp_path / "x.npy")
    assert isinstance(found.X, np.memmap)
    assert found.X.shape == (len(found.index), len(found.features)) == (2**15, 2**14)


def test_large_arrays_stay_in_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for Zarr arrays, which are what a fit takes."""
    monkeypatch.setattr(arrays, "IN_MEMORY", 10)
    zarr.save_array(tmp_path / "x.zarr", X)
    found = read(tmp_path / "x.zarr").X
    assert isinstance(found, zarr.Array)
    assert np.array_equal(found[...], X)


def test_npz(tmp_path: Path) -> None:
    """The only matrix of an archive is X, another is asked for by name, and an array of it may be the labels."""
    y = np.array(["a", "b"] * 3)
    np.savez_compressed(tmp_path / "x.npz", data=X, y=y)
    found = read(tmp_path / "x.npz", label="y")
    assert np.array_equal(found.X, X)
    assert found.labels is not None
    assert found.labels.tolist() == y.tolist()
    np.savez(tmp_path / "x.npz", a=X, b=X[:3])
    assert read(tmp_path / "x.npz", variable="b").X.shape == (3, 4)
    with pytest.raises(ReadError, match=r"2 arrays of samples x features: 'a' \(6, 4\), 'b' \(3, 4\). Name one"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia", "bsr"])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_npz(tmp_path: Path, form: str, make: Callable[[Any], Any]) -> None:
    """What scipy.sparse.save_npz writes becomes a CSR array and is never made dense."""
    sparse.save_npz(tmp_path / "x.npz", make(THIN).asformat(form))
    found = read(tmp_path / "x.npz")
    assert isinstance(found.X, sparse.csr_array)
    assert np.array_equal(found.X.toarray(), THIN.toarray())


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(tmp_path: Path, version: int) -> None:
    """An array, or a group with one; labels beside it."""
    array = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, dtype="f4", chunks=(2, 4), zarr_format=version)
    array[:] = X
    assert np.array_equal(read(tmp_path / "x.zarr").X, X.astype("f4"))
    group = zarr.open_group(tmp_path / "folder", mode="w", zarr_format=version)
    group.create_array("a/X", data=X)
    group.create_array("y", data=np.arange(6))
    found = read(tmp_path / "folder", label="y")
    assert np.array_equal(found.X, X)
    assert found.labels is not None
    assert found.labels.tolist() == list(range(6))


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """Pickles in .npy, .npz and Zarr files are refused, and never loaded."""
    bombs = np.array([[Bomb(tmp_path / "exploded")]], dtype=object)
    np.save(tmp_path / "x.npy", bombs, allow_pickle=True)
    np.savez(tmp_path / "x.npz", allow_pickle=True, X=bombs, y=np.ones((2, 2)))
    meta = {"zarr_format": 2, "shape": [1, 1], "chunks": [1, 1], "dtype": "|O", "compressor": None, "order": "C"}
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "0.0").write_bytes(pickle.dumps(bombs))
    for dtype in ("|O", "<f8"):
        told = {**meta, "dtype": dtype, "fill_value": 0, "filters": [{"id": "pickle"}]}
        (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps(told))
        with pytest.raises(ReadError):
            read(tmp_path / "x.zarr")
    with pytest.raises(ReadError, match="Python objects, which are never loaded"):
        read(tmp_path / "x.npy")
    with pytest.raises(ReadError, match="Python objects, which are never loaded"):
        read(tmp_path / "x.npz", variable="X")
    assert not (tmp_path / "exploded").exists()


def test_shapes_and_types_that_are_no_tables(tmp_path: Path) -> None:
    """One dimension, three, none at all, nothing in it, and complex numbers are refused, with what to do."""
    cases = [
        (np.ones(3), r"shape \(3,\), but must have two dimensions"),
        (np.ones((2, 2, 2)), r"X\.reshape\(len\(X\), -1\) for pictures"),
        (np.ones((0, 3)), "there is nothing in it"),
        (np.ones((2, 2)) * 1j, "holds 'complex128', but must hold real numbers"),
    ]
    for array, says in cases:
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(ReadError, match=says):
            read(tmp_path / "x.npy")


def test_archives_write_nothing(tmp_path: Path) -> None:
    """Names in archives that point elsewhere are only names."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("../../out.npy", fuzz_files.whole_files()["c.npy"])
    assert read(tmp_path / "x.npz").X.shape == (fuzz_files.ROWS, fuzz_files.COLUMNS)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]
    assert arrays.IN_MEMORY == limits.IN_MEMORY
