"""The page of a selection in a real browser (headless Chromium)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import minmax_scale

from browser import PHONE, WIDE, Browser, require_browser
from dspnmf import DSPNMFCV
from dspnmf.report import selection_report, write_selection_report

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
    assert f"rank {search.n_components_} with alpha" in page
    for score in search.cv_results_["mean_test_score"]:
        assert f"<td>{score:.4f}</td>" in page
    assert 'id="ranks"' in page
    X, y = load_wine(return_X_y=True)
    labelled = DSPNMFCV([2], alphas=2, cv=2, random_state=0, tol=1e-2).fit(minmax_scale(X), y)
    assert 'id="ranks"' not in selection_report(labelled)


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
