"""What does a user wait for: the whole call, over its iterations, and against scikit-learn's?

(1) ``fit`` with 10 iterations over the time of these iterations, in the same call (median of several), and where the
rest goes. X is 100,000 x 200 float32 of rank 20 with noise, k = 20.
(2) Time to the error (to 0.1 %) at which ``sklearn.decomposition.NMF(k, random_state=0)`` stops at its defaults: our
``NMF(k, random_state=0)`` with just as many iterations as that takes, whole calls on both sides, compilation excluded.
Indian Pines and COIL-20 need the data folder (DSPNMF_DATA or --data-dir). The last two columns are the call at our own
defaults: how long it takes, and its error over scikit-learn's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from sklearn.decomposition import NMF as ScikitNMF

import _data
import _report
import _text
from dspnmf import DSPNMF, NMF
from dspnmf.backends.memory_rows import MemoryRows
from plain_nmf import counts, dense

ITERATIONS = 10
ENOUGH = (25, 60, 150, 500)  # iterations that are tried until one reaches scikit-learn's error
SHARE = 1.001
RANKS = (10, 50)
PARTS = ("check and facts", "start", "iterations", "codes at the end", "errors and the rest")


class Watch:
    """A callback of scikit-learn that notes when the parts of a fit begin and end."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clean up."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Note the time of the first task of every kind."""
        self.first.setdefault(str(context.task_name), time.perf_counter())

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Note the time of the last task of every kind."""
        self.last[str(context.task_name)] = time.perf_counter()

    def times(self, fit: Callable[[], object]) -> dict[str, float]:
        """Seconds of the parts of a fit."""
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}
        codes, solve = [], MemoryRows.solve

        def timed_solve(*args: Any, **kwargs: Any) -> Any:
            before = time.perf_counter()
            try:
                return solve(*args, **kwargs)
            finally:
                codes.append(time.perf_counter() - before)

        begin = time.perf_counter()
        with mock.patch.object(MemoryRows, "solve", timed_solve):
            fit()
        end = time.perf_counter()
        looped = self.first["iteration"], self.last["iteration"]
        whole = self.first["fit"]
        after = end - looped[1] - sum(codes)
        return dict(
            zip(PARTS, (whole - begin, looped[0] - whole, looped[1] - looped[0], sum(codes), after), strict=True)
        )


def overhead(cls: type[NMF] | type[DSPNMF], X: np.ndarray, k: int = 20, repeats: int = 7) -> tuple[object, ...]:
    """The whole call over its iterations, and the parts; medians."""
    watch = Watch()
    model = cls(k, max_iter=ITERATIONS, tol=0, random_state=0).set_callbacks(watch)
    runs = [watch.times(lambda: model.fit(X)) for _ in range(repeats + 1)][1:]
    whole = [sum(run.values()) for run in runs]
    ratio = statistics.median(all_of / run["iterations"] for all_of, run in zip(whole, runs, strict=True))
    parts = (f"{statistics.median(run[part] for run in runs) * 1e3:.0f} ms" for part in PARTS)
    return (cls.__name__, f"{statistics.median(whole) * 1e3:.0f} ms", *parts, f"{ratio:.2f}")


def best_time(call: Callable[[], object], budget: float = 5.0) -> float:
    """Seconds of a call: the best of three, or of as many as begin within a budget."""
    best, begin = np.inf, time.perf_counter()
    for _ in range(3):
        before = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - before)
        if time.perf_counter() - begin > budget:
            break
    return best


def iterations_to(X: Any, k: int, goal: float) -> int | None:
    """The fewest iterations after which the error is at most `goal`; None if the most that are tried do not do."""
    for most in ENOUGH:
        history = NMF(k, max_iter=most, tol=0, random_state=0).fit(X).objective_history_
        if history[-1] <= goal**2:
            return max(1, int(np.argmax(history <= goal**2)))
    return None


def against_scikit(name: str, X: Any, k: int) -> tuple[float, tuple[object, ...]]:
    """How many times as fast to the same error, and the row of the table."""
    peer, mine = ScikitNMF(k, random_state=0), NMF(k, random_state=0)
    theirs = best_time(lambda: peer.fit(X))
    enough = iterations_to(X, k, SHARE * peer.reconstruction_err_)
    ours = NMF(k, max_iter=enough or ENOUGH[-1], tol=0, random_state=0)
    seconds = best_time(lambda: ours.fit(X))
    default = best_time(lambda: mine.fit(X))
    row = (
        name,
        k,
        f"{theirs:.3f} s, {peer.n_iter_} it.",
        f"{seconds:.3f} s, {ours.n_iter_} it." if enough else f"not in {ENOUGH[-1]} it., {seconds:.3f} s",
        f"{theirs / seconds:.2f}" if enough else f"below {theirs / seconds:.2f}",
        f"{default:.3f} s, {mine.n_iter_} it.",
        f"{mine.reconstruction_err_ / peer.reconstruction_err_:.4f}",
    )
    return theirs / seconds, row


def sets() -> dict[str, Callable[[], Any]]:
    """The data, made when they are asked for."""
    real = _data.real()
    files = {"Digits": "Digits", "COIL20": "COIL-20", "IndianPines": "Indian Pines"}
    made: dict[str, Callable[[], Any]] = {
        words: lambda name=name: real[name] for name, words in files.items() if name in real
    }
    return made | {
        "tf-idf of docstrings": _text.tfidf,
        "20,000 x 1,024 planted": lambda: dense(20_000, 1_024),
        "100,000 x 200 planted": lambda: dense(100_000, 200),
        "20,000 x 5,000 sparse": lambda: counts(20_000, 5_000, 0.01),
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", help="folder of the data files (DSPNMF_DATA)")
    parser.add_argument("--only", default="", help="data sets whose name contains this; 'parts' for the first table")
    parser.add_argument("--k", type=int, nargs="*", default=RANKS, help="ranks")
    options = parser.parse_args()
    if options.data_dir:
        os.environ["DSPNMF_DATA"] = options.data_dir
    warnings.simplefilter("ignore")
    if options.only in ("", "parts"):
        X = dense(100_000, 200)
        rows = [overhead(cls, X) for cls in (DSPNMF, NMF)]
        header = ("class", "whole call", *PARTS, "whole call / its iterations")
        _report.table(f"A call of {ITERATIONS} iterations, 100,000 x 200 float32, k = 20", header, rows)
    rows, ratios = [], []
    for name, made in sets().items():
        if options.only.lower() in name.lower():
            X = made()
            NMF(2, max_iter=2, tol=0).fit(X)  # compiles
            for k in options.k:
                ratio, row = against_scikit(f"{name} ({X.shape[0]:,} x {X.shape[1]:,}, {X.dtype})", X, k)
                ratios.append(ratio)
                rows.append(row)
                print(*row, sep=" | ", file=sys.stderr, flush=True)
    if rows:
        header = ("X", "k", "scikit-learn NMF", "dspnmf NMF", "times as fast", "at our defaults", "error over theirs")
        mean = float(np.exp(np.mean(np.log(ratios))))
        rows.append(("geometric mean", "", "", "", f"{mean:.2f} (lowest {min(ratios):.2f})", "", ""))
        _report.table("Whole calls: time to the error at which scikit-learn's NMF stops", header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
