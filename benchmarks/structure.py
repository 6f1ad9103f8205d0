"""Diffused similarities and the automatic weight: what they are worth, and what they cost.

(1) k-means NMI, 3-NN and SVM of codes at rank = number of classes, on the paper's five data sets: "gram", the default
of "diffused", and the setting for clustering. (2) The same at `alpha="auto"` and fixed multiples of the natural weight.
(3) Circles, moons and slices of a rolled sheet. (4) Units, and 300,000 rows in float32. (5) Time and memory of 70,000 x
784 images in float32 against umap-learn's `fit_transform` on the same rows, where umap-learn is installed. Scores are
means over five seeds.

    python benchmarks/structure.py [--data-dir FOLDER] [--seeds 5] [--only clusters,weights,...] [--large 70000]
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons, make_swiss_roll
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import minmax_scale

import _data
import _report
from dspnmf import DSPNMF, GNMF, SDNMF, SymNMF, datasets
from dspnmf.paper.evaluation import task_scores

SETS = ("Digits", "COIL20", "Wine", "BC", "IndianPines")
CLUSTERING: dict[str, Any] = {"similarity": "diffused", "n_neighbors": 6, "diffusion_steps": 512, "alpha": 100.0}
CURVES: dict[str, Any] = {"similarity": "diffused", "n_neighbors": 10, "diffusion_steps": 1000, "alpha": 100.0}
MULTIPLES = (1.0, 10.0, 100.0, 1e3, 1e4)
TASKS = ("kmeans", "knn", "svm")
Model = Callable[[Any, int, int], Any]  # data set, rank, seed


def sdnmf(data: Any, k: int, seed: int) -> SDNMF:
    """SDNMF with the ground metric of its data."""
    metric = data.image_shape or ("line" if data.bands else None)
    return SDNMF(k, random_state=seed, **({"metric": metric} if metric else {}))


def dsp(**parameters: Any) -> Model:
    """DSP-NMF with these parameters."""
    return lambda data, k, seed: DSPNMF(k, normalize=True, random_state=seed, **parameters)


def mean_scores(data: Any, X: np.ndarray, make: Model, seeds: int) -> np.ndarray:
    """Scores of the tasks, mean over seeds, at rank = number of classes."""
    k, found = len(np.unique(data.y)), []
    for seed in range(seeds):
        scores = task_scores(np.asarray(make(data, k, seed).fit_transform(X), np.float64), data.y, seed)
        found.append([scores[task] for task in TASKS])
    return np.mean(found, axis=0)


def available(data_dir: str | None) -> dict[str, datasets.Dataset]:
    """The paper's data sets; the two that come from files only where they are at hand."""
    folder = Path(data_dir) if data_dir else _data.folder()
    files = {"COIL20": "COIL20.mat", "IndianPines": "Indian_pines_corrected.mat"}
    there = [name for name in SETS if name not in files or (folder is not None and (folder / files[name]).exists())]
    return {name: datasets.load(name, folder) for name in there}


def table(title: str, methods: dict[str, Model], data_dir: str | None, seeds: int) -> dict[str, np.ndarray]:
    """Print and return the scores of methods (sets x tasks)."""
    sets = available(data_dir)
    scaled = {name: minmax_scale(data.X) for name, data in sets.items()}
    found = {
        method: np.array([mean_scores(sets[name], scaled[name], make, seeds) for name in sets])
        for method, make in methods.items()
    }
    rows = [
        [method, *(" / ".join(f"{v:.3f}" for v in row) for row in [*values, values.mean(axis=0)])]
        for method, values in found.items()
    ]
    _report.table(f"{title}: k-means NMI / 3-NN / SVM, mean of {seeds} seeds", ("", *sets, "average"), rows)
    return found


def clusters(data_dir: str | None, seeds: int) -> None:
    """Similarities and peers."""
    methods: dict[str, Model] = {
        "gram": dsp(),
        "diffused": dsp(similarity="diffused"),
        "diffused, clustering": dsp(**CLUSTERING),
        "diffused, alpha auto": dsp(similarity="diffused", alpha="auto"),
        "GNMF": lambda data, k, seed: GNMF(k, random_state=seed),
        "SymNMF": lambda data, k, seed: SymNMF(k, random_state=seed),
        "SDNMF": sdnmf,
    }
    table("Diffused similarities, rank = number of classes", methods, data_dir, seeds)


