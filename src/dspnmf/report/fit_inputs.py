"""What the report of a fit is made from: the data, the fit, its baseline, and the rows drawn where there are many.

X is n x m (dense or sparse), Z are codes n x k, V components k x m. Where cells of X are missing (NaN), everything but
the reconstruction error is measured on rows completed by the fit's own ZV.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dspnmf.estimators import NMF

if TYPE_CHECKING:
    from dspnmf.io import Table

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

    Parameters
    ----------
    model, table, random_state
        As in `fit_facts`. The seed of the model is taken where that is a number.

    Returns
    -------
    (NMF, ndarray of shape (n_samples, n_components)) or False
        The fitted model and its codes; False where `model` is plain NMF itself or X has numbers below zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report import fit_baseline
    >>> X = np.random.default_rng(0).random((20, 4))
    >>> table = Table(X, np.array(list("abcd")), np.arange(20).astype(str))
    >>> fit_baseline(DSPNMF(2, random_state=0).fit(X), table)[1].shape
    (20, 2)
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
    X = np.array(X)
    row, col = np.nonzero(np.isnan(X))
    X[row, col] = np.einsum("ij,ij->i", Z[row], V[:, col].T)
    return X


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
    for what, found, asked in (("names of features", table.features, m), ("names of samples", table.index, n)):
        if len(found) != asked:
            raise ValueError(f"The table has {len(found)} {what} for {asked}: give one for each.")
    for column, values in table.columns.items():
        if len(values) != n:
            raise ValueError(f"Column {column!r} has {len(values)} values for {n} samples: give one for each.")
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
