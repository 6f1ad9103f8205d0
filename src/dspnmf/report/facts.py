"""The numbers of a fit: what was fitted, what it cost, and how well it keeps data and structure, beside plain NMF."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dspnmf import metrics
from dspnmf.report.case import Case, Fit, examine

if TYPE_CHECKING:
    from dspnmf.io import Table

NEIGHBOURS = 10
_BLOCK = 2**22  # numbers of X at once
_CANCELS = 1e-7  # a difference below this share of what it is a difference of is computed from the residuals

Facts = dict[str, Any]


def fit_facts(model: Any, table: Table, Z: Any, yardstick: Any = None, *, random_state: Any = 0) -> Facts:
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
    yardstick : fitted NMF, (fitted NMF, its codes), False or None, default=None
        Plain NMF of the same data at the same rank. None: it is fitted here (see `fit_yardstick`); False: left out.
    random_state : int, RandomState or None, default=0
        Seed of the yardstick where the model has none, and of the rows that stand for all where there are many.

    Returns
    -------
    dict
        ``method``, ``shape``, ``sparse``, ``missing_cells``, ``rank``, ``parameters``, ``iterations``, ``converged``,
        ``objective``; ``reconstruction_error`` (share of the norm), ``structure_error``, ``trustworthiness``,
        ``neighbour_recall``, ``component_correlation``, ``component_sparseness`` (see `dspnmf.metrics`);
        ``neighbours`` they were asked for, ``rows_for_neighbours`` and ``rows_for_structure`` that were measured; and
        ``yardstick``, the same of plain NMF, or None. What a method does not have is None.

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
    >>> facts["structure_error"] < facts["yardstick"]["structure_error"]
    True
    """
    return facts_of(examine(model, table, Z, yardstick, random_state))


def facts_of(case: Case) -> Facts:
    """The numbers of a case."""
    X = case.table.X
    return {
        "shape": list(case.shape),
        "sparse": bool(sparse.issparse(X)),
        "missing_cells": case.missing,
        **_of(case, case.fit),
        "neighbours": min(NEIGHBOURS, max(len(case.near) - 1, 0)),
        "rows_for_neighbours": len(case.near),
        "rows_for_structure": len(case.basis),
        "yardstick": None if case.yardstick is None else _of(case, case.yardstick),
    }


def _of(case: Case, fit: Fit) -> Facts:
    """The numbers of one fit."""
    near, few = case.data(fit, case.near), len(case.near) < 3
    return {
        "method": fit.name,
        "rank": int(fit.Z.shape[1]),
        "parameters": {name: _written(value) for name, value in fit.model.get_params(deep=False).items()},
        "iterations": _whole(getattr(fit.model, "n_iter_", None)),
        "converged": converged(fit.model),
        "objective": _finite(getattr(fit.model, "objective_", None)),
        "reconstruction_error": _finite(reconstruction_error(case, fit)),
        "structure_error": _finite(metrics.structure_error(case.data(fit, case.basis), fit.Z[case.basis])),
        "trustworthiness": None if few else _finite(metrics.trustworthiness(near, fit.Z[case.near], NEIGHBOURS)),
        "neighbour_recall": None if few else _finite(metrics.neighbour_recall(near, fit.Z[case.near], NEIGHBOURS)),
        "component_correlation": None if fit.V is None else _finite(metrics.component_correlation(fit.V)),
        "component_sparseness": None if fit.V is None else _finite(metrics.sparseness(fit.V)),
    }


def converged(model: Any) -> bool | None:
    """Whether the stopping rule ended the fit; None where there is none, or no history to tell by."""
    history: Any = getattr(model, "objective_history_", ())
    tol = getattr(model, "tol", 0)
    if len(history) < 2 or not tol > 0:
        return None
    last = abs(history[-2] - history[-1]) <= tol * abs(history[-1])
    return bool(last or len(history) - 1 < getattr(model, "max_iter", 0))


def reconstruction_error(case: Case, fit: Fit) -> float | None:
    """||X - ZV|| / ||X|| over the cells that are known; None where ZV is no approximation of X."""
    if not fit.rebuilds or fit.V is None:
        return None
    X, Z, V = case.table.X, fit.Z, fit.V
    if not (case.missing or case.table.in_file):  # ||X||^2 - 2 <X'Z, V'> + <VV', Z'Z>: no n x m matrix is formed
        entries = np.asarray(X.data if sparse.issparse(X) else X).ravel()
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


def unit(case: Case, fit: Fit) -> float:
    """The c of ``min_c ||XX' - c ZZ'||``: the unit in which similarities of codes are those of X."""
    X, Z = case.data(fit, case.basis), fit.Z[case.basis]
    codes = float(np.linalg.norm(Z.T @ Z) ** 2)
    return float(np.linalg.norm(np.asarray(X.T @ Z)) ** 2) / codes if codes > 0 else 0.0


def products(case: Case, fit: Fit) -> tuple[Any, Any]:
    """x_i . x_j and c z_i . z_j for the pairs of rows that were drawn."""
    step = max(1, _BLOCK // case.shape[1])
    found = [np.empty(0)]
    for i in range(0, len(case.pairs[0]), step):
        first, second = (case.data(fit, rows[i : i + step]) for rows in case.pairs)
        both = first.multiply(second) if sparse.issparse(first) else np.multiply(first, second, dtype=np.float64)
        found.append(np.asarray(both.sum(axis=1), dtype=np.float64).ravel())
    codes = np.einsum("ij,ij->i", *(fit.Z[rows] for rows in case.pairs))
    return np.concatenate(found), unit(case, fit) * codes


def _written(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    shape = getattr(value, "shape", None)
    return f"matrix of shape {tuple(map(int, shape))}" if shape else type(value).__name__


def _whole(value: Any) -> int | None:
    """A count, or None."""
    return None if value is None else int(value)


def _finite(value: Any) -> float | None:
    """A number JSON can hold, or None."""
    return None if value is None or not math.isfinite(value) else float(value)
