"""Model files that are not to be trusted: nothing in them is imported or run, and no array leads outside its memory."""

from __future__ import annotations

import copy
import io
import json
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
        assert "names what no model is made of: " in str(caught.value)
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
