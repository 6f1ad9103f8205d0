"""What a report is made of, without a browser: charts as data, tables as texts, sentences from numbers, safe bytes."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dspnmf.paper.protocol import ALPHAS, Run
from dspnmf.paper.results import Results
from dspnmf.paper.store import Measurement
from dspnmf.paper.summary import Summary, summary
from dspnmf.paper.tables import Entry, Table, tables
from dspnmf.report import page, write_reproduction
from dspnmf.report.charts import Axis, Chart, Figure, Level, Series, View, plain
from dspnmf.report.formatting import MISSING, amount, capital, counted, cut, percent, power, share
from dspnmf.report.reproduction_figures import figures
from dspnmf.report.reproduction_page import comparison_table

jinja2 = pytest.importorskip("jinja2", reason="pages need jinja2 (the extra `report`)")

ODD = ["</script><script>alert(1)</script>", "<!--", "a & b", "line\u2028and\u2029paragraph", 'quo"te', "it's"]


def sweep(correlation: list[float], structure: list[float], fit: list[float]) -> Results:
    """A sweep of alpha with these numbers."""
    names = ("component_correlation", "structure_error", "reconstruction_error")
    scores = ("svm", "knn", "kmeans")
    return Results(
        tuple(
            Measurement(Run("Wine", "DSP-NMF", 9, 0, "alpha", alpha), name, value)
            for alpha, *values in zip(ALPHAS, correlation, structure, fit, strict=False)
            for name, value in (*zip(names, values, strict=True), *((score, 0.5) for score in scores))
        )
    )


def table(ours: list[float | None], published: list[float | None], rows: tuple[str, ...]) -> Table:
    """One column."""
    column = ("Wine", "mean")
    entries = {(row, column): Entry(a, b) for row, a, b in zip(rows, ours, published, strict=True)}
    return Table(1, "SVM", "", (column,), rows, entries, 3)


@pytest.mark.parametrize("text", ODD)
def test_embedded_data_cannot_end_their_block(text: str) -> None:
    """What is embedded has no character HTML or JavaScript could take for its own, and reads back as it was."""
    embedded = page.embed({"name": text})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {"name": text}


def test_numbers_json_cannot_hold_become_null() -> None:
    """NaN and infinities are null in the page, and other numbers keep six digits."""
    assert plain(Level("a", math.nan))["y"] is None
    assert plain([math.inf, 1 / 3]) == [None, 0.333333]


def test_a_series_with_gaps_is_refused() -> None:
    """A series needs a y, and where it has a band, both of its bounds, for every x."""
    with pytest.raises(ValueError, match="has 2 x but 1 y"):
        Series("a", (1, 2), (1,))
    with pytest.raises(ValueError, match="has 1 x but 2 low"):
        Series("a", (1,), (1,), low=(1, 2))
    with pytest.raises(ValueError, match="kind='bars' cannot be drawn"):
        Series("a", (1,), (1,), kind="bars")


def test_a_figure_is_plain_data() -> None:
    """A figure survives JSON with nothing lost."""
    chart = Chart("Wine", Axis("rank"), Axis("share"), (Series("NMF", (2, 3), (0.5, 0.75)),), (Level("All", 0.9),))
    figure = Figure("f", "F", ("Said.",), (View("SVM", (chart,)),))
    assert json.loads(page.embed(figure)) == plain(figure)


def test_the_best_is_a_method() -> None:
    """Bold goes to the highest printed value of each kind, to all that look equal, and never to the unreduced data."""
    rows = ("DSP-NMF", "NMF", "All", "LLE")
    shown = comparison_table(table([0.9001, 0.9004, 0.99, None], [0.9, 0.8, 0.99, 0.95], rows))
    cells = [row[0] for _, row in shown.rows]
    assert [cell.ours.best for cell in cells] == [True, True, False, False]
    assert [cell.published.best for cell in cells] == [False, False, False, True]


def test_differences_have_a_sign_in_words() -> None:
    """A difference is more, less or the same as it is printed, and missing where one side is."""
    shown = comparison_table(table([0.91, 0.89, 0.9001, None], [0.9, 0.9, 0.9, 0.9], ("a", "b", "c", "d")))
    found = [row[0].difference for _, row in shown.rows]
    assert [value.sign for value in found] == ["more", "less", "same", ""]
    assert [value.text for value in found] == ["+0.010", "\N{MINUS SIGN}0.010", "0.000", MISSING]
    assert found[3].key == ""


def test_figures_say_what_the_summary_says() -> None:
    """Each figure has the sentences of the summary on its experiment; without results it says that it was not run."""
    results = sweep([0.3, 0.2, 0.1], [0.5, 0.1, 0.01], [0.1, 0.1, 0.1])
    found = {figure.id: figure.text for figure in figures(results)}
    assert found["alpha"][1:] + found["components"][1:] == summary(results).experiments
    assert "from 0.500 to 0.010" in found["alpha"][2]
    assert found["ranks"] == found["lambda"] == found["convergence"] == ("Not run.",)


def test_numbers_are_written_for_readers() -> None:
    """Few digits, powers of ten for what is very large or small, a real minus sign, and singular or plural."""
    space, minus = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
    assert [amount(v) for v in (64912.3, 0.017, 2.5e9, -3)] == [
        "64,912",
        "0.017",
        f"2.5{space}·{space}10⁹",
        f"{minus}3",
    ]
    assert [power(v) for v in (0.001, 1.0, 0.0)] == ["10⁻³", "1", "0"]
    percents = ["26", "2.8", "0.0012", "0"]
    assert [percent(v) for v in (0.2571, 0.0284, 0.0000123, 0.0)] == [f"{text}{space}%" for text in percents]
    assert [percent(v) for v in (0.99992, 0.9999999, 0.995, 1.0, -0.02)] == [
        f"{text}{space}%" for text in ("99.992", f"over{space}99.999", "99.5", "100", "\N{MINUS SIGN}2.0")
    ]
    assert [share(v) for v in (0.25712, 0.000814, 1.0)] == ["0.257", "0.00081", "1.000"]
    assert [share(v) for v in (0.99992, 0.999, 0.9996)] == ["0.99992", "0.999", "0.9996"]
    assert (capital("plain NMF"), len(cut("a" * 1000))) == ("Plain NMF", 80)
    assert (counted(1, "sample"), counted(1797, "sample")) == ("1 sample", "1,797 samples")


def test_same_results_same_bytes(tmp_path: Path) -> None:
    """Two writes of the same results are equal byte for byte, whatever the order of the measurements."""
    results = sweep([0.3, 0.2, 0.1], [0.5, 0.1, 0.01], [0.1, 0.1, 0.1])
    backwards = replace(results, measurements=results.measurements[::-1])
    for name, found in (("a", results), ("b", backwards)):
        write_reproduction(found, tables(found), summary(found), tmp_path / name, provenance={"python": "3"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_write_leaves_the_old_page(tmp_path: Path) -> None:
    """A page that cannot be made leaves the one that is there, and no other file."""
    path = tmp_path / "index.html"
    path.write_text("old")
    with pytest.raises(jinja2.UndefinedError, match="headline"):
        write_reproduction(Results(()), [], None, path)  # type: ignore[arg-type]
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("index.html", "old")]


def test_only_files_that_exist_are_linked(tmp_path: Path) -> None:
    """Every link leads to a file in the same folder or to a part of the page."""
    (tmp_path / "table2.csv").write_text("")
    (tmp_path / "notes.csv").write_text("")
    write_reproduction(Results(()), tables(Results(())), Summary("Nothing."), tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]*)"', text)
    assert [link for link in links if not link.startswith("#")] == ["table2.csv"]
    assert all(f'id="{link[1:]}"' in text for link in links if link.startswith("#"))


def test_the_page_names_no_other_place(tmp_path: Path) -> None:
    """No address is in the page but the name of the SVG vocabulary, and its policy allows no source outside of it."""
    write_reproduction(Results(()), [], Summary("Nothing."), tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "default-src &#39;none&#39;" in text
    assert "unsafe" not in page.policy()


def test_files_stay_readable() -> None:
    """No style, script or template is above 350 lines, and none could end its own tag."""
    for file in Path(page.__file__).parent.joinpath("assets").iterdir():
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 350, file.name
        if file.suffix in (".css", ".js"):
            assert "</" not in text, file.name


def test_without_jinja_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jinja2 is missing, the error says how to install it."""

    def missing(name: str) -> None:
        raise ImportError(name)

    page.require.cache_clear()
    monkeypatch.setattr(page, "import_module", missing)
    with pytest.raises(ImportError, match=r'pip install "dspnmf\[report\]"'):
        page.render("base.html", title="")


