"""What do the relatives reach: against their published rules, and as features for clustering?

(1) Objective of the default solver after 50 iterations over that of the published rule after 500 (geometric mean over
k = 5, 10, 20 and three seeds; below 1 is better). GNMF's objective is that with components of unit length.
(2) k-means on the codes, rank = number of classes: normalised mutual information, best and mean of five seeds.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.io import loadmat
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

import _data
import _report
from dspnmf import GNMF, SymNMF
from dspnmf.paper.methods import methods


def sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Data and classes."""
    data = _data.real()
    found = {"Digits": (data["Digits"], load_digits().target)}
    folder = _data.folder()
    if folder is not None and "COIL20" in data:
        found["COIL20"] = (data["COIL20"], loadmat(folder / "COIL20.mat")["gnd"].ravel())
    return found


def against_the_rule() -> list[list[object]]:
    """Ratios of objectives."""
    rows: list[list[object]] = []
    for cls in (GNMF, SymNMF):
        for name, (X, _) in sets().items():
            ratios = []
            for k in (5, 10, 20):
                for seed in range(3):
                    published = cls(k, solver="paper", max_iter=500, tol=0, random_state=seed).fit(X).objective_
                    ratios.append(cls(k, max_iter=50, tol=0, random_state=seed).fit(X).objective_ / published)
            rows.append([cls.__name__, name, f"{np.exp(np.mean(np.log(ratios))):.4f}", f"{max(ratios):.4f}"])
    return rows


def clustering() -> list[list[object]]:
    """NMI of every factorization of the comparison."""
    rows: list[list[object]] = []
    names = ("DSP-NMF", "NMF", "GNMF", "SymNMF", "NS-NMF", "NPNMF", "SPNMF", "ONMF", "FR-NMF")
    for name in names:
        row: list[object] = [name]
        for X, y in sets().values():
            k, scores = len(np.unique(y)), []
            for seed in range(5):
                Z = methods()[name](k, seed).fit_transform(X)
                scores.append(normalized_mutual_info_score(y, KMeans(k, n_init=10, random_state=seed).fit_predict(Z)))
            row.append(f"{max(scores):.3f} / {np.mean(scores):.3f}")
        rows.append(row)
    return rows


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    header = ("method", "data", "ratio (geometric mean)", "worst")
    _report.table("Default solver, 50 iterations, over the published rule, 500", header, against_the_rule())
    _report.table("Clustering: NMI, best / mean of five seeds", ("method", *sets()), clustering())
    _report.versions()


if __name__ == "__main__":
    main()
