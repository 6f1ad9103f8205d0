"""The page of a fit in a real browser (headless Chromium): choices work, it reads well, and stays alone."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

from browser import BOXES, CONTRAST, PHONE, SERIES, TEXTS, WIDE, Browser, require_browser
from dspnmf import DSPNMF
from dspnmf.io import Table
from dspnmf.report import fit_report, write_fit_report

require_browser()

HOSTILE = "<img src=x onerror='document.title=1'></script><script>document.title=1</script>\u2028 \"\U0001f389\""
TIP = "return document.querySelector('#codes .tip').innerText"
MARKERS = "const markers = [...document.querySelectorAll('#codes .chart .marker')]; "
POINTS = MARKERS + "return markers.map((m) => m.getAttribute('transform')).sort()"
KEYS = "return [...document.querySelectorAll('#codes .key[data-series]')].map((k) => k.textContent)"


@pytest.fixture(scope="module")
def fitted(wine: np.ndarray) -> tuple[Any, Table, np.ndarray]:
    """DSP-NMF of wine: names, labels, a numeric column."""
    data = load_wine()
    columns = {"cultivar": np.array(data.target_names)[data.target], "alcohol, raw": data.data[:, 0]}
    names = np.array([f"bottle {i}" for i in range(178)])
    table = Table(wine, np.array(data.feature_names), names, "wine", columns, "cultivar")
    model = DSPNMF(3, random_state=0)
    return model, table, model.fit_transform(wine)


@pytest.fixture(scope="module")
def address(fitted: tuple[Any, Table, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with bars."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_fit_report(*fitted, path, settings={"Scaling": "every feature to [0, 1]"})
    return path.as_uri()


@pytest.fixture(scope="module")
def pictured(digits: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with pictures and maps."""
    X, path = digits[:300], tmp_path_factory.mktemp("page") / "report.html"
    names = np.arange(300).astype(str)
    table = Table(X, np.arange(64).astype(str), names, picture=(8, 8), grid=(15, 20))
    model = DSPNMF(12, random_state=0)
    write_fit_report(model, table, model.fit_transform(X), path)
    return path.as_uri()


