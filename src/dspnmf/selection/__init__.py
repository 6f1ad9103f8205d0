"""Choosing rank and weights by cross-validation: `DSPNMFCV`; components that many starts agree on: `ConsensusNMF`.

`consensus` groups the components of many runs; `candidates` are the settings to choose from, `fits` the models fitted
to folds, `held_out_rows` and `held_out_cells` score them, `results` tabulates the scores.
"""

from dspnmf.selection.consensusnmf import ConsensusNMF
from dspnmf.selection.dspnmfcv import DSPNMFCV

__all__ = ["DSPNMFCV", "ConsensusNMF"]
