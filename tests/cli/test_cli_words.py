"""What the commands say and refuse: options that contradict each other, messages in their own words, help, progress."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from messy_files import Messy, Question, messy_files, questions
from typer.testing import CliRunner
from workbooks import write_workbook

import dspnmf
from dspnmf.cli import progress
from dspnmf.cli.app import app
from dspnmf.io import read
from dspnmf.workflow import fitting

QUICK = ("--set", "max_iter=3", "--no-baseline")


def run(*words: object, status: int = 0) -> Any:
    """Run a command in this process; it must end with the status."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == status, result.output + str(result.exception)
    return result


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file with an id, a label and four features of different units."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((20, 4)) * [1, 10, 100, 1000], columns=["ph", "mass", "height", "count"])
    frame.insert(0, "sample_id", rng.permutation(20))
    frame["cultivar"] = ["red", "white"] * 10
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


@pytest.mark.parametrize("file", messy_files(), ids=lambda file: file.name)
def test_messy_files_are_fitted(file: Messy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dspnmf fit FILE --rank 3` without an option fits the right columns, and says what it assumed."""
    monkeypatch.chdir(tmp_path)
    Path(file.name).write_bytes(file.content)
    monkeypatch.setattr("dspnmf.workflow.result_files.write_fit_report", lambda *_, **__: None)  # has tests of its own
    monkeypatch.setattr(fitting, "fit_baseline", lambda *_: False)
    result = run("fit", file.name, "--rank", 3)
    said = "".join(result.output.splitlines(keepends=True)[:5])
    folder = Path(f"{Path(file.name).stem}-fit")
    assert dspnmf.load(folder / "model.skops").feature_names_in_.tolist() == file.features
    components = read(folder / "components.csv", index="component").features.tolist()
    assert [name.rpartition(" [")[0] if name.endswith("]") else name for name in components] == [
        name.rpartition(" [")[0] if name.endswith("]") else name for name in file.features
    ]
    assert [words for words in (*file.says, "Read ", "Scaled: ") if words not in result.output] == []
    assert f"{len(file.features)} features: " in said
    assert [name for name in file.left_out if f"'{name}' (" not in said] == []


@pytest.mark.parametrize("file", questions(), ids=lambda file: file.name)
def test_questions_can_be_answered(file: Question, tmp_path: Path) -> None:
    """What a message says to type works when it is typed."""
    (tmp_path / file.name).write_bytes(file.content)
    words = ("fit", tmp_path / file.name, "--rank", 2, *QUICK, "--out", tmp_path / "out", "--force")
    asked = run(*words, status=1).stderr
    assert file.asks in asked
    for answer, _ in file.answers:
        assert answer in asked
        run(*words, *shlex.split(answer))


def test_how_text_is_written_can_be_given(tmp_path: Path) -> None:
    """Marks, encoding, lines to skip and words for missing values are taken from the options, in transform too."""
    content = "1;2;3;4\n5;6;7;8\nNr;größe;b;c\n1;1.234;x;3,5\n2;5;2,5;kaputt\n3;7.000;1,5;2\n4;7;2,5;1\n"
    (tmp_path / "x.txt").write_bytes(content.encode("mac_roman"))
    words = shlex.split("--decimal , --thousands . --encoding mac_roman --skip-rows 2 --na x --na kaputt")
    said = run("fit", tmp_path / "x.txt", "--rank", 2, *QUICK, *words, "--out", tmp_path / "out").output
    assert "3 features: größe, b, c" in said
    assert "Missing: 2 of 12 cells" in said
    run("transform", tmp_path / "out", tmp_path / "x.txt", *words, "--out", tmp_path / "codes.csv")
    least = read(tmp_path / "out" / "components.csv").X[2]
    np.testing.assert_allclose(least, [5, 1.5, 1])


def test_columns_are_said(table: Path, tmp_path: Path) -> None:
    """Features, index, label, what is left out and how all is scaled are on the console and in metrics.json."""
    words = ("fit", table, "--rank", 2, *QUICK, "--out", tmp_path / "out", "--label", "cultivar")
    said = run(*words).output
    assert "20 samples, named by 'sample_id'; label 'cultivar'\n4 features: ph, mass, height, count\n" in said
    assert "Scaled: each feature to [0, 1], as their units may differ (--scale for another way)" in said
    said = run(*words, "--index", "cultivar", "--force", status=1).output
    assert "--index and --label both name the column 'cultivar'" in said
    said = run(*words[:-2], "--index", "cultivar", "--force").output
    assert "Left out: 'sample_id' (its name is that of an id)" in said
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["settings"]["left_out"] == {
        "sample_id": "its name is that of an id"
    }
    assert "5 features: sample_id, ph" in run(*words, "--include", "sample_id", "--force").output


def test_a_spreadsheet_is_fitted(tmp_path: Path) -> None:
    """The sheet that was read is named, another one can be asked for, and its model codes it again."""
    rng = np.random.default_rng(0)
    rows = [["plot", "a [g]", "b [g]", "c [g]"], *([f"p{i}", *map(float, rng.random(3))] for i in range(9))]
    path = write_workbook(tmp_path / "book.xlsx", {"Notes": [["by hand"]], "First": rows, "Second": rows[:7]})
    words = ("fit", path, "--rank", 2, *QUICK, "--out", tmp_path / "out", "--force")
    said = run(*words).output
    assert "sheet 'First' (there are also 'Notes', 'Second'); names in row 1" in said
    assert "as all have the unit g" in said
    assert "6 samples" in run(*words, "--variable", "Second").output
    run("transform", tmp_path / "out", path, "--out", tmp_path / "codes.csv")


def test_components_have_their_units(tmp_path: Path) -> None:
    """Units from a line of the file or from its cells are in components.csv, whose numbers are in these units."""
    (tmp_path / "x.csv").write_text("plot,a,b\n,cm,mg/L\np,1,20\nq,3,50\nr,4,10\n")
    words = ("--method", "NMF", "--rank", 2, "--scale", "max", *QUICK, "--out", tmp_path / "out", "--force")
    run("fit", tmp_path / "x.csv", *words)
    header = (tmp_path / "out" / "components.csv").read_text().splitlines()[0]
    assert header == "component,a [cm],b [mg/L]"
    V, Z = (read(tmp_path / "out" / name).X for name in ("components.csv", "codes.csv"))
    np.testing.assert_allclose(Z @ V, [[1, 20], [3, 50], [4, 10]], rtol=0.3)
    (tmp_path / "x.csv").write_text("plot,a,b\np,1 cm,20 $\nq,3 cm,50 $\nr,4 cm,10 $\n")
    run("fit", tmp_path / "x.csv", *words)
    assert (tmp_path / "out" / "components.csv").read_text().startswith("component,a [cm],b [$]\n")


def test_a_model_knows_its_columns(table: Path, tmp_path: Path) -> None:
    """In Python a frame with columns in another order is refused, however the data were scaled."""
    frame = pd.read_csv(table)[["ph", "mass", "height", "count"]]
    for scale in ("minmax", "max", "common", "l2", "none"):
        run("fit", table, "--rank", 2, *QUICK, "--scale", scale, "--out", tmp_path / "out", "--force")
        model = dspnmf.load(tmp_path / "out" / "model.skops")
        codes = read(tmp_path / "out" / "codes.csv", index="sample_id").X
        np.testing.assert_allclose(model.transform(frame), codes, rtol=1e-5, atol=1e-8)
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            model.transform(frame[frame.columns[::-1]])


def test_transform_names_the_cell(table: Path, tmp_path: Path) -> None:
    """A bad cell of new rows is named by line and column; features that look like row numbers there are features."""
    run("fit", table, "--rank", 2, *QUICK, "--out", tmp_path / "out")
    frame = pd.read_csv(table)[:5].assign(count=[1, 2, 3, 4, 5])
    frame.to_csv(tmp_path / "new.csv", index=False)
    run("transform", tmp_path / "out", tmp_path / "new.csv", "--out", tmp_path / "codes.csv")
    assert read(tmp_path / "codes.csv").index_name == "sample_id"
    frame.assign(mass=[1, 2, None, 4, 5]).to_csv(tmp_path / "gap.csv", index=False)
    words = ("transform", tmp_path / "out", tmp_path / "gap.csv", "--out", tmp_path / "c.csv")
    assert "(line 4), feature mass is empty" in run(*words, status=1).output
    run("fit", table, "--rank", 2, *QUICK, "--scale", "none", "--out", tmp_path / "out", "--force")
    frame.assign(mass=[1, 2, 3, -4, 5]).to_csv(tmp_path / "gap.csv", index=False)
    assert "-4 of sample" in (said := run(*words, status=1).output)
    assert "(line 5), feature mass is negative: correct it, fit again with --scale minmax" in said


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("--label a --label b --label c", 2, "--label is given 3 times, but takes one value"),
        ("--set n_components=2 --rank 5", 1, "n_components is given twice, as 5 and with --set n_components=2"),
        ("--set tol=1 --set tol=2", 1, "tol is given twice"),
        ("--seed 1 --set random_state=2", 1, "random_state is given twice"),
        ("--method GDNMF", 1, "GDNMF with label_weight=1 needs labels: name their column with --label; GNMF is"),
        ("--set label_weight=2", 1, "DSPNMF with label_weight=2 needs labels: name their column with --label."),
        ("--label-weight 2", 1, "DSPNMF with label_weight=2 needs labels: name their column with --label."),
        ("--alpha 1 --method GNMF", 1, "alpha: did you mean beta?\nOn the command line, beta is --set beta=VALUE."),
        ("--alpha 1 --method NMF", 1, "NMF has no parameter alpha: it has alpha_H, alpha_W"),
        ("--method GNFM", 1, "did you mean GNMF?"),
        ("--set tol=abc", 1, "tol='abc' is not allowed in DSPNMF: it must be a finite number >= 0.\nOn the command"),
        ("--exclude nothing", 1, "Correct --exclude."),
        ("--checkpoint no/file", 1, "On the command line, checkpoint_path is --checkpoint."),
        ("--label target", 1, "Its columns: 'sample_id', 'ph', 'mass', 'height', 'count', 'cultivar'. Correct --label"),
        (
            "--variable X",
            1,
            "--variable X means nothing for a text file: it takes --label",
        ),
    ],
)
def test_nothing_is_ignored(words: str, status: int, says: str, table: Path, tmp_path: Path) -> None:
    """Options that contradict each other are refused, in the words of the command line and without Python's."""
    said = run("fit", table, *shlex.split(words), "--out", tmp_path / "out", status=status).stderr
    assert says in said
    assert not any(word in said for word in ("set_params", "dspnmf.", "DSPNMF(", "label="))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_is_named(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results in a place where no folder can be made are refused with that place, before the fit."""

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr("dspnmf.cli.fit.fit_table", lambda *_, **__: pytest.fail("the fit began"))
    said = run("fit", table, *QUICK, "--out", tmp_path / "out", status=1).stderr
    assert f"{tmp_path / 'out'} cannot be written (Permission denied): name another folder" in said


def test_bad_cells_are_named(tmp_path: Path) -> None:
    """An empty cell is called a cell, not a value, and an infinite one is said to be so."""
    for text, says in (("", "A cell of sample 0 (line 2), feature a is empty"), ("inf", "feature a is infinite")):
        (tmp_path / "bad.csv").write_text(f"a,b\n{text},2\n3,4\n5,7\n")
        words = ("--rank", 1, "--missing", "error", "--out", tmp_path / "out")
        assert says in run("fit", tmp_path / "bad.csv", *words, status=1).stderr


def test_usage_errors_are_json() -> None:
    """With --json what cannot be meant is JSON on standard output, and status 2."""
    for words in (("fit", "x.csv", "--rank", "x"), ("fit",), ("fit", "x.csv", "--nothing"), ("nothing",)):
        result = run(*words, "--json", status=2)
        assert json.loads(result.stdout)["error"]
        assert run(*words, status=2).stdout == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--rank three", "'--rank': it must be a whole number."),
        ("--rank 0", "'--rank': it must be at least 1"),
        ("--alpha x", "'--alpha': it must be a number."),
        ("--scale log", "'--scale': 'log' is not one of 'common', 'minmax', 'max', 'l2', 'none'."),
    ],
)
def test_usage_errors_are_plain(words: str, says: str, table: Path) -> None:
    """What an option may be is said in plain words."""
    assert says in " ".join(run("fit", table, *words.split(), status=2).stderr.split())


def test_new_rows_are_described(table: Path, tmp_path: Path) -> None:
    """What is assumed of a file of new rows, and which of its lines are no samples, is said next to the results."""
    run("fit", table, "--rank", 2, *QUICK, "--exclude", "cultivar", "--out", tmp_path / "out")
    (tmp_path / "new.csv").write_text("ph,mass,height,count\n1,2,3,4\n5,6,7,8\n\nby hand\n")
    result = run("transform", tmp_path / "out", tmp_path / "new.csv", "--out", tmp_path / "codes.csv")
    assert "names in line 1; not samples: line 5 ('by hand', a note).\n2 samples" in result.stderr
    assert result.stdout == f"Codes of 2 samples: {tmp_path / 'codes.csv'}\n"


def test_a_rank_beyond_the_data_is_said(tmp_path: Path) -> None:
    """With more components than features, as where a file has one value a row, the console says what that means."""
    (tmp_path / "long.csv").write_text("sample,element,value\na,Fe,1\na,Cu,5\nb,Fe,3\nb,Cu,2\n")
    words = ("fit", tmp_path / "long.csv", *QUICK, "--out", tmp_path / "out", "--force")
    said = run(*words, "--rank", 3).output
    assert "4 samples x 1 feature," in said
    assert "The rank is larger than 1 feature can tell apart: other components would fit as well." in said
    assert "can tell apart" not in run(*words, "--rank", 1).output


def test_python_m() -> None:
    """`python -m dspnmf` is the command `dspnmf`."""
    words = [sys.executable, "-m", "dspnmf", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"dspnmf {dspnmf.__version__}\n"


def test_version_and_help() -> None:
    """--version is the library's; the list of commands has whole sentences; values are completed."""
    assert run("--version").output == f"dspnmf {dspnmf.__version__}\n"
    for command in ((), ("data",)):
        listed = run(*command, "--help").output.partition("Commands:")[2].strip().splitlines()
        assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []
    for line, at, values in (
        ("fit x --method G", 4, {"GNMF", "GDNMF"}),
        ("fit x --missing m", 4, {"mask"}),
        ("select x --rule o", 4, {"one-se"}),
        ("data fetch W", 3, {"Wine"}),
    ):
        asked = {"_DSPNMF_COMPLETE": "complete_bash", "COMP_WORDS": f"dspnmf {line}", "COMP_CWORD": str(at)}
        assert set(CliRunner().invoke(app, [], env=asked, prog_name="dspnmf").output.split()) == values


def test_report_replaces_nothing_unasked(table: Path, tmp_path: Path) -> None:
    """A page that is there is kept unless --force is given."""
    run("fit", table, "--rank", 2, *QUICK, "--out", tmp_path / "out")
    before = (tmp_path / "out" / "report.html").stat().st_mtime_ns
    assert "--force" in run("report", tmp_path / "out", status=1).output
    assert (tmp_path / "out" / "report.html").stat().st_mtime_ns == before
    run("report", tmp_path / "out", "--force")
    assert (tmp_path / "out" / "report.html").stat().st_mtime_ns > before


def test_long_fits_say_how_long(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress with the time left, the notice of a baseline, and every iteration where that is asked for."""
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress.ProgressLines.__init__, "__defaults__", (0.0, 0.0))
    monkeypatch.setattr(fitting, "_LONG", 0.0)
    words = ("fit", table, "--rank", 2, "--set", "max_iter=4", "--set", "tol=0", "--out", tmp_path / "out", "--force")
    said = run(*words).stderr
    assert "Iteration 3 of at most 4, at most 0:00:0" in said
    assert "Fitting plain NMF of the same rank, to compare with (--no-baseline leaves it out)." in said
    handler = logging.Handler()
    lines: list[str] = []
    monkeypatch.setattr(handler, "emit", lambda record: lines.append(record.getMessage()))
    log = logging.getLogger("dspnmf")
    log.addHandler(handler)
    try:
        assert "Iteration" not in run(*words, "--verbose", "--no-baseline").stderr
    finally:
        log.removeHandler(handler)
    assert len(lines) == 4


def test_searches_and_consensus_say_how_long(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`select` and `fit --runs` say which share is done and the time left, and all of it is done in the end."""
    shown: list[progress.ProgressLines] = []
    monkeypatch.setattr(progress.ProgressLines.__init__, "__defaults__", (0.0, 0.0))
    monkeypatch.setattr("dspnmf.cli.select.progress_shown", lambda **_: shown.append(progress.ProgressLines()) or shown)
    choice = ("select", table, "--label", "cultivar", "--ranks", "1,2", "--alphas", 2, "--folds", 2, "--jobs", 1)
    assert " % done, about 0:00:0" in run(*choice, "--out", tmp_path / "choice").stderr
    monkeypatch.setattr(
        "dspnmf.cli.fit.progress_shown", lambda **_: shown.append(progress.ProgressLines()) or shown[1:]
    )
    said = run("fit", table, "--rank", 2, *QUICK, "--runs", 4, "--out", tmp_path / "out").stderr
    assert " % done, at most 0:00:0" in said
    assert [round(one.share, 9) for one in shown] == [1.0, 1.0]


def test_runs_compare_ranks(table: Path, tmp_path: Path) -> None:
    """`--ranks` compares ranks, of which `--rank` or `--set` says which is fitted; without `--runs` it is refused."""
    words = ("fit", table, "--method", "NMF", *QUICK, "--runs", 4, "--ranks", "2,3")
    said = run(*words, "--rank", 3, "--out", tmp_path / "three").output
    assert "ConsensusNMF of rank 3" in said
    assert "Stability of the ranks: 2: " in said
    facts = json.loads((tmp_path / "three" / "metrics.json").read_text("utf-8"))
    assert facts["agreement"]["ranks"]["n_components"] == [2, 3]
    assert "ConsensusNMF of rank 2" in run(*words, "--set", "n_components=2", "--out", tmp_path / "two").output
    assert "ConsensusNMF of rank " in run(*words, "--out", tmp_path / "chosen").output
    refused = run("fit", table, "--ranks", "2,3", "--out", tmp_path / "none", status=1).stderr
    assert "--runs 100" in refused
    assert "'2,x' is not a list of whole numbers" in run(*words[:-1], "2,x", "--out", tmp_path / "x", status=1).stderr


def test_a_bar_in_a_terminal(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal there is one bar that is full in the end."""
    bar = progress.ProgressInTerminal()
    monkeypatch.setattr("dspnmf.cli.fit.progress_shown", lambda **_: (bar,))
    run("fit", table, "--rank", 2, *QUICK, "--set", "n_init=3", "--out", tmp_path / "out")
    assert [task.percentage for task in bar._bar.tasks] == [pytest.approx(100.0)]


def test_every_method_of_the_list_fits(table: Path, tmp_path: Path) -> None:
    """What --help, completion and messages name as a method is one."""
    assert {"DSPNMF", "NMF", "GNMF", "MiniBatchNMF"} <= set(fitting.methods())
    for method in fitting.methods():
        label = ("--label", "cultivar") if method == "GDNMF" else ("--exclude", "cultivar")
        run("fit", table, "--method", method, "--rank", 2, *QUICK, *label, "--out", tmp_path / method)


def test_a_checkpoint_goes_on(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that was stopped goes on from its checkpoint, and ends with the codes of one that was not."""
    words = ("fit", table, "--rank", 2, "--no-baseline", "--set", "max_iter=12", "--set", "tol=0")
    run(*words, "--out", tmp_path / "whole")

    class Stop:
        """Interrupts a fit after a few iterations."""

        def __init__(self) -> None:
            self.seen = 0

        def setup(self, estimator: Any, context: Any) -> None: ...
        def teardown(self, estimator: Any, context: Any) -> None: ...
        def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any) -> None:
            self.seen += context.task_name == "iteration"
            if self.seen == 6:
                raise KeyboardInterrupt

    held = tmp_path / "state"
    monkeypatch.setattr("dspnmf.workflow.fitting._EVERY", 0.0)
    with monkeypatch.context() as stopping:
        stopping.setattr("dspnmf.cli.fit.progress_shown", lambda **_: (Stop(),))
        said = run(*words, "--checkpoint", held, "--out", tmp_path / "out", status=130).stderr
    assert f"the same command goes on from {held}" in said
    assert held.exists()
    assert "Going on from" in run(*words, "--checkpoint", held, "--out", tmp_path / "out").stderr
    assert not held.exists()
    with monkeypatch.context() as stopping:
        stopping.setattr("dspnmf.cli.fit.read", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        said = run(*words, "--checkpoint", held, "--out", tmp_path / "other", status=130).stderr
    assert said == "dspnmf: interrupted; nothing was written.\n"
    codes = [read(tmp_path / name / "codes.csv", index="sample_id").X for name in ("whole", "out")]
    np.testing.assert_allclose(codes[0], codes[1], rtol=1e-6, atol=1e-9)
