"""What the report of a fit measures, and on what: the data, the fit, its baseline, the rows drawn where there are many.

X is n x m (dense or sparse), Z are codes n x k, V components k x m. Where cells of X are missing (NaN), everything but
the reconstruction error is measured on rows completed by the fit's own ZV.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dspnmf import metrics
from dspnmf.estimators import NMF
from dspnmf.io import Table
from dspnmf.report.fit_agreement import agreement_facts

NEIGHBOURS = 10
_BLOCK = 2**22  # numbers of X at once
_CANCELS = 1e-7  # a difference below this share of what it is a difference of is computed from the residuals
MAX_NEIGHBOUR_ROWS = 2000  # for what needs all distances between rows
MAX_SCATTER_ROWS = 3000
MAX_SCATTER_CODES = 240_000
MAX_PAIRS = 1500  # pairs of rows in the structure plot
MAX_STRUCTURE_WORK = 2e11  # multiplications for the structure of all rows
_SPARSE_COST = 10  # of one multiplication where X is sparse, in dense ones
_SHARED_PARAMETERS = ("max_iter", "tol", "n_init", "normalize", "missing")  # that the baseline takes from the model

FloatArray: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = "FloatArray | sparse.csr_array"
RowNumbers: TypeAlias = NDArray[np.intp]
RandomState: TypeAlias = "int | np.random.RandomState | None"
Baseline: TypeAlias = "NMF | tuple[NMF, ArrayLike] | Literal[False] | None"


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted estimator with its codes; `V` is None where there are no components."""

    name: str
    model: BaseEstimator
    Z: FloatArray
    V: FloatArray | None
    label: str  # its name on the page

    @property
    def rebuilds(self) -> bool:
        """Whether ZV is an approximation of X."""
        return self.V is not None and hasattr(self.model, "inverse_transform")


@dataclass(frozen=True, eq=False)
class FitInputs:
    """The table, the fit, its baseline, and which rows are used for neighbours, scatter plot and structure."""

    table: Table
    fit: Fit
    baseline: Fit | None
    missing: int
    neighbour_rows: RowNumbers
    scatter_rows: RowNumbers
    structure_rows: RowNumbers
    pairs: tuple[RowNumbers, RowNumbers]

    @property
    def fits(self) -> tuple[Fit, ...]:
        """The model, and the baseline if there is one."""
        return (self.fit,) if self.baseline is None else (self.fit, self.baseline)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        n, m = self.table.X.shape
        return int(n), int(m)

    @cached_property
    def shares(self) -> FloatArray | None:
        """The share of the squares of X that each component of the fit explains; None where ZV is not close to X."""
        fit = self.fit
        return np.asarray(metrics.explained_share(self.table.X, fit.Z, fit.V), np.float64) if fit.rebuilds else None

    @cached_property
    def _rows_in_memory(self) -> FloatArray:
        return np.stack([self.table.X[int(row)] for row in self.structure_rows])

    def rows(self, fit: Fit, rows: RowNumbers) -> Matrix:
        """These rows of X; cells that are missing come from the fit."""
        if self.table.in_file:  # of such a table, all rows that are used are among these
            return self._rows_in_memory[np.searchsorted(self.structure_rows, rows)]
        X = self.table.X if rows is self.structure_rows and len(rows) == self.shape[0] else self.table.X[rows]
        return completed(X, fit.Z[rows], fit.V) if self.missing and fit.V is not None else X


