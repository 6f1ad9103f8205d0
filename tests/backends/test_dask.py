"""Dask arrays: the numbers of NumPy on every scheduler, and fits that outlive their workers."""

from __future__ import annotations

import gc
import os
import signal
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.exceptions import EfficiencyWarning

from dspnmf import DSPNMF, GNMF, NMF
from dspnmf.backends import ArrayRows, _cluster
from dspnmf.backends.dask import DASK, DaskRows
from dspnmf.backends.dask_cluster import shares
from dspnmf.backends.dask_partition import Begin, Drawn, Lane, Look, Settle
from dspnmf.backends.row_model import RandomCodes, RowModel
from dspnmf.objective.terms import GramSimilarity, Objective, Reconstruction
from dspnmf.solvers.loop import Descent, Hals, iterate

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stopped after max_iter"),  # fits are cut short on purpose
    pytest.mark.filterwarnings("ignore:Port 8787 is already in use"),  # of a dashboard nobody asked for
]
N, M, K = 600, 24, 4
LAYOUTS = ((100,) * 6, (250, 250, 100), (1, 599), (0, 300, 0, 0, 300))
TOLERANCE = {np.float64: 1e-9, np.float32: 1e-4}


def data(dtype: Any = np.float64) -> np.ndarray:
    """A third of it zeros."""
    X = np.random.default_rng(0).random((N, M))
    return np.where(X < 0.3, 0, X).astype(dtype)