def weights(data_dir: str | None, seeds: int) -> None:
    """The automatic weight and fixed multiples of the natural one."""

    def multiple(times: float) -> Model:
        def make(data: Any, k: int, seed: int) -> DSPNMF:
            X = minmax_scale(data.X)
            alpha = times * np.sum(X**2) / np.sum((X.T @ X) ** 2)
            return DSPNMF(k, alpha=float(alpha), normalize=True, random_state=seed)

        return make

    methods = {"auto": dsp(alpha="auto"), **{f"{times:g} natural": multiple(times) for times in MULTIPLES}}
    methods["1 (the paper's)"] = dsp()
    found = table('alpha, similarity="gram"', methods, data_dir, seeds)
    average = {name: float(values.mean()) for name, values in found.items()}
    best = max(average[name] for name in average if "natural" in name)
    print(f"\nAverage of the three scores: auto {average['auto']:.4f}, best fixed multiple {best:.4f}.")


def curved(shape: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows in two or three dimensions, from 0 to 1, and their clusters."""
    if shape == "circles":
        X, y = make_circles(600, factor=0.5, noise=0.03, random_state=0)
    elif shape == "moons":
        X, y = make_moons(600, noise=0.05, random_state=0)
    else:
        X, t = make_swiss_roll(900, noise=0.05, random_state=0)
        cuts = np.quantile(t, [1 / 3, 2 / 3])
        kept = (np.abs(t[:, None] - cuts) > 0.4).all(axis=1)
        X, y = X[kept], np.digitize(t, cuts)[kept]
    return minmax_scale(X), y


def shapes(seeds: int) -> None:
    """Clusters on curves; features are the nearness to every tenth row."""
    rows = []
    for shape in ("circles", "moons", "roll"):
        X, y = curved(shape)
        nearness, k, row = rbf_kernel(X, X[::10], gamma=50.0), int(y.max()) + 1, [shape]
        for parameters in ({}, CURVES):
            found = []
            for seed in range(seeds):
                Z = DSPNMF(k, normalize=True, random_state=seed, **parameters).fit_transform(nearness)
                found.append(normalized_mutual_info_score(y, KMeans(k, n_init=10, random_state=seed).fit_predict(Z)))
            row.append(f"{np.mean(found):.3f} (least {min(found):.3f})")
        rows.append(row)
    _report.table("Clusters on curves, k-means NMI", ("", "gram", "diffused, 10 neighbours, 1,000 steps"), rows)


def units() -> None:
    """Codes of X and of 1000 X; warnings at 300,000 rows in float32."""
    X, rows = minmax_scale(datasets.load("Digits").X), []
    for similarity in ("gram", "diffused", "cosine"):
        Z, W = (DSPNMF(10, alpha="auto", similarity=similarity, random_state=0).fit_transform(s * X) for s in (1, 1000))
        rows.append([similarity, f"{np.abs(Z / Z.max() - W / W.max()).max():.1e}"])
    header = ("similarity", "difference, over the largest code")
    _report.table('alpha="auto": codes of X and of 1000 X (digits, float64)', header, rows)
    rng, rows = np.random.default_rng(0), []
    tall = (rng.random((300_000, 8)) @ rng.random((8, 50)) + rng.random((300_000, 50))).astype(np.float32)
    for alpha in ("auto", 1.0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = DSPNMF(10, alpha=alpha, random_state=0).fit(tall)
        error = model.reconstruction_err_ / np.linalg.norm(tall)
        named = ", ".join(sorted({w.category.__name__ for w in caught})) or "none"
        rows.append([repr(alpha), named, f"{error:.3f}", model.n_iter_])
    _report.table("300,000 x 50 float32, k = 10", ("alpha", "warnings", "relative error", "iterations"), rows)


def images(n: int) -> np.ndarray:
    """Images like those of handwritten digits: ten planted curves of strokes on 28 x 28 pixels, moved and bent."""
    rng = np.random.default_rng(0)
    y, grid = rng.integers(10, size=n), np.arange(28.0)
    anchors = rng.uniform(6, 22, (10, 6, 2))
    X = np.zeros((n, 28, 28), np.float32)
    at = np.linspace(0, 5, 16)
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(6)))  # points along the strokes
    for i in range(0, n, 2000):
        rows = slice(i, min(i + 2000, n))
        moved = anchors[y[rows]] + rng.normal(0, 1.0, (rows.stop - i, 6, 2)) + rng.normal(0, 1.0, (rows.stop - i, 1, 2))
        points = weights @ moved
        across, down = (np.exp(-((grid - points[..., axis, None]) ** 2) / 2.5) for axis in (0, 1))
        X[rows] = np.minimum(np.einsum("npi,npj->nij", down, across), 1.0)
    X[X < 0.05] = 0.0
    return X.reshape(n, 784)


PEAK = """
import os, sys, threading, time
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import structure
X = structure.images(int(sys.argv[2]))
if sys.argv[3] == "dspnmf":
    from dspnmf import DSPNMF
    model = DSPNMF(10, similarity="diffused", n_neighbors=5, diffusion_steps=8, mutual=False, random_state=0)
    for _ in range(2):  # the search for neighbours runs in one of two processes, and each compiles it once
        model.set_params(max_iter=2, tol=0).fit(X[:20_001])
    model.set_params(max_iter=200, tol=1e-4)
else:
    import umap
    model = umap.UMAP(random_state=0, n_jobs=1) if sys.argv[3] == "umap seeded" else umap.UMAP()
    umap.UMAP(n_epochs=2).fit(X[:5000])
def held(pid):  # by a process and those it started; what several share counts once
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        own = next(line for line in lines if line.startswith("Pss:"))
        started = [each for file in Path(f"/proc/{pid}/task").glob("*/children") for each in file.read_text().split()]
    except OSError:  # it has ended
        return 0
    return int(own.split()[1]) * 1024 + sum(map(held, started))
def peak():  # this process's own
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
def watch():
    while not done.wait(0.05):
        seen.append(held(os.getpid()))
Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
before, seen, done = held(os.getpid()), [], threading.Event()
watching = threading.Thread(target=watch)
watching.start()
begin = time.perf_counter()
model.fit_transform(X)
seconds = time.perf_counter() - begin
done.set()
watching.join()
print(f"{seconds:.1f} {(max(peak(), *seen) - before) / X.nbytes:.2f}")
"""


def large(n: int) -> None:
    """Time and memory against umap-learn, each in a process of its own, both compiled by a smaller fit beforehand.

    Memory is what `fit_transform` adds to X and the process, with the processes it starts (Linux only).
    """
    if importlib.util.find_spec("umap") is None:
        _report.table(f"{n:,} x 784 float32 against umap-learn", ("",), [("skipped: umap-learn is not installed",)])
        return
    found = {}
    for name in ("dspnmf", "umap"):
        command = [sys.executable, "-W", "ignore", "-c", PEAK, sys.path[0], str(n), name]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        found[name] = [float(word) for word in out[-2:]]
    rows = [[name, f"{t:.1f} s", f"{added:.2f} X"] for name, (t, added) in found.items()]
    head = ("", "fit_transform", "memory it adds to X at most")
    _report.table(f"{n:,} x 784 float32, 5 neighbours, 8 steps, rank 10", head, rows)
    ratio = found["dspnmf"][0] / found["umap"][0]
    print(f"\ndspnmf over umap-learn: {ratio:.2f}. Both were compiled by a smaller fit beforehand.")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=None, help="folder of COIL20.mat and Indian_pines_*.mat")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="clusters,weights,shapes,units,large", help="parts, with commas")
    parser.add_argument("--large", type=int, default=70_000, help="rows of the comparison with umap-learn")
    options = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "clusters": lambda: clusters(options.data_dir, options.seeds),
        "weights": lambda: weights(options.data_dir, options.seeds),
        "shapes": lambda: shapes(options.seeds),
        "units": units,
        "large": lambda: large(options.large),
    }
    warnings.simplefilter("ignore")
    for part in options.only.split(","):
        parts[part]()
    _report.versions()


if __name__ == "__main__":
    main()
