"""Model files that are not to be trusted: nothing in them is imported or run, and no array leads outside its memory."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dspnmf
from dspnmf import NMF
from dspnmf.persistence import ModelFileError, _trust
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
    "object of a user": node("ObjectNode", "test_trust.Trap", content=NOTHING),
    "reduce": node("ConstructorFromReduceNode", "test_trust.Trap", content=ARGUMENTS),
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
    "list": node("ListNode", "test_trust.Trap", content=[TEXT]),
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


@pytest.mark.parametrize("place", ["root", "attribute"])
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused(name: str, place: str, wine_path: Path, trap: Path) -> None:
    """A file that names anything but what models are made of is refused by that name; nothing is imported or run."""
    attack = ATTACKS[name]

    def change(schema: dict[str, Any]) -> dict[str, Any] | None:
        if place == "root":
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


@pytest.mark.parametrize("text", ["os.system", "builtins.eval", "test_trust.Trap"])
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
    monkeypatch.setattr(_trust, "_expected", lambda kind, name: True)
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
    other = json.loads(zipfile.ZipFile(io.BytesIO(_trust.skops().dumps(StandardScaler()))).read("schema.json"))
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


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("_pull", np.ones((2, 3))),
        ("_pull", np.ones((26, 3))),
        ("_curvature", np.ones((3, 2))),
        ("_curvature", np.ones((200, 200))),
        ("_curvature", np.float64(1.0)),
        ("_unit", np.ones(2)),
        ("components_", np.ones((3, 12))),
        ("_train_data", np.ones((100, 13))),
        ("_train_codes", np.ones((120, 2))),
    ],
)
def test_shapes_that_do_not_fit(attribute: str, value: Any, wine: np.ndarray, tmp_path: Path) -> None:
    """Arrays that compiled loops would read past their end are found when the file is loaded."""
    model = make("GNMF").fit(wine[:120])
    setattr(model, attribute, value)
    with pytest.raises(ModelFileError, match=rf"is damaged: {attribute} of its GNMF has shape"):
        there_and_back(model, tmp_path)


def test_shapes_of_cosines(wine: np.ndarray, tmp_path: Path) -> None:
    """A model of cosines pulls rows and rows of unit length: with half of its pull it is refused."""
    model = make("DSPNMF", similarity="cosine").fit(wine)
    model._pull = model._pull[:13]
    with pytest.raises(ModelFileError, match=r"_pull of its DSPNMF has shape \(13, 3\), but must have \(26, 3\)"):
        there_and_back(model, tmp_path)


def test_sparse_indices_outside(wine: np.ndarray, tmp_path: Path) -> None:
    """A sparse matrix whose indices lie outside it is found too, wherever it is."""
    model = make("GNMF").fit(sparse.csr_array(wine))
    model._train_data.indices[5] = 10**6
    with pytest.raises(ModelFileError, match=r"is damaged \(ValueError: .*indices"):
        there_and_back(model, tmp_path)
    nested = make("DSPNMF", similarity=sparse.csr_array(np.eye(4)))
    nested.similarity.indices[0] = -7
    with pytest.raises(ModelFileError, match="is damaged"):
        there_and_back(nested, tmp_path)
