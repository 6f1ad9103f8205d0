"""Arrays, stores, MATLAB files, Parquet and pictures become tables; what is damaged or too clever is refused."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from PIL import Image
from scipy import io as sio
from scipy import sparse

import fuzz_files
from dspnmf.io import ReadError, Table, _child, child_process, hdf5, limits, numpy_files, read, zarr_store

X = np.random.default_rng(0).random((6, 4)).round(2)
THIN = sparse.csr_array(np.where(X > 0.5, X, 0))


def dense(table: Table) -> np.ndarray:
    """X of a table as an array."""
    return table.X.toarray() if sparse.issparse(table.X) else table.X


def write_hdf5(path: Path, **content: Any) -> Path:
    """An HDF5 file of arrays."""
    with h5py.File(path, "w") as file:
        for name, array in content.items():
            file[name] = array
    return path


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


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_large_arrays_stay_in_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The same for HDF5 datasets and Zarr arrays, which are what a fit takes."""
    for module in (hdf5, zarr_store):
        monkeypatch.setattr(module, "IN_MEMORY", 10)
    if kind == "h5":
        found = read(write_hdf5(tmp_path / "x.h5", X=X)).X
        assert isinstance(found, h5py.Dataset)
    else:
        zarr.save_array(tmp_path / "x.zarr", X)
        found = read(tmp_path / "x.zarr").X
        assert isinstance(found, zarr.Array)
    assert np.array_equal(found[...], X)
    if kind == "h5":
        found.file.close()


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


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_npz(tmp_path: Path, form: str, make: Callable[[Any], Any]) -> None:
    """What scipy.sparse.save_npz writes becomes a CSR array and is never made dense."""
    sparse.save_npz(tmp_path / "x.npz", make(THIN).asformat(form))
    found = read(tmp_path / "x.npz")
    assert isinstance(found.X, sparse.csr_array)
    assert np.array_equal(found.X.toarray(), THIN.toarray())


@pytest.mark.parametrize("packed", [False, True])
def test_matrix_market(tmp_path: Path, packed: bool) -> None:
    """Lists of entries become sparse, full matrices dense; symmetric, integer and pattern ones are understood."""
    square = X[:4] + X[:4].T
    matrices = [THIN, X, sparse.coo_array(square), square, (9 * X).astype(int), sparse.coo_array(X[:4] - X[:4].T)]
    for matrix in matrices:
        content = fuzz_files.market(matrix)
        name = "x.mtx.gz" if packed else "x.mtx"
        (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
        found = read(tmp_path / name)
        assert sparse.issparse(found.X) == sparse.issparse(matrix)
        assert np.allclose(dense(found), matrix.toarray() if sparse.issparse(matrix) else matrix, rtol=1e-14)
    (tmp_path / "p.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n2 2\n")
    assert read(tmp_path / "p.mtx").X.toarray().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ("2 2 1\n1 1\n", "cannot be read .Line 3: Invalid floating-point value"),
        ("2 2 1\n1 x 1\n", "Line 3: Invalid integer value"),
        ("2 2 1\n1 3 1\n", "Line 3: Column index out of bounds"),
        ("2 2 1\n1.5 1 1\n", "Line 3: Invalid integer value"),
        ("2 2 2\n1 1 1  \n\n", "Truncated file. Expected another 1 lines"),
        ("2 2 9999999\n1 1 1\n", "it claims to hold 2 x 2 numbers, 240 MB in memory, but has only"),
        ("1000000000000 2 1\n1 1 1\n", "claims to hold 1,000,000,000,000 x 2 numbers"),
        ("2 2\n1 1 1\n", "it cannot be read .Invalid integer value"),
    ],
)
def test_matrix_market_errors(tmp_path: Path, entries: str, says: str) -> None:
    """An error in a .mtx file names the line."""
    (tmp_path / "x.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n{entries}")
    with pytest.raises(ReadError, match=says):
        read(tmp_path / "x.mtx")


