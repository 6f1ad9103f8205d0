"""What a user sees of an error: its message, in the words of the command line, and no traceback."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dspnmf.paper.store import StoreError

FILES = (StoreError, OSError, sqlite3.Error)
INPUT = (*FILES, ValueError, ImportError)
_WORDS = {  # the library's, as patterns -> the command line's
    r"Pass data_dir=,": "Pass --data-dir DIR,",
    r"say so with unverified=True": "say so with --unverified",
    r"dspnmf\.datasets\.fetch\('(\w+)'\)": r"dspnmf data fetch \1",
    r"dspnmf\.datasets\.fetch\('(\w+)', unverified=True\)": r"dspnmf data fetch \1 --unverified",
}


def translated(text: str) -> str:
    """A message of the library in the words of the command line.

    >>> translated("Pass data_dir=, or run dspnmf.datasets.fetch('COIL20').")
    'Pass --data-dir DIR, or run dspnmf data fetch COIL20.'
    """
    for pattern, word in _WORDS.items():
        text = re.sub(pattern, word, text)
    return text


@contextmanager
def told(kinds: tuple[type[Exception], ...] = INPUT, then: str = "") -> Iterator[None]:
    """Errors of these kinds end the command with their message, then what to do, and status 1."""
    try:
        yield
    except kinds as error:
        text = translated(str(error))
        typer.echo(f"dspnmf: {text.rstrip('.')}. {then}" if then else f"dspnmf: {text}", err=True)
        raise typer.Exit(1) from error
