"""What tests of divergences share: data, starts, fits, and the search for an objective that rises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from dspnmf import DSPNMF, NMF

_ROUNDING = {"float32": 2e-5, "float64": 1e-11}


def counts(n: int = 40, m: int = 25, rank: int = 4, seed: int = 0, dtype: str = "float64") -> Any:
    """Poisson counts of planted factors, with many zeros."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.5, 1.0, (n, rank)) @ rng.gamma(0.5, 1.0, (rank, m))).astype(dtype)


def powers(n: int = 40, m: int = 25, rank: int = 4, seed: int = 0, dtype: str = "float64") -> Any:
    """Positive data with multiplicative noise, like a spectrogram."""
    rng = np.random.default_rng(seed)
    mean = rng.gamma(0.5, 1.0, (n, rank)) @ rng.gamma(0.5, 1.0, (rank, m)) + 1e-3
    return (mean * rng.exponential(1.0, (n, m)) + 1e-6).astype(dtype)


def start(X: Any, k: int, seed: int = 1) -> tuple[Any, Any]:
    """Positive factors of the size of X."""
    rng = np.random.default_rng(seed)
    size = np.sqrt(np.nanmean(X.toarray() if sparse.issparse(X) else X) / k)
    W, H = size * rng.random((X.shape[0], k)) + 0.01, size * rng.random((k, X.shape[1])) + 0.01
    return W.astype(X.dtype), H.astype(X.dtype)


def same(X: Any) -> Any:
    """X as it is."""
    return X


def fitted(X: Any, k: int = 3, stored: Callable[[Any], Any] = same, **parameters: Any) -> tuple[Any, Any]:
    """A model fitted from a given start for a given number of iterations, and its codes; `stored`: another array."""
    W, H = start(X, k)
    kind = DSPNMF if "alpha" in parameters else NMF
    model = kind(k, init="custom", **{"max_iter": 10, "tol": 0.0, **parameters})
    return model, model.fit_transform(stored(X), W=W, H=H)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """Data and parameters of all kinds."""
    beta = draw(st.sampled_from([1, 1, 0, 0.5, 1.5, 1.2, -1, 3]))
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 10))
    dtype = draw(st.sampled_from(["float64", "float32"]))
    make = counts if beta > 0 and draw(st.booleans()) else powers
    X = make(n, m, draw(st.integers(1, 3)), draw(st.integers(0, 10**6)), dtype)
    X = X * X.dtype.type(draw(st.sampled_from([1.0, 1e-3, 1e4])))
    parameters = {"beta_loss": beta, "n_components": draw(st.integers(1, 4)), "inner_iter": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        parameters["alpha"] = draw(st.sampled_from([1e-3, 1.0, 100.0]))
    if draw(st.booleans()):
        parameters |= {
            "alpha_W": draw(st.sampled_from([1e-3, 0.1])),
            "l1_ratio": draw(st.sampled_from([0.0, 0.5, 1.0])),
        }
    if beta > 0 and make is counts and draw(st.booleans()):
        X = sparse.csr_array(X)
    return X, parameters


def check_never_up(problem: tuple[Any, dict[str, Any]], stored: Callable[[Any], Any] = same) -> None:
    """No iteration raises the objective by more than rounding, and factors stay finite and non-negative."""
    X, parameters = problem
    kind = DSPNMF if "alpha" in parameters else NMF
    model = kind(max_iter=8, tol=0.0, random_state=0, **parameters)
    Z, V = (np.asarray(A) for A in (model.fit_transform(stored(X)), model.components_))
    history = model.objective_history_
    assert np.isfinite(history).all()
    assert np.isfinite(Z).all()
    assert (Z >= 0).all()
    assert np.isfinite(V).all()
    assert (V >= 0).all()
    slack = _ROUNDING[str(X.dtype)] * max(history[0], _size(X, parameters["beta_loss"]))
    assert (np.diff(history) <= slack).all()


def _size(X: Any, beta: float) -> float:
    dense = X.toarray() if sparse.issparse(X) else X
    return float((dense.astype(np.float64)[dense > 0] ** beta).sum())
