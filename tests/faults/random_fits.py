"""Random fits of the whole family, each judged by what the documentation promises.

A case follows from its seed: an estimator with random parameters, and data of a random shape, pattern, dtype, layout
and unit (a third of them extreme). Judged are: no error, no warning but `ConvergenceWarning`; codes and components
finite, non-negative, of the right shape and dtype, those of `transform` too; an objective that never rises, where the
solver promises that; and objective and errors equal to the documented formulas, evaluated in extended precision from X
and from what the fit returned.

    python tests/faults/random_fits.py --first 0 --count 20000 --jobs 2      failures by kind, three seeds of each
    python tests/faults/random_fits.py --show 17                             one case and its judgement
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning

import dspnmf
from dspnmf import graphs

Rng = np.random.Generator
Dense = NDArray[Any]
Matrix = Dense | sparse.csr_array

SHARES = {  # of the estimators among the cases
    "DSPNMF": 26,
    "NMF": 12,
    "GNMF": 10,
    "GDNMF": 9,
    "FRNMF": 9,
    "NSNMF": 8,
    "SPNMF": 7,
    "NPNMF": 7,
    "SymNMF": 5,
    "ONMF": 4,
    "SDNMF": 3,
}
ALL_SOLVERS = ("auto", "newton-cg", "hals", "mm", "paper", "paper-appendix")
GRAPH_SOLVERS = ("auto", "newton-cg", "hals", "paper")
NO_PROMISE = ("paper", "paper-appendix")  # solvers whose objective may rise
EXTREME = {np.dtype(np.float32): 30.0, np.dtype(np.float64): 120.0}  # decades of the unit, either way
AGREES = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-6}  # of the sizes of what a formula adds up
ROUNDING = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 2e-13}  # of the same, for an objective that never rises
LARGEST, SMALLEST = float(np.finfo(np.float64).max), 1e-300


@dataclass(frozen=True)
class Case:
    """One fit."""

    seed: int
    name: str
    parameters: Mapping[str, Any]
    X: Matrix
    new: Matrix  # rows for `transform`
    y: Dense | None
    start: Mapping[str, Dense]  # W and H, where they are given
    extreme: bool  # whether the unit of X is out of the ordinary
    pattern: str

    def model(self) -> Any:
        """The estimator, not fitted."""
        return getattr(dspnmf, self.name)(**self.parameters)

    def __str__(self) -> str:
        kind = type(self.X).__name__ if sparse.issparse(self.X) else "F" if self.X.flags.f_contiguous else "C"
        values = self.X.data if sparse.issparse(self.X) else self.X
        largest = np.nanmax(values, initial=0)
        shown = {key: value if np.ndim(value) == 0 else "a matrix" for key, value in self.parameters.items()}
        return (
            f"seed {self.seed}: {self.name}({', '.join(f'{key}={value!r}' for key, value in shown.items())})\n"
            f"  X {self.X.shape} {self.X.dtype} {kind} {self.pattern!r}, largest {largest:.3g}"
            + (", W and H given" if self.start else "")
            + ("" if self.y is None else f", labels {self.y.tolist()}")
        )


class Verdict(NamedTuple):
    """What became of a case: failures (what failed, details), and the message if it was refused."""

    failures: list[tuple[str, str]]
    refusal: str | None = None


# -- the draw ----------------------------------------------------------------------------------------------------------


def draw(seed: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(SHARES), p=np.array(list(SHARES.values())) / sum(SHARES.values())))
    dtype = np.dtype(rng.choice([np.float32, np.float64]))
    n, m = (int(2 ** rng.uniform(0, np.log2(high + 0.99))) for high in (60, 30))
    k = int(rng.integers(1, 13)) if rng.random() < 0.5 else int(rng.integers(1, min(n, m, 12) + 1))
    extreme = bool(rng.random() < 1 / 3)
    unit = 10.0 ** (EXTREME[dtype] * rng.uniform(-1, 1) if extreme else rng.uniform(-3, 3))
    pattern = str(rng.choice(list(PATTERNS)))
    everything = _damped(rng, PATTERNS[pattern](rng, n + 4, m))
    largest = float(everything.max())
    if not (pattern == "integers" and not extreme and rng.random() < 0.5) and largest > 0:
        everything = everything / largest * unit
    else:
        unit = largest or 1.0
    everything = everything.astype(dtype)
    parameters, y, start = _parameters(rng, name, everything[:n], k, unit)
    if parameters.get("missing") == "mask":
        everything[rng.random(everything.shape) < rng.choice([0.02, 0.3])] = np.nan
        everything[0, 0] = unit
    X, new = everything[:n], everything[n - min(n, 2) :]
    layout = rng.choice(["C", "F", "CSR"] if _takes_sparse(name, parameters) else ["C", "F"])
    if layout == "CSR":
        X, new = sparse.csr_array(X), sparse.csr_array(new)
    else:
        X = np.array(X, order=layout)
    return Case(seed, name, parameters, X, new, y, start, extreme, pattern)


def _takes_sparse(name: str, parameters: Mapping[str, Any]) -> bool:
    return not (name == "SDNMF" or (name == "FRNMF" and parameters["solver"] == "paper"))


def _low_rank(rng: Rng, n: int, m: int) -> Dense:
    rank = int(rng.integers(1, 5))
    return rng.random((n, rank)) ** 2 @ rng.random((rank, m)) ** 2


PATTERNS: dict[str, Callable[[Rng, int, int], Dense]] = {
    "uniform": lambda rng, n, m: rng.random((n, m)),
    "few cells": lambda rng, n, m: rng.random((n, m)) * (rng.random((n, m)) < 0.25),
    "low rank": _low_rank,
    "low rank and noise": lambda rng, n, m: _low_rank(rng, n, m) + 0.01 * rng.random((n, m)),
    "rank one": lambda rng, n, m: np.outer(rng.random(n), rng.random(m)),
    "constant": lambda rng, n, m: np.ones((n, m)),
    "zero": lambda rng, n, m: np.zeros((n, m)),
    "duplicates": lambda rng, n, m: rng.random((3, m))[rng.integers(3, size=n)],
    "heavy tails": lambda rng, n, m: np.exp(3 * rng.standard_normal((n, m))),
    "integers": lambda rng, n, m: rng.poisson(2.0, (n, m)).astype(float),
    "one huge entry": lambda rng, n, m: rng.random((n, m)) + 1e6 * (np.arange(n * m).reshape(n, m) == n * m // 3),
}


def _damped(rng: Rng, X: Dense) -> Dense:
    """Some rows or columns of zeros, in a third of the cases."""
    for axis in (0, 1):
        if rng.random() < 0.2:
            X = X * np.expand_dims(rng.random(X.shape[axis]) > 0.3, 1 - axis)
    return X


def _weight(rng: Rng, natural: float = 1.0, usual: float = 1.0) -> float:
    """A weight: none, the usual one, up to 1e6, or some size that balances terms (`natural`)."""
    kind = rng.random()
    if kind < 0.12:
        return 0.0
    if kind < 0.4:
        return usual
    if kind < 0.7:
        return float(10 ** rng.uniform(-6, 6))
    return float(natural * 10 ** rng.uniform(-3, 3))


def _parameters(rng: Rng, name: str, X: Dense, k: int, unit: float) -> tuple[dict[str, Any], Dense | None, dict]:
    """Parameters of the estimator, labels, and W and H where they are the start."""
    (n, m), y = X.shape, None
    chosen: dict[str, Any] = {
        "n_components": k,
        "max_iter": int(2 ** rng.uniform(0, np.log2(60))),
        "tol": float(rng.choice([0.0, 1e-4])),
        "random_state": int(rng.integers(1000)),
    }
    if name not in ("ONMF", "SDNMF"):
        chosen["solver"] = str(rng.choice(ALL_SOLVERS if name in ("DSPNMF", "NMF", "FRNMF") else GRAPH_SOLVERS))
        chosen["inner_iter"] = int(rng.integers(1, 6)) if rng.random() < 0.15 else "auto"
    if name != "SDNMF":
        chosen["n_init"] = int(rng.choice([1, 2, 3], p=[0.8, 0.1, 0.1]))
    if name in ("DSPNMF", "NMF", "NSNMF", "ONMF", "FRNMF"):
        chosen["normalize"] = bool(rng.random() < 0.15)
    if name in ("GNMF", "GDNMF", "SPNMF", "NPNMF", "SDNMF"):
        chosen["n_neighbors"] = int(rng.integers(1, min(n, 8) + 1))
    if name in ("GNMF", "GDNMF", "SPNMF"):
        chosen |= {
            "beta": _weight(rng, usual=100.0),
            "weights": str(rng.choice(["binary", "heat", "cosine"])),
            "normalized_laplacian": bool(rng.random() < 0.3),
            "graph": _graph(rng, n) if rng.random() < 0.1 else str(rng.choice(["knn", "self-tuned"], p=[0.8, 0.2])),
        }
    if name in ("DSPNMF", "NMF") and rng.random() < 0.12:
        chosen["missing"] = "mask"
    if name == "DSPNMF":
        kinds = ["gram"] if "missing" in chosen else ["gram", "cosine", "knn", "self-tuned", "matrix"]
        kind = str(rng.choice(kinds, p=None if len(kinds) == 1 else [0.6, 0.12, 0.12, 0.1, 0.06]))
        if chosen["solver"] == "mm" and kind not in ("gram", "cosine"):
            kind = "gram"
        chosen |= {
            "similarity": _graph(rng, n) if kind == "matrix" else kind,
            "alpha": _weight(rng, natural=unit**-2 if kind == "gram" else unit**2),
            "lam": _lam(rng),
            "n_neighbors": int(rng.integers(1, min(n, 8) + 1)),
        }
        if rng.random() < 0.25:
            chosen["label_weight"] = _weight(rng, natural=unit**2)
    elif name == "FRNMF":
        chosen |= {"alpha": _weight(rng, natural=unit**-2), "lam": _lam(rng)}
    elif name == "GDNMF":
        chosen["label_weight"] = _weight(rng, natural=unit**2)
    elif name == "SPNMF":
        chosen |= {"repulsion": _weight(rng), "overlap": _weight(rng), "n_distant": int(rng.integers(1, 6))}
    elif name == "NPNMF":
        chosen |= {"mu": _weight(rng), "reg": float(10 ** rng.uniform(-6, -1))}
    elif name == "NSNMF":
        chosen |= {
            "alpha": _weight(rng, natural=unit**2),
            "reconstruction_weight": _weight(rng, natural=unit**-2) or 1.0,
        }
        chosen["gamma"] = _weight(rng, natural=chosen["reconstruction_weight"], usual=0.1)
        if rng.random() < 0.1:
            chosen["graph"] = _graph(rng, n)
    elif name == "SymNMF":
        chosen["n_neighbors"] = None if rng.random() < 0.5 else int(rng.integers(1, min(n, 8) + 1))
        if rng.random() < 0.2:
            chosen["graph"] = _graph(rng, n)
    elif name == "SDNMF":
        chosen |= {
            "solver": str(rng.choice(["auto", "paper"])),
            "max_iter": int(rng.integers(1, 12)),
            "beta": _weight(rng, usual=10.0),
            "lam": float(10 ** rng.uniform(0, 3)),
            "gamma": float(10 ** rng.uniform(-1, 2)),
            "metric": (1, m) if rng.random() < 0.2 else str(rng.choice(["discrete", "line"])),
            "sinkhorn_steps": int(rng.integers(1, 16)),
        }
    if chosen.get("label_weight", 0.0) > 0:
        y = rng.integers(0, int(rng.integers(1, 5)), n)
        y[rng.random(n) < rng.choice([0.0, 0.5, 1.0], p=[0.3, 0.6, 0.1])] = -1
    start: dict[str, Dense] = {}
    if name not in ("SymNMF", "SDNMF"):
        inits = ["nndsvd", "nndsvda", "nndsvdar"] if k <= min(n, m) else []
        chosen["init"] = str(rng.choice(["custom", *inits])) if rng.random() < 0.35 else "random"
    if chosen.get("init") == "custom" or (name == "SDNMF" and rng.random() < 0.2):
        size = _size_of_codes(rng, name, chosen, unit)
        W, H = rng.random((n, k)) * size, rng.random((k, m)) * (unit / size)
        if rng.random() < 0.3:
            W, H = W * (rng.random(W.shape) < 0.8), H * (rng.random(H.shape) < 0.8)
            W[0, 0], H[0, 0] = size, unit / size
        start = {"W": W.astype(X.dtype), "H": H.astype(X.dtype)} if name == "NMF" else {"W": W, "H": H}
    return chosen, y, start


def _size_of_codes(rng: Rng, name: str, chosen: Mapping[str, Any], unit: float) -> float:
    """A size for W that fits what codes are to preserve; where they are to preserve nothing, any share of X's unit."""
    off, root = float(10 ** rng.uniform(-1, 1)), float(np.sqrt(chosen.get("lam", 1.0)))
    if name == "DSPNMF":
        return off / root * (unit if isinstance(chosen["similarity"], str) and chosen["similarity"] == "gram" else 1.0)
    if name == "FRNMF":
        return off * root
    return off * (1.0 if name in ("NSNMF", "SDNMF") else unit ** float(rng.choice([0.0, 0.5, 1.0])))


