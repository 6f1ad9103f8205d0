"""Which backend an array belongs to.

Nothing the user did not bring is imported: a kind of array is known by the module its type comes from.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from dspnmf._typing import ArrayLike
from dspnmf._validation import refuse_anndata
from dspnmf.backends.memory import MEMORY
from dspnmf.backends.protocol import Backend

_MODULES = {  # where a type comes from -> the module here whose `backend_for` knows it
    "torch": "dspnmf.backends.tensors",
    "cupy": "dspnmf.backends.tensors",
    "dask": "dspnmf.backends.dask",
    "zarr": "dspnmf.backends.file",
    "h5py": "dspnmf.backends.file",
}


def backend_for(X: ArrayLike) -> Backend:
    """The backend of an array, in memory unless its type says otherwise."""
    refuse_anndata(X)
    module = "dspnmf.backends.file" if isinstance(X, np.memmap) else _MODULES.get(type(X).__module__.split(".")[0])
    if module is None:
        return MEMORY
    backend: Backend = import_module(module).backend_for(X)
    return backend
