"""Tables: both sides of a comparison are comparable, and every format has the same numbers."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from comparison import as_published, full, made_up
from dspnmf.paper.protocol import TABLE_METHODS, Run
from dspnmf.paper.published import TASKS, Cell, published, rankings
from dspnmf.paper.reproduce import write_tables
from dspnmf.paper.results import Results
from dspnmf.paper.tables import Entry, Table, average, extra_table, shared_datasets, tables

ROOT = Path(__file__).parents[2]
FIVE = ("BC", "Wine", "COIL20", "Digits", "IndianPines")


def constant(run: Run, task: str) -> float:
    """The paper's mean, in every run."""
    return published(task).get(run.method, {}).get(run.dataset, Cell(0.5, 0.5)).mean


def test_cells_are_ours_and_published() -> None:
    """A cell has the mean and the max over ranks and runs, the printed value, and their difference."""
    table = tables(made_up(score=lambda run, task: 0.8 if run.rank == 9 else 0.7))[0]
    entry = table.entries["DSP-NMF", ("Wine", "mean")]
    assert entry.ours == pytest.approx(0.75)
    assert entry.published == 0.95
    assert entry.difference == pytest.approx(-0.2)
    assert table.entries["DSP-NMF", ("Wine", "max")].ours == 0.8


def test_columns_follow_the_paper() -> None:
    """Data sets that were run in the paper's order, mean and max of each, then the averages."""
    first = tables(made_up(full("Digits", "BC")))[0]
    assert first.columns == tuple((g, s) for g in ("BC", "Digits", "Average") for s in ("mean", "max"))
    assert first.rows == TABLE_METHODS


@pytest.mark.parametrize("task", TASKS)
def test_averages_are_over_the_same_data_sets(task: str) -> None:
    """Where our cells are the published ones, so is our average, whichever data sets were run."""
    for sets in (("Wine",), ("BC", "Digits"), FIVE):
        ours, theirs = average(made_up(full(*sets), constant), task, "DSP-NMF")
        assert ours is not None
        assert theirs is not None
        assert ours.mean == pytest.approx(theirs.mean)


def test_no_average_over_fewer_data_sets() -> None:
    """A method without a result on one data set has no average of ours, as averages over other sets compare nothing."""
    runs = [run for run in full("BC", "Wine") if (run.method, run.dataset) != ("LLE", "Wine")]
    table = tables(made_up(runs))[0]
    assert table.entries["LLE", ("Average", "mean")].ours is None
    assert table.entries["LLE", ("Average", "mean")].published is not None
    assert table.entries["NMF", ("Average", "mean")].ours is not None


def test_the_crop_never_meets_published_pavia() -> None:
    """A data set that the paper does not have has no published value, and is in no average and no ranking."""
    with_crop, without = made_up(full("Wine", "PaviaCrop")), made_up(full("Wine"))
    for one, other in zip(tables(with_crop), tables(without), strict=True):
        for (row, (group, statistic)), entry in one.entries.items():
            if group == "PaviaCrop":
                assert entry.ours is not None
                assert entry.published is None
            else:
                assert entry == other.entries[row, (group, statistic)]
    assert shared_datasets(with_crop) == ["Wine"]


def test_missing_methods_show_published_alone() -> None:
    """A published method that was not run keeps its row, without a difference."""
    table = tables(made_up())[0]
    assert table.entries["UMAP", ("Wine", "mean")] == Entry(None, 0.92)
    assert table.texts("UMAP", ("Wine", "mean")) == ("", "0.920", "")
    assert "UMAP" in tables(made_up())[4].note


def test_fewer_runs_are_named() -> None:
    """A cell with fewer runs behind it than its neighbours is named in the note."""
    runs = [run for run in full("Wine") if (run.method, run.rank) != ("LLE", 11)]
    assert "fewer runs than the others, since some failed or are missing: LLE on Wine." in tables(made_up(runs))[0].note
    assert "fewer runs" not in tables(made_up(full("Wine")))[0].note


def test_a_reduced_run_says_so() -> None:
    """The note of a quick table has both its ranks and the paper's; a full one says it is the paper's."""
    assert "ranks 3 and 9 and 2 runs where the paper has ranks 2, 3, 5" in tables(made_up())[0].note
    assert "as in the paper" in tables(made_up(full("Wine")))[0].note


