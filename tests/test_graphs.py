"""Graphs against slow loops straight from the formulas, on tiny data and on wine and digits."""

from __future__ import annotations

import doctest
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits, load_wine
from sklearn.manifold._locally_linear import barycenter_kneighbors_graph
from sklearn.neighbors import NearestNeighbors

from dspnmf import graphs

TIGHT = 100 * np.finfo(np.float64).eps
FROM_PRODUCTS = 10 * np.sqrt(np.finfo(np.float64).eps)  # a distance from products is good to this part of the norms
FORMS = {"dense": np.asarray, "csr": sparse.csr_array, "csc": sparse.csc_matrix}


def points(n=30, m=4, seed=0):
    """Random non-negative rows without ties."""
    return np.random.default_rng(seed).random((n, m))


def wine():
    """Wine, features scaled to [0, 1]."""
    X = load_wine().data
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def distances(X, Y):
    """All distances, one by one."""
    return np.array([[np.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) for y in Y] for x in X])


def slow_neighbours(X, k):
    """Indices of the k nearest other rows of every row."""
    D = distances(X, X)
    return [sorted((j for j in range(len(X)) if j != i), key=lambda j, i=i: D[i, j])[:k] for i in range(len(X))]


def slow_graph(X, k, weight):
    """A[i, j] = weight(i, j) where either row is among the other's k nearest."""
    A = np.zeros((len(X), len(X)))
    for i, near in enumerate(slow_neighbours(X, k)):
        for j in near:
            A[i, j] = A[j, i] = weight(i, j)
    return A


def slow_tree_length(X):
    """Length of a minimum spanning tree, by Prim's algorithm."""
    D = distances(X, X)
    inside, outside, total = [0], set(range(1, len(X))), 0.0
    while outside:
        i, j = min(((i, j) for i in inside for j in outside), key=lambda pair: D[pair])
        total += D[i, j]
        inside.append(j)
        outside.remove(j)
    return total


def weighing(X, weights, t=None):
    """The weight of a pair, as a function of (i, j)."""
    D = distances(X, X)
    t = D.mean() if t is None else t
    return {
        "binary": lambda i, j: 1.0,
        "heat": lambda i, j: np.exp(-(D[i, j] ** 2) / (2 * t**2)),
        "cosine": lambda i, j: X[i] @ X[j] / (np.linalg.norm(X[i]) * np.linalg.norm(X[j])),
    }[weights]


BUILDERS = {
    "binary": lambda X: graphs.knn(X),
    "heat": lambda X: graphs.knn(X, weights="heat"),
    "cosine": lambda X: graphs.knn(X, weights="cosine"),
    "self_tuned": lambda X: graphs.self_tuned(X),
    "spanning_tree": lambda X: graphs.spanning_tree(X),
    "lle": lambda X: graphs.lle_weights(X),
}
SYMMETRIC = [name for name in BUILDERS if name != "lle"]
builders = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS.keys())


def test_examples_run():
    """Every example in the docstrings runs and prints what it says."""
    tested = doctest.testmod(graphs)
    assert tested.attempted >= 9
    assert tested.failed == 0


@builders
@pytest.mark.parametrize("X", [points(1), points(2), points(7), points(40), np.zeros((5, 2)), np.ones((20, 3))])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_graph_is_a_clean_csr_array(build, X, form):
    """Whatever the rows, a graph is float64 CSR, n x n, finite, sorted, without stored zeros or a diagonal."""
    A = build(form(X))
    assert isinstance(A, sparse.csr_array)
    assert A.shape == (len(X), len(X))
    assert A.dtype == np.float64
    assert np.isfinite(A.data).all()
    assert (A.data != 0).all()
    assert not A.diagonal().any()
    assert A.has_canonical_format


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("X", [points(50), wine(), np.ones((20, 3)), np.repeat(points(4), 12, axis=0)])
def test_similarities_are_exactly_symmetric_and_positive(name, X):
    """A similarity equals its transpose to the last bit and has only positive weights."""
    A = BUILDERS[name](X)
    assert (A != A.T).nnz == 0
    assert (A.data > 0).all()


