"""Errors about files: which file, what is wrong with it, where, and what to do; one line each."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from dspnmf._option_words import in_python


class ReadError(ValueError):
    """A file that cannot be read as a table of numbers, or an option that does not fit it.

    The message has at most three lines: the file, what is wrong and where, and what to do. `template` is the same with
    options that the command line shows in its own words.

    Examples
    --------
    >>> from dspnmf.io import ReadError, read
    >>> try:
    ...     read("nowhere.csv")
    ... except ReadError as error:
    ...     print(error)
    nowhere.csv: there is no such file. Check the name and the folder.
    """

    def __init__(self, template: str) -> None:
        super().__init__(in_python(template))
        self.template = template


def refused(path: Path, what: str) -> ReadError:
    """The error for one file."""
    return ReadError(f"{plain(path, 4096)}: {what}")


def plain(text: object, most: int = 200) -> str:
    """Text on one line that does nothing to a terminal, cut where it is long."""
    text = str(text)
    cut = text if len(text) <= most else text[:most] + "..."
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in cut)


def quoted(text: object) -> str:
    """A name or a cell, in quotes."""
    return f"'{plain(text, 60)}'"


def some(names: Sequence[str], most: int = 8) -> str:
    """The first few names in quotes, and how many there are."""
    more = f", ... ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(quoted, names[:most])) + more


@contextmanager
def parsing(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged bytes into a ReadError."""
    try:
        yield
    except (ReadError, ImportError):
        raise
    except MemoryError as error:
        raise refused(path, "reading it takes more memory than there is. Use a smaller file.") from error
    except Exception as error:
        reason = plain(next(iter(str(error).strip().splitlines()), "")).rstrip(".") or type(error).__name__
        fix = "Check that it is complete, or make it again."
        raise refused(path, f"it is not a readable {what} ({reason}). {fix}") from error


def library(name: str, extra: str, path: Path) -> ModuleType:
    """Import an optional library, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        top = {"PIL": "pillow"}.get(name.split(".")[0], name.split(".")[0])
        raise ImportError(
            f'{plain(path)} needs {top} to be read or written, which is not installed: pip install "dspnmf[{extra}]".'
        ) from error
