"""The commands fit, transform, select and report, as a person with a CSV file would run them."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import io, sparse
from sklearn.datasets import load_wine
from typer.testing import CliRunner

import dspnmf
from dspnmf.cli.app import app
from dspnmf.io import read

WINE = load_wine()
FILES = {"codes.csv", "components.csv", "model.skops", "metrics.json", "report.html"}


def run(*words: object, status: int = 0) -> Any:
    """Run a command in this process; it must end with the status."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == status, result.output + str(result.exception)
    return result


@pytest.fixture
def wine(tmp_path: Path) -> Path:
    """Wine as a CSV with names, an index and the class."""
    path = tmp_path / "wine.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["bottle", *WINE.feature_names, "class"])
        for i, (row, label) in enumerate(zip(WINE.data, WINE.target, strict=True)):
            writer.writerow([f"bottle {i}", *row, WINE.target_names[label]])
    return path


def test_fit_transform_report(wine: Path, tmp_path: Path) -> None:
    """One command gives codes, components, model, numbers and a page; the model gives the same codes again."""
    out = tmp_path / "out"
    result = run("fit", wine, "--rank", 3, "--label", "class", "--out", out)
    assert f"Report: {out / 'report.html'}" in result.output
    assert {file.name for file in out.iterdir()} == FILES
    codes = read(out / "codes.csv", index="bottle")
    assert codes.X.shape == (178, 3)
    assert list(codes.index[:2]) == ["bottle 0", "bottle 1"]
    components = read(out / "components.csv", index="component")
    assert list(components.features) == WINE.feature_names
    model = dspnmf.load(out / "model.skops")
    frame = pd.DataFrame(WINE.data, columns=WINE.feature_names)
    np.testing.assert_allclose(model.transform(frame), codes.X, rtol=1e-6, atol=1e-9)
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["rank"] == 3
    assert metrics["structure_error"] < metrics["baseline"]["structure_error"]
    run("transform", out, wine, "--label", "class", "--out", tmp_path / "again.csv")
    np.testing.assert_allclose(read(tmp_path / "again.csv", index="bottle").X, codes.X, rtol=1e-6, atol=1e-9)
    V = components.X[:3]  # in the unit of the data, above the least value of each feature
    np.testing.assert_allclose(V, model[-1].components_ * np.ptp(WINE.data, axis=0), rtol=1e-6)
    np.testing.assert_allclose(components.X[3], WINE.data.min(axis=0))
    assert components.index[3] == "minimum"
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    run("report", out)
    assert len((out / "report.html").read_bytes()) == pytest.approx(len(page), rel=0.05)


def test_new_rows_are_matched_by_name(wine: Path, tmp_path: Path) -> None:
    """Columns of new data may come in another order, and further ones are left out."""
    run("fit", wine, "--rank", 2, "--exclude", "class", "--out", tmp_path / "out")
    rows = list(csv.reader(wine.read_text().splitlines()))[:6]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([row[0], *reversed(row[1:-1]), "7" if i else "more"] for i, row in enumerate(rows))
    run("transform", tmp_path / "out" / "model.skops", tmp_path / "new.csv", "--out", tmp_path / "new-codes.csv")
    codes = read(tmp_path / "out" / "codes.csv", index="bottle").X[:5]
    np.testing.assert_allclose(read(tmp_path / "new-codes.csv", index="bottle").X, codes, rtol=1e-6, atol=1e-9)


def test_select(wine: Path, tmp_path: Path) -> None:
    """The choice, the table of candidates and the page; with labels, and without."""
    for label in ((), ("--label", "class")):
        out = tmp_path / f"choice{len(label)}"
        words = ("--ranks", "2,3", "--alphas", 2, "--folds", 3, "--jobs", 1)
        where = label or ("--exclude", "class")
        result = run("select", wine, *words, *where, "--out", out)
        choice = json.loads((out / "choice.json").read_text())
        assert choice["n_components"] in (2, 3)
        assert f"Rank {choice['n_components']}" in result.output
        table = read(out / "selection.csv", index="candidate")
        assert {"param_n_components", "param_alpha", "mean_test_score"} <= set(table.features)
        assert (out / "selection.html").is_file()


