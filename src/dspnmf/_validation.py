"""Checks of input and parameters, before any work starts; every message a user can see is written here.

A message says what was wrong, the value received, what is allowed, and the fix.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, EfficiencyWarning
from sklearn.utils.validation import column_or_1d, validate_data

from dspnmf._option_words import in_python
from dspnmf._typing import Array, ArrayLike

if TYPE_CHECKING:
    from dspnmf.backends.protocol import Backend, Capability

Estimator: TypeAlias = Any  # of this package, or of scikit-learn


class ParameterError(ValueError):
    """A value that a parameter may not have; `parameter` is its name.

    `template` is the message with options that the command line shows in its own words, without the fix `in_code`.
    """

    def __init__(self, message: str, parameter: str = "", in_code: str = "") -> None:
        super().__init__(in_python(message) + f" {in_code}" * bool(in_code))
        self.parameter = parameter
        self.template = message


class Allowed(NamedTuple):
    """What a parameter may be: a test, and the same in words."""

    test: Callable[[Any], bool]
    words: str


FLAG = Allowed(lambda value: isinstance(value, bool | np.bool_), "True or False")


def one_of(*names: str) -> Allowed:
    """One of a few words."""
    return Allowed(lambda value: isinstance(value, str) and value in names, "one of " + ", ".join(map(repr, names)))


def whole(low: int) -> Allowed:
    """A whole number not below `low`."""
    words = f"a whole number >= {low}"
    return Allowed(lambda value: isinstance(value, Integral) and not FLAG.test(value) and int(value) >= low, words)


def number(low: float, *, strict: bool = False) -> Allowed:
    """A finite number not below `low` (or above it)."""

    def test(value: object) -> bool:
        if not isinstance(value, Real) or FLAG.test(value):
            return False
        return low < float(value) < np.inf or (not strict and float(value) == low)

    return Allowed(test, f"a finite number {'>' if strict else '>='} {low:g}")


def either(*choices: Allowed) -> Allowed:
    """Any of several."""
    return Allowed(lambda value: any(c.test(value) for c in choices), " or ".join(c.words for c in choices))


MATRIX = Allowed(
    lambda value: sparse.issparse(value) or isinstance(value, np.ndarray), "a matrix (n_samples, n_samples)"
)
NONE = Allowed(lambda value: value is None, "None")
AUTO_OR_COUNT = either(one_of("auto"), whole(1))


NO_TRANSFORM = (
    "SymNMF has no {name}: it factorizes the similarities among the fitted samples, and new samples have none. "
    "Use fit_transform on all samples, or DSPNMF(similarity=...) or GNMF, which also learn components."
)
DENSE_ONLY = 'FRNMF(solver="paper") needs X/(UV) in every cell: pass a dense X, or use solver="auto".'
NOT_SEMI_DEFINITE = (
    'solver="mm" is guaranteed for similarities that are positive semi-definite ("gram", "cosine"), which a graph is '
    'not: use solver="auto" with similarity={similarity!r}.'
)


DAMAGED_MODEL = (
    "This model holds a pull for {held} features, but the rows have {needed}: it is damaged or was changed by hand. "
    "Load it again, or fit it again."
)
NOTHING_KNOWN = "All {shape} cells of X are missing: there is nothing to learn from."
INCOMPLETE_ROWS = (
    'X has missing cells, and this similarity needs complete rows: use similarity="gram", or fill them '
    '(for example with NMF(missing="mask"): fit_transform, then inverse_transform).'
)
FILLS_UP = (
    "X is sparse, and averaging its rows over neighbours in diffusion_steps={steps} steps would fill {share:.0%} of "
    "its cells: that takes about {needed:.3g} GB, and at most {limit:.3g} GB (half of this machine's memory) are "
    "allowed. Use fewer steps, fewer features (for example the most frequent ones), or pass X.toarray(), for which the "
    "same takes {dense:.3g} GB."
)
CODES_ELSEWHERE = (
    "codes_path={path!r} asks for codes in a file, but X is {backend}, and so will the codes be: leave it out, "
    "and save what comes back."
)
TENSOR_LAYOUT = "X is a tensor with layout {layout}: pass a dense tensor, or X.to_sparse_csr()."
TENSOR_DTYPE = "X is a tensor of {dtype}, but codes need float32 or float64: pass X.float() or X.double()."
TENSOR_DEVICE = (
    "X is a tensor on {device}, where float64 sums are not to be had: move it with X.cpu(), or to a CUDA device."
)


def check_weights_finite(estimator: Estimator, name: str, weights: NDArray[Any]) -> None:
    """Weights of terms in the unit of X."""
    if not np.isfinite(weights).all():
        raise ParameterError(
            f"{name}={getattr(estimator, name)!r} times the square of the largest entry of X is not a finite number: "
            f"scale X (for example to [0, 1]) or choose a smaller {name}.",
            name,
        )


def check_ties(estimator: Estimator, name: str, value: object, known: tuple[str, ...]) -> None:
    """Transform of a graph method needs a graph that can be extended to new rows."""
    if not (isinstance(value, str) and value in known):
        shown = repr(value) if isinstance(value, str) else "a matrix"
        raise ValueError(
            f"{type(estimator).__name__} was fitted with {name}={shown}, which says nothing about new rows, so "
            f"transform is not defined: use the codes of fit_transform, or {name} = {' or '.join(map(repr, known))}."
        )


def check_parameters(estimator: Estimator) -> None:
    """Every parameter (a field of the estimator) against what it may be."""
    for name, allowed in ((one.name, one.metadata.get("allowed")) for one in fields(estimator)):
        value = getattr(estimator, name)
        if allowed is not None and not allowed.test(value):
            raise ParameterError(
                f"{name}={value!r} is not allowed in {type(estimator).__name__}: it must be {allowed.words}.",
                name,
                f"Set it with {type(estimator).__name__}({name}=...) or set_params({name}=...).",
            )


def check_labels_given(estimator: Estimator, y: ArrayLike) -> None:
    """Labels that have a weight must be there."""
    weight = getattr(estimator, "label_weight", 0)
    if weight > 0 and y is None:
        name = type(estimator).__name__
        without = "use GNMF, which is the same without labels" if name == "GDNMF" else "leave label_weight at 0"
        raise ParameterError(
            f"{name} with label_weight={weight!r} requires y to be passed, but the target y is None: pass a label for "
            f"every sample, -1 where it is unknown, or {without}.",
            "y",
        )


ZEROS = (
    "When beta_loss <= 0 and X contains zeros, the solver may diverge: beta_loss={loss!r}. Add a small value to X, or "
    'use a positive beta_loss such as "kullback-leibler".'
)
_NEEDED = {  # a capability -> what a fit needs that for (`dspnmf.backends.protocol.Capability`)
    "svd": "a singular value decomposition of X in memory",
    "graphs": "all of X in memory, to search neighbours",
    "features": "all of X in memory, to add columns to it",
    "missing": "all of X in memory, to complete its cells",
    "divergences": "rows whose errors can be measured by a divergence",
    "batches": "batches in memory",
    "whole matrix": "all of X in memory",
}
_INSTEAD = {  # a capability, or the parameter that asks for one -> what works without it
    "svd": 'use init="random"',
    "divergences": 'use beta_loss="frobenius"',
    "missing": 'leave it at "error"',
    "batches": "pass some of its rows at a time as an array, or use fit, which takes all of it where it is",
    "similarity": 'use similarity="gram"',
    "label_weight": "leave it at 0",
}


def check_backend(estimator: Estimator, backend: Backend, needs: Mapping[Capability, str]) -> None:
    """Whether the backend of X can do what a fit needs; `needs` says of each capability what asks for it."""
    for capability, asking in needs.items():
        if capability not in backend.capabilities:
            named = asking.split("=")[0]
            instead = _INSTEAD.get(capability, _INSTEAD.get(named, "use DSPNMF or NMF there"))
            raise ValueError(
                f"{asking} needs {_NEEDED.get(capability, capability)}, but X is {backend.name}: {instead}, or pass a "
                "NumPy array or a SciPy sparse matrix."
            )
    solver = getattr(estimator, "solver", "auto")
    if "whole matrix" not in backend.capabilities and solver not in ("auto", "cd", "mu", *backend.solvers):
        raise ValueError(
            f"solver={solver!r} does not work where X is {backend.name}: use one of "
            f"{', '.join(map(repr, ('auto', *backend.solvers)))}."
        )


def refuse_anndata(X: ArrayLike) -> None:
    """An AnnData object is more than a matrix: which of its layers, genes and scaling is meant must be said."""
    if type(X).__name__ == "AnnData":
        raise TypeError(
            "X is an AnnData object, which holds more than one matrix: use dspnmf.anndata.fit(adata, model), which "
            "writes codes and components into it, or pass a matrix of it, such as adata.X (cells x genes)."
        )


def check_features(estimator: Estimator, shape: tuple[int, ...], *, reset: bool) -> None:
    """The shape of an X that scikit-learn's own checks do not know: remember its width, or compare it."""
    name = type(estimator).__name__
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"X has shape {shape}, but {name} needs samples x features, at least one of each.")
    if reset:
        estimator.n_features_in_ = int(shape[1])
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {shape[1]} features, but {name} is expecting {estimator.n_features_in_} features as input."
        )