def _lam(rng: Rng) -> float:
    return 1.0 if rng.random() < 0.6 else float(10 ** rng.uniform(-2, 8))


def _graph(rng: Rng, n: int) -> sparse.csr_array:
    """A graph of one's own: symmetric, non-negative, possibly empty."""
    A = sparse.random_array((n, n), density=min(1.0, 4 / n), rng=rng, format="csr")
    A.setdiag(0)
    A.eliminate_zeros()
    return sparse.csr_array(A.maximum(A.T))


# -- the documented formulas, in extended precision --------------------------------------------------------------------


class Sum(NamedTuple):
    """A value, and the size of what was added and subtracted to get it: rounding is relative to that."""

    value: np.longdouble
    size: np.longdouble

    def __add__(self, other: Sum) -> Sum:  # type: ignore[override]
        """Of two sums."""
        return Sum(self.value + other.value, self.size + other.size)

    def times(self, weight: float) -> Sum:
        """A multiple."""
        return Sum(np.longdouble(weight) * self.value, np.longdouble(weight) * self.size)


NOTHING = Sum(np.longdouble(0), np.longdouble(0))
GRAPH_UNIT = Sum(np.longdouble(0), np.longdouble(1e-30))  # weights of a graph are near 1: less than this is rounding


def positive(value: np.longdouble) -> Sum:
    """A sum of positive numbers."""
    return Sum(value, value)