def chunked(X: Any, rows: Any = 100) -> da.Array:
    """X in chunks of rows, made by tasks (so it can be made again)."""
    sizes = rows if isinstance(rows, tuple) else (rows,) * (X.shape[0] // rows)
    ends = np.cumsum(sizes)
    parts = [dask.delayed(X[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    name = f"chunks-{uuid.uuid4().hex}"
    tasks = {(name, number, 0): part.key for number, part in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=parts)  # concatenate leaves out empty chunks
    return da.Array(graph, name, (sizes, (X.shape[1],)), meta=X[:0])


def method(kind: Any = DSPNMF, **parameters: Any) -> Any:
    """A short fit that no tolerance ends."""
    return kind(**{"n_components": K, "solver": "hals", "max_iter": 50, "tol": 0, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two worker processes."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def scheduler(name: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """One of Dask's schedulers; "cluster" is that of `client`."""
    if name == "cluster":
        with request.getfixturevalue("client").as_current():
            yield
    else:
        with dask.config.set(scheduler=name, num_workers=2):
            yield


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail instead of hanging."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", LAYOUTS)
@pytest.mark.parametrize("where", ["synchronous", "threads", "cluster"])
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


def test_norms_in_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    """||XX'||^2 and ||XX' - UU'||^2 are those of the whole matrix, however many stripes it takes."""
    monkeypatch.setattr("dspnmf.backends.dask._STRIPE", {False: 5 * M, True: 5 * M})
    U = np.random.default_rng(0).random((N, K))
    for X in (data(), sparse.csr_array(data())):
        expected = ArrayRows(X, K, 2.0)
        expected.begin(U.copy())
        with dask.config.set(scheduler="synchronous"):
            checked, _ = DASK.check(DSPNMF(K), chunked(X), reset=True)
            rows = DaskRows(checked, K, 2.0)
            rows.begin(U)
            assert rows.norm2() == pytest.approx(expected.norm2(), rel=1e-12)
            assert rows.mean() == pytest.approx(expected.mean(), rel=1e-12)
            assert rows.gram_norm2() == pytest.approx(expected.gram_norm2(), rel=1e-12)
            assert rows.gram_residual2() == pytest.approx(expected.gram_residual2(), rel=1e-10)


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
        (DSPNMF(K, similarity="cosine"), "similarity='cosine' needs all of X in memory, but X is a Dask array"),
        (GNMF(K), "GNMF needs all of X in memory, but X is a Dask array. Use DSPNMF or NMF there"),
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
    with pytest.raises(ValueError, match=r"X is a Dask array, whose codes are one too.*to_zarr"):
        NMF(K).fit(untouched(), codes="codes.npy")
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


@pytest.mark.parametrize("where", ["synchronous", "cluster"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_codes_can_be_saved(layout: Any, where: str, request: pytest.FixtureRequest) -> None:
    """Codes saved block by block in one layout of chunks go on in another, with empty chunks too."""
    with scheduler(where, request):
        rows = running(chunked(data()))[0]
        rows.look(model_of_rows(), 2)
        rows.step(0.5)
        blocks = list(rows.save_codes())
        other = running(chunked(data(), layout))[0]
        other.begin(other.restore_codes(blocks))
        again = list(other.save_codes())
        assert tuple(len(block) for block in again) == layout
        np.testing.assert_array_equal(np.concatenate(again), np.concatenate(blocks))


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
            patch.setattr(DSPNMF, "_say", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.fit(chunked(data(), layouts[0]), checkpoint=path, checkpoint_every=0)
        assert path.exists()
        model.fit(chunked(data(), layouts[1]), checkpoint=path, checkpoint_every=0)
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)
    assert not path.exists()


def model_of_rows() -> RowModel:
    """A convex model."""
    rng = np.random.default_rng(2)
    B = rng.random((K, K))
    return RowModel(B @ B.T + np.eye(K), rng.random((M, K)))


def running(X: da.Array) -> tuple[Any, Iterator[tuple[float, Any]]]:
    """Rows, and the iterations of a descent over them."""
    checked, _ = DASK.check(DSPNMF(K), X, reset=True)
    rows: Any = DaskRows(checked, K, 1.0)
    rows.begin(rows.draw(random_codes()))
    objective = Objective((Reconstruction(rows.norm2()), GramSimilarity(rows.gram_norm2())), (1.0, 1.0))
    return rows, iterate(rows, objective, np.random.default_rng(0).random((M, K)), Descent(Hals()))


def random_codes() -> RandomCodes:
    """A start."""
    return RandomCodes(np.random.RandomState(0).get_state(), 0, 0.3, K, np.dtype(np.float64))


# -- lanes and workers -------------------------------------------------------------------------------------------------


def test_lanes_obey_once() -> None:
    """A lane does what it is told once, says when it has missed something, and goes on from a copy."""
    X, model = data(), model_of_rows()
    lane, orders = Lane([(0, N)]), [Begin(Drawn(random_codes()), K, 1.0), Look(model, 1.0, 0.0, 2, 1.0)]
    assert lane.obey(orders[1], 2, [X]) is None
    assert lane.obey(orders[0], 1, [X]) == ()
    answer = lane.obey(orders[1], 2, [X])
    again = lane.obey(orders[1], 2, [X])
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(answer, again, strict=True))
    copy = lane.copy()
    lane.obey(Settle(0.7, keep=1), 3, [X])
    assert not np.array_equal(lane.U[0], copy.U[0])
    late = Lane([(0, N)])
    assert late.recover(copy) == 2
    late.obey(Settle(0.7, keep=1), 3, [X])
    np.testing.assert_array_equal(late.U[0], lane.U[0])
    kept = lane.held[1][0].copy()
    lane.obey(Look(model, 1.0, 0.0, 2, 1.0), 4, [X])
    lane.obey(Settle(1.0), 5, [X])
    np.testing.assert_array_equal(lane.held[1][0], kept)
    assert not np.array_equal(lane.U[0], kept)


def test_a_lane_that_failed_is_behind() -> None:
    """What an error left half done is begun again."""
    lane = Lane([(0, N)])
    with pytest.raises(IndexError):
        lane.obey(Look(model_of_rows(), 1.0, 0.0, 2, 1.0), 1, [data()])  # without a start
    assert lane.obey(Settle(), 2, [data()]) is None
    assert lane.recover() == 0


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_fair(seed: int) -> None:
    """Every chunk goes to one thread, none has a chunk more than its share, and no chunk moves without need."""
    rng = np.random.default_rng(seed)
    threads = {worker: int(rng.integers(1, 4)) for worker in "abc"}
    rows = rng.integers(50, 100, 40).tolist()
    at = rng.choice(list("abcd"), 40, p=[0.6, 0.2, 0.1, 0.1]).tolist()
    lanes = shares(at, rows, threads)
    assert sorted(chunk for _, chunks in lanes for chunk in chunks) == list(range(40))
    fair = sum(rows) / sum(threads.values())
    assert max(sum(rows[chunk] for chunk in chunks) for _, chunks in lanes) <= fair + 2 * max(rows)
    even = shares(list("abc") * 4, [10] * 12, dict.fromkeys("abc", 1))
    assert dict(even) == {"a": [0, 3, 6, 9], "b": [1, 4, 7, 10], "c": [2, 5, 8, 11]}


def test_iteration_200_costs_what_iteration_5_does(client: Client) -> None:
    """Neither the time of an iteration nor what the scheduler holds grows, and nothing is left in the end."""

    def held() -> int:
        return int(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))

    with client.as_current():
        rows, steps = running(chunked(data()))
        times, tasks = [], []
        for _ in range(200):
            begin = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - begin)
            tasks.append(held() if len(times) in (5, 60, 120, 200) else 0)
        lingering = 40  # copies, and what the scheduler has not heard of being released; one a step would be 195
        assert max(tasks) <= tasks[4] + lingering
        assert tasks[-1] <= tasks[119] + lingering
        assert statistics.median(times[180:]) < 5 * statistics.median(times[5:25])
        del rows, steps
        gc.collect()
        deadline = time.monotonic() + 10
        while held() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert held() == 0


@pytest.mark.parametrize(("every", "log", "killed"), [(50, 2**28, 1), (4, 0, 1), (50, 2**28, 2)], ids=str)
def test_a_lost_worker_does_not_lose_the_fit(
    every: int, log: int, killed: int, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill workers in the middle of a fit: the history is that of NumPy, from the log, from copies, or all anew."""
    monkeypatch.setattr(_cluster, "_COPY_EVERY", every)
    monkeypatch.setattr(_cluster, "_LOG_BYTES", log)
    monkeypatch.setattr(_cluster, "_LOOK_UP", 1)
    checked = ArrayRows(data(), K)
    checked.begin(checked.draw(random_codes()))
    objective = Objective((Reconstruction(checked.norm2()), GramSimilarity(checked.gram_norm2())), (1.0, 1.0))
    expected = iterate(checked, objective, np.random.default_rng(0).random((M, K)), Descent(Hals()))
    client.wait_for_workers(2, timeout=60)
    with client.as_current(), within(60):
        rows, steps = running(chunked(data()))
        history = [next(steps)[0] for _ in range(15)]
        for process in list(client.run(os.getpid).values())[:killed]:
            os.kill(process, signal.SIGKILL)
        history += [next(steps)[0] for _ in range(10)]
        np.testing.assert_allclose(history, [next(expected)[0] for _ in range(25)], rtol=1e-9)
        client.wait_for_workers(2, timeout=60)
        if every == 4:  # with the next copies lanes spread to the new worker
            history += [next(steps)[0] for _ in range(10)]
            np.testing.assert_allclose(history[25:], [next(expected)[0] for _ in range(10)], rtol=1e-9)
            assert len({seat.worker for seat in rows._data.crew._seats}) == 2