def check_data(estimator: Estimator, X: ArrayLike, *, reset: bool) -> tuple[Any, float]:
    """X as float32 or float64 (array or CSR), non-negative and finite; and its largest entry."""
    X = validate_data(
        estimator, X, reset=reset, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32], ensure_all_finite=False
    )
    if sparse.issparse(X):
        X = canonical(X)
    values = _values(X)
    if has_missing(estimator, X):
        values = values[~np.isnan(values)]
        if values.size == 0 and X.size == X.shape[0] * X.shape[1]:  # cells a sparse X does not store are known
            raise ValueError(NOTHING_KNOWN.format(shape=f"{X.shape[0]} x {X.shape[1]}"))
    if values.size == 0:
        return X, 0.0
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high < np.inf):
        raise ValueError(bad_cell(type(estimator).__name__, *first_bad_cell(X, skip=values.size < _values(X).size)))
    return X, high


def canonical(X: Any) -> Any:
    """A sparse matrix as CSR, columns of every row in order and once; X itself stays as it is."""
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _values(X: ArrayLike) -> NDArray[Any]:
    return X.data if sparse.issparse(X) else X


def takes_missing(estimator: Estimator) -> bool:
    """Whether the estimator takes NaN for a missing cell."""
    return getattr(estimator, "missing", "error") == "mask"


