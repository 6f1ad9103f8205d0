"""Is one pass of batches as good as a fit, and what does it cost?

A float32 .npy of 100 features, ten components and noise, k = 10, batches of a hundredth of the rows. The baselines
are ``fit`` with all of X in memory, and scikit-learn's ``MiniBatchNMF.partial_fit`` on the same batches. Every run is a
process of its own; the objective is evaluated with the codes the model gives to all rows. "natural" is the alpha at
which both terms are of one size, ``||X||^2 / ||XX'||^2``. A full run has a million rows, others 200,000; an argument
says how many. Files go to the folder TMPDIR names.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import MiniBatchNMF

import _report
from _descent import checked
from dspnmf import DSPNMF, NMF
from dspnmf._threads import team
from dspnmf.backends import RowModel

M, K = 100, 10
CLUSTERS = 8


def make(path: Path, n: int) -> None:
    """Write the file."""
    rng = np.random.default_rng(0)
    X = rng.random((n, K), dtype=np.float32) ** 3 @ rng.random((K, M), dtype=np.float32) ** 3
    X += np.float32(0.05) * rng.random((n, M), dtype=np.float32)
    np.save(path, X)


def clusters(n: int) -> np.ndarray:
    """Rows around eight centres, those of one centre together."""
    rng = np.random.default_rng(0)
    centres, which = 3 * rng.random((CLUSTERS, M)) ** 4, np.arange(n) * CLUSTERS // n
    return centres[which] * (0.3 + rng.random((n, 1))) + 0.2 * rng.random((n, M))


def estimator(name: str, alpha: float, seed: int = 0) -> NMF | DSPNMF:
    """The model of a row of a table."""
    return NMF(K, random_state=seed) if name == "NMF" else DSPNMF(K, alpha=alpha, random_state=seed)


def peer(size: int, seed: int = 0) -> MiniBatchNMF:
    """scikit-learn's, with the size of a batch and its own start (NNDSVD), with which it does best."""
    return MiniBatchNMF(K, batch_size=size, random_state=seed)


def stream(model: object, X: np.ndarray, size: int) -> object:
    """One pass over an array."""
    for i in range(0, len(X), size):
        model.partial_fit(X[i : i + size])  # type: ignore[attr-defined]
    return model


def stream_file(model: object, path: str) -> object:
    """One pass over a file: never more than a batch of it in memory, not even mapped."""
    mapped = np.load(path, mmap_mode="r")
    size, offset = len(mapped) // 100, mapped.offset
    for i in range(0, len(mapped), size):
        batch = np.fromfile(path, np.float32, size * M, offset=offset + 4 * M * i)
        model.partial_fit(batch.reshape(-1, M))  # type: ignore[attr-defined]
    return model


def memory(what: str) -> int:
    """Bytes this process has (VmRSS) or had at most (VmHWM)."""
    return int(Path("/proc/self/status").read_text().split(what + ":")[1].split()[0]) * 1024


def objective(X: np.ndarray, U: np.ndarray, V: np.ndarray, alpha: float) -> float:
    """Both terms from the residuals."""
    rows = checked(X).rows(K, 1.0)
    rows.begin(np.ascontiguousarray(U))
    error2 = rows.residual2(np.ascontiguousarray(V.T, dtype=np.float64))
    gap2 = rows.gram_residual2() if alpha > 0 else 0.0
    assert error2 is not None
    assert gap2 is not None
    return error2 + alpha * gap2


def least_squares(X: np.ndarray, V: np.ndarray) -> float:
    """||X - UV||^2 with the best codes there are."""
    rows, V = checked(X).rows(K, 1.0), V.astype(np.float64)
    Vt = np.ascontiguousarray(V.T)
    with team():
        rows.begin(rows.solve(RowModel(V @ Vt, Vt)))
        error2 = rows.residual2(Vt)
    assert error2 is not None
    return error2


def natural_alpha(X: np.ndarray) -> float:
    """The weight at which both terms are of one size."""
    data = checked(X)
    return data.norm2(1.0) / data.gram_norm2(1.0)


