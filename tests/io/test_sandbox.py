"""The child process may crash, hang or lie: the program goes on with one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspnmf.io import ReadError, _sandbox_child, read, sandbox
from io_helpers import X, write_hdf5


@pytest.mark.parametrize(("script", "seconds"), [("import os; os.abort()", 60.0), ("while True: pass", 0.5)])
@pytest.mark.parametrize("name", ["x.h5", "x.mat", "x.mtx"])
def test_child_may_crash_or_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, seconds: float, name: str
) -> None:
    """When a library crashes or hangs on a file, the program goes on with an error that names the file."""
    (tmp_path / "child.py").write_text(script)
    monkeypatch.setattr(_sandbox_child, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr(sandbox, "_WAIT", seconds)
    with pytest.raises(ReadError, match="fails on it: it is damaged, or takes too much time or memory"):
        read(write_hdf5(tmp_path / name, X=X))


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        '{"arrays": 3}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8"}}, "parts": [["data", "<f8", [9, 9]]]}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8"}}, "parts": [["data", "|O", [2, 2]]]}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8"}}, "parts": [["data", "<f8", [99999999, 9]]]}',
        '{"arrays": {"X": {"shape": [2, 2], "dtype": "<f8", "sparse": "csr"}}}',
    ],
)
def test_answers_of_the_child_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Whatever the child process sends, it is an array of numbers as announced, or one clear error."""
    script = f"import sys\nfor line in sys.stdin: print({answer!r} + chr(10) + 'x' * 64, flush=True)"
    (tmp_path / "child.py").write_text(script)
    monkeypatch.setattr(_sandbox_child, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr(sandbox, "_WAIT", 0.5)
    with pytest.raises(ReadError, match=r"x\.h5"):
        read(write_hdf5(tmp_path / "x.h5", X=X))


def test_child_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request may compute a few seconds and take some memory, and more of both for more bytes."""
    resource = pytest.importorskip("resource")
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append((what, limits[0])))
    _sandbox_child.allow(0)
    small = dict(asked)
    _sandbox_child.allow(10**9)
    large = dict(asked)
    assert large[resource.RLIMIT_CPU] - small[resource.RLIMIT_CPU] in (49, 50, 51)
    assert large[resource.RLIMIT_AS] - small[resource.RLIMIT_AS] == 4 * 10**9
    assert large[resource.RLIMIT_CORE] == 0


@pytest.mark.parametrize("waste", ["list(range(10**12))", "all(zero == 0 for zero in iter(int, 1))"])
def test_child_ends_at_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waste: str) -> None:
    """A child that takes too much memory, or computes too long, becomes an error within seconds."""
    pytest.importorskip("resource")
    script = Path(_sandbox_child.__file__).read_text()
    assert "file = opener(library, path)" in script
    (tmp_path / "child.py").write_text(script.replace("file = opener(library, path)", waste))
    monkeypatch.setattr(_sandbox_child, "__file__", str(tmp_path / "child.py"))
    with pytest.raises(ReadError, match=r"MemoryError|fails on it"):
        read(write_hdf5(tmp_path / "x.h5", X=X))
