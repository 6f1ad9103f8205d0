"""Damaged, mixed, lying and empty files of every kind that can be read; the same ones for the same seed.

`damaged_files` yields names and contents (of a folder: a mapping of names to bytes), and `placed` writes one of them
to disk. Files without damage are among them: a reader that refuses everything passes no test.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from PIL import Image
from scipy import io as sio
from scipy import sparse

Content = bytes | dict[str, bytes]
ROWS, COLUMNS = 12, 5
CHILD = (".npz", ".h5", ".h5ad", ".mat", ".mtx", ".mtx.gz")  # read in a child process


def damaged_files(count: int, seed: int = 0) -> Iterator[tuple[str, Content]]:
    """`count` names and contents; a longer run begins like a shorter one."""
    whole = whole_files()
    slow = [name for name in whole if name.endswith(CHILD)]  # each costs a process: fewer of them
    quick = [name for name in whole if not name.endswith(CHILD)]
    for number in range(count):
        pick = random.Random(f"{seed} {number}")
        if pick.random() < 0.2:
            name, content = pick.choice(LIES)(pick)
        else:
            name = pick.choice(slow if pick.random() < 0.12 else quick)
            content = whole[name]
            if pick.random() < 0.95:
                content = _damaged(content, pick)
            if isinstance(content, bytes) and pick.random() < 0.04:
                name = "mistaken" + pick.choice([".csv", ".npy", ".npz", ".mtx", ".mat", ".parquet", ".h5", ".csv.gz"])
        yield f"{number:05d}-{name}", content


def placed(folder: Path, name: str, content: Content) -> Path:
    """A file, or a folder of files, on disk."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
        return path
    path.mkdir()
    for inner, part in content.items():
        (path / inner).parent.mkdir(parents=True, exist_ok=True)
        (path / inner).write_bytes(part)
    return path


def _damaged(content: Content, pick: random.Random) -> Content:
    """One file of a folder, or the file itself, with one to three damages."""
    if isinstance(content, dict):
        inner = pick.choice(sorted(content))
        if pick.random() < 0.1:
            return {name: part for name, part in content.items() if name != inner}
        changed = _damaged(content[inner], pick)
        assert isinstance(changed, bytes)
        return {**content, inner: changed}
    for _ in range(pick.choice([1, 1, 2, 3])):
        content = pick.choice(DAMAGES)(content, pick)
    return content


def _place(content: bytes, pick: random.Random) -> int:
    """Somewhere, more often near the beginning, where headers are."""
    return min(pick.randrange(len(content) + 1), pick.choice([64, 512, len(content), len(content)]))


def _cut(content: bytes, pick: random.Random) -> bytes:
    return content[: _place(content, pick)]


def _flipped(content: bytes, pick: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(min(pick.choice([1, 1, 3, 10]), len(changed))):
        at = min(_place(content, pick), len(changed) - 1)
        changed[at] = pick.choice([0, 255, changed[at] ^ (1 << pick.randrange(8)), pick.randrange(256)])
    return bytes(changed)


def _inserted(content: bytes, pick: random.Random) -> bytes:
    at = _place(content, pick)
    return content[:at] + pick.choice([pick.randbytes(pick.randrange(1, 20)), *TEXTS]) + content[at:]


def _without(content: bytes, pick: random.Random) -> bytes:
    at = _place(content, pick)
    return content[:at] + content[at + pick.randrange(1, 40) :]


def _twice(content: bytes, pick: random.Random) -> bytes:
    at = _place(content, pick)
    return content[:at] + content[max(0, at - pick.randrange(1, 200)) :]


def _enlarged(content: bytes, pick: random.Random) -> bytes:
    """A number written in the header, made huge: as digits, or as bytes."""
    digits = [at for at in range(min(len(content), 600)) if content[at : at + 1].isdigit()]
    if digits and pick.random() < 0.7:
        at = pick.choice(digits)
        return content[:at] + pick.choice([b"9" * 15, b"99999", b"0", b"-1", b"4294967296"]) + content[at + 1 :]
    at = _place(content, pick)
    return content[:at] + struct.pack("<Q", pick.choice([2**63 - 1, 2**40, 2**31, 2**16])) + content[at + 8 :]


def _mixed(content: bytes, pick: random.Random) -> bytes:
    """The beginning of one file and the end of another."""
    other = pick.choice([part for part in whole_files().values() if isinstance(part, bytes)])
    return content[: _place(content, pick)] + other[_place(other, pick) :]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut, _flipped, _flipped, _inserted, _without, _twice, _enlarged, _mixed,
)  # fmt: skip
TEXTS = (
    b",", b";", b"\t", b"\n", b"\r", b'"', b"\n\n,,\n", b"NA", b"nan", b"-1e5", b"1e999", b"abc", b"\xff\xfe", b"\x00",
    b"\xe9t\xe9", b"\xef\xbb\xbf", b"#", b"1_000", b"\xd9\xa1", b"x" * 200_000, b"," * 5000, b'"' + b"y\n" * 3000,
    b"\x1b[31m", b"0x10", b"\xe2\x80\xae",
)  # fmt: skip


