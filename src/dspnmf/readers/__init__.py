"""Files of data, as people have them, read into tables of numbers with names."""

from dspnmf.readers.table import Table

__all__ = ["Table"]
