"""The solver: an exact step, a loop that never goes up, an honest end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import reference
from dspnmf import DSPNMF, NMF
from dspnmf.backends import MemoryRows
from dspnmf.backends.chunk_facts import norm2
from dspnmf.backends.norms import gram_norm2
from dspnmf.backends.small_arrays import best_step, components, coupled
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, Reconstruction
from dspnmf.solvers.descent import Descent
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import Stopping, iterate
from dspnmf.solvers.newton_cg import NewtonCG
from dspnmf.solvers.requests import answered

MONOTONE = ("newton-cg", "hals", "mm")


def rounding(X: np.ndarray, alpha: float = 1.0) -> float:
    """What the history can resolve: the sums it is made of."""
    X = X.astype(np.float64)
    return float(np.sum(X**2) + alpha * np.sum((X.T @ X) ** 2))


def objective_of(X: np.ndarray, alpha: float = 1.0) -> Objective:
    """DSP-NMF's objective of X."""
    terms = {"reconstruction": Reconstruction(norm2(X)), "structure": GramSimilarity(gram_norm2(X))}
    return Objective(terms, {"reconstruction": 1.0, "structure": alpha})


def descent(
    rows: MemoryRows, objective: Objective, Vt: np.ndarray, inner: Hals | NewtonCG
) -> Iterator[tuple[float, State]]:
    """The loop from the codes the rows have."""
    update = Descent(inner)
    return iterate(rows, objective, update, *update.begin(rows, objective, Vt))


def check_never_up(history: np.ndarray, scale: float, tolerance: float) -> None:
    """No iteration raises the objective beyond rounding."""
    assert len(history) > 2
    assert history[-1] < history[0]
    assert np.diff(history).max() <= tolerance * scale


@pytest.mark.parametrize("solver", MONOTONE)
@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
def test_never_up(solver: str, k: int, dtype: type, name: str, request: pytest.FixtureRequest) -> None:
    """newton-cg, hals and mm never raise the objective, in either precision."""
    X = request.getfixturevalue(name).astype(dtype)
    model = DSPNMF(k, solver=solver, max_iter=40, tol=0, random_state=0).fit(X)
    check_never_up(model.objective_history_, rounding(X), 1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("solver", MONOTONE)
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1e-2, 1e3])
def test_never_up_for_any_weight(solver: str, alpha: float, wine: np.ndarray) -> None:
    """Whatever alpha is."""
    model = DSPNMF(4, alpha=alpha, solver=solver, max_iter=60, tol=0, random_state=1).fit(wine)
    check_never_up(model.objective_history_, rounding(wine, alpha), 1e-12)


def test_printed_rule_rises(digits: np.ndarray) -> None:
    """On digits at lam = 1000 the printed rule rises in half of its iterations, and ends far above the solvers."""
    model = DSPNMF(10, lam=1000.0, solver="paper", max_iter=200, tol=0, random_state=0).fit(digits)
    ups = int((np.diff(model.objective_history_) > 0).sum())
    assert 95 <= ups <= 105  # measured: 99 or 100 of 200
    best = DSPNMF(10, lam=1000.0, max_iter=50, tol=0, random_state=0).fit(digits)
    assert model.objective_ > 100 * best.objective_


@pytest.mark.parametrize("solver", MONOTONE)
def test_history_is_the_objective(solver: str, wine: np.ndarray) -> None:
    """The last entry of the history is the objective of what was returned, computed from residuals."""
    model = DSPNMF(4, alpha=0.7, solver=solver, max_iter=30, tol=0, random_state=0)
    Z = model.fit_transform(wine)
    expected = reference.objective_dense(wine, Z, model.components_, alpha=0.7)
    assert model.objective_history_[-1] == pytest.approx(expected, rel=1e-10)
    assert model.objective_ == pytest.approx(expected, rel=1e-10)


def test_history_in_float32(digits: np.ndarray) -> None:
    """In float32 the history still follows the true objective to the rounding of the data."""
    X = digits.astype(np.float32)
    model = DSPNMF(10, max_iter=100, tol=0, random_state=0)
    Z = model.fit_transform(X)
    expected = reference.objective_dense(X, Z, model.components_)
    assert abs(model.objective_history_[-1] - expected) < 1e-6 * rounding(X)