def has_missing(estimator: Estimator, X: ArrayLike) -> bool:
    """Whether cells of X are NaN, and the estimator takes that for missing."""
    return takes_missing(estimator) and bool(_values(X).size) and np.isnan(_values(X).min())


def first_bad_cell(X: ArrayLike, *, skip: bool = False) -> tuple[int, int, float]:
    """Row, column and value of the first cell that is negative, NaN (unless to be skipped) or infinite."""
    matrix = X.tocoo() if sparse.issparse(X) else X
    values = matrix.data if sparse.issparse(X) else matrix
    where = np.argwhere(~((values >= 0) & (values < np.inf)) & ~(skip & np.isnan(values)))[0]
    row, column = (matrix.row[where[0]], matrix.col[where[0]]) if sparse.issparse(X) else where
    return int(row), int(column), values[tuple(where)]


def bad_cell(name: str, row: int, column: int, value: float) -> str:
    """A cell that is negative, NaN or infinite, with the fix."""
    cell = f"X[{row}, {column}] = {value}"
    if np.isnan(value):
        return (
            f"Input X contains NaN, first at {cell}. {name} needs every value: fill or drop the cells (for example "
            'with sklearn.impute.SimpleImputer), or use DSPNMF or NMF with missing="mask".'
        )
    if np.isinf(value):
        return f"Input X contains infinity, first at {cell}. {name} needs finite values: clip or drop these cells."
    return (
        f"Negative values in data passed to {name}: first at {cell}, but all entries must be >= 0. "
        "Shift or rescale the features, for example with sklearn.preprocessing.MinMaxScaler(clip=True): without clip, "
        "new rows with values below those of the training rows become negative."
    )


