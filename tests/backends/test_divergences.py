"""Fits by a divergence on tensors of a device and on Dask arrays, against those of NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy import sparse
from sklearn import decomposition

import reference
from divergent import check_never_up, counts, fitted, powers, problems, start
from dspnmf import DSPNMF, NMF
from dspnmf.estimators.base import Factorization

dask = pytest.importorskip("dask", reason="Dask is not installed")
torch = pytest.importorskip("torch", reason="Torch is not installed")

from device_tensors import DEVICES, AnyDevice, tensor  # noqa: E402  # not without Torch
from dspnmf.backends import tensors  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def holes() -> Any:
    """Counts of which a fifth is missing."""
    X = counts()
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)


CASES: dict[str, tuple[Any, float, dict[str, Any]]] = {  # X, beta, further parameters
    "Kullback-Leibler": (counts(), 1, {}),
    "Kullback-Leibler, float32": (counts(dtype="float32"), 1, {}),
    "Kullback-Leibler, CSR": (sparse.csr_array(counts()), 1, {}),
    "Itakura-Saito": (powers(), 0, {}),
    "beta = 1.5, CSR": (sparse.csr_array(counts()), 1.5, {}),
    "beta = 3": (powers(), 3, {}),
    "penalties": (counts(), 1, {"alpha_W": 0.02, "alpha_H": 0.01, "l1_ratio": 0.3}),
    "L1, beta = 0.5": (powers(), 0.5, {"alpha_W": 0.02, "l1_ratio": 1.0}),
    "structure": (counts(), 1, {"alpha": 0.3}),
    "structure, CSR": (sparse.csr_array(counts()), 1, {"alpha": 0.3}),
    "structure, beta = 1.5, L2": (counts(), 1.5, {"alpha": 0.05, "alpha_W": 0.01}),
    "missing cells": (holes(), 1, {"missing": "mask"}),
    "missing cells, beta = 1.5": (holes(), 1.5, {"missing": "mask"}),
    "missing cells, CSR": (sparse.csr_array(holes()), 1, {"missing": "mask"}),
}
cases = pytest.mark.parametrize("name", CASES)


def dense(X: Any) -> np.ndarray:
    """X as an array, in float64."""
    return (X.toarray() if sparse.issparse(X) else X).astype(np.float64)


def divergence_of(X: Any, Z: Any, V: Any, beta: float) -> float:
    """The divergence over known cells, by slow loops."""
    X, Y = dense(X), np.maximum(np.asarray(Z, float) @ np.asarray(V, float), 1e-50)
    known = ~np.isnan(X)
    return reference.divergence(X[known], Y[known], beta)


# -- tensors on a device -----------------------------------------------------------------------------------------------


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device whose tensors get rows of their own."""
    torch.set_num_threads(1)
    if request.param == "cpu":
        monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    return str(request.param)


@cases
def test_a_device_fits_as_well_as_memory(name: str, device: str) -> None:
    """From one start, as many iterations end as low, and the errors are those of the factors that came out."""
    X, beta, parameters = CASES[name]
    expected, _ = fitted(X, beta_loss=beta, max_iter=40, **parameters)
    model, Z = fitted(X, stored=partial(tensor, device=device), beta_loss=beta, max_iter=40, **parameters)
    narrow = X.dtype == np.float32
    assert model.objective_history_[0] == pytest.approx(expected.objective_history_[0], rel=1e-5 if narrow else 1e-10)
    assert model.objective_ <= (1.05 if 0 < beta < 1 else 1.02) * expected.objective_  # there are several minima
    assert (np.diff(model.objective_history_) <= 1e-12 * model.objective_history_[0]).all()
    assert Z.device.type == model.components_.device.type == device
    assert Z.dtype == model.components_.dtype == (torch.float32 if narrow else torch.float64)
    Z, V = Z.cpu().numpy(), model.components_.cpu().numpy()
    distance = divergence_of(X, Z, V, beta)
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(2 * distance), rel=1e-5 if narrow else 1e-8)
    if not {"alpha_W", "alpha"} & set(parameters):
        assert model.objective_ == pytest.approx(distance, rel=1e-5 if narrow else 1e-8)
    if "alpha" in parameters:
        error = np.linalg.norm(dense(X) @ dense(X).T - Z @ Z.T)
        assert model.structure_err_ == pytest.approx(error, rel=1e-8)


