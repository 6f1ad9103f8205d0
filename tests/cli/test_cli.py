"""The command line: what it says, how it ends, and that killing it changes nothing."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from comparison import made_up
from dspnmf.cli.app import app
from dspnmf.paper import reproduce, runner
from dspnmf.paper.protocol import Run, plan
from dspnmf.paper.store import Store
from dspnmf.report import page

COMMANDS = [("reproduce",), ("data", "list"), ("data", "fetch")]
FORMS = ("csv", "md", "tex")
QUICK = ("reproduce", "--quick", "--sets", "Wine")
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run started in the background has it ignored
from dspnmf.cli import main
sys.argv[0] = "dspnmf"
main()
"""


def call(*arguments: object) -> Any:
    """The command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def start(*arguments: object) -> subprocess.Popen[str]:
    """The command in a process group of its own."""
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def fill(out: Path) -> None:
    """A store with made-up results of every run of the quick comparison on wine."""
    values: dict[Run, dict[str, float]] = {}
    for run, name, value in made_up(plan(quick=True, sets=("Wine",))).measurements:
        values.setdefault(run, {})[name] = value
    with Store(out / "results.sqlite") as store:
        for run, found in values.items():
            store.add(run, found)


@pytest.mark.parametrize("command", [(), ("data",), *COMMANDS], ids=" ".join)
def test_help(command: tuple[str, ...]) -> None:
    """Every command explains itself, with an example that begins with its own name."""
    result = call(*command, "--help")
    assert result.exit_code == 0
    if command in COMMANDS:
        examples = result.output.partition("Example")[2]
        assert f"dspnmf {' '.join(command)} " in examples


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("reproduce", "--jobs", "0"), "--jobs"),
        (("reproduce", "--jobs", "-3"), "--jobs"),
        (("reproduce", "--sets", "Wine,Beer"), "There is no data set 'Beer': choose from BC, Wine"),
        (("reproduce", "--sets", ","), "names no data set"),
        (("reproduce", "--fast"), "--fast"),
        (("data", "fetch", "Beer"), "There is no data set 'Beer'"),
        (("data", "fetch"), "NAME"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """What cannot be meant ends with status 2 and says what is allowed, before a folder is made."""
    more = ("--out", tmp_path / "out") if arguments[0] == "reproduce" else ()
    result = call(*arguments, *more)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that cannot be made is named, with the fix, in one line and before any work."""
    (tmp_path / "file").write_text("in the way")
    result = call(*QUICK, "--out", tmp_path / "file" / "out")
    assert result.exit_code == 1
    assert "cannot be written (Not a directory): choose another one" in result.output
    assert result.output.count("\n") == 1


def test_folders_in_the_way(tmp_path: Path) -> None:
    """Whichever file has its name taken by a folder, it is named before any work, and nothing is written."""
    fill(tmp_path / "good")
    assert call(*QUICK, "--out", tmp_path / "good").exit_code == 0
    for file in (tmp_path / "good").iterdir():
        out = tmp_path / f"without {file.name}"
        (out / file.name).mkdir(parents=True)
        result = call(*QUICK, "--out", out)
        assert result.exit_code == 1, file.name
        assert f"{out / file.name} is a folder" in result.output
        assert result.output.count("\n") == 1
        assert list(out.iterdir()) == [out / file.name]


