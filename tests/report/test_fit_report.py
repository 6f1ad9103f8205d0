"""The report of a fit without a browser: its numbers, how it shows components and columns, and its bytes."""

from __future__ import annotations

import base64
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine

from dspnmf import DSPNMF, FRNMF, GDNMF, GNMF, NMF, NPE, NPNMF, NSNMF, ONMF, SDNMF, SPNMF, SymNMF, metrics
from dspnmf.io import Table
from dspnmf.report import fit_baseline, fit_facts, fit_report, write_fit_report
from dspnmf.report import fit_measurements as inputs
from dspnmf.report.fit_components import (
    MAX_SIDE,
    bars,
    compared,
    cosine_tables,
    kind_of,
    maps,
    ordered,
    picture,
    pictures,
    positions,
    spectra,
)
from dspnmf.report.fit_figures import MAX_CATEGORIES, NO_VALUE, column, convergence, neighbours, scatter
from dspnmf.report.fit_measurements import converged, products
from dspnmf.report.formatting import MISSING, percent

pytest.importorskip("jinja2", reason="pages need jinja2 (the extra `report`)")

ODD = (
    "<script>alert(1)</script>",
    "</script><!--",
    '"quo\'te" & amp;',
    "\U0001f389 line\u2028and\u2029paragraph",
    "a\ud800b",
)
MEASURES = (
    "reconstruction_error", "structure_error", "trustworthiness", "neighbour_recall", "component_correlation",
    "component_sparseness",
)  # fmt: skip
Wine = tuple[Any, Table, np.ndarray]


def named(X: Any, **more: Any) -> Table:
    """A table whose names are numbers."""
    return Table(X, np.arange(X.shape[1]).astype(str), np.arange(X.shape[0]).astype(str), **more)


@pytest.fixture(scope="module")
def wined(wine: np.ndarray) -> Wine:
    """DSP-NMF of wine, with names and columns."""
    data = load_wine()
    columns = {"cultivar": np.array(data.target_names)[data.target], "alcohol": data.data[:, 0]}
    table = Table(wine, np.array(data.feature_names), np.arange(178).astype(str), columns=columns, label="cultivar")
    model = DSPNMF(3, random_state=0)
    return model, table, model.fit_transform(wine)


def measured(X: Any, Z: np.ndarray, V: np.ndarray) -> dict[str, float]:
    """The measures, each straight from its definition or its function."""
    return {
        "reconstruction_error": float(np.linalg.norm(X - Z @ V) / np.linalg.norm(X)),
        "structure_error": metrics.structure_error(X, Z),
        "trustworthiness": metrics.trustworthiness(X, Z, 10),
        "neighbour_recall": metrics.neighbour_recall(X, Z, 10),
        "component_correlation": metrics.component_correlation(V),
        "component_sparseness": metrics.sparseness(V),
    }


def inputs_of(model: Any, table: Table, Z: Any, baseline: Any = False) -> inputs.FitInputs:
    """The inputs of a report, without the cost of a baseline."""
    return inputs.fit_inputs(model, table, Z, baseline, 0)


def test_facts_are_the_measures(wined: Wine) -> None:
    """Every number is the one its definition gives, of the model and of plain NMF with the same rank and seed."""
    model, table, Z = wined
    facts = fit_facts(model, table, Z)
    plain = NMF(3, random_state=0)
    codes = plain.fit_transform(table.X)
    for found, expected in (
        (facts, measured(table.X, Z, model.components_)),
        (facts["baseline"], measured(table.X, codes, plain.components_)),
    ):
        assert {name: found[name] for name in MEASURES} == pytest.approx(expected, rel=1e-9)
    assert facts["reconstruction_error"] == pytest.approx(model.reconstruction_err_ / np.linalg.norm(table.X), rel=1e-6)
    assert (facts["method"], facts["shape"], facts["rank"]) == ("DSPNMF", [178, 13], 3)
    assert (facts["iterations"], facts["objective"], facts["converged"]) == (model.n_iter_, model.objective_, True)
    assert facts["parameters"]["alpha"] == 1.0
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_sparse_data_give_the_same_facts(wined: Wine) -> None:
    """Where X is sparse, every number agrees with that of the dense X."""
    model, table, Z = wined
    dense = fit_facts(model, table, Z, False)
    found = fit_facts(model, replace(table, X=sparse.csr_array(table.X)), Z, False)
    assert found["sparse"] is True
    assert {name: found[name] for name in MEASURES} == pytest.approx({name: dense[name] for name in MEASURES})


