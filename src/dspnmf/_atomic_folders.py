"""A folder of results that is replaced as a whole: whoever looks sees the old results or the new ones.

New files are written to a hidden folder next to the old one, and the two are exchanged by one system call (Linux and
macOS). A folder that cannot be exchanged (another system, a mounted disk, the current folder, one with folders in it or
of another user) gets its files one by one, each of them whole. A hidden folder is locked by the process that writes to
it, and one that is not, left by a killed process, is removed by the next.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from dspnmf._atomic_files import part_of, sync_folder, umask

if sys.platform != "win32":
    import fcntl

_AT_FDCWD, _EXCHANGE = -100, 2  # of Linux; macOS has the same flag


@contextmanager
def output_folder(path: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """A temporary folder to write to, which takes the place of `path` when the block ends without an error.

    A folder that exists keeps its other files; of the files of these names only those written now are there at the end.
    """
    path = path.resolve()  # of a link, the folder it leads to
    prefix = f".{path.name}.dspnmf-"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (path.parent, path):
            _remove_abandoned(folder, prefix)
        work, lock = _new_folder(path if path.is_dir() else path.parent, prefix)
    except OSError as error:
        why = error.strerror or str(error)
        raise OSError(f"{path} cannot be written ({why}): name another folder, or make it writable.") from error
    try:
        if work.parent == path:
            work = _moved(work, path.parent)
        yield work
        _publish(work, path, names)
    finally:
        shutil.rmtree(work, ignore_errors=True)  # after an exchange, the old folder
        if lock is not None:
            os.close(lock)


def _new_folder(near: Path, prefix: str) -> tuple[Path, int | None]:
    """A folder of this process alone, and its lock."""
    while True:
        work = Path(tempfile.mkdtemp(dir=near, prefix=prefix))
        lock = _lock(work, wait=True)
        if work.exists():  # another process may have taken it for abandoned before it was locked
            return work, lock


def _moved(work: Path, parent: Path) -> Path:
    """The folder in its new parent, or where it was if that is on another disk or cannot be written."""
    try:
        return work.rename(parent / work.name)
    except OSError:
        return work


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove hidden folders that no process holds."""
    for work in folder.glob(f"{glob.escape(prefix)}*"):
        lock = _lock(work, wait=False)
        if lock is not None:
            shutil.rmtree(work, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until this process ends or closes the descriptor; None where it is locked, or cannot be."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _publish(work: Path, path: Path, names: tuple[str, ...]) -> None:
    """Put what was written where it belongs."""
    if not path.exists():
        work.chmod(0o777 & ~umask())
        work.rename(path)
    elif not _exchanged(work, path, {*names, *(part_of(Path(name)).name for name in names)}):
        for name in names:
            if (work / name).exists():
                (work / name).replace(path / name)
            else:  # left by an earlier run, it would be taken for a result of this one
                (path / name).unlink(missing_ok=True)
    sync_folder(path.parent)


def _exchanged(work: Path, path: Path, names: Container[str]) -> bool:
    """Exchange the folders, files of other names being in both; False where that cannot be, and nothing changed."""
    if sys.platform == "win32" or work.parent == path:
        return False
    try:
        if Path.cwd().is_relative_to(path) or path.stat().st_uid != os.geteuid():
            return False
        for other in _others(path, names):
            os.link(other, work / other.name, follow_symlinks=False)
        shutil.copystat(path, work)
        os.utime(work)
        _exchange(work, path)
    except (OSError, AttributeError):  # a folder in it; a file system or a system without links or exchange
        return False
    for other in _others(work, names):  # written or replaced since they were linked; the same link stays
        other.replace(path / other.name)
    return True


def _others(folder: Path, names: Container[str]) -> list[Path]:
    """What is in a folder under other names."""
    return [other for other in folder.iterdir() if other.name not in names]


def _exchange(a: Path, b: Path) -> None:
    """Give each of two paths the folder of the other, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(a), os.fsencode(b)
    if hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(*names, _EXCHANGE)
    else:
        failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE)
    if failed:
        raise OSError(ctypes.get_errno(), "the folders cannot be exchanged")
