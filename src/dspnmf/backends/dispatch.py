"""Kinds of arrays a user may bring, and what each means: how it is checked, which Rows hold it, what comes back.

Nothing the user did not bring is imported: a kind is known by the module its type comes from. A checked X is a NumPy
array or CSR matrix (in memory), or whatever the place's Rows take.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from dspnmf import _validation
from dspnmf.backends.incomplete import Incomplete, IncompleteRows
from dspnmf.backends.memory import ArrayRows
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import Array


class Place:
    """Memory: NumPy arrays, SciPy sparse matrices, data frames, lists. Other places say what differs."""

    name = "in memory"
    whole_family = True  # whether methods that need a graph or all of X at once work here
    solvers: tuple[str, ...] | None = None  # those that work here; None: all

    def storing(self, path: Path | None) -> Place:
        """The same place for a fit whose codes go to a file (None: they do not); an error where they cannot."""
        return self

    def check(self, estimator: Any, X: Any, *, reset: bool) -> tuple[Any, float]:
        """X as its Rows take it, non-negative and finite; and its largest entry."""
        X, largest = _validation.check_data(estimator, X, reset=reset)
        return Incomplete(X, INCOMPLETE) if _validation.has_missing(estimator, X) else X, largest

    def rows(self, X: Any, k: int, scale: float) -> Rows:
        """Rows of a checked X."""
        return ArrayRows(X, k, scale)

    def scaled(self, codes: Any, factor: float) -> Any:
        """Codes of a start, times a number."""
        codes *= factor
        return codes

    def in_units(self, codes: Any, unit: Array) -> Any:
        """Codes times a unit for every component."""
        codes *= unit.astype(codes.dtype)
        return codes

    def codes(self, codes: Any) -> Any:
        """Codes as the user gets them."""
        return codes

    def components(self, V: Array) -> Any:
        """Components as the user gets them."""
        return V

    def samples(self, Z: Any, V: Any) -> Any:
        """``Z V``, where the user's codes Z live."""
        Z = check_array(Z, accept_sparse="csr", dtype=[np.float64, np.float32])
        _validation.check_codes(Z, len(V))
        return np.asarray(Z @ on_host(V))


class IncompletePlace(Place):
    """Memory, with missing cells."""

    def rows(self, X: Any, k: int, scale: float) -> Rows:
        """Rows that complete them."""
        return IncompleteRows(X, k, scale)


MEMORY = Place()
INCOMPLETE = IncompletePlace()


def on_host(V: Any) -> Array:
    """Components as a NumPy array, wherever they live: tensors and CuPy arrays know the way."""
    for way in ("cpu", "get"):
        V = getattr(V, way)() if hasattr(V, way) else V
    return np.asarray(V)


_MODULES = {  # where a type comes from -> the module here whose `place_of` knows it
    "torch": "dspnmf.backends.tensors",
    "cupy": "dspnmf.backends.tensors",
    "dask": "dspnmf.backends.dask",
    "zarr": "dspnmf.backends.file",
    "h5py": "dspnmf.backends.file",
}


def place_of(X: Any) -> Place:
    """Where X lives."""
    module = "dspnmf.backends.file" if isinstance(X, np.memmap) else _MODULES.get(type(X).__module__.split(".")[0])
    place: Place = MEMORY if module is None else import_module(module).place_of(X)
    return place


def as_rows(X: Any, k: int, scale: float = 1.0) -> Rows:
    """Rows of a checked X, wherever it lives; data of our own say so themselves."""
    place: Place = getattr(X, "place", None) or place_of(X)
    return place.rows(X, k, scale)
