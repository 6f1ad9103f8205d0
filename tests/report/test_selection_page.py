"""The page of a selection in a real browser (headless Chromium)."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from browser import PHONE, WIDE, Browser, require_browser
from dspnmf import DSPNMFCV
from dspnmf.report import selection_report, write_selection_report
from dspnmf.report.formatting import amount

require_browser()

HOSTILE = "<script>document.title=1</script>"


@pytest.fixture(scope="module")
def search() -> Any:
    """A small search without labels, so that the page has both figures."""
    X = minmax_scale(load_wine().data)
    return DSPNMFCV([2, 3], alphas=3, cv=3, random_state=0, tol=1e-3).fit(X)


def test_all_candidates_are_told(search: Any) -> None:
    """The choice, every candidate with its score, and both figures are on the page; with labels the rank has none."""
    page = selection_report(search)
    assert f"rank {search.n_components_} predicts held-out cells best" in page
    assert f"alpha {amount(search.alpha_)} was chosen" in page
    assert '<th scope="col">Label weight</th>' not in page  # it is 0 in all of them
    for score in search.cv_results_["mean_test_score"]:
        assert f"<td>{score:.4f}</td>" in page
    assert 'id="ranks"' in page
    X, y = load_wine(return_X_y=True)
    labelled = DSPNMFCV([2], alphas=2, cv=2, random_state=0, tol=1e-2).fit(minmax_scale(X), y)
    page = selection_report(labelled, settings={"Data": "my wine.csv", "Scale": "minmax", "Label": "cultivar"})
    assert 'id="ranks"' not in page
    assert "KNeighborsClassifier(n_neighbors=3) has a mean accuracy of" in page
    command = f"dspnmf fit &#39;my wine.csv&#39; --rank 2 --alpha {labelled.alpha_:.6g} --scale minmax --label cultivar"
    assert f"{command} --out FOLDER" in re.sub("</?span>", "", page)


def made_up(scores: list[list[float]], best: int) -> Any:
    """A search whose candidates have these scores (alphas x folds)."""
    values = np.array(scores)
    found = {f"split{fold}_test_score": values[:, fold] for fold in range(values.shape[1])}
    found |= {"mean_test_score": values.mean(axis=1), "std_test_score": values.std(axis=1)}
    found |= {"param_n_components": np.full(len(values), 3), "param_label_weight": np.zeros(len(values))}
    found |= {"param_similarity": np.full(len(values), "gram"), "param_diffusion_steps": np.full(len(values), 8)}
    found |= {"param_alpha": np.arange(len(values)) * 1.0, "params": [{}] * len(values)}
    found |= {"rank_test_score": np.arange(len(values)), "stability": np.ones(len(values))}
    return SimpleNamespace(
        cv_results_=found, best_index_=best, best_score_=float(values[best].mean()), n_splits_=values.shape[1],
        n_components_=3, alpha_=float(best), label_weight_=0.0, alphas_=np.arange(len(values)), rank_results_=None,
        classifier=SVC(C=10), scoring=None, rule="best", normalize=True,
    )  # fmt: skip


def test_candidates_that_cannot_be_told_apart_are_said() -> None:
    """One that is better in some folds and worse in others is no different; one that is always worse is."""
    page = selection_report(made_up([[0.90, 0.96, 0.93], [0.5, 0.52, 0.51], [0.95, 0.92, 0.94]], 2))
    assert "1 other candidate cannot be told apart from the choice" in page
    assert "It is rank 3, alpha 0 (score 0.930)." in page
    assert [cell in page for cell in ("<td>chosen</td>", "<td>no</td>", "<td>yes</td>")] == [True] * 3
    assert "SVC(C=10) has a mean accuracy of 0.937" in page
    assert "DSPNMF(n_components=3, alpha=2, normalize=True, random_state=0).fit(X)" in re.sub("</?span>", "", page)
    page = selection_report(made_up([[0.5, 0.52, 0.51], [0.95, 0.92, 0.94]], 1))
    assert "All other candidates differ from it by more than chance" in page
    page = selection_report(made_up([[0.90, 0.96, 0.93], [0.91, 0.95, 0.93], [0.95, 0.92, 0.94]], 2))
    assert "None of the other 2 candidates can be told apart from the choice" in page


def test_similarities_are_told_apart() -> None:
    """Where several similarities were tried, the table and the sentence say which is which."""
    search = made_up([[0.90, 0.96, 0.93], [0.95, 0.92, 0.94]], 1)
    search.cv_results_["param_similarity"] = np.array(["gram", "diffused"])
    page = selection_report(search)
    assert "<td>gram</td>" in page
    assert "<td>diffused, 8 steps</td>" in page
    assert "rank 3 with alpha 1, similarity diffused in 8 steps, was chosen" in page


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_in_a_browser(width: int, search: Any, browser: Browser, tmp_path: Path) -> None:
    """Charts are drawn, the choice is marked, names are text; nothing is asked for, said or scrolled sideways."""
    write_selection_report(search, tmp_path / "page.html", settings={"Data": HOSTILE})
    colours = []
    for scheme in ("light", "dark"):
        browser.open((tmp_path / "page.html").as_uri(), width, scheme=scheme)
        assert browser.js("return document.querySelectorAll('svg').length") >= 3
        assert "chosen" in browser.js("return document.querySelector('#scores').textContent")
        assert HOSTILE in browser.js("return document.querySelector('#settings').textContent")
        assert browser.js("return document.title") != "1"
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
        colours.append(browser.js("return getComputedStyle(document.body).backgroundColor"))
        assert browser.driver.get_log("browser") == []
        assert all(address.startswith("file:") for address in browser.asked())
    assert len(np.unique(colours)) == 2
