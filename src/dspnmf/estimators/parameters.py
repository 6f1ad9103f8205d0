"""Parameters of estimators: declared once, with their default and what they may be; and lines for `verbose`.

An estimator is a dataclass whose fields are its parameters; the ``__init__`` that scikit-learn asks for (it assigns,
and does nothing else) follows from them:

    @dataclass(eq=False, repr=False)
    class GNMF(ComponentFactorization):
        beta: float = parameter(100.0, number(0))
"""

from __future__ import annotations

import logging
from dataclasses import field
from typing import TypeVar

from dspnmf._validation import Allowed

Value = TypeVar("Value")
_log = logging.getLogger("dspnmf")


def parameter(default: Value, allowed: Allowed | None = None, *, positional: bool = False) -> Value:
    """A parameter of an estimator: its default, and what it may be (None: checked where it is used)."""
    return field(default=default, kw_only=not positional, metadata={"allowed": allowed})


def log_line(text: str) -> None:
    """Log a line about a running fit (logger "dspnmf"); where logging is not set up, it goes to standard error."""
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    if _log.hasHandlers():
        _log.info(text)
    else:  # no handler is added: with one that is set up later, each line would be printed twice
        logging.StreamHandler().handle(_log.makeRecord(_log.name, logging.INFO, "", 0, text, (), None))