def test_every_style_is_distinct_without_colour() -> None:
    """No two of the styles share marker shape and filling, so that series differ in black and white."""
    css, script = page.asset("parts.css"), page.asset("chart.js")
    shapes = re.findall(r"\(r\) => ([^,]*\([^()]*(?:\[[^\]]*\])?\))", script.split("MARKERS = [")[1].split("];")[0])
    hollow = {
        int(n) for n in re.findall(r"style-(\d+)", css.split(".marker { fill: var(--page)")[0].rsplit("\n", 1)[1])
    }
    looks = [(shape, i in hollow) for i, shape in enumerate(shapes)]
    assert len(looks) == len(set(looks)) == 12
    assert all(a != b for a, b in pairwise(looks))


def test_the_page_says_what_was_run(tmp_path: Path) -> None:
    """The number of runs behind the means, and the range of alpha, are those of the results, not of the plan."""
    alphas = sweep([0.3, 0.2, 0.1], [0.5, 0.1, 0.01], [0.1, 0.1, 0.1])

    def words(*repeats: int) -> str:
        runs = [
            Run("Wine", "NMF" if rank == 2 else "GNMF", rank, r) for rank, n in enumerate(repeats, 2) for r in range(n)
        ]
        found = Results((*alphas.measurements, *(Measurement(run, "svm", 0.5) for run in runs)))
        write_reproduction(found, tables(found), summary(found), tmp_path / "index.html")
        return (tmp_path / "index.html").read_text(encoding="utf-8")

    assert "Means of 2 runs;" in words(2, 2)
    assert "Means of 2 to 3 runs;" in words(2, 3)
    assert "Means of 1 run;" in words(1)
    assert "0, and 10⁻³ to 10⁻² times ‖X‖² / ‖XXᵀ‖², rank 9" in words(1)
    assert "up to" not in words(2, 2).partition("Means of")[2][:20]
