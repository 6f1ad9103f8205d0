"""The methods of the paper's comparison, by name, with the parameters they are run with.

Manifold methods come from scikit-learn and umap-learn; umap-learn is imported when UMAP is made.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from sklearn.base import BaseEstimator
from sklearn.manifold import Isomap, LocallyLinearEmbedding, SpectralEmbedding
from sklearn.preprocessing import FunctionTransformer

from dspnmf import DSPNMF, FRNMF, GNMF, NMF, NPE, NPNMF, NSNMF, ONMF, SDNMF, SPNMF, SymNMF

_NEIGHBOURS = 5  # of every graph and manifold method, as in the paper's GNMF


def methods() -> dict[str, Callable[[int, int], BaseEstimator]]:
    """Map from names to functions that take rank and seed and return an estimator with `fit_transform`.

    >>> methods()["DSP-NMF"](3, 0)
    DSPNMF(n_components=3, normalize=True, random_state=0)
    """
    return {
        "DSP-NMF": lambda k, seed: DSPNMF(k, normalize=True, random_state=seed),
        "DSP-NMF (diffused)": lambda k, seed: DSPNMF(k, similarity="diffused", normalize=True, random_state=seed),
        "DSP-NMF (clustering)": lambda k, seed: DSPNMF(
            k, similarity="diffused", n_neighbors=6, diffusion_steps=512, alpha=100.0, normalize=True, random_state=seed
        ),
        "DSP-NMF (auto weight)": lambda k, seed: DSPNMF(k, alpha="auto", normalize=True, random_state=seed),
        "DSP-NMF (printed rule)": lambda k, seed: DSPNMF(
            k, lam=1e3, solver="paper", max_iter=100, tol=0, normalize=True, random_state=seed
        ),
        "NMF": lambda k, seed: NMF(k, normalize=True, random_state=seed),
        "GNMF": lambda k, seed: GNMF(k, n_neighbors=_NEIGHBOURS, random_state=seed),
        "GNMF (published rule)": lambda k, seed: GNMF(
            k, n_neighbors=_NEIGHBOURS, solver="paper", max_iter=500, tol=0, random_state=seed
        ),
        "SymNMF": lambda k, seed: SymNMF(k, random_state=seed),
        "SDNMF": lambda k, seed: SDNMF(k, random_state=seed),
        "NS-NMF": lambda k, seed: NSNMF(k, normalize=True, random_state=seed),
        "ONMF": lambda k, seed: ONMF(k, normalize=True, random_state=seed),
        "SPNMF": lambda k, seed: SPNMF(k, random_state=seed),
        "NPNMF": lambda k, seed: NPNMF(k, random_state=seed),
        "FR-NMF": lambda k, seed: FRNMF(k, normalize=True, random_state=seed),
        "NPE": lambda k, seed: NPE(k),
        "UMAP": _umap,
        "LLE": lambda k, seed: LocallyLinearEmbedding(
            n_components=k, n_neighbors=max(_NEIGHBOURS, k + 1), eigen_solver="dense", random_state=seed
        ),
        "SE": lambda k, seed: SpectralEmbedding(n_components=k, random_state=seed),
        "Isomap": lambda k, seed: Isomap(n_components=k, n_neighbors=_NEIGHBOURS),
        "All": lambda k, seed: FunctionTransformer(),
    }


def _umap(k: int, seed: int) -> BaseEstimator:
    """UMAP with its defaults."""
    try:
        umap = import_module("umap")
    except ImportError as error:
        raise ImportError('UMAP needs umap-learn: install it with pip install "dspnmf[paper]".') from error
    return umap.UMAP(n_components=k, random_state=seed, n_jobs=1)
