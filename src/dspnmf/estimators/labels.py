"""Labels as further columns of X: ``b ||Y - U B||^2`` over the labelled rows is a second reconstruction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf._validation import check_labels
from dspnmf.backends import Operator
from dspnmf.backends.row_model import Array
from dspnmf.objective.terms import Reconstruction


class Labels(NamedTuple):
    """Which rows have a label, and which."""

    known: NDArray[np.bool_]
    classes: NDArray[Any]
    columns: NDArray[np.intp]  # the class of every labelled row

    @classmethod
    def of(cls, y: Any, n: int) -> Labels:
        """Labels of n rows; -1 is unknown, and None knows none."""
        return cls(*check_labels(y, n))

    def one_hot(self, scale: float, dtype: Any) -> Any:
        """Y: a column a class, of the size X has in its unit; rows without a label are zero."""
        n, rows = len(self.known), np.flatnonzero(self.known)
        Y = sparse.csr_array((np.full(len(rows), scale), (rows, self.columns)), (n, len(self.classes)))
        return Y.astype(dtype)

    def mask(self) -> Operator:
        """The rows that count, as 1 less the mask of the others: its curvature is then the same for every row."""
        return Operator(sparse.diags_array((~self.known).astype(np.float64)).tocsr(), np.ones(len(self.known)))

    def term(self, first: int, operator: int) -> Reconstruction:
        """``||Y - UB||^2`` where Y's columns begin at `first`."""
        return Reconstruction(float(self.known.sum()), features=slice(first, None), mask=operator)


def beside(X: Any, Y: Any) -> Any:
    """X and Y side by side, sparse where X is."""
    return sparse.csr_array(sparse.hstack([X, Y])) if sparse.issparse(X) else np.hstack([X, Y.toarray()])


def label_components(Vt: Array, classes: NDArray[Any], unit: Array) -> Array:
    """B for codes in the user's unit, from the last rows of V'."""
    return Vt[len(Vt) - len(classes) :].T / unit[:, None]
