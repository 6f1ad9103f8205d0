"""Non-negative matrix factorization that keeps the shape of the data.

Submodules such as `dspnmf.plot` and `dspnmf.report` are imported on first use.
"""

from importlib import import_module
from types import ModuleType

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
    MiniBatchNMF,
    SymNMF,
    non_negative_factorization,
)
from dspnmf.persistence import load, save
from dspnmf.selection import DSPNMFCV, ConsensusNMF

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
    "ConsensusNMF",
    "MiniBatchNMF",
    "SymNMF",
    "__version__",
    "load",
    "non_negative_factorization",
    "save",
]
_SUBMODULES = (
    "anndata",
    "datasets",
    "graphs",
    "io",
    "metrics",
    "paper",
    "plot",
    "preprocessing",
    "report",
    "stability",
)


def __getattr__(name: str) -> ModuleType:
    """Import a submodule when it is first used, so that ``import dspnmf`` stays quick."""
    if name in _SUBMODULES:
        return import_module(f"dspnmf.{name}")
    raise AttributeError(f"module 'dspnmf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Every name of the package, with the submodules that are not imported yet."""
    return sorted({*globals(), *_SUBMODULES})
