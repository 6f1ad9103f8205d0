"""The picture of the README: DSP-NMF and plain NMF on handwritten digits (``make picture``).

Prints objective, errors and what a classifier makes of the codes, and writes one picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale

from dspnmf import DSPNMF, NMF

RANK = 10
OUT = Path(__file__).with_name("demo.png")


def describe(name: str, model: DSPNMF | NMF, X: np.ndarray, y: np.ndarray) -> None:
    """Fit and print a line."""
    Z = model.fit_transform(X)
    accuracy = cross_val_score(KNeighborsClassifier(3), Z, y, cv=5).mean()
    clusters = KMeans(10, n_init=4, random_state=0).fit_predict(Z)
    structure = np.linalg.norm(X @ X.T - rescaled(X, Z) @ Z.T) / np.linalg.norm(X @ X.T)
    print(
        f"{name:8s} {model.objective_:12.1f} {model.n_iter_:10d} {model.reconstruction_err_:14.2f} {structure:14.3f}"
        f" {accuracy:10.3f} {normalized_mutual_info_score(y, clusters):10.3f}"
    )


def rescaled(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Z times the factor that is best for XX' ~ lam ZZ': plain NMF has no unit for its codes."""
    return Z * (np.linalg.norm(X.T @ Z) / np.linalg.norm(Z.T @ Z)) ** 2


def draw(models: Mapping[str, DSPNMF | NMF], printed: np.ndarray, path: Path) -> None:
    """The components as images, and the objective of the default solver and of the printed rule."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.7, 1])
    axes = left.subplots(2 * len(models), RANK // 2)
    for block, (name, model) in enumerate(models.items()):
        for a in range(RANK):
            ax = axes[2 * block + a // (RANK // 2), a % (RANK // 2)]
            ax.imshow(model.components_[a].reshape(8, 8), cmap="gray_r")
            ax.set(xticks=[], yticks=[])
        axes[2 * block, 0].set_title(f"{name}: components", loc="left", fontsize=10)
    ax = right.subplots()
    ax.semilogy(printed, color="#D55E00", label="rule as printed in the paper")
    ax.semilogy(models["DSP-NMF"].objective_history_, color="#0072B2", label="default solver")
    ax.set(xlabel="iteration", ylabel="objective (log scale)", title="Objective on digits, rank 10")
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.45, -0.1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Fit, compare, draw."""
    data = load_digits()
    X, y = minmax_scale(data.data), data.target
    print(f"digits, {X.shape[0]} x {X.shape[1]}, {RANK} components")
    print("            objective iterations reconstruction  structure lost   3-NN acc. k-means NMI")
    models = {"DSP-NMF": DSPNMF(RANK, random_state=0), "NMF": NMF(RANK, random_state=0)}
    for name, model in models.items():
        describe(name, model, X, y)
    printed = DSPNMF(RANK, lam=1000.0, solver="paper", max_iter=40, tol=0, random_state=0).fit(X)
    draw(models, printed.objective_history_, OUT)
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
