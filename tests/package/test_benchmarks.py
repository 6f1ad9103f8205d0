import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benchmarks"


def runner() -> ModuleType:
    """`benchmarks/_run.py` as a module."""
    spec = importlib.util.spec_from_file_location("run_benchmarks", FOLDER / "_run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_benchmark_finds_what_it_imports() -> None:
    """None is left behind when a module is renamed."""
    names = ", ".join(sorted(path.stem for path in FOLDER.glob("*.py")))
    subprocess.run([sys.executable, "-c", f"import {names}"], cwd=FOLDER, check=True)


def test_a_benchmark_that_fails_loses_nothing_of_the_others(tmp_path: Path) -> None:
    """The page has what the others print, and says which one failed and why."""
    (tmp_path / "_header.md").write_text("# Title\n")
    for name, code in (("one", "print('## First')"), ("three", "print('## Third')")):
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "other.py").write_text("print('## Half')\nraise ValueError('too few')")
    assert runner().main([], tmp_path) == 1
    page = (tmp_path / "README.md").read_text()
    for words in ("# Title", "## First", "## Half", "## Third", "`one.py` took", "other.py failed", "too few"):
        assert words in page
    (tmp_path / "other.py").write_text("print('## Second')")
    assert runner().main([], tmp_path) == 0
    assert "failed" not in (tmp_path / "README.md").read_text()