def distance2(A: Dense, B: Dense) -> Sum:
    """``||A - B||^2``."""
    return Sum(np.square(A - B).sum(), np.square(A).sum() + np.square(B).sum())


def smoothness(U: Dense, degrees: Dense, A: Dense) -> Sum:
    """``tr(U' (Deg - A) U)``."""
    own, pull = np.sum(degrees[:, None] * U * U), np.sum(U * (A @ U))
    return Sum(own - pull, np.abs(own) + np.sum(np.abs(U) * (np.abs(A) @ np.abs(U))))


def long(A: Matrix) -> Dense:
    """Dense, in extended precision."""
    return np.asarray(A.toarray() if sparse.issparse(A) else A).astype(np.longdouble)


def in_unit(X: Matrix) -> Matrix:
    """X over a power of two near its largest entry, which rounds nothing: graphs do not depend on the unit."""
    largest = float((X.data if sparse.issparse(X) else X).max(initial=0))
    return X * X.dtype.type(2.0 ** -np.round(np.log2(largest))) if largest > 0 else X


class Documented(NamedTuple):
    """The numbers a fit documents; None where there is none, or where it does not follow from what the fit returns."""

    objective: Sum
    reconstruction: Sum | None
    structure: Sum | None
    exact: bool = True  # whether `objective` is known; otherwise it shows the size only
    lowest: np.longdouble | None = None  # a bound of the objective from below, where only that is known


