"""Model files and checkpoints of every kind of model, and hostile copies of them; the same ones for the same seed.

`whole_files` writes them without damage, `hostile_files` makes copies with one: bytes, members of the archive, arrays
(header, shape, type, values), sparse matrices, the description of the model, sizes that lie.
"""

from __future__ import annotations

import bz2
import io
import json
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, minmax_scale

import dspnmf
from dspnmf.estimators.base import Factorization
from fuzz_files import DAMAGES
from model_files import make

MODEL, CHECKPOINT = ".skops", ".npz"  # suffixes
Members = dict[str, bytes]
Fit = Callable[[], Any]


def rows() -> tuple[np.ndarray, np.ndarray]:
    """The first 60 wines, scaled, and labels."""
    return minmax_scale(load_wine().data)[:60], np.arange(60) % 3


class Killed(Exception):  # noqa: N818 - it is no error
    """Stands for the end of the process."""


def fits() -> dict[str, Fit]:
    """Models with every kind of state, by name."""
    X, y = rows()
    wide = np.where(X > 0.9, np.nan, X)
    names = sorted(set(dspnmf.__all__) & {kind.__name__ for kind in vars(dspnmf).values() if isinstance(kind, type)})
    found: dict[str, Fit] = {name: lambda name=name: make(name).fit(X, y) for name in names if name != "DSPNMFCV"}
    return found | {
        "search": lambda: dspnmf.DSPNMFCV([2, 3], alphas=2, cv=2, random_state=0, max_iter=4).fit(X, y),
        "batches": lambda: make("DSPNMF").fit(X[:40]).partial_fit(X[40:]),
        "cosine": lambda: make("DSPNMF", similarity="cosine").fit(X),
        "neighbours": lambda: make("DSPNMF", similarity="knn").fit(X),
        "diffused": lambda: make("DSPNMF", similarity="diffused", alpha="auto").fit(X),
        "missing": lambda: make("NMF", missing="mask").fit(wide),
        "missing and similar": lambda: make("DSPNMF", missing="mask").fit(wide),
        "labels": lambda: make("DSPNMF", label_weight=1.0).fit(X, y),
        "sparse": lambda: make("GNMF").fit(sparse.csr_array(X)),
        "own graph": lambda: make("SymNMF", graph=sparse.csr_array(np.eye(60) + 0.1)).fit(X),
        "float32": lambda: make("NSNMF").fit(X.astype(np.float32)),
        "generator": lambda: make("NMF", random_state=np.random.RandomState(0)).fit(X),
        "pipeline": lambda: make_pipeline(MinMaxScaler(clip=True), make("DSPNMF")).fit(X),
        "classifier": lambda: make_pipeline(make("NMF"), LogisticRegression()).fit(X, y),
        "not fitted": lambda: make("GNMF"),
    }


def resumed(name: str) -> tuple[Any, np.ndarray]:
    """The model that a checkpoint belongs to, and its data."""
    X = rows()[0]
    quick: dict[str, Any] = {"random_state": 0, "max_iter": 9, "tol": 0}
    return {
        "hals": lambda: (dspnmf.DSPNMF(3, solver="hals", **quick), X),
        "newton": lambda: (dspnmf.DSPNMF(3, **quick), X.astype(np.float32)),
        "second start": lambda: (dspnmf.NMF(3, n_init=3, **quick), X),
        "graph": lambda: (dspnmf.GNMF(3, **quick), X),
        "similarities": lambda: (dspnmf.SymNMF(3, **quick), X),
        "features": lambda: (dspnmf.FRNMF(3, **quick), sparse.csr_array(X)),
        "divergence": lambda: (dspnmf.NMF(3, beta_loss="kullback-leibler", **quick), X),
    }[name]()


CHECKPOINTS = ("hals", "newton", "second start", "graph", "similarities", "features", "divergence")


