"""Names for the kinds of arrays in signatures."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

Array: TypeAlias = npt.NDArray[np.floating]
Sparse: TypeAlias = sparse.csr_array
Matrix: TypeAlias = Array | Sparse
ArrayLike: TypeAlias = npt.ArrayLike | Sparse  # what users pass: arrays, data frames, lists, tensors, sparse arrays
