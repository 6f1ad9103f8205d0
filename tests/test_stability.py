"""Components that come back: matching, scores, and what several starts of a fit say."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from test_checkpoint import Killed, forget_kill, kill_at

from dspnmf import DSPNMF, GNMF, NMF, SymNMF
from dspnmf.stability import agreement, match, stability


def components(seed: int, k: int = 5, m: int = 12) -> np.ndarray:
    """Random non-negative components."""
    return np.random.default_rng(seed).random((k, m)) ** 3


def test_matching_undoes_order_and_length() -> None:
    """Components in another order and of other lengths are found again, with cosine 1."""
    V = components(0)
    shuffled = np.array([3, 0, 4, 1, 2])
    order, cosines = match(V, (V * np.arange(1, 6)[:, None])[shuffled])
    np.testing.assert_array_equal(shuffled[order], np.arange(5))
    np.testing.assert_allclose(cosines, 1, rtol=1e-12)


def test_matching_is_the_best_of_all() -> None:
    """No other pairing has a larger sum of cosines (all 120 tried)."""
    for seed in range(5):
        V, W = components(seed), components(seed + 100)
        order, cosines = match(V, W)
        table = (V / np.linalg.norm(V, axis=1)[:, None]) @ (W / np.linalg.norm(W, axis=1)[:, None]).T
        np.testing.assert_allclose(cosines, table[np.arange(5), order])
        assert cosines.sum() == pytest.approx(max(table[np.arange(5), list(p)].sum() for p in permutations(range(5))))


def test_stability_scores_the_reference() -> None:
    """A component that one of two other fits lost scores below those that both have, in the order of the reference."""
    V, lost = np.eye(4, 8), np.eye(4, 8)
    lost[2] = np.eye(8)[7]
    np.testing.assert_allclose(stability([V, V[::-1], lost]), [1, 1, 0.5, 1])
    np.testing.assert_allclose(stability([V[::-1], V, lost], reference=1), [1, 1, 0.5, 1])
    assert agreement([V, V[::-1], lost]) == pytest.approx((1 + 0.75 + 0.75) / 3)


def test_zeros_and_extreme_lengths() -> None:
    """A component of zeros is like none; lengths at the ends of the range of numbers do not matter."""
    V = components(1)
    scale = np.array([1e-300, 1e300, 1, 1, 1])[:, None]
    np.testing.assert_allclose(match(V, V * scale)[1], 1, rtol=1e-12)
    V[3] = 0
    np.testing.assert_allclose(match(V, V)[1], [1, 1, 1, 0, 1], rtol=1e-12)
    np.testing.assert_allclose(stability([V, sparse.csr_array(V)]), [1, 1, 1, 0, 1], rtol=1e-12)


def test_what_cannot_be_compared() -> None:
    """One fit alone, fits of other shapes, and a reference that is not there are refused with the fix."""
    with pytest.raises(ValueError, match="1 fit was given, but components can only be compared between two or more"):
        stability([components(0)])
    with pytest.raises(ValueError, match=r"shape \(4, 12\) cannot be matched with components of shape \(5, 12\)"):
        match(components(0), components(0, k=4))
    with pytest.raises(ValueError, match=r"reference=2 is not allowed: there are 2 fits"):
        stability([components(0), components(1)], reference=2)


@pytest.mark.parametrize("cls", [DSPNMF, NMF, GNMF])
def test_several_starts(cls: type, wine: np.ndarray) -> None:
    """`stability_` is that of the best start among all, as separate fits give it; the fit itself is unchanged."""
    rng = np.random.RandomState(0)
    runs = [cls(4, random_state=rng, max_iter=20, tol=0).fit(wine) for _ in range(4)]
    best = int(np.argmin([run.objective_ for run in runs]))
    expected = stability([run.components_ for run in runs], reference=best)
    for options in ({}, {"normalize": True})[: 1 if cls is GNMF else 2]:  # GNMF's components always have unit length
        model = cls(4, n_init=4, random_state=np.random.RandomState(0), max_iter=20, tol=0, **options)
        model.fit(wine)
        history = runs[best].objective_history_
        np.testing.assert_allclose(model.objective_history_, history, rtol=1e-10)
        np.testing.assert_allclose(model.stability_, expected, rtol=1e-9)
    assert model.set_params(n_init=1).fit(wine).stability_ is None


def test_codes_alone_have_no_stability(wine: np.ndarray) -> None:
    """SymNMF has codes and no components, so nothing to match."""
    assert not hasattr(SymNMF(3, n_init=2, max_iter=5, tol=0, random_state=0).fit(wine), "stability_")


def test_further_features_do_not_count(wine: np.ndarray) -> None:
    """Columns a similarity adds to X are no part of the components that are compared."""
    model = DSPNMF(3, similarity="cosine", n_init=2, max_iter=8, tol=0, random_state=np.random.RandomState(1))
    rng = np.random.RandomState(1)
    apart = [DSPNMF(3, similarity="cosine", max_iter=8, tol=0, random_state=rng).fit(wine) for _ in range(2)]
    expected = np.sort(match(apart[0].components_, apart[1].components_)[1])
    np.testing.assert_allclose(np.sort(model.fit(wine).stability_), expected, rtol=1e-9)


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_resumed_fit(times: int, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in any of four starts and called again, a fit gives the same `stability_`, to the last bit."""

    def fit(**more: Any) -> Any:
        return DSPNMF(3, n_init=4, random_state=2, max_iter=12, tol=0).fit(wine, **more)

    expected = fit(checkpoint_path=tmp_path / "whole.npz")
    kill_at(7, monkeypatch, times)
    with pytest.raises(Killed):
        fit(checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0)
    forget_kill(monkeypatch)
    resumed = fit(checkpoint_path=tmp_path / "fit.npz")
    assert resumed.stability_.shape == (3,)
    np.testing.assert_array_equal(resumed.stability_, expected.stability_)


def test_stable_components_differ_from_others() -> None:
    """On planted data the right rank comes back from every start, a rank too large does not."""
    rng = np.random.default_rng(0)
    codes, parts = (
        rng.random((200, 4)) * (rng.random((200, 4)) < 0.5),
        rng.random((4, 30)) * (rng.random((4, 30)) < 0.5),
    )
    X = codes @ parts + 0.01 * rng.random((200, 30))
    right, large = (NMF(k, n_init=5, random_state=0, tol=0, max_iter=200).fit(X).stability_ for k in (4, 7))
    assert right.mean() > 0.99
    assert large.min() < 0.9


def test_wherever_the_rows_are(wine: np.ndarray) -> None:
    """A Dask array gives the `stability_` of the same numbers in memory."""
    from dask import array

    model = DSPNMF(3, solver="hals", n_init=3, max_iter=10, tol=0, random_state=0)
    expected = model.fit(wine).stability_
    np.testing.assert_allclose(model.fit(array.from_array(wine, chunks=(100, 13))).stability_, expected, rtol=1e-6)