@pytest.mark.parametrize(("number", "ranking"), [(4, "nmf"), (5, "all")])
def test_first_places_of_equal_scores_are_equal(number: int, ranking: str) -> None:
    """Where our scores are the published ones, so is every count of first places."""
    table = tables(made_up(full(*FIVE)))[number - 1]
    assert table.rows == tuple(rankings()[ranking])
    means = [entry for (_, (_, statistic)), entry in table.entries.items() if statistic == "max"]
    assert all(entry.ours == entry.published for entry in means)
    assert max(entry.ours or 0 for entry in means) > 0


def test_ties_share_the_first_place() -> None:
    """Methods that agree in two decimals are all first; one hundredth less is not."""
    scores = {"DSP-NMF": 0.9049, "GNMF": 0.8951, "SymNMF": 0.894, "SDNMF": 0.85}
    table = tables(made_up(full("Wine", "BC"), lambda run, task: scores.get(run.method, 0.1)))[3]
    found = {row: table.entries[row, ("SVM", "mean")].ours for row in table.rows}
    assert found == {"DSP-NMF": 2, "GNMF": 2, "SymNMF": 0, "SDNMF": 0}


def test_rankings_are_among_the_same_methods() -> None:
    """A method that was not run is ranked on neither side."""
    table = tables(made_up())[4]
    assert all(table.entries["UMAP", column] == Entry(None, None) for column in table.columns)
    assert sum(table.entries[row, ("SVM", "mean")].published or 0 for row in table.rows) >= 3


def test_nothing_run_gives_empty_tables() -> None:
    """No results: five tables without our numbers, in every format."""
    found = tables(Results(()))
    assert [table.number for table in found] == [1, 2, 3, 4, 5]
    assert all(entry.ours is None for table in found for entry in table.entries.values())
    assert all(table.csv() and table.markdown() and table.latex() for table in (*found, extra_table(Results(()))))


def test_no_times() -> None:
    """How long a run took is in no table, so that tables of two runs are the same."""
    calm = made_up()
    slow = dataclasses.replace(
        calm, measurements=(*calm.measurements, calm.measurements[0]._replace(name="seconds", value=1e9))
    )
    for one, other in zip((*tables(calm), extra_table(calm)), (*tables(slow), extra_table(slow)), strict=True):
        assert (one.csv(), one.markdown(), one.latex()) == (other.csv(), other.markdown(), other.latex())


def test_csv_says_what_the_entries_say() -> None:
    """Every entry is one line of the CSV, rounded to the table's decimals, and a missing value is empty."""
    for table in (*tables(made_up()), extra_table(made_up())):
        lines = list(csv.DictReader(io.StringIO(table.csv())))
        assert len(lines) == len(table.rows) * len(table.columns)
        for line in lines:
            entry = table.entries[line["method"], (line["group"], line["statistic"])]
            for name in ("ours", "published", "difference"):
                value, text = getattr(entry, name), line[name]
                if value is None:
                    assert text == ""
                    continue
                places = max(0, table.decimals - (len(text.lstrip("+-").partition(".")[0]) - 1))  # 12.34, not 12.345
                assert len(text.partition(".")[2]) == places
                assert abs(float(text) - value) <= 0.5 * 10**-places + 1e-12


def test_markdown_is_one_line_a_method() -> None:
    """Every line of the Markdown table has as many cells as its head, and compared cells have three numbers."""
    for table in tables(made_up()):
        lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
        assert {line.count("|") for line in lines} == {len(table.columns) + 2}
        assert len(lines) == len(table.rows) + 2
    assert "0.950 / 0.950 / 0.000" in tables(made_up(full("Wine"), constant))[0].markdown()


def test_latex_is_well_formed() -> None:
    """Every line has as many cells as there are columns, braces and environments are closed, nothing is unescaped."""
    for table in (*tables(made_up()), extra_table(made_up())):
        text = table.latex()
        body = [line for line in text.splitlines() if line.endswith(r"\\")]
        width = sum(int(n) - 1 for n in re.findall(r"multicolumn\{(\d+)\}", body[0]))
        assert {line.count(" & ") for line in body[1:]} == {len(table.columns) + 1} == {body[0].count(" & ") + width}
        assert text.count("{") == text.count("}")
        assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1]
        assert text.isascii()


