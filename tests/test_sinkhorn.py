"""The transport core of SDNMF: against POT, against loops straight from the formulas, and at the edges."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy import sparse

from dspnmf import sinkhorn
from dspnmf.sinkhorn import Kernel, check_metric, discrete_metric, grid_metric, line_metric

GAMMA, LAM = 0.7, 12.0
METRICS = [grid_metric(3, 4), line_metric(12), discrete_metric(12)]


def problem(n: int = 6, m: int = 12, k: int = 3, seed: int = 0):
    """X with some zeros, U and V such that the masses of X and UV differ."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, m)) ** 2
    X[rng.random((n, m)) < 0.2] = 0
    return X, rng.random((n, k)), rng.random((k, m))


def graph(n: int, seed: int = 0):
    """A symmetric 0-1 graph without loops."""
    A = np.triu(np.random.default_rng(seed).random((n, n)) < 0.3, 1).astype(float)
    return sparse.csr_array(A + A.T)


def matrix(metric):
    """The ground metric as one m x m matrix, features in row-major order."""
    M = np.zeros((1, 1))
    for axis in metric:
        M = (M[:, None, :, None] + axis[None, :, None, :]).reshape(len(M) * len(axis), -1)
    return M


def printed(x, r, M, lam, gamma, steps):
    """Give u after every step and the last v, entry by entry as printed."""
    m, e = len(x), gamma * lam / (1 + gamma * lam)
    K = [[np.exp(-lam * M[i, j] - 1) for j in range(m)] for i in range(m)]

    def other(u):
        return [x[j] ** e / sum(K[i][j] * u[i] for i in range(m)) ** e for j in range(m)]

    u, trace = [1 / m] * m, []
    for _ in range(steps):
        v = other(u)
        u = [r[i] ** e / sum(K[i][j] * v[j] for j in range(m)) ** e for i in range(m)]
        trace.append(u)
    return np.array(trace), np.array(other(u)), np.array(K)


def cost_of_plan(T, M, x, r, lam, gamma):
    """The printed objective of one row, from the whole plan."""

    def kl(a, b):
        return sum(p * np.log(p / q) if p > 0 else 0.0 for p, q in zip(a, b, strict=True)) - a.sum() + b.sum()

    logs = np.log(np.where(T > 0, T, 1.0))
    return (T * M).sum() + (T * logs).sum() / lam + gamma * (kl(T.sum(1), r) + kl(T.sum(0), x))


def pot_plan(x, r, M, lam, gamma):
    """POT's plan; its divergence ``T log(T/c) - T + c`` is our ``T log T`` for c = 1/e, up to a constant."""
    c = np.full(M.shape, np.exp(-1))
    return ot.unbalanced.sinkhorn_unbalanced(r, x, M, 1 / lam, gamma, c=c, numItermax=20000, stopThr=1e-15)


@pytest.mark.parametrize("metric", METRICS, ids=["grid", "line", "discrete"])
def test_marginals_and_cost_are_those_of_pot(metric):
    """After enough steps the plan has the row sums, column sums and cost that POT finds."""
    X, U, V = problem()
    R, M = U @ V, matrix(metric)
    plan = sinkhorn.transport(X, R, Kernel(metric, LAM), GAMMA, steps=400)
    total = 0.0
    for i in range(len(X)):
        keep = X[i] > 0  # POT's logarithms want a support
        T = np.zeros_like(M)
        T[:, keep] = pot_plan(X[i, keep], R[i], M[:, keep], LAM, GAMMA)
        np.testing.assert_allclose(plan.mass[i], T.sum(1), rtol=1e-6)
        np.testing.assert_allclose(plan.columns[i], T.sum(0), rtol=1e-6)
        total += cost_of_plan(T, M, X[i], R[i], LAM, GAMMA)
    assert sinkhorn.objective(plan, X, R, GAMMA) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize(("lam", "gamma"), [(LAM, GAMMA), (100.0, 10.0)])