def test_the_command_it_names_fits_the_choice(tmp_path: Path) -> None:
    """What select prints to fit its choice repeats the options about the file, and works."""
    rng = np.random.default_rng(0)
    rows = [f"{i},{i % 2},{rng.random()},{rng.random()},{rng.random()}" for i in range(30)]
    data = tmp_path / "my data.csv"
    data.write_text("\n".join(["id,class,a,b,c", *rows]))
    words = ("--ranks", "1,2", "--alphas", 2, "--folds", 2, "--jobs", 1, "--label", "class", "--exclude", "id")
    result = run("select", data, *words, "--out", tmp_path / "choice").output
    (line,) = [line for line in result.splitlines() if line.startswith("To fit it: dspnmf ")]
    command = shlex.split(line.removeprefix("To fit it: dspnmf ").replace("--out DIR", ""))
    page = html.unescape((tmp_path / "choice" / "selection.html").read_text(encoding="utf-8"))
    assert f"dspnmf {shlex.join(command)} --out FOLDER" in re.sub("</?span>", "", page)
    run(*command, "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["shape"] == [30, 3]


def test_empty_labels_are_no_class(wine: Path, tmp_path: Path) -> None:
    """A sample without a label takes part without one; a class called -1 and an empty column are refused."""
    lines = wine.read_text().splitlines()
    some = [line if i % 3 else line.rpartition(",")[0] + "," for i, line in enumerate(lines[1:], 1)]
    wine.write_text("\n".join([lines[0], *some]))
    words = ("--rank", 3, "--label", "class", "--label-weight", 2, "--out", tmp_path / "out")
    run("fit", wine, *words)
    assert list(dspnmf.load(tmp_path / "out" / "model.skops")[-1].classes_) == sorted(WINE.target_names)
    choice = ("--label", "class", "--ranks", 2, "--alphas", 2, "--folds", 2, "--jobs", 1, "--out", tmp_path / "choice")
    run("select", wine, *choice)
    wine.write_text("\n".join([lines[0], *(line.replace("class_0", "-1") for line in lines[1:])]))
    assert "Labels of -1" in run("fit", wine, *words, "--force", status=1).output
    run("fit", wine, "--rank", 2, "--label", "class", "--out", tmp_path / "shown")  # where labels are only shown


def test_a_folder_elsewhere(wine: Path, tmp_path: Path) -> None:
    """Results reach a folder behind a link; one that leads nowhere, and a file in the way, are refused at once."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    words = ("fit", wine, "--rank", 2, "--exclude", "class", "--out")
    run(*words, tmp_path / "link")
    assert {file.name for file in (tmp_path / "real").iterdir()} == FILES
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert "leads nowhere" in run(*words, tmp_path / "nowhere", status=1).output
    assert "is a file" in run(*words, wine / "out", status=1).output


@pytest.mark.parametrize("kind", ["npy", "npz", "mtx", "mat", "parquet"])
def test_formats(kind: str, tmp_path: Path) -> None:
    """Arrays, sparse matrices and cubes are fitted as well as text."""
    X = np.random.default_rng(0).random((30, 6))
    path = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(path, X.astype(np.float32))
    elif kind == "npz":
        sparse.save_npz(path, sparse.csr_matrix(X * (X > 0.5)))
    elif kind == "mtx":
        io.mmwrite(path, sparse.coo_matrix(X * (X > 0.5)))
    elif kind == "mat":
        io.savemat(path, {"cube": X.reshape(5, 6, 6)})
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({f"f{j}": X[:, j] for j in range(6)}), path)
    run("fit", path, "--rank", 2, "--codes", "parquet", "--out", tmp_path / "out")
    assert read(tmp_path / "out" / "codes.parquet").X.shape == (30, 2)


def test_methods_and_parameters(wine: Path, tmp_path: Path) -> None:
    """Any method by its name, with its own parameters."""
    words = ("--rank", 2, "--exclude", "class", "--set", "beta=5", "--set", "n_neighbors=3")
    run("fit", wine, "--method", "gnmf", *words, "--out", tmp_path / "out")
    parameters = json.loads((tmp_path / "out" / "metrics.json").read_text())["parameters"]
    assert (parameters["beta"], parameters["n_neighbors"]) == (5, 3)


def test_empty_cells(wine: Path, tmp_path: Path) -> None:
    """Empty cells are refused with the way out, and masked when asked."""
    text = wine.read_text().splitlines()
    text[3] = text[3].replace(text[3].split(",")[2], "", 1)
    wine.write_text("\n".join(text))
    words = ("fit", wine, "--rank", 2, "--exclude", "class", "--out", tmp_path / "out")
    result = run(*words, "--missing", "error", status=1)
    assert "of sample bottle 2 (line 4), feature malic_acid is empty: fill it, or use --missing mask." in result.output
    assert not (tmp_path / "out").exists()
    for more in (("--missing", "mask"), ()):
        said = run(*words, *more, "--force").output
        assert json.loads((tmp_path / "out" / "metrics.json").read_text())["missing_cells"] == 1
    assert "Missing: 1 of 2,314 cells" in said
    assert "carry no weight (--missing error refuses them)" in said
    assert "bottle 2 (line 4)" in run(*words, "--method", "GNMF", "--force", status=1).output


def test_labels_in_the_fit(wine: Path, tmp_path: Path) -> None:
    """--label-weight makes the fit use the labels, and needs them."""
    words = ("fit", wine, "--rank", 3, "--label-weight", 2)
    assert "--label" in run(*words, "--out", tmp_path / "out", status=1).output
    run(*words, "--label", "class", "--out", tmp_path / "out")
    assert list(dspnmf.load(tmp_path / "out" / "model.skops")[-1].classes_) == sorted(WINE.target_names)


def test_nothing_is_replaced_unasked(wine: Path, tmp_path: Path) -> None:
    """Results that are there are refused before any work; --force replaces them and keeps other files."""
    out = tmp_path / "out"
    words = ("fit", wine, "--rank", 2, "--exclude", "class", "--out", out)
    run(*words)
    (out / "notes.txt").write_text("mine")
    before = {file.name: file.stat().st_mtime_ns for file in out.iterdir()}
    assert "--force" in run(*words, status=1).output
    assert {file.name: file.stat().st_mtime_ns for file in out.iterdir()} == before
    run(*words, "--force", "--codes", "parquet")
    assert {file.name for file in out.iterdir()} == FILES - {"codes.csv"} | {"codes.parquet", "notes.txt"}
    new = tmp_path / "codes.csv"
    new.write_text("")
    assert "--force" in run("transform", out, wine, "--out", new, status=1).output


def test_json(wine: Path, tmp_path: Path) -> None:
    """--json prints one object and nothing else, also for errors."""
    out = tmp_path / "out"
    result = run("fit", wine, "--rank", 2, "--exclude", "class", "--out", out, "--json")
    assert json.loads(result.stdout)["rank"] == 2
    error = run("fit", tmp_path / "no.csv", "--out", tmp_path / "o", "--json", status=1)
    assert "no.csv" in json.loads(error.stdout)["error"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--rank", 0), 2, "--rank"),
        (("--scale", "log"), 2, "minmax"),
        (("--codes", "xls"), 2, "csv"),
        (("--method", "PCA"), 1, "choose from DSPNMF"),
        (("--set", "bta=3", "--method", "gnmf"), 1, "did you mean beta"),
        (("--set", "beta"), 1, "name=value"),
        (("--label", "klass"), 1, "class"),
        (("--missing", "drop"), 1, "mask"),
        (("--alpha", "-1"), 1, "alpha=-1.0"),
    ],
)
def test_errors(words: tuple[Any, ...], status: int, message: str, wine: Path, tmp_path: Path) -> None:
    """Every mistake gets a message of its own, the right status, and leaves nothing behind."""
    exclude = () if "--label" in words else ("--exclude", "class")
    result = run("fit", wine, *words, *exclude, "--out", tmp_path / "out", status=status)
    assert message in result.output
    assert "Traceback" not in result.output
    assert os.listdir(tmp_path) == ["wine.csv"]  # noqa: PTH208 - hidden files count too


def test_negative_values(tmp_path: Path) -> None:
    """Negative values name their cell where scaling keeps the sign, and are shifted by minmax."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,-4\n5,6\n")
    result = run("fit", tmp_path / "x.csv", "--rank", 1, "--scale", "none", "--out", tmp_path / "out", status=1)
    assert "-4 of sample 1 (line 3), feature b is negative: use --scale minmax" in result.output
    assert "On the command line" not in result.output
    run("fit", tmp_path / "x.csv", "--rank", 1, "--out", tmp_path / "out")


