"""The page of a fit in one call, from what people have: a fitted model, its data, and names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dspnmf._typing import ArrayLike
from dspnmf.anndata import fitted
from dspnmf.backends.memory import on_host
from dspnmf.estimators.base import Factorization
from dspnmf.estimators.npe import NPE
from dspnmf.io import Table
from dspnmf.report.fit_measurements import Baseline, RandomState
from dspnmf.report.fit_page import write_fit_report
from dspnmf.selection import ConsensusNMF

Names = Sequence[object] | NDArray[Any] | None


def report(
    model: BaseEstimator,
    X: ArrayLike,
    *,
    path: str | os.PathLike[str] = "report.html",
    feature_names: Names = None,
    sample_names: Names = None,
    labels: ArrayLike | Mapping[str, ArrayLike] = None,
    Z: ArrayLike = None,
    picture: tuple[int, int] | None = None,
    grid: tuple[int, int] | None = None,
    baseline: Baseline = None,
    title: str | None = None,
    settings: Mapping[str, str] | None = None,
    random_state: RandomState = 0,
) -> Path:
    """Write the page of a fit: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    model : fitted estimator
        Any of the family; a pipeline with one in it; a `DSPNMFCV` or a ``GridSearchCV``, whose best estimator is taken.
    X : {array-like, sparse matrix, data frame, tensor, memory map} of shape (n_samples, n_features), or AnnData
        The data, as they were passed to ``model.fit``, or to `dspnmf.anndata.fit`.
    path : path, default="report.html"
        The file that is written; one of that name is replaced.
    feature_names, sample_names : sequence, optional
        By default the columns and the index of a data frame, or numbers. Names that are numbers in an order
        (wavelengths) make components spectra.
    labels : array-like of shape (n_samples,), or data frame or dict of several, optional
        What samples can be coloured by; the first of them is shown first. They take no part in any number. Of an
        AnnData object also names of columns of ``obs``.
    Z : array-like of shape (n_samples, n_components), optional
        The codes, as ``fit_transform`` returned them; by default ``model.transform(X)``.
    picture : (height, width), optional
        Shape of the pictures, where samples are pictures.
    grid : (height, width), optional
        The grid the samples lie on, line by line, where they are pixels of a scene.
    baseline : fitted NMF, (fitted NMF, its codes), False or None, default=None
        Plain NMF to compare with. None: it is fitted; False: none.
    title : str, optional
        By default the method and its rank.
    settings : mapping of str to str, optional
        Shown at the end of the page as they are.
    random_state : int, RandomState or None, default=0
        Seed of the baseline where the model has none, and of the rows that are drawn where there are many.

    Returns
    -------
    path : Path
        The file.

    See Also
    --------
    fit_facts : the numbers of the page.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.report import report
    >>> iris = load_iris(as_frame=True)
    >>> model = DSPNMF(3, random_state=0).fit(iris.data)
    >>> with TemporaryDirectory() as folder:
    ...     page = report(model, iris.data, labels=iris.target_names[iris.target], path=Path(folder) / "iris.html")
    ...     print(page.name, page.stat().st_size > 50_000)
    iris.html True
    """
    if type(X).__name__ == "AnnData":
        cells = fitted(X, model)
        feature_names = cells.genes if feature_names is None else feature_names
        sample_names = list(X.obs_names) if sample_names is None else sample_names
        labels, Z, X = _columns_of(X.obs, labels), cells.codes if Z is None else Z, cells.X
    while hasattr(model, "best_estimator_"):  # of a search, of a search in a search
        model = model.best_estimator_
    steps, factors = _factorization(model)
    check_is_fitted(factors)
    features, samples, index_name = _names_of(X)
    for step in steps:
        X = step.transform(X)
    values = _values(X)
    codes = _codes(factors, X if hasattr(X, "columns") else values) if Z is None else Z
    features = (
        features if features is not None and len(features) == values.shape[1] else _made_by(steps, values.shape[1])
    )
    columns, path = _columns(labels), Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}: create it, or choose another path.")
    table = Table(
        X=values,
        features=_texts(features if feature_names is None else feature_names),
        index=_texts(samples if sample_names is None else sample_names),
        index_name=index_name,
        columns=columns,
        label=next(iter(columns), None),
        picture=picture,
        grid=grid,
    )
    options = {"baseline": baseline, "title": title, "settings": settings, "random_state": random_state}
    write_fit_report(factors, table, _on_host(codes), path, **options)
    return path


def _factorization(model: BaseEstimator) -> tuple[list[Any], BaseEstimator]:
    """The step of a pipeline that factorizes, and the steps before it."""
    named = model.steps if isinstance(model, Pipeline) else [("", model)]
    steps = [step for _, step in named if not (step is None or isinstance(step, str))]
    for at, step in reversed(list(enumerate(steps))):
        step = getattr(step, "best_estimator_", step)
        if isinstance(step, Factorization | NPE | ConsensusNMF):
            return steps[:at], step
    kinds = [type(step) for step in steps]
    found = ", ".join(f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in kinds)
    raise TypeError(f"model is {found}, which is not an estimator of dspnmf: pass DSPNMF, NMF or another of them.")


def _names_of(X: ArrayLike) -> tuple[Names, Names, str]:
    """Names of features and samples of a data frame, and what its index is called; numbers for other arrays."""
    shape = np.shape(X) if not hasattr(X, "shape") else X.shape
    if len(shape) != 2:
        raise ValueError(f"X has shape {tuple(shape)}, but a report needs samples x features.")
    columns: Any = getattr(X, "columns", None)
    index: Any = getattr(X, "index", None)
    numbered = index is None or callable(index) or type(index).__name__ == "RangeIndex"
    return (
        None if columns is None else list(columns),
        np.arange(shape[0]) if numbered else list(index),
        "" if numbered else str(getattr(index, "name", "") or ""),
    )


def _values(X: ArrayLike) -> Any:
    """The numbers of X: as float32 or float64 in memory, or as they are in their file."""
    module = type(X).__module__.split(".")[0]
    if module == "dask":
        raise TypeError("X is a Dask array or data frame: pass X.compute(), or some of its rows.")
    if isinstance(X, np.memmap) or module in ("zarr", "h5py"):
        return X
    X = X.to_numpy() if hasattr(X, "to_numpy") else X if sparse.issparse(X) else _on_host(X)
    if X.dtype.kind not in "fiub":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X has values that are not numbers ({error}): pass the columns the model was fitted on, and others as "
                "labels."
            ) from error
    X = X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
    return sparse.csr_array(X) if sparse.issparse(X) else X


def _on_host(values: ArrayLike) -> NDArray[Any]:
    """A NumPy array of a list, a data frame, or a tensor."""
    return on_host(values) if type(values).__module__.split(".")[0] in ("torch", "cupy") else np.asarray(values)


def _made_by(steps: list[Any], m: int) -> Names:
    """Names of features after the steps before the factorization, or their numbers."""
    if steps and hasattr(steps[-1], "get_feature_names_out"):
        try:
            names = list(steps[-1].get_feature_names_out())
        except (TypeError, ValueError, AttributeError):  # steps that do not know the names they were fitted on
            names = []
        if len(names) == m:
            return names
    return np.arange(m)


def _codes(model: BaseEstimator, X: Any) -> ArrayLike:
    """The codes of X."""
    if not hasattr(model, "transform") or type(model).__name__ == "SymNMF":
        raise ValueError(f"{type(model).__name__} has no transform: pass Z=, the codes that fit_transform returned.")
    return model.transform(X)


def _columns(labels: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """Labels by their name."""
    if labels is None:
        return {}
    if hasattr(labels, "columns"):
        labels = {name: labels[name] for name in labels.columns}
    named = labels if isinstance(labels, Mapping) else {str(getattr(labels, "name", None) or "label"): labels}
    found = {str(name): _on_host(values) for name, values in named.items()}
    for name, values in found.items():
        if values.ndim != 1:
            raise ValueError(
                f"labels have shape {values.shape}, but must be one for each sample: pass several as a data frame or a "
                f"dict of columns, such as {{'first': labels[:, 0]}}."
                if name == "label"
                else f"labels[{name!r}] has shape {values.shape}, but must be one for each sample."
            )
    return found


def _columns_of(obs: Any, labels: Any) -> Any:
    """Labels that are named by columns of the cells."""
    names = [labels] if isinstance(labels, str) else list(labels) if isinstance(labels, list | tuple) else []
    if (
        not names
        or not all(isinstance(name, str) for name in names)
        or (len(names) == len(obs) and names[0] not in obs)
    ):
        return labels
    if absent := [name for name in names if name not in obs]:
        raise ValueError(f"labels={absent[0]!r} is not a column of adata.obs, which has {', '.join(obs) or 'none'}.")
    return {name: np.asarray(obs[name]) for name in names}


def _texts(names: Names) -> NDArray[Any]:
    """Names as texts."""
    return np.array([str(name) for name in (() if names is None else names)], dtype=object)