def test_every_step_is_the_printed_one(lam, gamma):
    """Scalings after 1, 2, ... steps, the marginals and the cost agree with loops over the printed iteration."""
    X, U, V = problem(n=2)
    metric = grid_metric(3, 4)
    R, M = U @ V, matrix(metric)
    expected = [printed(X[i], R[i], M, lam, gamma, 15) for i in range(2)]
    for steps in (1, 2, 3, 15):
        plan = sinkhorn.transport(X, R, Kernel(metric, lam), gamma, steps)
        for i in range(2):
            np.testing.assert_allclose(np.exp(plan.log_u[i]), expected[i][0][steps - 1], rtol=1e-10)
    plans = [trace[-1][:, None] * K * v for trace, v, K in expected]
    np.testing.assert_allclose(plan.mass, [T.sum(1) for T in plans], rtol=1e-10)
    np.testing.assert_allclose(plan.columns, [T.sum(0) for T in plans], rtol=1e-10, atol=1e-300)
    value = sum(cost_of_plan(T, M, X[i], R[i], lam, gamma) for i, T in enumerate(plans))
    assert sinkhorn.objective(plan, X, R, gamma) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("metric", METRICS, ids=["grid", "line", "discrete"])
@pytest.mark.parametrize("lam", [5.0, 100.0, 290.0])
def test_plain_and_log_domain_agree(metric, lam):
    """Both domains give the same plan wherever the plain one is used."""
    X, U, V = problem()
    plain, log = (sinkhorn.transport(X, U @ V, Kernel(metric, lam), 10.0, log=log) for log in (False, True))
    for a, b in zip(plain, log, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)


def test_kernels_that_underflow_take_the_log_domain():
    """Where exp(-lam M) is zero in float64, plans still converge: without the log domain far mass would be lost."""
    X, R = np.zeros((1, 8)), np.zeros((1, 8))
    X[0, 0] = R[0, -1] = 1.0  # all mass has to travel a distance of 1, or be destroyed at the price of gamma
    plan = sinkhorn.transport(X, R, Kernel(line_metric(8), 5000.0), 10.0, steps=5)
    assert np.exp(-5000.0) == 0
    assert np.isfinite(plan.cost).all()
    assert plan.mass[0, -1] > 0.9


def test_scalings_may_leave_the_range_of_floats():
    """Masses of X and UV that differ by far drive u to (R/T1)^(gamma lam), beyond float64; the marginals stay right."""
    X, U, V = problem()
    R = 30 * (U @ V)
    kernel = Kernel(grid_metric(3, 4), 100.0)
    plan = sinkhorn.transport(X, R, kernel, 10.0, steps=5000)
    assert abs(plan.log_u[np.isfinite(plan.log_u)]).max() > 710
    np.testing.assert_allclose(1000 * np.log(R / plan.mass), plan.log_u, rtol=1e-3)


def test_grid_kernel_is_the_dense_kernel():
    """Both passes along each axis equal the product with the whole matrix, plain and in logarithms."""
    metric = grid_metric(5, 7)
    separable, dense = Kernel(metric, LAM), Kernel((matrix(metric),), LAM)
    A = np.random.default_rng(0).random((4, 35))
    np.testing.assert_allclose(separable.apply(A.T).T, A @ np.exp(-LAM * matrix(metric) - 1), rtol=1e-12)
    np.testing.assert_allclose(separable.apply(A.T), dense.apply(A.T), rtol=1e-12)
    np.testing.assert_allclose(separable.apply_log(np.log(A)), np.log(dense.apply(A.T).T), rtol=1e-12)
    np.testing.assert_allclose(dense.apply_log(np.log(A)), np.log(dense.apply(A.T).T), rtol=1e-12)


def test_an_uneven_axis_takes_its_matrix():
    """Along one axis features are evenly spaced, along the other not: the product is that with the whole matrix."""
    uneven = np.abs(np.subtract.outer(*2 * [np.array([0.0, 0.1, 0.5])]))
    metric = (uneven, line_metric(4)[0])
    A = np.random.default_rng(0).random((12, 5))
    np.testing.assert_allclose(Kernel(metric, LAM).apply(A), np.exp(-LAM * matrix(metric) - 1) @ A, rtol=1e-12)


