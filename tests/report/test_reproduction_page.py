"""The page of a reproduction in a real browser (headless Chromium): it works, reads well, and stays by itself."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from browser import BOXES, CONTRAST, PHONE, SERIES, TEXTS, WIDE, Browser, require_browser
from dspnmf.paper.protocol import CURVES, Run, plan
from dspnmf.paper.results import Results
from dspnmf.paper.store import Measurement
from dspnmf.paper.summary import Summary, summary
from dspnmf.paper.tables import extra_table, tables
from dspnmf.report import write_reproduction

require_browser()

HOSTILE = "<img src=x onerror='document.title=1'></script><script>document.title=1</script>"


def invented(sets: tuple[str, ...] = ("BC", "Wine")) -> Results:
    """A whole comparison with numbers that are made up, though alike from call to call."""
    rng, found = random.Random(0), []
    for run in plan(sets=sets):
        if run.experiment == "curves":
            rate, shown = 1 + list(CURVES).index(run.method), (0, 1, 2, 3, 5, 9, 20, 40, 90, 200, 500)
            values = {f"objective@{i:04d}": 10 + 1e4 / (1 + i) ** rate for i in shown} | {"rises": 0.0}
        else:
            names = ("svm", "knn", "kmeans", "structure_error", "reconstruction_error", "component_correlation")
            values = {name: rng.uniform(0.2, 0.95) for name in names}
        found += [Measurement(run, name, value) for name, value in values.items()]
    return Results(tuple(found), absent={"Pavia": "its file is not there"})


def write(results: Results, path: Path) -> str:
    """The page of some results; its address."""
    found = (*tables(results), extra_table(results))
    write_reproduction(results, found, summary(results), path, provenance={"python": "3.11"})
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A whole page."""
    return write(invented(), tmp_path_factory.mktemp("page") / "index.html")


@pytest.fixture
def wide(browser: Browser, address: str) -> Browser:
    """The whole page, freshly opened on a desk."""
    browser.open(address)
    return browser


def test_silent_and_alone(wide: Browser, address: str) -> None:
    """The page writes nothing to the console and requests nothing but itself."""
    time.sleep(0.2)
    assert wide.driver.get_log("browser") == []
    assert wide.asked() == {address}
    assert wide.js("return performance.getEntriesByType('resource').length") == 0


def test_policy_stops_what_is_not_ours(wide: Browser) -> None:
    """A script or a picture put into the page later is neither run nor fetched."""
    wide.js(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true'; "
        "document.body.append(script); new Image().src = 'https://example.org/a.png'"
    )
    time.sleep(0.2)
    assert wide.js("return window.ran") is None
    assert len([entry for entry in wide.driver.get_log("browser") if "Content Security" in entry["message"]]) == 2


@pytest.mark.parametrize("shown", ["ours", "published", "difference"])
def test_tables_sort_by_number(wide: Browser, shown: str) -> None:
    """A click on a header sorts by what is shown, highest first, a second click lowest first, what is missing last."""
    wide.press(f"#table1 .choice label:nth-of-type({['ours', 'published', 'difference'].index(shown) + 1})")
    for direction in ("descending", "ascending"):
        wide.press("#table1 th[data-column='2'] button")
        assert wide.js("return document.querySelector(\"#table1 th[data-column='2']\").ariaSort") == direction
        keys = wide.js(
            f"return [...document.querySelectorAll('#table1 tbody tr')].map((r) => r.cells[3].dataset.{shown})"
        )
        known = [float(key) for key in keys if key]
        assert known == sorted(known, reverse=direction == "descending")
        assert len(known) > 5
        assert keys[len(known) :] == [""] * (len(keys) - len(known))
    assert wide.js("return document.querySelectorAll('#table1 [aria-sort]:not([aria-sort=none])').length") == 1


def test_rows_return_to_their_order(wide: Browser) -> None:
    """The header of the methods brings back the order in which they were given."""
    names = "return [...document.querySelectorAll('#table1 tbody th')].map((n) => n.textContent)"
    before = wide.js(names)
    wide.press("#table1 th[data-column='0'] button")
    assert wide.js(names) != before
    wide.press("#table1 th[data-column='-1'] button")
    assert wide.js(names) == before


def test_cells_show_what_is_chosen(wide: Browser) -> None:
    """Each choice of a table shows one number in a cell, and All shows the three, with a symbol at the difference."""
    cell = "return document.querySelector('#table1 td').innerText.split('\\n').length"
    assert wide.js(cell) == 3
    for i in (1, 2, 3):
        wide.press(f"#table1 .choice label:nth-of-type({i})")
        assert wide.js(cell) == 1
    symbol = "return getComputedStyle(document.querySelector('#table1 td .difference'), '::before').content"
    assert wide.js(symbol)[1] in "▲▼="


