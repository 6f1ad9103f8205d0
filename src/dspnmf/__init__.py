"""Non-negative matrix factorization that keeps the shape of the data."""

from dspnmf.estimators import (
    DSPNMF,
    FRNMF,
    GDNMF,
    GNMF,
    NMF,
    NPE,
    NPNMF,
    NSNMF,
    ONMF,
    SDNMF,
    SPNMF,
    SymNMF,
)
from dspnmf.persistence import load, save
from dspnmf.selection import DSPNMFCV

__version__ = "0.1.0.dev0"
__all__ = [
    "DSPNMF",
    "DSPNMFCV",
    "FRNMF",
    "GDNMF",
    "GNMF",
    "NMF",
    "NPE",
    "NPNMF",
    "NSNMF",
    "ONMF",
    "SDNMF",
    "SPNMF",
    "SymNMF",
    "__version__",
    "load",
    "save",
]