def test_infinite_values(tmp_path: Path) -> None:
    """A value that is not finite is named by its line, and what the message says to type works."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,Inf\n5,6\n7,1\n")
    words = ("fit", tmp_path / "x.csv", "--rank", 1, "--no-baseline", "--out", tmp_path / "out")
    said = run(*words, status=1).output
    assert "sample 1 (line 3), feature b is infinite: correct it, or use --na inf if it means" in said
    assert "Missing: 1 of 8 cells" in run(*words, "--na", "inf").output


def test_debug_shows_where(tmp_path: Path) -> None:
    """With --debug the error itself comes out."""
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "no.csv"), "--out", str(tmp_path / "o"), "--debug"])
    assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize("command", ["fit", "transform", "select", "report", "reproduce"])
def test_help_has_an_example(command: str) -> None:
    """Every command shows how it is used."""
    assert f"dspnmf {command} " in run(command, "--help").output.split("Example", 1)[1]


def test_no_baseline(wine: Path, tmp_path: Path) -> None:
    """--no-baseline fits no plain NMF: neither summary, numbers, page nor a page made again speak of one."""
    out = tmp_path / "out"
    result = run("fit", wine, "--rank", 2, "--exclude", "class", "--no-baseline", "--out", out)
    assert "plain NMF" not in result.output
    assert json.loads((out / "metrics.json").read_text())["baseline"] is None
    run("report", out, "--out", tmp_path / "again.html")
    for page in (out / "report.html", tmp_path / "again.html"):
        assert "plain nmf" not in page.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--set", "n_components=0"), "n_components is --rank"),
        (("--missing", "drop"), "missing is --missing"),
        (("--set", "max_iter=-1"), "max_iter is --set max_iter=VALUE"),
    ],
)
def test_messages_of_the_library_are_kept(words: tuple[str, ...], line: str, wine: Path, tmp_path: Path) -> None:
    """A parameter that is refused gets the library's own message, and a second line with the option, in JSON too."""
    result = run("fit", wine, *words, "--exclude", "class", "--out", tmp_path / "out", "--json", status=1)
    first, second = json.loads(result.stdout)["error"].split("\n")
    assert "is not allowed in DSPNMF: it must be" in first
    assert second == f"On the command line, {line}."
