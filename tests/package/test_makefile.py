"""What the commands of the Makefile install: the demo no test tools, the tests all, in any order."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if shutil.which("make") is None:
    pytest.skip("make is not installed", allow_module_level=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout in which nothing is installed."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def installs(project: Path, target: str) -> list[str]:
    """The extras that a target would install."""
    call = ["make", "--dry-run", "--directory", str(project), target]
    lines = subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.partition(".[")[2].partition("]")[0] for line in lines if "--editable" in line]


def test_the_demo_needs_no_test_tools(project: Path) -> None:
    """`make demo` installs the command line and its page, and nothing the second time."""
    assert installs(project, "demo") == ["demo"]
    (project / ".venv").mkdir()
    (project / ".venv" / ".demo").touch()
    assert installs(project, "demo") == []


def test_the_tests_install_the_rest(project: Path) -> None:
    """`make test` installs the test tools, also after a demo."""
    (project / ".venv").mkdir()
    (project / ".venv" / ".demo").touch()
    assert installs(project, "test") == ["test,plot,report,cli"]
