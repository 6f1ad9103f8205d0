"""Model files: what is saved comes back bit for bit, and nothing else is ever loaded or run."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.callback import ProgressBar
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

import dspnmf
from dspnmf import DSPNMF, NMF, graphs, persistence
from dspnmf.persistence import ModelFileError, _contents
from model_files import assert_same, make, rewrite, there_and_back

FAMILY = sorted(name for name in dspnmf.__all__ if isinstance(getattr(dspnmf, name), type))
DENSE_ONLY = ("NPE", "SDNMF")
KINDS = ("dense", "csr_matrix", "csr_array")
CASES = [(name, kind) for name in FAMILY for kind in KINDS if kind == "dense" or name not in DENSE_ONLY]


def stored(X: np.ndarray, kind: str) -> Any:
    """X as an array or a sparse matrix."""
    return X if kind == "dense" else getattr(sparse, kind)(X)


@pytest.fixture
def wine_path(wine: np.ndarray, tmp_path: Path) -> Path:
    """A file with a fitted DSPNMF."""
    path = tmp_path / "wine.skops"
    dspnmf.save(make("DSPNMF").fit(wine), path)
    return path


# -- there and back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_model_comes_back(name: str, kind: str, wine: np.ndarray, tmp_path: Path) -> None:
    """Codes of new rows are the same bit for bit, and so is everything else in the model, whole family."""
    X, y = stored(wine, kind), np.arange(len(wine)) % 3
    model = make(name).fit(X[:120], y[:120])
    again = there_and_back(model, tmp_path)
    assert_same(again, model)
    assert_same(again.get_params(), model.get_params())
    if hasattr(model, "transform"):
        assert_same(again.transform(X[120:]), model.transform(X[120:]))


@pytest.mark.parametrize("similarity", ["cosine", "diffused", "knn", "self-tuned", "matrix"])
def test_similarities_come_back(similarity: str, wine: np.ndarray, tmp_path: Path) -> None:
    """Models tied to graphs, also to one of the user's own, come back whole; float32 stays float32."""
    X = wine.astype(np.float32)
    chosen = graphs.knn(X, 4) if similarity == "matrix" else similarity
    model = make("DSPNMF", similarity=chosen).fit(X)
    again = there_and_back(model, tmp_path)
    assert_same(again, model)
    if similarity in ("cosine", "diffused", "knn"):
        assert_same(again.transform(X[:9]), model.transform(X[:9]))


@pytest.mark.parametrize("name", FAMILY)
def test_unfitted_models_come_back(name: str, tmp_path: Path) -> None:
    """A model that was not fitted keeps its parameters, and is still not fitted."""
    again = there_and_back(make(name, n_components=4), tmp_path)
    assert_same(again.get_params(), make(name, n_components=4).get_params())
    with pytest.raises(NotFittedError):
        check_is_fitted(again)


@pytest.mark.parametrize(
    "scaler",
    [MinMaxScaler(clip=True), MaxAbsScaler(), Normalizer(), FunctionTransformer(None), FunctionTransformer(np.log1p)],
    ids=lambda scaler: repr(scaler),
)
def test_pipelines_come_back(scaler: Any, wine: np.ndarray, tmp_path: Path) -> None:
    """What scales the data is saved with the model."""
    X = 7 * wine
    model = Pipeline([("scale", scaler), ("model", make("DSPNMF"))]).fit(X)
    again = there_and_back(model, tmp_path)
    assert_same(again.transform(X), model.transform(X))
    assert again.get_params().keys() == model.get_params().keys()


def test_a_classifier_may_follow(wine: np.ndarray, tmp_path: Path) -> None:
    """A pipeline with an estimator of scikit-learn behind ours predicts the same; compiled ones must be named."""
    y = np.arange(len(wine)) % 3
    model = make_pipeline(make("NMF"), LogisticRegression()).fit(wine, y)
    assert_same(there_and_back(model, tmp_path).predict(wine), model.predict(wine))
    model, path = make_pipeline(make("NMF"), SVC()).fit(wine, y), tmp_path / "svc.skops"
    dspnmf.save(model, path)
    with pytest.raises(ModelFileError, match=r"holds sklearn\.svm\._classes\.SVC of .*crash.*pass classes=\[SVC\]"):
        dspnmf.load(path)
    assert_same(dspnmf.load(path, classes=[SVC]).predict(wine), model.predict(wine))


def test_names_of_features_come_back(wine: np.ndarray, tmp_path: Path) -> None:
    """A model fitted on a data frame knows its columns, and still answers with data frames if told to."""
    frame = pd.DataFrame(wine, columns=[f"f{j}" for j in range(13)])
    model = make("DSPNMF").set_output(transform="pandas").fit(frame)
    again = there_and_back(model, tmp_path)
    pd.testing.assert_frame_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"f0": "other"}))


