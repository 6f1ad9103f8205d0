"""||XX'||^2 = ||X'X||^2 of matrices in memory, in files and in chunks; X'X is formed in parts only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from dspnmf._threads import spread, team
from dspnmf._typing import Array, Matrix, Sparse

TILE = 1024  # width of a tile
HELD = 2**24  # numbers of X or of its Gram matrix held at once where X is read from a file


def gram_norm2(X: Matrix, scale: float = 1.0) -> float:
    """||XX' / scale^2||^2 = ||X'X / scale^2||^2, on the cheaper side."""
    tiles = sparse_tiles if sparse.issparse(X) else dense_tiles
    return float(sum(tiles(X, scale**2)))


def read_only(array: Array) -> Array:
    """A read-only view: one compiled signature serves writable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


def product(left: Array, right: Array) -> Array:
    """``left' right`` in float64, the rows split among the threads; for half the work where both are one array."""

    def task(lo: int, hi: int) -> Array:
        total = np.zeros((left.shape[1], right.shape[1]))
        for i in range(lo, hi, TILE):
            A = left[i : min(i + TILE, hi)].astype(np.float64)
            total += A.T @ (A if left is right else right[i : min(i + TILE, hi)].astype(np.float64))
        return total

    with team():
        return spread(task, len(left), 2.0 * left.size * right.shape[1], TILE)


def dense_tiles(X: Array, unit: float) -> Iterator[float]:
    """Squared norms of the tiles of X'X (or XX' where that is smaller); what lies below the diagonal counts twice."""
    A = X if X.shape[0] >= X.shape[1] else X.T
    for i in range(0, A.shape[1], TILE):
        for j in range(0, i + 1, TILE):
            left, right = A[:, i : i + TILE], A[:, j : j + TILE]
            tile = product(left, left if i == j else right) / unit
            yield (1 if i == j else 2) * float(np.vdot(tile, tile))


def sparse_tiles(X: Sparse, unit: float) -> Iterator[float]:
    """The same for sparse X, on the side with fewer multiplications."""
    per_row = np.diff(X.indptr).astype(np.float64)
    per_column = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
    A = X.astype(np.float64)
    if per_row @ per_row < per_column @ per_column:
        A = A.T.tocsr()
    other = A.T.tocsr()
    for i in range(0, A.shape[0], TILE):
        tile = (A[i : i + TILE] @ other).data / unit
        yield float(tile @ tile)


Slabs = Callable[[int], Iterator[tuple[int, Array]]]  # rows of X in their order, from one that begins a slab


def streamed(slabs: Slabs, shape: tuple[int, int], step: int, unit: float) -> float:
    """||XX'||^2 of rows that come in slabs of `step`, with as few reads as `HELD` allows; one where m^2 <= HELD."""
    n, m = shape
    width = max(1, HELD // m)  # columns of X'X, or rows of X
    if m * m > HELD and n < m:
        return _by_rows(slabs, shape, max(1, width // step) * step, unit)
    return sum(_by_columns(slabs, m, slice(i, min(i + width, m)), unit) for i in range(0, m, width))


def _by_columns(slabs: Slabs, m: int, some: slice, unit: float) -> float:
    """The part of the squared norm that some rows of X'X make, right of the diagonal twice."""
    height = some.stop - some.start
    G = np.zeros((height, m - some.start))
    for _, X in slabs(0):
        right = X[:, some.start :]
        G += product(right if height == right.shape[1] else X[:, some], right)
    G /= unit
    square, rest = G[:, :height].ravel(), G[:, height:].ravel()
    return float(square @ square) + 2 * float(rest @ rest)


def _by_rows(slabs: Slabs, shape: tuple[int, int], height: int, unit: float) -> float:
    """The squared norm of XX': some rows are held while those below them are read."""
    total = 0.0
    for first in range(0, shape[0], height):
        held = np.empty((min(height, shape[0] - first), shape[1]))
        for at, X in slabs(first):
            if at < first + height:
                held[at - first : at - first + len(X)] = X
            else:
                below = (held @ X.T / unit).ravel()
                total += 2 * float(below @ below)
        own = (held @ held.T / unit).ravel()
        total += float(own @ own)
    return total


def gram_stripe(X: Matrix, lo: int, hi: int, unit: float) -> Matrix:
    """Columns `lo` to `hi` of X'X, from row `lo` down, in float64; sparse where X is."""
    if sparse.issparse(X):
        A = sparse.csc_array(X, dtype=np.float64)
        return A[:, lo:].T @ A[:, lo:hi] / unit
    below, stripe = X[:, lo:], X[:, lo:hi]
    return product(below, below if below.shape == stripe.shape else stripe) / unit


def stripe_norm2(stripe: Matrix) -> float:
    """What a stripe contributes to ||X'X||^2: what lies below the diagonal block counts twice."""
    width, rows = stripe.shape[1], sparse.csr_array(stripe) if sparse.issparse(stripe) else stripe
    square, below = (np.ravel(part.data if sparse.issparse(part) else part) for part in (rows[:width], rows[width:]))
    return float(square @ square) + 2 * float(below @ below)