@pytest.mark.parametrize("packed", [False, True])
def test_matlab(tmp_path: Path, packed: bool) -> None:
    """What SciPy writes is read as SciPy reads it: every type, sparse or dense, next to texts and cells."""
    path = tmp_path / "x.mat"
    for dtype in ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"):
        values = (9 * X).astype(dtype)
        other = {"note": "text", "cells": np.array([1, "a"], dtype=object), "record": {"a": 1}, "y": np.arange(6)}
        sio.savemat(path, {"data": values, **other}, do_compression=packed)
        found = read(path, label="y")
        assert np.array_equal(found.X, values)
        assert found.X.dtype == (np.float32 if dtype == "f4" else np.float64)
        assert found.labels is not None
        assert found.labels.tolist() == list(range(6))
    sio.savemat(path, {"S": sparse.csc_array(THIN)}, do_compression=packed)
    assert np.array_equal(read(path).X.toarray(), THIN.toarray())
    sio.savemat(path, {"C": X * 1j, "note": "a" * 9}, do_compression=packed)
    with pytest.raises(ReadError, match="'C' holds 'complex128', but must hold real numbers"):
        read(path)
    with pytest.raises(ReadError, match="'note' holds 'char', but must hold real numbers"):
        read(path, variable="note")


def test_matlab_of_another_machine(tmp_path: Path) -> None:
    """Files of machines with the other order of bytes are read."""
    numbers = X.T.astype(">f8").tobytes()
    parts = struct.pack(">4I", 6, 8, 6, 0) + struct.pack(">2I2i", 5, 8, *X.shape) + struct.pack(">HH4s", 1, 1, b"X")
    parts += struct.pack(">2I", 9, len(numbers)) + numbers
    element = struct.pack(">2I", 14, len(parts)) + parts
    (tmp_path / "x.mat").write_bytes(b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + element)
    assert np.array_equal(read(tmp_path / "x.mat").X, X)


def test_scenes(tmp_path: Path) -> None:
    """Height x width x bands become pixels x bands line by line, and a map of the same scene their labels."""
    cube, truth = np.arange(60).reshape(3, 4, 5), np.arange(12).reshape(3, 4)
    sio.savemat(tmp_path / "x.mat", {"cube": cube, "truth": truth})
    found = read(tmp_path / "x.mat", label="truth")
    assert found.grid == (3, 4)
    assert np.array_equal(found.X, cube.reshape(12, 5))
    assert found.labels is not None
    assert found.labels.tolist() == list(range(12))
    assert read(tmp_path / "x.mat").X.shape == (12, 5)
    with pytest.raises(ReadError, match=r"it has no array 'thruth'\. Is it 'truth'"):
        read(tmp_path / "x.mat", label="thruth")
    with pytest.raises(ReadError, match=r"label='cube' has shape \(3, 4, 5\), but there are 3 samples"):
        read(tmp_path / "x.mat", variable="truth", label="cube")


def test_matlab_73(tmp_path: Path) -> None:
    """Version 7.3 is HDF5 with axes the other way round; a sparse matrix is a group, and texts are no numbers."""
    path = tmp_path / "x.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"] = X.T
        file["note"] = np.arange(9, dtype="u2").reshape(3, 3)
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")
        file.create_group("#refs#")["inner"] = X
    assert np.array_equal(read(path).X, X)
    with h5py.File(path, "w", userblock_size=512) as file:
        group, matrix = file.create_group("S"), sparse.csc_array(THIN)
        group.attrs["MATLAB_sparse"] = np.uint64(6)
        group["data"], group["ir"], group["jc"] = matrix.data, matrix.indices, matrix.indptr
    assert np.array_equal(read(path).X.toarray(), THIN.toarray())


def test_hdf5(tmp_path: Path) -> None:
    """The only matrix of a file is X, wherever it is; others by their paths, with labels beside them."""
    path = write_hdf5(tmp_path / "x.h5", **{"deep/er/X": X.astype("f4"), "y": np.arange(6)})
    found = read(path, label="y")
    assert np.array_equal(found.X, X.astype("f4"))
    assert found.X.dtype == np.float32
    assert found.labels is not None
    assert found.labels.tolist() == list(range(6))
    write_hdf5(path, a=X, b=X[:2], words=[b"one", b"two"])
    found = read(path, variable="/b", label="words")
    assert found.X.shape == (2, 4)
    assert found.columns["words"].tolist() == ["one", "two"]


def test_hdf5_opens_no_other_file(tmp_path: Path) -> None:
    """Links and datasets that lie in other files are refused, whatever those are."""
    secret = write_hdf5(tmp_path / "secret.h5", X=X)
    (tmp_path / "secret.bin").write_bytes(X.tobytes())
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(secret, "X", X.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(secret), "X")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", X.shape, X.dtype, external=[(str(tmp_path / "secret.bin"), 0, X.nbytes)])
    for name in ("link", "virtual", "raw"):
        with pytest.raises(ReadError, match="in another file, which is not opened"):
            read(tmp_path / "x.h5", variable=name)