def test_best_step_is_the_lowest_point() -> None:
    """The exact step finds the minimum over [0, 1] that a fine grid finds."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 20001)
    for _ in range(300):
        c = rng.standard_normal(4) * 10.0 ** rng.integers(-3, 4, 4)
        t = best_step(c)
        values = np.polyval([*c[::-1], 0.0], grid)
        assert np.polyval([*c[::-1], 0.0], t) <= values.min() + 1e-9 * np.abs(c).max()


def test_best_step_stays_put_when_uphill() -> None:
    """No direction down, no step."""
    assert best_step(np.array([1.0, 1.0, 0.0, 0.0])) == 0.0
    assert best_step(np.zeros(4)) == 0.0


def test_stopping_rule_on_made_up_curves() -> None:
    """Stops at a small relative change, at rounding, never for tol = 0, whatever the unit."""
    for unit in (1e-200, 1.0, 1e200):
        assert Stopping(1e-4)([1.00005 * unit, 1.0 * unit])
        assert not Stopping(1e-4)([1.001 * unit, 1.0 * unit])
        assert not Stopping(0.0)([1.0 * unit, 1.0 * unit])
        assert Stopping(1e-4, 1e16 * unit)([1.9 * unit, 0.0])
    assert not Stopping(1e-4)([0.9, 1.0]), "a rise is no convergence"


def test_components_are_the_optimum_after_enough_sweeps() -> None:
    """V from P and Q alone tends to the non-negative least-squares solution."""
    rng = np.random.default_rng(0)
    X, U = rng.random((50, 8)), rng.random((50, 3))
    P, Q = X.T @ U, U.T @ U
    Vt = rng.random((8, 3))
    for _ in range(200):
        Vt = components(Vt, P, Q)
    slope = Vt @ Q - P
    assert np.abs(slope[Vt > 0]).max() < 1e-9
    assert slope.min() > -1e-9


def test_hals_finds_nothing_where_newton_ends(wine: np.ndarray) -> None:
    """newton-cg converges to a stationary point: hals, started there, gains nothing."""
    end = DSPNMF(3, solver="newton-cg", tol=0, max_iter=500, random_state=0)
    Z = end.fit_transform(wine)
    again = DSPNMF(3, solver="hals", init="custom", tol=0, max_iter=50).fit(wine, W=Z, H=end.components_)
    assert again.objective_ == pytest.approx(end.objective_, rel=1e-10)


def test_newton_direction_lowers_the_model() -> None:
    """The direction of newton-cg is downhill for the true objective and feasible, with the sums it reports."""
    rng = np.random.default_rng(0)
    X, U, V = rng.random((60, 9)), rng.random((60, 4)), rng.random((4, 9))
    rows = MemoryRows(X, 4)
    rows.begin(U.copy())
    objective = objective_of(X)
    s = State(np.ascontiguousarray(V.T), X.T @ U, U.T @ U)
    inner = NewtonCG()
    (d,) = answered(
        [inner(rows, objective.model(s), 1.0, *inner.effort(rows, objective, *inner.facts(rows, objective, s)))],
        rows.small,
    )
    D = rows._D
    assert objective.along(s, d)[0] < 0
    assert (U + D).min() >= 0
    np.testing.assert_allclose(d.PD, X.T @ D, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(d.UD, U.T @ D, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(d.DD, D.T @ D, rtol=1e-9, atol=1e-9)


def test_conjugate_gradients_solve_the_model() -> None:
    """With enough steps and nothing on its bound, newton-cg lands on the minimum of the coupled model."""
    rng = np.random.default_rng(0)
    U, V = 5 + rng.random((30, 3)), np.eye(3, 6)
    X = U @ V + 1e-3 * rng.random((30, 6))
    rows = MemoryRows(X, 3)
    rows.begin(U.copy())
    objective = objective_of(X, 1e-4)
    s = State(np.ascontiguousarray(V.T), X.T @ U, U.T @ U)
    model = objective.model(s)
    solver = NewtonCG(200)
    answered([solver(rows, model, 1.0, *solver.effort(rows, objective, *solver.facts(rows, objective, s)))], rows.small)
    D = rows._D
    slope = U @ model.S - X @ model.M + D @ model.S + model.coupling * U @ (D.T @ U)
    assert (U + D).min() > 0
    assert np.abs(slope).max() < 1e-8 * np.abs(U @ model.S - X @ model.M).max()


@pytest.mark.parametrize("own", [1.0, 1e-9])
def test_the_preconditioner_inverts_the_coupled_model(own: float) -> None:
    """It is the inverse of the model over all entries; where there is hardly one, bounded and positive definite."""
    n, k, coupling = 7, 3, 2.0
    rng = np.random.default_rng(0)
    U, V = rng.random((n, k)), rng.random((k, 5))
    Q = U.T @ U
    S = own * V @ V.T + coupling * Q
    T = np.linalg.inv(S)
    B, F, H = coupled(T, Q, coupling)

    def inverse(r: np.ndarray) -> np.ndarray:
        W = B.T @ (U.T @ r) @ B
        return r @ T + U @ B @ (F * (H * W - W.T)) @ B.T

    units = np.eye(n * k).reshape(-1, n, k)
    model = np.array([(D @ S + coupling * U @ (D.T @ U)).ravel() for D in units])
    found = np.array([inverse(r).ravel() for r in units])
    np.testing.assert_allclose(found, found.T, atol=1e-12 * np.abs(found).max())
    values = np.linalg.eigvalsh(found)
    assert values[0] > 0
    assert values[-1] < 200 * np.linalg.eigvalsh(T)[-1]
    if own == 1.0:
        np.testing.assert_allclose(found @ model, np.eye(n * k), atol=1e-9)


def test_float32_descends_as_fast_where_curvatures_differ_much() -> None:
    """With more components than X has rank, float32 ends where float64 does."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 4)) ** 3 @ rng.random((4, 30)) ** 3
    ratios = []
    for seed in range(3):
        model = DSPNMF(20, max_iter=40, tol=0, random_state=seed)
        wide = model.fit(X).objective_
        ratios.append(model.fit(X.astype(np.float32)).objective_ / wide)
    assert np.exp(np.mean(np.log(ratios))) < 1.2


