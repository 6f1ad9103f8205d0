"""How long until the reconstruction error is where scikit-learn's NMF stops?

Both start from the same point, float32, k = 20; scikit-learn runs ``NMF(solver="cd", tol=1e-4)`` to its end, ours until
its error is at most that. The data are products of sparse random factors plus noise, and a sparse matrix of counts.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF as ScikitNMF

import _report
from dspnmf import NMF

K = 20


def dense(n: int, m: int) -> np.ndarray:
    """Rank-20 data with noise."""
    rng = np.random.default_rng(0)
    left, right = rng.random((n, K), dtype=np.float32) ** 3, rng.random((K, m), dtype=np.float32) ** 3
    return left @ right + np.float32(0.05) * rng.random((n, m), dtype=np.float32)


def counts(n: int, m: int, density: float) -> sparse.csr_matrix:
    """Topic-like counts: every row draws its entries from a few of 40 groups of columns."""
    rng = np.random.default_rng(0)
    per_row = int(m * density)
    topic = rng.integers(0, 40, (n, 1))
    columns = np.where(
        rng.random((n, per_row)) < 0.7,
        (topic * m) // 40 + rng.integers(0, m // 40, (n, per_row)),
        rng.integers(0, m, (n, per_row)),
    )
    rows = np.repeat(np.arange(n), per_row)
    values = rng.integers(1, 5, n * per_row).astype(np.float32)
    return sparse.csr_matrix((values, (rows, columns.ravel())), shape=(n, m))


def start(X: object, shape: tuple[int, int], mean: float) -> tuple[np.ndarray, np.ndarray]:
    """The same positive start for both."""
    rng = np.random.default_rng(1)
    size = np.sqrt(mean / K)
    return (size * rng.random((shape[0], K))).astype(np.float32), (size * rng.random((K, shape[1]))).astype(np.float32)


def timed(function: object) -> float:
    """Seconds of one call, the best of three."""
    best = np.inf
    for _ in range(3):
        begin = time.perf_counter()
        function()  # type: ignore[operator]
        best = min(best, time.perf_counter() - begin)
    return best


def compare(X: object) -> tuple[float, float, int, int, float, float]:
    """Times, iterations and errors: scikit-learn to its stop, ours to the same error."""
    W, H = start(X, X.shape, float(X.mean()))  # type: ignore[attr-defined]
    peer = ScikitNMF(K, init="custom", solver="cd", tol=1e-4, max_iter=1000)
    theirs = timed(lambda: peer.fit_transform(X, W=W.copy(), H=H.copy()))
    ours = NMF(K, init="custom", tol=0, max_iter=400)
    history = ours.fit(X, W=W, H=H).objective_history_
    enough = (
        int(np.argmax(history <= peer.reconstruction_err_**2)) if history[-1] <= peer.reconstruction_err_**2 else 400
    )
    ours.set_params(max_iter=max(enough, 1))
    mine = timed(lambda: ours.fit_transform(X, W=W, H=H))
    return theirs, mine, peer.n_iter_, ours.n_iter_, float(peer.reconstruction_err_), ours.reconstruction_err_


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = []
    for name, X in (
        ("100,000 x 200", dense(100_000, 200)),
        ("20,000 x 1,024", dense(20_000, 1_024)),
        ("20,000 x 5,000, 1 % non-zero", counts(20_000, 5_000, 0.01)),
    ):
        theirs, mine, their_iterations, my_iterations, their_error, my_error = compare(X)
        rows.append(
            (
                name,
                f"{theirs:.2f} s, {their_iterations} it.",
                f"{mine:.2f} s, {my_iterations} it.",
                mine / theirs,
                f"{their_error:.6g}",
                f"{my_error:.6g}",
            )
        )
    header = ("X (float32)", "scikit-learn NMF", "dspnmf NMF", "ratio of times", "error scikit-learn", "error dspnmf")
    _report.table("Plain NMF: time to scikit-learn's error", header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
