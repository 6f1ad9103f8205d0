"""The family behind one scikit-learn interface."""

from dspnmf.estimators.dsp import DSPNMF, NMF

__all__ = ["DSPNMF", "NMF"]
