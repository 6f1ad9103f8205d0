"""Interrupts (Ctrl-C, SIGINT) that arrive as KeyboardInterrupt, wherever the main thread is.

Python runs the handler of a signal between two of its instructions. Two kinds of code lose what it raises: code
compiled by numba, which raises a `SystemError` with the interrupt as its cause, and callbacks that cannot raise (of
LLVM while it compiles, of the garbage collector), after which it is printed and forgotten.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_AGAIN = 0.02  # seconds until an interrupt that was lost is sent again


def _interrupt_main_thread() -> None:
    """Send SIGINT to the main thread, so that it also ends a wait."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:  # Windows
        _thread.interrupt_main()


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt that came through compiled code."""
    while isinstance(error, SystemError):
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


@contextmanager
def interrupts_postponed() -> Iterator[None]:
    """Let an interrupt wait for the end of a short piece of code that would not work again if it were left half-way."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            signal.raise_signal(signal.SIGINT)


class Deferred:
    """Whether an interrupt came that waits for a good moment."""

    def __init__(self) -> None:
        self.waiting = False
        self._latest: threading.Timer | None = None

    def wait(self, seconds: float) -> None:
        """Have it wait, but no longer than this."""
        self.waiting = True
        self._latest = threading.Timer(seconds, _interrupt_main_thread)
        self._latest.start()

    def hold(self) -> None:
        """The moment has come: take as long as it needs."""
        if self._latest is not None:
            self._latest.cancel()
            self._latest.join()

    def arrive(self) -> None:
        """Let it arrive now, if there is one."""
        self.hold()
        if self.waiting:
            self.waiting = False
            signal.raise_signal(signal.SIGINT)


@contextmanager
def interrupt_deferred(seconds: float) -> Iterator[Deferred]:
    """Let a first interrupt wait until it may `arrive`, but at most so many seconds; a second one arrives at once."""
    deferred, before = Deferred(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield deferred
        return

    def first(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        deferred.wait(seconds)

    signal.signal(signal.SIGINT, first)
    try:
        yield deferred
    except BaseException:
        deferred.hold()
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    deferred.arrive()


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise KeyboardInterrupt for an interrupt that is lost here otherwise."""
    if threading.current_thread() is not threading.main_thread():  # signals are handled in the main thread only
        yield
        return
    before = sys.unraisablehook

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN, _interrupt_main_thread).start()
        else:
            before(lost)

    sys.unraisablehook = send_again
    try:
        yield
    except SystemError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        raise
    finally:
        sys.unraisablehook = before
