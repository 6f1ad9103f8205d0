"""The wheel: pure Python, complete, at work with the core dependencies alone, and clear about what else is missing."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# packages of the extras, by the name they are imported under
IMPORTED = {
    "typer": "typer", "rich": "rich", "jinja2": "jinja2", "pyarrow": "pyarrow", "skops": "skops", "pillow": "PIL",
    "dask": "dask", "distributed": "distributed", "zarr": "zarr", "h5py": "h5py", "matplotlib": "matplotlib",
    "umap-learn": "umap", "pooch": "pooch", "torch": "torch",
}  # fmt: skip
# what a user of each extra does first
USES = {
    "cli": "from typer.testing import CliRunner; from dspnmf.cli.app import app;"
    " assert CliRunner().invoke(app, ['--help']).exit_code == 0",
    "dask": "import dask.array as da; dspnmf.NMF(2, max_iter=2, tol=0).fit_transform(da.from_array(X, chunks=(10, 5)))",
    "files": "import h5py, zarr",
    "plot": "import matplotlib; matplotlib.use('Agg'); from dspnmf import plot; plot.convergence(dspnmf.NMF(2).fit(X))",
    "report": "from dspnmf.report import fit_report",
    "models": "import os, tempfile; p = os.path.join(tempfile.mkdtemp(), 'm.skops');"
    " dspnmf.save(dspnmf.NMF(2).fit(X), p); dspnmf.load(p)",
    "paper": "import umap, pooch",
    "torch": "import torch; dspnmf.NMF(2).fit_transform(torch.from_numpy(X))",
}
MISSING = {
    "models": "dspnmf.save(dspnmf.NMF(2).fit(X), 'm.skops')",
    "plot": "import dspnmf.plot",
    "report": "from dspnmf.report import fit_report; from dspnmf.io import Table; m = dspnmf.NMF(2).fit(X);"
    " fit_report(m, Table(X, np.array(list('abcde')), np.arange(20).astype(str)), m.transform(X))",
}
BEGIN = """
import sys, warnings

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.path.insert(0, {site!r})
sys.meta_path.insert(0, Absent())
warnings.simplefilter("ignore")
"""
SMOKE = "import numpy as np, dspnmf; X = np.random.default_rng(0).random((20, 5)); "


def test_the_command_line_reads_every_format() -> None:
    """What readers import is installed with the extra `cli`, or with the library itself."""
    required = [re.split(r"[\[<>=]", name)[0] for name in (*PROJECT["dependencies"], *EXTRAS["cli"])]
    installed = {IMPORTED.get(name, name) for name in required} | {"dspnmf"}
    imported = set()
    for file in (ROOT / "src" / "dspnmf" / "io").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
                "library",
                "import_module",
            ):
                name = node.args[0]
                imported |= {name.value.partition(".")[0]} if isinstance(name, ast.Constant) else set()
    assert {"pyarrow", "PIL", "zarr"} <= imported
    assert imported - set(sys.stdlib_module_names) <= installed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = out.iterdir()
    return found


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it installs."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def package(requirement: str) -> str:
    """The name in a requirement."""
    return requirement.split(">")[0].split("=")[0].split("[")[0].strip()


def run(code: str, site: Path, allowed: set[str]) -> subprocess.CompletedProcess[str]:
    """Run code on the unpacked wheel, as if of the extras' packages only some were installed; loops not compiled."""
    begin = BEGIN.format(site=str(site), blocked=set(IMPORTED.values()) - allowed)
    command, environment = [sys.executable, "-I", "-c", begin + code], {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_it_is_pure_and_complete(wheel: Path) -> None:
    """One wheel for every machine; every module, style, script and table of the source is in it."""
    assert wheel.name.endswith("-py3-none-any.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
    assert {name for name in wanted if "__pycache__" not in name} <= inside


def test_the_core_alone_works(unpacked: Path) -> None:
    """With none of the extras, models are fitted, and it is the wheel's code that runs."""
    done = run(SMOKE + "print(dspnmf.__file__, dspnmf.DSPNMF(2).fit_transform(X).shape)", unpacked, set())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(unpacked))
    assert done.stdout.rstrip().endswith("(20, 2)")


@pytest.mark.slow
@pytest.mark.parametrize("extra", USES)
def test_each_extra_works_alone(extra: str, unpacked: Path) -> None:
    """What one extra installs is enough for what it is for."""
    allowed = {IMPORTED[package(requirement)] for requirement in EXTRAS[extra]}
    if extra == "plot":
        allowed.add("PIL")  # Matplotlib brings it
    if extra == "paper":
        allowed.add("rich")
    done = run(SMOKE + USES[extra], unpacked, allowed)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", MISSING)
def test_a_missing_extra_is_named(extra: str, unpacked: Path) -> None:
    """Without it, the error says what to install."""
    done = run(SMOKE + MISSING[extra], unpacked, set())
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert f'pip install "dspnmf[{extra}]"' in done.stderr


@pytest.mark.slow
def test_it_installs_into_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """A new environment with the wheel and its dependencies alone works; the command says what it needs."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    done = subprocess.run(
        [str(python), "-c", SMOKE + "print(dspnmf.DSPNMF(2).fit_transform(X).shape)"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "(20, 2)"
    command = subprocess.run([str(python.with_name("dspnmf"))], capture_output=True, text=True, check=False)
    assert command.returncode == 1
    assert 'pip install "dspnmf[cli]"' in command.stderr