def check_start(W: ArrayLike, H: ArrayLike, shape: tuple[int, int], k: int, largest: float) -> tuple[Array, Array]:
    """W (n x k) and H (k x m) for ``init="custom"``; for other inits neither may be given."""
    for name, factor, expected in (("W", W, (shape[0], k)), ("H", H, (k, shape[1]))):
        if factor is None:
            raise ValueError(
                f'{name}=None, but init="custom" needs both W and H: pass {name} with shape {expected}, '
                'or choose another init such as "random".'
            )
        factor = np.asarray(factor)
        if factor.shape != expected:
            raise ValueError(
                f"{name} has shape {factor.shape}, but with n_components={k} and X of shape {shape} "
                f"it must have shape {expected}."
            )
        check_factor(name, factor, expected, largest)
    return np.asarray(W), np.asarray(H)


def check_factor(name: str, factor: ArrayLike, expected: tuple[int | None, int], largest: float) -> None:
    """A non-negative factor that is given, of a shape (None: any number)."""
    factor = np.asarray(factor)
    if factor.ndim != 2 or not all(want in (None, size) for want, size in zip(expected, factor.shape, strict=True)):
        raise ValueError(f"{name} has shape {factor.shape}, but must have shape {expected} (None: any number).")
    if factor.dtype.kind not in "fiub" or not (np.isfinite(factor).all() and (factor >= 0).all()):
        raise ValueError(
            f"{name} (dtype {factor.dtype}) must hold finite numbers >= 0, it starts a non-negative factor: "
            "replace negative, NaN and infinite entries."
        )
    if not factor.any() and largest > 0:
        raise ValueError(
            f"{name} is all zeros, a stationary point no solver leaves: start from positive values instead."
        )


def check_precision(name: str, factor: ArrayLike, dtype: np.dtype[Any]) -> None:
    """A factor that is given in another precision than X, as scikit-learn refuses it."""
    found = getattr(factor, "dtype", None)
    if (
        factor is not None
        and str(found).removeprefix("torch.") in ("float16", "float32", "float64")
        and (str(found).removeprefix("torch.") != str(dtype))
    ):
        raise TypeError(
            f"{name} should have the same dtype as X, but {name} is {found} and X is {dtype}: pass "
            f"{name}.astype({str(dtype)!r})."
        )


def check_no_start(W: ArrayLike, H: ArrayLike, init: str) -> None:
    """W and H mean nothing unless ``init="custom"``."""
    if W is not None or H is not None:
        raise ValueError(
            f'W or H was given, but init={init!r} would ignore it: set init="custom", or leave W and H out.'
        )


def check_rank_for_svd(init: str, k: int, shape: tuple[int, int]) -> None:
    """The SVD has only min(n, m) pairs."""
    if k > min(shape):
        raise ParameterError(
            f"init={init!r} needs n_components <= min(n_samples, n_features) = {min(shape)}, but n_components={k}: "
            'use init="random" or fewer components.',
            "n_components",
        )


def check_codes(Z: ArrayLike, k: int) -> None:
    """Codes for inverse_transform have one column per component."""
    if len(Z.shape) != 2:
        raise ValueError(f"Expected 2D array, got {len(Z.shape)}D array instead: Z must have shape (n_samples, {k}).")
    if Z.shape[1] != k:
        raise ValueError(
            f"Z has {Z.shape[1]} columns, but this model has {k} components: "
            f"pass what transform returned, of shape (n_samples, {k})."
        )


def warn_not_converged(max_iter: int, tol: float, change: float) -> None:
    """Said only when it is true, with the number that says how far it is."""
    warnings.warn(
        f"Stopped after max_iter={max_iter} iterations while the objective still changed by {change:.1e} of its "
        f"value in the last one (tol={tol:.1e}). Increase max_iter, or raise tol if this is accurate enough.",
        ConvergenceWarning,
        stacklevel=users_frame(),
    )


