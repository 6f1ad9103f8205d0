"""Similarity graphs of the rows of X (n x m, dense or SciPy sparse, float32 or float64), as float64 `csr_array`.

Common to all graphs: distances are Euclidean; a row is never its own neighbour, but its duplicates are, at distance
exactly 0. If more neighbours are asked for than there are other rows, all of them are taken; a single row has an empty
graph. Which of several equally distant rows is taken is left to the search. An edge of weight 0 (underflow, a cosine)
is not stored, so a row may be isolated. Seeds are fixed, no n x n array is formed, and of sparse X only a few rows are
made dense at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from sklearn.metrics import euclidean_distances, pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from dspnmf._typing import Array, ArrayLike, Matrix
from dspnmf._validation import Allowed, either, number, one_of, whole
from dspnmf.backends.chunk_facts import ordinary_unit

Indices = NDArray[np.intp]

_LARGE = 20_000  # rows above which an approximate search is worth its misses
_SAMPLE = 3_000  # rows whose mean distance stands for all, as in the published GNMF code
_SEARCHED = 2**29  # products of a search for neighbours before it can be interrupted
_SEARCHED_ROWS = 32  # rows it is done for at least at once
_BLOCK = 2**20  # numbers that are dense in float64 at once
_SCALE_NEIGHBOUR = 7  # Zelnik-Manor & Perona, NIPS 2004
_TREE_NEIGHBOURS = 10  # nearly every edge of the Euclidean minimum spanning tree is among them
_SYMMETRIC = 1e-8  # rounding of a similarity computed twice, relative to the largest entry
_PARAMETERS = {
    "n_neighbors": whole(1),
    "weights": one_of("binary", "heat", "cosine"),
    "t": either(Allowed(lambda t: t is None, "None"), number(0, strict=True)),
    "reg": number(0, strict=True),
}


def knn(X: ArrayLike, n_neighbors: int = 5, weights: str = "binary", t: float | None = None) -> sparse.csr_array:
    """Nearest-neighbour graph of GNMF: an edge where either row is among the other's `n_neighbors`, A = max(A, A').

    `weights`: "binary" (1), "heat" (``exp(-d^2 / (2 t^2))``, t by default `mean_distance`) or "cosine" (cosine of the
    two rows; 0 with a row of zeros). Above 20,000 dense rows neighbours are approximate if pynndescent is installed.

    >>> knn([[0.0], [1.0], [5.0]], n_neighbors=1).toarray()[1]
    array([1., 0., 1.])
    """
    unit, (X,) = _check_samples({"X": X}, n_neighbors=n_neighbors, weights=weights, t=t)
    t = None if t is None else t / unit
    found, lengths = _nearest_others(X, n_neighbors)
    A = _csr(found, _weights(X, X, found, lengths, weights, t), X.shape[0])
    return A.maximum(A.T)


def neighbours_in(
    X_new: ArrayLike, X_train: ArrayLike, n_neighbors: int = 5, weights: str = "binary", t: float | None = None
) -> sparse.csr_array:
    """Weights of `knn` from new rows to their nearest training rows, equal ones included; t is from the training rows.

    >>> neighbours_in([[4.0]], [[0.0], [1.0], [5.0]], n_neighbors=1).toarray()
    array([[0., 0., 1.]])
    """
    unit, (X, Y) = _check_samples({"X_new": X_new, "X_train": X_train}, n_neighbors=n_neighbors, weights=weights, t=t)
    t = None if t is None else t / unit
    found, lengths = _sorted_by_distance(X, Y, _nearest(X, Y, n_neighbors))
    return _csr(found, _weights(X, Y, found, lengths, weights, t), Y.shape[0])


def interpolation_in(X_new: ArrayLike, X_train: ArrayLike, n_neighbors: int = 10) -> sparse.csr_array:
    """Weights, of sum 1, that interpolate new rows from their nearest training rows: by 1 / distance^2.

    A row that equals training rows gets their mean, so what was learned of the training rows is found again.

    >>> interpolation_in([[3.0], [5.0]], [[0.0], [1.0], [5.0]], n_neighbors=2).toarray()
    array([[0. , 0.5, 0.5],
           [0. , 0. , 1. ]])
    """
    _, (X, Y) = _check_samples({"X_new": X_new, "X_train": X_train}, n_neighbors=n_neighbors)
    found, lengths = _sorted_by_distance(X, Y, _nearest(X, Y, n_neighbors))
    ratio = np.divide(lengths[:, :1], lengths, out=np.ones_like(lengths), where=lengths > 0) ** 2
    return _csr(found, ratio / ratio.sum(axis=1, keepdims=True), Y.shape[0])


def mean_distance(X: ArrayLike) -> float:
    """Mean distance over all n^2 pairs, i = j included, as in GNMF's code; above 3,000 rows that of 3,000 random rows.

    >>> mean_distance([[0.0], [2.0]])
    1.0
    """
    unit, (X,) = _check_samples({"X": X})
    X = X[np.sort(np.random.default_rng(0).permutation(X.shape[0])[:_SAMPLE])].astype(np.float64)
    if not sparse.issparse(X):
        X -= X.mean(axis=0)  # distances come from products, which lose a small spread around a large mean
    sums = pairwise_distances_chunked(X, reduce_func=lambda D, start: D.sum(axis=1), working_memory=16)
    return float(sum(part.sum() for part in sums)) / X.shape[0] ** 2 * unit


def self_tuned(X: ArrayLike, n_neighbors: int | None = None) -> sparse.csr_array:
    """Graph of SymNMF: ``exp(-d_ij^2 / (s_i s_j))``, s_i the distance to the 7th neighbour, then Deg^-1/2 A Deg^-1/2.

    Edges as in `knn`, by default for floor(log2 n) + 1 neighbours; below 8 rows s_i is the farthest row's distance. For
    s_i = 0 (7 duplicates or more) weights are the formula's limits: 1 to duplicates, 0 to others. Isolated rows stay 0.

    >>> self_tuned([[0.0], [1.0]]).toarray()[0]
    array([0., 1.])
    """
    _, (X,) = _check_samples({"X": X}, n_neighbors=1 if n_neighbors is None else n_neighbors)
    A = _self_tuned(X, int(X.shape[0]).bit_length() if n_neighbors is None else n_neighbors)
    return laplacian(A, normalized=True)[1]


def diffusion(X: ArrayLike, n_neighbors: int | None = None, mutual: bool = True) -> sparse.csr_array:
    """Weights R (n x n, rows of sum 1) with which a step of diffusion averages every row and its neighbours.

    R has the weights ``exp(-d_ij^2 / (s_i s_j))`` of `self_tuned` (before they are divided by degrees), 1 on the
    diagonal, and its rows are divided by their sums. By default `n_neighbors` is `diffusion_neighbors` of the number of
    rows. `mutual` keeps edges between rows that are both among the other's neighbours; a row without any keeps its own
    value.

    >>> diffusion([[0.0], [1.0]]).toarray()[0].round(3)
    array([0.731, 0.269])
    """
    _, (X,) = _check_samples({"X": X}, n_neighbors=1 if n_neighbors is None else n_neighbors)
    n = X.shape[0]
    A = _self_tuned(X, diffusion_neighbors(n) if n_neighbors is None else n_neighbors, mutual)
    A = A + sparse.eye_array(n, format="csr")
    return sparse.csr_array(sparse.diags_array(1 / np.asarray(A.sum(axis=1)).ravel()) @ A)


def diffusion_neighbors(n: int) -> int:
    """Neighbours with which `diffusion` averages n rows by default: 6 for 100 rows, 5 more for every ten times as many.

    The neighbours that keep a random graph connected grow with log n; in small sets as many reach across clusters.

    >>> [diffusion_neighbors(n) for n in (2, 100, 178, 1797, 70_000)]
    [1, 6, 7, 12, 20]
    """
    return max(1, len(str(n**5)) - 5)  # the whole part of 5 log10 n, less 4


def _self_tuned(X: Matrix, k: int, mutual: bool = False) -> sparse.csr_array:
    """The graph of `self_tuned`, of checked samples, before it is divided by degrees."""
    found, lengths = _nearest_others(X, max(k, _SCALE_NEIGHBOUR))
    s = np.sqrt(lengths[:, :_SCALE_NEIGHBOUR].max(axis=1, initial=0.0))
    A = _csr(found[:, :k], _gaussian(lengths[:, :k], s[:, None] * s[found[:, :k]]), X.shape[0])
    return sparse.csr_array(A.minimum(A.T) if mutual else A.maximum(A.T))


def spanning_tree(X: ArrayLike) -> sparse.csr_array:
    """Graph of NS-NMF: the edges of a minimum spanning tree, with weights ``exp(-d^2 / (2 t^2))``, t their mean length.

    Written from the description in the paper, as no code was published. The tree is that of the 10-nearest-neighbour
    graph, whose connected components are joined by their shortest edges. An edge longer than 38 t underflows to 0.

    >>> spanning_tree([[0.0], [1.0], [2.0]]).nnz
    4
    """
    _, (X,) = _check_samples({"X": X})
    shape = (X.shape[0], X.shape[0])
    found, lengths = _nearest_others(X, _TREE_NEIGHBOURS)
    pairs, lengths = np.stack([np.indices(found.shape)[0].ravel(), found.ravel()]), lengths.ravel()
    while (labels := connected_components(sparse.csr_array((lengths + 1, pairs), shape=shape))[1]).any():
        links, more = _shortest_links(X, labels, np.flatnonzero(labels != np.bincount(labels).argmax()))
        pairs, lengths = np.hstack([pairs, links]), np.hstack([lengths, more])
    # csgraph takes length 0 (duplicates) for "no edge"; the rank of a length, from 1, gives the same tree.
    order = np.argsort(lengths, kind="stable")
    ranks = sparse.csr_array((np.arange(1.0, len(order) + 1), pairs[:, order]), shape=shape)
    kept = order[minimum_spanning_tree(ranks).data.astype(np.intp) - 1]
    width = np.sqrt(2) * lengths[kept].sum() / max(len(kept), 1)
    A = sparse.csr_array((_gaussian(lengths[kept], width), pairs[:, kept]), shape=shape)
    return A.maximum(A.T)


def lle_weights(X: ArrayLike, n_neighbors: int = 5, reg: float = 1e-3) -> sparse.csr_array:
    """Weights R of NPNMF (signed, of sum 1) that rebuild each row from its neighbours; `reg` as in scikit-learn's LLE.

    >>> lle_weights([[0.0], [1.0], [2.0]], n_neighbors=2).toarray()[1]
    array([0.5, 0. , 0.5])
    """
    _, (X,) = _check_samples({"X": X}, n_neighbors=n_neighbors, reg=reg)
    found = _nearest_others(X, n_neighbors)[0]
    return _csr(found, _barycentric(X, X, found, reg), X.shape[0])


def lle_weights_in(X_new: ArrayLike, X_train: ArrayLike, n_neighbors: int = 5, reg: float = 1e-3) -> sparse.csr_array:
    """Weights of `lle_weights` for every new row on its nearest training rows (n_new x n_train), for transform.

    >>> lle_weights_in([[1.0]], [[0.0], [2.0], [9.0]], n_neighbors=2).toarray()
    array([[0.5, 0.5, 0. ]])
    """
    _, (X, Y) = _check_samples({"X_new": X_new, "X_train": X_train}, n_neighbors=n_neighbors, reg=reg)
    found = _nearest(X, Y, n_neighbors)
    return _csr(found, _barycentric(X, Y, found, reg), Y.shape[0])


def laplacian(A: sparse.csr_array, normalized: bool = False) -> tuple[Array, sparse.csr_array]:
    """Degrees and similarities with ``tr(U'LU) = sum_i degrees_i |u_i|^2 - <U, A U>``, for a non-negative graph.

    ``L = Deg - A``; normalized, ``L = I - Deg^-1/2 A Deg^-1/2``, where an isolated row has degree 0 and the others 1.

    >>> laplacian(knn([[0.0], [1.0], [5.0]], n_neighbors=1))[0]
    array([1., 2., 1.])
    """
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64)
    if not normalized:
        return degrees, A
    root, B = np.sqrt(np.where(degrees > 0, degrees, 1.0)), A.tocoo()
    values = B.data / (root[B.row] * root[B.col])  # one product, so that (i, j) and (j, i) round alike
    return (degrees > 0).astype(np.float64), sparse.csr_array((values, (B.row, B.col)), shape=A.shape)


def check_graph(A: ArrayLike, n: int, *, name: str = "similarity", signed: bool = False) -> sparse.csr_array:
    """Check a precomputed graph and return a copy; asymmetry up to 1e-8 of the largest entry is averaged away.

    >>> check_graph([[0, 1], [1, 0]], 2).nnz
    2
    """
    A = _checked_matrix(A, n, name, signed)
    gap = sparse.csr_array(A - A.T)
    asymmetric = np.abs(gap.data) > _SYMMETRIC * np.abs(A.data).max(initial=0.0)
    if asymmetric.any():
        i, j = (int(at[asymmetric.argmax()]) for at in gap.tocoo().coords)
        raise ValueError(
            f"{name} is not symmetric: {name}[{i}, {j}] = {A[i, j]} but {name}[{j}, {i}] = {A[j, i]}. They must be "
            "equal: pass np.maximum(A, A.T), or A.maximum(A.T) if A is sparse."
        )
    return sparse.csr_array(0.5 * A + 0.5 * A.T)


def check_weights(R: ArrayLike, n: int) -> sparse.csr_array:
    """Check weights of rows on each other given by the user (n x n, finite, any sign); returns a copy."""
    return _checked_matrix(R, n, "graph", signed=True)


def farthest(X: ArrayLike, n_distant: int = 5) -> sparse.csr_array:
    """Graph of distant pairs: an edge (1) where either row is among the other's `n_distant` farthest.

    >>> farthest([[0.0], [1.0], [5.0]], n_distant=1).toarray()[0]
    array([0., 0., 1.])
    """
    _, (X,) = _check_samples({"X": X}, n_neighbors=n_distant)
    n = X.shape[0]
    k = min(n_distant, n - 1)
    if k == 0:
        return sparse.csr_array((n, n))
    chunks = pairwise_distances_chunked(
        X, reduce_func=lambda D, start: np.argpartition(-D, k - 1)[:, :k], working_memory=16
    )
    found = np.vstack(list(chunks))
    A = _csr(found, np.ones(found.shape), n)
    A.setdiag(0)
    A.eliminate_zeros()
    return A.maximum(A.T)


def _check_samples(arrays: dict[str, ArrayLike], **parameters: object) -> tuple[float, list[Matrix]]:
    """Check parameters and arrays of samples (by name); returns the arrays as 2-D floats, all CSR if one is sparse.

    They are divided by the unit that comes first: 1, unless squares of their entries would leave the range of float32.
    """
    for key, value in parameters.items():
        if not (allowed := _PARAMETERS[key]).test(value):
            raise ValueError(f"{key}={value!r} is not allowed: it must be {allowed.words}. Omit it for the default.")
    form = sparse.csr_array if any(map(sparse.issparse, arrays.values())) else np.asarray
    rows = [form(X) for X in arrays.values()]
    for name, X in zip(arrays, rows, strict=True):
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"{name} has shape {X.shape}, but samples must be in rows: pass shape (n >= 1, m >= 1).")
    if (new := rows[0].shape[1]) != (trained := rows[-1].shape[1]):
        raise ValueError(f"X_new has {new} columns, but X_train has {trained}: pass the same features to each.")
    rows = [X if X.dtype in (np.float32, np.float64) else X.astype(np.float64) for X in rows]
    unit = ordinary_unit(max(float(max(X.max(), -X.min())) for X in rows), min(X.dtype for X in rows))
    return unit, rows if unit == 1 else [X / X.dtype.type(unit) for X in rows]


def _checked_matrix(A: ArrayLike, n: int, name: str, signed: bool) -> sparse.csr_array:
    """A copy of a matrix of weights (n x n) as float64 CSR, if they are finite and non-negative or `signed`."""
    given = sparse.csr_array(A) if sparse.issparse(A) else np.asarray(A)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {given.dtype}, but weights must be real numbers: use astype(float).")
    if given.shape != (n, n):
        raise ValueError(f"{name} has shape {given.shape}, but {n} samples need ({n}, {n}): pass one row for each.")
    A = sparse.csr_array(given, dtype=np.float64, copy=True)
    A.sum_duplicates()
    for bad, words in ((~np.isfinite(A.data), "finite"), (A.data < 0, ">= 0")):
        if bad.any() and (words == "finite" or not signed):
            i, j = (int(at[bad.argmax()]) for at in A.tocoo().coords)
            raise ValueError(f"{name}[{i}, {j}] = {A[i, j]}, but entries must be {words}: set it to 0 for no edge.")
    return A


def _nearest_others(X: Matrix, k: int) -> tuple[Indices, Array]:
    """The k nearest other rows of every row (n x k), nearest first, and their distances."""
    n, found = X.shape[0], _nearest(X, X, k + 1)
    others = found != np.arange(n)[:, None]
    others[others.all(axis=1), -1] = False  # so many duplicates that the row itself is not in its list
    return _sorted_by_distance(X, X, found[others].reshape(n, found.shape[1] - 1))


def _nearest(X: Matrix, Y: Matrix, k: int) -> Indices:
    """The k nearest rows of Y to every row of X; if X is Y, a row is among its own neighbours."""
    exact = NearestNeighbors(n_neighbors=min(k, Y.shape[0]), algorithm="brute" if sparse.issparse(Y) else "auto").fit(Y)
    if not (X is Y and X.shape[0] > _LARGE and not sparse.issparse(X) and find_spec("pynndescent")):
        step = max(_SEARCHED // (Y.shape[0] * Y.shape[1]), _SEARCHED_ROWS)
        parts = [exact.kneighbors(X[i : i + step], return_distance=False) for i in range(0, X.shape[0], step)]
        return np.vstack(parts)
    # In another process, which an interrupt ends: the search compiles and computes for minutes without a pause.
    with parallel_config("loky", inner_max_num_threads=cpu_count()):
        (found,) = Parallel(n_jobs=2)([delayed(_nearly_nearest)(X, k)])
    for i in np.flatnonzero((found < 0).any(axis=1)):  # the descent met fewer than k others
        found[i] = exact.kneighbors(X[i : i + 1], return_distance=False)
    return found


def _nearly_nearest(X: Array, k: int) -> Indices:
    """The k nearest rows to every row, as far as a descent finds them; below 0 where it met fewer."""
    from pynndescent import NNDescent

    return np.array(NNDescent(X, n_neighbors=k, random_state=0).neighbor_graph[0], dtype=np.intp)


def _sorted_by_distance(X: Matrix, Y: Matrix, found: Indices) -> tuple[Indices, Array]:
    """Neighbours found by a search, sorted by their exact distances, and these (a search rounds)."""
    lengths = np.empty(found.shape)
    for block, x, y in _blocks(X, Y, found):
        lengths[block] = np.linalg.norm(y - x, axis=2)
    order = np.argsort(lengths, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(lengths, order, 1)


def _blocks(X: Matrix, Y: Matrix, found: Indices) -> Iterator[tuple[slice, Array, Array]]:
    """Some rows of X (b x 1 x m) with their neighbours in Y (b x k x m), float64; of sparse rows the columns in use."""
    k, at_once = found.shape[1], _BLOCK // Y.shape[1]
    if not isinstance(Y, np.ndarray):
        at_once = max(at_once, int(np.sqrt(_BLOCK / (1 + Y.nnz / Y.shape[0]))))  # rows times the columns they can use
    step = max(1, at_once // (k + 1))
    for i in range(0, len(found) if k else 0, step):
        x, y = X[i : i + step], Y[found[i : i + step].ravel()]
        if sparse.issparse(Y):
            both = sparse.vstack([x, y], format="csr")
            used, columns = np.unique(both.indices, return_inverse=True)
            both = sparse.csr_array((both.data, columns, both.indptr), shape=(both.shape[0], used.size))
            x, y = np.split(both.toarray(), [x.shape[0]])
        yield slice(i, i + len(x)), x.astype(np.float64)[:, None], y.astype(np.float64).reshape(len(x), k, -1)


def _weights(X: Matrix, Y: Matrix, found: Indices, lengths: Array, weights: str, t: float | None) -> Array:
    """Weights of the edges from every row of X to its neighbours in Y."""
    if weights == "heat":
        return _gaussian(lengths, np.sqrt(2) * (mean_distance(Y) if t is None else t))
    values = np.ones(found.shape)
    for block, x, y in _blocks(X, Y, found) if weights == "cosine" else ():
        size = np.linalg.norm(x, axis=2) * np.linalg.norm(y, axis=2)
        values[block] = np.minimum(np.sum(x * y, axis=2) / np.where(size > 0, size, 1.0), 1.0)
    return values


def _gaussian(lengths: Array, width: float | Array) -> Array:
    """``exp(-(lengths / width)^2)``; for width 0 the limit, which is 1 for length 0 and 0 for any other."""
    with np.errstate(over="ignore"):
        ratio = np.divide(lengths, width, out=np.where(lengths > 0, np.inf, 0.0), where=np.asarray(width) > 0)
        return np.asarray(np.exp(-(ratio**2)))


def _barycentric(X: Matrix, Y: Matrix, found: Indices, reg: float) -> Array:
    """Weights of sum 1 that rebuild every row of X from its neighbours in Y (Roweis & Saul, Science, 2000)."""
    values, k = np.empty(found.shape), found.shape[1]
    for block, x, y in _blocks(X, Y, found):
        G = (y - x) @ (y - x).swapaxes(1, 2)
        trace = np.trace(G, axis1=1, axis2=2)[:, None, None]
        # Divided by the trace the system is well scaled; with trace 0 only the ridge is left: equal weights.
        w = np.linalg.solve(G / np.where(trace > 0, trace, 1.0) + reg * np.eye(k), np.ones((len(G), k, 1)))[:, :, 0]
        values[block] = w / w.sum(axis=1, keepdims=True)
    return values


def _csr(columns: Indices, values: Array, width: int) -> sparse.csr_array:
    """The sparse array with values[i] at columns[i] of row i; zeros are not stored."""
    starts = np.arange(len(columns) + 1) * columns.shape[1]
    A = sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(len(columns), width))
    A.eliminate_zeros()
    A.sort_indices()
    return A


def _shortest_links(X: Matrix, labels: Indices, rows: Indices) -> tuple[Indices, Array]:
    """The shortest edge out of every connected component among these rows (a round of Boruvka's algorithm)."""
    ends = np.empty_like(rows)
    for some in np.array_split(np.arange(len(rows)), 1 + len(rows) * len(labels) // _BLOCK):
        own = labels[rows[some], None] == labels
        ends[some] = np.where(own, np.inf, euclidean_distances(X[rows[some]], X)).argmin(axis=1)
    lengths = _sorted_by_distance(X[rows], X, ends[:, None])[1][:, 0]
    order = np.lexsort((lengths, labels[rows]))
    pick = order[np.unique(labels[rows[order]], return_index=True)[1]]
    return np.stack([rows[pick], ends[pick]]), lengths[pick]