def documented(case: Case, model: Any, Z: Dense) -> Documented:
    """Objective, ``||X - UV||^2`` and the structure's square by the formulas in the docstrings."""
    at, X, U = case.parameters, long(case.X), long(Z)
    if case.name == "SymNMF":
        A = at["graph"] if "graph" in at else graphs.self_tuned(in_unit(case.X), at["n_neighbors"])
        fit = distance2(long(A), U @ U.T) + GRAPH_UNIT
        return Documented(fit, None, fit)
    V = long(model.components_)
    known = ~np.isnan(X)
    lost = np.longdouble(np.finfo(case.X.dtype).smallest_subnormal) * max(1, U.max()) * max(1, V.max()) * len(V)
    reconstruction = distance2(np.where(known, X, 0), np.where(known, U @ V, 0)) + Sum(np.longdouble(0), lost**2)
    if case.name == "SDNMF":
        return _transport(case, U, V, reconstruction)
    structure, others = _other_terms(case, model, np.nan_to_num(X), U, V)
    objective, exact = reconstruction.times(at.get("reconstruction_weight", 1.0)) + others, True
    if not known.all() and structure is not None:  # the rows whose similarities were the goal are not returned
        structure, exact = None, at["alpha"] == 0
    if at.get("normalize"):  # the numbers are those of the factors before it; FRNMF finds codes anew
        structure, exact = None, exact and others.size == 0 and case.name != "FRNMF"
    return Documented(objective, reconstruction, structure, exact)


