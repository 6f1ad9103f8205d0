"""MATLAB and Matrix Market files become tables, as SciPy reads them."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy import io as sio
from scipy import sparse

import fuzz_files
from dspnmf.io import ReadError, read
from io_helpers import THIN, X, dense


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


@pytest.mark.parametrize(
    ("header", "numbers", "says"),
    [
        ("array real symmetric\n3 3\n", "1\n2\n", "it has 2 entries, but its header claims 6"),
        ("array real skew-symmetric\n3 3\n", "1\n2\n", "it has 2 entries, but its header claims 3"),
        ("array real symmetric\n2 3\n", "1\n", "it claims to be symmetric, but has 2 rows and 3 columns"),
        ("array complex general\n1 1\n", "1 2\n", "holds 'complex128', but must hold real numbers"),
        ("array pattern general\n1 1\n", "1\n", "Array matrices may not be pattern"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_matrix_market_headers(tmp_path: Path, header: str, numbers: str, says: str, packed: bool) -> None:
    """What SciPy would fill with zeros is an error, as are complex numbers."""
    content = f"%%MatrixMarket matrix {header}{numbers}".encode()
    path = tmp_path / ("x.mtx.gz" if packed else "x.mtx")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(ReadError, match=says):
        read(path)


@pytest.mark.parametrize("packed", [False, True])
def test_matlab(tmp_path: Path, packed: bool) -> None:
    """What SciPy writes is read as SciPy reads it: every type, sparse or dense, next to texts and cells."""
    path = tmp_path / "x.mat"
    every = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
    for dtype in every[:4] if packed else every:
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


def test_matlab_4(tmp_path: Path) -> None:
    """Files of version 4 are read too."""
    sio.savemat(tmp_path / "x.mat", {"X": X, "note": "text"}, format="4")
    assert np.array_equal(read(tmp_path / "x.mat").X, X)


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


def test_a_packed_array_that_never_ends(tmp_path: Path) -> None:
    """Of a compressed MATLAB array no more is unpacked than its shape needs, and what follows is an error."""
    parts = struct.pack("<4I", 6, 8, 6, 0) + struct.pack("<2I2i", 5, 8, 2, 3) + struct.pack("<HH4s", 1, 1, b"X")
    parts += struct.pack("<2I", 9, 48) + bytes(48)
    packed = zlib.compress(struct.pack("<2I", 14, len(parts)) + parts + bytes(10**8))
    content = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<2I", 15, len(packed)) + packed
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(ReadError, match="Did not fully consume compressed contents"):
        read(tmp_path / "x.mat")


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
