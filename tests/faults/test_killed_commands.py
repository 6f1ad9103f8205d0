"""Commands and fits killed with SIGKILL: results are the old or the new ones, whole, and the next run leaves no debris.

The slow studies make `DSPNMF_KILLS` kills each (10 unless set); run by hand with more:

    DSPNMF_KILLS=50 pytest tests/faults/test_killed_commands.py -m slow
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

import dspnmf
from comparison import made_up
from dspnmf._atomic_folders import output_folder
from dspnmf.paper.protocol import Run, plan
from dspnmf.paper.reproduce import file_names
from dspnmf.paper.store import Store
from dspnmf.workflow.result_files import FIT_FILES, SELECTION_FILES
from dspnmf.workflow.scaling import in_units_of_data

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")

KILLS = int(os.environ.get("DSPNMF_KILLS", "10"))
NAMES = ("codes.csv", "codes.parquet", "model.skops")

# Publishes "new" over "old", killed at its n-th step (file, rename, link ...) for every n, until it ends undisturbed.
_KILL_AT_EVERY_STEP = """
import os, signal, sys
from pathlib import Path
from dspnmf._atomic_folders import output_folder

os.fsync = lambda descriptor: None  # no power fails here, and a busy disk takes its time
root, exclusive = Path(sys.argv[1]), sys.argv[2] == "whole"
names = ("codes.csv", "codes.parquet", "model.skops")
out = root / "out"

def publish(text):
    with output_folder(out, names) as folder:
        for name in ("codes.csv" if text == "old" else "codes.parquet", "model.skops"):
            (folder / name).write_text(text)

def check(step):
    found = {path.name: path.read_text() for path in out.iterdir() if path.is_file()}
    assert found.pop("notes.txt") == "mine", step
    old, new = {"codes.csv": "old", "model.skops": "old"}, {"codes.parquet": "new", "model.skops": "new"}
    assert found in (old, new) or not exclusive, (step, found)
    return found == new