def whole_files(folder: Path) -> list[Path]:
    """A file of every model, and checkpoints of fits that were killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in fits().items():
            dspnmf.save(fit(), folder / f"{name}{MODEL}")
        for name in CHECKPOINTS:
            _killed(name, folder / f"{name}{CHECKPOINT}")
    return sorted(folder.iterdir())


def _killed(name: str, path: Path) -> None:
    """Leave the checkpoint of a fit that was killed in iteration 6 of its last start."""
    model, X = resumed(name)
    times, log = [getattr(model, "n_init", 1)], Factorization._log

    def kill(_: Any, iteration: int, value: float, *start: int) -> None:
        times[0] -= iteration == 6
        if times[0] == 0:
            raise Killed

    Factorization._log = kill  # type: ignore[method-assign]
    try:
        model.fit(X, checkpoint_path=path, checkpoint_every=0)
    except Killed:
        pass
    finally:
        Factorization._log = log  # type: ignore[method-assign]
    assert path.exists()


def hostile_files(whole: list[Path], count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """`count` names (number, damage, file) and contents; a longer run begins like a shorter one."""
    for number in range(count):
        pick = random.Random(f"{seed} {number}")
        path = whole[number % len(whole)] if number < len(whole) else pick.choice(whole)
        how = pick.choice(sorted(HOSTILE))
        yield f"{number:05d}-{how}-{path.name}", HOSTILE[how](path.read_bytes(), pick)


# -- bytes and members ---------------------------------------------------------------------------------------------


def _unpacked(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(members: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def changed_bytes(content: bytes, pick: random.Random) -> bytes:
    """Flipped, cut, inserted, removed, enlarged."""
    return pick.choice(DAMAGES)(content, pick)


def changed_members(content: bytes, pick: random.Random) -> bytes:
    """Members dropped, renamed, exchanged, emptied, doubled; or all of them compressed."""
    members = _unpacked(content)
    one, other = pick.choice(sorted(members)), pick.choice(sorted(members))
    how = pick.choice(("drop", "rename", "exchange", "empty", "double", "compress", "lzma", "bytes"))
    if how == "drop":
        del members[one]
    elif how == "rename":
        members[pick.choice(["../" + one, one.upper(), "schema.json", "x"])] = members.pop(one)
    elif how == "exchange":
        members[one], members[other] = members[other], members[one]
    elif how in ("empty", "bytes"):
        members[one] = b"" if how == "empty" else pick.choice(DAMAGES)(members[one], pick)
    elif how == "double":
        file = io.BytesIO(_packed(members))
        with warnings.catch_warnings(), zipfile.ZipFile(file, "a") as archive:
            warnings.simplefilter("ignore")
            archive.writestr(one, members[other])
        return file.getvalue()
    return _packed(members, {"compress": zipfile.ZIP_DEFLATED, "lzma": zipfile.ZIP_LZMA}.get(how, zipfile.ZIP_STORED))


def bomb(content: bytes, pick: random.Random) -> bytes:
    """A member that unpacks to 240 MB, and may say that it has a few bytes only."""
    members = _unpacked(content)
    one = pick.choice(sorted(members))
    file = io.BytesIO(_packed({name: data for name, data in members.items() if name != one}))
    method = zipfile.ZIP_DEFLATED if one.endswith(".json") else pick.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    raw, checksum, size = _zeros(one.endswith(".json"), method)
    with zipfile.ZipFile(file, "a") as archive:  # as `writestr` does, but with bytes that are compressed already
        info = zipfile.ZipInfo(one)
        info.compress_type, info.CRC, info.compress_size, info.file_size = method, checksum, len(raw), size
        assert archive.fp is not None
        archive.fp.seek(archive.start_dir)
        info.header_offset = archive.fp.tell()
        archive.fp.write(info.FileHeader() + raw)
        archive.filelist.append(info)
        archive.start_dir, archive._didModify = archive.fp.tell(), True  # type: ignore[attr-defined]
    whole = bytearray(file.getvalue())
    if pick.random() < 0.5:  # the size that the directory of the archive says
        at = whole.rfind(b"PK\x01\x02") + 24
        whole[at : at + 4] = struct.pack("<I", pick.choice([0, 100, len(members[one])]))
    return bytes(whole)


@cache
def _zeros(text: bool, method: int) -> tuple[bytes, int, int]:
    """An array of zeros, or blanks, of 240 MB: compressed, its checksum, and its size."""
    head = _npy(np.zeros(0), shape=(30 * 2**20,))
    packer = bz2.BZ2Compressor(1) if method == zipfile.ZIP_BZIP2 else zlib.compressobj(9, wbits=-15)
    parts, checksum, size = [], 0, 0
    for part in (b" " if text else head, *[b" " * 2**20 if text else bytes(2**20)] * 240):
        parts.append(packer.compress(part))
        checksum, size = zlib.crc32(part, checksum), size + len(part)
    return b"".join(parts) + packer.flush(), checksum, size


def lying_sizes(content: bytes, pick: random.Random) -> bytes:
    """Sizes, offsets and methods in the directory of the archive that are not true."""
    whole, places, at = bytearray(content), [], 0
    while (at := content.find(b"PK\x01\x02", at)) >= 0:
        places.append(at)
        at += 4
    for _ in range(pick.choice([1, 1, 3])):
        at = pick.choice(places) + pick.choice([10, 20, 24, 42, 24])
        size = 2 if at in {place + 10 for place in places} else 4
        value = pick.choice([0, 1, 8, 12, 14, 100, 2**16 - 1, 2**20, 2**31 - 1, 2**32 - 1])
        whole[at : at + size] = struct.pack("<I", value)[:size]
    return bytes(whole)


# -- arrays --------------------------------------------------------------------------------------------------------


def changed_array(content: bytes, pick: random.Random) -> bytes:
    """An array of another shape, another type, or with other values."""
    members = _unpacked(content)
    names = sorted(name for name in members if name.endswith(".npy") and name != "about.npy")
    if not names:
        return changed_members(content, pick)
    one = pick.choice(names)
    members[one] = _npy(_another(np.load(io.BytesIO(members[one])), pick))
    return _packed(members)


def _another(array: np.ndarray, pick: random.Random) -> np.ndarray:
    """An array that is like the one given, but for one thing."""
    how = pick.choice(("shape", "shape", "type", "value", "value", "layout"))
    if how == "layout":
        return np.asfortranarray(array)
    if how == "type":
        kind = pick.choice(["f4", "f8", ">f8", "i8", "u1", "U9", "c16", "bool", "M8[s]", "f2"])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype("i8").astype(kind) if kind == "M8[s]" else array.astype(kind)
    if how == "value" and array.size and array.dtype.kind in "fiu":
        array = array.copy()
        value = pick.choice([np.nan, np.inf, -np.inf, -1.0, -1e300, 1e300, 1e30, 0.0, 2.0**31])
        with np.errstate(all="ignore"):
            array.flat[pick.randrange(array.size) if pick.random() < 0.7 else slice(None)] = np.array(
                0 if array.dtype.kind in "iu" and not np.isfinite(value) else value
            ).astype(array.dtype)
        return array
    shapes: list[Callable[[], np.ndarray]] = [
        lambda: array[:-1] if array.ndim else array.reshape(1),
        lambda: array[..., :-1] if array.ndim else array.reshape(1, 1),
        lambda: np.concatenate([array, array]) if array.ndim else array.reshape(1),
        lambda: array.ravel(),
        lambda: array.T,
        lambda: array[..., None],
        lambda: array.reshape(-1)[:1, None],
        lambda: array[:0] if array.ndim else array.reshape(1)[:0],
        lambda: np.repeat(array, 50, axis=0) if array.ndim else array,
    ]
    return pick.choice(shapes)()


def _npy(array: np.ndarray, **header: Any) -> bytes:
    """An array as ``numpy.save`` writes it, but for what the header says."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    if not header:
        return file.getvalue()
    shown: dict[str, Any] = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | header
    text = repr(shown).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def lying_header(content: bytes, pick: random.Random) -> bytes:
    """An array whose header says another shape or type than its bytes have."""
    members = _unpacked(content)
    names = sorted(name for name in members if name.endswith(".npy"))
    if not names:
        return changed_members(content, pick)
    one = pick.choice(names)
    header = pick.choice(
        [
            {"shape": (10**15, 10)},
            {"shape": (2**31, 2**31)},
            {"shape": (10**8, 8)},
            {"shape": (-1, -3)},
            {"shape": (10**12, 0)},
            {"shape": (2**62, 4)},
            {"shape": ()},
            {"descr": "|O"},
            {"descr": "|V0", "shape": (10**14,)},
            {"descr": "<U0", "shape": (10**14,)},
            {"descr": "<U999999999", "shape": ()},
            {"descr": [("a", "<f8"), ("b", "|O")]},
            {"descr": ("<f8", (10**9,))},
            {"fortran_order": True},
        ]
    )
    members[one] = _npy(np.load(io.BytesIO(members[one])), **header)
    return _packed(members)


