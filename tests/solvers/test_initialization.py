"""Starts: one seed one start, shapes, precision, NNDSVD against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import reference
from dspnmf import DSPNMF, NMF
from dspnmf.backends.memory import MEMORY, MemoryData
from dspnmf.backends.row_model import RandomCodes
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity
from dspnmf.solvers import initialization


@pytest.mark.parametrize("init", ["random", "nndsvd", "nndsvda", "nndsvdar"])
@pytest.mark.parametrize("cls", [DSPNMF, NMF])
def test_every_start_works(init: str, cls: type, wine: np.ndarray) -> None:
    """Every start leads to a finite fit, reproducible from its seed."""
    fits = [cls(4, init=init, random_state=7, max_iter=30, tol=0).fit(wine) for _ in range(2)]
    assert np.isfinite(fits[0].objective_history_).all()
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


def test_one_seed_one_start(wine: np.ndarray) -> None:
    """float32, float64, dense and sparse X start at the same point."""
    stored = (wine, wine.astype(np.float32), sparse.csr_matrix(wine), np.asfortranarray(wine))
    values = [DSPNMF(3, random_state=3, max_iter=1).set_params(tol=0).fit(X).objective_history_[0] for X in stored]
    np.testing.assert_allclose(values, values[0], rtol=1e-5)
    np.testing.assert_allclose(values[2:], values[0], rtol=1e-12)


def test_nndsvd_of_a_rank_one_matrix_is_exact() -> None:
    """A non-negative matrix of rank one is its own NNDSVD."""
    rng = np.random.RandomState(0)
    X = rng.random_sample((9, 1)) @ rng.random_sample((1, 6))
    U, Vt = initialization.nndsvd(MemoryData(X, MEMORY, X.max()), 1, "", X.mean(), 1.0, rng)
    np.testing.assert_allclose(U @ Vt.T, X, rtol=1e-10)


def test_nndsvd_beats_random(digits: np.ndarray) -> None:
    """NNDSVD starts closer than random numbers of the right size."""
    first = {init: NMF(10, init=init, random_state=0, max_iter=1, tol=0).fit(digits) for init in ("nndsvd", "random")}
    assert first["nndsvd"].objective_history_[0] < first["random"].objective_history_[0]


@pytest.mark.parametrize(("fill", "positive"), [("", False), ("a", True), ("ar", True)])
def test_what_stands_in_for_zeros(fill: str, positive: bool, digits: np.ndarray) -> None:
    """Only nndsvda and nndsvdar have no zeros."""
    data = MemoryData(digits, MEMORY, 1.0)
    U, Vt = initialization.nndsvd(data, 5, fill, digits.mean(), 1.0, np.random.RandomState(0))
    assert ((U > 0).all() and (Vt > 0).all()) == positive
    assert (U >= 0).all()


def test_best_factor_for_the_structure(wine: np.ndarray) -> None:
    """No other single factor brings UU' closer to XX'."""
    U = np.random.default_rng(0).random((len(wine), 3))
    c = GramSimilarity(1.0).best_scale(State(U[:13], wine.T @ U, U.T @ U))
    gap = [np.linalg.norm(wine @ wine.T - (f * c) ** 2 * U @ U.T) for f in (0.99, 1.0, 1.01)]
    assert gap[1] < min(gap[0], gap[2])


def test_restarts_keep_the_best(digits: np.ndarray) -> None:
    """n_init = 4 returns the best of four, with its own history, codes and components."""
    one = NMF(6, random_state=0, n_init=1).fit(digits)
    model = NMF(6, random_state=0, n_init=4)
    Z = model.fit_transform(digits)
    assert model.objective_ <= one.objective_
    assert np.linalg.norm(digits - Z @ model.components_) == pytest.approx(model.reconstruction_err_, rel=1e-9)
    assert len(model.objective_history_) == model.n_iter_ + 1


def test_custom_start_is_where_the_history_begins(wine: np.ndarray) -> None:
    """W and H are the start, in the user's units, at any lam."""
    rng = np.random.default_rng(0)
    W, H = rng.random((len(wine), 3)), rng.random((3, 13))
    model = DSPNMF(3, lam=50.0, alpha=0.2, init="custom", max_iter=1, tol=0).fit(wine, W=W, H=H)
    expected = np.sum((wine - W @ H) ** 2) + 0.2 * np.sum((wine @ wine.T - 50 * W @ W.T) ** 2)
    assert model.objective_history_[0] == pytest.approx(expected, rel=1e-12)
    assert W.min() >= 0


def test_philox_is_the_published_one() -> None:
    """The reference gives the words that the generator's authors publish; the compiled one follows it (conformance)."""
    counter, key = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    assert reference.philox(counter, key) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    assert reference.philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


def test_random_codes_are_nearly_half_normal() -> None:
    """Mean, square and tail of the size asked for; other rows, columns and keys give other numbers."""
    codes = RandomCodes(12345, 2.0, 4, np.dtype(np.float64))(10**6, 10**6 + 50_000)
    assert codes.mean() == pytest.approx(2.0 * np.sqrt(2 / np.pi), rel=0.02)
    assert np.square(codes).mean() == pytest.approx(4.0, rel=0.01)
    assert 0.01 < (codes > 4.0).mean() < 0.06
    assert len(np.unique(codes)) > 0.9999 * codes.size
    assert not np.isin(RandomCodes(12346, 2.0, 4, np.dtype(np.float64))(0, 100), codes).any()
    far = RandomCodes(7, 1.0, 2, np.dtype(np.float64))(2**32 + 5, 2**32 + 6)  # rows beyond 32 bits
    words = reference.philox((5, 1, 1, 0), (7, 0))
    assert far[0, 1] == 1.0 / (2.0**32 / np.sqrt(3.0)) * abs(sum(words) - (2**33 - 2))
