"""Damaged files through the command line: a clear message each, never a traceback, never half a result."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dspnmf.cli.app import app
from fuzz_files import damaged_files, placed

WORDS = ("--rank", "1", "--set", "max_iter=2", "--set", "tol=0")


def check(count: int, seed: int, folder: Path) -> None:
    """Fit every file: it works, or ends with status 1 and one message, and leaves nothing."""
    fitted = 0
    for name, content in damaged_files(count, seed):
        path, out = placed(folder, name, content), folder / "out" / name
        result = CliRunner().invoke(app, ["fit", str(path), "--out", str(out), *WORDS])
        assert result.exit_code in (0, 1), f"{name}: {result.output} {result.exception!r}"
        if result.exit_code == 0:
            fitted += 1
            assert {file.name for file in out.iterdir()} >= {"codes.csv", "model.skops", "report.html"}
            continue
        lines = result.stderr.strip().splitlines()
        assert lines[0].startswith("dspnmf: "), name
        assert not lines[0].startswith("dspnmf: unexpected"), f"{name}: {lines[0]}"
        assert len(lines) <= 3, name
        assert "Traceback" not in result.output
        assert not out.exists(), name
        assert not list(out.parent.glob(f".{name}*")) if out.parent.exists() else True
    assert fitted > 0


def test_damaged_files(tmp_path: Path) -> None:
    """Some of them, at every run of the tests."""
    check(30, 1, tmp_path)


@pytest.mark.slow
def test_many_damaged_files(tmp_path: Path) -> None:
    """Two thousand of them."""
    check(2000, 0, tmp_path)