def warn_unresolved(share: float) -> None:
    """Said where float32 codes cannot come closer, so that smaller objectives would be rounding."""
    warnings.warn(
        f"The objective is {max(share, 0.0):.1e} of the sums whose difference it is. float32 does not resolve that: "
        "its value is rounding error. Pass X.astype('float64'), or a smaller alpha.",
        RuntimeWarning,
        stacklevel=users_frame(),
    )


def users_frame() -> int:
    """How many calls up the first frame outside this package and scikit-learn is, for `warnings.warn` above."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("dspnmf", "sklearn"):
        level, frame = level + 1, frame.f_back
    return level


def check_labels(y: ArrayLike, n: int) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[np.intp]]:
    """Which rows have a label (not -1), the classes, and the class of every labelled row; None has no labels."""
    if y is None:
        return np.zeros(n, dtype=bool), np.empty(0), np.empty(0, dtype=np.intp)
    y = column_or_1d(y)
    if len(y) != n:
        raise ValueError(f"y has {len(y)} labels, but X has {n} rows: pass one label per row, -1 where it is unknown.")
    if any(_is_missing(label) for label in y) if y.dtype.kind == "O" else y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError("y has missing values: write -1 where a label is unknown.")
    labelled = y.astype(str) != "-1" if y.dtype.kind in "OUS" else y != -1
    try:
        classes, columns = np.unique(y[labelled], return_inverse=True)
    except TypeError as error:
        raise ValueError("y has labels of several types, which have no order: make all of them strings.") from error
    return labelled, classes, columns


def _is_missing(label: object) -> bool:
    """None, NaN, or the NA of a data frame, which is unlike itself or does not know."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


# -- Dask arrays ------------------------------------------------------------------------------------------------------


def check_dask(name: str, X: ArrayLike) -> None:
    """A Dask array of numbers, samples x features."""
    if not type(X).__module__.startswith("dask.array"):
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}, but {name} takes Dask arrays only: pass "
            "X.to_dask_array(lengths=True) for a data frame, dask.array.from_array or from_delayed otherwise."
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X has shape {X.shape}, but {name} needs samples x "
            "features. Use X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample."
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X has dtype {X.dtype}, but {name} needs real numbers: use X.astype(float).")


def check_no_codes_path(codes_path: Path | None) -> None:
    """Codes of a Dask array are written by Dask, chunk by chunk, where the chunks are."""
    if codes_path is not None:
        raise ValueError(
            f"codes_path={str(codes_path)!r} is for X in a file, but X is a Dask array, whose codes are a Dask array "
            "too: leave it out, and call to_zarr(path) of what fit_transform or transform returns."
        )


def check_not_empty(name: str, shape: tuple[int, int]) -> None:
    """Something to fit."""
    if not min(shape):
        what = "sample(s)" if shape[0] == 0 else "feature(s)"
        raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required by {name}.")


def warn_column_chunks(X: ArrayLike) -> None:
    """What it costs that chunks do not hold whole rows."""
    size = f"{X.nbytes / 1e9:.3g} GB" if X.nbytes == X.nbytes else "all of X"
    warnings.warn(
        f"X is split into {len(X.chunks[1])} chunks of columns, but a row must be in one chunk: X is rechunked, which "
        f"moves up to {size} between workers (on schedulers without a cluster: in every iteration). To avoid it, write "
        f"X in chunks of rows with all {X.shape[1]} features, or pass X.rechunk({{1: -1}}).persist().",
        EfficiencyWarning,
        stacklevel=users_frame(),
    )


def warn_unknown_chunks() -> None:
    """What it costs that nobody knows how many rows a chunk has."""
    warnings.warn(
        "X has chunks with unknown numbers of rows, which had to be counted (X.compute_chunk_sizes()): that computes "
        "X once more on schedulers without a cluster. To avoid it, pass lengths=True where the array was made.",
        EfficiencyWarning,
        stacklevel=users_frame(),
    )
