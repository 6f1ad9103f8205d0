"""What do ten starts cost, over one?

Whole calls of ``fit`` with n_init = 10 and n_init = 1, 20 iterations each, float32, k = 10: 20,000 x 200 in memory, and
200,000 x 512 on a CUDA device where there is one. Ten fits one after the other take ten times as long as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import _report
from dspnmf import DSPNMF, NMF
from plain_nmf import dense

K, STARTS, ITERATIONS = 10, 10, 20


def seconds(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of a call, all of its work included."""
    wait()
    begin = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - begin


def compare(X: Any, repeats: int = 5, wait: Callable[[], object] = lambda: None) -> list[tuple[object, ...]]:
    """Best times of one start and of ten, measured in turn; and what share of the objective the other nine gain."""
    rows: list[tuple[object, ...]] = []
    for cls in (NMF, DSPNMF):
        one, ten = (cls(K, n_init=n, max_iter=ITERATIONS, tol=0, random_state=0) for n in (1, STARTS))
        times = [(seconds(partial(one.fit, X), wait), seconds(partial(ten.fit, X), wait)) for _ in range(repeats + 1)]
        single, many = (min(column) for column in zip(*times[1:], strict=True))
        shape = f"{X.shape[0]:,} x {X.shape[1]:,}"
        objective = f"{ten.objective_ / one.objective_:.4f}"
        rows.append((cls.__name__, shape, f"{single * 1e3:.0f} ms", f"{many * 1e3:.0f} ms", many / single, objective))
    return rows


def on_device() -> list[tuple[object, ...]]:
    """The same on a CUDA device, or a row that says there is none."""
    try:
        import torch
    except ImportError:
        return [("", "200,000 x 512 on a CUDA device", "skipped: Torch is not installed", "", "", "")]
    if not torch.cuda.is_available():
        return [("", "200,000 x 512 on a CUDA device", "skipped: there is none", "", "", "")]
    rows = compare(torch.from_numpy(dense(200_000, 512)).cuda(), wait=torch.cuda.synchronize)
    device = torch.cuda.get_device_name()
    return [(name, f"{shape} on {device}", *rest) for name, shape, *rest in rows]


def main() -> None:
    """Print the table."""
    rows = compare(np.ascontiguousarray(dense(20_000, 200))) + on_device()
    header = ("class", "X (float32)", "one start", f"{STARTS} starts", "ratio", "objective over that of one start")
    _report.table(f"{STARTS} starts over one, {ITERATIONS} iterations, k = {K}", header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
