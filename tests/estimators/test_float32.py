"""float32 that can be trusted: recorded objectives are right, and fits end where float64 ends."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from dspnmf import DSPNMF
from dspnmf._threads import team
from dspnmf.backends import backend_for
from dspnmf.objective.objective import Objective
from dspnmf.objective.terms import GramSimilarity, Reconstruction
from dspnmf.solvers import descent
from dspnmf.solvers.descent import Descent, SumsRounding
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import Stopping, iterate
from dspnmf.solvers.newton_cg import NewtonCG


def planted(n: int, m: int, rank: int, noise: float = 0.0) -> np.ndarray:
    """Data of low rank, and noise."""
    rng = np.random.default_rng(0)
    W, H = rng.random((n, rank), dtype=np.float32) ** 2, rng.random((rank, m), dtype=np.float32) ** 2
    return W @ H + np.float32(noise) * rng.random((n, m), dtype=np.float32)


def objective_of(X: np.ndarray, U: np.ndarray, V: np.ndarray) -> float:
    """F at alpha = 1 in float64."""
    X, U, V = (A.astype(np.float64) for A in (X, U, V))
    P, Q = X.T @ U, U.T @ U
    structure = np.linalg.norm(X.T @ X) ** 2 - 2 * np.linalg.norm(P) ** 2 + np.linalg.norm(Q) ** 2
    return float(np.linalg.norm(X) ** 2 - 2 * np.vdot(P, V.T) + np.vdot(V @ V.T, Q) + structure)


def errors_of_history(X: np.ndarray, k: int, inner: descent.InnerSolver, iterations: int) -> np.ndarray:
    """Every recorded objective against a direct evaluation: relative errors."""
    data = backend_for(X).check(DSPNMF(k), X, reset=True)
    rows, rng = data.rows(k, 1.0), np.random.default_rng(0)
    terms = {"reconstruction": Reconstruction(data.norm2(1.0)), "structure": GramSimilarity(data.gram_norm2(1.0))}
    objective, update = Objective(terms, dict.fromkeys(terms, 1.0)), Descent(inner)
    errors = []
    with team():
        rows.begin(rng.random((len(X), k)).astype(X.dtype) * np.float32(X.mean()))
        steps = iterate(rows, objective, update, *update.begin(rows, objective, rng.random((X.shape[1], k))))
        for value, s in islice(steps, iterations + 1):
            errors.append(value / objective_of(X, rows.codes, s.Vt.T) - 1)
    return np.abs(errors)


@pytest.mark.parametrize("inner", [Hals, NewtonCG])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_history(inner: type, noise: float) -> None:
    """Every recorded objective is right to a hundredth, and most to far more."""
    errors = errors_of_history(planted(5_000, 30, 4, noise), 4, inner(), 60)
    assert errors.max() < 1e-2
    assert np.median(errors) < 1e-3


@pytest.mark.parametrize("anew", [True, False])
def test_history_of_rows_that_differ(anew: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where some rows are hundreds of times as large as others: errors do not cancel there.

    Running sums alone, never made anew, would not do.
    """
    if not anew:
        monkeypatch.setattr(SumsRounding, "worn", lambda *_: False)
    sizes = np.exp(2 * np.random.default_rng(1).standard_normal((5_000, 1)))
    X = (planted(5_000, 30, 4, 0.05) * sizes).astype(np.float32)
    assert (errors_of_history(X, 4, NewtonCG(), 40).max() < 1e-2) == anew


@pytest.mark.parametrize(("n", "iterations"), [(5_000, 60), (100_000, 20)])
def test_fit(n: int, iterations: int) -> None:
    """A fit ends where that of the same numbers in float64 ends, not early and high."""
    X = planted(n, 30, 4)
    fits = [DSPNMF(4, solver="hals", random_state=0, max_iter=iterations, tol=1e-5) for _ in range(2)]
    with pytest.warns(match="Stopped after max_iter"):
        codes = [fit.fit_transform(A) for fit, A in zip(fits, (X, X.astype(np.float64)), strict=True)]
    known = [objective_of(X, Z, fit.components_) for Z, fit in zip(codes, fits, strict=True)]
    narrow, wide = fits
    assert narrow.n_iter_ == wide.n_iter_
    assert known[0] < 1.01 * known[1]
    assert narrow.objective_ == pytest.approx(known[0], rel=1e-2)
    assert narrow.objective_history_ == pytest.approx(wide.objective_history_, rel=1e-2)
    assert (np.diff(narrow.objective_history_) < 0).all()


def test_stopping_looks_as_far_back_as_errors_ask() -> None:
    """A change that errors hide ends nothing; a mean over many iterations does, and so does none over very many."""
    flat, falling = [1.0] * 40, [1.001**-i for i in range(40)]
    assert not Stopping(1e-4)(falling)
    assert Stopping(1e-4)(flat[:2])
    assert not Stopping(1e-4)(flat[:10], error=1e-3), "ten values that may each be off by ten changes"
    assert Stopping(1e-4)(flat, error=1e-3)
    hidden = [*falling[:-1], falling[-2]]
    assert Stopping(1e-4)(hidden)
    assert not Stopping(1e-4)(hidden, error=1e-3)
    assert Stopping(1e-12)(flat, error=1e-3)


def test_objective_below_what_float32_resolves() -> None:
    """An X that codes reproduce exactly: one warning says that float32 shows rounding there; float64 says nothing."""
    X = np.outer(np.arange(1.0, 301.0), [1.0, 2.0, 3.0]).astype(np.float32)
    with pytest.warns(RuntimeWarning, match=r"float32 does not resolve that.*astype\('float64'\), or a smaller alpha"):
        model = DSPNMF(1, random_state=0).fit(X)
    assert (model.objective_history_ >= 0).all()
    DSPNMF(1, random_state=0).fit(X.astype(np.float64))


def test_dask_records_what_numpy_does() -> None:
    """The history of chunks is that of the same rows in one array."""
    da = pytest.importorskip("dask.array")
    X = planted(5_000, 30, 4)
    fits = [DSPNMF(4, solver="hals", random_state=0, max_iter=40, tol=0) for _ in range(2)]
    for fit, A in zip(fits, (X, da.from_array(X, chunks=(700, -1))), strict=True):
        fit.fit(A)
    assert fits[1].objective_history_ == pytest.approx(fits[0].objective_history_, rel=1e-2)
