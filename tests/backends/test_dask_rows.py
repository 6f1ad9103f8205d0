"""Rows of a Dask array: the numbers of rows in memory on every scheduler, and descents that outlive their workers."""

from __future__ import annotations

import gc
import os
import signal
import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.base import BaseEstimator

from dask_arrays import CASES, LAYOUTS, K, M, N, chunked, data, kill_workers, scheduler, two_workers, within
from dspnmf.backends import MemoryRows, dask_cluster
from dspnmf.backends.dask import DaskBackend, DaskData, DaskRows
from dspnmf.backends.dask_cluster import fair_groups
from dspnmf.backends.dask_partition import apply, on_rows
from dspnmf.backends.memory import MEMORY, MemoryData
from dspnmf.backends.row_model import Completion, DivergenceModel, Operator, RandomCodes, RowModel, Ties

pytestmark = [
    pytest.mark.filterwarnings("ignore:Port 8787 is already in use"),  # of a dashboard nobody asked for
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # sockets of killed workers
]
DASK = DaskBackend()
TOLERANCE = {np.float64: 1e-11, np.float32: 1e-4}


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


def rows_of(X: da.Array, scale: float = 2.0) -> DaskRows:
    """Rows of a checked array, at a random start."""
    rows = checked(X).rows(K, scale)
    rows.begin(rows.draw(random_codes(rows.dtype)))
    return rows


def checked(X: da.Array) -> DaskData:
    """X, its values looked at."""
    return DASK.check(BaseEstimator(), X, reset=True)


def in_memory(X: Any, scale: float = 2.0) -> MemoryRows:
    """The same in memory."""
    rows = MemoryRows(X, K, scale)
    rows.begin(rows.draw(random_codes(rows.dtype)))
    return rows


def random_codes(dtype: Any = np.float64) -> RandomCodes:
    """A start."""
    return RandomCodes(0, 0.3, K, np.dtype(dtype))


def model_of_rows(rng: np.random.Generator | None = None) -> RowModel:
    """A convex model."""
    rng = rng or np.random.default_rng(2)
    B = rng.random((K, K))
    return RowModel(B @ B.T + np.eye(K), rng.random((M, K)), coupling=0.5)  # which sweeps leave out


def descent(rows: Any, seed: int = 3) -> Iterator[np.ndarray]:
    """Looks and steps, another model every time; the sums of each in one array, for ever."""
    rng = np.random.default_rng(seed)
    while True:
        sums = rows.look(model_of_rows(rng), sweeps=int(rng.integers(1, 4)), stretch=1.0 + rng.random())
        rows.step(rng.random())
        yield np.concatenate([sums.PD.ravel(), sums.UD.ravel(), sums.DD.ravel(), [sums.settled]])


def take(steps: Iterator[np.ndarray], number: int) -> np.ndarray:
    """The sums of the next looks."""
    return np.array([next(steps) for _ in range(number)])