def shown(browser: Browser) -> list[str]:
    """Series of the rank curves that have visible marks."""
    return browser.js(
        "return [...new Set([...document.querySelectorAll('#ranks .chart [data-series]')]"
        ".filter((g) => g.getBoundingClientRect().width > 0).map((g) => g.dataset.series))].sort()"
    )


def test_legend_toggles_exactly_one_series(wide: Browser) -> None:
    """A click hides all marks of a series and of no other, and says so; another click brings them back."""
    before, key = shown(wide), "#ranks .key[data-series='GNMF']"
    wide.press(key)
    assert sorted({*shown(wide), "GNMF"}) == before
    assert "GNMF" not in shown(wide)
    assert wide.js("return document.querySelector(arguments[0]).ariaPressed", key) == "false"
    wide.press(key)
    assert shown(wide) == before
    assert wide.js("return document.querySelector(arguments[0]).ariaPressed", key) == "true"


def test_double_click_leaves_one_series(wide: Browser) -> None:
    """A double click shows one series alone, and one button shows all again."""
    before = shown(wide)
    wide.press("#ranks .key[data-series='NMF']", times=2)
    assert shown(wide) == ["NMF"]
    wide.press("#ranks .key.all")
    assert shown(wide) == before


def test_pointing_reads_a_value(wide: Browser) -> None:
    """Near a mark a tooltip names its series, its x, its y and its band; away from the chart it is gone."""
    x, y = wide.middle("#ranks .chart .series.style-2 .marker:last-child")
    wide.mouse("mouseMoved", x, y)
    tip = wide.js("return document.querySelector('#ranks .tip').innerText")
    assert "rank (number of components)" in tip
    assert "accuracy of the SVM (share)" in tip
    assert "lowest to highest run" in tip
    assert any(name in tip for name in shown(wide))
    assert "20" in tip
    box = wide.js("const b = document.querySelector('#ranks .tip').getBoundingClientRect(); return [b.left, b.right]")
    assert box[0] >= 0
    assert box[1] <= WIDE
    wide.mouse("mouseMoved", 2, 2)
    assert wide.js("return document.querySelector('#ranks .tip').hidden") is True


def test_keys_read_values(wide: Browser) -> None:
    """With the focus on a chart, arrow keys go from point to point and from series to series."""
    wide.middle("#ranks .chart")
    wide.js("document.querySelector('#ranks .chart').focus()")
    tips = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        wide.key(key)
        tips.append(wide.js("return document.querySelector('#ranks .tip').innerText"))
    assert len(set(tips)) == 3
    assert tips[0].startswith("DSP-NMF\n")
    wide.key("Escape")
    assert wide.js("return document.querySelector('#ranks .tip').hidden") is True


def test_choosing_a_task_changes_the_charts(wide: Browser) -> None:
    """Each task has curves and a label of its own, and what was hidden stays hidden."""
    look = (
        "const c = document.querySelector('#ranks .chart'); "
        "return [c.querySelector('[data-axis=y]').textContent, c.querySelector('.curve').getAttribute('d')]"
    )
    seen = [tuple(wide.js(look))]
    wide.press("#ranks .key[data-series='GNMF']")
    for i in (2, 3):
        wide.press(f"#ranks .choice label:nth-of-type({i})")
        seen.append(tuple(wide.js(look)))
        assert "GNMF" not in shown(wide)
    assert len({label for label, _ in seen}) == len({line for _, line in seen}) == 3


def test_zero_has_its_own_place(wide: Browser) -> None:
    """On the logarithmic axis of alpha, plain NMF stands at a tick named 0, left of all others."""
    labels = wide.js(
        "return [...document.querySelectorAll('#alpha .chart')[0].querySelectorAll('text[text-anchor=middle]')]"
        ".map((t) => [Number(t.getAttribute('x')), t.textContent])"
    )
    assert min(labels)[1] == "0"
    assert all(label[1].startswith("1") for label in labels if label[1] != "0")


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_layout(browser: Browser, address: str, width: int) -> None:
    """No page scrolls sideways, no text is below 12 px, no legend covers a plot, no labels touch or are cut off."""
    browser.open(address, width)
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    sizes = browser.js(TEXTS + "return found.map((n) => parseFloat(getComputedStyle(n).fontSize))")
    assert min(sizes) >= 12
    figures = browser.js(BOXES)
    assert len(figures) == 5
    for figure in figures:
        assert figure["charts"]
        for chart in figure["charts"]:
            assert not overlap(figure["legend"], chart["plot"])
            assert len(chart["axes"]) == 2
            assert all(chart["axes"])
            for i, label in enumerate(chart["labels"]):
                assert label[0] >= max(0, chart["svg"][0] - 1)
                assert label[2] <= min(width, chart["svg"][2] + 1)
                assert not any(overlap(label, other) for other in chart["labels"][:i])