def _other_terms(case: Case, model: Any, X: Dense, U: Dense, V: Dense) -> tuple[Sum | None, Sum]:
    """The similarity term without its weight, where there is one; and all terms but the reconstruction."""
    at, structure, others = case.parameters, None, NOTHING
    if case.name == "DSPNMF":
        structure = distance2(similarity(case, X), np.longdouble(at["lam"]) * (U @ U.T))
        structure += NOTHING if isinstance(at["similarity"], str) and at["similarity"] == "gram" else GRAPH_UNIT
        others = structure.times(at["alpha"]) + labels(case, model, U)
    elif case.name == "FRNMF":
        structure = distance2(X.T @ X, np.longdouble(at["lam"]) * (V.T @ V))
        others = structure.times(at["alpha"])
    elif case.name == "NSNMF":
        A = at["graph"] if "graph" in at else graphs.spanning_tree(in_unit(case.X))
        structure, ridge = distance2(long(A), U @ U.T) + GRAPH_UNIT, positive(np.square(U).sum() + np.square(V).sum())
        others = structure.times(at["alpha"]) + ridge.times(at["gamma"])
    elif case.name == "NPNMF":
        R = long(graphs.lle_weights(in_unit(case.X), at["n_neighbors"], at["reg"]))
        others = distance2(U, R @ U).times(at["mu"])
    elif case.name in ("GNMF", "GDNMF", "SPNMF"):
        degrees, A = graphs.laplacian(neighbour_graph(case), at["normalized_laplacian"])
        others = smoothness(U, long(degrees), long(A)).times(at["beta"]) + labels(case, model, U)
    if case.name == "SPNMF":
        far, shared = long(graphs.farthest(in_unit(case.X), at["n_distant"])), (U.T @ U) * (V @ V.T)
        others += positive(np.sum(U * (far @ U))).times(at["repulsion"])
        others += positive(shared.sum() - np.trace(shared)).times(at["overlap"])
    return structure, others


def similarity(case: Case, X: Dense) -> Dense:
    """What DSPNMF preserves."""
    kind = case.parameters["similarity"]
    if not isinstance(kind, str):
        return long(kind)
    if kind == "knn":
        return long(graphs.knn(in_unit(case.X), case.parameters["n_neighbors"]))
    if kind == "self-tuned":
        return long(graphs.self_tuned(in_unit(case.X)))
    if kind == "cosine":
        length = np.sqrt(np.square(X).sum(axis=1, keepdims=True))
        X = X / np.where(length > 0, length, 1)
    return X @ X.T


