"""Data of any size, degenerate data, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dspnmf import DSPNMF, NMF

SOLVERS = ("newton-cg", "hals", "mm", "paper", "paper-appendix")


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float32, 1e-12), (np.float32, 1e12), (np.float64, 1e-120), (np.float64, 1e120), (np.float64, 3e-7)],
)
@pytest.mark.parametrize("solver", ["newton-cg", "hals", "mm"])
@pytest.mark.parametrize("init", ["random", "nndsvda"])
def test_units(dtype: Any, unit: float, solver: str, init: str, wine: np.ndarray) -> None:
    """Data in any unit give the same codes up to that unit (alpha scaled with it)."""
    X = wine.astype(dtype)
    one = DSPNMF(3, solver=solver, init=init, random_state=0, max_iter=15, tol=0)
    other = DSPNMF(3, alpha=1 / unit**2, solver=solver, init=init, random_state=0, max_iter=15, tol=0)
    Z, Y = one.fit_transform(X), other.fit_transform((X.astype(np.float64) * unit).astype(dtype))
    tolerance = 1e-2 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(Y.astype(np.float64) / unit, Z, rtol=tolerance, atol=tolerance * Z.max())
    assert Y.dtype == dtype
    assert np.isfinite(other.objective_history_).all()
    scaled = (X.astype(np.float64) * unit).astype(dtype)
    np.testing.assert_allclose(
        other.transform(scaled) / unit, one.transform(X), rtol=tolerance, atol=tolerance * Z.max()
    )


@pytest.mark.parametrize("unit", [1e-120, 1e120])
@pytest.mark.parametrize("cls", [DSPNMF, NMF])
def test_units_with_alpha_as_it_is(cls: type, unit: float, wine: np.ndarray) -> None:
    """Also with alpha left at 1, where one term dwarfs the other: finite codes, no warning."""
    Z = cls(3, random_state=0, max_iter=20, tol=0).fit_transform(wine * unit)
    assert np.isfinite(Z).all()
    assert (Z > 0).any()


DEGENERATE = {
    "all zero": np.zeros((6, 4)),
    "zero rows": np.vstack([np.zeros((2, 4)), np.ones((3, 4)), [[1, 2, 3, 4]]]),
    "zero columns": np.hstack([np.zeros((6, 2)), np.arange(12.0).reshape(6, 2)]),
    "constant": np.full((6, 4), 3.0),
    "one sample": np.array([[1.0, 2.0, 3.0]]),
    "one feature": np.array([[1.0], [2.0], [3.0]]),
    "one cell": np.array([[2.0]]),
    "duplicates": np.repeat(np.arange(8.0).reshape(2, 4), 3, axis=0),
    "integers": np.arange(24).reshape(6, 4),
    "one entry": np.eye(6, 4)[:, ::-1] * np.eye(6, 4),
    "huge spread": np.outer([1e-30, 1.0, 1e30], [1.0, 2.0]),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("k", [1, 2, 7])
def test_degenerate_data(name: str, solver: str, k: int) -> None:
    """Finite, non-negative results for every rank, never NaN, never a NumPy warning (warnings are errors here)."""
    X = DEGENERATE[name]
    for cls in (DSPNMF, NMF):
        for stored in (X, sparse.csr_matrix(X)):
            model = cls(k, solver=solver, random_state=0, max_iter=8, tol=0)
            Z = model.fit_transform(stored)
            for array in (Z, model.components_, model.transform(stored), model.objective_history_[1:]):
                assert np.isfinite(array).all()
                assert (array >= -1e-9 * max(model.objective_history_[0], 1)).all()
            assert Z.min() >= 0
            assert np.isfinite(model.reconstruction_err_)


def test_layouts_are_left_alone(wine: np.ndarray) -> None:
    """Read-only, Fortran and strided X give the same fit, and X is never written to."""
    expected = DSPNMF(3, random_state=0, max_iter=10, tol=0).fit_transform(wine)
    locked = wine.copy()
    locked.flags.writeable = False
    strided = np.repeat(wine, 2, axis=1)[:, ::2]
    for X in (locked, np.asfortranarray(wine), strided):
        before = X.copy()
        Z = DSPNMF(3, random_state=0, max_iter=10, tol=0).fit_transform(X)
        np.testing.assert_allclose(Z, expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_array_equal(X, before)


def test_float32_stays_float32(wine: np.ndarray) -> None:
    """Codes, components and transform have the precision of X; the history is float64."""
    model = DSPNMF(3, random_state=0)
    Z = model.fit_transform(wine.astype(np.float32))
    assert Z.dtype == model.components_.dtype == model.transform(wine.astype(np.float32)).dtype == np.float32
    assert model.inverse_transform(Z).dtype == np.float32
    assert model.objective_history_.dtype == np.float64


GOOD = np.ones((5, 4))
BAD_DATA = [
    (
        np.where(np.arange(20).reshape(5, 4) == 13, -0.5, GOOD),
        r"Negative values .*X\[3, 1\] = -0.5.*MinMaxScaler\(clip=True\)",
    ),
    (
        np.where(np.arange(20).reshape(5, 4) == 6, np.nan, GOOD),
        r"contains NaN, first at X\[1, 2\] = nan.*SimpleImputer",
    ),
    (np.where(np.arange(20).reshape(5, 4) == 7, np.inf, GOOD), r"contains infinity, first at X\[1, 3\] = inf"),
    (sparse.csr_matrix(np.where(np.arange(20).reshape(5, 4) == 13, -0.5, 0)), r"Negative values .*X\[3, 1\] = -0.5"),
    (np.ones(5), "Expected 2D array, got 1D array"),
    (np.empty((0, 4)), "0 sample"),
    (np.empty((4, 0)), "0 feature"),
    (np.array([["a", "b"]]), "could not convert string to float|string"),
    (GOOD + 1j, "Complex data not supported"),
]


@pytest.mark.parametrize(("X", "text"), BAD_DATA)
@pytest.mark.parametrize("cls", [DSPNMF, NMF])
def test_bad_data(cls: type, X: Any, text: str) -> None:
    """Every kind of bad X is refused with a message that names the cell and the fix."""
    with pytest.raises(ValueError, match=text):
        cls(2).fit(X)


BAD_PARAMETERS = [
    ({"n_components": 0}, r"n_components=0 is not allowed in DSPNMF: it must be a whole number >= 1"),
    ({"n_components": 2.5}, "n_components=2.5"),
    ({"n_components": "all"}, "n_components='all' .* one of 'auto' or None"),
    ({"n_components": True}, "n_components=True"),
    ({"alpha": -1.0}, "alpha=-1.0 .* a finite number >= 0"),
    ({"alpha": np.nan}, "alpha=nan"),
    ({"lam": 0.0}, "lam=0.0 .* a finite number > 0"),
    ({"solver": "als"}, "solver='als' .* one of 'auto', 'newton-cg', 'hals', 'mm', 'paper', .*'cd', 'mu'"),
    ({"init": "svd"}, "init='svd' .* one of 'random'"),
    ({"n_init": 0}, "n_init=0"),
    ({"max_iter": -3}, "max_iter=-3"),
    ({"tol": -1e-3}, "tol=-0.001"),
    ({"inner_iter": "many"}, "inner_iter='many' .* one of 'auto' or a whole number >= 1"),
    ({"inner_iter": 0}, "inner_iter=0"),
    ({"normalize": "yes"}, "normalize='yes' .* True or False"),
    ({"verbose": -1}, "verbose=-1"),
    ({"random_state": "seed"}, "cannot be used to seed"),
]


@pytest.mark.parametrize(("parameters", "text"), BAD_PARAMETERS)
def test_bad_parameters(parameters: dict[str, Any], text: str) -> None:
    """Every bad parameter is named with its value, what is allowed, and how to set it."""
    with pytest.raises(ValueError, match=text):
        DSPNMF(**{"n_components": 2, **parameters}).fit(GOOD)


W, H = np.ones((5, 2)), np.ones((2, 4))
BAD_STARTS = [
    ({"W": W}, 'H=None, but init="custom" needs both'),
    ({"W": W[:4], "H": H}, r"W has shape \(4, 2\).*must have shape \(5, 2\)"),
    ({"W": W, "H": H.T}, r"H has shape \(4, 2\).*must have shape \(2, 4\)"),
    ({"W": -W, "H": H}, "W .*must hold finite numbers >= 0"),
    ({"W": W, "H": H * np.nan}, "H .*must hold finite numbers >= 0"),
    ({"W": W * 0, "H": H}, "W is all zeros"),
]


@pytest.mark.parametrize(("start", "text"), BAD_STARTS)
def test_bad_starts(start: dict[str, Any], text: str) -> None:
    """Wrong shapes, signs and values of W and H are refused before any work."""
    with pytest.raises(ValueError, match=text):
        DSPNMF(2, init="custom").fit(GOOD, **start)


def test_start_that_would_be_ignored() -> None:
    """W and H without init="custom" are an error, not a surprise."""
    with pytest.raises(ValueError, match="init='random' would ignore it"):
        DSPNMF(2).fit(GOOD, W=W, H=H)


def test_nndsvd_rank() -> None:
    """NNDSVD cannot start more components than the SVD has."""
    with pytest.raises(ValueError, match=r"min\(n_samples, n_features\) = 4, but n_components=5"):
        DSPNMF(5, init="nndsvd").fit(GOOD)


def test_other_features_and_codes() -> None:
    """A transform wants the features of the fit, inverse_transform the components."""
    model = DSPNMF(2, random_state=0).fit(GOOD)
    with pytest.raises(ValueError, match="X has 3 features, but DSPNMF is expecting 4 features"):
        model.transform(GOOD[:, :3])
    with pytest.raises(ValueError, match="Z has 3 columns, but this model has 2 components"):
        model.inverse_transform(np.ones((5, 3)))


@pytest.mark.parametrize("solver", ["auto", "hals"])
@pytest.mark.parametrize("outlier", [100.0, 1e4, 1e6])
@pytest.mark.parametrize("k", [8, 12])
def test_float32_with_an_outlier(solver: str, outlier: float, k: int) -> None:
    """Components that die in float32 stay finite: what is left of their sums is rounding, and is not divided by."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 3)) @ rng.random((3, 8)) + 0.05 * rng.random((40, 8))
    X[0] *= outlier
    for seed in range(4):
        model = DSPNMF(k, solver=solver, random_state=seed, tol=0, max_iter=60).fit(X.astype(np.float32))
        assert np.isfinite(model.components_).all()
        assert model.components_.max() < 1e8


def test_zeros_in_float32() -> None:
    """No warning where the curvature vanishes in single precision."""
    assert not DSPNMF(3).fit_transform(np.zeros((40, 8), np.float32)).any()


def test_extreme_weights(wine: np.ndarray) -> None:
    """Weights at the ends of the range of numbers work or are refused clearly."""
    assert np.isfinite(DSPNMF(2, alpha=1e-310, max_iter=5, tol=0, random_state=0).fit_transform(100 * wine)).all()
    with pytest.raises(ValueError, match="is not a finite number: scale X"):
        DSPNMF(2, alpha=1e308).fit(100 * wine)