def run(path: str, name: str, alpha: float, way: str) -> None:
    """One run; print seconds, the memory it added to this process at most, and the objective."""
    warnings.simplefilter("ignore")
    warm = np.random.default_rng(0).random((300, M), dtype=np.float32)  # compiled code is loaded before the clock runs
    estimator(name, alpha).partial_fit(warm).partial_fit(warm).fit(warm)
    model = estimator(name, alpha) if way != "MiniBatchNMF" else peer(len(np.load(path, mmap_mode="r")) // 100)
    bare, X = memory("VmRSS"), np.load(path) if way == "fit" else None
    begin = time.perf_counter()
    model = stream_file(model, path) if X is None else model.fit(X)
    seconds, added = time.perf_counter() - begin, memory("VmHWM") - bare
    X, V = np.load(path), model.components_
    value = least_squares(X, V) if name == "NMF" else objective(X, model.transform(X), V, alpha)
    print(json.dumps({"seconds": seconds, "memory": added, "value": value}))


def apart(path: Path, name: str, alpha: float, way: str) -> dict[str, float]:
    """The same in a process of its own."""
    code = f"import partial_fit; partial_fit.run({str(path)!r}, {name!r}, {alpha!r}, {way!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def against_fit(path: Path, n: int, natural: float) -> None:
    """One pass against the fit, and against scikit-learn's."""
    rows, plain = [], {}
    for title, name, alpha in (
        ("NMF", "NMF", 0.0),
        ("DSPNMF, natural alpha", "DSPNMF", natural),
        ("DSPNMF, alpha = 1", "DSPNMF", 1.0),
    ):
        whole, one = (apart(path, name, alpha, way) for way in ("fit", "partial_fit"))
        plain = plain or one
        numbers = [f"{r['value']:.6g}, {r['seconds']:.1f} s, {r['memory'] / 1e6:.0f} MB" for r in (whole, one)]
        rows.append((title, *numbers, *(f"{one[what] / whole[what]:.4g}" for what in ("value", "seconds", "memory"))))
    header = (
        "method",
        "fit: objective, time, memory added",
        "one pass",
        "ratio of objectives",
        "of times",
        "of memory",
    )
    shape = f"{n:,} x {M}, float32, k = {K}"
    _report.table(f"partial_fit: one pass of batches of {n // 100:,} over {shape}, against the fit", header, rows)
    theirs = apart(path, "NMF", 0.0, "MiniBatchNMF")
    numbers = [f"{r['value']:.6g}, {r['seconds']:.1f} s" for r in (theirs, plain)]
    ratios = [f"{plain[what] / theirs[what]:.4g}" for what in ("value", "seconds")]
    header = ("MiniBatchNMF: ||X - UV||^2, time", "dspnmf NMF", "ratio of errors", "of times")
    _report.table("partial_fit: plain NMF, one pass over the same batches", header, [(*numbers, *ratios)])


def orders(n: int) -> None:
    """The same rows, mixed and sorted by cluster: objectives over that of the fit (the median of three seeds)."""
    X = clusters(n)
    found, size = [], n // 100
    natural = natural_alpha(X)
    for title, name, alpha in (("NMF", "NMF", 0.0), ("DSPNMF, natural alpha", "DSPNMF", natural)):
        fits = [estimator(name, alpha, seed).fit(X) for seed in range(3)]
        whole = float(np.median([objective(X, m.transform(X), m.components_, alpha) for m in fits]))
        mixed = []
        for seed in range(3):
            Y = X[np.random.default_rng(seed).permutation(n)]
            m = stream(estimator(name, alpha, seed), Y, size)
            mixed.append(objective(Y, m.transform(Y), m.components_, alpha) / whole)
        models = [stream(estimator(name, alpha, seed), X, size) for seed in range(3)]
        by_cluster = [objective(X, m.transform(X), m.components_, alpha) / whole for m in models]
        found.append((title, f"{whole:.6g}", *(", ".join(f"{v:.3g}" for v in sorted(r)) for r in (mixed, by_cluster))))
    peers = []
    for Y in (X[np.random.default_rng(0).permutation(n)], X):
        passes = [stream(peer(size, seed), Y, size) for seed in range(3)]
        peers.append(sorted(least_squares(Y, m.components_) / float(found[0][1]) for m in passes))
    found.append(("MiniBatchNMF", found[0][1], *(", ".join(f"{v:.3g}" for v in r) for r in peers)))
    header = ("method", "fit", "one pass, mixed rows (ratios, three seeds)", "rows sorted by cluster")
    _report.table(f"partial_fit, order of rows: {n:,} x {M}, {CLUSTERS} clusters, k = {K}, 100 batches", header, found)


def main() -> None:
    """Print the tables."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000 if _report.full() else 200_000
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        make(path, n)
        against_fit(path, n, natural_alpha(np.load(path)))
    orders(20_000)
    _report.versions()


if __name__ == "__main__":
    main()
