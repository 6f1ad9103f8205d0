"""Data every test may ask for: small, real, min-max scaled as in the paper."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import minmax_scale


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    """1,797 x 64."""
    return minmax_scale(load_digits().data)


@pytest.fixture(scope="session")
def wine() -> np.ndarray:
    """178 x 13."""
    return minmax_scale(load_wine().data)


@pytest.fixture(scope="session")
def cancer() -> np.ndarray:
    """569 x 30."""
    return minmax_scale(load_breast_cancer().data)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of data files."""
    path = os.environ.get("DSPNMF_DATA")
    if not path:
        pytest.skip("set DSPNMF_DATA to the folder with COIL20.mat and Indian_pines_corrected.mat to run this test")
    return Path(path)


@pytest.fixture(scope="session")
def coil(data_folder: Path) -> np.ndarray:
    """COIL-20: 1,440 x 1,024."""
    return minmax_scale(loadmat(data_folder / "COIL20.mat")["fea"])
