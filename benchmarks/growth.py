"""How do time and memory grow with the number of samples?

float32, m = 200, k = 20. Time is per iteration; memory is the peak above X of a whole fit in a fresh process.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np

import _report
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.newton_cg import NewtonCG
from iteration_time import iteration

M, K = 200, 20


def peak_memory(solver: str, n: int) -> float:
    """Bytes a fit of n rows needs above X, in a process of its own."""
    code = f"import growth; growth.fit({solver!r}, {n})"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def fit(solver: str, n: int) -> None:
    """Fit once small (so that kernels are loaded), then n rows; print the growth of the peak above X."""
    from dspnmf import DSPNMF

    rng = np.random.default_rng(0)
    DSPNMF(K, solver=solver, max_iter=2, tol=0).fit(rng.random((1000, M), dtype=np.float32))
    X = rng.random((n, M), dtype=np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    DSPNMF(K, solver=solver, max_iter=5, tol=0, random_state=0).fit(X)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


def main() -> None:
    """Print the tables."""
    rows = []
    for name, inner in (("hals", Hals), ("newton-cg", NewtonCG)):
        times = []
        for n in (50_000, 200_000):
            X = np.random.default_rng(0).random((n, M), dtype=np.float32)
            times.append(iteration(X, inner()))
        rows.append((name, f"{times[0] * 1e3:.1f} ms", f"{times[1] * 1e3:.1f} ms", times[1] / times[0]))
    _report.table("Time per iteration", ("solver", "n = 50,000", "n = 200,000", "t(4n) / t(n)"), rows)
    n, rows = 400_000, []
    allowed = 8 * (n + M) * K * 4 + 64 * 2**20
    for solver in ("hals", "newton-cg"):
        used = peak_memory(solver, n)
        rows.append((solver, f"{used / 2**20:.0f} MiB", f"{allowed / 2**20:.0f} MiB", used / (4 * (n + M) * K)))
    header = ("solver", "peak above X", "8 (n + m) k floats + 64 MiB", "in (n + m) k floats")
    _report.table(f"Memory at {n:,} x {M}, float32, k = {K}", header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
