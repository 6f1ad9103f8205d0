"""The family behind one scikit-learn interface."""

from dspnmf.estimators.dsp import DSPNMF
from dspnmf.estimators.feature import FRNMF
from dspnmf.estimators.graph import GNMF, NPNMF
from dspnmf.estimators.labels import GDNMF
from dspnmf.estimators.linear import NPE
from dspnmf.estimators.orthogonal import ONMF
from dspnmf.estimators.plain import NMF
from dspnmf.estimators.selection import DSPNMFCV
from dspnmf.estimators.separated import SPNMF
from dspnmf.estimators.symmetric import NSNMF, SymNMF
from dspnmf.estimators.transport import SDNMF

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
]