@cache
def whole_files() -> dict[str, Content]:
    """A small file of every kind, without damage."""
    random_ = np.random.default_rng(0)
    X = random_.random((ROWS, COLUMNS)).round(3)
    return {**_text_files(X), **_array_files(X), **_matlab_files(X), **_hdf5_files(X), **_folders(X)}


def _text_files(X: np.ndarray) -> dict[str, Content]:
    names = [f"g{column}" for column in range(COLUMNS)]
    rows = [[f"s{row}", *map(str, values), "ab"[row % 2]] for row, values in enumerate(X)]
    table = "\n".join(",".join(row) for row in [["id", *names, "kind"], *rows]) + "\n"
    gaps = X.copy()
    gaps[::3, 1] = np.nan
    bare = "\n".join(" ".join(map(str, row)) for row in gaps)
    return {
        "table.csv": table.encode(),
        "comma.csv": table.replace(",", ";").replace(".", ",").replace("\n", "\r\n").encode("utf-8-sig"),
        "table.tsv": table.replace(",", "\t").replace("s1\t", '"s ""1"""\t').encode(),
        "bare.txt": bare.encode(),
        "wide.txt": table.encode("utf-16"),
        "negative.csv": table.replace("0.", "-0.").encode(),
        "packed.csv.gz": gzip.compress(table.encode(), mtime=0),
        "list.mtx": market(sparse.coo_array(np.where(X > 0.5, X, 0))),
        "full.mtx": market(X),
        "packed.mtx.gz": gzip.compress(market(sparse.coo_array(np.where(X > 0.5, X, 0))), mtime=0),
        "table.parquet": _parquet(X, names, "snappy"),
        "packed.parquet": _parquet(X, names, "gzip"),
    }


def market(X: object) -> bytes:
    """A Matrix Market file."""
    file = io.BytesIO()
    sio.mmwrite(file, X)
    return file.getvalue()


def _parquet(X: np.ndarray, names: list[str], compression: str) -> bytes:
    ids = pa.array([f"s{row}" for row in range(ROWS)])
    kinds = pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode()
    noted = {"index_columns": ["id"], "columns": [], "column_indexes": []}
    table = pa.table({"id": ids, **dict(zip(names, X.T, strict=True)), "kind": kinds})
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(noted)}), file, compression=compression)
    return file.getvalue()


def _array_files(X: np.ndarray) -> dict[str, Content]:
    found: dict[str, Content] = {}
    for name, array in {"c.npy": X, "f.npy": np.asfortranarray(X.astype(">f4")), "i.npy": (9 * X).astype(int)}.items():
        file = io.BytesIO()
        np.save(file, array)
        found[name] = file.getvalue()
    for name, save in {"several.npz": np.savez, "packed.npz": np.savez_compressed}.items():
        file = io.BytesIO()
        save(file, X=X, y=np.arange(ROWS), names=np.array(["a"] * ROWS))
        found[name] = file.getvalue()
    for form in ("csr", "csc", "coo"):
        file = io.BytesIO()
        sparse.save_npz(file, sparse.coo_array(np.where(X > 0.5, X, 0)).asformat(form))
        found[f"{form}.npz"] = file.getvalue()
    return found


def _matlab_files(X: np.ndarray) -> dict[str, Content]:
    found: dict[str, Content] = {}
    thin = sparse.csc_array(np.where(X > 0.5, X, 0))
    kinds = {
        "matrix": {"X": X, "y": np.arange(ROWS), "note": "text", "cells": np.array([1, "a"], dtype=object)},
        "scene": {"cube": (9 * X).astype("u2").reshape(3, 4, COLUMNS), "map": np.arange(ROWS).reshape(3, 4)},
        "sparse": {"S": thin},
    }
    for name, arrays in kinds.items():
        for packed in (False, True):
            file = io.BytesIO()
            sio.savemat(file, arrays, do_compression=packed)
            content = b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]  # without the date
            found[f"{name}{'-packed' * packed}.mat"] = content
    return found


