"""Where the samples are: in memory, in a file, on a CUDA device, in a Dask array.

`dispatch.backend_for` finds the backend of an array; `protocol` says what backends, their data and their rows offer.
"""

from dspnmf.backends.dispatch import backend_for
from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.protocol import Backend, Data, Rows
from dspnmf.backends.row_model import Block, Operator, RowModel, Slope, Sums

__all__ = ["Backend", "Block", "Data", "MemoryRows", "Operator", "RowModel", "Rows", "Slope", "Sums", "backend_for"]
