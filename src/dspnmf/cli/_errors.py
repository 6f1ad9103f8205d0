"""What a user sees of an error: its message, in the words of the command line, and no traceback unless asked for."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
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
    r'missing="mask"': "--missing mask",
    r'(?i:scaling) "(\w+)"': r"--scale \1",
    r"scaling '(\w+)'": r"--scale \1",
    r"\bn_components\b": "--rank",
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


@contextmanager
def plainly(*, debug: bool = False, as_json: bool = False, words: Mapping[str, str] | None = None) -> Iterator[None]:
    """Every error ends the command with one message and status 1; with `debug`, where it arose.

    `words` of the library have another name in this command.
    """
    try:
        yield
    except (typer.Exit, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        raise _interrupted() from None
    except Exception as error:
        if isinstance(error, SystemError) and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise _interrupted() from None  # that is what a compiled loop makes of it
        if debug:
            raise
        known = isinstance(error, (*INPUT, TypeError, MemoryError))
        text = str(error)
        for word, here in (words or {}).items():
            text = text.replace(word, here)
        text = translated(text) or type(error).__name__
        if isinstance(error, MemoryError):
            text = f"there is not enough memory ({text}). Use fewer features or rows, or a .npy file above 1 GiB."
        if not known:
            text = f"unexpected {type(error).__name__}: {text}. Run it again with --debug to see where."
        if as_json:
            typer.echo(json.dumps({"error": text}))
        typer.echo(f"dspnmf: {text}", err=True)
        raise typer.Exit(1) from error


def _interrupted() -> typer.Exit:
    """The end of a command the user stopped."""
    typer.echo("dspnmf: interrupted; nothing was written.", err=True)
    return typer.Exit(130)