def _hdf5_files(X: np.ndarray) -> dict[str, Content]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("plain.h5", "cells.h5ad", "dense.h5ad", "version73.mat")]
        with h5py.File(paths[0], "w") as file:
            file["X"] = X
            file.create_dataset("more/y", data=np.arange(ROWS), chunks=(4,), compression="gzip")
        for path, thin in ((paths[1], True), (paths[2], False)):
            with h5py.File(path, "w") as file:
                anndata(file, X, thin)
        with h5py.File(paths[3], "w", userblock_size=512) as file:
            file["X"] = X.T
            file["X"].attrs["MATLAB_class"] = np.bytes_("double")
        head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
        found = {path.name: path.read_bytes() for path in paths}
        return {**found, "version73.mat": head + found["version73.mat"][len(head) :]}


def anndata(file: h5py.File, X: np.ndarray, thin: bool) -> None:
    """Fill a .h5ad file: X, names of cells and genes, and the kinds of cells."""
    if thin:
        matrix = sparse.csr_array(np.where(X > 0.5, X, 0).astype("f4"))
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(matrix, part), compression="gzip")
    else:
        file["X"] = X
    text = h5py.string_dtype()
    for frame, count in (("obs", ROWS), ("var", COLUMNS)):
        group = file.create_group(frame)
        group.attrs["_index"] = "names"
        group.create_dataset("names", data=[f"{frame}{number}" for number in range(count)], dtype=text)
    kind = file["obs"].create_group("kind")
    kind.attrs["encoding-type"] = "categorical"
    kind["codes"] = np.arange(ROWS, dtype="i1") % 3 - 1
    kind.create_dataset("categories", data=["a", "b"], dtype=text)


def _folders(X: np.ndarray) -> dict[str, Content]:
    found: dict[str, Content] = {}
    with tempfile.TemporaryDirectory() as folder:
        for version in (2, 3):
            path = Path(folder, f"v{version}.zarr")
            array = zarr.create_array(path, shape=X.shape, chunks=(5, COLUMNS), dtype="f8", zarr_format=version)
            array[:] = X
            files = sorted(file for file in path.rglob("*") if file.is_file())
            found[path.name] = {file.relative_to(path).as_posix(): file.read_bytes() for file in files}
    pixels = np.arange(48, dtype="u1").reshape(6, 8)
    for kinds in ({"png": "png", "jpg": "jpeg"}, {"pgm": "ppm", "tif": "tiff", "bmp": "bmp"}):
        files = {}
        for number, kind in enumerate(kinds):
            for colour in (False, True):
                file = io.BytesIO()
                Image.fromarray(np.stack([pixels] * 3, -1) if colour else pixels).save(file, kinds[kind])
                files[f"{'ab'[number % 2]}/{colour:d}.{kind}"] = file.getvalue()
        found["pictures-" + "-".join(kinds)] = files
    return found


def _huge_npy(pick: random.Random) -> tuple[str, Content]:
    shape = pick.choice(
        [(10**15, 10), (10, 10**15), (2**31, 2**31), (2**62, 4), (-1, 5), (10**15, 0), (10**8, 3), (5,), ()]
    )
    kind = pick.choice(["<f8", "<f4", "|O", "<c16", "|V8", "<U10", "|i1", "<f2", ">f8", "<M8[s]"])
    head = f"{{'descr': '{kind}', 'fortran_order': {pick.choice(['True', 'False'])}, 'shape': {shape}, }}"
    return "huge.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n" + bytes(80)


def _huge_npz(pick: random.Random) -> tuple[str, Content]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _, content = _huge_npy(pick)
        assert isinstance(content, bytes)
        member = zipfile.ZipInfo(pick.choice(["X.npy", "../X.npy", "/X.npy"]))  # without the date
        archive.writestr(member, content + bytes(pick.choice([0, 2 * 10**7])), zipfile.ZIP_DEFLATED)
    return "huge.npz", file.getvalue()


def _huge_market(pick: random.Random) -> tuple[str, Content]:
    kind = pick.choice(["coordinate real", "coordinate pattern", "array real", "coordinate complex", "array pattern"])
    shape = pick.choice(
        [b"1000000000000 5 3", b"5 99999999999999999 3", b"5 5 999999999999", b"2000000 3 2", b"0 0 0", b"9 9"]
    )
    entries = pick.choice([b"1 1 1\n2 2 2\n", b"1 1\n", b"", b"0 1 1\n", b"1 1 1e400\n", b"1.5 1 1\n-3 1 1\n"])
    sign = pick.choice(["general", "symmetric", "hermitian"])
    return "huge.mtx", f"%%MatrixMarket matrix {kind} {sign}\n".encode() + shape + b"\n" + entries


