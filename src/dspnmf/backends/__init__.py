"""Where the samples live.

A Rows object owns X and the codes U. It can look at every row once, with a model of the objective it is handed
(`RowModel`), and returns small sums. It knows nothing of what the model means.
"""

from dspnmf.backends.memory import ArrayRows
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import Operator, RowModel, Slope, Sums

__all__ = ["ArrayRows", "Operator", "RowModel", "Rows", "Slope", "Sums"]
