"""Names for the kinds of arrays that signatures speak of."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating]
Sparse: TypeAlias = Any  # SciPy's CSR (SciPy ships no types)
Matrix: TypeAlias = Any  # a NumPy array, or SciPy's CSR
SmallArray: TypeAlias = Any  # k x k or m x k, float64: a NumPy array, or a tensor where rows keep them on a device
Scalar: TypeAlias = Any  # a float, or a tensor without dimensions
Codes: TypeAlias = Any  # codes as the Rows of a backend hold them: n x k, k x n on a device, futures on a cluster
ArrayLike: TypeAlias = Any  # what users may pass as X, W, H, y: arrays, data frames, lists, tensors, Dask arrays ...
