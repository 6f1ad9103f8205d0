"""Errors of the library on the command line: their message, the option of the parameter they name, no traceback.

A message is shown as the library wrote it, with options in the words of the command line. Where the error names a
parameter (`ParameterError`) but no option, a second line says which option it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import typer

from dspnmf._option_words import has_options, in_shell
from dspnmf._validation import ParameterError
from dspnmf.paper.store import StoreError

FILE_ERRORS = (StoreError, OSError, sqlite3.Error)
INPUT_ERRORS = (*FILE_ERRORS, ValueError, ImportError)


def options_line(options: Mapping[str, str]) -> str:
    """Which options the parameters of the library are."""
    return f"On the command line, {' and '.join(f'{name} is {option}' for name, option in options.items())}."


def say(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines, with options in the words of the command line."""
    for line in lines:
        typer.echo(in_shell(line), err=err)


@contextmanager
def errors_as_messages(
    kinds: tuple[type[Exception], ...] = (Exception,),
    *,
    options: Mapping[str, str] | None = None,
    other_option: str = "",
    advice: str = "",
    debug: bool = False,
    as_json: bool = False,
    interrupted: str | Callable[[], str] = "dspnmf: interrupted; nothing was written.",
) -> Iterator[None]:
    """End the command at errors of these kinds, with one message and status 1; if interrupted, with status 130.

    `options` are those of the library's parameters that the command has as options, `other_option` (with ``{}`` for the
    name) sets any other parameter. With `debug` errors are raised.
    """
    try:
        yield
    except (typer.Exit, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        typer.echo(interrupted() if callable(interrupted) else interrupted, err=True)
        raise typer.Exit(130) from None
    except kinds as error:
        if debug:
            raise
        template = getattr(error, "template", str(error)) or type(error).__name__
        text = in_shell(template)
        if isinstance(error, MemoryError):
            text = f"there is not enough memory ({text}). Use fewer features or rows, or a .npy file above 1 GiB."
        elif not isinstance(error, (*INPUT_ERRORS, TypeError)):
            text = f"unexpected {type(error).__name__}: {text}. Run it again with --debug to see where."
        name = error.parameter if isinstance(error, ParameterError) else ""
        option = (options or {}).get(name, other_option.format(name)) if name else ""
        if option and not has_options(template):
            text += f"\n{options_line({name: option})}"
        if as_json:
            typer.echo(json.dumps({"error": text}))
        typer.echo(f"dspnmf: {text.rstrip('.')}. {advice}" if advice else f"dspnmf: {text}", err=True)
        raise typer.Exit(1) from error
