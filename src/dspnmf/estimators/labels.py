"""Labels as further columns of X: ``label_weight ||Y - U B||^2`` over the labelled rows is a second reconstruction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf._typing import Sparse
from dspnmf.backends.row_model import Block, Operator
from dspnmf.objective.terms import Reconstruction


class Labels(NamedTuple):
    """Which rows have a label, and which."""

    known: NDArray[np.bool_]
    classes: NDArray[Any]
    columns: NDArray[np.intp]  # the class of every labelled row

    def one_hot(self, scale: float, dtype: np.dtype[Any]) -> Sparse:
        """Y: a column a class, of the size X has in its unit; rows without a label are zero."""
        n, rows = len(self.known), np.flatnonzero(self.known)
        Y = sparse.csr_array((np.full(len(rows), scale), (rows, self.columns)), (n, len(self.classes)))
        return Y.astype(dtype)

    def mask(self) -> Operator:
        """The rows that count, as 1 less the mask of the others: its curvature is then the same for every row."""
        return Operator(sparse.diags_array((~self.known).astype(np.float64)).tocsr(), np.ones(len(self.known)))

    def term(self, block: Block, mask: int) -> Reconstruction:
        """``||Y - UB||^2`` over the labelled rows; `mask` is the index of that operator."""
        return Reconstruction(float(self.known.sum()), block, mask=mask)