def changed_sparse(content: bytes, pick: random.Random) -> bytes:
    """A sparse matrix (or one in place of an array) with indices outside it, of other shapes, or far too large."""
    members = _unpacked(content)
    names = sorted(name for name in members if name.endswith(".npz"))
    if not names:
        return changed_schema(content, pick)
    one = pick.choice(names)
    inner = {name: np.load(io.BytesIO(data)) for name, data in _unpacked(members[one]).items()}
    part = pick.choice(["indices.npy", "indptr.npy", "data.npy", "shape.npy", "format.npy", "bomb"])
    if part == "bomb":
        members[one] = bomb(members[one], pick)
        return _packed(members)
    array = inner[part].copy()
    if part == "format.npy":
        array = np.array(pick.choice([b"coo", b"dia", b"bsr", b"csc", b"block", b"random", b"lil"]))
    elif part == "shape.npy":
        array[pick.randrange(2)] = pick.choice([0, 1, -1, 59, 61, 2**31, 2**62])
    elif part == "data.npy":
        array = _another(array, pick)
    else:
        array[pick.randrange(len(array))] = pick.choice([-1, -(2**31), 10**6, 2**31 - 1, 13, len(array)])
        array = pick.choice([array, array, array.astype(np.int64), array.astype(np.float64), array[:-1]])
    inner[part] = array
    members[one] = _packed({name: _npy(array) for name, array in inner.items()}, zipfile.ZIP_DEFLATED)
    return _packed(members)


