"""Dask arrays: fits have the numbers of NumPy on every scheduler, and outlive their workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from scipy import sparse
from sklearn.exceptions import EfficiencyWarning

from dask_arrays import CASES, LAYOUTS, K, M, N, chunked, data, kill_workers, scheduler, two_workers, within
from dspnmf import DSPNMF, GNMF, NMF

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stopped after max_iter"),  # fits are cut short on purpose
    pytest.mark.filterwarnings("ignore:Port 8787 is already in use"),  # of a dashboard nobody asked for
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # sockets of killed workers
]
TOLERANCE = {np.float64: 1e-9, np.float32: 1e-4}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two worker processes."""
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal() -> Iterator[Client]:
    """Two worker processes to be killed."""
    with two_workers() as client:
        yield client


def method(kind: Any = DSPNMF, **parameters: Any) -> Any:
    """A short fit that no tolerance ends."""
    return kind(**{"n_components": K, "solver": "hals", "max_iter": 50, "tol": 0, "random_state": 0, **parameters})


@pytest.mark.parametrize(("where", "rows", "dtype"), CASES)
def test_history_of_numpy(where: str, rows: Any, dtype: Any, request: pytest.FixtureRequest) -> None:
    """However X is cut and whoever computes, history, components and codes are those of NumPy."""
    X = data(dtype)
    expected, model = method(), method()
    codes = expected.fit_transform(X)
    with scheduler(where, request):
        mine = model.fit_transform(chunked(X, rows))
        assert isinstance(mine, da.Array)
        assert mine.chunks == (rows, (K,))
        assert mine.dtype == model.components_.dtype == dtype
        np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=TOLERANCE[dtype])
        assert model.structure_err_ == pytest.approx(expected.structure_err_, rel=TOLERANCE[dtype])
        np.testing.assert_allclose(mine.compute(), codes, rtol=1e-6, atol=30 * TOLERANCE[dtype])


def test_processes(request: pytest.FixtureRequest) -> None:
    """Processes give the same history too, codes going back and forth."""
    expected, model = method(max_iter=2), method(max_iter=2)
    expected.fit(data())
    with scheduler("processes", request):
        model.fit(chunked(data(), 300))
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)


@pytest.mark.parametrize("where", ["synchronous", "cluster"])
def test_options_of_a_fit(where: str, request: pytest.FixtureRequest) -> None:
    """Several starts, unit components, plain NMF and a start of one's own work as they do for NumPy."""
    X, rng = data(), np.random.default_rng(1)
    start = {"W": rng.random((N, K)), "H": rng.random((K, M))}
    cases: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (DSPNMF, {"n_init": 2, "normalize": True, "max_iter": 5}, {}),
        (NMF, {"init": "custom", "max_iter": 5}, start),
    ]
    with scheduler(where, request):
        for kind, parameters, given in cases:
            expected, model = method(kind, **parameters), method(kind, **parameters)
            codes = expected.fit_transform(X, **given)
            mine = model.fit_transform(chunked(X), **given)
            assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
            np.testing.assert_allclose(mine.compute(), codes, rtol=1e-6, atol=1e-8)


