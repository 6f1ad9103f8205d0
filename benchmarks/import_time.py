"""How long do the import and the first fit take?

The very first fit compiles the kernels into a cache; the first fit of every later process loads them. Times are the
shortest of several processes, but for the one that compiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import _report

IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
FIT = """
import time, numpy as np
from dspnmf import DSPNMF
import numba
X = np.random.default_rng(0).random((500, 20))
times = []
for _ in range(2):
    t = time.perf_counter()
    DSPNMF(4, max_iter=5, tol=0).fit(X)
    times.append(time.perf_counter() - t)
print(times[0] - times[1])
"""


def run(code: str, cache: str | None = None) -> float:
    """What a fresh interpreter prints."""
    env = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    return float(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    )


def main() -> None:
    """Print the tables."""
    theirs = min(run(IMPORT.format("sklearn.decomposition")) for _ in range(7))
    mine = min(run(IMPORT.format("dspnmf")) for _ in range(7))
    rows = [(f"{theirs:.3f} s", f"{mine:.3f} s", mine / theirs)]
    _report.table("Import", ("sklearn.decomposition", "dspnmf", "ratio"), rows)
    with tempfile.TemporaryDirectory() as cache:
        rows2 = [(f"{run(FIT, cache):.2f} s", f"{min(run(FIT, cache) for _ in range(7)):.3f} s")]
    _report.table("Compiling in the first fit", ("the very first time", "in later processes (cached)"), rows2)
    _report.versions()


if __name__ == "__main__":
    main()