# -- the description of a model, or of a checkpoint ----------------------------------------------------------------

VALUES = (
    None, True, False, 0, -1, 1, 2, 4, 10**9, 10**30, -0.5, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"),
    "", "auto", "cosine", "knn", "MT19937", "x" * 1000, [], [1, 2], {}, {"a": 1}, [[[[]]]], "\ud800", "transform",
)  # fmt: skip
PATIENT = ("max_iter", "n_init", "sinkhorn_steps", "inner_iter")  # a huge number here is a long fit, not a fault
NAMES = (
    "builtins.eval", "os.system", "numpy.load", "numpy.void", "numpy.object_", "numpy.ndarray", "builtins.dict",
    "dspnmf.estimators.nmf.NMF", "dspnmf.estimators.gnmf.GNMF", "dspnmf.estimators.symnmf.SymNMF",
    "dspnmf.estimators.npe.NPE", "dspnmf.estimators.transform_state.BatchSums", "sklearn.svm._classes.SVC",
    "dspnmf.estimators.transform_state.TransformState", "dspnmf.backends.row_model.Completion",
    "sklearn.preprocessing._data.MinMaxScaler", "sklearn.pipeline.Pipeline", "numpy.float64", "builtins.str",
    "scipy.sparse._csr.csr_array", "numpy.random.mtrand.RandomState",
)  # fmt: skip
ATTRIBUTES = (
    "transform", "fit", "_rules", "_skl_callbacks", "memory", "components_", "n_components", "pull", "classes_", "a",
    "feature_names_in_", "similarity", "n_features_in_", "batches", "training",
)  # fmt: skip
CHANGES = (
    "leaf", "leaf", "leaf", "value", "drop", "key", "rename", "name", "kind", "id", "file", "exchange", "add", "laughs",
    "copy",
)  # fmt: skip
KINDS = (
    "ObjectNode", "DictNode", "ListNode", "TupleNode", "SetNode", "SliceNode", "JsonNode", "TypeNode", "FunctionNode",
    "NdArrayNode", "MaskedArrayNode", "RandomStateNode", "SparseMatrixNode", "CachedNode", "MethodNode", "None",
)  # fmt: skip


def _json_node(value: object, **more: Any) -> dict[str, Any]:
    text = json.dumps(value)
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": text, **more}