def test_an_exact_fit_has_no_error() -> None:
    """Where X = ZV, the reconstruction error is rounding and not what is left of a difference of large numbers."""
    rng = np.random.default_rng(0)
    Z, V = rng.random((30, 2)), rng.random((2, 6))
    model = NMF(2, random_state=0).fit(Z @ V)
    model.components_ = V
    assert fit_facts(model, named(Z @ V), Z)["reconstruction_error"] < 1e-12


FAMILY: list[Callable[[], Any]] = [
    lambda: DSPNMF(2, random_state=0, similarity="cosine"),
    lambda: SDNMF(2, random_state=0, max_iter=5, tol=0),
    lambda: NPE(2),
    *(partial(kind, 2, random_state=0) for kind in (NMF, FRNMF, GDNMF, GNMF, NPNMF, NSNMF, ONMF, SPNMF, SymNMF)),
]


@pytest.mark.parametrize("make", FAMILY, ids=lambda make: type(make()).__name__)
def test_every_method_has_a_report(wine: np.ndarray, make: Callable[[], Any]) -> None:
    """Any of the family gives facts JSON can hold and a page; what a method does not have is None."""
    model, table = make(), named(wine[::3])
    Z = model.fit_transform(table.X, np.arange(60) % 3)
    facts = fit_facts(model, table, Z)
    json.dumps(facts, allow_nan=False)
    assert (facts["reconstruction_error"] is None) == isinstance(model, SymNMF | NPE)
    assert (facts["component_correlation"] is None) == isinstance(model, SymNMF)
    assert (facts["baseline"] is None) == isinstance(model, NMF)
    html = fit_report(model, table, Z, facts=facts)
    assert f"<h1>{type(model).__name__} of rank 2</h1>" in html
    assert ('id="convergence"' in html) == hasattr(model, "objective_history_")
    assert ('id="components"' in html) == hasattr(model, "components_")


def test_converged_follows_the_stopping_rule(wine: np.ndarray) -> None:
    """A fit has converged if it stopped by itself, not if it was cut off, and nobody knows where there is no rule."""
    with pytest.warns(UserWarning, match="Stopped after max_iter=1"):
        cut_off = DSPNMF(3, random_state=0, max_iter=1).fit(wine)
    found = [
        DSPNMF(3, random_state=0).fit(wine),
        cut_off,
        DSPNMF(3, random_state=0, max_iter=2, tol=0).fit(wine),
        NPE(),
    ]
    assert [converged(model) for model in found] == [True, False, None, None]