@builders
def test_sparse_rows_give_the_dense_graph(build):
    """Sparse and dense X have the same graph, also where most columns are empty."""
    X = points(60, 300) * (points(60, 300, seed=1) < 0.1)
    np.testing.assert_allclose(build(sparse.csr_array(X)).toarray(), build(X).toarray(), rtol=1e-10, atol=TIGHT)


@builders
def test_float32_rows_give_the_graph_of_their_values(build):
    """A float32 X has the graph of the same numbers in float64."""
    X = points(60, 20).astype(np.float32)
    np.testing.assert_allclose(build(X).toarray(), build(X.astype(np.float64)).toarray(), rtol=1e-10, atol=TIGHT)


@builders
def test_integer_rows_are_taken_as_floats(build):
    """Integers and lists are as good as floats."""
    X = np.array([[0, 3], [7, 1], [2, 2], [9, 0]])
    np.testing.assert_array_equal(build(X.tolist()).toarray(), build(X.astype(float)).toarray())


@builders
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_size_of_blocks_does_not_matter(build, form, monkeypatch):
    """Blocks of a few rows give what one block gives."""
    X = form(np.round(points(40, 6), 2))
    whole = build(X).toarray()
    monkeypatch.setattr(graphs, "_BLOCK", 50)
    np.testing.assert_allclose(build(X).toarray(), whole, rtol=1e-12, atol=TIGHT)


