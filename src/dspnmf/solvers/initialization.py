"""Where a fit begins: random, the NNDSVD family, or given.

A start follows from one seed, whatever the data are stored in and wherever, so every backend begins at the same point.
Codes are then scaled by the factor that is best for the similarity term, if there is one (`Objective.best_scale`).
"""

from __future__ import annotations

import numpy as np

from dspnmf._typing import Array
from dspnmf.backends.protocol import Data
from dspnmf.backends.row_model import RandomCodes


def random(
    shape: tuple[int, int], k: int, mean: float, rng: np.random.RandomState, dtype: np.dtype[np.floating]
) -> tuple[RandomCodes, Array]:
    """Entries with the size of ``sqrt(mean(X) / k)``: codes for rows to draw, and V' (m x k) in float64."""
    size = np.sqrt(mean / k)
    Vt = size * np.abs(rng.standard_normal((shape[1], k)))
    return RandomCodes(int(rng.randint(2**63 - 1, dtype=np.int64)), size, k, dtype), Vt


def nndsvd(X: Data, k: int, fill: str, mean: float, scale: float, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Non-negative double SVD of ``X / scale`` (Boutsidis & Gallopoulos, Pattern Recognition 41(4), 2008).

    Of every singular pair the half (positive or negative part) with more weight is kept. `fill` says what stands in for
    zeros: nothing (""), ``sqrt(mean / k)`` ("a") or random numbers a hundredth of that ("ar").
    """
    left, singular, right = X.singular_vectors(k, rng)
    singular = singular.astype(np.float64) / scale
    U, Vt = np.zeros((X.shape[0], k)), np.zeros((X.shape[1], k))
    for a in range(len(singular)):
        u, v = left[:, a].astype(np.float64), right[a].astype(np.float64)
        if a == 0:
            u, v = np.abs(u), np.abs(v)
        halves = [(np.maximum(sign * u, 0), np.maximum(sign * v, 0)) for sign in (1, -1)]
        u, v = max(halves, key=lambda half: float(np.linalg.norm(half[0]) * np.linalg.norm(half[1])))
        norm_u, norm_v = np.linalg.norm(u), np.linalg.norm(v)
        if norm_u * norm_v > 0:
            U[:, a] = np.sqrt(singular[a] * norm_u * norm_v) * u / norm_u
            Vt[:, a] = np.sqrt(singular[a] * norm_u * norm_v) * v / norm_v
    if fill:
        size = np.sqrt(mean / k)
        for factor in (U, Vt):
            empty = factor <= 1e-6 * size
            factor[empty] = size if fill == "a" else np.abs(size * rng.standard_normal(int(empty.sum())) / 100)
    return U.astype(X.dtype), Vt
