"""The numbers of a fit and of its baseline: what was fitted, what it cost, how well it keeps data and structure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf import metrics
from dspnmf.report.fit_inputs import Baseline, Fit, FitInputs, FloatArray, RandomState, fit_inputs, stored

if TYPE_CHECKING:
    from dspnmf.io import Table

NEIGHBOURS = 10
_BLOCK = 2**22  # numbers of X at once
_CANCELS = 1e-7  # a difference below this share of what it is a difference of is computed from the residuals


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
        ``objective``; ``reconstruction_error`` (share of the norm), ``structure_error``, ``trustworthiness``,
        ``neighbour_recall``, ``component_correlation``, ``component_sparseness`` (see `dspnmf.metrics`);
        ``neighbours`` they were asked for, ``rows_for_neighbours`` and ``rows_for_structure`` that were measured; and
        ``baseline``, the same of plain NMF, or None. What a method does not have is None.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report import fit_facts
    >>> wine = load_wine()
    >>> table = Table(minmax_scale(wine.data), np.array(wine.feature_names), np.arange(178).astype(str))
    >>> model = DSPNMF(3, random_state=0)
    >>> facts = fit_facts(model, table, model.fit_transform(table.X))
    >>> facts["structure_error"] < facts["baseline"]["structure_error"]
    True
    """
    return measured(fit_inputs(model, table, Z, baseline, random_state))


def measured(inputs: FitInputs) -> dict[str, Any]:
    """What `fit_facts` returns."""
    n_rows = len(inputs.neighbour_rows)
    return {
        "shape": list(inputs.shape),
        "sparse": bool(sparse.issparse(inputs.table.X)),
        "missing_cells": inputs.missing,
        **_measured_fit(inputs, inputs.fit),
        "neighbours": min(NEIGHBOURS, max(n_rows - 1, 0)),
        "rows_for_neighbours": n_rows,
        "rows_for_structure": len(inputs.structure_rows),
        "baseline": None if inputs.baseline is None else _measured_fit(inputs, inputs.baseline),
    }


def _measured_fit(inputs: FitInputs, fit: Fit) -> dict[str, Any]:
    """The numbers of one of the fits."""
    model, rows = fit.model, inputs.structure_rows
    numbers: dict[str, float | None] = {
        "objective": getattr(model, "objective_", None),
        "reconstruction_error": reconstruction_error(inputs, fit),
        "structure_error": metrics.structure_error(inputs.rows(fit, rows), fit.Z[rows]),
        "trustworthiness": None,
        "neighbour_recall": None,
        "component_correlation": None if fit.V is None else metrics.component_correlation(fit.V),
        "component_sparseness": None if fit.V is None else metrics.sparseness(fit.V),
    }
    if len(inputs.neighbour_rows) >= 3:
        X, Z = inputs.rows(fit, inputs.neighbour_rows), fit.Z[inputs.neighbour_rows]
        numbers["trustworthiness"] = metrics.trustworthiness(X, Z, NEIGHBOURS)
        numbers["neighbour_recall"] = metrics.neighbour_recall(X, Z, NEIGHBOURS)
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


def _as_json(value: object) -> bool | int | float | str | None:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    shape = getattr(value, "shape", None)
    return f"matrix of shape {tuple(map(int, shape))}" if shape else type(value).__name__
