"""ConsensusNMF: what most starts find is kept, what few find is left out, and everything a transformer offers works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import dspnmf
from dspnmf import DSPNMF, GNMF, NMF, NPNMF, SDNMF, ConsensusNMF
from dspnmf.io import Table
from dspnmf.selection import consensus
from dspnmf.stability import match
from dspnmf.workflow import fit_table


def planted(n: int = 120, m: int = 40, k: int = 4, noise: float = 0.05, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are mixtures of k sparse components, and these."""
    rng = np.random.default_rng(seed)
    V = rng.gamma(1.0, size=(k, m)) * (rng.random((k, m)) < 0.4)
    return rng.dirichlet(np.full(k, 0.3), n) @ V + noise * rng.random((n, m)), V


X, TRUE = planted()


def quick(estimator: Any = None, **parameters: Any) -> ConsensusNMF:
    """A small consensus."""
    return ConsensusNMF(NMF(4) if estimator is None else estimator, **{"n_runs": 12, "random_state": 0, **parameters})


@parametrize_with_checks([ConsensusNMF(NMF(2), n_runs=3, density_threshold=2.0)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """Everything scikit-learn asks of a transformer holds."""
    check(estimator)


@pytest.mark.parametrize(
    "estimator", [NMF(4), DSPNMF(4), GNMF(4, beta=0.1), NMF(4, solver="mm"), NMF(4, beta_loss="kullback-leibler")]
)
def test_planted_components(estimator: Any) -> None:
    """Planted components are found, in every class and with a published rule, and found again by most runs."""
    model = quick(estimator).fit(X)
    assert match(TRUE, model.components_)[1].min() > (0.9 if isinstance(estimator, NMF) else 0.8)
    assert model.stability_.shape == model.share_of_runs_.shape == (4,)
    assert model.stability_.min() > 0.8
    assert model.density_.shape == model.groups_.shape == (12, 4)


def test_rare_spectra_are_left_out() -> None:
    """A component that one run alone found is in no group, and the medians are those of the others."""
    rng = np.random.default_rng(0)
    runs = np.array([rng.permutation(TRUE) * rng.uniform(1, 3, (4, 1)) for _ in range(10)])
    runs += 0.01 * rng.random(runs.shape)
    runs[3, 2] = np.eye(40)[0]
    found = consensus.grouped(runs, 0.5, 0.3, 0)
    assert [tuple(place) for place in np.argwhere(found.labels < 0)] == [(3, 2)]
    np.testing.assert_allclose(match(TRUE, found.components)[1], 1, atol=1e-3)
    assert found.silhouette > 0.9


def test_components_of_zeros_are_left_out() -> None:
    """Runs with dead components do not form a group of them."""
    runs = np.array([TRUE, TRUE, TRUE, np.vstack([TRUE[:3], np.zeros(40)]), np.vstack([TRUE[:3], np.zeros(40)])])
    found = consensus.grouped(runs, 0.5, 0.3, 0)
    assert (found.labels[3:, 3] == -1).all()
    np.testing.assert_allclose(match(TRUE, found.components)[1], 1, atol=1e-7)


def test_codes_belong_to_the_medians() -> None:
    """Components are the medians of the groups up to their unit, and codes of X are those `transform` gives."""
    model = quick()
    Z = model.fit_transform(X)
    np.testing.assert_allclose(Z, model.transform(X), rtol=1e-6, atol=1e-9)
    error = np.linalg.norm(X - model.inverse_transform(Z))
    np.testing.assert_allclose(error, model.reconstruction_err_, rtol=1e-6)
    best = NMF(4, random_state=0, n_init=12).fit(X).reconstruction_err_
    assert best * 0.999 <= error < 1.1 * best


@pytest.mark.parametrize("kind", [np.float32, sparse.csr_array, pd.DataFrame])
def test_kinds_of_data(kind: Any) -> None:
    """float32 stays float32, sparse data give the same, and tables name their features."""
    model, given = quick(), X.astype(np.float32) if kind is np.float32 else kind(X)
    if kind is pd.DataFrame:
        given.columns = [f"gene {j}" for j in range(given.shape[1])]
        assert model.set_output(transform="pandas").fit_transform(given).columns[0] == "consensusnmf0"
        assert model.feature_names_in_[0] == "gene 0"
    Z = np.asarray(model.fit_transform(given))
    assert Z.dtype == model.components_.dtype == (np.float32 if kind is np.float32 else np.float64)
    np.testing.assert_allclose(model.components_, quick().fit(X).components_, rtol=2e-2, atol=2e-2)


def test_ranks() -> None:
    """With several ranks stability and error of each are there, and the planted one is chosen."""
    model = quick(ranks=[2, 4, 7]).fit(X)
    found = model.ranks_results_
    assert found["n_components"].tolist() == [2, 4, 7]
    assert found["error"][0] > found["error"][1]
    assert found["stability"][1] > found["stability"][2] + 0.05
    assert model.n_components_ == len(model.components_) == 4
    assert len(quick(ranks=[4], n_components=3).fit(X).components_) == 3


def test_seeds() -> None:
    """The same seed gives the same model."""
    np.testing.assert_array_equal(quick().fit(X).components_, quick().fit(X).components_)


def test_saved(tmp_path: Path) -> None:
    """A model that was saved gives the same codes; one whose parts do not fit is refused."""
    model = quick(ranks=[3, 4]).fit(X)
    dspnmf.save(model, tmp_path / "model.skops")
    again = dspnmf.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    model.estimator_ = quick(n_components=3).fit(X).estimator_
    dspnmf.save(model, tmp_path / "damaged.skops")
    with pytest.raises(dspnmf.persistence.ModelFileError, match="estimator_ is not a fitted estimator with 4 comp"):
        dspnmf.load(tmp_path / "damaged.skops")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": SDNMF(3)}, "it must be None or one of dspnmf's NMF, DSPNMF, GNMF"),
        ({"estimator": NMF(3, init="nndsvd")}, "estimator has init='nndsvd', but runs differ by their random starts"),
        ({"n_runs": 1}, "n_runs=1 is not allowed in ConsensusNMF: it must be a whole number >= 2"),
        ({"neighborhood": 1.5}, "a number > 0 and <= 1"),
        ({"ranks": []}, "None or one or more whole numbers >= 1"),
        ({"density_threshold": 1e-9}, "Only 0 of the 48 components of 12 runs have a mean distance below"),
    ],
)
def test_refusals(parameters: dict[str, Any], message: str) -> None:
    """What cannot work is refused in words that say what can."""
    with pytest.raises(ValueError, match=message):
        quick(**parameters).fit(X)


def test_labels_and_graphs() -> None:
    """Estimators with graphs of other kinds take part, too."""
    assert quick(NPNMF(3)).fit(X).components_.shape == (3, 40)


def test_workflow(tmp_path: Path) -> None:
    """`dspnmf fit --runs` fits a consensus of the method that is named, and takes no checkpoint."""
    table = Table(X, np.array([f"gene {j}" for j in range(40)]), np.arange(len(X)).astype(str))
    result = fit_table(table, NMF(4, random_state=0), "none", baseline=False, runs=12)
    assert isinstance(result.pipeline[-1], ConsensusNMF)
    np.testing.assert_array_equal(result.pipeline[-1].components_, quick().fit(X).components_)
    with pytest.raises(ValueError, match="keeps no checkpoint"):
        fit_table(table, NMF(4, random_state=0), "none", runs=12, checkpoint=tmp_path / "a.npz")
