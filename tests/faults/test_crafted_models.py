"""Model files made to do harm: nothing in them is imported or run, no array leads outside its memory or fills it all.

Thousands of files with random damage: `test_hostile_models`.
"""

from __future__ import annotations

import copy
import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dspnmf
from dspnmf import NMF
from dspnmf.persistence import ModelFileError, _contents
from model_files import make, rewrite, there_and_back


@pytest.fixture
def wine_path(wine: np.ndarray, tmp_path: Path) -> Path:
    """A file with a fitted DSPNMF."""
    path = tmp_path / "wine.skops"
    dspnmf.save(make("DSPNMF").fit(wine), path)
    return path


class Trap:
    """Writes down that it was run, whichever way."""

    sprung = False

    def __init__(self, *_: Any) -> None:
        Trap.sprung = True

    def __setstate__(self, _: Any) -> None:
        Trap.sprung = True

    def __reduce__(self) -> Any:
        return Trap, ("boom",)


def node(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """A node of a schema."""
    module, _, short = name.rpartition(".")
    return {"__class__": short, "__module__": module, "__loader__": kind, **rest}


TEXT = node("JsonNode", "builtins.str", content='"touch sprung"')
ARGUMENTS = node("TupleNode", "builtins.tuple", content=[TEXT])
NOTHING = node("DictNode", "builtins.dict", content={}, key_types=node("ListNode", "builtins.list", content=[]))
OURS = node("ObjectNode", "dspnmf.estimators.dspnmf.DSPNMF")
ATTACKS = {
    "function": node("FunctionNode", "os.system"),
    "builtin": node("TypeNode", "builtins.eval"),
    "type": node("TypeNode", "trap_module.Anything"),
    "object": node("ObjectNode", "trap_module.Anything", content=NOTHING),
    "object of a user": node("ObjectNode", "test_contents.Trap", content=NOTHING),
    "reduce": node("ConstructorFromReduceNode", "test_contents.Trap", content=ARGUMENTS),
    "reduce of ours": node("ConstructorFromReduceNode", "dspnmf.estimators.dspnmf.DSPNMF", content=ARGUMENTS),
    "partial": node(
        "PartialNode",
        "functools.partial",
        content={
            "func": node("FunctionNode", "os.system"),
            "args": ARGUMENTS,
            "kwds": NOTHING,
            "namespace": NOTHING,
        },
    ),
    "method": node("MethodNode", "dspnmf.estimators.dspnmf.DSPNMF", content={"func": "fit", "obj": OURS}),
    "operator": node("OperatorFuncNode", "operator.methodcaller", attrs=ARGUMENTS),
    "list": node("ListNode", "test_contents.Trap", content=[TEXT]),
    "tuple": node("TupleNode", "trap_module.Anything", content=[TEXT]),
    "keys": node(
        "DictNode",
        "builtins.dict",
        content={"touch sprung": TEXT},
        key_types=node("ListNode", "builtins.list", content=[node("FunctionNode", "os.system")]),
    ),
    "array": node("NdArrayNode", "trap_module.Anything", type="numpy", file="schema.json"),
    "array of numpy": node("NdArrayNode", "numpy.fromfile", type="numpy", file="schema.json"),
    "function of numpy": node("FunctionNode", "numpy.load"),
    "generator": node("RandomGeneratorNode", "numpy.random._generator.Generator", content={}),
    "old protocol": node("FunctionNode", "numpy.sin", content={"module_path": "os", "function": "system"}),
    "unknown node": node("NewNode", "builtins.exec"),
    "estimator that is none": node("ObjectNode", "sklearn.utils._joblib.Anything", content=NOTHING),
    "our module, not our estimator": node("ObjectNode", "dspnmf.paper.store.Store", content=NOTHING),
    "tree": node("TreeNode", "sklearn.tree._tree.Tree", __reduce__={"args": ARGUMENTS}, content=NOTHING),
}


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a module whose import would be noticed; whatever was run leaves ``sprung``."""
    (tmp_path / "trap_module.py").write_text("open('sprung', 'w').close()\nAnything = dict\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Trap, "sprung", False)
    return tmp_path


@pytest.mark.parametrize("where", ["root", "attribute"])
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused(name: str, where: str, wine_path: Path, trap: Path) -> None:
    """A file that names anything but what models are made of is refused by that name; nothing is imported or run."""
    attack = ATTACKS[name]

    def change(schema: dict[str, Any]) -> dict[str, Any] | None:
        if where == "root":
            return {**schema, **attack}
        schema["content"]["content"]["alpha"] = attack
        return None

    rewrite(wine_path, change)
    if name == "old protocol":
        rewrite(wine_path, lambda schema: schema.update(protocol=0))
    with pytest.raises(ModelFileError) as caught:
        dspnmf.load(wine_path)
    if name not in ("old protocol", "estimator that is none"):
        assert "names types that no model is made of: " in str(caught.value)
        assert "Nothing of it was loaded or run" in str(caught.value)
    assert not Trap.sprung
    assert not (trap / "sprung").exists()
    assert "trap_module" not in sys.modules


@pytest.mark.parametrize("text", ["os.system", "builtins.eval", "test_contents.Trap"])
def test_refusals_name_the_types(text: str, wine_path: Path, trap: Path) -> None:
    """The message has every type that was found."""
    kind = "ObjectNode" if text.endswith("Trap") else "FunctionNode"
    rewrite(wine_path, lambda schema: schema["content"]["content"].update(alpha=node(kind, text)))
    rewrite(wine_path, lambda schema: schema["content"]["content"].update(lam=node("TypeNode", "subprocess.Popen")))
    with pytest.raises(ModelFileError, match=rf"made of: .*{text}") as caught:
        dspnmf.load(wine_path)
    assert "subprocess.Popen" in str(caught.value)


def test_the_second_wall_stands_alone(wine_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our own look at the file skops still refuses it."""
    rewrite(wine_path, lambda schema: schema["content"]["content"].update(alpha=ATTACKS["function"]))
    monkeypatch.setattr(_contents, "_expected", lambda kind, name: True)
    with pytest.raises(ModelFileError, match=r"made of: os\.system\."):
        dspnmf.load(wine_path)


def test_pickles_in_arrays_are_not_loaded(wine_path: Path, trap: Path) -> None:
    """An array that hides a pickle is damage, not code."""
    with zipfile.ZipFile(wine_path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    hidden = io.BytesIO()
    np.save(hidden, np.array([Trap()], dtype=object), allow_pickle=True)
    Trap.sprung = False
    with zipfile.ZipFile(wine_path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, hidden.getvalue() if name.endswith(".npy") else data)
    with pytest.raises(ModelFileError, match=r"is damaged \(ValueError"):
        dspnmf.load(wine_path)
    assert not Trap.sprung


def test_a_file_without_our_models_is_refused(wine_path: Path) -> None:
    """The note alone makes no model file."""
    other = json.loads(zipfile.ZipFile(io.BytesIO(_contents.skops().dumps(StandardScaler()))).read("schema.json"))
    rewrite(wine_path, lambda schema: other)
    with pytest.raises(
        ModelFileError, match=r"holds no estimator of dspnmf, but a StandardScaler: use skops\.io\.load"
    ):
        dspnmf.load(wine_path)


def test_caches_of_pickles_are_refused(tmp_path: Path) -> None:
    """A pipeline in a file cannot point the next fit to a folder of pickles."""
    path = tmp_path / "model.skops"
    dspnmf.save(make_pipeline(NMF()), path)
    rewrite(path, lambda schema: schema["content"]["content"].update(memory=TEXT))
    with pytest.raises(ModelFileError, match=r"names a folder of pickles \(memory='touch sprung'\)"):
        dspnmf.load(path)


# -- arrays that do not fit each other -----------------------------------------------------------------------------


def changed(model: Any, part: str, **values: Any) -> Any:
    """The model with other values in a part of its state ("" is the state itself)."""
    state = model._transform_state
    change = {part: replace(getattr(state, part), **values)} if part else values
    model._transform_state = replace(state, **change)
    return model


FITTED: dict[str, Callable[[np.ndarray], Any]] = {
    "training": lambda X: make("GNMF").fit(X),
    "completion": lambda X: make("DSPNMF", missing="mask").fit(np.where(X < 1, X, np.nan)),
    "batches": lambda X: make("NMF").fit(X),
}
ARRAYS = {  # a part of the state -> its arrays: by name, what a message calls them
    "": {"unit": "unit", "curvature": "curvature", "pull": "pull"},
    "training": {"codes": "training codes", "data": "training data"},
    "completion": {"Vt": "V'", "column_means": "column means"},
    "batches": {"Vt": "sums V'", "P": "sums P", "Q": "sums Q"},
}
EVERY_ARRAY = [(part, name) for part, names in ARRAYS.items() for name in names]


def negative(array: np.ndarray) -> np.ndarray:
    """One entry below zero."""
    return np.where(np.arange(array.size).reshape(array.shape) == 1, -1.0, array)


SPOILED: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "fewer rows": (lambda array: array[:-1], " has shape"),
    "more rows": (lambda array: np.concatenate([array, array]), " has shape"),
    "no dimensions": (lambda array: np.float64(1.0), " is a float64, but must be an array"),
    "three dimensions": (lambda array: array[..., None, None], " has shape"),
    "a list": (lambda array: array.tolist(), " is a list, but must be an array"),
    "nothing": (lambda array: None, " is a NoneType, but must be an array"),
    "whole numbers": (lambda array: array.astype(np.int64), " has dtype int64, but must be float32 or float64"),
    "text": (lambda array: array.astype(str), " has dtype <U32, but must be float32 or float64"),
    "NaN": (lambda array: np.where(array == array.max(), np.nan, array), " has entries that are not finite"),
    "infinity": (lambda array: np.where(array == array.max(), np.inf, array), " has entries that are not finite"),
    "negative": (negative, " has entries that are not finite, or negative"),
}


@pytest.fixture(scope="session")
def fitted(wine: np.ndarray) -> dict[str, Any]:
    """A model with each part of a state."""
    return {part: fit(wine[:120]) for part, fit in FITTED.items()}


@pytest.mark.parametrize(("part", "name"), EVERY_ARRAY)
@pytest.mark.parametrize("how", SPOILED)
def test_arrays_that_no_fit_leaves(how: str, part: str, name: str, fitted: dict[str, Any], tmp_path: Path) -> None:
    """Arrays of another shape, type or sign than a fit leaves are found when the file is loaded, and named."""
    model = copy.copy(fitted[part or "training"])
    held = getattr(getattr(model._transform_state, part) if part else model._transform_state, name)
    spoil, text = SPOILED[how]
    label = ARRAYS[part][name]
    if how in ("fewer rows", "more rows") and label in ("training codes", "training data"):
        label, text = "training data", " has shape"  # which of the two is wrong, nobody can tell
    with pytest.raises(ModelFileError, match=rf"is damaged: {label}{text}.* in its {type(model).__name__}\. Copy"):
        there_and_back(changed(model, part, **{name: spoil(held)}), tmp_path)


@pytest.mark.parametrize(
    ("part", "values", "text"),
    [
        ("", {"scale": 0.0}, "scale is 0.0, but must be a finite number > 0"),
        ("", {"scale": "2"}, "scale is '2', but must be a finite number > 0"),
        ("batches", {"norm2": np.inf}, "norm2 is inf, but must be a finite number >= 0"),
        ("batches", {"mass": -1.0}, "mass is -1.0, but must be a finite number >= 0"),
        ("batches", {"code": None}, "code is None, but must be a finite number > 0"),
        ("completion", {"weight": np.nan}, "weight of V' is nan, but must be a finite number >= 0"),
        ("training", {"weight": -1.0}, "weight of the ties is -1.0, but must be a finite number >= 0"),
        ("training", {"edge_length": "long"}, "edge length is 'long', but must be a finite number >= 0"),
    ],
)
def test_numbers_that_no_fit_leaves(
    part: str, values: dict[str, Any], text: str, fitted: dict[str, Any], tmp_path: Path
) -> None:
    """Numbers of a state are looked at too."""
    with pytest.raises(ModelFileError, match=f"is damaged: {text}"):
        there_and_back(changed(copy.copy(fitted[part or "training"]), part, **values), tmp_path)


def test_components_that_do_not_fit(wine: np.ndarray, tmp_path: Path) -> None:
    """So are components of another width, and a state that is none."""
    model = make("GNMF").fit(wine[:120])
    model.components_ = np.ones((3, 12))
    with pytest.raises(ModelFileError, match=r"is damaged: components_ has shape \(3, 12\), but must have \(3, 13\)"):
        there_and_back(model, tmp_path)
    model = make("GNMF").fit(wine[:120])
    model._transform_state = {"pull": np.ones((3, 13))}
    with pytest.raises(ModelFileError, match=r"is damaged: _transform_state is a dict"):
        there_and_back(model, tmp_path)


def test_shapes_of_cosines(wine: np.ndarray, tmp_path: Path) -> None:
    """A model of cosines pulls rows and rows of unit length: with half of its pull it is refused."""
    model = make("DSPNMF", similarity="cosine").fit(wine)
    changed(model, "", pull=model._transform_state.pull[:13])
    with pytest.raises(ModelFileError, match=r"pull has shape \(13, 3\), but must have \(26, 3\) in its DSPNMF"):
        there_and_back(model, tmp_path)


def test_sparse_indices_outside(wine: np.ndarray, tmp_path: Path) -> None:
    """A sparse matrix whose indices lie outside it is found too, wherever it is."""
    model = make("GNMF").fit(sparse.csr_array(wine))
    model._transform_state.training.data.indices[5] = 10**6
    with pytest.raises(ModelFileError, match=r"is damaged \(ValueError: .*indices"):
        there_and_back(model, tmp_path)
    nested = make("DSPNMF", similarity=sparse.csr_array(np.eye(4)))
    nested.similarity.indices[0] = -7
    with pytest.raises(ModelFileError, match="is damaged"):
        there_and_back(nested, tmp_path)


# -- sizes and references that lie ---------------------------------------------------------------------------------


def described(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The node of an attribute of the model."""
    return schema["content"]["content"][name]


def test_compressed_files_are_refused(wine_path: Path) -> None:
    """A compressed member is refused whatever size the archive says it has: 6.5 GB, or 100 bytes."""
    with zipfile.ZipFile(wine_path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for claimed in (None, 100):
        with zipfile.ZipFile(wine_path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
            info = zipfile.ZipInfo("more.npy")
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, bytes(10**6))
            info.file_size = claimed or 6_500_000_000
        with pytest.raises(ModelFileError, match=r"'more\.npy' is compressed, which dspnmf never does"):
            dspnmf.load(wine_path)


def test_sizes_beyond_the_file_are_refused(wine_path: Path) -> None:
    """Members that together claim more bytes than the file has are refused, overlapping ones too."""
    content = bytearray(wine_path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 20 : at + 28] = (2**31 - 1).to_bytes(4, "little") * 2
    wine_path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"its members claim 2,147,\d+,\d+ bytes, but it has"):
        dspnmf.load(wine_path)


@pytest.mark.parametrize("size", [10**7, 10**8])
def test_sparse_matrices_that_unpack_to_much(size: int, wine: np.ndarray, tmp_path: Path) -> None:
    """Sparse matrices are compressed: up to some 30 MB they are read, however small the file is, and not far beyond."""
    model, path = make("GNMF").fit(wine), tmp_path / "model.skops"
    matrix = sparse.csr_array((4, size // 4))
    matrix.indices, matrix.data = np.zeros(size // 12, np.int32), np.zeros(size // 12)
    matrix.indptr = np.array([0, 0, 0, 0, size // 12], np.int32)
    model.kept_ = matrix
    if size < 10**8:
        dspnmf.save(model, path)
        assert path.stat().st_size < 10**6
        assert dspnmf.load(path).kept_.nnz == size // 12
    else:
        with pytest.raises(ValueError, match=r"claims 100,0\d+,\d+ bytes, more than a file of this size can hold"):
            dspnmf.save(model, path)


def test_headers_that_claim_much_are_refused(wine_path: Path) -> None:
    """An array is not made before its bytes are counted."""
    with zipfile.ZipFile(wine_path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    one = next(name for name in members if name.endswith(".npy"))
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**8, 8)})
    with zipfile.ZipFile(wine_path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, head.getvalue() if name == one else data)
    with pytest.raises(ModelFileError, match=r"has 0 bytes for an array of shape \(100000000, 8\), which takes 6,4"):
        dspnmf.load(wine_path)


def test_objects_that_refer_to_each_other(wine_path: Path) -> None:
    """Lists that hold the one before twice, 40 times over, are refused before they are built, and so is a circle."""
    inner = {**TEXT, "__id__": -1}
    for level in range(2, 42):
        inner = node("ListNode", "builtins.list", content=[inner, {"__id__": 1 - level}], __id__=-level)
    rewrite(wine_path, lambda schema: schema["content"]["content"].update(alpha=inner))
    with pytest.raises(ModelFileError, match="describes two objects of one id, -1"):
        dspnmf.load(wine_path)


def test_members_belong_to_one_object(wine_path: Path) -> None:
    """A large array is not read again and again under other names."""

    def change(schema: dict[str, Any]) -> None:
        array = described(schema, "components_")
        schema["content"]["content"].update(alpha={**array, "__id__": 1}, lam={**array, "__id__": 2})

    rewrite(wine_path, change)
    with pytest.raises(ModelFileError, match=r"\.npy' belongs to two objects"):
        dspnmf.load(wine_path)


def test_empty_bytes_of_any_length_are_refused(wine_path: Path) -> None:
    """``numpy.void`` of an array that holds a number would be as large as that number."""
    rewrite(wine_path, lambda schema: described(schema, "components_").update(__class__="void"))
    with pytest.raises(ModelFileError, match=r"made of: numpy\.void"):
        dspnmf.load(wine_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_are_refused(tmp_path: Path) -> None:
    """Nobody waits for a file that never ends."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is not a regular file: copy the model into one first"):
        dspnmf.load(tmp_path / "pipe")


# -- attributes ----------------------------------------------------------------------------------------------------

CHANGED: dict[str, tuple[str, dict[str, Any], str]] = {  # what is wrong -> a model, its attributes, what the error says
    "a method": ("NMF", {"transform": 3}, "transform is an attribute that no fit leaves"),
    "a callback": ("NMF", {"_callback": [3]}, "_callback is an attribute that no fit leaves"),
    "a private one": ("NMF", {"_rules": {}}, "_rules is an attribute that no fit leaves"),
    "a count": ("NMF", {"n_samples_seen_": -3}, "n_samples_seen_ is -3, but must be a whole number >= 0"),
    "features": ("NMF", {"n_features_in_": "13"}, "n_features_in_ is '13', but must be a whole number >= 1"),
    "components": ("NMF", {"n_components_": 4}, r"components_ has shape \(3, 13\), but must have \(4, 13\)"),
    "a sign": ("NMF", {"components_": -np.ones((3, 13))}, "components_ has entries that are not finite, or negative"),
    "a number": ("NMF", {"objective_": "small"}, "objective_ is 'small', but must be a number"),
    "a history": ("NMF", {"objective_history_": 3.0}, "objective_history_ is not an array of numbers"),
    "stability": ("NMF", {"stability_": np.ones(4)}, r"stability_ has shape \(4,\), but must have \(3,\)"),
    "names": ("NMF", {"feature_names_in_": np.array([1, 2])}, "feature_names_in_ is not an array of 13 names"),
    "output": ("NMF", {"_sklearn_output_config": {"transform": 5}}, "_sklearn_output_config is"),
    "classes": ("GDNMF", {"classes_": np.eye(3)}, "classes_ is not an array of one dimension"),
    "labels": ("GDNMF", {"classes_": np.arange(4)}, r"label_components_ has shape \(3, 3\), but must have \(3, 4\)"),
    "mean": ("NPE", {"mean_": np.ones(12)}, r"mean_ has shape \(12,\), but must have \(13,\)"),
    "a parameter": ("SDNMF", {"lam": -1.0}, r"ParameterError: lam=-1\.0 is not allowed in SDNMF"),
    "no choice": ("DSPNMFCV", {"best_estimator_": 3}, "best_estimator_ is not a DSPNMF with 3 components"),
}


@pytest.mark.parametrize("how", CHANGED)
def test_attributes_that_no_fit_leaves(how: str, wine: np.ndarray, tmp_path: Path) -> None:
    """Every attribute that a method may use is looked at when the file is loaded."""
    name, attributes, text = CHANGED[how]
    model = make(name, n_components=[3] if name == "DSPNMFCV" else 3, alphas=[1.0], cv=2)
    model.fit(wine, np.arange(len(wine)) % 3)
    vars(model).update(attributes)
    with pytest.raises(ModelFileError, match=rf"is damaged.*{text}"):
        there_and_back(model, tmp_path)


@pytest.mark.parametrize("name", ["_transform_state", "components_", "n_components_", "n_features_in_", "n_steps_"])
def test_missing_attributes(name: str, wine: np.ndarray, tmp_path: Path) -> None:
    """A fitted model that lacks what its methods need is refused."""
    model = make("NMF").fit(wine)
    delattr(model, name)
    with pytest.raises(ModelFileError, match=f"is damaged: {name} is missing in its NMF"):
        there_and_back(model, tmp_path)


def test_files_without_attributes_are_refused(wine_path: Path) -> None:
    """A model that holds nothing, not even parameters, is not one."""
    rewrite(wine_path, lambda schema: schema.pop("content") and None)
    with pytest.raises(ModelFileError, match="is damaged: no attribute at all in its DSPNMF"):
        dspnmf.load(wine_path)


@pytest.mark.parametrize(
    ("part", "values", "text"),
    [
        ("", {"parameters": {"n_components": 3, "width": 1}}, "the parameters of the fit are n_components, width"),
        ("", {"parameters": None}, "parameters is a NoneType"),
        ("", {"training": 3.0}, "training is a float"),
        ("batches", {"weights": {}}, "sums are of the terms "),
        ("batches", {"weights": {"reconstruction": -1.0}}, "weight of the reconstruction is -1.0"),
        ("batches", {"rows_only": "yes"}, "rows_only is 'yes', but must be True or False"),
    ],
)
def test_states_that_no_fit_leaves(
    part: str, values: dict[str, Any], text: str, fitted: dict[str, Any], tmp_path: Path
) -> None:
    """Parameters of the fit, and what sums are of, are looked at too: both decide how wide rows are."""
    with pytest.raises(ModelFileError, match=f"is damaged: {text}"):
        there_and_back(changed(copy.copy(fitted["batches"]), part, **values), tmp_path)


def test_positions_of_generators(wine: np.ndarray, tmp_path: Path) -> None:
    """NumPy would read random numbers from wherever a file says."""
    model = make("NMF", random_state=np.random.RandomState(0)).fit(wine)
    state = model.random_state.get_state(legacy=False)
    state["state"]["pos"] = 10**6
    model.random_state.set_state(state)
    with pytest.raises(ModelFileError, match="a generator is at position 1000000, but must be at one from 0 to 624"):
        there_and_back(model, tmp_path)
