"""The paper's data sets, min-max scaled; the two that come from files only where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import minmax_scale


def folder() -> Path | None:
    """Where the data files are: the environment variable DSPNMF_DATA."""
    path = os.environ.get("DSPNMF_DATA")
    return Path(path) if path else None


def real() -> dict[str, np.ndarray]:
    """Name -> X (samples x features, every feature in [0, 1])."""
    sets = {"BC": load_breast_cancer().data, "Wine": load_wine().data, "Digits": load_digits().data}
    data = folder()
    if data is not None and (data / "COIL20.mat").exists():
        sets["COIL20"] = loadmat(data / "COIL20.mat")["fea"]
    if data is not None and (data / "Indian_pines_corrected.mat").exists():
        cube = loadmat(data / "Indian_pines_corrected.mat")["indian_pines_corrected"]
        labels = loadmat(data / "Indian_pines_gt.mat")["indian_pines_gt"].ravel()
        rng = np.random.default_rng(0)
        kept = []
        for label in range(1, 17):
            pixels = np.flatnonzero(labels == label)
            if len(pixels) >= 390:
                kept.append(rng.choice(pixels, round(0.2 * len(pixels)), replace=False))
        sets["IndianPines"] = cube.reshape(-1, cube.shape[2])[np.sort(np.concatenate(kept))].astype(np.float64)
    return {name: minmax_scale(X) for name, X in sets.items()}


def synthetic() -> np.ndarray:
    """6,000 samples x 200 features of rank 20 with noise: "syn" of the solver's reference figures."""
    rng = np.random.default_rng(0)
    left, right = rng.random((200, 20)) ** 3, rng.random((20, 6000)) ** 3
    return np.ascontiguousarray((left @ right + 0.05 * rng.random((200, 6000))).T)