@pytest.mark.parametrize(("script", "seconds"), [("import os; os.abort()", 60.0), ("while True: pass", 0.5)])
@pytest.mark.parametrize("name", ["x.h5", "x.mat", "x.mtx"])
def test_child_may_crash_or_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, seconds: float, name: str
) -> None:
    """When a library crashes or hangs on a file, the program goes on with an error that names the file."""
    (tmp_path / "child.py").write_text(script)
    monkeypatch.setattr(_child, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr(child_process, "_WAIT", seconds)
    with pytest.raises(ReadError, match="fails on it: it is damaged, or takes too much time or memory"):
        read(write_hdf5(tmp_path / name, X=X))


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        '{"arrays": 3}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8"}}, "parts": [["data", "<f8", [9, 9]]]}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8"}}, "parts": [["data", "|O", [2, 2]]]}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8"}}, "parts": [["data", "<f8", [99999999, 9]]]}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8", "sparse": "csr"}}}',
    ],
)
def test_answers_of_the_child_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Whatever the child process sends, it is an array of numbers as announced, or one clear error."""
    script = f"import sys\nfor line in sys.stdin: print({answer!r} + chr(10) + 'x' * 64, flush=True)"
    (tmp_path / "child.py").write_text(script)
    monkeypatch.setattr(_child, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr(child_process, "_WAIT", 0.5)
    with pytest.raises(ReadError, match=r"x\.h5"):
        read(write_hdf5(tmp_path / "x.h5", X=X))


def test_child_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request may compute a few seconds and take some memory, and more of both for more bytes."""
    resource = pytest.importorskip("resource")
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append((what, limits[0])))
    _child.allow(0)
    small = dict(asked)
    _child.allow(10**9)
    large = dict(asked)
    assert large[resource.RLIMIT_CPU] - small[resource.RLIMIT_CPU] in (49, 50, 51)
    assert large[resource.RLIMIT_AS] - small[resource.RLIMIT_AS] == 4 * 10**9
    assert large[resource.RLIMIT_CORE] == 0


@pytest.mark.parametrize("thin", [False, True])
def test_anndata(tmp_path: Path, thin: bool) -> None:
    """X, names of cells and genes, and columns about cells, with categories by their names."""
    values = np.random.default_rng(0).random((fuzz_files.ROWS, fuzz_files.COLUMNS))
    path = tmp_path / "x.h5ad"
    with h5py.File(path, "w") as file:
        fuzz_files.anndata(file, values, thin)
        file["layers/counts"] = 2 * values
        file["obs/depth"] = np.arange(12.0)
        file["obs/odd"] = np.zeros(3)
        file["obs/flag/values"], file["obs/flag/mask"] = np.arange(12), np.arange(12) == 1
    found = read(path, label="kind")
    expected = np.where(values > 0.5, values, 0).astype("f4") if thin else values
    assert sparse.issparse(found.X) == thin
    assert np.array_equal(dense(found), expected)
    assert found.features.tolist() == [f"var{gene}" for gene in range(5)]
    assert found.index.tolist() == [f"obs{cell}" for cell in range(12)]
    assert found.index_name == "names"
    assert found.labels is not None
    assert found.labels.tolist()[:3] == ["", "a", "b"]
    assert found.columns["depth"].tolist() == list(range(12))
    assert np.isnan(found.columns["flag"][1])
    assert "odd" not in found.columns
    assert np.array_equal(read(path, variable="layers/counts").X, 2 * values)
    with pytest.raises(ReadError, match=r"it has no column 'kinds'\. Is it 'kind'"):
        read(path, label="kinds")


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


def test_parquet(tmp_path: Path) -> None:
    """Columns of numbers are features, gaps are NaN, pandas' index is the index, the others are kept as they are."""
    path = tmp_path / "x.parquet"
    frame = pd.DataFrame({"a": [1.5, None], "kind": pd.Categorical(["u", "v"]), "n": [1, 2], "ok": [True, False]})
    frame.index = pd.Index(["r1", "r2"], name="row")
    frame.to_parquet(path)
    found = read(path, label="kind")
    assert np.array_equal(found.X, [[1.5, 1], [np.nan, 2]], equal_nan=True)
    assert (found.index.tolist(), found.index_name) == (["r1", "r2"], "row")
    assert found.columns["ok"].tolist() == [True, False]
    assert found.labels is not None
    assert found.labels.tolist() == ["u", "v"]
    assert read(path, exclude=["n"]).columns["n"].tolist() == [1, 2]
    frame.reset_index(drop=True).to_parquet(path)
    assert read(path).index.tolist() == ["0", "1"]
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.float32()), "d": pa.array([[1], [2]])}), path)
    with pytest.raises(ReadError, match="column 'd' holds 'list"):
        read(path)
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.float32())}), path)
    assert read(path).X.dtype == np.float32


