"""Compilation of the kernels: interrupts stay interrupts, and a cache that cannot be used stops nobody.

numba alone turns a SIGINT that arrives during a compiled call into a `SystemError`, and passes on whatever goes wrong
with its cache of compiled code. Every compiled function of this package is made by `compiled`: both are settled here.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from dspnmf._interrupts import interrupts_kept, interrupts_postponed, is_interrupt
from dspnmf._threads import compile_after_caller

with interrupts_postponed():  # numba registers its parts once: half of them would be missing for good
    from numba.core import config
    from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import CPUDispatcher, cpu_target
    from numba.core.runtime.nrt import rtsys

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "nogil": True,
    "boundscheck": None,
    "fastmath": {"contract", "nsz"},
    "no_cfunc_wrapper": True,  # nobody calls the functions from C
}
_DIGEST = sha256().digest_size
_NO_CACHE = (
    "Compiled code cannot be kept (%s), so every process compiles it again, which takes up to a minute. Set "
    "NUMBA_CACHE_DIR to a folder that can be written to."
)
_log = logging.getLogger("dspnmf")
_hints: set[str] = set()


def compiled(function: Function) -> Function:
    """Compile without the GIL. Products and sums may be fused, not reordered: so every process computes the same."""
    if getattr(config, "DISABLE_JIT", 0):  # NUMBA_DISABLE_JIT, for debugging
        return function
    return _made(function, _OPTIONS)


def compiled_reordering(function: Function) -> Function:
    """The same where sums may also be reordered, so that they vectorise: results depend on the processor's width.

    Divisions by zero are as IEEE 754 has them: a check of every divisor would keep loops from being vectorised.
    """
    if getattr(config, "DISABLE_JIT", 0):
        return function
    return _made(function, {**_OPTIONS, "fastmath": {"contract", "nsz", "reassoc", "arcp"}, "error_model": "numpy"})


def _made(function: Function, options: dict[str, Any]) -> Function:
    made = CompiledFunction(function, targetoptions=dict(options))
    made.enable_caching()
    return cast(Function, made)


class CompiledFunction(CPUDispatcher):
    """A function compiled by numba, which other such functions may call too."""

    def __call__(self, *args: Any) -> Any:
        """What the compiled code returns."""
        try:
            return _call(self, *args)
        except SystemError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise

    def _compile_for_args(self, *args: object, **kws: object) -> object:
        """Compile for arguments of new types, in the thread that can be interrupted."""
        compile_after_caller()
        if isinstance(self._cache, NullCache):
            _read_registries()
        with interrupts_kept(), _without_collections():
            return super()._compile_for_args(*args, **kws)  # type: ignore[misc]  # numba has types in part

    def enable_caching(self) -> None:
        """Use numba's cache, where there is a folder for it."""
        try:
            self._cache: FunctionCache | NullCache = SafeCache(self.py_func)
        except (RuntimeError, OSError) as error:
            _hint(error)


_call = CPUDispatcher.__call__


def _read_registries() -> None:
    """Read into the compiler what it must know of Python and NumPy: code that is only loaded does without."""
    with interrupts_postponed(), global_compiler_lock:
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


@contextmanager
def _without_collections() -> Iterator[None]:
    """Python's collector of cycles rests: the compiler keeps millions of objects, and it would look at them all."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class CheckedFiles(IndexDataCacheFile):
    """The files of a cache; a checksum follows machine code, because damaged code would crash the process."""

    def _dump(self, obj: object) -> bytes:
        data: bytes = super()._dump(obj)
        return data + sha256(data).digest()  # which readers ignore: a pickle says where it ends

    def _load_data(self, name: str) -> object:
        content = Path(self._data_path(name)).read_bytes()
        if sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
            raise ValueError(f"{name} is damaged")
        return super()._load_data(name)


class SafeCache(FunctionCache):
    """numba's cache, for which every file that is damaged, gone or cannot be written is one that is not there."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: object, target_context: object) -> object:
        """The compiled code, or None where there is none that can be used: then the compiler is prepared."""
        found = None
        with interrupts_postponed():
            rtsys.initialize(target_context)  # what all compiled code calls
        try:
            with self._guard_against_spurious_io_errors():
                found = self._load_overload(sig, target_context)
        except Exception as error:  # unpickling garbage raises anything
            if is_interrupt(error):
                raise
            with suppress(OSError):
                self.flush()
        if found is None:
            _read_registries()
        return found

    def save_overload(self, sig: object, data: object) -> None:
        """Keep compiled code, if that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk
            self.disable()
            _hint(error)
        except Exception as error:  # an index damaged since it was read, code whose compilation was interrupted
            if is_interrupt(error):
                raise
            with suppress(OSError):
                self.flush()


def _hint(error: Exception) -> None:
    """Say once in a process that code is not kept."""
    if not _hints:
        _hints.add(str(error))
        _log.warning(_NO_CACHE, error)
