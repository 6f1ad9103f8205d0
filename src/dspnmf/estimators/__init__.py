"""The family behind one scikit-learn interface, and what an estimator of your own is made of."""

from dspnmf.estimators.base import Problem
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.estimators.frnmf import FRNMF
from dspnmf.estimators.gdnmf import GDNMF
from dspnmf.estimators.gnmf import GNMF
from dspnmf.estimators.minibatchnmf import MiniBatchNMF
from dspnmf.estimators.nmf import NMF
from dspnmf.estimators.non_negative_factorization import non_negative_factorization
from dspnmf.estimators.npe import NPE
from dspnmf.estimators.npnmf import NPNMF
from dspnmf.estimators.nsnmf import NSNMF
from dspnmf.estimators.onmf import ONMF
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.sdnmf import SDNMF
from dspnmf.estimators.spnmf import SPNMF
from dspnmf.estimators.symnmf import SymNMF

__all__ = [
    "DSPNMF",
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
    "ComponentFactorization",
    "MiniBatchNMF",
    "Problem",
    "SymNMF",
    "non_negative_factorization",
    "parameter",
]
