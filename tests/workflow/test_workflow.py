"""What the command line does with a table, where a file would have to be too large for the tests."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from dspnmf._validation import ParameterError
from dspnmf.io import Table
from dspnmf.workflow import fit_table, model_of, output_folder, write_fit
from dspnmf.workflow.result_files import FIT_FILES


def npy(X: np.ndarray, folder: Path) -> Any:
    """A memory map."""
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def zarr_array(X: np.ndarray, folder: Path) -> Any:
    """A Zarr array."""
    A = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(50, X.shape[1]), dtype=X.dtype)
    A[:] = X
    return A


def hdf5(X: np.ndarray, folder: Path) -> Any:
    """An HDF5 dataset."""
    return h5py.File(folder / "x.h5", "w").create_dataset("X", data=X, chunks=(50, X.shape[1]))


@pytest.mark.parametrize("store", [npy, zarr_array, hdf5])
def test_data_that_stay_in_their_file(store: Callable[..., Any], tmp_path: Path) -> None:
    """They are not scaled, and give the codes, the numbers and the page that the same data in memory give."""
    X = np.random.default_rng(0).random((300, 6))
    names = np.array([f"x{j}" for j in range(6)]), np.arange(300).astype(str)
    kept, held = Table(store(X, tmp_path), *names), Table(X, *names)
    assert kept.in_file
    assert not held.in_file
    results = [fit_table(table, model_of("DSPNMF", {"n_components": 2, "random_state": 0, "solver": "hals"}), "none")
               for table in (kept, held)]  # fmt: skip
    np.testing.assert_allclose(results[0].codes, results[1].codes, rtol=1e-6, atol=1e-9)
    for name in ("reconstruction_error", "structure_error", "neighbour_recall"):
        assert results[0].facts[name] == pytest.approx(results[1].facts[name], rel=1e-6)
    assert fit_table(kept, model_of("NMF", {"n_components": 2, "random_state": 0})).scale == "none"
    with output_folder(tmp_path / "out", FIT_FILES) as folder:
        write_fit(results[0], folder, {"data": "x", "scale": "none", "read": {}})
    assert (tmp_path / "out" / "report.html").is_file()
    with pytest.raises(ValueError, match="would load them"):
        fit_table(kept, model_of("NMF", {"n_components": 2}), "minmax")


def test_parameter_errors_cross_processes() -> None:
    """An error that names a parameter keeps message and name where a worker process sends it."""
    error = pickle.loads(pickle.dumps(ParameterError("alpha=-1 is not allowed.", "alpha")))
    assert (str(error), error.parameter) == ("alpha=-1 is not allowed.", "alpha")


def test_methods_share_the_label_weight() -> None:
    """Every method that learns from labels takes the weight as label_weight."""
    for method in ("DSPNMF", "GDNMF"):
        assert model_of(method, {"label_weight": 2.5}).label_weight == 2.5
