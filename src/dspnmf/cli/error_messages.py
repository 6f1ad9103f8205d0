"""Errors of the library on the command line: their message, the option of the parameter they name, no traceback.

A message is shown as the library wrote it. Where the error names a parameter (`ParameterError`) that is an option of
the command, a second line says which.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from dspnmf._validation import ParameterError
from dspnmf.paper.store import StoreError

FILE_ERRORS = (StoreError, OSError, sqlite3.Error)
INPUT_ERRORS = (*FILE_ERRORS, ValueError, ImportError)


def options_line(options: Mapping[str, str]) -> str:
    """Which options the parameters of the library are.

    >>> options_line({"n_components": "--rank"})
    'On the command line, n_components is --rank.'
    """
    return f"On the command line, {' and '.join(f'{name} is {option}' for name, option in options.items())}."


def _with_option(text: str, error: Exception, options: Mapping[str, str], other_option: str = "") -> str:
    """The message, and a line with the option of the parameter that the error names, if there is one."""
    name = error.parameter if isinstance(error, ParameterError) else ""
    option = options.get(name, other_option.format(name)) if name else ""
    return f"{text}\n{options_line({name: option})}" if option else text


@contextmanager
def errors_as_messages(
    kinds: tuple[type[Exception], ...] = INPUT_ERRORS, *, options: Mapping[str, str] | None = None, advice: str = ""
) -> Iterator[None]:
    """End the command at errors of these kinds, with their message, its option, the advice, and status 1."""
    try:
        yield
    except kinds as error:
        text = _with_option(str(error), error, options or {})
        typer.echo(f"dspnmf: {text.rstrip('.')}. {advice}" if advice else f"dspnmf: {text}", err=True)
        raise typer.Exit(1) from error


@contextmanager
def all_errors_as_messages(
    *, debug: bool = False, as_json: bool = False, options: Mapping[str, str], other_option: str = ""
) -> Iterator[None]:
    """End the command at any error, with one message and status 1; with `debug`, raise it.

    `options` are those of the library's parameters that the command has as options, `other_option` (with ``{}`` for the
    name) sets any other parameter.
    """
    try:
        yield
    except (typer.Exit, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        raise _interrupted() from None
    except Exception as error:
        if isinstance(error, SystemError) and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise _interrupted() from None  # compiled loops turn one into the other
        if debug:
            raise
        text = str(error) or type(error).__name__
        if isinstance(error, MemoryError):
            text = f"there is not enough memory ({text}). Use fewer features or rows, or a .npy file above 1 GiB."
        elif not isinstance(error, (*INPUT_ERRORS, TypeError)):
            text = f"unexpected {type(error).__name__}: {text}. Run it again with --debug to see where."
        text = _with_option(text, error, options, other_option)
        if as_json:
            typer.echo(json.dumps({"error": text}))
        typer.echo(f"dspnmf: {text}", err=True)
        raise typer.Exit(1) from error


def _interrupted() -> typer.Exit:
    """The end of a command that the user stopped."""
    typer.echo("dspnmf: interrupted; nothing was written.", err=True)
    return typer.Exit(130)
