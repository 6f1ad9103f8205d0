"""Arrays and small files that the tests of `dspnmf.io` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image
from scipy import sparse

from dspnmf.io import Table

X = np.random.default_rng(0).random((6, 4)).round(2)
THIN = sparse.csr_array(np.where(X > 0.5, X, 0))


def dense(table: Table) -> np.ndarray:
    """X of a table as an array."""
    return table.X.toarray() if sparse.issparse(table.X) else table.X


def write_hdf5(path: Path, **content: Any) -> Path:
    """An HDF5 file of arrays."""
    with h5py.File(path, "w") as file:
        for name, array in content.items():
            file[name] = array
    return path


def save_images(folder: Path, **images: np.ndarray) -> None:
    """Images by their names, with two underscores for a slash."""
    for name, pixels in images.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
