"""Non-negative matrix factorization that keeps the shape of the data."""

from dspnmf.estimators import DSPNMF, NMF

__version__ = "0.1.0.dev0"
__all__ = ["DSPNMF", "NMF", "__version__"]
