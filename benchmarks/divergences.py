"""How soon is the divergence reached that scikit-learn's `mu` has after 100 iterations, from the same start?

Kullback-Leibler of Poisson counts and of words of texts, Itakura-Saito of power spectra; whole calls. scikit-learn
needs two minutes for the counts at k = 10, and more at k = 30, which only a full run has. Arguments are names of cases,
or `small`: the same in a tenth of the rows.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF as ScikitNMF

import _report
from dspnmf import NMF

ITERATIONS = 100


class Case(NamedTuple):
    """Data, the loss, and the numbers of components."""

    name: str
    X: Any
    loss: str
    ranks: tuple[int, ...]


def counts(n: int, m: int, share: float = 0.225, rank: int = 20) -> sparse.csr_array:
    """Poisson counts of planted factors, of which about that share is positive."""
    rng = np.random.default_rng(0)
    U, V = rng.gamma(0.4, 1.0, (n, rank)), rng.gamma(0.4, 1.0, (rank, m))
    sizes = np.geomspace(1e-4, 1e2, 200)
    shares = [float((1 - np.exp(-size * (U[:100] @ V))).mean()) for size in sizes]
    size = float(np.interp(share, shares, sizes))
    parts = [sparse.csr_array(rng.poisson(size * (U[i : i + 1000] @ V)).astype(float)) for i in range(0, n, 1000)]
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def texts(n: int, m: int, topics: int = 30, length: float = 120.0) -> sparse.csr_array:
    """Words of texts of a topic model, whose words are as frequent as Zipf's law says."""
    rng = np.random.default_rng(1)
    frequency = 1 / np.arange(1, m + 1)
    words = rng.dirichlet(0.05 * m * frequency / frequency.sum() + 1e-4, topics)
    mixed = rng.dirichlet(np.full(topics, 0.1), n) @ words
    lengths = np.maximum(rng.lognormal(np.log(length), 0.6, n).astype(int), 5)
    rows = [rng.multinomial(some, p / p.sum()) for some, p in zip(lengths, mixed, strict=True)]
    return sparse.csr_array(np.array(rows, float))


def spectra(n: int, m: int, rank: int = 20) -> np.ndarray:
    """Power spectra: planted factors with exponential noise."""
    rng = np.random.default_rng(2)
    mean = rng.gamma(0.3, 1.0, (n, rank)) @ rng.gamma(0.3, 1.0, (rank, m)) + 1e-4
    return mean * rng.exponential(1.0, (n, m)) + 1e-10


def cases(names: list[str]) -> list[Case]:
    """Those asked for."""
    small, many = 10 if "small" in names else 1, (10, 30) if _report.full() else (10,)
    made = {
        "texts": lambda: Case("words, 2,000 x 5,000", texts(2000 // small, 5000), "kullback-leibler", (10, 50)),
        "spectra": lambda: Case("spectra, 5,000 x 500", spectra(5000 // small, 500), "itakura-saito", (20,)),
        "counts": lambda: Case("counts, 20,000 x 2,000", counts(20_000 // small, 2000), "kullback-leibler", many),
    }
    wanted = [name for name in names if name in made] or list(made)
    return [made[name]() for name in wanted]


def start(X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Random factors of the size of X."""
    rng, size = np.random.default_rng(0), np.sqrt(X.mean() / k)
    return size * np.abs(rng.standard_normal((X.shape[0], k))), size * np.abs(rng.standard_normal((k, X.shape[1])))


def reached(model: NMF, target: float) -> int | None:
    """The first iteration at or below a divergence."""
    below = np.flatnonzero(model.objective_history_ <= target)
    return int(below[0]) if below.size else None


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = []
    for case in cases(sys.argv[1:]):
        for k in case.ranks:
            X, (W, H) = case.X, start(case.X, k)
            settings = {"init": "custom", "beta_loss": case.loss, "tol": 0.0}
            begin = time.perf_counter()
            peer = ScikitNMF(k, solver="mu", max_iter=ITERATIONS, **settings).fit(X, W=W.copy(), H=H.copy())
            theirs = time.perf_counter() - begin
            target = peer.reconstruction_err_**2 / 2
            found = reached(NMF(k, max_iter=ITERATIONS, **settings).fit(X, W=W, H=H), target)  # also compiles
            needed = found or ITERATIONS
            begin = time.perf_counter()
            model = NMF(k, max_iter=needed, **settings).fit(X, W=W, H=H)
            ours = time.perf_counter() - begin
            steps = "not reached" if found is None else str(found)
            errors = f"{target:.6g}", f"{model.objective_:.6g}"
            rows.append((case.name, str(k), f"{theirs:.2f} s", f"{ours:.2f} s", ours / theirs, steps, *errors))
    header = (
        "X", "k", "scikit-learn", "dspnmf", "ratio of times", "our iterations", "divergence scikit-learn",
        "divergence dspnmf",
    )  # fmt: skip
    title = f"Time to the divergence that scikit-learn's `mu` has after {ITERATIONS} iterations, whole calls"
    _report.table(title, header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
