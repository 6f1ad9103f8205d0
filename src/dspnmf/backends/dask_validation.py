"""Checks of what users bring as Dask arrays, and warnings of what it costs."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.exceptions import EfficiencyWarning

from dspnmf._validation import users_frame


def check_dask(name: str, X: Any) -> None:
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


def check_no_codes_path(path: Any) -> None:
    """Codes of a Dask array are written by Dask, chunk by chunk, where the chunks are."""
    if path is not None:
        raise ValueError(
            f"codes={str(path)!r} is for files, but X is a Dask array, whose codes are one too: leave it out, and "
            "write what fit_transform or transform returns with its to_zarr(path)."
        )


def check_not_empty(name: str, shape: tuple[int, int]) -> None:
    """Something to fit."""
    if not min(shape):
        what = "sample(s)" if shape[0] == 0 else "feature(s)"
        raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required by {name}.")


def warn_column_chunks(X: Any) -> None:
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
