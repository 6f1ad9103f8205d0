import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

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


def test_what_runs_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """The page has what was printed until then; processes that a benchmark started do not go on beside the next one."""
    code = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("## Begun,", other.pid)
other.wait()
"""
    (tmp_path / "slow.py").write_text(code)
    begin = time.perf_counter()
    text, failure = runner().section(tmp_path / "slow.py", limit=2.0)
    assert time.perf_counter() - begin < 30
    assert "## Begun" in text
    assert "not done after" in (failure or "")
    status = Path(f"/proc/{text.split('Begun, ')[1].split()[0]}/stat")

    def ended() -> bool:  # "Z": nobody has asked for it yet
        try:
            return status.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    while not ended():  # the kernel takes a moment to end what was killed
        assert time.perf_counter() - begin < 30
        time.sleep(0.01)


def test_sizes_are_full_only_when_asked_for(tmp_path: Path) -> None:
    """Benchmarks are told, and the page says so; it can be written elsewhere, of some benchmarks only."""
    (tmp_path / "_header.md").write_text("# Title\n")
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import _report; print(_report.full())"
    (tmp_path / "one.py").write_text(code)
    for option, words in (([], ("False", "at default sizes")), (["--full"], ("True", "at full sizes"))):
        page = tmp_path / "page.md"
        assert runner().main([*option, "--page", str(page), "one.py"], tmp_path) == 0
        assert all(word in page.read_text() for word in words)
    assert not (tmp_path / "README.md").exists()


def test_without_a_device_the_kept_figures_stay_on_the_page() -> None:
    """`gpu.py` says that it was skipped, and shows those of `gpu.md`, which stays as it is."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a CUDA device")
    before = (FOLDER / "gpu.md").read_text(encoding="utf-8")
    text, failure = runner().section(FOLDER / "gpu.py")
    assert failure is None
    assert "Skipped in this run" in text
    assert before.strip() in text
    assert (FOLDER / "gpu.md").read_text(encoding="utf-8") == before
