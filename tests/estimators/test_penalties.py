"""Penalties: scikit-learn's meaning and units, exact in value, in descent and in transform, wherever X is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import NMF as PEER
from sklearn.decomposition import non_negative_factorization as peers_function

import dspnmf
from dspnmf import DSPNMF, NMF

PENALTIES: list[dict[str, Any]] = [
    {"alpha_W": 1e-3},
    {"alpha_W": 1e-3, "l1_ratio": 0.5},
    {"alpha_W": 5e-4, "l1_ratio": 1.0},
    {"alpha_W": 2e-3, "alpha_H": 0.0, "l1_ratio": 0.8},
    {"alpha_W": 0.0, "alpha_H": 1e-3, "l1_ratio": 0.8},
]
penalized = pytest.mark.parametrize("penalties", PENALTIES, ids=lambda given: str(list(given.values())))


def penalty(W: np.ndarray, H: np.ndarray, alpha_W: float, alpha_H: Any = "same", l1_ratio: float = 0.0) -> float:
    """Twice scikit-learn's penalty, as its documentation writes it."""
    n, m, alpha_H = len(W), H.shape[1], alpha_W if alpha_H == "same" else alpha_H
    return float(
        2 * l1_ratio * (alpha_W * m * np.abs(W).sum() + alpha_H * n * np.abs(H).sum())
        + (1 - l1_ratio) * (alpha_W * m * np.sum(W**2) + alpha_H * n * np.sum(H**2))
    )


def objective(X: np.ndarray, W: np.ndarray, H: np.ndarray, **given: Any) -> float:
    """``||X - WH||^2`` and the penalty."""
    return float(np.sum((X - W @ H) ** 2)) + penalty(W, H, **given)


@pytest.fixture(scope="module")
def some(digits: np.ndarray) -> np.ndarray:
    """400 rows of digits."""
    return digits[:400]


@penalized
@pytest.mark.parametrize("solver", ["hals", "newton-cg", "mm"])
def test_the_objective_is_scikit_learns_doubled(solver: str, penalties: dict[str, Any], some: np.ndarray) -> None:
    """objective_ is that of the factors returned; it never rises; errors are those of X - WH alone."""
    model = NMF(6, solver=solver, random_state=0, max_iter=30, tol=0, **penalties)
    W = model.fit_transform(some)
    H, history = model.components_, model.objective_history_
    assert model.objective_ == pytest.approx(objective(some, W, H, **penalties), rel=1e-9)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(some - W @ H), rel=1e-9)
    assert np.diff(history).max() <= 1e-12 * history[0]


@penalized
@pytest.mark.parametrize("similarity", ["gram", "cosine", "knn", "diffused"])
def test_with_structure(similarity: str, penalties: dict[str, Any], some: np.ndarray) -> None:
    """The same next to structure, whose lam is a unit of the codes, for X in any unit; labels too change nothing."""
    X = 3 * some[:150]
    y = np.arange(150) % 3 if similarity == "gram" else None
    model = DSPNMF(5, alpha=1e-3, lam=7.0, similarity=similarity, random_state=0, max_iter=25, tol=0, **penalties)
    model.set_params(label_weight=0.0 if y is None else 2.0)
    W = model.fit_transform(X, y)
    expected = objective(X, W, model.components_, **penalties) + 1e-3 * model.structure_err_**2
    if y is not None:
        expected += 2 * float(np.sum((np.eye(3)[y] - W @ model.label_components_) ** 2))
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    if similarity == "gram":
        assert model.structure_err_ == pytest.approx(np.linalg.norm(X @ X.T - 7 * W @ W.T), rel=1e-9)
    history = model.objective_history_
    assert np.diff(history).max() <= 1e-12 * history[0]


@penalized
def test_no_higher_than_scikit_learn(penalties: dict[str, Any], some: np.ndarray) -> None:
    """From where `cd` ended, never higher; from the same starts to tol=1e-6 as good a minimum, to 1 % in the median."""
    ours, peers = [], []
    for seed in range(3):
        rng = np.random.RandomState(seed)
        W, H = 0.3 * rng.random_sample((len(some), 8)), 0.3 * rng.random_sample((8, some.shape[1]))
        options = {"init": "custom", "tol": 1e-6, "max_iter": 1000, **penalties}
        peer = PEER(8, **options)
        there = peer.fit_transform(some, W=W.copy(), H=H.copy())
        peers.append(objective(some, there, peer.components_, **penalties))
        ours.append(NMF(8, **options).fit(some, W=W, H=H).objective_)
        assert NMF(8, **options).fit(some, W=there, H=peer.components_).objective_ <= peers[-1] * (1 + 1e-12)
    assert np.median(ours) <= 1.01 * np.median(peers)  # which of the minima is found, nobody can say of one start


@penalized
def test_transform_is_the_optimum(penalties: dict[str, Any], digits: np.ndarray) -> None:
    """Of new rows, no higher than scikit-learn's for the same components at tol=1e-6; of the fit's, the codes."""
    X, new = digits[:400], digits[400:500]
    model = NMF(6, random_state=0, max_iter=200, **penalties).set_params(tol=1e-4)
    W = model.fit_transform(X)
    np.testing.assert_array_equal(model.transform(X), W)
    Z, H = model.transform(new), model.components_
    peers, _, _ = peers_function(
        new, n_components=6, init="custom", H=H, update_H=False, tol=1e-6, max_iter=5000, **penalties
    )
    ours = objective(new, Z, H, **penalties)
    assert ours <= objective(new, peers, H, **penalties) * (1 + 1e-12)