def test_sparse_chunks_stay_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse chunks give the history of the sparse matrix, and nobody makes them dense."""
    X = sparse.random_array((N, 40), density=0.1, format="csr", rng=np.random.default_rng(0))
    expected, model = method(), method()
    expected.fit(X)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("made dense")

    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_array):
        monkeypatch.setattr(kind, "toarray", refuse)
    with dask.config.set(scheduler="synchronous"):
        other = chunked(X).map_blocks(lambda block: block.tocoo(), dtype=X.dtype, meta=X[:0].tocoo())
        for chunks in (chunked(X), other):
            model.fit(chunks)
            np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)
            assert model.transform(chunks).compute().shape == (N, K)


def test_residuals_where_the_fit_is_nearly_exact() -> None:
    """Where the objective is lost in rounding it comes from the residuals, of sparse chunks too."""
    rng = np.random.default_rng(0)
    X = rng.random((N, 2)) @ rng.random((2, M))
    for given in (X, sparse.csr_array(X)):
        expected, model = method(NMF, max_iter=200), method(NMF, max_iter=200)
        expected.fit(given)
        with dask.config.set(scheduler="synchronous"):
            model.fit(chunked(given, 300))
        assert 0 < model.objective_ < 1e-9 * np.sum(X**2)
        assert model.objective_ == pytest.approx(expected.objective_, rel=0.5)


# -- what users bring --------------------------------------------------------------------------------------------------


def never(*_: Any, **__: Any) -> Any:
    """A chunk that must not be computed."""
    raise AssertionError("computed")


def untouched(columns: int = M) -> da.Array:
    """An array that says so when it is computed."""
    return da.from_delayed(dask.delayed(never)(), (N, columns), float)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (DSPNMF(K, solver="newton-cg"), "solver='newton-cg' does not work where X is a Dask array: use one of 'auto'"),
        (DSPNMF(K, solver="mm"), "solver='mm' does not work where X is a Dask array"),
        (DSPNMF(K, init="nndsvd"), "init='nndsvd' needs a singular value decomposition of X in memory"),
        (
            DSPNMF(K, similarity="cosine"),
            "similarity='cosine' needs all of X in memory, to add columns to it, but X is a Dask array",
        ),
        (
            GNMF(K),
            "GNMF needs all of X in memory, to search neighbours, but X is a Dask array: use DSPNMF or NMF there",
        ),
    ],
    ids=["newton-cg", "mm", "nndsvd", "cosine", "GNMF"],
)
def test_what_does_not_work_fails_at_once(model: Any, text: str) -> None:
    """Methods and solvers that need all of X say so before anything is computed."""
    with pytest.raises(ValueError, match=text):
        model.fit(untouched())


def test_wrong_arrays_fail_at_once() -> None:
    """Other Dask collections, other dimensions and other types are refused with the fix."""
    with pytest.raises(TypeError, match="takes Dask arrays only"):
        NMF(K).fit(dask.delayed(1))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        NMF(K).fit(untouched()[:, 0])
    with pytest.raises(ValueError, match=r"dtype complex128, but NMF needs real numbers: use X\.astype"):
        NMF(K).fit(untouched().astype(complex))
    with pytest.raises(ValueError, match=r"X is a Dask array, whose codes are a Dask array too.*to_zarr"):
        NMF(K).fit(untouched(), codes_path="codes.npy")
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        NMF(K).fit(da.zeros((0, 3)))


@pytest.mark.parametrize(("value", "text"), [(-1.0, "Negative values"), (np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_bad_cells_are_named(value: float, text: str, form: Any) -> None:
    """The first bad cell is named by its place in all of X: at once by fit, when it is computed by transform."""
    X = data()
    model = method(NMF, max_iter=2).fit(X)
    X[437, 5] = X[430, 9] = value
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ValueError, match=rf"{text}.*X\[430, 9\] = {value}"):
            method(NMF).fit(chunked(form(X)))
        codes = model.transform(chunked(form(X)))
        with pytest.raises(ValueError, match=rf"{text}.*X\[430, 9\] = {value}"):
            codes.compute()


def test_bad_cells_in_several_chunks() -> None:
    """Wherever else there are bad cells, the first one is named."""
    X = data()
    X[130, 9] = X[20, 3] = -1.0
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=r"first at X\[20, 3\] = -1"):
        method(NMF).fit(chunked(X))


def test_column_chunks_are_joined_with_a_warning() -> None:
    """Chunks of columns are joined, and the warning says what it costs."""
    X, expected, model = data(), method(max_iter=5), method(max_iter=5)
    expected.fit(X)
    with pytest.warns(EfficiencyWarning, match=r"split into 2 chunks of columns.*moves up to 0.000115 GB"):
        codes = model.fit_transform(da.from_array(X, chunks=(300, 12)))
    assert codes.chunks == ((300, 300), (K,))
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)


@pytest.mark.parametrize("where", ["synchronous", "cluster"])
def test_chunks_of_unknown_size(where: str, request: pytest.FixtureRequest) -> None:
    """A fit counts rows that nobody has counted, and says so; transform need not."""
    X = data()
    unknown = chunked(X)[chunked(X)[:, 0] > 0]
    expected, model = method(max_iter=5), method(max_iter=5)
    expected.fit(X[X[:, 0] > 0])
    with scheduler(where, request):
        with pytest.warns(EfficiencyWarning, match="unknown numbers of rows"):
            model.fit(unknown)
        np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)
        codes = model.transform(unknown)
        np.testing.assert_allclose(codes.compute(), model.transform(X[X[:, 0] > 0]), atol=1e-12)


def test_types_and_features() -> None:
    """Integers become float64, and the number of features is that of the fit."""
    X = (9 * data()).astype(np.int32)
    model = method(max_iter=5)
    codes = model.fit_transform(chunked(X))
    assert codes.dtype == np.float64
    assert model.n_features_in_ == M
    assert model.objective_ == pytest.approx(method(max_iter=5).fit(X).objective_, rel=1e-9)
    with pytest.raises(ValueError, match=f"X has {M - 1} features, but DSPNMF is expecting {M} features"):
        model.transform(untouched(M - 1))


def test_transform_is_lazy() -> None:
    """Transform computes nothing, keeps the chunks, and sends the model once, not with every chunk."""
    model = method(max_iter=5).fit(data())
    assert isinstance(model.transform(untouched()), da.Array)
    X = chunked(data())
    codes = model.transform(X)
    assert codes.chunks == (X.chunks[0], (K,))
    np.testing.assert_allclose(codes.compute(), model.transform(data()), atol=1e-12)
    (graph,) = dask.optimize(codes)
    assert len(graph.__dask_graph__()) <= 4 * X.numblocks[0] + 2


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layouts", [(LAYOUTS[0], LAYOUTS[1]), (LAYOUTS[3], LAYOUTS[3])], ids=["full", "empty chunks"])
@pytest.mark.parametrize("where", ["synchronous", "cluster"])
def test_checkpoint(
    where: str, layouts: Any, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that was killed goes on from its checkpoint, in other chunks too, and ends where it would have ended."""
    expected, model, path = method(max_iter=12), method(max_iter=12), tmp_path / "fit.npz"
    expected.fit(data())

    def interrupt(_: Any, iteration: int, value: float) -> None:
        if iteration == 8:
            raise KeyboardInterrupt

    with scheduler(where, request):
        with monkeypatch.context() as patch:
            patch.setattr(DSPNMF, "_log", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.fit(chunked(data(), layouts[0]), checkpoint_path=path, checkpoint_every=0)
        assert path.exists()
        model.fit(chunked(data(), layouts[1]), checkpoint_path=path, checkpoint_every=0)
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)
    assert not path.exists()


# -- workers -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "killed"), [(DSPNMF, 1), (NMF, 1), (DSPNMF, 2)])
def test_a_lost_worker_does_not_lose_the_fit(
    kind: Any, killed: int, mortal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill workers in the middle of a fit and after it: the objective is that of NumPy, and codes can be read."""
    expected, model = method(kind, max_iter=20), method(kind, max_iter=20)
    codes = expected.fit_transform(data())

    def kill(_: Any, iteration: int, value: float, *start: int) -> None:
        if iteration == 12:
            kill_workers(mortal, killed)

    with mortal.as_current(), within(300):
        with monkeypatch.context() as patch:
            patch.setattr(kind, "_log", kill)
            mine = model.fit_transform(chunked(data()))
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
        kill_workers(mortal)
        np.testing.assert_allclose(mortal.compute(mine).result(), codes, rtol=1e-6, atol=1e-8)
