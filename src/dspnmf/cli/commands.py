"""Commands that refuse an option given twice, and answer wrong usage in JSON where that was asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_PLAIN = {  # words of the parser, and plain ones for them
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number.",
    "Input should be a valid number, unable to parse string as a number": "it must be a number.",
    "Input should be greater than or equal to": "it must be at least",
}
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Command(TyperCommand):
    """A command whose options of one value may be given once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, after looking for options that would silently replace each other."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for parameter, times in Counter(order).items():
            if (
                times > 1
                and parameter.param_type_name == "option"
                and not (parameter.multiple or getattr(parameter, "is_flag", False))
            ):
                name = max(parameter.opts, key=len)
                raise UsageError(f"{name} is given {times} times, but takes one value: leave the others out.")
        return super().parse_args(ctx, args)


class Commands(TyperGroup):
    """A group whose errors of usage are JSON, too, where the command is to print JSON."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the words before the name of a command."""
        self._as_json = "--json" in args
        with self._in_json():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse the others, and run."""
        with self._in_json():
            return super().invoke(ctx)

    @contextmanager
    def _in_json(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            for words, plain in _PLAIN.items():
                error.message = error.message.replace(words, plain)  # type: ignore[attr-defined]
            if self._as_json:
                typer.echo(json.dumps({"error": error.format_message()}))  # type: ignore[attr-defined]
            raise