@pytest.fixture(scope="module")
def lined(digits: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with spectra."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    table = Table(digits[:200], np.array([f"band {i}" for i in range(64)]), np.arange(200).astype(str))
    model = DSPNMF(4, random_state=0)
    write_fit_report(model, table, model.fit_transform(table.X), path)
    return path.as_uri()


@pytest.fixture(scope="module")
def alone(fitted: tuple[Any, Table, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page without a baseline."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_fit_report(*fitted, path, baseline=False)
    return path.as_uri()


@pytest.fixture
def wide(browser: Browser, address: str) -> Browser:
    """The page with bars, freshly opened on a desk."""
    browser.open(address)
    return browser


def choose(browser: Browser, which: int, text: str) -> None:
    """Take an option of a select, as its keyboard and mouse do."""
    browser.js(
        "const s = document.querySelectorAll('#codes select')[arguments[0]]; "
        "s.value = [...s.options].find((o) => o.textContent === arguments[1]).value; "
        "s.dispatchEvent(new Event('change', { bubbles: true }))",
        which,
        text,
    )


def test_silent_and_alone(browser: Browser, address: str, pictured: str, lined: str, alone: str) -> None:
    """Pages write nothing to the console and request nothing but themselves and the pictures in them."""
    for page in (address, pictured, lined, alone):
        browser.open(page)
        time.sleep(0.2)
        assert browser.driver.get_log("browser") == []
        assert {url for url in browser.asked() if not url.startswith("data:image/png")} == {page}


def test_policy_stops_what_is_not_ours(wide: Browser) -> None:
    """A script or an outside picture put into the page later is neither run nor fetched."""
    wide.js(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true'; "
        "document.body.append(script); new Image().src = 'https://example.org/a.png'"
    )
    time.sleep(0.2)
    assert wide.js("return window.ran") is None
    assert len([entry for entry in wide.driver.get_log("browser") if "Content Security" in entry["message"]]) == 2


def test_choosing_components_moves_the_points(wide: Browser, fitted: tuple[Any, Table, np.ndarray]) -> None:
    """Each choice of an axis names it, and draws every sample at its codes."""
    Z = fitted[2]
    choose(wide, 0, "component 1")
    choose(wide, 1, "component 3")
    labels = "return [...document.querySelectorAll('#codes .axis-label')].map((t) => t.textContent)"
    assert wide.js(labels) == ["component 3", "component 1"]
    points = [tuple(map(float, point[10:-1].split(","))) for point in wide.js(POINTS)]
    assert len(points) == 178
    drawn = np.array(points)
    share = (Z[:, [0, 2]] - Z[:, [0, 2]].min(axis=0)) / np.ptp(Z[:, [0, 2]], axis=0)
    expected = drawn.min(axis=0) + np.column_stack([share[:, 0], 1 - share[:, 1]]) * np.ptp(drawn, axis=0)
    apart = np.linalg.norm(expected[:, None] - drawn, axis=2)
    assert max(apart.min(axis=0).max(), apart.min(axis=1).max()) < 1  # pixel
    before = wide.js(POINTS)
    choose(wide, 0, "sample number")
    assert wide.js(POINTS) != before


def test_colours_follow_the_choice(wide: Browser) -> None:
    """Labels first; a column of numbers becomes ordered classes; none leaves one series; the points stay."""
    before = wide.js(POINTS)
    assert wide.js(KEYS) == ["class_0", "class_1", "class_2"]
    looks = MARKERS + "return new Set(markers.map((m) => getComputedStyle(m).fill)).size"
    assert wide.js(looks) == 3
    choose(wide, 2, "alcohol, raw")
    keys = wide.js(KEYS)
    assert len(keys) == 7
    assert all(" to " in key for key in keys)
    assert wide.js(looks) == 7
    choose(wide, 2, "none")
    assert wide.js(KEYS) == ["samples"]
    assert wide.js(POINTS) == before


def test_pointing_names_the_sample(wide: Browser, fitted: tuple[Any, Table, np.ndarray]) -> None:
    """Near a point a tooltip names the sample and gives both codes and every column; away it is gone."""
    _, table, Z = fitted
    choose(wide, 0, "component 1")
    choose(wide, 1, "component 2")
    highest = int(Z[:, 1].argmax())
    wide.middle("#codes .chart")
    x, y = wide.js(
        MARKERS + "const middle = (m) => { const b = m.getBoundingClientRect(); "
        "return [b.x + b.width / 2, b.y + b.height / 2]; }; "
        "return markers.map(middle).reduce((a, b) => (b[1] < a[1] ? b : a))"
    )
    wide.mouse("mouseMoved", x, y)
    tip = wide.js(TIP)
    assert tip.startswith(f"wine bottle {highest}\n")
    for text in (
        "component 1",
        "component 2",
        f"{Z[highest, 1]:.3f}",
        table.columns["cultivar"][highest],
        "alcohol, raw",
    ):
        assert text in tip
    wide.mouse("mouseMoved", 2, 2)
    assert wide.js("return document.querySelector('#codes .tip').hidden") is True


def test_keys_read_samples(wide: Browser) -> None:
    """With the focus on the scatter plot, arrow keys go from left to right and from class to class."""
    wide.middle("#codes .chart")
    wide.js("document.querySelector('#codes .chart').focus()")
    tips = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        wide.key(key)
        tips.append(wide.js(TIP))
    assert len(set(tips)) == 4
    assert all(tip.startswith("wine bottle ") for tip in tips)
    assert "class_0" in tips[1]
    assert "class_1" in tips[2]
    wide.key("Escape")
    assert wide.js("return document.querySelector('#codes .tip').hidden") is True


def test_legend_hides_a_class(wide: Browser) -> None:
    """A click on a class hides its samples and no others; another colouring shows all again."""
    count = MARKERS + "return markers.filter((m) => m.getBoundingClientRect().width).length"
    wide.press("#codes .key[data-series='class_1']")
    assert wide.js(count) == 178 - 71
    choose(wide, 2, "none")
    assert wide.js(count) == 178


def test_pictures_are_shown(browser: Browser, pictured: str) -> None:
    """Components and maps are pictures of the right shape, each with words for those who do not see it."""
    browser.open(pictured)
    shapes = browser.js("return [...document.images].map((i) => [i.naturalWidth, i.naturalHeight, i.alt])")
    assert [tuple(shape[:2]) for shape in shapes] == [(8, 8)] * 24 + [(20, 15)] * 12
    assert re.match(r"DSPNMF, Component \d+, \d+\s%: up to ", shapes[0][2])


@pytest.mark.parametrize("page", ["address", "pictured", "lined", "alone"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_layout(browser: Browser, request: pytest.FixtureRequest, page: str, width: int) -> None:
    """No page scrolls sideways, no text is below 12 px, no labels of a chart touch or are cut off."""
    browser.open(request.getfixturevalue(page), width)
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    sizes = browser.js(TEXTS + "return found.map((n) => parseFloat(getComputedStyle(n).fontSize))")
    assert min(sizes) >= 12
    figures = browser.js(BOXES)
    assert len(figures) >= 4
    for chart in (chart for figure in figures for chart in figure["charts"]):
        assert all(chart["axes"])
        for i, (left, top, right, bottom) in enumerate(chart["labels"]):
            assert left >= max(0, chart["svg"][0] - 1)
            assert right <= min(width, chart["svg"][2] + 1)
            for a, b, c, d in chart["labels"][:i]:
                assert not (left < c - 0.5 and a < right - 0.5 and top < d - 0.5 and b < bottom - 0.5)


def test_measures_fit_on_a_phone(browser: Browser, address: str) -> None:
    """Both columns of the measures are seen without scrolling."""
    browser.open(address, PHONE)
    assert browser.js("const s = document.querySelector('.measures'); return s.scrollWidth <= s.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Browser, address: str, scheme: str) -> None:
    """Every text has a contrast of 4.5 at least, and every series one of 3, by day and by night."""
    browser.open(address, scheme=scheme)
    time.sleep(0.2)  # transitions
    texts = browser.js(
        CONTRAST + TEXTS + "return found.map((n) => { const s = getComputedStyle(n); return "
        "[ratio(rgb(n instanceof SVGElement ? s.fill : s.color), behind(n)), n.textContent]; })"
    )
    assert min(texts)[0] >= 4.5, min(texts)
    assert min(browser.js(CONTRAST + SERIES))[0] >= 3


def test_colours_follow_system_and_reader(browser: Browser, address: str) -> None:
    """The page is dark where the system is, and the button turns it round."""
    paper, found = "return getComputedStyle(document.body).backgroundColor", []
    for scheme in ("light", "dark"):
        browser.open(address, scheme=scheme)
        found.append(browser.js(paper))
    assert found[0] != found[1]
    browser.press(".theme")
    assert browser.js(paper) == found[0]


def test_no_motion_where_none_is_wanted(browser: Browser, address: str) -> None:
    """With reduced motion nothing glides."""
    browser.open(address, motion="reduce")
    assert browser.js("return getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    moving = "return [...document.querySelectorAll('*')].map((n) => getComputedStyle(n).transitionDuration)"
    assert set(browser.js(moving)) == {"0s"}


def test_without_scripts(browser: Browser, address: str) -> None:
    """Where JavaScript is off, the numbers, the bars and the settings are still read, and the page says what is not."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(address)
        text = browser.driver.find_element("css selector", "body").text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for words in ("Structure error", "flavanoids", "every feature to [0, 1]", "need JavaScript, which is off"):
        assert words in text


def test_names_are_text(browser: Browser, tmp_path: Path) -> None:
    """Samples, features, columns, values and settings that contain HTML are shown as written, and nothing is run."""
    X = np.random.default_rng(0).random((40, 3))
    texts = np.array([HOSTILE, "plain"] * 20)
    names = np.array([HOSTILE, "b", "c"])
    table = Table(X, names, texts, HOSTILE, {HOSTILE: texts, "b": X[:, 0]}, HOSTILE)
    model = DSPNMF(2, random_state=0)
    Z = model.fit_transform(X)
    write_fit_report(model, table, Z, tmp_path / "a.html", title=HOSTILE, settings={HOSTILE: HOSTILE}, baseline=False)
    browser.open((tmp_path / "a.html").as_uri(), PHONE)
    browser.middle("#codes .chart")
    browser.js("document.querySelector('#codes .chart').focus()")
    browser.key("ArrowRight")
    assert browser.js("return document.title") != "1"
    assert browser.js("return document.images.length") == 0
    for selector in (
        "h1",
        ".bars tr:nth-child(1)",
        "#codes .tip",
        "#codes .pick:nth-child(3)",
        ".pairs dt",
        ".pairs dd",
    ):
        text = browser.js("return document.querySelector(arguments[0]).closest('section').textContent", selector)
        assert HOSTILE[:79] in text, selector
    assert browser.js(KEYS)[0] == HOSTILE[:79] + "\N{HORIZONTAL ELLIPSIS}"
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.driver.get_log("browser") == []


@pytest.mark.slow
def test_large_data_open_at_once(browser: Browser, tmp_path: Path) -> None:
    """The page of 50,000 x 200 is below 8 MB, says that it is a sample, and can be used within 3 s."""
    rng = np.random.default_rng(0)
    X = rng.random((50_000, 200), dtype=np.float32)
    columns = {"group": rng.integers(5, size=50_000), "depth": rng.random(50_000)}
    table = Table(X, np.arange(200).astype(str), np.arange(50_000).astype(str), columns=columns, label="group")
    model = DSPNMF(20, random_state=0, max_iter=5, tol=0)
    html = fit_report(model, table, model.fit_transform(X))
    assert len(html.encode()) < 8e6
    assert "3,000 drawn from the 50,000" in html
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    begin = time.perf_counter()
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.js("return document.querySelectorAll('#codes .chart .marker').length") == 3000
    assert time.perf_counter() - begin < 3
    assert browser.driver.get_log("browser") == []