def test_many_rows_are_sampled_and_the_page_says_so(wined: Wine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limits, neighbours, scatter and structure are those of rows drawn by the seed, with their number."""
    monkeypatch.setattr(inputs, "MAX_NEIGHBOUR_ROWS", 50)
    monkeypatch.setattr(inputs, "MAX_SCATTER_ROWS", 70)
    monkeypatch.setattr(inputs, "MAX_STRUCTURE_WORK", 0)
    model, table, Z = wined
    found, other = inputs_of(model, table, Z), inputs.fit_inputs(model, table, Z, False, 1)
    assert (len(found.neighbour_rows), len(found.scatter_rows), len(found.structure_rows)) == (50, 70, 50)
    assert not np.array_equal(found.neighbour_rows, other.neighbour_rows)
    facts = fit_facts(model, table, Z, False)
    assert facts["rows_for_neighbours"] == facts["rows_for_structure"] == 50
    near, rows = found.neighbour_rows, found.structure_rows
    assert facts["trustworthiness"] == metrics.trustworthiness(table.X[near], Z[near], 10)
    assert facts["structure_error"] == metrics.structure_error(table.X[rows], Z[rows])
    html = fit_report(model, table, Z, baseline=False)
    assert "measured on 50 samples drawn from the 178" in html
    assert "The structure error is measured on 50 samples drawn from the 178" in html
    assert "70 drawn from the 178" in html


def test_missing_cells_come_from_the_fit(wined: Wine) -> None:
    """With NaN in X, the error is that of known cells and other measures take X completed by ZV; the page says so."""
    model, table, Z = wined
    gaps = np.random.default_rng(0).random(table.X.shape) < 0.1
    rebuilt = Z @ model.components_
    holed = replace(table, X=np.where(gaps, np.nan, table.X))
    facts = fit_facts(model, holed, Z, False)
    full = np.where(gaps, rebuilt, table.X)
    error = np.linalg.norm((table.X - rebuilt)[~gaps]) / np.linalg.norm(table.X[~gaps])
    assert facts["missing_cells"] == gaps.sum()
    assert facts["reconstruction_error"] == pytest.approx(error)
    assert facts["structure_error"] == pytest.approx(metrics.structure_error(full, Z))
    assert facts["neighbour_recall"] == pytest.approx(metrics.neighbour_recall(full, Z))
    html = fit_report(model, holed, Z, baseline=(model, Z))
    assert f"{gaps.sum()} cells of X are missing." in html
    assert "NaN" not in html
    with pytest.raises(ValueError, match="SymNMF has no components to complete them"):
        fit_facts(SymNMF(3, random_state=0).fit(table.X), holed, Z, False)


def test_missing_cells_of_sparse_data(wined: Wine) -> None:
    """A NaN stored in a sparse X is completed as in a dense one."""
    model, table, Z = wined
    X = table.X.copy()
    X[3, 4] = X[100, 0] = np.nan
    dense, found = (fit_facts(model, replace(table, X=A), Z, False) for A in (X, sparse.csr_array(X)))
    assert {name: found[name] for name in MEASURES} == pytest.approx({name: dense[name] for name in MEASURES})


def test_pairs_lie_in_the_unit_that_fits_best(wined: Wine) -> None:
    """Products of pairs are x_i.x_j and c z_i.z_j with the c of least squares over all pairs of samples."""
    model, table, Z = wined
    found = inputs_of(model, table, Z)
    x, y = products(found, found.fit)
    i, j = found.pairs
    A, B = (table.X @ table.X.T), (Z @ Z.T)
    assert (i != j).all()
    assert x == pytest.approx(A[i, j])
    assert y == pytest.approx((A * B).sum() / (B * B).sum() * B[i, j])


def test_neighbour_curves_pass_through_the_facts(wined: Wine) -> None:
    """At ten neighbours, the curves show what the metrics say."""
    model, table, Z = wined
    figure = neighbours(inputs_of(model, table, Z))
    assert figure is not None
    recall, trust = (chart.series[0] for chart in figure.views[0].charts)
    at = recall.x.index(10)
    assert recall.y[at] == pytest.approx(metrics.neighbour_recall(table.X, Z, 10))
    assert trust.y[at] == pytest.approx(metrics.trustworthiness(table.X, Z, 10))


def test_a_given_baseline_is_used(wined: Wine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fitted NMF, with or without its codes, is taken as it is; False leaves it out; another rank is refused."""
    model, table, Z = wined
    plain, codes = fit_baseline(model, table) or (None, None)
    expected = fit_facts(model, table, Z)["baseline"]
    other = NMF(2, random_state=0).fit(table.X)
    monkeypatch.setattr(inputs, "fit_baseline", None)
    for given in ((plain, codes), plain):
        found = fit_facts(model, table, Z, given)["baseline"]
        assert {name: found[name] for name in MEASURES} == pytest.approx({name: expected[name] for name in MEASURES})
    assert fit_facts(model, table, Z, False)["baseline"] is None
    with pytest.raises(ValueError, match="The baseline has rank 2, but DSPNMF has 3"):
        fit_facts(model, table, Z, other)


def test_shapes_that_do_not_belong_together_are_refused(wined: Wine) -> None:
    """Codes, components, names and columns must be those of the table, and the error says which are not."""
    model, table, Z = wined
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("Z has shape (177, 3), but the table has 178 samples", (model, table, Z[1:])),
        ("NaN or infinite", (model, table, np.full_like(Z, np.nan))),
        ("components_ of DSPNMF has shape (3, 13), but codes and table ask for (2, 13)", (model, table, Z[:, :2])),
        ("has 12 names of features for 13", (model, replace(table, features=table.features[1:]), Z)),
        ("has 177 names of samples for 178", (model, replace(table, index=table.index[1:]), Z)),
        ("has 1 values of column 'a' for 178", (model, replace(table, columns={"a": np.ones(1)}), Z)),
    ]
    for message, arguments in wrong:
        with pytest.raises(ValueError, match=re.escape(message)):
            fit_facts(*arguments)


