"""Compiled code: a cache that is damaged, full or has no folder costs time, and never a fit."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.caching import CacheImpl, IndexDataCacheFile

import dspnmf._compiled as module
from dspnmf._compiled import CompiledFunction, compiled
from dspnmf.backends import kernels

SOURCE = """
from dspnmf._compiled import compiled

@compiled
def inner(x):
    return x + 1

@compiled
def outer(x):
    return 2 * inner(x)
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A function as a new process would have it: defined anew, its cache in a folder of the test."""
    path = tmp_path / "functions.py"
    path.write_text(SOURCE)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_hints", set())

    def define() -> Any:
        names: dict[str, Any] = {}
        exec(compile(SOURCE, path, "exec"), names)
        return names["outer"]

    return define


def files(folder: Path, ending: str) -> list[Path]:
    """The files of a cache."""
    return sorted((folder / "cache").rglob(f"*outer*.{ending}"))


def loaded(function: Any) -> bool:
    """Whether the code of a function that was called came from the cache."""
    return sum(function.stats.cache_hits.values()) == 1


def test_the_cache_is_used(make: Callable[[], Any]) -> None:
    """Code compiled by one process is loaded by the next; compiled functions call each other."""
    first, second = make(), make()
    assert (first(3), second(3)) == (8, 8)
    assert (loaded(first), loaded(second)) == (False, True)


def test_loading_takes_no_compiler(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compiler must know of Python and NumPy is read when code is compiled, not when it is loaded."""
    assert make()(3) == 8
    reads: list[int] = []
    monkeypatch.setattr(module, "_read_registries", lambda: reads.append(1))
    again = make()
    assert again(3) == 8
    assert not reads
    assert again(3.0) == 8.0
    assert reads


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "garbage": lambda content: np.random.default_rng(0).bytes(len(content)),
    "garbage at the end": lambda content: (
        content[: len(content) // 2] + np.random.default_rng(0).bytes(len(content) - len(content) // 2)
    ),
    "some bytes": lambda content: content[:-100] + bytes(64) + content[-36:],
    "one bit": lambda content: content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_again(make: Callable[[], Any], ending: str, damage: str, tmp_path: Path) -> None:
    """Whatever is wrong with the index or the code: the function works, and the next process finds a whole cache."""
    assert make()(3) == 8
    (path,) = files(tmp_path, ending)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert make()(3) == 8
    again = make()
    assert again(3) == 8
    assert loaded(again)


def test_a_cache_of_plain_numba_is_made_again(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Code without a checksum, as numba alone writes it, is not run."""
    with monkeypatch.context() as patch:
        patch.setattr(module.CheckedFiles, "_dump", IndexDataCacheFile._dump)
        assert make()(3) == 8
    again = make()
    assert again(3) == 8
    assert not loaded(again)


def full(*_: object) -> None:
    """Stands in for writing to a full disk."""
    raise OSError(ENOSPC, os.strerror(ENOSPC))


@pytest.mark.parametrize("what", ["_save_index", "_save_data"])
def test_a_full_disk_is_said_once(
    what: str, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No space for the index or for the code: compiled without a cache, with one line for all functions."""
    monkeypatch.setattr(IndexDataCacheFile, what, full)
    with caplog.at_level(logging.WARNING, logger="dspnmf"):
        assert (make()(3), make()(3.0)) == (8, 8.0)
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_a_folder_that_vanishes(make: Callable[[], Any], tmp_path: Path) -> None:
    """A cache that is removed while the process runs is begun anew; where it cannot be, there is none."""
    one, other = make(), make()
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    assert one(3) == 8
    assert files(tmp_path, "nbc")
    (tmp_path / "cache").rename(tmp_path / "again")
    (tmp_path / "cache").write_text("a file in its place")
    assert other(3) == 8


def test_no_folder_at_all(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where numba finds no folder to write to, functions are compiled in every process, which is said once."""
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with caplog.at_level(logging.WARNING, logger="dspnmf"):
        function = make()
    assert function(3) == 8
    assert len(caplog.records) == 1
    assert "no locator available" in caplog.text
    assert "NUMBA_CACHE_DIR" in caplog.text


FIT = """
import numba.core.caching as caching
caching.InTreeCacheLocator.from_function = lambda *_: None  # the folder of the package cannot be written to
import numpy as np
from dspnmf import NMF
print(NMF(2, max_iter=2, tol=0, random_state=0).fit(np.ones((4, 3))).n_iter_)
"""


@pytest.mark.slow
def test_a_fit_without_any_folder(tmp_path: Path) -> None:
    """A process whose package folder, home and NUMBA_CACHE_DIR cannot be written to fits, with one line about it."""
    (file := tmp_path / "file").write_text("no folder")
    environment = {**os.environ, "HOME": str(file), "XDG_CACHE_HOME": str(file), "NUMBA_CACHE_DIR": str(file)}
    done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2"
    assert done.stderr.count("NUMBA_CACHE_DIR") == done.stderr.count("\n") == 1


def test_every_kernel_is_made_here() -> None:
    """No function is compiled but by `compiled`, so what holds for one holds for all."""
    for name in set(kernels.__all__) - {"LANES"}:
        assert type(getattr(kernels, name)) is CompiledFunction
    source = Path(module.__file__).parent
    users = [
        path.name for path in source.rglob("*.py") if "njit" in path.read_text() or "numba.jit" in path.read_text()
    ]
    assert users == []


def test_an_interrupt_inside_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SystemError that numba makes of an interrupt is that interrupt; any other stays what it is."""

    def fails(cause: type[BaseException]) -> Callable[..., None]:
        def call(*_: object) -> None:
            inner = SystemError("returned a result with an exception set")
            inner.__cause__ = cause()
            raise SystemError("returned a result with an exception set") from inner

        return call

    function = compiled(full)
    for cause, seen in ((KeyboardInterrupt, KeyboardInterrupt), (ValueError, SystemError)):
        monkeypatch.setattr(module, "_call", fails(cause))
        with pytest.raises(seen):
            function()