def neighbour_graph(case: Case) -> sparse.csr_array:
    """The graph of GNMF and its relatives."""
    at = case.parameters
    if not isinstance(at["graph"], str):
        return at["graph"]
    if at["graph"] == "self-tuned":
        return graphs.self_tuned(in_unit(case.X), at["n_neighbors"])
    return graphs.knn(in_unit(case.X), at["n_neighbors"], at["weights"])


def labels(case: Case, model: Any, U: Dense) -> Sum:
    """``label_weight ||Y - UB||^2`` over the labelled rows."""
    weight = case.parameters.get("label_weight", 0.0)
    if case.y is None or weight == 0 or (case.y == -1).all():
        return NOTHING
    known = case.y != -1
    Y = (case.y[known, None] == model.classes_).astype(np.longdouble)
    return distance2(Y, U[known] @ long(model.label_components_)).times(weight)


def _transport(case: Case, U: Dense, V: Dense, reconstruction: Sum) -> Documented:
    """SDNMF: with solver="paper" the steps begin anew in every iteration, otherwise duality bounds F from below."""
    at, X = case.parameters, np.asarray(case.X, np.float64)
    m, lam, gamma = X.shape[1], at["lam"], at["gamma"]
    M = 1.0 - np.eye(m)
    if at["metric"] != "discrete":
        M = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / max(m - 1, 1)
    R, log_K, e = np.asarray(U @ V, np.float64), -lam * M - 1, gamma * lam / (1 + gamma * lam)
    total, dual = NOTHING, np.longdouble(0)
    for x, r in zip(X, R, strict=True):
        if not (x.any() and r.any()):  # nothing to move
            cost = gamma * (x.sum() + r.sum())
            total, dual = total + positive(cost), dual + cost
            continue
        with np.errstate(divide="ignore"):
            log_x, log_r, log_u = np.log(x), np.log(r), np.full(m, -np.log(m))
        for _ in range(at["sinkhorn_steps"] if at["solver"] == "paper" else 50):
            log_u = e * (log_r - special.logsumexp(log_K + e * (log_x - _through(log_K, log_u)), axis=1))
        log_v = e * (log_x - _through(log_K, log_u))
        log_T = log_u[:, None] + log_K + log_v
        T = np.exp(log_T)
        spread = [T * M, special.xlogy(T, T) / lam]
        for plan, given in ((T.sum(axis=1), r), (T.sum(axis=0), x)):
            spread += [gamma * special.xlogy(plan, plan / np.where(given > 0, given, 1)), -gamma * plan, gamma * given]
        total += Sum(sum(np.sum(part) for part in spread), sum(np.abs(part).sum() for part in spread))
        for given, log in ((r, log_u), (x, log_v)):
            some = given > 0
            dual -= gamma * np.sum(given[some] * np.expm1(-log[some] / (gamma * lam)))
        dual -= T.sum() / lam
    if at["beta"] > 0:
        degrees, A = graphs.laplacian(graphs.knn(in_unit(case.X), at["n_neighbors"]))
        graph = smoothness(U, long(degrees), long(A)).times(gamma * at["beta"] / 2)
        total, dual = total + graph, dual + graph.value
    if at["solver"] == "paper":
        return Documented(total, reconstruction, None)
    return Documented(total, reconstruction, None, False, dual - AGREES[np.dtype(case.X.dtype)] * total.size)


def _through(log_K: Dense, log_u: Dense) -> Dense:
    return np.asarray(special.logsumexp(log_K + log_u, axis=1))


# -- the judgement -----------------------------------------------------------------------------------------------------