@pytest.mark.parametrize("inner", [Hals(8), NewtonCG()], ids=["hals", "newton-cg"])
def test_extrapolated_components_save_iterations(inner: Hals | NewtonCG, digits: np.ndarray) -> None:
    """After 40 iterations the error is lower than after 60 without momentum."""
    values = {}
    for momentum in (0.5, 0.0):
        rng, rows = np.random.default_rng(0), MemoryRows(digits, 10)
        rows.begin(rng.random((len(digits), 10)))
        update = Descent(inner, momentum=momentum)
        objective = objective_of(digits, 0.0)
        steps = iterate(rows, objective, update, *update.begin(rows, objective, rng.random((64, 10))))
        values[momentum] = [value for value, _ in itertools.islice(steps, 61)]
    assert np.diff(values[0.5]).max() <= 1e-14 * norm2(digits)
    assert values[0.5][40] < values[0.0][60]


def test_the_loop_is_a_generator(wine: np.ndarray) -> None:
    """Anyone can watch the solver: the loop yields the start and every iteration."""
    rows = MemoryRows(wine, 3)
    rng = np.random.default_rng(0)
    rows.begin(rng.random((len(wine), 3)))
    steps = descent(rows, objective_of(wine, 0.0), rng.random((13, 3)), Hals())
    values = [value for value, _ in itertools.islice(steps, 9)]
    assert len(values) == 9
    assert values == sorted(values, reverse=True)


def test_inner_effort_adapts(digits: np.ndarray) -> None:
    """Where one sweep already solves the model, "auto" ends at one; where rows are coupled, it keeps more."""
    rows = MemoryRows(digits, 1)
    rows.begin(np.random.default_rng(0).random((len(digits), 1)))
    objective = objective_of(digits, 0.0)
    easy = Hals()
    steps = descent(rows, objective, np.ones((64, 1)), easy)
    for _ in range(40):
        next(steps)
    assert easy.now == 1
    hard = Hals()
    rows = MemoryRows(digits, 20)
    rows.begin(np.random.default_rng(0).random((len(digits), 20)))
    steps = descent(rows, objective_of(digits, 1.0), np.random.default_rng(1).random((64, 20)), hard)
    for _ in range(15):
        next(steps)
    assert hard.now > 2


def test_quality_against_the_papers_rule(digits: np.ndarray) -> None:
    """20 iterations go below 500 of the corrected rule of the paper from the same start (here: k = 20, by half)."""
    rng = np.random.default_rng(0)
    U, V = rng.random((len(digits), 20)), rng.random((20, 64))
    scale = np.linalg.norm(digits.T @ U) / np.linalg.norm(U.T @ U)
    start = {"W": scale * U, "H": V * np.sqrt(digits.mean() / 20) / scale}
    fits = {
        solver: DSPNMF(20, solver=solver, init="custom", max_iter=iterations, tol=0).fit(digits, **start).objective_
        for solver, iterations in (("paper-appendix", 500), ("newton-cg", 20), ("hals", 20))
    }
    assert fits["newton-cg"] < 0.5 * fits["paper-appendix"]
    assert fits["hals"] < 0.6 * fits["paper-appendix"]


def test_alpha_zero_takes_the_cheaper_model(wine: np.ndarray) -> None:
    """The solver "auto" is newton-cg where rows are coupled and hals where they are not."""
    auto = DSPNMF(3, alpha=0.0, random_state=0, tol=0, max_iter=10).fit(wine).objective_history_
    hals = NMF(3, solver="hals", random_state=0, tol=0, max_iter=10).fit(wine).objective_history_
    np.testing.assert_array_equal(auto, hals)
    auto = DSPNMF(3, random_state=0, tol=0, max_iter=10).fit(wine).objective_history_
    newton = DSPNMF(3, solver="newton-cg", random_state=0, tol=0, max_iter=10).fit(wine).objective_history_
    np.testing.assert_array_equal(auto, newton)
