"""Transport between samples and their reconstruction: the core of SDNMF (Qian, Hong, Cai, He, Li, IJCAI 2016).

=======  ========  =============================================================
X, R     n x m     data and reconstruction UV; every row is a problem of its own
M        m x m     ground metric: the cost of moving mass between two features
T_i      m x m     plan of row i, ``diag(u_i) K diag(v_i)``; never formed
mass     n x m     row sums ``T_i 1`` of the plans, ``u * (v K)``
columns  n x m     column sums ``T_i' 1``, ``v * (u K)``
=======  ========  =============================================================

What is minimised over U, V >= 0, with ``KL(a|b) = sum a log(a/b) - a + b`` and ``H(T) = -sum T log T``:

    F = sum_i min_T { <T, M> - H(T)/lam + gamma KL(T1 | R_i) + gamma KL(T'1 | X_i) } + (gamma beta / 2) tr(U'LU)

Components sum to 1: otherwise the last term could be had for nothing, by scaling U down and V up.

Setting the derivative by T to zero gives ``T = (R/T1)^g exp(-lam M - 1) (X/T'1)^g`` with g = gamma lam, hence
``u = (R / K v)^e``, ``v = (X / K'u)^e``, e = g/(1 + g): the printed iteration, whose "-1" is the derivative of T log T
(the relaxed loss of Frogner et al., NIPS 2015). By the envelope theorem dF/dR = gamma (1 - mass/R), which splits into
the printed rules; there beta weighs against a loss divided by gamma, which fixes its weight in F.

Confirmed by the authors' code: kernel, exponent, restart at u = 1/m, 15 steps, rules, their order (codes, then
components from the same ratio mass/R: F may rise), normalisation. Derived here: F. That code also cuts denominators off
at 1e-6, which alters the result where a sample is dark; rows are scaled here instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from dspnmf._threads import spread, team
from dspnmf._typing import Array, ArrayLike, Sparse
from dspnmf.solvers.multiplicative import ratio

_BLOCK, _NARROW = 2**15, 8  # entries of X worked on at once, which stay in cache; and samples at least
_LOG_BLOCK = 2**12  # and in logarithms, where an entry takes far longer
Metric: TypeAlias = tuple[Array, ...]  # over features on a grid: the sum of one metric along each axis
_RANGE, _LARGEST = 300.0, 1e100  # -log K and entries of X and R up to which products neither vanish nor overflow


def line_metric(m: int) -> Metric:
    """``|i - j|`` over its maximum: bands of a spectrum."""
    return (_steps(m) / max(m - 1, 1),)


def grid_metric(height: int, width: int) -> Metric:
    """``|dx| + |dy|`` over its maximum: pixels of an image, stored row by row."""
    longest = max(height + width - 2, 1)
    return (_steps(height) / longest, _steps(width) / longest)


def discrete_metric(m: int) -> Metric:
    """``1 - I``: features without a geometry."""
    return (1.0 - np.eye(m),)


def check_metric(M: ArrayLike, m: int) -> Metric:
    """Check a matrix of distances between m features; they are used as they are, so scale them to a maximum of 1."""
    M = np.asarray(M, dtype=np.float64)
    if M.shape != (m, m):
        raise ValueError(f"the ground metric has shape {M.shape}, but X has {m} features: it must be {m} x {m}.")
    found = {
        "entries that are not finite": ~np.isfinite(M),
        "negative entries": M < 0,
        "a diagonal that is not zero": np.diag(np.diag(M) != 0),
        "entries that differ from their mirror image": np.abs(M - M.T) > 1e-12 * np.abs(M).max(),
    }
    for what, where in found.items():
        for i, j in np.argwhere(where):
            raise ValueError(
                f"the ground metric has {what}, first M[{i}, {j}] = {M[i, j]:g}: distances are finite, non-negative, "
                "symmetric and zero from a feature to itself. Pass e.g. (M + M.T) / 2 with its diagonal set to 0."
            )
    return ((M + M.T) / 2,)


class Kernel:
    """``K = exp(-lam M - 1)`` as an operator, one axis of the metric after the other.

    Along an axis where features are evenly spaced, that is a pass forwards and one backwards; along others a product
    with a small matrix. For X and plans divided by `unit` it is K over that: ``T log T`` knows the unit of T. F is then
    divided, too.
    """

    def __init__(self, metric: Metric, lam: float, unit: float = 1.0) -> None:
        first, *others = metric
        self.lam, shift = lam, float(np.log(unit))
        self.features = int(np.prod([len(axis) for axis in metric]))
        self.width = sum(2 if _evenly_spaced(axis) else len(axis) for axis in metric)  # multiplications for an entry
        self.reach = 1 + lam * sum(float(axis.max()) for axis in metric) + abs(shift)  # largest |log K|
        self._logs = [-lam * first - 1.0 - shift, *(-lam * axis for axis in others)]
        self._factors = [np.exp(log) for log in self._logs]
        self._filters = [
            (float(np.exp(log[0, 1] - log[0, 0])), float(np.exp(log[0, 0]))) if _evenly_spaced(axis) else None
            for log, axis in zip(self._logs, metric, strict=True)
        ]

    def apply(self, A: Array) -> Array:
        """``K A`` for samples in columns (m x n)."""
        shape, inner = A.shape, A.size
        for factor, filtered in zip(self._factors, self._filters, strict=True):
            inner //= len(factor)  # numbers that differ only in later axes or in their sample
            A = A.reshape(-1, len(factor), inner)
            if filtered is None:
                A = factor @ A
            else:
                result = np.empty_like(A)
                _kernels().exponential_filter(A, *filtered, np.empty(inner), result)
                A = result
        return A.reshape(shape)

    def apply_log(self, A: Array) -> Array:
        """``log(exp(A) K)`` for samples in rows, with any range of A and K; -inf stands for zero."""
        trail = self.features
        for log in self._logs:
            trail //= len(log)
            B = A.reshape(-1, len(log), trail)
            A = np.stack([_log_sum(B + row[:, None]) for row in log], axis=1)
        return A.reshape(-1, self.features)


class Plan(NamedTuple):
    """Scalings, marginals and costs of the plans T_i after the last step."""

    log_u: Array  # n x m, to start from next time; -inf where u is zero
    mass: Array  # n x m, T_i 1
    columns: Array  # n x m, T_i' 1
    cost: Array  # n, <T_i, M> - H(T_i)/lam


def transport(
    X: Array, R: Array, kernel: Kernel, gamma: float, steps: int = 15, start: Array | None = None, log: bool = False
) -> Plan:
    """Take `steps` of ``u <- R^e / (K (X^e / (K'u)^e))^e`` for every row, then v; returns the plans in float64.

    1. A row of X or R without mass has the plan 0; the others start at ``u = 1/m``, or at `start` (a plan's `log_u`).
    2. Each half step divides u or v by its largest entry and keeps the logarithm of that factor: with it, plain
       products keep full accuracy while ``lam max(M) <= 299``. Beyond, or with ``log=True``, sums of logarithms.
    """
    n, m = X.shape
    plan = Plan(np.full((n, m), -np.inf), np.zeros((n, m)), np.zeros((n, m)), np.zeros(n))
    wide = kernel.reach > _RANGE or max(float(X.max(initial=0)), float(R.max(initial=0))) > _LARGEST
    solve = _log_domain if log or wide else _plain
    exponent = gamma * kernel.lam / (1 + gamma * kernel.lam)
    block = max(1, _LOG_BLOCK // m) if solve is _log_domain else max(_NARROW, _BLOCK // m)

    def task(lo: int, hi: int) -> None:
        for i in range(lo, hi, block):
            rows = np.arange(i, min(i + block, hi))
            rows = rows[X[rows].any(axis=1) & R[rows].any(axis=1)]
            if not len(rows):
                continue
            first = np.full((len(rows), m), -np.log(m)) if start is None else start[rows]
            first[np.isneginf(first).all(axis=1)] = -np.log(m)  # a row that had no mass when `start` was made
            result = solve(X[rows].astype(np.float64), R[rows].astype(np.float64), first, kernel, exponent, steps)
            for part, value in zip(plan, result, strict=True):
                part[rows] = value

    with team():
        spread(task, n, (60.0 + 4.0 * kernel.width) * steps * n * m, block)
    return plan


def objective(plan: Plan, X: Array, R: Array, gamma: float) -> float:
    """The transport part of F for this plan; it bounds F from above and is F where the steps have converged."""
    return float(plan.cost.sum() + gamma * (special.kl_div(plan.mass, R).sum() + special.kl_div(plan.columns, X).sum()))


def smoothness(U: Array, A: Sparse) -> Array:
    """The diagonal of ``U'LU``, L = Deg - A, for a symmetric graph A (n x n).

    Scaling U down and V up would lower it for nothing: it is that of codes whose components sum to 1.
    """
    return np.asarray((U * (np.asarray(A.sum(axis=1)).reshape(-1, 1) * U - A @ U)).sum(axis=0))


def pull(mass: Array, R: Array) -> Array:
    """``mass / R``, which is all that the updates need of the plans; 0 where R is 0."""
    return np.divide(mass, R, out=np.zeros_like(mass), where=np.greater(R, np.finfo(np.float64).tiny))


def update_codes(
    U: Array, V: Array, pull: Array, A: Sparse | None = None, beta: float = 0.0, guaranteed: bool = False
) -> Array:
    """``U (pull V' + beta A U) / (1 V' + beta Deg U)``, as printed; without a graph it never raises F.

    With one, it may. `guaranteed` multiplies by the t with ``beta Deg U t^2 + 1 V' t = pull V' + beta A U`` instead:
    the minimum of a separable bound, since ``-xy`` lies below its tangent in ``log x, log y``.
    """
    gain, loss, bend = pull @ V.T, np.broadcast_to(V.sum(axis=1), U.shape), np.zeros_like(U)
    if A is not None and beta > 0:
        gain, bend = gain + beta * (A @ U), beta * np.asarray(A.sum(axis=1)).reshape(-1, 1) * U
    rule = ratio(2 * gain, loss + np.sqrt(loss**2 + 4 * bend * gain)) if guaranteed else ratio(gain, loss + bend)
    return np.asarray(U * rule)


def update_components(U: Array, V: Array, pull: Array, bend: Array | float = 0.0) -> Array:
    """``V (U' pull) / (U' 1)``; never raises F if `pull` is that of these codes (the published rule keeps the old).

    `bend`, a number for every component of sum 1, multiplies half the square of its sum in F: it is bounded as in
    `update_codes`.
    """
    gain, loss = U.T @ pull, np.broadcast_to(U.sum(axis=0)[:, None], V.shape)
    return np.asarray(V * ratio(2 * gain, loss + np.sqrt(loss**2 + 4 * np.reshape(bend, (-1, 1)) * gain)))


def normalize(U: Array, V: Array) -> tuple[Array, Array]:
    """Components that sum to 1, codes such that UV is unchanged; done before the first and after the last iteration."""
    total = V.sum(axis=1)
    total[total == 0] = 1.0
    return U * total, V / total[:, None]


def _plain(X: Array, R: Array, log_u: Array, kernel: Kernel, exponent: float, steps: int) -> Plan:
    """Scalings as numbers: u is ``u exp(c)``, v is ``v exp(d)``, and the largest entry of every sample is 1.

    Samples are columns here, so that loops over them run over neighbours in memory.
    """
    Xe, Re, log_u = (np.ascontiguousarray(A.T) for A in (X**exponent, R**exponent, log_u))
    peak = np.empty(len(X))

    def half(target: Array, w: Array, c: Array) -> tuple[Array, Array]:
        s = kernel.apply(w)
        np.log(s, out=s)
        s *= -exponent
        np.exp(s, out=s)
        _kernels().weight_columns(s, target, peak)
        return s, np.log(peak) - exponent * c

    c = log_u.max(axis=0)
    u = np.exp(log_u - c)
    for _ in range(steps):
        u, c = half(Re, *half(Xe, u, c))
    v, d = half(Xe, u, c)
    scale = np.exp(c + d)
    with np.errstate(divide="ignore"):
        log_u, log_v = np.log(u) + c, np.log(v) + d
    return _finish(log_u.T, log_v.T, (scale * u * kernel.apply(v)).T, (scale * v * kernel.apply(u)).T, kernel.lam)


def _log_domain(X: Array, R: Array, log_u: Array, kernel: Kernel, exponent: float, steps: int) -> Plan:
    """The same steps in logarithms: slower, as every term of a product needs an exponential."""
    with np.errstate(divide="ignore"):
        log_X, log_R = np.log(X), np.log(R)
    for _ in range(steps):
        log_v = exponent * (log_X - kernel.apply_log(log_u))
        log_u = exponent * (log_R - kernel.apply_log(log_v))
    s = kernel.apply_log(log_u)
    log_v = exponent * (log_X - s)
    return _finish(log_u, log_v, np.exp(log_u + kernel.apply_log(log_v)), np.exp(log_v + s), kernel.lam)


def _finish(log_u: Array, log_v: Array, mass: Array, columns: Array, lam: float) -> Plan:
    """``<T, M> + <T, log T>/lam`` is ``<T, log u + log v - 1>/lam``, because ``log T = log u + log v - lam M - 1``."""
    moved = -mass.sum(axis=1)
    for a, log in ((mass, log_u), (columns, log_v)):
        moved += np.multiply(a, log, out=np.zeros_like(a), where=a > 0).sum(axis=1)  # no mass, no logarithm
    return Plan(log_u, mass, columns, moved / lam)


def _log_sum(A: Array) -> Array:
    """Logarithm of the sum of exponentials over axis 1; -inf where there is nothing to sum."""
    peak = A.max(axis=1)
    peak[np.isneginf(peak)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.exp(A - peak[:, None]).sum(axis=1)))


def _evenly_spaced(axis: Array) -> bool:
    """Whether an axis is ``|i - j|`` times a number, to rounding."""
    steps = _steps(len(axis))
    return len(axis) > 1 and bool(np.allclose(axis, axis[0, 1] * steps, rtol=1e-15, atol=0.0))


def _steps(size: int) -> Array:
    """The matrix of |i - j|."""
    return np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(np.float64)


def _kernels() -> Any:
    """The compiled loops; imported where they are used, because numba takes longer to import than all else together."""
    from dspnmf import _exponential_filter

    return _exponential_filter
