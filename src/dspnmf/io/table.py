"""What `read` takes and returns: options, and a table of numbers with the names that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True)
class Table:
    """Samples x features, with names and columns that are not features.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        Numbers, of whatever sign the file has; NaN where a cell was empty. A NumPy array or a SciPy csr_array of
        float32 or float64; of more than 1 GiB a memory map, a Zarr array or an HDF5 dataset as it is in the file, which
        a fit reads in blocks.
    features : ndarray of str, shape (n_features,)
        Names of the features.
    index : ndarray of str, shape (n_samples,)
        Names of the samples: those of the file, or their numbers.
    index_name : str
        What the index is called; "" where the file has none.
    columns : mapping of str to ndarray of shape (n_samples,)
        Columns that are not features (labels, remarks), by name.
    label : str or None
        Which of `columns` holds the labels.
    grid : (int, int) or None
        Rows and columns of the map the samples were taken from, line by line (a cube of pixels x bands).
    picture : (int, int) or None
        Height and width of the image the features are the pixels of, line by line.
    assumed : tuple of str
        What the file does not say and was assumed, in words: its encoding, delimiter, decimal mark and so on.
    left_out : mapping of str to str
        Why columns of the file are not features, by name.
    units : tuple of str
        The unit of each feature, where a line of the file has them; else empty.
    lines : ndarray of int, shape (n_samples,), or None
        In which line of a text file each sample begins.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.io import Table
    >>> table = Table(np.eye(2), np.array(["a", "b"]), np.array(["0", "1"]))
    >>> table.labels is None
    True
    """

    X: Any
    features: NDArray[np.str_]
    index: NDArray[np.str_]
    index_name: str = ""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    label: str | None = None
    grid: tuple[int, int] | None = None
    picture: tuple[int, int] | None = None
    assumed: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    lines: NDArray[np.intp] | None = None

    @property
    def labels(self) -> NDArray[Any] | None:
        """The column of labels, if there is one."""
        return None if self.label is None else self.columns[self.label]

    @property
    def in_file(self) -> bool:
        """Whether X stays in its file, to be read in blocks: a memory map, a Zarr array, an HDF5 dataset."""
        return isinstance(self.X, np.memmap) or not (isinstance(self.X, np.ndarray) or sparse.issparse(self.X))


@dataclass(frozen=True)
class Options:
    """The options of `read`; see there."""

    label: str | None = None
    index: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    variable: str | None = None
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    skip_rows: int | None = None
    na: tuple[str, ...] = ()
    transpose: bool | None = None