def _nodes(part: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every dict of a description, with the name it has there."""
    if isinstance(part, dict):
        yield name, part
    inner = part.items() if isinstance(part, dict) else ((name, one) for one in part) if isinstance(part, list) else ()
    for key, value in inner:
        yield from _nodes(value, key)


def changed_schema(content: bytes, pick: random.Random) -> bytes:
    """A description with other values, names, kinds, ids, members or attributes."""
    members = _unpacked(content)
    if "about.npy" in members:
        return _changed_about(members, pick)
    schema = json.loads(members["schema.json"])
    for _ in range(pick.choice([1, 1, 1, 2])):
        _change(schema, sorted(members), pick)
    members["schema.json"] = json.dumps(schema).encode()
    return _packed(members)


def _change(schema: dict[str, Any], files: list[str], pick: random.Random) -> None:
    nodes = [(name, node) for name, node in _nodes(schema) if name not in PATIENT]
    leaves = [node for _, node in nodes if node.get("__loader__") == "JsonNode"]
    mappings = [node for _, node in nodes if node.get("__loader__") == "DictNode" and node.get("content")]
    if not (mappings and leaves):
        return  # an earlier change left nothing
    _, node = pick.choice(nodes)
    mapping = pick.choice(mappings)
    key = pick.choice(sorted(mapping["content"]))
    how = pick.choice(CHANGES)
    if how == "leaf":
        pick.choice(leaves)["content"] = json.dumps(pick.choice(VALUES))
    elif how == "value" and key not in PATIENT:
        mapping["content"][key] = _json_node(pick.choice(VALUES))
    elif how == "drop":
        del mapping["content"][key]
        mapping["key_types"]["content"] = mapping["key_types"]["content"][1:]
    elif how == "rename":
        value = mapping["content"].pop(key)
        mapping["content"][pick.choice(["transform", "fit", "_rules", "components_", "n_components", "pull", "a"])] = (
            value
        )
    elif how == "add":
        name = pick.choice(
            ["transform", "_skl_callbacks", "_rules", "memory", "classes_", "feature_names_in_", "similarity"]
        )
        mapping["content"][name] = _json_node(pick.choice(VALUES))
        types = mapping["key_types"]["content"]
        types.append(types[0])
    elif how == "key":
        node.pop(pick.choice(sorted(node)), None) if node else None
    elif how == "name":
        node["__module__"], _, node["__class__"] = pick.choice(NAMES).rpartition(".")
    elif how == "kind":
        node["__loader__"] = pick.choice(KINDS)
    elif how == "id":
        ids = [one["__id__"] for _, one in nodes if "__id__" in one]
        node["__id__"] = pick.choice(ids or [1])
    elif how == "file":
        stored = [one for _, one in nodes if isinstance(one.get("file"), str)] or [node]
        pick.choice(stored)["file"] = pick.choice([*files, "../x", 5])
    elif how == "exchange":
        other = pick.choice(sorted(mapping["content"]))
        mapping["content"][key], mapping["content"][other] = mapping["content"][other], mapping["content"][key]
    elif how == "copy":
        mapping["content"][key] = json.loads(json.dumps(pick.choice(leaves) if not node.get("__loader__") else node))
    elif how == "laughs":  # lists of lists of lists, each twice the one before
        inner: dict[str, Any] = _json_node(1, __id__=-1)
        for level in range(2, 40):
            twice = [inner, {"__id__": 1 - level}]
            inner = {
                "__class__": "list",
                "__module__": "builtins",
                "__loader__": "ListNode",
                "content": twice,
                "__id__": -level,
            }
        mapping["content"][key] = inner


def _changed_about(members: Members, pick: random.Random) -> bytes:
    about = json.loads(str(np.load(io.BytesIO(members["about.npy"]))))
    part = pick.choice([about, about, about, about["identity"], about["memory"] or about])
    key = pick.choice(sorted(part))
    how = pick.choice(("value", "value", "drop", "inner"))
    if how == "drop":
        del part[key]
    elif how == "inner" and isinstance(part[key], list) and part[key]:
        part[key][pick.randrange(len(part[key]))] = pick.choice(VALUES)
    else:
        part[key] = pick.choice(VALUES)
    text = json.dumps(about)
    members["about.npy"] = _npy(np.array(text.replace("\ud800", "?")))
    return _packed(members)


HOSTILE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bytes": changed_bytes,
    "members": changed_members,
    "bomb": bomb,
    "sizes": lying_sizes,
    "array": changed_array,
    "values": changed_array,
    "header": lying_header,
    "sparse": changed_sparse,
    "schema": changed_schema,
    "schemas": changed_schema,
    "attributes": changed_schema,
}
