"""A fit as its report sees it: data, codes and components, the yardstick's beside them, and which rows stand for all.

X is n x m (dense or sparse), Z are codes n x k, V components k x m. Where cells of X are missing (NaN), everything but
the reconstruction error is measured on rows completed by the fit's own ZV.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dspnmf.estimators import NMF

if TYPE_CHECKING:
    from dspnmf._typing import Array
    from dspnmf.io import Table

NEAR = 2000  # rows at most for what needs all distances between them
SHOWN = 3000  # rows at most in the scatter plot
CELLS = 240_000  # codes at most in the scatter plot
PAIRS = 1500  # pairs of rows in the structure plot
WORK = 2e11  # multiplications at most for the structure of all rows
_SPARSE = 10  # what one costs where X is sparse
_ALIKE = ("max_iter", "tol", "n_init", "normalize", "missing")  # what the yardstick shares with the model

Rows = NDArray[np.intp]
Yardstick = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted estimator with its codes; `V` is None where there are no components."""

    name: str
    model: Any
    Z: Array
    V: Array | None
    label: str  # what the page calls it

    @property
    def rebuilds(self) -> bool:
        """Whether ZV is an approximation of X."""
        return self.V is not None and hasattr(self.model, "inverse_transform")


@dataclass(frozen=True, eq=False)
class Case:
    """All a report looks at. `near`, `shown`, `basis` are rows drawn for neighbours, scatter and structure."""

    table: Table
    fit: Fit
    yardstick: Fit | None
    missing: int
    near: Rows
    shown: Rows
    basis: Rows
    pairs: tuple[Rows, Rows]

    @property
    def fits(self) -> tuple[Fit, ...]:
        """The model, and the yardstick if there is one."""
        return (self.fit,) if self.yardstick is None else (self.fit, self.yardstick)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        n, m = self.table.X.shape
        return int(n), int(m)

    def data(self, fit: Fit, rows: Rows) -> Any:
        """These rows of X; cells that are missing come from the fit."""
        if self.table.in_file:
            return np.stack([self.table.X[int(row)] for row in rows])
        X = self.table.X if rows is self.basis and len(rows) == self.shape[0] else self.table.X[rows]
        return completed(X, fit.Z[rows], fit.V) if self.missing else X


def examine(model: Any, table: Table, Z: Any, yardstick: Any, random_state: Any) -> Case:
    """Check that everything belongs together, fit the yardstick where none is given, and draw the rows."""
    fit = _fit(model, table, Z)
    missing = 0 if table.in_file else int(np.isnan(_entries(table.X)).sum())
    if missing and not fit.rebuilds:
        raise ValueError(
            f"X has {missing} missing cells, and {fit.name} has no components to complete them: fill them before the "
            "fit, or report a method that rebuilds X."
        )
    rng = check_random_state(random_state)
    n, k = fit.Z.shape
    order = rng.permutation(n)
    near, shown, basis = (
        np.sort(order[:most]) for most in (NEAR, min(SHOWN, max(500, CELLS // k)), n if _light(table) else NEAR)
    )
    pairs = _pairs(basis, rng)
    if yardstick is None:
        yardstick = fit_yardstick(model, table, random_state=random_state)
    return Case(table, fit, _beside(fit, table, yardstick), missing, near, shown, basis, pairs)


def fit_yardstick(model: Any, table: Table, *, random_state: Any = 0) -> Yardstick | None:
    """Plain NMF of the same data: the same rank and seed, and the same iterations and tolerance.

    Parameters
    ----------
    model : fitted estimator
        What it is the yardstick of. Its seed is taken where that is a number.
    table : Table
        The data.
    random_state : int, RandomState or None, default=0
        The seed where the model has none.

    Returns
    -------
    (NMF, ndarray of shape (n_samples, n_components)) or None
        The fitted model and its codes; None where `model` is plain NMF itself or X has numbers below zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report.case import fit_yardstick
    >>> X = np.random.default_rng(0).random((20, 4))
    >>> table = Table(X, np.array(list("abcd")), np.arange(20).astype(str))
    >>> fit_yardstick(DSPNMF(2, random_state=0).fit(X), table)[1].shape
    (20, 2)
    """
    if isinstance(model, NMF) or not (table.in_file or np.nanmin(_entries(table.X), initial=0.0) >= 0):
        return None
    given, known = model.get_params(deep=False), NMF().get_params()
    alike = {name: given[name] for name in _ALIKE if name in given and name in known}
    seed = given.get("random_state")
    seed = seed if isinstance(seed, int | np.integer) else random_state
    rank = len(model.components_) if hasattr(model, "components_") else model.n_components
    plain = NMF(n_components=rank, random_state=seed, **alike)
    with warnings.catch_warnings():  # the page says whether it converged
        warnings.simplefilter("ignore", ConvergenceWarning)
        return plain, plain.fit_transform(table.X)


def completed(X: Any, Z: Array, V: Any) -> Any:
    """X with ZV where a cell is missing."""
    if sparse.issparse(X):
        X = sparse.coo_array(X)
        (gaps,) = np.nonzero(np.isnan(X.data))
        data = X.data.copy()
        data[gaps] = np.einsum("ij,ij->i", Z[X.row[gaps]], V[:, X.col[gaps]].T)
        return sparse.csr_array((data, (X.row, X.col)), shape=X.shape)
    X = np.array(X)
    row, col = np.nonzero(np.isnan(X))
    X[row, col] = np.einsum("ij,ij->i", Z[row], V[:, col].T)
    return X


def _entries(X: Any) -> Array:
    """The numbers of X that are stored."""
    return np.asarray(X.data if sparse.issparse(X) else X)


def _fit(model: Any, table: Table, Z: Any, label: str = "{}") -> Fit:
    """A fit whose shapes belong to the table's."""
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


def _beside(fit: Fit, table: Table, yardstick: Any) -> Fit | None:
    """The yardstick as a fit of its own, if there is one."""
    if yardstick is None or yardstick is False:
        return None
    model, codes = yardstick if isinstance(yardstick, tuple) else (yardstick, yardstick.transform(table.X))
    other = _fit(model, table, codes, "plain {}")
    if other.Z.shape != fit.Z.shape:
        raise ValueError(
            f"The yardstick has rank {other.Z.shape[1]}, but {fit.name} has {fit.Z.shape[1]}: give one of the same "
            "rank, or None to have it fitted."
        )
    return other


def _light(table: Table) -> bool:
    """Whether the structure of all rows takes moments: n m min(n, m) multiplications, fewer where X is sparse."""
    X = table.X
    if table.in_file:
        return False
    if not sparse.issparse(X):
        return float(X.shape[0]) * X.shape[1] * min(X.shape) <= WORK
    per_row, per_column = (np.bincount(at).astype(np.float64) for at in X.nonzero())
    return _SPARSE * float(min(per_row @ per_row, per_column @ per_column)) <= WORK


def _pairs(rows: Rows, rng: np.random.RandomState) -> tuple[Rows, Rows]:
    """Pairs of different rows: all of them, or some drawn."""
    n = len(rows)
    if n * (n - 1) // 2 <= PAIRS:
        first, second = np.triu_indices(n, 1)
    else:
        first = rng.randint(n, size=PAIRS)
        second = (first + 1 + rng.randint(n - 1, size=PAIRS)) % n
    return rows[first], rows[second]
