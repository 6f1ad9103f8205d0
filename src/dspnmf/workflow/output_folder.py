"""A folder of results that appears complete or not at all."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from dspnmf._atomic_files import umask
from dspnmf._validation import ParameterError


class OutputFolder:
    """A context: files are written to a temporary folder, which gets the name when the block ends without an error.

    A folder that exists keeps its other files; files of the same names are replaced if that was asked for, and refused
    before any work otherwise.
    """

    def __init__(self, path: Path, names: tuple[str, ...], *, force: bool = False) -> None:
        self.path = path
        if path.is_symlink() and not path.exists():
            raise ValueError(f"{path} is a link that leads nowhere: name another folder.")
        for folder in (path, *path.absolute().parents):
            if folder.exists() and not folder.is_dir():
                raise ValueError(f"{folder} is a file: name a folder for the results.")
        there = [name for name in names if (path / name).exists()]
        if there and not force:
            message = f"{path} holds {', '.join(there)} already: name another folder, or replace them with force=True."
            raise ParameterError(message, "force")
        self._names = names
        self._work: Path | None = None

    def __enter__(self) -> Self:
        """Begin to write."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        near = self.path if self.path.is_dir() else self.path.parent  # a folder may be on another disk than its parent
        self._work = Path(tempfile.mkdtemp(dir=near, prefix=f".{self.path.name}."))
        return self

    def __truediv__(self, name: str) -> Path:
        """The path to write a file of the folder to."""
        assert self._work is not None
        return self._work / name

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Publish the files, or after an error delete them."""
        assert self._work is not None
        try:
            if kind is None:
                self._publish(self._work)
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def _publish(self, work: Path) -> None:
        if not self.path.exists():
            work.chmod(0o777 & ~umask())
            work.rename(self.path)
            return
        written = [name for name in self._names if (work / name).exists()]
        for name in written:
            (work / name).replace(self.path / name)
        for name in set(self._names) - set(written):  # left by an earlier run, it would be taken for a result of this
            (self.path / name).unlink(missing_ok=True)
