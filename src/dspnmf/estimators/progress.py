"""What a fit says while it runs, for `verbose`: through the logger "dspnmf"."""

from __future__ import annotations

import logging

_log = logging.getLogger("dspnmf")


def say(text: str) -> None:
    """Log a line; where nobody has set up logging, it goes to standard error."""
    if not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    _log.info(text)
