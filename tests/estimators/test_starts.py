"""Several starts (`n_init`) look at X together, and end where single ones do."""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from dspnmf import DSPNMF, GNMF, NMF, _threads
from dspnmf._threads import dealt, spread, team
from dspnmf.backends import MemoryRows
from dspnmf.estimators.base import Factorization

METHODS = {
    "NMF": NMF(4),
    "DSPNMF": DSPNMF(4, alpha=0.01),
    "DSPNMF by hals": DSPNMF(4, alpha=0.01, solver="hals"),
    "GNMF": GNMF(4, beta=1.0),
    "labels": DSPNMF(4, alpha=0.01, label_weight=1.0),
}


@pytest.fixture(params=[1, 3], ids=["rows split among threads", "starts split among threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, which work on one start after another or have starts of their own."""
    monkeypatch.setattr(_threads, "_WORTH_THEIR_THREADS", 100 if request.param == 1 else 1)
    monkeypatch.setattr(_threads, "_WORTH_A_THREAD", 1e5)


def made(dtype: Any) -> np.ndarray:
    """Data with four parts and some noise."""
    rng = np.random.default_rng(0)
    X = rng.random((500, 4)) ** 3 @ rng.random((4, 30)) ** 3 + 0.05 * rng.random((500, 30))
    return X.astype(dtype)


def one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows have room for one start."""
    monkeypatch.setattr(MemoryRows, "several", lambda self, wanted: [self])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_starts_together_are_those_one_after_another(
    layout: str, name: str, threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes, components, history and stability do not depend on whether starts share their looks."""
    X = made(np.float64)
    X = X if layout == "dense" else sparse.csr_array(np.where(np.random.default_rng(1).random(X.shape) < 0.4, X, 0))
    y, settings = np.arange(500) % 3, {"n_init": 5, "max_iter": 12, "tol": 0, "random_state": 3}
    fits = []
    for _ in range(2):
        model = clone(METHODS[name]).set_params(**settings)
        fits.append((model.fit_transform(X, y), model))
        one_after_another(monkeypatch)
    (Z, together), (Z_apart, apart) = fits
    np.testing.assert_allclose(together.objective_history_, apart.objective_history_, rtol=1e-9)
    np.testing.assert_allclose(Z, Z_apart, atol=1e-7 * Z_apart.max())
    np.testing.assert_allclose(together.components_, apart.components_, atol=1e-7 * apart.components_.max())
    np.testing.assert_allclose(together.stability_, apart.stability_, atol=1e-7)
    assert Z.base is None  # nothing of the other starts is kept alive


def test_starts_together_in_float32(threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in float32, to its rounding."""
    X, fits = made(np.float32), []
    for _ in range(2):
        fits.append(NMF(4, n_init=5, max_iter=12, tol=0, random_state=3).fit(X))
        one_after_another(monkeypatch)
    assert fits[0].components_.dtype == np.float32
    np.testing.assert_allclose(fits[0].objective_history_, fits[1].objective_history_, rtol=1e-4)


def test_starts_leave_when_they_have_converged(threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start takes the iterations it would take alone."""
    X, counts = made(np.float64), []
    for _ in range(2):
        seen: dict[int, list[float]] = {}

        def log(_: Any, number: int, value: float, *start: int, seen: dict[int, list[float]] = seen) -> None:
            seen.setdefault(start[0], []).append(value)

        monkeypatch.setattr(Factorization, "_log", log)
        NMF(4, n_init=6, tol=1e-3, random_state=0).fit(X)
        counts.append(seen)
        one_after_another(monkeypatch)
    assert counts[0].keys() == counts[1].keys() == set(range(6))
    assert len({len(history) for history in counts[0].values()}) > 1
    for number in range(6):
        np.testing.assert_allclose(counts[0][number], counts[1][number], rtol=1e-9)


@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
def test_a_look_serves_all_starts(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five starts take the looks at X of one."""
    monkeypatch.setattr(_threads, "_WORTH_THEIR_THREADS", 100)
    counts = []
    for starts in (1, 5):
        looks: list[Any] = []
        whole = MemoryRows._with_X

        def counted(
            self: Any, kernel: Any, *given: Any, looks: list[Any] = looks, whole: Any = whole, **more: Any
        ) -> Any:
            if kernel.__name__ in ("look", "face", "combine"):
                looks.append(kernel)
            return whole(self, kernel, *given, **more)

        monkeypatch.setattr(MemoryRows, "_with_X", counted)
        DSPNMF(3, alpha=0.01, solver=solver, n_init=starts, max_iter=6, tol=0, random_state=0).fit(made(np.float64))
        monkeypatch.setattr(MemoryRows, "_with_X", whole)
        counts.append(len(looks))
    assert counts[0] == counts[1] == (6 if solver == "hals" else 12)


def test_memory_of_starts_is_bounded() -> None:
    """Starts that share looks take no more memory than X, or 256 MiB; a thousand of them are done in groups."""
    assert len(MemoryRows(np.ones((1000, 20)), 5).several(1000)) == 16
    assert len(MemoryRows(np.broadcast_to(1.0, (10**6, 30)), 10).several(10)) == 1
    assert len(MemoryRows(np.broadcast_to(1.0, (10**5, 30)), 10).several(10)) == 4
    assert len(MemoryRows(np.broadcast_to(1.0, (10**6, 300)), 10).several(10)) == 3


def test_groups_of_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts that do not fit in one group give the same best one."""
    X = made(np.float64)
    whole = NMF(4, n_init=7, max_iter=10, tol=0, random_state=1).fit(X)
    several = MemoryRows.several
    monkeypatch.setattr(MemoryRows, "several", lambda self, wanted: several(self, min(wanted, 3)))
    groups = NMF(4, n_init=7, max_iter=10, tol=0, random_state=1).fit(X)
    np.testing.assert_allclose(groups.components_, whole.components_, atol=1e-7 * whole.components_.max())
    np.testing.assert_allclose(groups.stability_, whole.stability_, atol=1e-7)


def test_progress_says_which_start(caplog: pytest.LogCaptureFixture) -> None:
    """With several starts every line of progress names its own."""
    with caplog.at_level(logging.INFO, "dspnmf"):
        NMF(3, n_init=2, max_iter=2, tol=0, random_state=0, verbose=1).fit(made(np.float64))
    lines = [line.split(":")[0] for line in caplog.messages]
    assert lines == [f"start {start}, iteration {number}" for number in (1, 2) for start in (0, 1)]


def test_a_callback_stops_its_start() -> None:
    """What a callback says of an iteration holds for the start it belongs to."""

    class Stop:
        tasks: ClassVar[list[int]] = []

        def setup(self, estimator: Any, context: Any) -> None: ...

        def teardown(self, estimator: Any, context: Any) -> None: ...

        def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
            if context.task_name == "iteration":
                self.tasks.append(context.parent.task_id)
            return context.task_name == "iteration" and context.parent.task_id == 1

    NMF(3, n_init=3, max_iter=4, tol=0, random_state=0).set_callbacks(Stop()).fit(made(np.float64))
    assert [Stop.tasks.count(start) for start in range(3)] == [4, 1, 4]


def test_dealt_items_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item is done on one thread alone, and errors are those of the item that failed."""
    monkeypatch.setattr(_threads, "_WORTH_THEIR_THREADS", 1)
    with team():
        monkeypatch.setitem(_threads._state, "threads", 3)
        assert dealt(lambda item: item * item, 7) == [item * item for item in range(7)]
        alone = dealt(lambda item: spread(lambda lo, hi: [hi - lo], 9, 3e9), 3)
        assert alone == [[1, 1, 1, 1, 1, 1, 1, 2]] * 3  # pieces of one thread

        def fail(item: int) -> int:
            if item == 4:
                raise ValueError("of this item")
            while item == 5:
                spread(lambda lo, hi: [hi], 9, 3e9)  # goes on until it is told to stop
            return item

        with pytest.raises(ValueError, match="of this item"):
            dealt(fail, 7)
        with pytest.raises(CancelledError):
            _threads._check_going((_threads.threading.Event(), _set_event()))


def _set_event() -> Any:
    event = _threads.threading.Event()
    event.set()
    return event