class Tags(HTMLParser):
    """Which elements a page has, and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Count."""
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        """Keep."""
        self.texts.append(data)


def hostile(names: tuple[str, ...]) -> Table:
    """A table in which everything that has a name has one of these."""
    rng, n = np.random.default_rng(0), 30
    many = np.array([names[i % len(names)] for i in range(n)], dtype=object)
    return Table(
        rng.random((n, len(names))),
        np.array(names, dtype=object),
        many,
        names[0],
        dict.fromkeys(names, many),
        names[1],
    )


def test_names_are_text() -> None:
    """Names with HTML, quotes, line separators or half characters add no element, and are read back as they are."""
    tables = [hostile(names) for names in (ODD, ("a", "b", "c", "d", "e"))]
    pages = []
    for table, title in zip(tables, ODD, strict=False):
        model = DSPNMF(2, random_state=0)
        Z = model.fit_transform(table.X)
        pages.append(fit_report(model, table, Z, title=title, settings={title: title}, baseline=False))
    ours, harmless = (Tags(page) for page in pages)
    assert ours.tags == harmless.tags
    pages[0].encode("utf-8")
    seen = "".join(ours.texts)
    assert all(name in seen for name in ODD[:4])
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', pages[0], re.DOTALL)
    assert not any(set(block) & set("<>&\u2028\u2029") for block in blocks)
    (codes,) = (found for found in map(json.loads, blocks) if "names" in found)
    assert set(codes["names"]) == {*ODD[:4], "a?b"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages[0]


def test_same_fit_same_bytes(wined: Wine, tmp_path: Path) -> None:
    """The same arguments give the same bytes, written in one stroke."""
    model, table, Z = wined
    first = fit_report(model, table, Z, settings={"Time": "1 s"})
    write_fit_report(model, table, Z, tmp_path / "report.html", settings={"Time": "1 s"})
    assert (tmp_path / "report.html").read_bytes() == first.encode()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert set(re.findall(r"https?://[^\"' ]*", first)) == {"http://www.w3.org/2000/svg"}
    assert all(f'id="{link}"' in first for link in re.findall(r'href="#([^"]*)"', first))


def test_numbers_are_there_without_scripts(wined: Wine) -> None:
    """Headline, measures, settings and features are in the page's own text."""
    model, table, Z = wined
    facts = fit_facts(model, table, Z)
    text = " ".join(Tags(re.sub(r"<(script|style).*?</\1>", "", fit_report(model, table, Z), flags=re.DOTALL)).texts)
    text = text.replace("_ ", "_")  # where long names may be broken
    for found in (facts, facts["baseline"]):
        for name in MEASURES:
            assert f"{found[name]:.3f}" in text
    for words in (
        "With 3 components, DSPNMF explains",
        "178 samples",
        "13 features, dense",
        "max_iter=200",
        "alcalinity_of_ash",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("names", "more", "kind"),
    [
        ([f"{i}" for i in range(40)], {}, "spectra"),
        ([f"band {i}" for i in range(40)], {}, "spectra"),
        ([f"{450.5 + 2 * i}" for i in range(12)], {}, "spectra"),
        ([f"{i}" for i in range(12)], {}, "bars"),
        ([f"word{i * 7 % 40}" for i in range(40)], {}, "bars"),
        (["alcohol", *(f"x{i}" for i in range(39))], {}, "bars"),
        ([f"{i}" for i in range(36)], {"picture": (6, 6)}, "pictures"),
        ([f"{i}" for i in range(36)], {"picture": (6, 7)}, "spectra"),
        ([f"{i}" for i in range(40)], {"sparse": True}, "bars"),
    ],
)
def test_components_are_shown_as_their_features_are(names: list[str], more: dict[str, Any], kind: str) -> None:
    """Ordered numbers are spectra, pixels pictures, names bars; so are features of sparse data."""
    X = np.random.default_rng(0).random((20, len(names)))
    X = sparse.csr_array(X) if more.pop("sparse", False) else X
    model = NMF(2, random_state=0)
    table = Table(X, np.array(names), np.arange(20).astype(str), **more)
    found = inputs_of(model, table, model.fit_transform(X))
    assert kind_of(found) == kind
    if kind == "spectra":
        (chart, _) = spectra(found).views[0].charts
        assert chart.series[0].y == tuple(model.components_[ordered(found)[0]].tolist())
        assert chart.series[0].x == tuple(positions(names).at)  # type: ignore[union-attr]
    if kind == "bars":
        ((_, rows), _) = bars(found)
        order = [names.index(row.name.removeprefix("feature ")) for row in rows]
        assert rows[0].name.startswith("feature ") == (names[0] == "0")  # numbers alone would be read as weights
        assert order == list(np.argsort(-model.components_[ordered(found)[0]], kind="stable"))[: len(order)]


def test_features_on_an_axis() -> None:
    """The axis is named after the common word of the features, or says that they are as named; words have none."""
    found = [positions(names) for names in (["450.5", "460.5", "470.5"], ["band 1", "band 2"], ["alcohol", "ash"])]
    assert [axis and axis.label for axis in found] == ["feature (as named)", "band (number)", None]


def test_baseline_components_are_matched_one_to_one(wined: Wine) -> None:
    """Components of plain NMF that are the same in another order and unit are found again."""
    model, table, Z = wined
    other = NMF(3, random_state=0).fit(table.X)
    other.components_ = model.components_[[2, 0, 1]] * [[1], [2], [3]]
    _, (name, matched) = compared(inputs_of(model, table, Z, (other, Z)))
    assert name == "plain NMF, most similar"
    assert matched == pytest.approx(model.components_)


def test_long_spectra_keep_their_peaks() -> None:
    """With many features each point is the largest of its neighbours, and the page says of how many."""
    X = np.random.default_rng(0).random((10, 30_000))
    model = NMF(2, random_state=0, max_iter=2, tol=0)
    figure = spectra(inputs_of(model, named(X), model.fit_transform(X)))
    (line,) = figure.views[0].charts[0].series
    assert max(line.y) == model.components_[0].max()
    assert len(line.x) <= 12_000
    assert any("largest of 3 neighbouring features" in sentence for sentence in figure.text)


def decoded(address: str) -> np.ndarray:
    """Numbers in the palette, as Pillow reads them."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    assert image.mode == "P"
    return np.asarray(image)


def test_pictures_hold_the_numbers() -> None:
    """Pictures have the shape of the grid, line by line; 0 is the first colour and the largest number the last."""
    X = np.random.default_rng(0).random((12, 6))
    model = NMF(2, random_state=0)
    table = replace(named(X), picture=(2, 3), grid=(3, 4))
    Z = model.fit_transform(X)
    found = inputs_of(model, table, Z)
    ((_, shown),) = pictures(found)
    first, second = ordered(found)
    V = model.components_[first].reshape(2, 3)
    assert decoded(shown[0].address) == pytest.approx(255 * V / V.max(), abs=0.5001)
    top = np.quantile(Z[:, second], 0.995)
    expected = np.minimum(255 * Z[:, second].reshape(3, 4) / top, 255)
    assert decoded(maps(found)[1].address) == pytest.approx(expected, abs=0.5001)
    assert maps(replace(found, table=replace(table, grid=(5, 5)))) == []
    assert not decoded(picture(np.zeros(4), (2, 2))).any()


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Pillow is missing, a page with pictures says how to install it."""
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'Pillow: install it with pip install "dspnmf\[report\]"'):
        picture(np.zeros(4), (2, 2))