def overlap(a: list[float], b: list[float]) -> bool:
    """Whether two boxes (left, top, right, bottom) share more than an edge."""
    return a[0] < b[2] - 0.5 and b[0] < a[2] - 0.5 and a[1] < b[3] - 0.5 and b[1] < a[3] - 0.5


def test_tables_scroll_by_themselves_on_a_phone(browser: Browser, address: str) -> None:
    """A wide table scrolls inside of its own frame, and the names of the methods stay."""
    browser.open(address, PHONE)
    left = "return document.querySelector('#table1 tbody th').getBoundingClientRect().left"
    before = browser.js(left)
    moved = "const s = document.querySelector('#table1 .scroll'); s.scrollLeft = 200; return s.scrollLeft"
    assert browser.js(moved) > 100
    assert browser.js(left) == before


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
    marks = browser.js(CONTRAST + SERIES)
    assert len(marks) > 20
    assert min(marks)[0] >= 3, min(marks)


def test_colours_follow_system_and_reader(browser: Browser, address: str) -> None:
    """The page is dark where the system is, and the button turns it round."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    found = []
    for scheme in ("light", "dark"):
        browser.open(address, scheme=scheme)
        found.append(browser.js(paper))
    assert found[0] != found[1]
    browser.press(".theme")
    assert browser.js(paper) == found[0]
    browser.press(".theme")
    assert browser.js(paper) == found[1]


def test_no_motion_where_none_is_wanted(browser: Browser, address: str) -> None:
    """With reduced motion nothing glides."""
    browser.open(address, motion="reduce")
    assert browser.js("return getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    moving = (
        "return [...document.querySelectorAll('*')].map((n) => getComputedStyle(n).transitionDuration)"
        ".filter((duration) => duration !== '0s').length"
    )
    assert browser.js(moving) == 0


def test_names_are_text(browser: Browser, tmp_path: Path) -> None:
    """A data set, a method or a sentence that contains HTML is shown as it is written, and nothing of it is run."""
    results = invented(("Wine",))
    hostile = tuple(m._replace(run=replace(m.run, dataset=HOSTILE)) for m in results.measurements)
    results = replace(results, measurements=hostile, absent={"Pavia": HOSTILE})
    made = tuple(
        replace(t, title=HOSTILE, note=HOSTILE, rows=(*t.rows, HOSTILE), entries={**t.entries, **{
            (HOSTILE, column): t.entries[t.rows[0], column] for column in t.columns}})
        for t in tables(results)
    )  # fmt: skip
    words = Summary(HOSTILE, met=(HOSTILE,))
    write_reproduction(results, made, words, tmp_path / "index.html", provenance={HOSTILE: HOSTILE})
    browser.open((tmp_path / "index.html").as_uri())
    x, y = browser.middle("#ranks .chart .marker")
    browser.mouse("mouseMoved", x, y)
    assert browser.js("return document.title") != "1"
    assert browser.js("return document.images.length") == 0
    for selector in (
        ".headline",
        "#table1 tbody tr:last-child th",
        "#table1 h3",
        "#ranks .panel:last-child h4",
        ".pairs dd",
    ):
        assert HOSTILE in browser.js("return document.querySelector(arguments[0]).textContent", selector)
    assert browser.driver.get_log("browser") == []


@pytest.mark.parametrize("part", ["nothing", "tables", "alpha", "one run"])
def test_part_of_the_results(browser: Browser, tmp_path: Path, part: str) -> None:
    """Whatever has been run so far gives a page without an error that says what is missing."""
    whole = invented(("Wine",))
    keep = {
        "nothing": lambda run: False,
        "tables": lambda run: run.experiment == "tables" and run.method != "All",
        "alpha": lambda run: run.experiment == "alpha",
        "one run": lambda run: run == Run("Wine", "NMF", 2, 0),
    }[part]
    some = replace(whole, measurements=tuple(m for m in whole.measurements if keep(m.run)))
    browser.open(write(some, tmp_path / "index.html"), PHONE)
    assert browser.driver.get_log("browser") == []
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    text = browser.js("return document.body.innerText")
    assert "not run" in text.lower()
    assert "NaN" not in text
    assert "undefined" not in text
