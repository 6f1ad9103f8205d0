"""Every kind of file: what is missing, damaged, too large or of another kind is refused in clear words."""

from __future__ import annotations

import gzip
import os
import struct
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import fuzz_files
from dspnmf.io import ReadError, limits, read
from io_helpers import X, save_images, write_hdf5


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


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.mat", "x.h5", "x.parquet", "x.csv.gz", "x.mtx", "x.h5ad"])
def test_cut_off_files(tmp_path: Path, name: str) -> None:
    """Half of a file of any kind is refused in words that say so."""
    sample = next(content for kind, content in fuzz_files.whole_files().items() if kind.endswith(name[1:]))
    assert isinstance(sample, bytes)
    (tmp_path / name).write_bytes(sample[: len(sample) // 2])
    with pytest.raises(ReadError, match=r"cut off|complete|entries|numbers"):
        read(tmp_path / name)


def test_what_is_not_there_or_not_known(tmp_path: Path) -> None:
    """A missing file, an unknown ending, a wrong one and options that mean nothing are told apart."""
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(ReadError, match=r"there is no such file. Is it 'data\.npy'"):
        read(tmp_path / "dta.npy")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(ReadError, match=r"its type is not known\. Known are \.csv"):
        read(tmp_path / "data.xyz")
    (tmp_path / "data.npy").rename(tmp_path / "data.mtx")
    with pytest.raises(ReadError, match=r"It begins like a \.npy file: should its name end so"):
        read(tmp_path / "data.mtx")
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(ReadError, match=r"label='y' means nothing for a \.npy file: it takes transpose"):
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
        save_images(tmp_path / name, a_png=np.zeros((2, 2), "u1"))
    elif name == "x.zarr":
        zarr.save_array(tmp_path / name, X)
    else:
        write_hdf5(tmp_path / name, X=X)
    for known in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, known, None)
    with pytest.raises(ImportError, match=rf'pip install "dspnmf\[{extra}\]"'):
        read(tmp_path / name)