def test_large_maps_are_averaged() -> None:
    """A map beyond the limit becomes means of squares, of the whole squares and of what is left at the edges."""
    grid = np.arange(float(MAX_SIDE + 1) * 3).reshape(MAX_SIDE + 1, 3)
    small = decoded(picture(grid, grid.shape))
    assert small.shape == (MAX_SIDE // 2 + 1, 2)
    for cell, block in ((small[50, 0], grid[100:102, :2]), (small[-1, -1], grid[-1, -1])):
        assert cell == pytest.approx(255 * block.mean() / grid[-1, -1], abs=0.5001)
    assert decoded(picture(grid[:5], (5, 3))).shape == (5, 3)


def test_only_components_that_matter_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit those that explain most are drawn, the largest first, and the page counts the others."""
    monkeypatch.setattr("dspnmf.report.fit_components.MAX_DRAWN", 2)
    X = np.random.default_rng(0).random((20, 5))
    model = NMF(4, random_state=0)
    table, Z = named(X), model.fit_transform(X)
    found = inputs_of(model, table, Z)
    shares = metrics.explained_share(X, Z, model.components_)
    most = np.argsort(-shares)[:2]
    assert [name for name, _ in bars(found)] == [f"Component {a + 1}, {percent(shares[a])}" for a in most]
    assert "The 2 components that explain least are not drawn." in fit_report(model, table, Z)


def test_explained_shares_are_those_of_squares(wined: Wine) -> None:
    """What is explained is 1 less the square of the error, next to plain NMF's, and components add up to it."""
    model, table, Z = wined
    facts = fit_facts(model, table, Z)
    for found in (facts, facts["baseline"]):
        assert found["explained_share"] == pytest.approx(1 - found["reconstruction_error"] ** 2)
        assert found["explained_similarities"] == pytest.approx(1 - found["structure_error"] ** 2)
    assert sum(facts["component_shares"]) == pytest.approx(facts["explained_share"], rel=1e-6)
    html = fit_report(model, table, Z, facts=facts)
    for found in (facts, facts["baseline"]):
        assert percent(found["explained_share"]) in html
    assert "DSPNMF loses" not in html
    assert "Theorem" not in html


def test_empty_components_are_named(wine: np.ndarray) -> None:
    """A component that no sample uses comes last, is called empty, and is named at the top of the page."""
    model = NMF(3, random_state=0)
    table, Z = named(wine), model.fit_transform(wine)
    Z[:, 1] = 0
    found = inputs_of(model, table, Z)
    assert ordered(found)[-1] == 1
    assert bars(found)[-1] == ("Component 2, empty", [])
    html = fit_report(model, table, Z)
    assert "Empty: component 2 of 3. No sample uses it;" in html
    table_of_fit = cosine_tables(found)[0]
    assert table_of_fit.numbers[-1] == 2
    assert [cell for row in table_of_fit.cells for cell in row].count((MISSING, -1)) == 5
    assert table_of_fit.mean.endswith(", with 0 for empty components")
    Z[:, 2] = 0
    assert scatter(inputs_of(model, table, Z))["start"] == [3, 0]  # over the number of the sample


def test_rises_with_missing_cells_have_a_reason(wine: np.ndarray) -> None:
    """Where the objective rose because missing cells were estimated again, the page says so."""
    X = np.where(np.random.default_rng(0).random(wine.shape) < 0.1, np.nan, wine)
    model = NMF(2, random_state=0, missing="mask", max_iter=5, tol=0)
    table, Z = named(X), model.fit_transform(X)
    model.objective_history_[2] = model.objective_history_[1] + 1
    text = convergence(inputs_of(model, table, Z)).text[0]  # type: ignore[union-attr]
    assert text.endswith(
        "It rose in 1 of them. Missing cells are estimated again after every iteration, which can raise it."
    )


def test_recall_of_all_neighbours_is_not_reported() -> None:
    """With ten samples, four neighbours are compared and not nine of nine, which every method keeps."""
    X = np.random.default_rng(0).random((10, 6))
    model = NMF(1, random_state=0)
    Z = model.fit_transform(X)
    facts = fit_facts(model, named(X), Z)
    assert facts["neighbours"] == 4
    assert facts["neighbour_recall"] == metrics.neighbour_recall(X, Z, 4) < 1
    assert "with 4 neighbours; by chance, recall would be 0.444" in fit_report(model, named(X), Z)


def test_decreases_are_those_the_stopping_rule_saw(wine: np.ndarray) -> None:
    """No decrease drawn after the first that is below tol; one that the rule did not see is left out, and said so."""
    for seed in range(3):
        model = DSPNMF(3, random_state=seed)
        Z = model.fit_transform(wine)
        figure = convergence(inputs_of(model, named(wine), Z))
        assert figure is not None
        (decrease,) = figure.views[0].charts[1].series
        assert all(y > model.tol for y in decrease.y[:-1])
        assert decrease.y[-1] <= model.tol or any("not drawn" in sentence for sentence in figure.text)


def test_columns_of_few_values_are_classes() -> None:
    """Values are classes in their natural order, and empty ones a class of their own at the end."""
    found = column("c", np.array(["10", "9", "b", "", "9", "a"], dtype=object))
    assert found["classes"] == ["9", "10", "a", "b", NO_VALUE]
    assert [found["levels"][i] for i in found["of"]] == ["10", "9", "b", NO_VALUE, "9", "a"]
    assert column("c", np.array([2.0, 1.5, np.nan]))["classes"] == ["1.5", "2", NO_VALUE]
    assert column("c", np.array([True, False]))["classes"] == ["False", "True"]


def test_columns_of_many_numbers_are_classes_of_equal_count() -> None:
    """Numbers go into seven classes from low to high, and keep their values."""
    numbers = np.append(np.random.default_rng(0).lognormal(size=700), np.nan)
    found = column("c", numbers)
    counts = np.bincount(found["of"])
    assert found["ordered"]
    assert counts.tolist() == [100] * 7 + [1]
    assert found["classes"][-1] == NO_VALUE
    assert found["values"][:3] == numbers[:3].tolist()
    of = np.array(found["of"])
    assert all(numbers[of == c].max() <= numbers[of == c + 1].min() for c in range(6))


def test_measurements_of_few_samples_are_no_categories() -> None:
    """Numbers that nearly all differ are classes of neighbouring numbers also where the samples are few."""
    assert column("weight", np.arange(20.0))["ordered"]
    assert not column("class", np.arange(20) % 10)["ordered"]


def test_columns_of_many_words() -> None:
    """The rarest of many values share a class but are read out by name; where all differ, there are no classes."""
    words = np.repeat([f"w{i:02d}" for i in range(40)], np.arange(40, 0, -1))
    found = column("c", words)
    assert len(found["classes"]) == MAX_CATEGORIES
    assert found["classes"][-1] == "17 others"
    assert [found["levels"][i] for i in found["of"]] == words.tolist()
    assert max(found["of"][: words.tolist().index("w23")]) == MAX_CATEGORIES - 2
    assert column("c", np.array([f"remark {i}" for i in range(50)]))["classes"] == []


def test_long_texts_are_cut(wined: Wine) -> None:
    """A document as a value, name or feature is cut to what a reader can take in."""
    model, table, Z = wined
    table = replace(table, columns={"text": np.array([f"{i} " + "long " * 1000 for i in range(178)])}, label=None)
    data = scatter(inputs_of(model, table, Z))
    assert max(map(len, data["columns"][0]["levels"])) == 80
    assert data["colour"] == -1


def test_one_component_and_few_samples() -> None:
    """A fit of rank 1, or of two samples, has a page too."""
    for n, k in ((12, 1), (2, 2), (1, 1)):
        X = np.random.default_rng(0).random((n, 3)) + 0.1
        model = DSPNMF(k, random_state=0)
        html = fit_report(model, named(X), model.fit_transform(X))
        assert "NaN" not in html
        assert f"A fit of {n} sample{'s' * (n > 1)} " in html