def save_pictures(folder: Path, **pictures: np.ndarray) -> None:
    """Pictures by their names, with two underscores for a slash."""
    for name, pixels in pictures.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def test_pictures(tmp_path: Path) -> None:
    """Pictures are rows in the order of their names, colour becomes grey, and sub-folders are labels."""
    grey = np.arange(12, dtype="u1").reshape(3, 4)
    colour = np.stack([grey] * 3, -1)
    save_pictures(tmp_path / "a", b__2_png=grey, b__1_tif=colour, a__9_pgm=grey + 1, c_txt_bmp=grey)
    with pytest.raises(ReadError, match="some images are in sub-folders and some are not"):
        read(tmp_path / "a")
    (tmp_path / "a" / "c.txt.bmp").unlink()
    (tmp_path / "a" / "b" / "._2.png").write_bytes(b"what a Mac leaves behind")
    found = read(tmp_path / "a")
    assert found.index.tolist() == ["a/9.pgm", "b/1.tif", "b/2.png"]
    assert (found.index_name, found.label, found.picture) == ("file", "folder", (3, 4))
    assert found.labels is not None
    assert found.labels.tolist() == ["a", "b", "b"]
    assert found.X.dtype == np.float32
    assert np.array_equal(found.X, np.stack([grey + 1, grey, grey]).reshape(3, 12))


def test_pictures_of_16_bits(tmp_path: Path) -> None:
    """Grey values of 16 bits are kept exactly."""
    deep = np.arange(12, dtype="u2").reshape(3, 4) * 5000
    save_pictures(tmp_path, a_png=deep, b_tif=deep)
    found = read(tmp_path)
    assert np.array_equal(found.X, np.stack([deep, deep]).reshape(2, 12))
    assert found.label is None


def test_pictures_that_do_not_fit(tmp_path: Path) -> None:
    """The first picture of another size, one that is cut off and a folder without any are named."""
    save_pictures(tmp_path, a_png=np.arange(12, dtype="u1").reshape(3, 4), b_png=np.zeros((4, 3), "u1"))
    with pytest.raises(ReadError, match=r"b\.png: it has 4 x 3 pixels, but a\.png has 3 x 4"):
        read(tmp_path)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:50])
    with pytest.raises(ReadError, match=r"b\.png: it is not a readable image"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match="there is no image in this folder"):
        read(tmp_path / "empty")
    with pytest.raises(ReadError, match="it is one image, which is one sample: name the folder"):
        read(tmp_path / "a.png")


def lying_npy(shape: tuple[int, ...]) -> bytes:
    """A .npy file of a few bytes that claims any shape."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(80)


def test_claims_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    """Headers that claim more than a file can hold are refused, in every format that has a header."""
    (tmp_path / "x.npy").write_bytes(lying_npy((10**15, 10)))
    with pytest.raises(ReadError, match="claims 1,000,000,000,000,000 x 10 numbers, 80 PB, but the file has only 80"):
        read(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", lying_npy((10**6, 10)) + bytes(8 * 10**7))
    with pytest.raises(ReadError, match="it claims to hold 1,000,000 x 10 numbers"):
        read(tmp_path / "x.npz")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(bytes(10**8)))
    with pytest.raises(ReadError, match=r"unpack to more than 9[0-9].* MB"):
        read(tmp_path / "x.csv.gz")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("X", (10**4, 10**4), "f8", chunks=(10, 10))
    with pytest.raises(ReadError, match="it claims to hold 10,000 x 10,000 numbers"):
        read(tmp_path / "x.h5")
    zarr.create_array(tmp_path / "x.zarr", shape=(10**4, 10**4), dtype="f8", chunks=(10**4, 10**4))
    with pytest.raises(ReadError, match="it claims to hold 10,000 x 10,000 numbers"):
        read(tmp_path / "x.zarr")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.pgm").write_bytes(b"P5 9000 9000 255\nabc")
    with pytest.raises(ReadError, match="it claims to hold 9,000 x 9,000 pixels"):
        read(tmp_path / "folder")


def test_more_than_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest file that does not fit into memory is refused with what would help."""
    np.save(tmp_path / "x.npy", np.zeros((10**4, 10**3), "f4"))
    monkeypatch.setattr(limits, "memory", lambda: 2**20)
    with pytest.raises(ReadError, match=r"take 80\.5 MB in memory, but this machine has 1\.05 MB"):
        read(tmp_path / "x.npy")