def judge(case: Case) -> Verdict:
    """Fit the case, and everything that is not as promised."""
    model, failures = case.model(), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            Z = model.fit_transform(case.X, case.y, **case.start)
        except Exception as error:
            return _refused(case, error)
        codes = {"codes": (Z, case.X)}
        for what, rows in (("transform(X)", case.X), ("transform(new)", case.new)):
            if _has_transform(case):
                try:
                    codes[what] = (model.transform(rows), rows)
                except Exception as error:
                    failures.append((f"{what}: {_words(error)}", _where(error)))
    for one in caught:
        expected = issubclass(one.category, ConvergenceWarning) or "float32 does not resolve that" in str(one.message)
        if not expected:
            failures.append((f"{one.category.__name__}: {one.message}", f"{one.filename}:{one.lineno}"))
    k = case.parameters["n_components"]
    for what, (U, rows) in codes.items():
        failures += _not_a_factor(what, U, (rows.shape[0], k), case.X.dtype)
    if case.name != "SymNMF":
        failures += _not_a_factor("components_", model.components_, (k, case.X.shape[1]), case.X.dtype)
    if hasattr(model, "label_components_"):
        failures += _not_a_factor("label_components_", model.label_components_, (k, len(model.classes_)), np.float64)
    if any("finite" in what for what, _ in failures):
        return Verdict(failures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failures += _wrong_numbers(case, model, documented(case, model, Z))
    return Verdict(failures)


def _has_transform(case: Case) -> bool:
    at = case.parameters
    if (
        case.name == "SymNMF"
        or not isinstance(at.get("graph", ""), str)
        or not isinstance(at.get("similarity", ""), str)
    ):
        return False
    return at.get("similarity") != "self-tuned" and at.get("graph") != "self-tuned"


def _refused(case: Case, error: Exception) -> Verdict:
    """An error of the fit: fine where the library itself refuses an extreme unit, in its own words."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    if case.extreme and isinstance(error, ValueError) and "dspnmf" in last.split("site-packages")[-1]:
        return Verdict([], f"{type(error).__name__}: {error}")
    return Verdict([(_words(error), _where(error))])


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:90]}"


def _where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"


def _not_a_factor(what: str, U: Dense, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterable[tuple[str, str]]:
    if U.shape != shape:
        yield f"{what}: shape", f"{U.shape}, not {shape}"
    if U.dtype != dtype:
        yield f"{what}: dtype", f"{U.dtype}, not {dtype}"
    if not np.isfinite(U).all():
        yield f"{what}: not finite", f"{np.sum(~np.isfinite(U))} of {U.size}"
    elif U.min(initial=0) < 0:
        yield f"{what}: negative", f"{U.min()}"


def _wrong_numbers(case: Case, model: Any, true: Documented) -> Iterable[tuple[str, str]]:
    dtype, history = np.dtype(case.X.dtype), np.asarray(model.objective_history_, dtype=np.longdouble)
    if len(history) != model.n_iter_ + 1:
        yield "objective_history_: length", f"{len(history)} entries, {model.n_iter_} iterations"
    objective = true.objective if true.exact else None
    if objective is not None and not long(case.X).any():  # where X is zero, less than 1e-30 of the start is nothing
        objective += Sum(np.longdouble(0), 1e-24 * abs(history[0]))
    numbers = {"objective_": (model.objective_, objective, 1), "history[-1]": (history[-1], objective, 1)}
    if true.reconstruction is not None:
        numbers["reconstruction_err_"] = (model.reconstruction_err_, true.reconstruction, 2)
    if true.structure is not None:
        numbers["structure_err_"] = (model.structure_err_, true.structure, 2)
    for what, (given, exact, power) in numbers.items():
        if np.isnan(given):
            yield f"{what}: NaN", ""
        elif exact is not None and not _agrees(np.longdouble(given), exact, power, AGREES[dtype]):
            root = 1 / np.longdouble(power)
            yield f"{what}: not the formula", f"{given:.6e}, not {exact.value**root:.6e} (of {exact.size**root:.2e})"
    if true.lowest is not None and not model.objective_ >= true.lowest:
        yield "objective_: below its minimum", f"{model.objective_:.6e}, at least {true.lowest:.6e}"
    if not np.isfinite(history).all():  # published rules may go beyond what float64 holds, and come back
        allowed = case.parameters.get("solver") in NO_PROMISE or true.objective.size > LARGEST
        if not (history > -np.inf).all() or not allowed:
            yield "objective_history_: not finite", f"{history}"
        return
    yield from _rises(case, history, true)


def _agrees(given: np.longdouble, exact: Sum, power: int, tolerance: float) -> bool:
    """Whether a number, raised to a power, is the documented one; infinite where that is too large for float64."""
    if exact.size > np.longdouble(LARGEST) ** power:  # its rounding may be more than float64 has a number for
        return bool(given >= 0)
    return bool(abs(given**power - exact.value) <= tolerance * exact.size + np.longdouble(SMALLEST) ** power)


def _rises(case: Case, history: Dense, true: Documented) -> Iterable[tuple[str, str]]:
    at = case.parameters
    if case.name in ("ONMF", "SDNMF") or at["solver"] in NO_PROMISE:
        return
    size = true.objective.size + np.abs(history).max()  # sums that run on from the start keep its rounding
    rise = np.diff(history) - ROUNDING[np.dtype(case.X.dtype)] * size - SMALLEST
    if at.get("missing") == "mask" and at.get("alpha", 0.0) > 0:  # goals are renewed after iterations 1, 2, 4, 8, ...
        renewed = np.arange(1, len(history))
        rise[renewed & (renewed - 1) == 0] = 0
    if (rise > 0).any():
        i = int(rise.argmax())
        yield "objective rises", f"{history[i]:.9e} -> {history[i + 1]:.9e} in iteration {i + 1} (of {size:.2e})"


# -- the study ---------------------------------------------------------------------------------------------------------


class Study(NamedTuple):
    """Verdicts of many seeds: failures by kind, refusals by message, and how many fits there were."""

    fits: int
    failures: dict[tuple[str, str], list[tuple[Case, str]]]
    refusals: dict[str, list[Case]]

    @property
    def failed(self) -> set[int]:
        """Seeds with a failure."""
        return {one.seed for found in self.failures.values() for one, _ in found}

    def __str__(self) -> str:
        lines = [f"{self.fits} fits, {len(self.failed)} with failures of {len(self.failures)} kinds"]
        for (name, what), found in sorted(self.failures.items(), key=lambda item: -len(item[1])):
            extreme = sum(one.extreme for one, _ in found)
            lines.append(f"\n{name}: {what}: {len(found)}, {extreme} of them in extreme units")
            lines += [f"  {detail}\n  {one}" for one, detail in sorted(found, key=lambda f: f[0].extreme)[:3]]
        for message, cases in self.refusals.items():
            lines.append(f"\nrefused, {len(cases)}: {message} (seeds {[one.seed for one in cases[:3]]})")
        return "\n".join(lines)


def study(seeds: Sequence[int], jobs: int = 1) -> Study:
    """Judge the cases of all seeds."""
    parts = [seeds[i : i + 50] for i in range(0, len(seeds), 50)]
    if jobs == 1:
        verdicts = [verdict for part in parts for verdict in _verdicts(part)]
    else:
        verdicts = [v for part in Parallel(n_jobs=jobs)(delayed(_verdicts)(part) for part in parts) for v in part]
    result = Study(len(seeds), defaultdict(list), defaultdict(list))
    for seed, verdict in zip(seeds, verdicts, strict=True):
        if verdict.failures or verdict.refusal:
            one = draw(seed)
            for what, detail in dict(verdict.failures).items():
                result.failures[one.name, what].append((one, detail))
            if verdict.refusal is not None:
                result.refusals[verdict.refusal].append(one)
    return result


def _verdicts(seeds: Sequence[int]) -> list[Verdict]:
    return [judge(draw(seed)) for seed in seeds]


def case(seed: int) -> str:
    """One case and its judgement, to read."""
    one = draw(seed)
    verdict = judge(one)
    lines = [str(one), *(f"  {what}: {detail}" for what, detail in verdict.failures)]
    return "\n".join(lines + [f"  refused: {verdict.refusal}"] * (verdict.refusal is not None))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("--first", 0), ("--count", 300), ("--jobs", 1), ("--show", None)):
        parser.add_argument(option, type=int, default=default)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count)
    sys.stdout.write(f"{study(seeds, given.jobs) if given.show is None else case(given.show)}\n")


if __name__ == "__main__":
    main()