def _huge_matlab(pick: random.Random) -> tuple[str, Content]:
    shape = pick.choice([(2**31 - 1, 2**31 - 1), (10**6, 10**6), (-1, 5), (10**9, 1), (3, 0)])
    parts = struct.pack("<4I", 6, 8, pick.choice([6, 9, 5, 1, 17]), 0) + struct.pack("<2I2i", 5, 8, *shape)
    parts += struct.pack("<HH4s", 1, 1, b"X") + struct.pack("<2I", 9, pick.choice([8, 2**31])) + bytes(8)
    return "huge.mat", b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<2I", 14, len(parts)) + parts


def _huge_zarr(pick: random.Random) -> tuple[str, Content]:
    shape, chunks = pick.choice([([10**12, 10], [1, 10]), ([10**4, 10**4], [10**4, 10**4]), ([5, 5], [10**6, 10**6])])
    codec = pick.choice([None, {"id": "pickle"}, {"id": "zstd", "level": 1}, {"id": "nothing"}])
    meta = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": chunks,
        "dtype": pick.choice(["<f8", "|O", "<U9"]),
        "order": "C",
    }
    told = {**meta, "compressor": None, "fill_value": 0, "filters": [codec] if codec else None}
    return "huge.zarr", {".zarray": json.dumps(told).encode(), "0.0": b"cos\nsystem\n(S'true'\ntR."}


def _huge_picture(pick: random.Random) -> tuple[str, Content]:
    size = pick.choice([(50_000, 50_000), (9_000, 9_000), (2**31 - 1, 3), (0, 5)])
    head = f"P5 {size[0]} {size[1]} 255\n".encode() + b"abc"
    return "huge-pictures", {"a.pgm": head, "note.txt": b"no picture"}


def _huge_text(pick: random.Random) -> tuple[str, Content]:
    return pick.choice(_long_texts())


@cache
def _long_texts() -> tuple[tuple[str, Content], ...]:
    """Texts that unpack to much, or have long lines, long cells or many names."""
    return (
        ("bomb.csv.gz", gzip.compress(b"1,2,3\n" * 400_000, mtime=0)),
        ("bomb.mtx.gz", gzip.compress(b"%" * 100_000_000, mtime=0)),
        ("zeros.csv.gz", gzip.compress(bytes(100_000_000), mtime=0)),
        ("line.csv", b"a," * 300_000 + b"a\n" + b"1," * 300_000 + b"1\n"),
        ("cell.csv", b'id,v\n"' + b"z" * 500_000 + b'",1\n'),
        ("long.csv", b"id,v\n" + b"z" * 100_000 + b",1\n" + b"".join(b"%d,1\n" % row for row in range(20_000))),
        ("names.csv", b",".join([b"a"] * 20_000) + b"\n" + b",".join([b"1"] * 20_000) + b"\n"),
    )


def _odd_text(pick: random.Random) -> tuple[str, Content]:
    return pick.choice(["odd.csv", "odd.tsv", "odd.txt"]), pick.choice(ODD)


ODD = (
    b"", b"\n", b"\n\n\n", b"a,b,c\n", b"a,b\nx,y\n", b",,,\n", b",\n,\n,\n", b"#\n#\n", b"\xef\xbb\xbf", b"sep=;\n",
    b"sep=;\n1;2\n3;4\n", b"a,b\n1,2\n3\n", b"a,b\n1,2,3\n4,5,6\n", b"a;b\n1,5;2\n1.5;3\n", b"a,a,a\n1,2,3\n",
    b"x\n1\n\n2\n", b'x\n1\n""\n2\n', b"a b  c\n1 2  3\n", b"a,b\r1,2\r3,4\r", b"-1,nan\ninf,-inf\n",
    b"a,b\n1,\xe9\n", b'"a,b\n1,2\n', b'a,b\n"1"2,3\n', b"a,b\n1,2\n1,x\n2,3\n4,5\n", b"1" * 400 + b"\n",
    b"\xff\xfea\x00,\x00b\x00\n", b"\xfe\xff\x00", b"id,0,1,2,3\nq,1,2,3,4\n", b",0,1\n0,5,6\n1,7,8\n",
    b"1e5000,2\n3,4\n", b"a\tb,c\n1\t2,3\n", b"a,b\n" + b"1" * 100_000 + b"x,2\n3,4\n",
    b"0." + b"1" * 100_000 + b",2\n",
)  # fmt: skip
LIES: tuple[Callable[[random.Random], tuple[str, Content]], ...] = (
    _huge_npy, _huge_npz, _huge_market, _huge_matlab, _huge_zarr, _huge_picture, _odd_text, _odd_text, _huge_text,
)  # fmt: skip