def test_l1_makes_codes_and_components_sparse(some: np.ndarray) -> None:
    """With more weight there are more zeros; at a weight that outweighs every gain, nothing but zeros."""
    zeros = []
    for alpha in (0.0, 1e-3, 3e-3):
        model = NMF(8, alpha_W=alpha, l1_ratio=1.0, init="nndsvda", random_state=0).fit(some)
        zeros.append(float(np.mean(model.components_ == 0)))
    assert zeros[0] < zeros[1] < zeros[2]
    model = NMF(3, alpha_W=10.0, l1_ratio=1.0, random_state=0)
    assert not model.fit_transform(some).any()
    assert model.objective_ == pytest.approx(
        float(np.sum(some**2)) + penalty(np.zeros((400, 3)), model.components_, 10, 10, 1)
    )


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "columns first": np.asfortranarray,
    "CSR": sparse.csr_array,
    "Zarr": lambda X: stored(X),
    "Dask": lambda X: pytest.importorskip("dask.array", reason="Dask is not installed").from_array(X, chunks=(70, -1)),
    "Dask, CSR": lambda X: KINDS["Dask"](X).map_blocks(sparse.csr_array),
    "device": lambda X: pytest.importorskip("torch", reason="Torch is not installed").from_numpy(X),
}


def stored(X: np.ndarray) -> Any:
    """X in a Zarr array."""
    zarr = pytest.importorskip("zarr", reason="Zarr is not installed")
    made = zarr.create_array(store=f"{tempfile.mkdtemp()}/X", shape=X.shape, dtype=X.dtype, chunks=(70, X.shape[1]))
    made[:] = X
    return made


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", [NMF, DSPNMF])
@pytest.mark.parametrize("kind", KINDS)
def test_wherever_x_is(kind: str, method: Any, dtype: Any, some: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objective, codes and transform are those of an array in memory; precision stays."""
    if kind == "device":
        pytest.importorskip("torch", reason="Torch is not installed")
        from device_tensors import AnyDevice
        from dspnmf.backends import tensors

        monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    X = np.ascontiguousarray(some[:200], dtype=dtype)
    options = {"alpha_W": 1e-3, "l1_ratio": 0.5, "solver": "hals", "random_state": 0, "max_iter": 10, "tol": 0}
    options |= {"alpha": 0.01} if method is DSPNMF else {}
    plain, model = method(5, **options).fit(X), method(5, **options)
    Z = np.asarray(model.fit_transform(KINDS[kind](X)))
    T = np.asarray(model.transform(KINDS[kind](X)))
    close = 1e-6 if dtype == np.float64 else 1e-3
    assert Z.dtype == dtype
    assert model.objective_ == pytest.approx(plain.objective_, rel=close)
    np.testing.assert_allclose(Z, plain.transform(X), rtol=0, atol=10 * close)
    np.testing.assert_allclose(T, Z, rtol=0, atol=close)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_missing_cells(storage: Any, some: np.ndarray) -> None:
    """With missing cells, the reconstruction counts known ones, the penalty all codes; transform agrees."""
    X = some[:200].copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    model = NMF(4, missing="mask", alpha_W=1e-3, l1_ratio=0.5, random_state=0, max_iter=500, tol=1e-8)
    Z = model.fit_transform(storage(X))
    known = np.nansum((X - Z @ model.components_) ** 2)
    assert model.objective_ == pytest.approx(known + penalty(Z, model.components_, 1e-3, "same", 0.5), rel=1e-9)
    np.testing.assert_allclose(model.transform(storage(X)), Z, atol=1e-3)


def test_starts_normalize_save_and_checkpoint(some: np.ndarray, tmp_path: Any) -> None:
    """Several starts, unit length, a model file and a checkpoint know penalties as they know everything else."""
    options = {"alpha_W": 1e-3, "l1_ratio": 0.5, "random_state": 0, "max_iter": 20, "tol": 0}
    model = NMF(5, n_init=2, normalize=True, **options)
    Z = model.fit_transform(some)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    np.testing.assert_array_equal(model.transform(some), Z)
    dspnmf.save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(dspnmf.load(tmp_path / "model.skops").transform(some), Z)
    one = NMF(5, **options).fit(some)
    kept = NMF(5, **options).fit(some, checkpoint_path=tmp_path / "checkpoint", checkpoint_every=0)
    assert kept.objective_ == one.objective_


@penalized
def test_batches(penalties: dict[str, Any], some: np.ndarray) -> None:
    """Batches end near a fit on all rows; a later one goes on with the penalties it began with."""
    whole = NMF(5, random_state=0, max_iter=300, **penalties).fit(some)
    model = NMF(5, random_state=0, max_iter=300, **penalties)
    for i in range(0, 400, 100):
        model.partial_fit(some[i : i + 100])
    reached = objective(some, model.transform(some), model.components_, **penalties)
    assert reached <= 1.1 * whole.objective_
    with pytest.raises(ValueError, match="partial_fit goes on with the objective it began with"):
        model.set_params(alpha_H=0.3).partial_fit(some[:100])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"alpha_W": -1.0}, "alpha_W=-1.0 is not allowed"),
        ({"alpha_H": "all"}, "alpha_H='all' is not allowed"),
        ({"l1_ratio": 1.5}, "l1_ratio=1.5 is not allowed"),
        ({"alpha_W": 1e308}, "alpha_W=1e\\+308 .* too large"),
    ],
)
def test_what_penalties_may_be(given: dict[str, Any], words: str, some: np.ndarray) -> None:
    """Other values are an error that says what is allowed, before any work."""
    with pytest.raises(ValueError, match=words):
        NMF(2, **given).fit(1e-3 * some)
