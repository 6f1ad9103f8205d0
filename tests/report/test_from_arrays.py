"""The page of a fit in one call, from arrays, sparse matrices, data frames, pipelines and searches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from dspnmf import DSPNMF, DSPNMFCV, NMF, ConsensusNMF, SymNMF
from dspnmf.report import report

pytest.importorskip("jinja2", reason="pages need jinja2 (the extra `report`)")

FRAME = load_wine(as_frame=True).data


def codes_of(path: Path) -> Any:
    """The data of the scatter plot of a page."""
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    return next(found for found in map(json.loads, blocks) if "names" in found)


def test_a_data_frame_brings_its_names(tmp_path: Path) -> None:
    """Columns, index and the name of the labels are on the page; the codes are those of transform."""
    X = FRAME / FRAME.max()
    X.index = pd.Index([f"bottle {i}" for i in range(178)], name="wine")
    y = pd.Series(load_wine().target, name="cultivar")
    model = NMF(3, random_state=0).fit(X)
    path = report(model, X, labels=y, path=tmp_path / "wine.html", title="Wines")
    assert path == tmp_path / "wine.html"
    page = path.read_text("utf-8")
    assert "<h1>Wines</h1>" in page
    assert "flavanoids" in page
    codes = codes_of(path)
    assert (codes["called"], codes["names"][0], codes["columns"][0]["name"]) == ("wine", "bottle 0", "cultivar")
    np.testing.assert_allclose(np.array(codes["values"][:3]), model.transform(X).T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.coo_matrix, lambda X: X.tolist()])
def test_arrays_and_sparse_matrices(make: Any, wine: np.ndarray, tmp_path: Path) -> None:
    """Arrays, lists and sparse matrices have a page, with the names that are passed."""
    names = [f"word {chr(97 + j)}" for j in range(13)]
    model = NMF(2, random_state=0).fit(wine)
    path = report(
        model, make(wine), feature_names=names, labels={"a": np.arange(178) % 2, "b": ["x"] * 178}, baseline=False,
        path=tmp_path / "page.html",
    )  # fmt: skip
    assert "word a" in path.read_text("utf-8")
    assert [column["name"] for column in codes_of(path)["columns"]] == ["a", "b"]


def test_a_search_over_a_pipeline(tmp_path: Path) -> None:
    """Of a search over a pipeline the best factorization is reported, on what the steps before it make of X."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    pipeline = Pipeline([("scale", MinMaxScaler(clip=True)), ("codes", DSPNMF(2, random_state=0)), ("svm", SVC())])
    search = GridSearchCV(pipeline, {"codes__n_components": [2, 3]}, cv=2).fit(X, y)
    best = search.best_estimator_
    page = report(search, X, labels=y, path=tmp_path / "page.html", baseline=False)
    expected = best[:-1].transform(X)
    np.testing.assert_allclose(np.array(codes_of(page)["values"][:-1]), expected.T, rtol=1e-5, atol=1e-6)
    assert "flavanoids" in page.read_text("utf-8")
    chosen = DSPNMFCV([2], alphas=[0.0], cv=2, random_state=0, tol=1e-2).fit(MinMaxScaler().fit_transform(X))
    assert "DSPNMF of rank 2" in report(chosen, MinMaxScaler().fit_transform(X), path=page).read_text("utf-8")


def test_what_cannot_be_reported_is_said(wine: np.ndarray, tmp_path: Path) -> None:
    """Estimators of others, words among the numbers, and a method without transform are named, with the way out."""
    model, path = NMF(2, random_state=0).fit(wine), tmp_path / "page.html"
    with pytest.raises(TypeError, match=r"model is sklearn\.MinMaxScaler, which is not an estimator of dspnmf"):
        report(MinMaxScaler().fit(wine), wine, path=path)
    with pytest.raises(ValueError, match="values that are not numbers"):
        report(model, FRAME.assign(colour="red"), path=path)
    graph = SymNMF(3, random_state=0)
    Z = graph.fit_transform(wine)
    with pytest.raises(ValueError, match="SymNMF has no transform: pass Z="):
        report(graph, wine, path=path)
    assert report(graph, wine, Z=Z, path=path).exists()
    with pytest.raises(ValueError, match="12 names of features for 13"):
        report(model, wine, feature_names=list("abcdefghijkl"), path=path)
    assert report(make_pipeline(model), wine, path=path, picture=None).exists()


def test_a_data_frame_of_labels(tmp_path: Path) -> None:
    """Each column of a data frame is something to colour by."""
    labels = pd.DataFrame({"year": [1990, 1991] * 89, "grower": ["a", "b"] * 89})
    path = report(NMF(2, random_state=0).fit(FRAME), FRAME, labels=labels, baseline=False, path=tmp_path / "a.html")
    assert [column["name"] for column in codes_of(path)["columns"]] == ["year", "grower"]


def test_a_consensus_has_a_report(tmp_path: Path) -> None:
    """The consensus of several runs is a model like the others, in a pipeline too."""
    model = make_pipeline(MinMaxScaler(), ConsensusNMF(NMF(2), n_runs=4, random_state=0)).fit(FRAME)
    page = report(model, FRAME, baseline=False, path=tmp_path / "runs.html").read_text("utf-8")
    assert "ConsensusNMF of rank 2" in page


def test_wrong_arguments_are_said_before_work(tmp_path: Path) -> None:
    """An array in place of the model, and a folder that is not there, are named."""
    model = NMF(2, random_state=0).fit(FRAME)
    with pytest.raises(TypeError, match=r"model is pandas\.DataFrame, which is not an estimator of dspnmf"):
        report(FRAME, model)
    with pytest.raises(ValueError, match=r"labels have shape \(178, 2\), but must be one for each sample"):
        report(model, FRAME, labels=np.ones((178, 2)))
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere: create it, or choose another path"):
        report(model, FRAME, path=tmp_path / "nowhere" / "r.html")
