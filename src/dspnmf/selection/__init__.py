"""Choosing rank and weight: grids, folds, speckled cells, paths, tables, and the estimator that uses them."""

from dspnmf.selection.search import DSPNMFCV

__all__ = ["DSPNMFCV"]
