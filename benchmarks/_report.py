"""How every benchmark prints: a Markdown table with both numbers and their ratio, then machine and versions."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import numba
import numpy
import scipy
import sklearn

import dspnmf


def median_time(function: Callable[[], object], repeats: int = 9) -> float:
    """Median wall-clock seconds of a call, after one call to warm up."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def full() -> bool:
    """Whether sizes that take minutes are wanted: `make bench FULL=1`."""
    return bool(os.environ.get("DSPNMF_BENCHMARKS_FULL"))


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n## {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


def versions() -> None:
    """Print what the numbers were measured with."""
    with_versions = [dspnmf, numpy, scipy, sklearn, numba]
    packages = ", ".join(f"{package.__name__} {package.__version__}" for package in with_versions)
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}")