published = 0
for step in range(1000):
    publish("old")
    (out / "notes.txt").write_text("mine")
    left = [path for path in (*root.iterdir(), *out.iterdir()) if path.name.startswith(".")]
    assert not left, (step, left)
    child = os.fork()
    if child == 0:
        count = 0
        def kill(event, args):
            global count
            if event != "os.kill" and event.startswith(("open", "os.", "shutil.", "ctypes.", "fcntl.", "tempfile.")):
                count += 1
                if count > step:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(kill)
        publish("new")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    published += check(step)
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
print(step, published)
"""


@pytest.mark.parametrize("folder", ["whole", "with a folder in it"])
def test_killed_at_every_step_of_publishing(folder: str, tmp_path: Path) -> None:
    """Killed before any of its system calls, publishing leaves all old files or all new ones, and the user's own.

    A folder with folders in it cannot be exchanged; there, too, the user's files stay and nothing hidden does.
    """
    if folder != "whole":
        (tmp_path / "out" / "sub").mkdir(parents=True)
    command = [sys.executable, "-c", _KILL_AT_EVERY_STEP, str(tmp_path), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps, published = map(int, done.stdout.split())
    assert steps >= 15
    assert 1 < published < steps  # some kills came before the step that counts, some after


def test_folders_of_live_processes_stay(tmp_path: Path) -> None:
    """Two commands at once do not remove each other's work, and the one that ends last is there whole."""
    out = tmp_path / "out"
    with output_folder(out, NAMES) as first:
        (first / "codes.csv").write_text("1")
        with output_folder(out, NAMES) as second:
            assert first.exists()
            (second / "codes.parquet").write_text("2")
        assert [path.name for path in out.iterdir()] == ["codes.parquet"]
    assert [path.name for path in out.iterdir()] == ["codes.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_cannot_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, and a link to a folder, stay what they are; so do hidden folders of the user's."""
    out, link = tmp_path / "out", tmp_path / "link"
    (out / ".out.old").mkdir(parents=True)
    link.symlink_to(out)
    number = out.stat().st_ino
    monkeypatch.chdir(out)
    for path in (Path(), link):
        with output_folder(path, NAMES) as folder:
            (folder / "codes.csv").write_text(str(path))
        assert (out / "codes.csv").read_text() == str(path)
        assert {path.name for path in out.iterdir()} == {"codes.csv", ".out.old"}
    assert out.stat().st_ino == number
    assert link.is_symlink()


def test_permissions_and_late_files_are_kept(tmp_path: Path) -> None:
    """A folder keeps its mode, and files that come while it is being replaced."""
    out = tmp_path / "out"
    out.mkdir(mode=0o750)
    (out / "codes.csv.part").write_text("half")
    with output_folder(out, NAMES) as folder:
        (folder / "codes.csv").write_text("1")
        (out / "late.txt").write_text("mine")
    assert out.stat().st_mode & 0o777 == 0o750
    assert {path.name for path in out.iterdir()} == {"codes.csv", "late.txt"}


# -- the studies -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wine_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wine as a table."""
    data = load_wine()
    path = tmp_path_factory.mktemp("data") / "wine.csv"
    np.savetxt(path, data.data, delimiter=",", header=",".join(data.feature_names), comments="")
    return path


def start(*arguments: object) -> subprocess.Popen[str]:
    """A command in a process group of its own."""
    script = "import sys; sys.argv[0] = 'dspnmf'; from dspnmf.cli import main; main()"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def finish(*arguments: object) -> float:
    """A command undisturbed; the seconds it took."""
    begin, process = time.monotonic(), start(*arguments)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return time.monotonic() - begin


def debris(out: Path) -> list[Path]:
    """What no one should find after a run: hidden or unfinished files."""
    return [
        path for path in (*out.parent.iterdir(), *out.iterdir()) if path.name.startswith(".") or path.suffix == ".part"
    ]


def identities(out: Path, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Which files are there."""
    found = {name: (out / name).stat() for name in names if (out / name).exists()}
    return {name: (about.st_ino, about.st_mtime_ns) for name, about in found.items()}


def kill_often(
    out: Path, names: tuple[str, ...], last: str, command: Callable[[int], list[object]], whole: Callable[[Path], None]
) -> str:
    """Kill a command at random moments, every other time about when it publishes; returns what was seen.

    `last` is the file it writes last; `whole` checks that the files belong together.
    """
    moments = random.Random()
    longest, seen = finish(*command(0)), {"old": 0, "new": 0}
    (out / "notes.txt").write_text("mine")
    for kill in range(1, KILLS + 1):
        before = identities(out, names)
        process = start(*command(kill))
        if kill % 2:
            time.sleep(moments.uniform(0, longest))
        else:
            while process.poll() is None and not list(out.parent.glob(f".*/{last}*")):
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        after = identities(out, names)
        assert before.keys() == after.keys(), kill
        same = {name for name in names if name in before and before[name] == after[name]}
        assert same in (set(), set(before)), f"kill {kill}: {sorted(same)} are old, others new"
        seen["old" if same else "new"] += 1
        assert (out / "notes.txt").read_text() == "mine"
        whole(out)
        if kill % 5 == 0 or kill == KILLS:
            finish(*command(kill))
            whole(out)
            assert not debris(out), kill
    return f"{KILLS} kills: {seen['old']} left the old results, {seen['new']} the new ones"


@pytest.mark.slow
def test_killed_fit(wine_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``fit --force``: codes, components, model, numbers and page are of one fit."""

    def command(kill: int) -> list[object]:
        return ["fit", wine_csv, "--rank", 2, "--seed", kill, "--force", "--out", tmp_path / "out"]

    def whole(out: Path) -> None:
        (scaler, model), facts = dspnmf.load(out / "model.skops"), json.loads((out / "metrics.json").read_text())
        assert model.random_state == facts["parameters"]["random_state"]
        components = np.loadtxt(out / "components.csv", delimiter=",", skiprows=1, usecols=range(1, 14))
        V, least = in_units_of_data(scaler, model.components_)
        np.testing.assert_array_equal(components, np.vstack([V, least]))
        assert (out / "codes.csv").read_text().count("\n") == 179
        assert "</html>" in (out / "report.html").read_text()

    seen = kill_often(tmp_path / "out", FIT_FILES, "report.html", command, whole)
    with capsys.disabled():
        print(f"\nfit --force, {seen}")  # noqa: T201 - the figure of the study


@pytest.mark.slow
def test_killed_select(wine_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``select --force``: scores, choice and page are of one selection."""

    def command(kill: int) -> list[object]:
        few = ["--ranks", "2,3", "--alphas", 2, "--folds", 2, "--jobs", 1]
        return ["select", wine_csv, *few, "--seed", kill, "--force", "--out", tmp_path / "out"]

    def whole(out: Path) -> None:
        assert json.loads((out / "choice.json").read_text())["n_components"] in (2, 3)
        assert "</html>" in (out / "selection.html").read_text()

    seen = kill_often(tmp_path / "out", SELECTION_FILES, "selection.html", command, whole)
    with capsys.disabled():
        print(f"\nselect --force, {seen}")  # noqa: T201 - the figure of the study


@pytest.mark.slow
def test_killed_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``reproduce``: tables, summary and page are of one state of the measurements, which no kill damages."""
    out, values = tmp_path / "out", dict[Run, dict[str, float]]()
    for run, name, value in made_up(plan(quick=True, sets=("Wine",))).measurements:
        values.setdefault(run, {})[name] = value
    with Store(out / "results.sqlite") as store:
        for run, found in values.items():
            store.add(run, found)

    def command(kill: int) -> list[object]:
        for run in random.Random(kill).sample(sorted(values), 2 * (kill > 0)):  # to be made again
            with Store(out / "results.sqlite") as store:
                store.add(run, None, "to be made again")
        return ["reproduce", "--quick", "--sets", "Wine", "--jobs", 1, "--out", out]

    def whole(out: Path) -> None:
        rows = (out / "measurements.csv").read_text().count("\n")
        assert rows > len(values)
        assert "</html>" in (out / "index.html").read_text()
        with sqlite3.connect(out / "results.sqlite") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.close()

    seen = kill_often(out, file_names(), "index.html", command, whole)
    with capsys.disabled():
        print(f"\nreproduce, {seen}")  # noqa: T201 - the figure of the study


_FIT = """
import sys, numpy as np
from dspnmf import DSPNMF
from dspnmf.backends import file
file.IN_MEMORY = 0
X = np.load(sys.argv[1], mmap_mode="r") if sys.argv[2] == "a file" else np.load(sys.argv[1])
more = {"checkpoint_path": sys.argv[3], "checkpoint_every": 0} if len(sys.argv) > 3 else {}
Z = DSPNMF(6, solver="hals", random_state=0, max_iter=60, tol=0).fit_transform(X, **more)
print(repr(float(np.linalg.norm(Z))), Z.shape)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["memory", "a file"])
def test_killed_checkpointed_fits(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fit that is killed again and again, and called again, ends with the codes of the undisturbed one."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((60_000, 20), dtype=np.float32))
    command = [sys.executable, "-c", _FIT, str(tmp_path / "x.npy"), place]
    expected, resumed, at = subprocess.run(command, capture_output=True, text=True, check=True).stdout, 0, 0
    folder, moments = tmp_path / "checkpoints", random.Random()
    folder.mkdir()
    path = folder / "fit.npz"
    for _ in range(KILLS):
        process = subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, text=True)
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and not (path.exists() and path.stat().st_mtime_ns > before):
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        output, _ = process.communicate()
        if process.returncode == 0:  # done before it was killed: begin anew
            assert output == expected
            assert list(folder.iterdir()) == []
            at, resumed = 0, resumed + 1
            continue
        with np.load(path, allow_pickle=False) as content:
            assert len(content["history"]) - 1 > at
            at = len(content["history"]) - 1
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == expected
    assert list(folder.iterdir()) == []
    with capsys.disabled():
        print(f"\nfit from {place}: {KILLS} kills, {resumed + 1} fits ended, each as undisturbed")  # noqa: T201
