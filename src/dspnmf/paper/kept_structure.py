"""How well codes keep the structure of a data set: what depends on the data alone is computed once for all runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from dspnmf import metrics
from dspnmf._typing import Array
from dspnmf.backends.norms import gram_norm2

_NEIGHBOURS = 10  # as in `dspnmf.metrics`


@dataclass(frozen=True)
class KeptStructure:
    """The structure of X; `measure` says how much of it codes keep, with the numbers that `dspnmf.metrics` gives."""

    X: Array
    gram_norm2: float  # ||XX'||^2
    neighbours: NDArray[np.intp]  # of every row, nearest first
    ranks: NDArray[np.int32]  # [i, j]: row j is the so many-th nearest to row i, from 1

    @classmethod
    def of(cls, X: Array) -> KeptStructure:
        """The structure of data with more than 20 rows."""
        distances = pairwise_distances(X)
        np.fill_diagonal(distances, np.inf)
        ranks = np.empty(distances.shape, np.int32)
        np.put_along_axis(ranks, np.argsort(distances, axis=1), np.arange(1, len(X) + 1, dtype=np.int32)[None], axis=1)
        return cls(X, gram_norm2(X), _neighbours(X), ranks)

    def measure(self, Z: Array) -> dict[str, float]:
        """Trustworthiness, neighbour recall and structure error of codes."""
        n, nearest = len(Z), _neighbours(Z)
        ahead = np.maximum(np.take_along_axis(self.ranks, nearest, axis=1) - _NEIGHBOURS, 0).sum()
        unit = 2.0 / (n * _NEIGHBOURS * (2.0 * n - 3.0 * _NEIGHBOURS - 1.0))
        return {
            "trustworthiness": float(1.0 - ahead * unit),
            "neighbour_recall": metrics.shared_neighbours(self.neighbours, nearest),
            "structure_error": metrics.structure_error(self.X, Z, gram=self.gram_norm2),
        }


def _neighbours(A: Array) -> NDArray[np.intp]:
    """The nearest neighbours of every row of A."""
    search = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(A)
    return np.asarray(search.kneighbors(return_distance=False))