def test_latex_escapes() -> None:
    """Characters that mean something to LaTeX are written as text."""
    table = Table(1, "50 % & more_", "", (("a_b", "#"),), ("x^y",), {("x^y", ("a_b", "#")): Entry(0.5, None)}, 2)
    text = table.latex()
    assert r"50 \% \& more\_" in text
    assert r"a\_b" in text
    assert r"x\textasciicircum{}y & ours & 0.50" in text


def test_numbers_have_no_negative_zero() -> None:
    """A difference that rounds to nothing has no sign, others have one."""
    column = ("Wine", "mean")
    for ours, shown in ((0.49999, "0.00"), (0.5, "0.00"), (0.4, "-0.10"), (0.6, "+0.10")):
        table = Table(1, "", "", (column,), ("A",), {("A", column): Entry(ours, 0.5)}, 2)
        assert table.texts("A", column)[2] == shown


def test_other_measurements() -> None:
    """The table of other measurements has every measurement of every method, with nothing published."""
    table = extra_table(made_up())
    assert table.entries["NMF", ("Trustworthiness", "mean")] == Entry(pytest.approx(0.9), None)
    assert table.texts("NMF", ("Iterations", "mean"))[0] == "56.00"
    assert set(table.rows) == set(made_up().methods)


def script(name: str) -> dict[str, Any]:
    """The names defined by a script of the documentation."""
    return runpy.run_path(str(ROOT / "docs" / name))


def test_readme_row(tmp_path: Path) -> None:
    """The row has every data set, ours and published, and goes between the marks and nowhere else."""
    for table in tables(made_up(full(*FIVE), as_published)):
        (tmp_path / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
    (tmp_path / "summary.md").write_text("# Summary\n\nAll cells.\n\n## More\n", encoding="utf-8")
    readme = script("update_readme.py")
    text = f"before\n{readme['BEGIN']}old\n{readme['END']}after\n"
    once = readme["updated"](text, tmp_path)
    assert once == readme["updated"](once, tmp_path)
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "All cells." in once
    assert "old" not in once
    assert "(0.950 / 0.990)" in once
    with pytest.raises(ValueError, match="must have the lines"):
        readme["updated"]("no marks", tmp_path)


def test_readme_is_generated() -> None:
    """The README's row is what its script makes of the committed results."""
    readme = script("update_readme.py")
    text = readme["README"].read_text(encoding="utf-8")
    assert readme["updated"](text) == text, "run `make readme`"


def test_committed_tables_are_generated(tmp_path: Path) -> None:
    """Every committed table and the committed summary are what the code makes of the committed measurements."""
    reproduction = script("update_reproduction.py")
    write_tables(reproduction["committed_results"](), tmp_path)
    written = sorted(tmp_path.iterdir())
    assert len(written) == 19  # six tables in three formats, and the summary
    for path in written:
        assert path.read_text(encoding="utf-8") == (reproduction["FOLDER"] / path.name).read_text(encoding="utf-8"), (
            "run `make readme`"
        )


def test_pages_have_the_figures_of_the_committed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure between two marks is that of the committed measurements, and every test the claims name exists."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    figures = script("update_figures.py")
    results = figures["committed_results"]()
    pages = {path.name: path.read_text(encoding="utf-8") for path in figures["PAGES"]}
    for name, page in pages.items():
        assert figures["updated"](page, results) == page, f"{name}: run `make readme`"
        assert not re.search(r"^ {0,3}<!--[a-z]", page, re.MULTILINE), f"{name}: such a line begins a block of HTML"
    assert all(any(f"<!--{name}-->" in page for page in pages.values()) for name in figures["FIGURES"])
    claims = pages["claims.md"]
    places = [ROOT / "tests/paper/test_claims.py", *(ROOT / name for name in re.findall(r"tests/\S+?\.py", claims))]
    known = {name for place in places for name in re.findall(r"def (test_\w+)", place.read_text(encoding="utf-8"))}
    assert set(re.findall(r"[`:](test_\w+)`", claims)) <= known