def test_a_random_state_goes_on(wine: np.ndarray, tmp_path: Path) -> None:
    """A generator among the parameters continues where it stood, in the model loaded as in the one saved."""
    model = make("DSPNMF", random_state=np.random.RandomState(3)).fit(wine)
    again = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(again.fit_transform(wine), model.fit_transform(wine))


def test_search_parameters_come_back(tmp_path: Path) -> None:
    """Splitters of scikit-learn may be among what a model holds."""
    model = make("DSPNMF")
    model.cv_ = [KFold(3, shuffle=True, random_state=1), np.ma.masked_array([1.0, 2.0], [False, True])]
    splitter, masked = there_and_back(model, tmp_path).cv_
    assert repr(splitter) == repr(model.cv_[0])
    np.testing.assert_array_equal(masked.mask, [False, True])


@pytest.mark.parametrize("name", ["DSPNMF", "GNMF"])
def test_tensors_become_arrays(name: str, wine: np.ndarray, tmp_path: Path) -> None:
    """A model fitted on tensors is saved with NumPy arrays, keeps its own, and still answers tensors with tensors."""
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    X = torch.from_numpy(wine)
    model = make(name).fit(X)
    again = there_and_back(model, tmp_path)
    assert isinstance(model.components_, torch.Tensor)
    assert_same(again.components_, model.components_.numpy())
    Z = again.transform(X)
    assert torch.equal(Z, model.transform(X))
    assert torch.equal(again.inverse_transform(Z), model.inverse_transform(Z))


class OnDevice:
    """An array that is elsewhere, and knows the way to the host."""

    shape = (2,)

    def get(self) -> np.ndarray:
        """The way CuPy's arrays come."""
        return np.array([1.0, 2.0])


OnDevice.__module__ = "cupy._core.core"


def test_arrays_of_devices_become_arrays(tmp_path: Path) -> None:
    """What CuPy holds is fetched, within containers too."""
    model = make("DSPNMF")
    model.kept_ = {"one": [OnDevice()]}
    np.testing.assert_array_equal(there_and_back(model, tmp_path).kept_["one"][0], [1.0, 2.0])


def test_dask_models_come_back(wine: np.ndarray, tmp_path: Path) -> None:
    """A model fitted on a Dask array is one like any other."""
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    model = make("DSPNMF").fit(da.from_array(wine, chunks=(60, 13)))
    assert_same(there_and_back(model, tmp_path).transform(wine), model.transform(wine))


def test_memory_maps_become_arrays(wine: np.ndarray, tmp_path: Path) -> None:
    """Training rows that a graph method kept of a memory map are in the file, not a reference to the map."""
    np.save(tmp_path / "x.npy", wine)
    model = make("GNMF").fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    model.kept_ = np.load(tmp_path / "x.npy", mmap_mode="r")
    again = there_and_back(model, tmp_path)
    assert type(again.kept_) is np.ndarray
    assert_same(again.transform(wine[:5]), model.transform(wine[:5]))


def test_callbacks_are_left_out(wine: np.ndarray, tmp_path: Path) -> None:
    """How a fit was watched is not part of the model; the model that was saved keeps it."""
    model = make("DSPNMF").set_callbacks(ProgressBar())
    assert "_skl_callbacks" not in vars(there_and_back(model, tmp_path))
    assert "_skl_callbacks" in vars(model)


class Own(DSPNMF):
    """A class of the user's."""


def test_classes_of_the_users(wine: np.ndarray, tmp_path: Path) -> None:
    """An estimator derived from ours is saved, refused by its name unless it is named, and comes back then."""
    model = Own(3, random_state=0, max_iter=4, tol=0).fit(wine)
    dspnmf.save(model, tmp_path / "own.skops")
    with pytest.raises(ModelFileError, match=r"test_persistence\.Own"):
        dspnmf.load(tmp_path / "own.skops")
    assert_same(dspnmf.load(tmp_path / "own.skops", classes=[Own]), model)


def test_rounded_sums_come_back(wine: np.ndarray, tmp_path: Path) -> None:
    """Sums that rounding has left a little below 0, as happens in float32, do not make a model a damaged one."""
    model = make("DSPNMF").fit(wine)
    state = model._transform_state
    for array in (state.pull, state.curvature, state.batches.P, state.batches.Q):
        array[0, 1] = -1e-7 * array.max()
    assert_same(there_and_back(model, tmp_path), model)


