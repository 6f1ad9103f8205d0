"""What does an iteration cost, over the two bare products with X that it cannot do without?

X is float32, k = 20. The baseline is ``X @ M`` plus ``D.T @ X`` through NumPy, all threads, measured in the same run.
"""

from __future__ import annotations

import itertools
import statistics
import time

import numpy as np

import _report
from _descent import checked, descent, preserving
from dspnmf._threads import team
from dspnmf.solvers.descent import InnerSolver
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.newton_cg import NewtonCG

SHAPES = ((100_000, 200), (20_000, 1_024))
K = 20


def iteration(X: np.ndarray, inner: InnerSolver, repeats: int = 15, k: int = K) -> float:
    """Median seconds of an iteration, the first three left out."""
    rng = np.random.default_rng(0)
    data = checked(X)
    codes, Vt = rng.random((len(X), k), dtype=np.float32), rng.random((X.shape[1], k))
    times = []
    with team():
        steps = descent(data.rows(k, 1.0), preserving(data), codes, Vt, inner)
        next(steps)
        for _ in itertools.repeat(None, repeats + 3):
            begin = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - begin)
    return statistics.median(times[3:])


def bare_products(X: np.ndarray, k: int = K) -> float:
    """Seconds of the two products."""
    M, D = np.ones((X.shape[1], k), np.float32), np.ones((len(X), k), np.float32)
    return _report.median_time(lambda: X @ M) + _report.median_time(lambda: D.T @ X)


def main() -> None:
    """Print the table."""
    rows = []
    for shape in SHAPES:
        X = np.random.default_rng(0).random(shape, dtype=np.float32)
        for name, inner in (("hals, inner_iter=1", Hals(1)), ("hals, auto", Hals()), ("newton-cg, auto", NewtonCG())):
            bare, ours = bare_products(X), iteration(X, inner)
            rows.append(
                (f"{shape[0]:,} x {shape[1]:,}", name, f"{ours * 1e3:.1f} ms", f"{bare * 1e3:.1f} ms", ours / bare)
            )
    _report.table("Time per iteration", ("X", "solver", "iteration", "two bare products", "ratio"), rows)
    _report.versions()


if __name__ == "__main__":
    main()
