"""Scaling follows what the data are: one number for data in one unit, one for every feature otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.utils.estimator_checks import parametrize_with_checks

import dspnmf
from dspnmf.io import Table, read
from dspnmf.preprocessing import CommonScaler
from dspnmf.workflow import fit_table, model_of, write_fit
from dspnmf.workflow.scaling import suitable_scale

RNG = np.random.default_rng(0)
MIXED = RNG.random((20, 8)) * np.geomspace(0.1, 1000, 8)
COUNTS = RNG.poisson(1.0, (20, 8)).astype(float)


def named(X: Any, names: list[str] | None = None, **more: Any) -> Table:
    """A table with these names of features."""
    m = X.shape[1]
    return Table(X, np.array(names or [f"f{j}x" for j in range(m)]), np.arange(X.shape[0]).astype(str), **more)


@pytest.mark.parametrize(
    ("table", "scale", "because"),
    [
        (named(MIXED), "minmax", "may differ"),
        (named(MIXED, [f"{400 + 2 * j}" for j in range(8)]), "common", "numbers along an axis"),
        (named(MIXED, [f"{4000 - 7.5 * j} nm" for j in range(8)]), "common", "numbers along an axis"),
        (named(MIXED, [f"X{400 + j}.5" for j in range(8)]), "common", "numbers along an axis"),
        (named(MIXED, [f"V{1 + j}" for j in range(8)]), "minmax", "may differ"),
        (named(MIXED, [f"pixel_{j}" for j in range(8)]), "common", "numbered as pixels"),
        (named(MIXED, [f"f{j} (cm)" for j in range(8)]), "common", "unit cm"),
        (named(MIXED, [f"f{j} [{'cm' if j else 'g'}]" for j in range(8)]), "minmax", "may differ"),
        (named(MIXED, units=("g",) * 8), "common", "unit g"),
        (named(MIXED, units=("g",) * 7 + ("cm",)), "minmax", "may differ"),
        (named(MIXED, picture=(2, 4)), "common", "pixels"),
        (named(MIXED, grid=(4, 5)), "common", "bands"),
        (named(COUNTS), "common", "counts"),
        (named(COUNTS + 20), "minmax", "may differ"),
        (named(sparse.csr_array(COUNTS)), "common", "sparse"),
        (named(MIXED, [f"x{j}" for j in range(8)]), "minmax", "may differ"),
        (named(RNG.random((20, 8)) + 1, [f"x{j}" for j in range(8)]), "common", "similar size"),
        (named(MIXED - 0.5, [f"{400 + 2 * j}" for j in range(8)]), "common", "numbers along an axis"),
        (named(MIXED - 500, [f"{400 + 2 * j}" for j in range(8)]), "minmax", "negative"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_suitable_scale(table: Table, scale: str, because: str) -> None:
    """The choice is that for the data, and says why."""
    chosen, why = suitable_scale(table)
    assert chosen == scale
    assert because in why


def spectra() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mixtures of three spectra with bands of unlike height, their noise, and the wave lengths."""
    rng, waves = np.random.default_rng(1), np.linspace(400, 700, 120)
    peaks = ((430, 20, 1.0), (470, 25, 0.7), (520, 20, 0.4))  # most wave lengths are far from all of them
    truth = np.array([h * np.exp(-(((waves - at) / width) ** 2)) for at, width, h in peaks])
    X = rng.dirichlet(np.ones(3) * 0.4, 150) @ truth
    return np.maximum(X + 0.003 * rng.standard_normal(X.shape), 0), truth, waves


def least_cosine(V: np.ndarray, truth: np.ndarray) -> float:
    """Of the components with the spectra they are matched to."""
    cosines = V @ truth.T / np.outer(np.linalg.norm(V, axis=1), np.linalg.norm(truth, axis=1))
    return float(cosines[linear_sum_assignment(-cosines)].min())


def test_spectra_are_recovered(tmp_path: Path) -> None:
    """By default the components of mixed spectra, read from a file, are the pure ones (cosines of 0.98 and more)."""
    X, truth, waves = spectra()
    pd.DataFrame(X, columns=[f"{wave:.1f}" for wave in waves]).to_csv(tmp_path / "spectra.csv", index=False)
    result = fit_table(read(tmp_path / "spectra.csv"), model_of("NMF", {"n_components": 3, "random_state": 0}))
    assert result.scale == "common"
    write_fit(result, tmp_path, {"data": "", "scale": result.scale, "read": {}})
    V = read(tmp_path / "components.csv", index="component").X
    assert least_cosine(V, truth) >= 0.98
    each = fit_table(read(tmp_path / "spectra.csv"), model_of("NMF", {"n_components": 3, "random_state": 0}), "minmax")
    assert least_cosine(each.pipeline[-1].components_, truth) < 0.95  # what is lost where noise becomes as large
    Z = result.codes  # components are in the unit of the data
    assert np.linalg.norm(X - Z @ V) <= 0.1 * np.linalg.norm(X)


@parametrize_with_checks([CommonScaler()])
def test_common_scaler_is_a_transformer(estimator: Any, check: Any) -> None:
    """All of scikit-learn's checks of estimators."""
    check(estimator)


def test_common_scaler(tmp_path: Path) -> None:
    """One number for all features, of dense and sparse data with missing cells; it is saved within a pipeline."""
    X = np.array([[1.0, np.nan], [-2.0, 4.0]])
    np.testing.assert_array_equal(CommonScaler().fit_transform(X), X / 4)
    np.testing.assert_array_equal(CommonScaler(2.0, clip=True).fit_transform(X), [[0.5, np.nan], [0, 2]])
    thin = CommonScaler(clip=True).fit_transform(sparse.csr_array(X))
    assert sparse.issparse(thin)
    np.testing.assert_array_equal(thin.toarray(), [[0.25, np.nan], [0, 1]])
    scaler = CommonScaler().fit(X)
    np.testing.assert_array_equal(scaler.inverse_transform(scaler.transform(X)), X)
    for wrong in ({"divisor": 0}, {"divisor": "x"}, {"clip": 1}):
        with pytest.raises(ValueError, match="is not allowed in CommonScaler"):
            CommonScaler(**wrong).fit(X)
    result = fit_table(named(COUNTS), model_of("NMF", {"n_components": 2, "random_state": 0}), "common", baseline=False)
    dspnmf.save(result.pipeline, tmp_path / "m.skops")
    again = dspnmf.load(tmp_path / "m.skops")
    assert again[0].scale_ == COUNTS.max()
    again[0].scale_ = "x"
    with pytest.raises(ValueError, match="fit the scaler again"):
        again[0].transform(pd.DataFrame(COUNTS, columns=again.feature_names_in_))