# -- writing -------------------------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file(wine_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails halfway leaves the file that was there, and no other."""
    before = wine_path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        dspnmf.save(NMF(5), wine_path)
    assert wine_path.read_bytes() == before
    assert [path.name for path in wine_path.parent.iterdir()] == [wine_path.name]


class Scaler(StandardScaler):
    """A class of the user's."""


@pytest.mark.parametrize(
    ("model", "kind", "text"),
    [
        ("DSPNMF", TypeError, r"model='DSPNMF' cannot be saved: pass an estimator of dspnmf"),
        (DSPNMF, TypeError, r"cannot be saved: pass an estimator"),
        (StandardScaler(), TypeError, r"StandardScaler holds no estimator of dspnmf.*skops\.io\.dump"),
        (make_pipeline(Scaler(), NMF()), TypeError, r"would refuse its test_persistence\.Scaler\. Model files hold"),
        (make_pipeline(FunctionTransformer(np.linalg.norm), NMF()), TypeError, r"refuse its numpy\.linalg\.norm"),
        (NMF(random_state=np.random.default_rng()), TypeError, r"refuse its numpy\.random\._generator\.Generator"),
        (Pipeline([("n", NMF())], memory="cache"), ValueError, r"memory='cache'.*set_params\(memory=None\)"),
    ],
    ids=["a name", "a class", "another estimator", "a class of the user's", "a function", "a generator", "a cache"],
)
def test_what_cannot_be_saved(model: Any, kind: type[Exception], text: str, tmp_path: Path) -> None:
    """What load would not take is refused when it is saved, with the reason, and no file is left."""
    with pytest.raises(kind, match=text):
        dspnmf.save(model, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder, and a file in no folder, are refused with the way out."""
    with pytest.raises(IsADirectoryError, match=r"is a folder: name a file in it, such as .*model\.skops"):
        dspnmf.save(NMF(), tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*absent: create it"):
        dspnmf.save(NMF(), tmp_path / "absent" / "model.skops")


# -- files that are something else ---------------------------------------------------------------------------------


def other_zip(**members: str) -> bytes:
    """A zip archive of something else."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)
    return content.getvalue()


def joblib_bytes(compress: Any) -> bytes:
    """A joblib file."""
    content = io.BytesIO()
    joblib.dump({"components": np.ones(5)}, content, compress=compress)
    return content.getvalue()


def skops_bytes() -> bytes:
    """A file that skops wrote by itself."""
    return bytes(_contents.skops().dumps(NMF()))


def note_json() -> str:
    """The note of a file that is written now."""
    return json.dumps(persistence.present()._asdict())


FOREIGN: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is not a model file: pass one that dspnmf.save wrote"),
    "text": (lambda: b"components: 3\n", "is not a model file"),
    "npy": (lambda: b"\x93NUMPY", "is not a model file"),
    "pickle": (lambda: pickle.dumps(NMF()), "looks like a pickle or joblib file.*dspnmf reads none"),
    "joblib": (lambda: joblib_bytes(0), "pickle or joblib"),
    "joblib zlib": (lambda: joblib_bytes(3), "pickle or joblib"),
    "joblib gzip": (lambda: joblib_bytes(("gzip", 3)), "pickle or joblib"),
    "joblib xz": (lambda: joblib_bytes(("xz", 3)), "pickle or joblib"),
    "zip": (lambda: other_zip(a_txt="x"), "is a zip archive, but not a model file"),
    "skops": (skops_bytes, "was not written by dspnmf.save, but by skops alone.*skops.io.load"),
    "no json": (lambda: other_zip(schema_json="{", dspnmf_json="{"), r"is damaged \(JSONDecodeError"),
    "no note": (lambda: other_zip(schema_json="{}", dspnmf_json="{}"), r"is damaged \(KeyError: 'format'\)"),
    "no schema": (lambda: other_zip(schema_json="[1]", dspnmf_json=note_json()), "damaged"),
    "deep": (
        lambda: other_zip(schema_json="[" * 10**5, dspnmf_json=note_json()),
        r"is damaged \(RecursionError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_other_files(name: str, tmp_path: Path) -> None:
    """Every file that is not a model file is refused in a line or two that name it and say what to do."""
    make_bytes, text = FOREIGN[name]
    path = tmp_path / "model.skops"
    path.write_bytes(make_bytes())
    with pytest.raises(ModelFileError, match=rf"(?s)model\.skops .*{text}") as caught:
        dspnmf.load(path)
    assert len(str(caught.value)) < 400


def test_no_file(tmp_path: Path) -> None:
    """A missing file and a folder say so."""
    with pytest.raises(FileNotFoundError, match=r"There is no file .*absent\.skops: check the path"):
        dspnmf.load(tmp_path / "absent.skops")
    with pytest.raises(IsADirectoryError, match="is a folder, not a model file"):
        dspnmf.load(tmp_path)


def test_cut_files(wine_path: Path) -> None:
    """A file cut short anywhere is refused."""
    whole = wine_path.read_bytes()
    for length in np.linspace(4, len(whole) - 1, 40).astype(int):
        wine_path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=r"wine\.skops is (cut short or )?damaged.*copy it again"):
            dspnmf.load(wine_path)


def test_flipped_bytes(wine: np.ndarray, wine_path: Path) -> None:
    """A byte that changed anywhere is found, or was one that does not count: never another model or another error."""
    whole, expected = wine_path.read_bytes(), dspnmf.load(wine_path)
    refused = 0
    for at in np.random.default_rng(0).choice(len(whole), 120, replace=False):
        wine_path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            assert_same(dspnmf.load(wine_path), expected)
        except ModelFileError:
            refused += 1
    assert refused > 60


# -- formats and versions ------------------------------------------------------------------------------------------


def test_newer_formats_are_refused(wine_path: Path) -> None:
    """A file of a format that is not known yet names both versions and says: upgrade."""
    rewrite(wine_path, lambda note: note.update(format=persistence.FORMAT + 1, dspnmf="9.8"), persistence.MEMBER)
    with pytest.raises(ModelFileError, match=rf"saved by dspnmf 9\.8 .*this is {dspnmf.__version__}.*: upgrade"):
        dspnmf.load(wine_path)


def test_format_1_is_refused(wine_path: Path) -> None:
    """A file of the first format, whose models kept their arrays one by one, names both versions and the way out."""
    rewrite(wine_path, lambda note: note.update(format=1, dspnmf="0.1"), persistence.MEMBER)
    text = rf"saved by dspnmf 0\.1 \(format 1\), and dspnmf {dspnmf.__version__} no longer reads format 1: load it with"
    with pytest.raises(ModelFileError, match=text):
        dspnmf.load(wine_path)


def test_older_formats_are_upgraded(wine: np.ndarray, wine_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of an older format is brought up to date step by step, and refused where a step is missing."""
    expected = dspnmf.load(wine_path).transform(wine)

    def rename(old: str, new: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda schema: json.loads(json.dumps(schema).replace(f'"{old}":', f'"{new}":'))

    written = persistence.FORMAT
    rewrite(wine_path, rename("pull", "drag"))
    monkeypatch.setattr(persistence, "FORMAT", written + 2)
    monkeypatch.setattr(persistence, "UPGRADES", {written + 1: rename("draw", "pull")})
    with pytest.raises(ModelFileError, match=rf"no longer reads format {written}: load it with dspnmf "):
        dspnmf.load(wine_path)
    steps = {written: rename("drag", "draw"), written + 1: rename("draw", "pull")}
    monkeypatch.setattr(persistence, "UPGRADES", steps)
    np.testing.assert_array_equal(dspnmf.load(wine_path).transform(wine), expected)


@pytest.mark.parametrize(("version", "warns"), [("1.2.3", True), (sklearn.__version__ + ".post1", False)])
def test_other_versions_of_scikit_learn(version: str, warns: bool, wine: np.ndarray, tmp_path: Path) -> None:
    """Another release of scikit-learn is one warning with both versions and the file, not one for each estimator."""
    path = tmp_path / "model.skops"
    dspnmf.save(make_pipeline(MinMaxScaler(clip=True), make("NMF")).fit(wine), path)
    rewrite(path, lambda note: note.update(sklearn=version), persistence.MEMBER)
    rewrite(path, lambda s: json.loads(json.dumps(s).replace(rf"\"{sklearn.__version__}\"", rf"\"{version}\"")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dspnmf.load(path)
    assert [str(warning.message).split(": ")[0] for warning in caught] == (
        [f"{path} was saved with scikit-learn 1.2.3, this is {sklearn.__version__}"] if warns else []
    )
    assert all(warning.filename == __file__ for warning in caught)


# -- without skops -------------------------------------------------------------------------------------------------


def test_without_skops(wine_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where skops is missing both functions say how to get it."""
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r'pip install "dspnmf\[models\]"'):
        dspnmf.save(NMF(), wine_path)
    with pytest.raises(ImportError, match=r'pip install "dspnmf\[models\]"'):
        dspnmf.load(wine_path)


def test_everything_public_is_trusted() -> None:
    """The list of types follows the public names, and holds only estimators."""
    assert {kind.__name__ for kind in _contents.own().values()} == set(FAMILY)
    assert all(issubclass(kind, BaseEstimator) for kind in _contents.own().values())
