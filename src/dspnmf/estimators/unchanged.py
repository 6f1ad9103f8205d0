"""A fit that fails changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.base import BaseEstimator

from dspnmf._interrupts import interrupts_kept


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the estimator as it was."""
    held = vars(estimator)
    before = dict(held)
    try:
        with interrupts_kept():
            yield
    except BaseException:
        callbacks = {name: value for name, value in held.items() if name.startswith(("_skl_", "_callback_"))}
        held.clear()
        held.update(before | callbacks)
        raise