def test_a_packed_array_that_never_ends(tmp_path: Path) -> None:
    """Of a compressed MATLAB array no more is unpacked than its shape needs, and what follows is an error."""
    parts = struct.pack("<4I", 6, 8, 6, 0) + struct.pack("<2I2i", 5, 8, 2, 3) + struct.pack("<HH4s", 1, 1, b"X")
    parts += struct.pack("<2I", 9, 48) + bytes(48)
    packed = zlib.compress(struct.pack("<2I", 14, len(parts)) + parts + bytes(10**8))
    content = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<2I", 15, len(packed)) + packed
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(ReadError, match="Did not fully consume compressed contents"):
        read(tmp_path / "x.mat")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.mat", "x.h5", "x.parquet", "x.csv.gz", "x.mtx", "x.h5ad"])
def test_cut_off_files(tmp_path: Path, name: str) -> None:
    """Half of a file of any kind is refused in words that say so."""
    sample = next(content for kind, content in fuzz_files.whole_files().items() if kind.endswith(name[1:]))
    assert isinstance(sample, bytes)
    (tmp_path / name).write_bytes(sample[: len(sample) // 2])
    with pytest.raises(ReadError, match=r"cut off|complete|entries|numbers"):
        read(tmp_path / name)


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


def test_what_is_not_there_or_not_known(tmp_path: Path) -> None:
    """A missing file, an unknown ending, a wrong one and options that mean nothing are told apart."""
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(ReadError, match=r"there is no such file. Is it 'data\.npy'"):
        read(tmp_path / "dta.npy")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(ReadError, match=r"its type is not known\. Known are \.csv"):
        read(tmp_path / "data.xyz")
    (tmp_path / "data.npy").rename(tmp_path / "data.mtx")
    with pytest.raises(ReadError, match=r"It begins like a NumPy array: should its name end in \.npy"):
        read(tmp_path / "data.mtx")
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(ReadError, match=r"label='y' means nothing for a \.npy file: it takes no options"):
        read(tmp_path / "data.npy", label="y")
    with pytest.raises(ReadError, match="it is not a file, but a pipe or a device"):
        read("/dev/null" if os.name == "posix" else "NUL")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("x.parquet", "pyarrow", "cli"),
        ("x.h5", "h5py", "files"),
        ("x.zarr", "zarr", "files"),
        ("pictures", "PIL", "cli"),
    ],
)
def test_missing_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str) -> None:
    """A library that is not installed is named, with the command that installs it."""
    if name == "pictures":
        save_pictures(tmp_path / name, a_png=np.zeros((2, 2), "u1"))
    elif name == "x.zarr":
        zarr.save_array(tmp_path / name, X)
    else:
        write_hdf5(tmp_path / name, X=X)
    for known in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, known, None)
    with pytest.raises(ImportError, match=rf'pip install "dspnmf\[{extra}\]"'):
        read(tmp_path / name)


def test_archives_write_nothing(tmp_path: Path) -> None:
    """Names in archives that point elsewhere are only names."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("../../out.npy", fuzz_files.whole_files()["c.npy"])
    assert read(tmp_path / "x.npz").X.shape == (fuzz_files.ROWS, fuzz_files.COLUMNS)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]
    assert numpy_files.IN_MEMORY == limits.IN_MEMORY


def test_published_files(data_folder: Path) -> None:
    """COIL-20, Indian Pines and the crop of Pavia are read as SciPy reads them."""
    coil = read(data_folder / "COIL20.mat", label="gnd")
    assert np.array_equal(coil.X, sio.loadmat(data_folder / "COIL20.mat")["fea"])
    assert np.bincount(coil.columns["gnd"])[1:].tolist() == [72] * 20
    pines = read(data_folder / "Indian_pines_corrected.mat")
    cube = sio.loadmat(data_folder / "Indian_pines_corrected.mat")["indian_pines_corrected"]
    assert pines.grid == (145, 145)
    assert np.array_equal(pines.X, cube.reshape(-1, 200))
    pavia = read(data_folder / "PaviaU_subset_140x80.mat", label="paviaU_gt")
    assert (pavia.X.shape, pavia.grid) == ((11200, 103), (140, 80))
    assert np.count_nonzero(pavia.columns["paviaU_gt"]) == 2928
