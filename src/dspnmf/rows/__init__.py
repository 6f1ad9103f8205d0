"""Where the samples live.

A Rows object owns X and the codes U. It can look at every row once, with a model of the objective it is handed
(`RowModel`), and returns small sums. It knows nothing of what the model means.
"""

from dspnmf.rows._model import Operator, RowModel, Slope, Sums
from dspnmf.rows._protocol import Rows
from dspnmf.rows.array import ArrayRows

__all__ = ["ArrayRows", "Operator", "RowModel", "Rows", "Slope", "Sums"]