@pytest.mark.parametrize(("where", "layout", "dtype"), CASES)
def test_looks_of_memory(where: str, layout: Any, dtype: Any, request: pytest.FixtureRequest) -> None:
    """However X is cut and whoever computes: 20 looks, codes and residuals are those of rows in memory."""
    X, tolerance = data(dtype), TOLERANCE[dtype]
    expected, Vt = in_memory(X), np.random.default_rng(1).random((M, K))
    with scheduler(where, request), within(300):
        rows = rows_of(chunked(X, layout))
        for mine, theirs in zip(rows.sums()[:2], expected.sums()[:2], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=tolerance)
        np.testing.assert_allclose(
            take(descent(rows), 20), take(descent(expected), 20), rtol=tolerance, atol=10 * tolerance
        )
        assert rows.residual2(Vt) == pytest.approx(expected.residual2(Vt), rel=tolerance)
        assert rows.gram_residual2() == pytest.approx(expected.gram_residual2(), rel=tolerance)
        codes = DASK.codes(rows.codes)
        assert codes.chunks == (layout, (K,))
        assert codes.dtype == dtype
        np.testing.assert_allclose(codes.compute(), expected.codes, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_looks_of_memory_in_processes(request: pytest.FixtureRequest) -> None:
    """Processes give the same sums too, states going back and forth."""
    with scheduler("processes", request), within(300):
        mine = take(descent(rows_of(chunked(data(), 300))), 3)
    np.testing.assert_allclose(mine, take(descent(in_memory(data())), 3), rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("where", ["synchronous", "cluster"])
def test_solved_and_scaled_codes(where: str, request: pytest.FixtureRequest) -> None:
    """Codes solved for, drawn or reached, times a number or a number for each component, are those of memory."""
    expected, factors, model = in_memory(data()), np.arange(1.0, K + 1), model_of_rows()
    with scheduler(where, request), within(300):
        rows = rows_of(chunked(data()))
        next(descent(rows))
        next(descent(expected))
        for mine, theirs in (
            (rows.codes, expected.codes.copy()),
            (rows.solve(model), expected.solve(model)),
            (rows.draw(random_codes()), expected.draw(random_codes())),
        ):
            for factor in (factors, 3.0):
                mine, theirs = rows.scaled(mine, factor), expected.scaled(theirs, factor)
            np.testing.assert_allclose(DASK.codes(mine).compute(), theirs, rtol=1e-12)
            np.testing.assert_allclose(np.concatenate(list(rows.save_codes(mine))), theirs, rtol=1e-12)
            rows.begin(mine)
            np.testing.assert_allclose(rows.sums()[1], theirs.T @ theirs, rtol=1e-12)


def test_earlier_codes_stay(request: pytest.FixtureRequest) -> None:
    """Codes of one descent are what they were after another one, and a descent can begin from them again."""
    for where in ("synchronous", "cluster"):
        with scheduler(where, request), within(300):
            rows = rows_of(chunked(data()))
            take(descent(rows), 3)
            kept = rows.codes
            values = DASK.codes(kept).compute()
            rows.begin(rows.draw(random_codes()))
            take(descent(rows), 12)
            rows.begin(kept)
            np.testing.assert_array_equal(DASK.codes(rows.codes).compute(), values)


def test_facts_and_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts of X are those of the whole matrix, ||XX'||^2 however many stripes it takes."""
    monkeypatch.setattr("dspnmf.backends.dask._STRIPE", {False: 5 * M, True: 5 * M})
    for X in (data(), sparse.csr_array(data()), 1e100 * data()):
        expected = MemoryData(X, MEMORY, float(X.max()))
        scale = expected.largest
        with dask.config.set(scheduler="synchronous"):
            mine = checked(chunked(X, LAYOUTS[3]))
            assert mine.largest == expected.largest
            assert mine.mean() == pytest.approx(expected.mean(), rel=1e-12)
            assert mine.norm2(scale) == pytest.approx(expected.norm2(scale), rel=1e-12)
            assert mine.gram_norm2(scale) == pytest.approx(expected.gram_norm2(scale), rel=1e-12)
            rows = mine.rows(K, scale)
            assert (rows.product_cost, rows.sweep_cost) == (expected.rows(K, scale).product_cost, 2.0 * N * K**2)


def test_what_rows_cannot_do_is_refused() -> None:
    """Operators, ties, further columns and the like are refused by name, never dropped."""
    one = Operator(sparse.csr_array((N, N)), np.ones(N))
    with dask.config.set(scheduler="synchronous"):
        data_of_x = checked(chunked(data()))
        rows = data_of_x.rows(K, 1.0)
    for refused, capability in (
        (partial(data_of_x.rows, K, 1.0, [one]), "operators"),
        (partial(rows.solve, model_of_rows(), Ties(None)), "operators"),
        (partial(rows.solve, model_of_rows(), None, Completion(np.zeros((M, K)), 1.0, np.zeros(M))), "missing"),
        (partial(rows.some_codes, np.arange(3)), "batches"),
        (partial(data_of_x.widened, "labels", np.ones((N, 2))), "features"),
        (partial(data_of_x.with_unit_rows, 1.0), "features"),
        (data_of_x.without_features, "graphs"),
        (data_of_x.transposed, "whole matrix"),
        (data_of_x.as_float64, "whole matrix"),
        (partial(data_of_x.some_rows, np.arange(3)), "batches"),
        (data_of_x.on_host, "graphs"),
        (data_of_x.column_means, "missing"),
        (partial(data_of_x.singular_vectors, K, np.random.RandomState(0)), "svd"),
    ):
        with pytest.raises(NotImplementedError, match=f"X is a Dask array, which is not capable of '{capability}'"):
            refused()
    rows.begin(rows.draw(random_codes()))
    with dask.config.set(scheduler="synchronous"), pytest.raises(NotImplementedError, match="operators"):
        rows.look(model_of_rows()._replace(pulls={0: np.ones(K)}), 1)
    assert data_of_x.with_similarity_block() == (data_of_x, "X")
    assert data_of_x.block().columns == slice(None)
    assert rows.refresh(np.zeros((M, K))) is None


@pytest.mark.parametrize("where", ["synchronous", "cluster"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_codes_can_be_saved(layout: Any, where: str, request: pytest.FixtureRequest) -> None:
    """Codes saved block by block in one layout of chunks go on in another, with empty chunks too."""
    with scheduler(where, request), within(300):
        rows = rows_of(chunked(data()))
        next(descent(rows))
        blocks = list(rows.save_codes())
        other = rows_of(chunked(data(), layout))
        other.begin(other.restore_codes(blocks))
        again = list(other.save_codes())
        assert tuple(len(block) for block in again) == layout
        np.testing.assert_array_equal(np.concatenate(again), np.concatenate(blocks))


def test_saving_codes_does_not_disturb() -> None:
    """A descent goes on as it would have, saved in between or not."""
    with dask.config.set(scheduler="synchronous"):
        plain, saved = rows_of(chunked(data())), rows_of(chunked(data()))
        steps = descent(saved)
        first = take(steps, 4)
        list(saved.save_codes())
        np.testing.assert_array_equal(np.vstack([first, take(steps, 4)]), take(descent(plain), 8))


def test_updates_change_nothing() -> None:
    """A look leaves the states it is given as they were, and gives the same again."""
    X, U = data(), random_codes()(0, N)
    U.flags.writeable = False
    update = partial(on_rows, method=MemoryRows.swept, scale=1.0, t=0.5, model=model_of_rows(), sweeps=2, stretch=1.0)
    spans, blocks, before = [(0, 200), (200, N)], (X[:200], X[200:]), [(U[:200], U[:200]), (U[200:], U[200:])]
    first, second = (apply(update, spans, (before, ()), *blocks) for _ in range(2))
    for mine, again, old in zip(first[0], second[0], before, strict=True):
        np.testing.assert_array_equal(mine[0], again[0])
        assert not np.array_equal(mine[0], old[0])
    for mine, again in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(mine, again)


# -- workers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_balanced(seed: int) -> None:
    """Every chunk goes to one thread, none has a chunk more than its share, and no chunk moves without need."""
    rng = np.random.default_rng(seed)
    threads = {worker: int(rng.integers(1, 4)) for worker in "abc"}
    rows = rng.integers(50, 100, 40).tolist()
    at = rng.choice(list("abcd"), 40, p=[0.6, 0.2, 0.1, 0.1]).tolist()
    groups = fair_groups(at, rows, threads)
    assert sorted(chunk for _, chunks in groups for chunk in chunks) == list(range(40))
    fair = sum(rows) / sum(threads.values())
    assert max(sum(rows[chunk] for chunk in chunks) for _, chunks in groups) <= fair + max(rows)
    even = fair_groups(list("abc") * 4, [10] * 12, dict.fromkeys("abc", 1))
    assert dict(even) == {
        "a": [0, 3, 6, 9],
        "b": [1, 4, 7, 10],
        "c": [2, 5, 8, 11],
    }


def held(client: Client) -> int:
    """Tasks the scheduler holds."""
    return int(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))


def settled(client: Client) -> int:
    """Tasks the scheduler holds when it has heard of what was released."""
    gc.collect()
    counts = [held(client)]
    while len(counts) < 50 and counts[-3:] != [counts[-1]] * 3:
        time.sleep(0.05)
        counts.append(held(client))
    return counts[-1]


@pytest.mark.slow
@pytest.mark.parametrize("every", [8, 1000])
def test_look_60_costs_what_look_10_does(every: int, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the time of a look nor what the scheduler holds grows, checkpoints or not; nothing is left in the end."""
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_EVERY", every)
    with client.as_current(), within(300):
        rows = rows_of(chunked(data()))
        steps, times = descent(rows), []
        take(steps, 10)
        early = settled(client)
        for _ in range(50):
            begin = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - begin)
        assert settled(client) == early
        assert statistics.median(times[40:]) < 5 * statistics.median(times[:10])
        del rows, steps
        assert settled(client) == 0


@pytest.mark.parametrize(
    ("every", "killed"),
    [(4, 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1000, 1), (4, 2), (1000, 2)))],
)
def test_a_lost_worker_does_not_lose_the_fit(
    every: int, killed: int, mortal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill workers in the middle of a descent: its sums are those of memory, from a checkpoint or from the start."""
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_EVERY", every)
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_COST", 1e9)
    with mortal.as_current(), within(300):
        rows = rows_of(chunked(data()))
        steps = descent(rows)
        sums = [take(steps, 11)]
        assert len(rows._states.updates) == (4 if every == 4 else 12)
        kill_workers(mortal, killed)
        sums.append(take(steps, 9))
        np.testing.assert_allclose(np.vstack(sums), take(descent(in_memory(data())), 20), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("every", [4, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_lost_worker_loses_no_codes_of_a_divergence(
    every: int, mortal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill a worker while codes are improved: sums and kept codes are those of memory, also what was remembered."""
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_EVERY", every)
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_COST", 1e9)
    V = np.random.default_rng(0).random((M, K))
    models = [DivergenceModel(1.0, V + 0.1 * turn) for turn in range(12)]
    with mortal.as_current(), within(300):
        found, known = (
            kind.divergence_rows(K, 2.0) for kind in (checked(chunked(data())), MemoryData(data(), MEMORY, 1.0))
        )
        for rows in (found, known):
            rows.begin(rows.draw(random_codes(rows.dtype)))
        for turn, model in enumerate(models):
            if turn == 7:
                found.remember()
                known.remember()
            if turn == 9:
                kill_workers(mortal)
            sums = found.improve(model, 1), known.improve(model, 1)
            for one, other in zip(*sums, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        assert len(found._states.updates) <= (4 if every == 4 else 13)
        for rows in (found, known):
            rows.recall()
        np.testing.assert_allclose(np.vstack(list(found.save_codes())), known.codes, rtol=1e-9)


@pytest.mark.slow
def test_workers_killed_one_after_the_other(mortal: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill one worker, then the other: the sums are those of memory."""
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_COST", 1e9)
    with mortal.as_current(), within(300):
        rows = rows_of(chunked(data()))
        steps, first, sums = descent(rows), list(mortal.run(os.getpid).values()), []
        for process in first:
            sums.append(take(steps, 10))
            os.kill(process, signal.SIGKILL)
        np.testing.assert_allclose(np.vstack(sums), take(descent(in_memory(data())), 20), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(rows.sums()[1], in_memory_sums(20), rtol=1e-9)


def in_memory_sums(number: int) -> np.ndarray:
    """U'U after some looks in memory."""
    rows = in_memory(data())
    take(descent(rows), number)
    return rows.sums()[1]


@pytest.mark.slow
def test_codes_outlive_workers(mortal: Client) -> None:
    """Workers die after a fit: its codes can be read, solved or reached, and pinned to no worker."""
    with mortal.as_current(), within(300):
        rows = rows_of(chunked(data()))
        take(descent(rows), 2)
        solved, reached = DASK.codes(rows.solve(model_of_rows())), DASK.codes(rows.codes)
        persisted = mortal.persist(solved)
        del rows
        expected = in_memory(data())
        take(descent(expected), 2)
        kill_workers(mortal, 2)
        for mine in (solved, persisted):
            np.testing.assert_allclose(mortal.compute(mine).result(), expected.solve(model_of_rows()), rtol=1e-12)
        np.testing.assert_allclose(mortal.compute(reached).result(), expected.codes, rtol=1e-12)
        del persisted
    assert not any(isinstance(layer.annotations, dict) for layer in solved.dask.layers.values())


@pytest.mark.slow
def test_workers_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker is enough; more take part after the next checkpoint, and may leave again."""
    monkeypatch.setattr(dask_cluster, "_CHECKPOINT_COST", 1e9)
    with (
        within(300),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        rows = rows_of(chunked(data()))
        steps = descent(rows)
        sums = [take(steps, 3)]
        assert len(rows._states.groups) == 1
        cluster.scale(2)
        client.wait_for_workers(2)
        sums.append(take(steps, 10))
        assert len(rows._states.groups) == 2
        client.retire_workers([rows._states.groups[0][0]])
        sums.append(take(steps, 12))
        assert len(rows._states.groups) == 1
        np.testing.assert_allclose(np.vstack(sums), take(descent(in_memory(data())), 25), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_without_workers_a_fit_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker, or no scheduler, for too long is an error that says what to do, and no hang."""
    monkeypatch.setattr(dask_cluster, "_WAIT", 1)
    monkeypatch.setattr(dask_cluster, "_POLL", 1)
    with within(300):
        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
            client = Client(cluster)
            rows = rows_of(chunked(data()))
            steps = descent(rows)
            take(steps, 2)
            cluster.scale(0)
            with pytest.raises(RuntimeError, match="no worker for 1 seconds: start workers"):
                take(steps, 2)
        with pytest.raises(RuntimeError, match="connection to the Dask scheduler was lost"):
            rows.look(model_of_rows(), 1)
        client.close()


@pytest.mark.slow
def test_workers_that_always_die(mortal: Client) -> None:
    """A pass that kills its workers ends in an error that names the usual cause."""
    with mortal.as_current(), within(300):
        mortal.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
        with pytest.raises(RuntimeError, match=r"Workers were lost again and again during one pass.*smaller chunks"):
            checked(chunked(data(), 300).map_blocks(_die, dtype=float, meta=np.empty((0, 0))))


def test_what_tasks_raise_is_raised_here(client: Client) -> None:
    """An X that cannot be computed says why."""
    with client.as_current(), within(300), pytest.raises(OSError, match="no such disk"):
        checked(chunked(data()).map_blocks(_fail, dtype=float, meta=np.empty((0, 0))))


def _die(X: np.ndarray) -> np.ndarray:
    os._exit(1)


def _fail(X: np.ndarray) -> np.ndarray:
    raise OSError("no such disk")


@pytest.mark.slow
def test_scattered_chunks_are_lost(mortal: Client) -> None:
    """X sent to a worker as data cannot be computed again: the error says so, with the fix."""
    with mortal.as_current(), within(300):
        blocks = mortal.scatter([data()[:300], data()[300:]])
        X = da.concatenate([da.from_delayed(block, (300, M), float) for block in blocks])
        rows = rows_of(X)
        steps = descent(rows)
        take(steps, 2)
        kill_workers(mortal, 2)
        with pytest.raises(RuntimeError, match=r"Rows 0 to 300 of X were lost.*dask\.array\.from_zarr"):
            take(steps, 2)
