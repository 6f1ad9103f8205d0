"""What a user sees of an error: its message, no traceback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from dspnmf.paper.store import StoreError


@contextmanager
def told(words: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors of input, files and network end the command with their message and status 1.

    `words` are the library's names of things -> the command line's.
    """
    try:
        yield
    except (StoreError, OSError, ValueError, ImportError) as error:
        text = str(error)
        for name, option in (words or {}).items():
            text = text.replace(name, option)
        typer.echo(f"dspnmf: {text}", err=True)
        raise typer.Exit(1) from error
