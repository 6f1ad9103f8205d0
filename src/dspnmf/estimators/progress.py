"""Lines about a running fit, for `verbose`: through the logger "dspnmf"."""

from __future__ import annotations

import logging

_log = logging.getLogger("dspnmf")


def log_line(text: str) -> None:
    """Log a line; where logging is not set up, it goes to standard error."""
    if not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    _log.info(text)
