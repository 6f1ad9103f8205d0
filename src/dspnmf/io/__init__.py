"""Files of data, as people have them, read into tables of numbers with names."""

from dspnmf.io.codes import write_codes
from dspnmf.io.errors import ReadError
from dspnmf.io.reading import read
from dspnmf.io.table import Table

__all__ = ["ReadError", "Table", "read", "write_codes"]
