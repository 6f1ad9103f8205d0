"""Single cells: fits of AnnData objects, with codes and components where single-cell tools look for them.

`fit` takes cells x genes from ``adata.X`` or a layer, in memory or backed by a file, and writes

- ``adata.obsm["X_dspnmf"]``: codes, cells x components, for ``scanpy.pp.neighbors(adata, use_rep="X_dspnmf")``;
- ``adata.varm["dspnmf"]``: components, genes x components; 0 for genes that took no part;
- ``adata.uns["dspnmf"]``: which genes took part, and what was fitted how.

Nothing here imports anndata: whoever has an AnnData object has it already (``pip install "dspnmf[anndata]"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf._typing import Array, Matrix
from dspnmf.estimators import DSPNMF
from dspnmf.metrics import explained_share

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["fit", "top_genes"]

AnnData: TypeAlias = Any
Mask: TypeAlias = NDArray[np.bool_]
_BLOCK = 2**24  # numbers of X at once
_IN_FILE = 2**30  # bytes from which all genes of a dense matrix on disk stay there, and are read in blocks by the fit
_WITHOUT_COMPONENTS = ("SymNMF",)
_ROUNDING = 1e-12  # share of a squared mean below which a variance is rounding


def fit(
    adata: AnnData,
    model: BaseEstimator | None = None,
    *,
    layer: str | None = None,
    genes: str | Sequence[str] | NDArray[np.bool_] | None = None,
    n_top_genes: int | None = None,
    normalize_total: bool = False,
    key_added: str = "dspnmf",
) -> BaseEstimator:
    """Factorize cells x genes, and write codes and components into the AnnData object.

    Parameters
    ----------
    adata : AnnData
        Cells x genes, non-negative: counts, or counts scaled and logarithmised. Dense or sparse (which stays sparse);
        of a backed object, only the genes that take part are read into memory, block by block.
    model : estimator, optional
        What is fitted: any of the family, or a `dspnmf.DSPNMFCV`. By default ``DSPNMF(n_components=10,
        random_state=0)``.
    layer : str, optional
        Which of ``adata.layers`` to take; by default ``adata.X``.
    genes : str, list of str, or boolean array of shape (n_vars,), optional
        Which genes take part: a boolean column of ``adata.var``, such as "highly_variable", or names of genes, or a
        mask.
    n_top_genes : int, optional
        Take that many of these genes: those whose variance (after `normalize_total`) is largest compared with that of
        most genes of their mean, ``c mean + d mean^2`` (a negative binomial), with c and d from medians over the genes.
    normalize_total : bool, default=False
        Divide each cell by its total over all genes, times the median total: then depth of sequencing is not a
        difference between cells. For counts. The matrix in `adata` is left as it is.
    key_added : str, default="dspnmf"
        Results are written to ``obsm["X_" + key_added]``, ``varm[key_added]`` and ``uns[key_added]``.

    Returns
    -------
    model : estimator
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> import dspnmf
    >>> counts = np.random.default_rng(0).poisson(2.0, size=(60, 30)).astype(np.float32)
    >>> adata = AnnData(counts)
    >>> model = dspnmf.anndata.fit(adata, dspnmf.DSPNMF(3, random_state=0), normalize_total=True)
    >>> adata.obsm["X_dspnmf"].shape, adata.varm["dspnmf"].shape
    ((60, 3), (30, 3))
    """
    _check_anndata(adata)
    model = DSPNMF(n_components=10, random_state=0) if model is None else model
    if not hasattr(model, "fit_transform"):
        raise TypeError(f"model={model!r} is not an estimator: pass for example dspnmf.DSPNMF(n_components=10).")
    if type(model).__name__ in _WITHOUT_COMPONENTS:
        raise ValueError(f"{type(model).__name__} has no components that genes could weigh in: use DSPNMF or NMF.")
    A, mask = _matrix(adata, layer), _mask(adata, genes)
    if 0 in adata.shape:
        raise ValueError(f"adata has {adata.n_obs} cells and {adata.n_vars} genes: there is nothing to fit.")
    if n_top_genes is not None and not (isinstance(n_top_genes, int | np.integer) and 1 <= n_top_genes <= mask.sum()):
        raise ValueError(f"n_top_genes={n_top_genes!r} is not possible: pass a whole number from 1 to {mask.sum()}.")
    totals = _totals(A, layer) if normalize_total else None
    if n_top_genes is not None:
        mask = _most_variable(A, mask, totals, n_top_genes)
    X = _selected(A, mask, totals)
    smallest = X.data.min(initial=0) if sparse.issparse(X) else X.min() if isinstance(X, np.ndarray) else 0
    if smallest < 0:
        raise ValueError(
            f"{_called(layer)} has negative values (down to {smallest:.3g}), as after centring or scanpy.pp.scale: "
            f"pass counts or their logarithms, such as layer='counts'. This object has {_layers(adata)}."
        )
    Z = np.asarray(model.fit_transform(X))
    adata.obsm[f"X_{key_added}"] = Z
    weights = np.zeros((adata.n_vars, Z.shape[1]), dtype=Z.dtype)
    weights[mask] = np.asarray(model.components_).T
    adata.varm[key_added] = weights
    settings = {"layer": layer, "n_top_genes": n_top_genes, "normalize_total": normalize_total}
    adata.uns[key_added] = {
        "method": type(model).__name__,
        "params": _plain({**model.get_params(deep=False), **settings}),
        "genes": np.asarray(adata.var_names[mask], dtype=str),
        "explained": explained_share(X, Z, model.components_),
        **_plain({"n_iter": getattr(model, "n_iter_", None), "objective": getattr(model, "objective_", None)}),
    }
    return model


class Fitted(NamedTuple):
    """What a model was fitted on, and its codes."""

    X: Any
    genes: NDArray[np.str_]
    codes: Array


def fitted(adata: AnnData, model: BaseEstimator) -> Fitted:
    """What `fit` gave to this model, made again from the object and what `fit` wrote into it."""
    _check_anndata(adata)
    components = getattr(model, "components_", np.empty((0, 0)))
    for key, about in adata.uns.items():
        if not isinstance(about, Mapping) or not {"genes", "params"} <= about.keys() or key not in adata.varm:
            continue
        names = np.asarray(about["genes"], dtype=str)
        mask = np.isin(np.asarray(adata.var_names, dtype=str), names)
        if not np.array_equal(np.asarray(adata.varm[key])[mask].T, components):
            continue
        given = about["params"]
        A = _matrix(adata, layer := given.get("layer"))
        totals = _totals(A, layer) if given["normalize_total"] else None
        return Fitted(_selected(A, mask, totals), names, np.asarray(adata.obsm[f"X_{key}"]))
    raise ValueError(
        f"This {type(model).__name__} was not fitted on adata: fit it with dspnmf.anndata.fit(adata, model), which "
        "also chooses genes and scales cells."
    )


def top_genes(adata: AnnData, n: int = 10, *, key: str = "dspnmf") -> pd.DataFrame:
    """The genes of the largest weight in each component, as a table with a column for each component.

    Weights are compared after division by the gene's total over all components, times its weight: a gene that is high
    in every component says little about any.

    Parameters
    ----------
    adata : AnnData
        An object that `fit` has written to.
    n : int, default=10
        Number of genes for each component.
    key : str, default="dspnmf"
        The `key_added` of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> import dspnmf
    >>> adata = AnnData(np.kron(np.eye(2), np.ones((5, 3))))
    >>> adata.var_names = list("abcxyz")
    >>> _ = dspnmf.anndata.fit(adata, dspnmf.DSPNMF(2, random_state=0))
    >>> sorted(sorted(dspnmf.anndata.top_genes(adata, 3)[name]) for name in ("component_1", "component_2"))
    [['a', 'b', 'c'], ['x', 'y', 'z']]
    """
    import pandas as pd

    _check_anndata(adata)
    if key not in adata.varm:
        raise ValueError(f"varm has no {key!r}: fit first with dspnmf.anndata.fit(adata, ..., key_added={key!r}).")
    weights = np.asarray(adata.varm[key], dtype=np.float64)
    weights = weights / np.where(weights.any(axis=0), weights.max(axis=0), 1)  # units of components are arbitrary
    totals = weights.sum(axis=1, keepdims=True)
    scores = weights**2 / np.where(totals > 0, totals, 1)
    order = np.argsort(-scores, axis=0, kind="stable")[: max(n, 0)]
    names = np.asarray(adata.var_names, dtype=str)
    return pd.DataFrame({f"component_{a + 1}": names[order[:, a]] for a in range(weights.shape[1])})


def _check_anndata(adata: AnnData) -> None:
    """An AnnData object, and nothing else."""
    if type(adata).__name__ != "AnnData":
        raise TypeError(
            f"adata is a {type(adata).__name__}, but must be an AnnData object: arrays and data frames go to the "
            "estimators themselves, as DSPNMF().fit_transform(X)."
        )


def _called(layer: str | None) -> str:
    """The matrix in words."""
    return "adata.X" if layer is None else f"layer {layer!r}"


def _layers(adata: AnnData) -> str:
    """The layers of an object in words."""
    return f"the layers {', '.join(map(repr, adata.layers))}" if len(adata.layers) else "no layers"


def _matrix(adata: AnnData, layer: str | None) -> Any:
    """The matrix that is asked for: in memory, or as it is on disk."""
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"There is no layer {layer!r}: this object has {_layers(adata)}.")
    A = adata.X if layer is None else adata.layers[layer]
    if A is None:
        raise ValueError(f"adata.X is empty: pass a layer. This object has {_layers(adata)}.")
    if hasattr(A, "to_memory"):  # sparse, on disk: its rows can be read block by block only where it is stored by rows
        return A if A.format == "csr" else A.to_memory().tocsr()
    if type(A).__module__.split(".")[0] == "dask":
        raise TypeError(f"{_called(layer)} is a Dask array: load it with adata.to_memory().")
    return A.tocsr() if sparse.issparse(A) else A if type(A).__module__.split(".")[0] == "h5py" else np.asarray(A)


def _mask(adata: AnnData, genes: str | Sequence[str] | NDArray[np.bool_] | None) -> Mask:
    """Which genes take part."""
    if genes is None:
        return np.ones(adata.n_vars, dtype=bool)
    if isinstance(genes, str) and genes not in adata.var:
        close = get_close_matches(genes, list(adata.var), 1)
        hint = f"did you mean {close[0]!r}?" if close else f"its columns are {', '.join(adata.var) or 'none'}."
        raise ValueError(f"adata.var has no column {genes!r}: {hint}")
    mask = np.asarray(adata.var[genes] if isinstance(genes, str) else genes)
    if mask.dtype.kind in "UO" and not isinstance(genes, str) and mask.ndim == 1:
        return _named(adata, [str(name) for name in mask])
    if mask.shape != (adata.n_vars,) or mask.dtype != bool or not mask.any():
        raise ValueError(
            f"genes must be names of genes, or True or False for each of the {adata.n_vars} genes and True for "
            f"some: got {mask.dtype} of shape {mask.shape} with {np.count_nonzero(mask)} that count."
        )
    return mask


def _named(adata: AnnData, names: list[str]) -> Mask:
    """The genes of these names."""
    known = np.asarray(adata.var_names, dtype=str)
    if absent := sorted(set(names) - set(known)):
        close = get_close_matches(absent[0], known.tolist(), 1)
        hint = f"did you mean {close[0]!r}?" if close else f"adata.var_names begins with {', '.join(known[:3])}."
        more = f" (and {len(absent) - 1} more of those you named)" if len(absent) > 1 else ""
        raise ValueError(f"There is no gene {absent[0]!r}{more}: {hint}")
    return np.isin(known, names)


def _blocks(A: Any, totals: Array | None) -> Iterator[Matrix]:
    """Blocks of rows of A, in memory, as float32 or float64, each row divided by its total if asked for."""
    rows: Any
    n, m = A.shape
    step = max(1, _BLOCK // m)
    for begin in range(0, n, step):
        rows = A[begin : begin + step]
        rows = sparse.csr_array(rows) if sparse.issparse(rows) else np.asarray(rows)
        rows = rows.astype(np.float32 if rows.dtype == np.float32 else np.float64, copy=False)
        if totals is not None:
            factors = (1.0 / totals[begin : begin + step]).astype(rows.dtype)
            rows = (
                sparse.csr_array(rows.multiply(factors[:, None])) if sparse.issparse(rows) else rows * factors[:, None]
            )
        yield rows


def _totals(A: Any, layer: str | None) -> Array:
    """What each cell is divided by: its total, over the median of those that are not 0."""
    totals = np.concatenate([np.asarray(rows.sum(axis=1), dtype=np.float64).ravel() for rows in _blocks(A, None)])
    if not (totals >= 0).all() or not totals.any():
        raise ValueError(
            f"normalize_total=True needs counts: in {_called(layer)} the totals of cells are all 0, or some are "
            "negative."
        )
    totals[totals == 0] = 1.0  # an empty cell stays empty
    return np.asarray(totals / np.median(totals))


def _most_variable(A: Any, mask: Mask, totals: Array | None, count: int) -> Mask:
    """Of the genes of the mask, those whose variance is largest compared with ``c mean + d mean^2``.

    That is the variance of counts with noise of measurement (c) and the same relative variation in every gene (d). Both
    are medians: c of variance / mean over the genes of small means, d of what is left over those of large means.
    """
    sums = squares = np.zeros(A.shape[1])
    rows: Any
    for rows in _blocks(A, totals):
        sums = sums + np.asarray(rows.sum(axis=0), dtype=np.float64).ravel()
        squared = rows.multiply(rows) if sparse.issparse(rows) else np.square(rows)
        squares = squares + np.asarray(squared.sum(axis=0), dtype=np.float64).ravel()
    mean = sums / A.shape[0]
    variance = squares / A.shape[0] - mean**2
    used = np.flatnonzero(mask & (variance > _ROUNDING * mean**2) & (mean > 0))
    scores = np.full(A.shape[1], -np.inf)
    if len(used):
        m, v = mean[used], variance[used]
        c = np.median((v / m)[m <= np.median(m)])
        d = max(float(np.median(((v - c * m) / m**2)[m >= np.median(m)])), 0.0)
        scores[used] = v / (c * m + d * m**2)
    best = np.argsort(np.where(mask, -scores, np.inf), kind="stable")[:count]
    chosen = np.zeros(A.shape[1], dtype=bool)
    chosen[best] = True
    return chosen


def _selected(A: Any, mask: Mask, totals: Array | None) -> Any:
    """The matrix that is fitted; a large dense one on disk stays there where all of it is asked for."""
    in_memory = isinstance(A, np.ndarray) or sparse.issparse(A)
    if mask.all() and totals is None and (in_memory or getattr(A, "nbytes", 0) > _IN_FILE):
        return A
    blocks = [rows[:, mask] for rows in _blocks(A, totals)]
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a .h5ad file can hold: numbers, texts and flags; others as texts, and what is None left out."""
    simple = (bool, int, float, str)
    found = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return {name: v if isinstance(v, simple) else str(v) for name, v in found.items() if v is not None}
