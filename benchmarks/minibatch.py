"""What does MiniBatchNMF cost, and how good is it, against scikit-learn's of the same name?

Whole calls of ``MiniBatchNMF(k, random_state=0).fit(X)`` at the defaults of both, compilation excluded: digits
(1,797 x 64), 100,000 x 200 of rank 20 with noise, and word counts of the standard library's docstrings. The error is
``||X - WH||`` with the codes of `transform` for all rows, on both sides.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import MiniBatchNMF as ScikitMiniBatchNMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer

import _report
import _text
from dspnmf import MiniBatchNMF
from dspnmf.backends.chunk_facts import norm2

REPEATS = 3


def planted() -> np.ndarray:
    """Non-negative factors and noise."""
    rng = np.random.default_rng(0)
    return rng.random((100_000, 20)) ** 3 @ rng.random((20, 200)) ** 3 + 0.05 * rng.random((100_000, 200))


def counts() -> sparse.csr_matrix:
    """Word counts of docstrings, in no order."""
    X = CountVectorizer(stop_words="english", min_df=3, dtype=np.float64).fit_transform(_text.docstrings())
    return X[np.random.default_rng(0).permutation(X.shape[0])]


def error(X: Any, W: np.ndarray, H: np.ndarray) -> float:
    """||X - WH||."""
    return float(np.sqrt(max(norm2(X) - 2 * np.vdot(X @ H.T, W) + np.vdot(W.T @ W, H @ H.T), 0.0)))


def called(kind: Any, X: Any, k: int) -> tuple[float, float, int]:
    """The fewest seconds of some calls, the error, and the batches it took."""
    times = []
    for _ in range(REPEATS if X.shape[0] < 50_000 else 1):
        begin = time.perf_counter()
        model = kind(k, random_state=0).fit(X)
        times.append(time.perf_counter() - begin)
    return min(times), error(X, model.transform(X), model.components_), model.n_steps_


def main() -> None:
    """One row for every X."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows: list[tuple[object, ...]] = []
    for name, X, k in (("digits", load_digits().data / 16, 10), ("planted", planted(), 20), ("counts", counts(), 20)):
        MiniBatchNMF(k, random_state=0, max_iter=1).fit(X[:2100])  # compiles
        (own, reached, steps), (peer, baseline, batches) = (
            called(kind, X, k) for kind in (MiniBatchNMF, ScikitMiniBatchNMF)
        )
        size = f"{X.shape[0]:,} x {X.shape[1]:,}"
        rows.append((name, size, k, own, peer, own / peer, reached, baseline, reached / baseline, steps, batches))
    header = (
        "X",
        "size",
        "k",
        "s",
        "s, scikit-learn",
        "ratio",
        "error",
        "scikit-learn's",
        "ratio",
        "batches",
        "scikit-learn's",
    )
    _report.table("MiniBatchNMF, whole calls", header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