@cases
def test_codes_of_new_rows_on_a_device_are_those_of_memory(name: str, device: str) -> None:
    """One model gives the same codes wherever the rows are."""
    X, beta, parameters = CASES[name]
    model, _ = fitted(X, beta_loss=beta, **parameters)
    expected, found = model.transform(X[:15]), model.transform(tensor(X[:15], device)).cpu().numpy()
    if beta <= 2:  # a convex problem for 1 <= beta <= 2
        np.testing.assert_allclose(found, expected, atol=(1e-3 if X.dtype == np.float32 else 2e-4) * expected.max())
    V = model.components_
    assert divergence_of(X[:15], found, V, beta) <= 1.001 * divergence_of(X[:15], expected, V, beta) + 1.0 * (
        "alpha" in parameters or "alpha_W" in parameters
    )


@pytest.mark.parametrize("loss", ["kullback-leibler", "itakura-saito"])
@pytest.mark.parametrize("iterations", [5, 40])
def test_a_device_is_as_low_as_scikit_learn_after_as_many_iterations(loss: str, iterations: int, device: str) -> None:
    """From one start, as many iterations reach at most the divergence scikit-learn's reach."""
    X = counts() if loss == "kullback-leibler" else powers()
    W, H = start(X, 3)
    peer = decomposition.NMF(3, init="custom", solver="mu", beta_loss=loss, max_iter=iterations, tol=0)
    peer.fit_transform(X, W=W.copy(), H=H.copy())
    model, _ = fitted(X, stored=partial(tensor, device=device), beta_loss=loss, max_iter=iterations)
    assert model.reconstruction_err_ <= peer.reconstruction_err_


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_the_objective_never_rises_on_a_device(problem: tuple[Any, dict[str, Any]], device: str) -> None:
    """No iteration raises the objective, whatever the loss, weights and data."""
    check_never_up(problem, partial(tensor, device=device))


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_the_objective_never_rises_on_a_device_in_many_cases(problem: Any, device: str) -> None:
    """The same in many more cases."""
    check_never_up(problem, partial(tensor, device=device))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_slabs_change_nothing(kind: Any, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs of a few rows give what one slab gives."""
    X, parameters = kind(counts()), {"beta_loss": 1, "alpha": 0.1, "stored": partial(tensor, device=device)}
    whole, Z = fitted(X, **parameters)
    for name, value in {"SLAB": 60, "HELD": 40, "GATHERED": 30}.items():
        monkeypatch.setattr(f"dspnmf.backends.tensor_slabs.{name}", value)
    parts, Z_parts = fitted(X, **parameters)
    np.testing.assert_allclose(parts.objective_history_, whole.objective_history_, rtol=1e-10)
    np.testing.assert_allclose(Z_parts.cpu(), Z.cpu(), rtol=1e-7, atol=1e-10)


def test_several_starts_on_a_device(device: str) -> None:
    """Random starts are those of memory; the best of them is kept."""
    X, parameters = counts(), {"beta_loss": 1, "random_state": 0, "max_iter": 20, "tol": 0}
    one, several = (NMF(3, n_init=n, **parameters).fit(tensor(X, device)) for n in (1, 3))
    assert one.objective_history_[0] == pytest.approx(NMF(3, **parameters).fit(X).objective_history_[0], rel=1e-10)
    assert several.objective_ <= one.objective_ * (1 + 1e-9)
    assert several.stability_.shape == (3,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_entries_on_a_device_leave_finite_factors(dtype: str, device: str) -> None:
    """Zero rows and columns, entries of 1e-30 and 1e30: factors are finite and not negative."""
    X = counts(dtype=dtype)
    X[3], X[:, 4] = 0, 0
    X[:20] *= X.dtype.type(1e-30)
    X[20:] *= X.dtype.type(1e30)
    for beta in (1, 1.5):
        model, Z = fitted(X, stored=partial(tensor, device=device), beta_loss=beta)
        for factor in (Z, model.components_):
            assert bool(torch.isfinite(factor).all())
            assert bool((factor >= 0).all())
        assert np.isfinite(model.objective_history_).all()


def test_zeros_without_a_divergence_are_an_error_on_a_device(device: str) -> None:
    """Itakura-Saito refuses zeros, stored or not, before any work."""
    for X in (counts(), sparse.csr_array(counts())):
        with pytest.raises(ValueError, match="When beta_loss <= 0 and X contains zeros, the solver may diverge"):
            NMF(3, beta_loss="itakura-saito").fit(tensor(X, device))


# -- Dask arrays -------------------------------------------------------------------------------------------------------


@pytest.fixture
def in_this_thread() -> Iterator[None]:
    """Dask's synchronous scheduler."""
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(X: Any) -> Any:
    """A Dask array of chunks of rows, one of them empty."""
    import dask.array as da

    array = da.from_array(X.toarray() if sparse.issparse(X) else X, chunks=((17, 0, 23), -1))
    if not sparse.issparse(X):
        return array
    return array.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=X.dtype))