def fit_inputs(
    model: BaseEstimator, table: Table, Z: ArrayLike, baseline: Baseline, random_state: RandomState
) -> FitInputs:
    """Check that everything belongs together, fit the baseline where none is given, and draw the rows."""
    fit = _checked_fit(model, table, Z)
    missing = 0 if table.in_file else int(np.isnan(stored(table.X)).sum())
    if missing and not fit.rebuilds:
        raise ValueError(
            f"X has {missing} missing cells, and {fit.name} has no components to complete them: fill them before the "
            "fit, or report a method that rebuilds X."
        )
    rng = check_random_state(random_state)
    n, k = fit.Z.shape
    order = rng.permutation(n)
    neighbours = np.sort(order[:MAX_NEIGHBOUR_ROWS])
    scatter = np.sort(order[: min(MAX_SCATTER_ROWS, max(500, MAX_SCATTER_CODES // k))])
    structure = np.arange(n) if _structure_is_cheap(table) else neighbours
    pairs = _pairs(structure, rng)
    if baseline is None:
        baseline = fit_baseline(model, table, random_state=random_state)
    plain = _checked_baseline(fit, table, baseline)
    return FitInputs(table, fit, plain, missing, neighbours, scatter, structure, pairs)


def fit_baseline(
    model: BaseEstimator, table: Table, *, random_state: RandomState = 0
) -> tuple[NMF, FloatArray] | Literal[False]:
    """Plain NMF of the same data: the same rank and seed, and the same iterations and tolerance.

    The result is the fitted model with its codes, or False where `model` is plain NMF itself or X has numbers below
    zero. `random_state` is the seed where that of the model is not a number.

    Examples
    --------
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.report import fit_baseline
    >>> table = Table(np.eye(4), np.array(list("abcd")), np.arange(4).astype(str))
    >>> fit_baseline(DSPNMF(2, random_state=0).fit(table.X), table)[1].shape
    (4, 2)
    """
    if isinstance(model, NMF) or not (table.in_file or np.nanmin(stored(table.X), initial=0.0) >= 0):
        return False
    given, known = model.get_params(deep=False), NMF().get_params()
    shared = {name: given[name] for name in _SHARED_PARAMETERS if name in given and name in known}
    seed = given.get("random_state")
    seed = seed if isinstance(seed, int | np.integer) else random_state
    rank = len(model.components_) if hasattr(model, "components_") else model.n_components
    plain = NMF(n_components=rank, random_state=seed, **shared)
    with warnings.catch_warnings():  # the page says whether it converged
        warnings.simplefilter("ignore", ConvergenceWarning)
        return plain, plain.fit_transform(table.X)


def completed(X: Matrix, Z: FloatArray, V: FloatArray) -> Matrix:
    """X with ZV where a cell is missing."""
    if sparse.issparse(X):
        X = sparse.coo_array(X)
        (gaps,) = np.nonzero(np.isnan(X.data))
        values = X.data.copy()
        values[gaps] = np.einsum("ij,ij->i", Z[X.row[gaps]], V[:, X.col[gaps]].T)
        return sparse.csr_array((values, (X.row, X.col)), shape=X.shape)
    return np.where(np.isnan(X), Z @ V, X)


def stored(X: Matrix) -> FloatArray:
    """The numbers of X that are stored."""
    return np.asarray(X.data if sparse.issparse(X) else X)


def _checked_fit(model: BaseEstimator, table: Table, Z: ArrayLike, label: str = "{}") -> Fit:
    """A fit whose shapes agree with the table's."""
    n, m = table.X.shape
    Z = np.asarray(Z, dtype=np.float64)
    name = type(model).__name__
    if Z.ndim != 2 or len(Z) != n:
        raise ValueError(f"Z has shape {Z.shape}, but the table has {n} samples: give the codes of {name} for them.")
    if not np.isfinite(Z).all():
        raise ValueError(f"The codes of {name} have NaN or infinite numbers: report a fit that ended well.")
    V = getattr(model, "components_", None)
    V = None if V is None else np.asarray(V, dtype=np.float64)
    if V is not None and V.shape != (Z.shape[1], m):
        raise ValueError(
            f"components_ of {name} has shape {V.shape}, but codes and table ask for {(Z.shape[1], m)}: "
            "give model, table and codes of the same fit."
        )
    columns = ((f"values of column {column!r}", values, n) for column, values in table.columns.items())
    for what, found, asked in (
        ("names of features", table.features, m),
        ("names of samples", table.index, n),
        *columns,
    ):
        if len(found) != asked:
            raise ValueError(f"The table has {len(found)} {what} for {asked}: give one for each.")
    return Fit(name, model, Z, V, label.format(name))


def _checked_baseline(fit: Fit, table: Table, baseline: Baseline) -> Fit | None:
    """The baseline as a fit of its own, if there is one."""
    if baseline is None or baseline is False:
        return None
    model, codes = baseline if isinstance(baseline, tuple) else (baseline, baseline.transform(table.X))
    other = _checked_fit(model, table, codes, "plain {}")
    if other.Z.shape != fit.Z.shape:
        raise ValueError(
            f"The baseline has rank {other.Z.shape[1]}, but {fit.name} has {fit.Z.shape[1]}: give one of the same "
            "rank, or None to have it fitted."
        )
    return other


def _structure_is_cheap(table: Table) -> bool:
    """Whether the structure of all rows takes moments: n m min(n, m) multiplications, fewer where X is sparse."""
    X = table.X
    if table.in_file:
        return False
    if not sparse.issparse(X):
        return float(X.shape[0]) * X.shape[1] * min(X.shape) <= MAX_STRUCTURE_WORK
    per_row, per_column = (np.bincount(numbers).astype(np.float64) for numbers in X.nonzero())
    return _SPARSE_COST * float(min(per_row @ per_row, per_column @ per_column)) <= MAX_STRUCTURE_WORK


def _pairs(rows: RowNumbers, rng: np.random.RandomState) -> tuple[RowNumbers, RowNumbers]:
    """Pairs of different rows: all of them, or `MAX_PAIRS` drawn at random."""
    n = len(rows)
    if n * (n - 1) // 2 <= MAX_PAIRS:
        first, second = np.triu_indices(n, 1)
    else:
        first = rng.randint(n, size=MAX_PAIRS)
        second = (first + 1 + rng.randint(n - 1, size=MAX_PAIRS)) % n
    return rows[first], rows[second]


def fit_facts(
    model: BaseEstimator, table: Table, Z: ArrayLike, baseline: Baseline = None, *, random_state: RandomState = 0
) -> dict[str, Any]:
    """The numbers of a fit as plain data, which JSON can hold.

    Parameters
    ----------
    model : fitted estimator
        Any of the family.
    table : Table
        What it was fitted on, after scaling. NaN marks missing cells: the reconstruction error is then that of the
        known cells, and the other measures are taken on rows completed by the fit's own ``Z @ components_``.
    Z : array-like of shape (n_samples, n_components)
        Its codes of the table.
    baseline : fitted NMF, (fitted NMF, its codes), False or None, default=None
        Plain NMF of the same data at the same rank. None: it is fitted here (see `fit_baseline`); False: left out.
    random_state : int, RandomState or None, default=0
        Seed of the baseline where the model has none, and of the rows that are drawn where there are many.

    Returns
    -------
    dict
        ``method``, ``shape``, ``sparse``, ``missing_cells``, ``rank``, ``parameters``, ``iterations``, ``converged``,
        ``objective``; ``explained_share`` of the squares of X and ``explained_similarities`` of those of XX',
        ``reconstruction_error`` and ``structure_error`` (shares of norms: explained is 1 less their square),
        ``trustworthiness``, ``neighbour_recall``, ``component_correlation``, ``component_sparseness`` (see
        `dspnmf.metrics`); ``component_shares``, what each component explains of the squares of X;
        ``neighbours`` they were asked for, ``rows_for_neighbours`` and ``rows_for_structure`` that were measured;
        ``agreement`` of the runs of a `ConsensusNMF` (``runs``, ``kept``, ``silhouette``, ``stability`` and
        ``share_of_runs`` of each component, ``ranks``); and ``baseline``, the same of plain NMF, or None. What a method
        does not have is None.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.report import fit_facts
    >>> wine = load_wine()
    >>> table = Table(wine.data, np.array(wine.feature_names), np.arange(178).astype(str))
    >>> model = DSPNMF(3, random_state=0)
    >>> facts = fit_facts(model, table, model.fit_transform(table.X))
    >>> facts["structure_error"] < facts["baseline"]["structure_error"]
    True
    """
    return measured(fit_inputs(model, table, Z, baseline, random_state))


def measured(inputs: FitInputs) -> dict[str, Any]:
    """What `fit_facts` returns."""
    n_rows, shares = len(inputs.neighbour_rows), inputs.shares
    return {
        "shape": list(inputs.shape),
        "sparse": bool(sparse.issparse(inputs.table.X)),
        "missing_cells": inputs.missing,
        **_measured_fit(inputs, inputs.fit),
        "component_shares": None if shares is None else [float(value) for value in shares],
        "neighbours": _neighbours(n_rows),
        "rows_for_neighbours": n_rows,
        "rows_for_structure": len(inputs.structure_rows),
        "agreement": agreement_facts(inputs.fit.model),
        "baseline": None if inputs.baseline is None else _measured_fit(inputs, inputs.baseline),
    }


def _neighbours(n: int) -> int:
    """How many neighbours of n rows are compared: where they are (nearly) all others, every method keeps them."""
    return min(NEIGHBOURS, max((n - 1) // 2, 0))


def _measured_fit(inputs: FitInputs, fit: Fit) -> dict[str, Any]:
    """The numbers of one of the fits."""
    model, rows = fit.model, inputs.structure_rows
    lost = reconstruction_error(inputs, fit)
    structure_lost = metrics.structure_error(inputs.rows(fit, rows), fit.Z[rows])
    numbers: dict[str, float | None] = {
        "objective": getattr(model, "objective_", None),
        "explained_share": None if lost is None else 1 - lost**2,
        "explained_similarities": 1 - structure_lost**2,
        "reconstruction_error": lost,
        "structure_error": structure_lost,
        "trustworthiness": None,
        "neighbour_recall": None,
        "component_correlation": None if fit.V is None else metrics.component_correlation(fit.V),
        "component_sparseness": None if fit.V is None else metrics.sparseness(fit.V),
    }
    if len(inputs.neighbour_rows) >= 3:
        X, Z = inputs.rows(fit, inputs.neighbour_rows), fit.Z[inputs.neighbour_rows]
        asked = _neighbours(len(inputs.neighbour_rows))
        numbers["trustworthiness"] = metrics.trustworthiness(X, Z, asked)
        numbers["neighbour_recall"] = metrics.neighbour_recall(X, Z, asked)
    iterations = getattr(model, "n_iter_", None)
    return {
        "method": fit.name,
        "rank": int(fit.Z.shape[1]),
        "parameters": {name: _as_json(value) for name, value in model.get_params(deep=False).items()},
        "iterations": None if iterations is None else int(iterations),
        "converged": converged(model),
        **{name: float(v) if v is not None and math.isfinite(v) else None for name, v in numbers.items()},
    }


def converged(model: BaseEstimator) -> bool | None:
    """Whether the stopping rule ended the fit; None where there is no such rule, or no history."""
    history: list[float] = getattr(model, "objective_history_", [])
    tol = getattr(model, "tol", 0)
    if len(history) < 2 or not tol > 0:
        return None
    last = abs(history[-2] - history[-1]) <= tol * abs(history[-1])
    return bool(last or len(history) - 1 < getattr(model, "max_iter", 0))


def reconstruction_error(inputs: FitInputs, fit: Fit) -> float | None:
    """||X - ZV|| / ||X|| over the cells that are known; None where ZV does not approximate X."""
    if not fit.rebuilds or fit.V is None:
        return None
    X, Z, V = inputs.table.X, fit.Z, fit.V
    if not (inputs.missing or inputs.table.in_file):  # ||X||^2 - 2 <X'Z, V'> + <VV', Z'Z>: no n x m matrix is formed
        entries = stored(X).ravel()
        norm2 = float(np.einsum("i,i->", entries, entries, dtype=np.float64))
        error2 = norm2 - 2 * float(np.vdot(np.asarray(X.T @ Z), V.T)) + float(np.vdot(V @ V.T, Z.T @ Z))
        if error2 > _CANCELS * norm2:
            return math.sqrt(error2 / norm2)
    error2 = norm2 = 0.0
    step = max(1, _BLOCK // X.shape[1])
    for i in range(0, X.shape[0], step):
        rows = X[i : i + step]
        rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        known = ~np.isnan(rows)
        gap = np.where(known, rows - Z[i : i + step] @ V, 0.0)
        error2, norm2 = error2 + float(np.vdot(gap, gap)), norm2 + float(np.vdot(rows[known], rows[known]))
    return math.sqrt(error2 / norm2) if norm2 > 0 else 0.0


def products(inputs: FitInputs, fit: Fit) -> tuple[FloatArray, FloatArray]:
    """x_i . x_j and c z_i . z_j for the pairs of rows that were drawn, with the c of ``min_c ||XX' - c ZZ'||``."""
    X, Z = inputs.rows(fit, inputs.structure_rows), fit.Z[inputs.structure_rows]
    norm2 = float(np.linalg.norm(Z.T @ Z) ** 2)
    unit = float(np.linalg.norm(np.asarray(X.T @ Z)) ** 2) / norm2 if norm2 > 0 else 0.0
    step = max(1, _BLOCK // inputs.shape[1])
    found = [np.empty(0)]
    for i in range(0, len(inputs.pairs[0]), step):
        first, second = (inputs.rows(fit, rows[i : i + step]) for rows in inputs.pairs)
        if sparse.issparse(first):
            both = sparse.csr_array(first).multiply(second)
        else:
            both = np.multiply(first, second, dtype=np.float64)
        found.append(np.asarray(both.sum(axis=1), dtype=np.float64).ravel())
    codes = np.einsum("ij,ij->i", *(fit.Z[rows] for rows in inputs.pairs))
    return np.concatenate(found), unit * codes


def _as_json(value: object) -> bool | int | float | str | list[Any] | None:
    """A parameter as JSON can hold it."""
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, BaseEstimator):
        return " ".join(repr(value).split())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    shape = getattr(value, "shape", None)
    return f"matrix of shape {tuple(map(int, shape))}" if shape else type(value).__name__