@pytest.mark.parametrize("error", [OSError(28, "No space left"), sqlite3.OperationalError("disk is full")])
@pytest.mark.parametrize("moment", ["run", "write"])
def test_a_full_disk(error: Exception, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails while runs or files are written ends with one line that says how to continue."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(reproduce.Comparison, moment, fail)
    if moment == "write":
        fill(tmp_path)
    result = call(*QUICK, "--out", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.output.splitlines()[1:] == [
        f"dspnmf: {error}. Every run that had ended is kept: start the same command again to continue."
    ]


@pytest.mark.parametrize("kind", ["damaged", "another version"])
def test_foreign_stores_are_left_alone(kind: str, tmp_path: Path) -> None:
    """A store that cannot be continued is named in one line; not a byte of the folder changes."""
    path = tmp_path / "results.sqlite"
    fill(tmp_path)
    if kind == "damaged":
        path.write_bytes(path.read_bytes()[:3000] + b"garbage" * 300)
    else:
        with sqlite3.connect(path) as db:
            db.execute("UPDATE meta SET value = '999'")
        db.close()
    before = path.read_bytes()
    result = call(*QUICK, "--out", tmp_path)
    assert result.exit_code == 1
    assert "left as it is" in result.output
    assert result.output.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["results.sqlite"]
    assert path.read_bytes() == before


def test_no_data_at_all(tmp_path: Path) -> None:
    """Where no data set can be run, the reason is the message."""
    result = call("reproduce", "--sets", "COIL20", "--data-dir", tmp_path / "none", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "None of the data sets can be run. COIL20 needs COIL20.mat" in result.output
    assert not list(tmp_path.iterdir())


def test_absent_data_is_no_error(tmp_path: Path) -> None:
    """A data set without its files is left out with the reason, and no path of this machine is in it."""
    ready = reproduce.prepare(tmp_path / "out", sets=("Wine", "COIL20", "Pavia"), data_dir=str(tmp_path / "somewhere"))
    assert {run.dataset for run in ready.runs} == {"Wine"}
    assert list(ready.absent) == ["COIL20", "Pavia"]
    assert "SHA-256 is not known" in ready.absent["Pavia"]
    assert str(tmp_path) not in str(ready.absent) + str(ready.provenance())


def test_nothing_left_to_run(tmp_path: Path) -> None:
    """With every result there, all files are written, the page is named last, and nothing temporary stays."""
    fill(tmp_path)
    result = call(*QUICK, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"Page: {tmp_path / 'index.html'}"
    tables = {f"{name}.{form}" for name in [*(f"table{i}" for i in range(1, 6)), "other"] for form in FORMS}
    others = {"results.sqlite", "measurements.csv", "summary.md", "provenance.json", "index.html"}
    assert {file.name for file in tmp_path.iterdir()} == tables | others
    for file in tmp_path.iterdir():
        if file.name != "results.sqlite":
            assert str(tmp_path) not in file.read_text(encoding="utf-8"), file.name


def test_all_versions_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provenance has the versions of every start that ran something, and of no other."""
    some = plan(quick=True, sets=("Wine",))[0]

    def start(version: str, missing: bool) -> str:
        monkeypatch.setattr(reproduce, "_versions", lambda: {"python": "3", "numpy": version})
        if missing:
            with Store(tmp_path / "results.sqlite") as store:
                store.add(some, None, "ValueError: again")
        ready = reproduce.prepare(tmp_path, quick=True, sets=("Wine",))
        ready.run(1)
        assert ready.provenance()["python"].endswith("3")
        return ready.provenance()["numpy"]

    monkeypatch.setattr(runner, "execute", lambda *_, **__: None)
    assert start("0", True) == "0"
    fill(tmp_path)
    assert start("1", False) == "0"
    assert [start(version, True) for version in "1102"] == ["0, then 1", "0, then 1", "0, then 1", "0, then 1, then 2"]
    (tmp_path / "results.sqlite").unlink()
    fill(tmp_path)  # as stores were before versions were noted
    assert start("1", False) == "1"
    assert start("2", True) == "not recorded, then 2"


def test_other_results_in_the_store_are_left_out(tmp_path: Path) -> None:
    """Tables are of the command's own runs, whatever else the store holds."""
    fill(tmp_path)
    assert call(*QUICK, "--out", tmp_path).exit_code == 0
    before = (tmp_path / "table1.csv").read_bytes()
    with Store(tmp_path / "results.sqlite") as store:
        store.add(Run("BC", "DSP-NMF", 3, 0), {"svm": 0.1})
        store.add(Run("Wine", "DSP-NMF", 2, 4), {"svm": 0.1})
        store.add(Run("Wine", "LLE", 2, 4), None, "ValueError: no")
    assert "failed" not in call(*QUICK, "--out", tmp_path).output
    assert (tmp_path / "table1.csv").read_bytes() == before


def test_failed_runs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed run is named when it fails and counted at the end, and the page is written all the same."""
    fill(tmp_path)
    failed = Run("Wine", "LLE", 9, 1)

    def execute(runs: Any, path: Path, *, callback: Callable[..., None], **_: Any) -> None:
        callback(runner.Progress(failed, 59, 59, "LinAlgError: singular\nTraceback"))

    with Store(tmp_path / "results.sqlite") as store:
        store.add(failed, None, "LinAlgError: singular\nTraceback")
    monkeypatch.setattr(runner, "execute", execute)
    result = call(*QUICK, "--out", tmp_path)
    assert result.exit_code == 0
    assert "Failed: LLE on Wine, rank 9, run 2 (tables): LinAlgError: singular\n" in result.output
    assert "1 runs failed" in result.output
    assert "LLE on Wine: 1 run failed with LinAlgError: singular\n" in (tmp_path / "summary.md").read_text()


def test_data_list(tmp_path: Path) -> None:
    """Every data set is listed, with its size or with what is missing."""
    lines = call("data", "list", "--data-dir", tmp_path).output.splitlines()
    assert lines[1].startswith("Wine         178 x 13, 3 classes")
    assert lines[3].startswith("COIL20       not ready: COIL20 needs COIL20.mat")
    assert "Pass data_dir=, or set" in lines[3]
    assert lines[3].endswith("or run dspnmf.datasets.fetch('COIL20').")
    assert lines[5].endswith("say so with unverified=True.")
    assert "fetch" not in lines[6].replace("to fetch it from", "")
    assert lines[7].startswith(
        "On the command line, data_dir is --data-dir DIR and unverified=True is --unverified and "
    )


def test_data_fetch() -> None:
    """What comes with scikit-learn needs no download; what cannot be verified needs the option that is named."""
    assert "nothing to fetch" in call("data", "fetch", "Wine").output
    result = call("data", "fetch", "Pavia")
    assert result.exit_code == 1
    assert "say so with unverified=True." in result.output
    assert "unverified=True is --unverified" in result.output


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_missing_extra(module: str) -> None:
    """Without its extra the library imports, and the command says what to install."""
    code = f"import sys; sys.modules[{module!r}] = None; import dspnmf; from dspnmf.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == f'dspnmf: the command line needs {module}: pip install "dspnmf[cli]"\n'


def test_missing_page_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page needs is missed before the work."""
    page.require.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = call(*QUICK, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert 'pip install "dspnmf[report]"' in result.output


def test_missing_umap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without umap-learn a full comparison says so before the work, unless UMAP has its results; a quick one runs."""
    monkeypatch.setitem(sys.modules, "umap", None)
    result = call("reproduce", "--sets", "Wine", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert '30 runs of UMAP need umap-learn, which is not installed: install it with pip install "dsp' in result.output
    assert not (tmp_path / "out").exists()
    assert reproduce.prepare(tmp_path / "quick", quick=True, sets=("Wine",)).runs
    with Store(tmp_path / "out" / "results.sqlite") as store:
        for run in plan(sets=("Wine",)):
            if run.method == "UMAP":
                store.add(run, {"svm": 0.5})
    assert reproduce.prepare(tmp_path / "out", sets=("Wine",)).runs


def ended(path: Path) -> int:
    """How many runs a store holds, looked at from outside while it is written."""
    if not path.exists():
        return 0
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(db.execute("SELECT COUNT(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        db.close()


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow  # the quick one: tests/faults/test_interrupts.py
def test_interrupt(tmp_path: Path) -> None:
    """Ctrl-C ends with status 130, how to continue and no traceback; what had ended is kept, and no process stays."""
    for attempt in range(3):
        store = tmp_path / str(attempt) / "results.sqlite"
        process = start(*QUICK, "--jobs", 2, "--out", store.parent)
        wait_for(lambda: ended(store) >= 2 or process.poll() is not None)  # noqa: B023 - called here and now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        if process.returncode != 0:  # otherwise all was done before the signal came
            break
    assert process.returncode == 130, output
    assert "start the same command again to continue" in output
    assert "Traceback" not in output
    assert ended(store) >= 2
    wait_for(lambda: gone(process.pid), 20)


@pytest.mark.slow
def test_kill_changes_nothing(tmp_path: Path) -> None:
    """Killed with SIGKILL at three random moments and started again, it ends with the tables of a run at peace."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    process = start(*QUICK, "--jobs", 2, "--out", calm)
    assert "Page: " in process.communicate(timeout=300)[0]
    moments = random.Random(int.from_bytes(os.urandom(4)))
    for kill in range(3):
        least = moments.randint(15 * kill, 15 * kill + 12)
        process = start(*QUICK, "--jobs", 2, "--out", killed)
        wait_for(lambda least=least: ended(killed / "results.sqlite") >= least)  # type: ignore[misc]
        time.sleep(moments.uniform(0, 0.3))
        process.kill()  # the parent alone: the others must notice
        process.communicate(timeout=60)
        wait_for(lambda group=process.pid: gone(group), 20)  # type: ignore[misc]
    process = start(*QUICK, "--jobs", 2, "--out", killed)
    assert "Page: " in process.communicate(timeout=300)[0]
    names = {file.name for file in calm.iterdir()}
    assert names == {file.name for file in killed.iterdir()}
    for name in names - {"results.sqlite", "measurements.csv"}:  # these hold times
        assert (calm / name).read_bytes() == (killed / name).read_bytes(), name
