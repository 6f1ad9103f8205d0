"""Files of data, as people have them, read into tables of numbers with names; and codes written to files."""

from dspnmf.io.errors import ReadError
from dspnmf.io.read import read
from dspnmf.io.table import Table
from dspnmf.io.write import write_codes

__all__ = ["ReadError", "Table", "read", "write_codes"]
