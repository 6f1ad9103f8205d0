"""Files of data, as people have them, read into tables of numbers with names."""

from dspnmf.readers.codes import write_codes
from dspnmf.readers.errors import ReadError
from dspnmf.readers.reading import read
from dspnmf.readers.table import Table

__all__ = ["ReadError", "Table", "read", "write_codes"]
