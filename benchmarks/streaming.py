"""What does it cost that X is in a file, and how much memory does a fit need?

A float32 .npy of 512 features, k = 20, twenty components and noise. The baselines are one bare read of the same file,
an iteration over as many rows in memory, and one pass of scikit-learn's ``MiniBatchNMF.partial_fit`` over the same
file. A full run takes 8 GB, others 1.5 GB; an argument says how many. Files go to the folder TMPDIR names, which must
have room for them.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
from sklearn.decomposition import MiniBatchNMF

import _report
from _descent import checked, descent, plain, preserving
from dspnmf import DSPNMF
from dspnmf._threads import team
from dspnmf.backends import Data, RowModel
from dspnmf.backends.file import FILE
from dspnmf.solvers.hals import Hals

M, K = 512, 20
SLAB = 2**24
PART = 2**28 // (4 * M)  # rows in memory for the baseline
BATCH = 4096


def make(path: Path, gigabytes: float) -> None:
    """Write the file, a block at a time."""
    rng = np.random.default_rng(0)
    right, n = rng.random((K, M), dtype=np.float32) ** 3, int(gigabytes * 1e9) // (4 * M)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (n, M)})
        for i in range(0, n, 50_000):
            left = rng.random((min(50_000, n - i), K), dtype=np.float32) ** 3
            file.write((left @ right + np.float32(0.05) * rng.random((len(left), M), dtype=np.float32)).data)


def bare_read(path: Path) -> float:
    """Seconds to read the file once."""
    buffer = memoryview(bytearray(SLAB))
    begin = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin


def iterations(data: Data, count: int) -> list[float]:
    """Seconds of every iteration of hals for DSP-NMF, two sweeps each, the first two left out."""
    objective, codes = preserving(data, gram_norm2=0.0), np.full((data.shape[0], K), 0.5, np.float32)
    times = []
    with team():
        steps = descent(data.rows(K, 1.0), objective, codes, np.random.default_rng(0).random((M, K)), Hals(2))
        next(steps)
        for _ in range(count + 2):
            begin = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - begin)
    return times[2:]


def speed(path: Path) -> list[tuple[object, ...]]:
    """An iteration from the file over one bare read and over one in memory, in turn."""
    X = np.load(path, mmap_mode="r")
    read, ours, memory, part = [], [], [], np.array(X[:PART])
    whole, some = checked(X, FILE), checked(part)
    for _ in range(3):
        read.append(bare_read(path))
        ours += iterations(whole, 1)
        memory.append(statistics.median(iterations(some, 5)) * len(X) / len(part))
    mine, bare, inside = (statistics.median(times) for times in (ours, read, memory))
    return [
        ("one bare read", f"{bare:.2f} s", f"{mine:.2f} s", mine / bare),
        ("memory", f"{inside:.2f} s", f"{mine:.2f} s", mine / inside),
    ]


def fit(path: str, codes: str) -> None:
    """A whole fit and a transform; print the peak of this process's memory."""
    warnings.simplefilter("ignore")
    X = np.load(path, mmap_mode="r")
    DSPNMF(K, max_iter=5, tol=0, random_state=0).fit(X, codes_path=codes or None)
    print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024)


def peak(path: Path, codes: str) -> float:
    """The peak of a process that does nothing but a fit."""
    code = f"import streaming; streaming.fit({str(path)!r}, {codes!r})"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def error(sample: np.ndarray, V: np.ndarray) -> float:
    """Relative error of the best codes some rows have with these components."""
    data, V = checked(sample), V.astype(np.float64)
    rows = data.rows(K, 1.0)
    rows.begin(rows.solve(RowModel(V @ V.T, V.T)))
    error2 = rows.residual2(V.T)
    assert error2 is not None
    return float(np.sqrt(error2 / data.norm2(1.0)))


def minibatch(X: np.ndarray, sample: np.ndarray) -> tuple[float, float]:
    """Seconds and error of one pass of scikit-learn over the file."""
    peer = MiniBatchNMF(K, init="random", random_state=0, batch_size=BATCH)
    begin = time.perf_counter()
    for i in range(0, len(X), BATCH):
        peer.partial_fit(np.array(X[i : i + BATCH]))
    return time.perf_counter() - begin, error(sample, peer.components_)


def until(X: np.ndarray, sample: np.ndarray, target: float) -> tuple[float, int, float]:
    """Seconds and iterations until plain NMF from the file has an error no larger, and that error; at most 60."""
    begin = time.perf_counter()
    data, rng = checked(X, FILE), np.random.RandomState(0)
    size = np.sqrt(data.mean() / K)
    codes, Vt = (size * np.abs(rng.standard_normal((count, K))) for count in (len(X), M))
    spent, count, reached = 0.0, -1, np.inf
    with team():
        steps = descent(data.rows(K, 1.0), plain(data), codes.astype(np.float32), Vt, Hals())
        for _, s in islice(steps, 61):
            spent, count = spent + time.perf_counter() - begin, count + 1
            reached = error(sample, s.Vt.T)
            if reached <= target:
                break
            begin = time.perf_counter()
    return spent, count, reached


def main() -> None:
    """Print the tables."""
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 8.0 if _report.full() else 1.5
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        room = shutil.disk_usage(folder).free
        if room < 1.5e9 * gigabytes:
            sys.exit(f"{folder} has room for {room / 1e9:.1f} GB, too little for {gigabytes:g} GB of X and its codes.")
        path = Path(folder) / "x.npy"
        make(path, gigabytes)
        X = np.load(path, mmap_mode="r")
        title = f"{gigabytes:g} GB .npy of {len(X):,} x {M}, k = {K}"
        _report.table(f"An iteration from a file: {title}", ("over", "that", "iteration", "ratio"), speed(path))
        rows = []
        for name, codes in (("in memory", ""), ("in a file", str(Path(folder) / "codes.npy"))):
            used = peak(path, codes)
            rows.append((name, f"{used / 1e9:.2f} GB", f"{X.nbytes / 1e9:.2f} GB", used / X.nbytes))
        _report.table("Peak memory of a process that fits it", ("codes", "peak", "X", "ratio"), rows)
        sample = np.array(X[:: max(1, len(X) // 20_000)])
        theirs, target = minibatch(X, sample)
        mine, count, reached = until(X, sample, target)
        row = (f"{theirs:.1f} s", f"{mine:.1f} s, {count} it.", mine / theirs, f"{target:.5f}", f"{reached:.5f}")
        header = ("MiniBatchNMF, one pass", "dspnmf NMF", "ratio of times", "error MiniBatchNMF", "error dspnmf")
        _report.table("Plain NMF from the file: time to MiniBatchNMF's error", header, [row])
    _report.versions()


if __name__ == "__main__":
    main()