@builders
def test_the_input_is_not_changed(build):
    """Building a graph leaves X as it was."""
    X = points()
    before = X.copy()
    build(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("weights", ["binary", "heat", "cosine"])
@pytest.mark.parametrize("k", [1, 3, 29, 100])
def test_knn_is_the_formula(weights, k):
    """The graph equals the loop over pairs; too many neighbours are cut to all others."""
    X = points()
    A = graphs.knn(X, k, weights=weights)
    np.testing.assert_allclose(A.toarray(), slow_graph(X, k, weighing(X, weights)), rtol=1e-12)


def test_knn_on_wine_is_the_formula():
    """The published default, five neighbours and 0-1 weights, on real data."""
    X = wine()
    np.testing.assert_array_equal(graphs.knn(X).toarray(), slow_graph(X, 5, weighing(X, "binary")))


def test_heat_takes_the_given_t():
    """A t given by hand replaces the mean distance."""
    X = points()
    A = graphs.knn(X, 3, weights="heat", t=0.2)
    np.testing.assert_allclose(A.toarray(), slow_graph(X, 3, weighing(X, "heat", t=0.2)), rtol=1e-12)


def test_duplicates_are_neighbours_of_each_other_but_not_of_themselves():
    """Of six equal rows each lists two others, at full heat."""
    A = graphs.knn(np.vstack([np.full((6, 3), 0.1), points(20, 3) + 5]), 2, weights="heat")
    assert not A.diagonal().any()
    assert A[:6, 6:].nnz == 0
    assert (np.diff(A.indptr)[:6] >= 2).all()
    np.testing.assert_array_equal(A[:6, :6].data, 1.0)


def test_rows_of_zeros_have_no_cosine():
    """A row of zeros is isolated under cosine weights, without a warning."""
    A = graphs.knn([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], 3, weights="cosine")
    np.testing.assert_allclose(A.toarray()[2:, 2:], [[0, np.sqrt(0.5)], [np.sqrt(0.5), 0]], rtol=TIGHT)
    assert A.nnz == 2


def test_no_zero_is_stored_for_new_rows():
    """A new row of zeros has no cosine with any training row, and nothing is stored for it."""
    assert graphs.neighbours_in([[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], weights="cosine").nnz == 1


def test_lengths_are_exact_where_products_are_not():
    """A spread of 1e-3 on top of 1e6 still has its heat weights."""
    X = np.linspace(0, 1e-3, 20)[:, None] ** 2 * np.ones(20) + 1e6
    D = np.linalg.norm(X[:, None] - X, axis=2)
    found, lengths = graphs._sorted_by_distance(X, X, np.tile([3, 5], (20, 1)))
    np.testing.assert_array_equal(np.sort(lengths), np.sort(D[:, [3, 5]]))
    np.testing.assert_array_equal(np.take_along_axis(D, found, 1), lengths)
    assert (np.diff(lengths) >= 0).all()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_mean_distance_is_over_all_pairs(form):
    """mean_distance is the mean of the full matrix of distances, diagonal included."""
    X = points(50)
    np.testing.assert_allclose(graphs.mean_distance(form(X)), distances(X, X).mean(), rtol=FROM_PRODUCTS)


def test_mean_distance_of_a_sample_is_close_and_repeatable(monkeypatch):
    """A fixed sample of rows stands for all, the same every time and whatever the global seed."""
    X = load_digits().data
    exact = graphs.mean_distance(X)
    monkeypatch.setattr(graphs, "_SAMPLE", 400)
    np.random.seed(1)  # noqa: NPY002 - the global state is what must not matter
    sampled = graphs.mean_distance(X)
    np.random.seed(2)  # noqa: NPY002 - as above
    assert graphs.mean_distance(X) == sampled != exact
    assert abs(sampled - exact) < 0.02 * exact


def test_a_large_mean_does_not_hide_the_mean_distance():
    """Adding 1e6 to every entry changes the mean distance by rounding of the data only."""
    X = np.round(points(30) * 1024) / 1024
    np.testing.assert_allclose(graphs.mean_distance(X + 2.0**20), graphs.mean_distance(X), rtol=FROM_PRODUCTS)


@pytest.mark.parametrize(("n", "k"), [(2, None), (6, None), (30, None), (100, None), (30, 9), (30, 2), (6, 50)])
def test_self_tuned_is_the_formula(n, k):
    """self_tuned equals the loop over pairs, then Deg^-1/2 A Deg^-1/2."""
    X = points(n)
    D = distances(X, X)
    s = np.sort(D, axis=1)[:, min(7, n - 1)]
    neighbours = int(np.floor(np.log2(n))) + 1 if k is None else k
    A = slow_graph(X, neighbours, lambda i, j: np.exp(-(D[i, j] ** 2) / (s[i] * s[j])))
    expected = A / np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    np.testing.assert_allclose(graphs.self_tuned(X, k).toarray(), expected, rtol=1e-12)


def test_self_tuned_has_largest_eigenvalue_one():
    """The normalised graph of digits is scaled as Deg^-1/2 A Deg^-1/2 must be: no eigenvalue above 1."""
    A = graphs.self_tuned(load_digits().data)
    top = sparse.linalg.eigsh(A, k=1, which="LA", v0=np.ones(A.shape[0]), return_eigenvectors=False)
    np.testing.assert_allclose(top, 1.0, rtol=1e-8)


def test_self_tuned_takes_the_limit_for_many_duplicates():
    """Rows with seven or more duplicates are tied to these only, without NaN or a warning."""
    A = graphs.self_tuned(np.vstack([np.ones((12, 3)), points(20, 3)]))
    assert np.isfinite(A.data).all()
    assert A[:12, 12:].nnz == 0
    assert A[:12, :12].nnz > 0


def test_self_tuned_leaves_isolated_rows_zero():
    """A row whose only neighbours are many duplicates of another has no edge."""
    A = graphs.self_tuned(np.vstack([np.zeros((12, 2)), [[1.0, 1.0]]]))
    assert A[[12]].nnz == 0
    np.testing.assert_allclose(A.toarray(), A.toarray().T)


@pytest.mark.parametrize("X", [points(2), points(11), points(60), np.repeat(points(5), 3, axis=0), wine()[::2]])
def test_the_tree_spans_and_is_shortest(X):
    """The tree has n - 1 edges, one component, and the length Prim's algorithm finds; zero lengths are kept."""
    A = graphs.spanning_tree(X)
    i, j = sparse.triu(A).coords
    assert len(i) == len(X) - 1
    assert connected_components(A)[0] == 1
    np.testing.assert_allclose(np.linalg.norm(X[i] - X[j], axis=1).sum(), slow_tree_length(X), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_components_are_joined_by_their_shortest_links(form):
    """Groups far apart, each larger than a neighbour list or all of duplicates, are still spanned shortest."""
    rng = np.random.default_rng(3)
    groups = [rng.random((11, 2)), rng.random((11, 2)) + 5, np.full((14, 2), 9.0), rng.random((3, 2)) + 12]
    X = np.vstack(groups)[rng.permutation(39)]
    A = graphs.spanning_tree(form(X))
    i, j = sparse.triu(A).coords
    assert connected_components(A)[0] == 1
    assert len(i) == 38
    np.testing.assert_allclose(np.linalg.norm(X[i] - X[j], axis=1).sum(), slow_tree_length(X), rtol=1e-12)


def test_tree_weights_are_heat_at_the_mean_edge():
    """Edges weigh exp(-d^2 / (2 t^2)) with t the mean edge length; equal rows weigh 1."""
    A = graphs.spanning_tree([[0.0], [1.0], [3.0]]).toarray()
    np.testing.assert_allclose(A[[0, 1, 0], [1, 2, 2]], [np.exp(-1 / 4.5), np.exp(-4 / 4.5), 0], rtol=TIGHT)
    np.testing.assert_array_equal(graphs.spanning_tree(np.ones((15, 2))).data, np.ones(28))


@pytest.mark.parametrize("k", [1, 5, 12])
@pytest.mark.parametrize("reg", [1e-3, 0.1])
def test_lle_weights_are_those_of_scikit_learn(k, reg):
    """Weights agree with scikit-learn's, on wine and on digits with ties broken."""
    digits = load_digits().data[:300]
    for X in (wine(), digits + 1e-3 * points(*digits.shape)):
        expected = barycenter_kneighbors_graph(X, k, reg=reg).toarray()
        np.testing.assert_allclose(graphs.lle_weights(X, k, reg).toarray(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("X", [points(2), points(30), np.ones((9, 3)), np.repeat(points(4), 7, axis=0)])
def test_lle_rows_sum_to_one(X, scale):
    """Every row of R sums to 1, at any scale and with duplicates."""
    R = graphs.lle_weights(X * scale)
    np.testing.assert_allclose(R.sum(axis=1), 1.0, rtol=1e-10)


def test_equal_rows_are_weighed_equally():
    """Where all neighbours are duplicates, LLE weights are 1 / k."""
    np.testing.assert_allclose(graphs.lle_weights(np.ones((8, 2)), 4).data, 0.25, rtol=TIGHT)


@pytest.mark.parametrize("weights", ["binary", "heat", "cosine"])
@pytest.mark.parametrize("forms", [("dense", "dense"), ("csr", "dense"), ("dense", "csc"), ("csr", "csr")])
def test_new_rows_weigh_their_nearest_training_rows(weights, forms):
    """neighbours_in equals the loop, for every mixture of dense and sparse; t is the training rows'."""
    X, Y = points(8, seed=5), points(30)
    both, D = np.vstack([X, Y]), distances(X, Y)
    weight = weighing(both, weights, t=distances(Y, Y).mean())
    expected = np.zeros((8, 30))
    for i in range(8):
        for j in np.argsort(D[i])[:4]:
            expected[i, j] = weight(i, 8 + j)
    A = graphs.neighbours_in(FORMS[forms[0]](X), FORMS[forms[1]](Y), 4, weights)
    assert isinstance(A, sparse.csr_array)
    np.testing.assert_allclose(A.toarray(), expected, rtol=FROM_PRODUCTS)


def test_more_neighbours_than_training_rows_means_all():
    """n_neighbors is cut to the number of training rows, for one of them too."""
    assert graphs.neighbours_in(points(3), points(2), 5).nnz == 6
    np.testing.assert_array_equal(graphs.lle_weights_in(points(3), points(1), 5).toarray(), np.ones((3, 1)))


def test_lle_weights_of_new_rows_are_those_of_a_fit_with_them():
    """A new row far from other new rows gets the weights it would get among the training rows."""
    Y, x = points(40), points(1, seed=9)
    expected = graphs.lle_weights(np.vstack([Y, x])).toarray()[40, :40]
    np.testing.assert_allclose(graphs.lle_weights_in(x, Y).toarray()[0], expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(graphs.lle_weights_in(x, sparse.csr_array(Y)).toarray()[0], expected, atol=1e-10)


@pytest.mark.parametrize("normalized", [False, True])
def test_laplacian_parts_give_the_trace(normalized):
    """The difference sum deg_i |u_i|^2 - <U, A U> is tr(U'LU), with an isolated row and both Laplacians."""
    A = np.zeros((31, 31))
    A[:30, :30] = graphs.knn(points(), weights="heat").toarray()
    U, deg = points(31, 3), A.sum(axis=1)
    root = np.diag([1 / np.sqrt(d) if d > 0 else 0.0 for d in deg])
    L = np.diag((deg > 0).astype(float)) - root @ A @ root if normalized else np.diag(deg) - A
    degrees, B = graphs.laplacian(sparse.csr_array(A), normalized)
    np.testing.assert_allclose(degrees @ (U**2).sum(axis=1) - np.vdot(U, B @ U), np.trace(U.T @ L @ U), rtol=1e-12)
    assert degrees[30] == 0
    assert (B != B.T).nnz == 0


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, sparse.coo_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_a_good_graph_passes_and_is_copied(form, dtype):
    """Any symmetric matrix comes back as float64 CSR with its values, and the caller keeps his own."""
    dense = graphs.knn(points(6), 2).toarray().astype(dtype)
    given = form(dense)
    A = graphs.check_graph(given, 6)
    assert isinstance(A, sparse.csr_array)
    assert A.dtype == np.float64
    np.testing.assert_array_equal(A.toarray(), dense)
    A.data[:] = 7
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else np.asarray(given), dense)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_rounding_asymmetry_is_averaged_away(scale):
    """A difference of 1e-9 of the largest entry leaves no trace and one of 1e-7 is an error, at any scale."""
    A = graphs.check_graph(scale * np.array([[0, 1.0], [1.0 + 1e-9, 0]]), 2)
    assert (A != A.T).nnz == 0
    with pytest.raises(ValueError, match="similarity is not symmetric"):
        graphs.check_graph(scale * np.array([[0, 1.0], [1.0 + 1e-7, 0]]), 2)


def test_entries_stored_in_parts_are_added_before_they_are_judged():
    """A CSR matrix that holds 1 as 2 - 1 is non-negative, and the caller's copy keeps its parts."""
    given = sparse.csr_array((np.array([2.0, -1.0, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(graphs.check_graph(given, 2).toarray(), [[0, 1], [1, 0]])
    assert given.nnz == 3


def test_signed_graphs_pass_where_allowed():
    """Negative weights pass with signed=True; so do an empty graph and a diagonal."""
    np.testing.assert_array_equal(graphs.check_graph([[2, -1], [-1, 0]], 2, signed=True).toarray(), [[2, -1], [-1, 0]])
    assert graphs.check_graph(np.zeros((3, 3)), 3).nnz == 0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("A", "text"),
    [
        (np.zeros((2, 3)), r"G has shape \(2, 3\), but 3 samples need \(3, 3\): pass one row for each\."),
        (np.diag([0, 1j, 0]), r"G has dtype complex128, but weights must be real numbers: use astype\(float\)\."),
        (np.diag([0, np.nan, 0]), r"G\[1, 1\] = nan, but entries must be finite: set it to 0 for no edge\."),
        (np.diag([0, 0, np.inf]), r"G\[2, 2\] = inf, but entries must be finite"),
        (np.diag([1.0, 0, -2]), r"G\[2, 2\] = -2\.0, but entries must be >= 0: set it to 0 for no edge\."),
        (
            [[0, 1, 1], [1, 0, 3.0], [1, 2.0, 0]],
            r"G is not symmetric: G\[1, 2\] = 3\.0 but G\[2, 1\] = 2\.0\. They must be equal: pass np\.maximum",
        ),
        ([[0, 0, 1.0], [0, 0, 0], [0, 0, 0]], r"G\[0, 2\] = 1\.0 but G\[2, 0\] = 0\.0"),
    ],
)
def test_a_bad_graph_is_named(A, text, form):
    """What is wrong, where, what is allowed and the fix are in the message."""
    with pytest.raises(ValueError, match=text):
        graphs.check_graph(form(A), 3, name="G")


@pytest.mark.parametrize("A", ["knn", [["a"]], None])
def test_what_is_no_matrix_is_named(A):
    """A word or None is refused as a graph."""
    with pytest.raises(ValueError, match=r"similarity has dtype .* but weights must be real numbers"):
        graphs.check_graph(A, 1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda X: graphs.knn(X, 0), r"n_neighbors=0 is not allowed: it must be a whole number >= 1\. Omit it for"),
        (lambda X: graphs.self_tuned(X, 2.5), r"n_neighbors=2\.5 is not allowed: it must be a whole number >= 1"),
        (lambda X: graphs.knn(X, weights="rbf"), r"weights='rbf' is not allowed: it must be one of 'binary', 'heat'"),
        (lambda X: graphs.knn(X, t=0), r"t=0 is not allowed: it must be None or a finite number > 0"),
        (lambda X: graphs.neighbours_in(X, X, t=-1.0), r"t=-1\.0 is not allowed"),
        (lambda X: graphs.lle_weights(X, reg=0), r"reg=0 is not allowed: it must be a finite number > 0"),
        (lambda X: graphs.lle_weights_in(X, X, True), r"n_neighbors=True is not allowed"),
        (lambda X: graphs.knn(X[0]), r"X has shape \(4,\), but samples must be in rows: pass shape \(n >= 1, m >= 1\)"),
        (lambda X: graphs.spanning_tree(X[:0]), r"X has shape \(0, 4\)"),
        (lambda X: graphs.neighbours_in(X[0], X), r"X_new has shape \(4,\)"),
        (
            lambda X: graphs.lle_weights_in(X[:, :3], X),
            r"X_new has 3 columns, but X_train has 4: pass the same features to each",
        ),
    ],
)
def test_a_bad_argument_is_named(call, text):
    """What is wrong, the value, what is allowed and the fix are in the message."""
    with pytest.raises(ValueError, match=text):
        call(points())


class _Descent:
    """Stands in for pynndescent: exact lists, but one row is lost and one does not list itself."""

    calls = 0

    def __init__(self, X, n_neighbors, random_state):
        type(self).calls += 1
        assert random_state == 0
        found = NearestNeighbors(n_neighbors=n_neighbors + 1).fit(X).kneighbors(X, return_distance=False)
        found[5] = np.append(found[5, 1:], 0)  # all others, one too many: the farthest must go
        self.neighbor_graph = found[:, :n_neighbors].astype(np.int32), None
        self.neighbor_graph[0][3, -2:] = -1


@pytest.fixture
def descent(monkeypatch):
    """An importable stand-in for pynndescent, and 30 rows for "large"."""
    module = types.ModuleType("pynndescent")
    module.__spec__ = ModuleSpec("pynndescent", None)
    module.NNDescent = _Descent
    monkeypatch.setitem(sys.modules, "pynndescent", module)
    monkeypatch.setattr(graphs, "Parallel", lambda n_jobs: lambda tasks: [task(*a, **k) for task, a, k in tasks])
    monkeypatch.setattr(graphs, "_LARGE", 30)
    monkeypatch.setattr(_Descent, "calls", 0)
    return _Descent


def test_large_dense_data_go_through_pynndescent(descent, monkeypatch):
    """Above the limit neighbours come from pynndescent, rows it lost are searched exactly, none lists itself."""
    A = graphs.knn(points(31), 4)
    assert descent.calls == 1
    monkeypatch.setattr(graphs, "_LARGE", 100)
    assert (graphs.knn(points(31), 4) != A).nnz == 0


def test_small_and_sparse_data_do_not(descent):
    """Up to the limit, and for sparse X, the search is exact."""
    graphs.knn(points(30), 4)
    graphs.knn(sparse.csr_array(points(31)), 4)
    assert descent.calls == 0


def test_without_pynndescent_the_search_is_exact(monkeypatch):
    """Above the limit but without pynndescent the graph is the exact one."""
    expected = graphs.knn(points(), 4)
    monkeypatch.setattr(graphs, "_LARGE", 10)
    monkeypatch.setattr(graphs, "find_spec", lambda name: None)
    assert (graphs.knn(points(), 4) != expected).nnz == 0
