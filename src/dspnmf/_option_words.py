"""Options in messages, each in the words of whoever reads it: ``exclude="id"`` in Python, ``--exclude id`` in a shell.

A message holds an option between two characters that no file's text can bring into it (`dspnmf.io.errors.plain` escapes
them), and is turned into words when it is shown.
"""

from __future__ import annotations

import re
import shlex

_BEGIN, _END, _IS = "\ue000", "\ue001", "\ue002"
_FLAGS = {"True": "True", "False": "False"}  # values that a shell's options have not
_OPTION = re.compile(f"{_BEGIN}([a-z_]+)(?:{_IS}([^{_END}]*))?{_END}")


def option(name: str, value: str | None = None) -> str:
    """An option in a message, by its name in Python, alone or with a value."""
    return f"{_BEGIN}{name}{'' if value is None else _IS + value}{_END}"


def in_python(message: str) -> str:
    """A message for who calls a function."""
    return _OPTION.sub(
        lambda found: found[1] if found[2] is None else f"{found[1]}={_FLAGS.get(found[2], repr(found[2]))}", message
    )


def in_shell(message: str) -> str:
    """A message for who types a command."""

    def words(found: re.Match[str]) -> str:
        name = f"--{'no-' * (found[2] == 'False')}{found[1].replace('_', '-')}"
        if found[2] in _FLAGS:
            return name
        return name if found[2] is None else f"{name} {shlex.quote(found[2])}"

    return _OPTION.sub(words, message)


def has_options(message: str) -> bool:
    """Whether a message names an option."""
    return _OPTION.search(message) is not None
