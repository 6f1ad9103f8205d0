"""Labels as further columns of X: ``label_weight ||Y - U B||^2`` over the labelled rows is a second reconstruction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspnmf._typing import Array, Sparse
from dspnmf.backends.row_model import Block, Operator
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction

if TYPE_CHECKING:
    from dspnmf.estimators.base import Problem


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


def learned_labels(problem: Problem, s: State, unit: Array) -> dict[str, Any]:
    """Fitted attributes of a fit with labels: the classes, and B for codes in the user's unit."""
    labels: Labels | None = problem.details.get("labels")
    if labels is None:
        return {}
    columns = problem.data.block("labels").columns
    return {"classes_": labels.classes, "label_components_": s.Vt[columns].T / unit[:, None]}