def test_metrics_are_what_they_say():
    """Distances on the grid, on the line and between unordered features, entry by entry."""
    grid = [[(abs(i // 4 - j // 4) + abs(i % 4 - j % 4)) / 5 for j in range(12)] for i in range(12)]
    np.testing.assert_allclose(matrix(grid_metric(3, 4)), grid, atol=1e-15)
    np.testing.assert_allclose(matrix(line_metric(3)), [[0, 0.5, 1], [0.5, 0, 0.5], [1, 0.5, 0]])
    np.testing.assert_allclose(matrix(discrete_metric(2)), [[0, 1], [1, 0]])
    assert matrix(line_metric(1)) == matrix(grid_metric(1, 1)) == 0


@pytest.mark.parametrize(
    ("cell", "value", "words"),
    [((0, 1), -1.0, "negative"), ((1, 1), 2.0, "diagonal"), ((0, 2), 9.0, "mirror"), ((2, 0), np.nan, "not finite")],
)
def test_a_metric_handed_in_is_checked(cell, value, words):
    """Each way a matrix fails to be a metric is named, with the entry."""
    M = matrix(line_metric(3))
    np.testing.assert_array_equal(matrix(check_metric(M, 3)), M)
    M[cell] = value
    with pytest.raises(ValueError, match=words):
        check_metric(M, 3)
    with pytest.raises(ValueError, match=r"shape \(3, 3\).*4 x 4"):
        check_metric(M, 4)


@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
def test_zeros_stay_finite(log):
    """Rows and entries without mass, in X or R, give finite numbers and the objective of destroying the other side."""
    X, U, V = problem()
    X[0], U[1], V[:, 2], X[:, 3] = 0, 0, 0, 0
    R = U @ V
    plan = sinkhorn.transport(X, R, Kernel(grid_metric(3, 4), 100.0), 10.0, log=log)
    again = sinkhorn.transport(X, R, Kernel(grid_metric(3, 4), 100.0), 10.0, start=plan.log_u, log=log)
    for part in (*plan[1:], *again[1:], sinkhorn.pull(plan.mass, R)):
        assert np.isfinite(part).all()
    assert not any(part.any() for part in (plan.mass[:2], plan.mass[:, 2], plan.columns[:, 3]))
    first = sinkhorn.Plan(*(part[:2] for part in plan))
    assert sinkhorn.objective(first, X[:2], R[:2], 10.0) == pytest.approx(10 * (R[0].sum() + X[1].sum()))
    pull = sinkhorn.pull(plan.mass, R)
    codes = sinkhorn.update_codes(U, V, pull)
    assert np.isfinite(codes).all()
    assert np.isfinite(sinkhorn.update_components(codes, V, pull)).all()


@pytest.mark.parametrize("metric", METRICS, ids=["grid", "line", "discrete"])
def test_nothing_but_zeros(metric):
    """Where no row has mass, every plan is 0, whatever the kernel."""
    X = np.zeros((4, 12))
    plan = sinkhorn.transport(X, X, sinkhorn.Kernel(metric, LAM), GAMMA)
    assert not plan.mass.any()
    assert not plan.columns.any()
    assert sinkhorn.objective(plan, X, X, GAMMA) == 0


def test_a_warm_start_continues():
    """Five steps and five more from where they ended are ten steps."""
    X, U, V = problem()
    kernel = Kernel(grid_metric(3, 4), 100.0)
    half = sinkhorn.transport(X, U @ V, kernel, 10.0, 5)
    once = sinkhorn.transport(X, U @ V, kernel, 10.0, 10)
    twice = sinkhorn.transport(X, U @ V, kernel, 10.0, 5, half.log_u)
    np.testing.assert_allclose(twice.mass, once.mass, rtol=1e-11)


def test_rows_do_not_depend_on_their_block(monkeypatch):
    """Blocks of any size give the same plans."""
    X, U, V = problem(n=11)
    kernel = Kernel(grid_metric(3, 4), 100.0)
    whole = sinkhorn.transport(X, U @ V, kernel, 10.0)
    monkeypatch.setattr(sinkhorn, "_BLOCK", 24)
    for a, b in zip(whole, sinkhorn.transport(X, U @ V, kernel, 10.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_gradient_is_that_of_the_objective():
    """``gamma (1 - mass/R)``, from which the rules follow, agrees with finite differences of the minimum over plans."""
    X, U, V = problem(n=2)
    R, kernel, h = U @ V, Kernel(grid_metric(3, 4), LAM), 1e-5

    def value(R):
        return sinkhorn.objective(sinkhorn.transport(X, R, kernel, GAMMA, 400), X, R, GAMMA)

    gradient = GAMMA * (1 - sinkhorn.pull(sinkhorn.transport(X, R, kernel, GAMMA, 400).mass, R))
    for i, j in [(0, 0), (0, 5), (1, 7), (1, 11)]:
        E = np.zeros_like(R)
        E[i, j] = h
        assert (value(R + E) - value(R - E)) / (2 * h) == pytest.approx(gradient[i, j], rel=1e-6, abs=1e-8)


def test_fixed_points_of_the_rules_are_stationary():
    """The update leaves a code alone exactly where the derivative of F, graph included, vanishes."""
    X, U, V = problem()
    A, beta, kernel, h = graph(6), 0.3, Kernel(grid_metric(3, 4), LAM), 1e-5

    def F(U):
        plan = sinkhorn.transport(X, U @ V, kernel, GAMMA, 400)
        return sinkhorn.objective(plan, X, U @ V, GAMMA) + GAMMA * beta / 2 * sinkhorn.smoothness(U, A).sum()

    pull = sinkhorn.pull(sinkhorn.transport(X, U @ V, kernel, GAMMA, 400).mass, U @ V)
    E = np.zeros_like(U)
    E[2, 1] = h
    slope = (F(U + E) - F(U - E)) / (2 * h)
    loss = V.sum(axis=1) + beta * A.sum(axis=1)[:, None] * U
    factor = sinkhorn.update_codes(U, V, pull, A, beta) / U
    assert GAMMA * ((1 - factor) * loss)[2, 1] == pytest.approx(slope, rel=1e-6)
    safe = sinkhorn.update_codes(U, V, pull, A, beta, guaranteed=True) / U
    np.testing.assert_array_equal(np.sign(safe - 1), np.sign(factor - 1))


def history(order: str, *, lam: float, gamma: float, beta: float = 0.0, warm: bool = False, iterations: int = 40):
    """The objective over outer iterations; components from the published ratio or from a fresh one."""
    X, U, V = problem(n=30, k=4)
    A, kernel, start, values = graph(30), Kernel(grid_metric(3, 4), lam), None, []
    U, V = sinkhorn.normalize(U, V)
    for _ in range(iterations):
        R = U @ V
        plan = sinkhorn.transport(X, R, kernel, gamma, start=start)
        start = plan.log_u if warm else None
        values.append(sinkhorn.objective(plan, X, R, gamma) + gamma * beta / 2 * sinkhorn.smoothness(U, A).sum())
        pull = sinkhorn.pull(plan.mass, R)
        U = sinkhorn.update_codes(U, V, pull, A, beta, guaranteed=order == "fresh")
        V = sinkhorn.update_components(U, V, pull if order == "published" else sinkhorn.pull(plan.mass, U @ V))
    return np.array(values)


@pytest.mark.parametrize("beta", [0.0, 0.01, 10.0])
@pytest.mark.parametrize(("lam", "gamma"), [(LAM, GAMMA), (100.0, 10.0)])
def test_the_objective_falls(lam, gamma, beta):
    """Warm plans, a fresh ratio for the components and the guaranteed code update lower F in every iteration."""
    values = history("fresh", lam=lam, gamma=gamma, beta=beta, warm=True)
    assert (np.diff(values) <= 1e-10 * abs(values[:-1])).all()


def test_plans_that_restart_are_not_converged():
    """Fifteen steps from 1/m are too few at lam 100, gamma 10: even the guaranteed updates then rise at times."""
    assert (np.diff(history("fresh", lam=100.0, gamma=10.0)) > 1e-3).any()


def test_the_published_order_rises():
    """One ratio for codes and components corrects the same error twice: the objective goes up and down."""
    values = history("published", lam=100.0, gamma=10.0)
    assert (np.diff(values) > 1e-3 * abs(values[:-1])).sum() >= 5


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array, sparse.csr_array.toarray])
def test_graphs_of_any_form(form):
    """Sparse matrices, sparse arrays and dense arrays are the same graph."""
    X, U, V = problem()
    A = graph(6)
    assert sinkhorn.smoothness(U, form(A)) == pytest.approx(sinkhorn.smoothness(U, A))
    one, two = (sinkhorn.update_codes(U, V, X, graph_, 0.5) for graph_ in (A, form(A)))
    np.testing.assert_allclose(one, two)
    pairs = sum(A[i, j] * ((U[i] - U[j]) ** 2).sum() for i in range(6) for j in range(6))
    assert sinkhorn.smoothness(U, A).sum() == pytest.approx(pairs / 2)


def test_normalized_components_sum_to_one():
    """Components sum to 1, a component of zeros stays, and UV is unchanged."""
    _, U, V = problem()
    V[1] = 0
    codes, components = sinkhorn.normalize(U, V)
    np.testing.assert_allclose(components.sum(axis=1), [1, 0, 1])
    np.testing.assert_allclose(codes @ components, U @ V)