@cases
def test_dask_gives_what_memory_gives(name: str, in_this_thread: None) -> None:
    """The same history from the same start and at random, the same codes and transform."""
    X, beta, parameters = CASES[name]
    expected, codes = fitted(X, beta_loss=beta, **parameters)
    model, Z = fitted(X, stored=chunked, beta_loss=beta, **parameters)
    history = expected.objective_history_[:-1]  # the last one is that of codes solved for, from another start
    rounding = 1e-4 if X.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(model.objective_history_[:-1], history, rtol=rounding)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=max(rounding, 2e-4))
    Z = Z.compute()
    np.testing.assert_allclose(Z, codes, atol=2e-3 * codes.max())
    assert Z.dtype == codes.dtype == X.dtype
    if 1 <= beta <= 2:
        np.testing.assert_array_equal(model.transform(chunked(X)).compute(), Z)
    one, other = (type(model)(**{**model.get_params(), "init": "random", "random_state": 0}) for _ in range(2))
    histories = [estimator.fit(A).objective_history_ for estimator, A in ((one, X), (other, chunked(X)))]
    np.testing.assert_allclose(histories[1][0], histories[0][0], rtol=max(rounding, 1e-9))


def test_zeros_without_a_divergence_are_an_error_on_dask(in_this_thread: None) -> None:
    """Itakura-Saito refuses zeros in a fit, and in new rows when their codes are computed."""
    match = "When beta_loss <= 0 and X contains zeros"
    with pytest.raises(ValueError, match=match):
        NMF(2, beta_loss=0).fit(chunked(counts()))
    model = NMF(2, beta_loss=0, max_iter=3).fit(chunked(powers()))
    assert np.isfinite(model.transform(chunked(powers())).compute()).all()
    lazy = model.transform(chunked(counts()))
    with pytest.raises(ValueError, match=match):
        lazy.compute()


def test_bad_cells_of_dask_arrays_are_named_where_others_may_be_missing(in_this_thread: None) -> None:
    """A negative cell is named; an X without any known cell is an error."""
    X = holes()
    X[30, 3] = -1
    with pytest.raises(ValueError, match=r"X\[30, 3\] = -1"):
        NMF(2, beta_loss=1, missing="mask").fit(chunked(X))
    with pytest.raises(ValueError, match="All 40 x 5 cells of X are missing"):
        NMF(2, beta_loss=1, missing="mask").fit(chunked(np.full((40, 5), np.nan)))


# -- both --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["device", "Dask"])
@pytest.mark.parametrize("name", ["structure", "missing cells, CSR"])
def test_a_killed_fit_goes_on(
    name: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_this_thread: None
) -> None:
    """With a checkpoint, a fit ends where it would have ended; of a device and of a cluster, too."""
    monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    torch.set_num_threads(1)
    (X, beta, parameters), log = CASES[name], Factorization._log

    def killed(model: Any, iteration: int, value: float) -> None:
        if iteration == 8:
            raise KeyboardInterrupt

    def fit(**more: Any) -> Any:
        model = DSPNMF(3, beta_loss=beta, random_state=0, max_iter=12, tol=0, **{"alpha": 0.0, **parameters})
        return model.fit(tensor(X, "cpu") if where == "device" else chunked(X), **more).objective_history_

    expected = fit()
    monkeypatch.setattr(Factorization, "_log", killed)
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0)
    monkeypatch.setattr(Factorization, "_log", log)
    np.testing.assert_allclose(fit(checkpoint_path=tmp_path / "fit.npz"), expected, rtol=1e-9)
    assert list(tmp_path.iterdir()) == []
