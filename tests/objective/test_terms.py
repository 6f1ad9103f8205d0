"""Every term with every option: value, gradient, quartic, convexity of the model, on NumPy arrays and on tensors.

Values are compared with the formulas of `reference`, gradients with finite differences of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

import reference
from dspnmf.backends import Block, MemoryRows, Operator, Sums
from dspnmf.backends.forms import Form
from dspnmf.backends.row_model import BlockNorms, RowModel
from dspnmf.objective import terms as all_terms
from dspnmf.objective.objective import FitsComponents, Objective, ScalesCodes, Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, GraphSimilarity, Lasso, Reconstruction, Ridge, Smoothness

N, M, K = 9, 7, 3
SOME = Block("some", slice(2, 6))
EVERY = slice(None)
LAPLACIAN, FAR, MASK, GRAPH = range(4)  # the operators


def operators(n: int = N) -> tuple[np.ndarray, ...]:
    """A Laplacian, a graph that separates (convex here), a mask of rows, and minus a graph."""
    rng = np.random.default_rng(7)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    A = A + A.T
    far = rng.random((n, 3))
    mask = np.diag((np.arange(n) % 3 > 0).astype(float))
    return np.diag(A.sum(axis=1)) - A, far @ far.T, mask, -(A + np.eye(n))


L = operators()


class Problem(NamedTuple):
    """Factors; without them, the arrays that sums are made of are NumPy's."""

    X: np.ndarray
    U: np.ndarray
    V: np.ndarray


def problem(seed: int = 0, n: int = N, m: int = M, k: int = K) -> Problem:
    """Random X, U, V."""
    rng = np.random.default_rng(seed)
    return Problem(rng.random((n, m)), rng.random((n, k)), rng.random((k, m)))


Convert = Callable[[np.ndarray], Any]  # a small array as the rows keep it


def tensor(A: np.ndarray) -> Any:
    """A float64 tensor on the CPU."""
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    return torch.from_numpy(np.array(A))


LIBRARIES: dict[str, Convert] = {"NumPy": np.asarray, "Torch": tensor}
libraries = pytest.mark.parametrize("convert", LIBRARIES.values(), ids=LIBRARIES)


def state(X: np.ndarray, U: np.ndarray, V: np.ndarray, convert: Convert = np.asarray) -> State:
    """The small arrays at U, V."""
    small = tuple(convert(U.T @ A @ U) for A in L) if len(U) == N else ()
    return State(convert(np.ascontiguousarray(V.T)), convert(X.T @ U), convert(U.T @ U), small)


def sums(X: np.ndarray, U: np.ndarray, D: np.ndarray, convert: Convert = np.asarray) -> Sums:
    """The sums along D."""
    between = (tuple(convert(A.T @ B @ D) for B in L) for A in (U, D))
    return Sums(convert(X.T @ D), convert(U.T @ D), convert(D.T @ D), *between)


@dataclass(frozen=True)
class Case:
    """A term, and the plain formula of its value."""

    term: Callable[[np.ndarray], Term]
    value: Callable[[np.ndarray, np.ndarray, np.ndarray], float]
    couples: bool  # whether it ties rows to each other
    convex: bool = True  # whether its model is
    masked: bool = False  # whether only some rows count; X is zero in the others

    def problem(self) -> Problem:
        """Factors that the term may be asked for."""
        X, U, V = problem()
        return Problem(L[MASK] @ X if self.masked else X, U, V)


def reconstruction(columns: slice = EVERY, **options: Any) -> Case:
    """||X - UV||^2 with options; `columns` says which features."""

    def term(X: np.ndarray) -> Term:
        return Reconstruction(float(np.sum(X[:, columns] ** 2)), **options)

    def value(X: np.ndarray, U: np.ndarray, V: np.ndarray) -> float:
        given = {name: option for name, option in options.items() if name in ("ridge", "lasso", "overlap")}
        rows = np.diag(L[MASK]) if "mask" in options else np.ones(len(X))
        smooth = [(weight, L[j]) for j, weight in options.get("smooth", {}).items()]
        return reference.reconstruction(X[:, columns], U, V[:, columns], rows, smooth, **given)

    return Case(term, value, couples="smooth" in options or "mask" in options, masked="mask" in options)


def gram(columns: slice = EVERY, **options: Any) -> Case:
    """||XX' - UU'||^2 over some features."""
    return Case(
        lambda X: GramSimilarity(reference.gram_norm2(X[:, columns]), **options),
        lambda X, U, V: reference.similarity(X[:, columns] @ X[:, columns].T, U),
        couples=True,
    )


def lasso(ones: Block) -> Case:
    """The sum of the codes, each row's weighted with some features: with 1, where these are a column of ones."""
    return Case(
        lambda X: Lasso(ones),
        lambda X, U, V: float(sum(X[i, j] * U[i].sum() for i in range(len(X)) for j in range(M)[ones.columns])),
        couples=False,
    )


CASES: dict[str, Case] = {
    "reconstruction": reconstruction(),
    "reconstruction of some features": reconstruction(SOME.columns, features=SOME),
    "reconstruction of some rows": reconstruction(mask=MASK),
    "reconstruction, ridge": reconstruction(ridge=0.7),
    "reconstruction, lasso": reconstruction(lasso=0.3),
    "reconstruction, overlap": reconstruction(overlap=0.4),
    "reconstruction, smooth": reconstruction(smooth={LAPLACIAN: 0.3}),
    "reconstruction, smooth twice": reconstruction(smooth={LAPLACIAN: 0.3, FAR: 0.2}),
    "reconstruction, some features and rows, ridge, smooth": reconstruction(
        SOME.columns, features=SOME, mask=MASK, ridge=0.7, smooth={LAPLACIAN: 0.3}
    ),
    "reconstruction, all but a mask": reconstruction(
        SOME.columns, features=SOME, ridge=0.7, lasso=0.3, overlap=0.4, smooth={LAPLACIAN: 0.3, FAR: 0.2}
    ),
    "Gram": gram(),
    "Gram of some features": gram(SOME.columns, features=SOME),
    "graph": Case(
        lambda X: GraphSimilarity(float(np.sum(L[GRAPH] ** 2)), GRAPH),
        lambda X, U, V: reference.similarity(-L[GRAPH], U),
        couples=True,
        convex=False,
    ),
    "smoothness": Case(
        lambda X: Smoothness(LAPLACIAN), lambda X, U, V: reference.smoothness(L[LAPLACIAN], U), couples=True
    ),
    "smoothness, another operator": Case(
        lambda X: Smoothness(FAR), lambda X, U, V: reference.smoothness(L[FAR], U), couples=True
    ),
    "ridge": Case(lambda X: Ridge(), lambda X, U, V: float(np.sum(U**2)), couples=False),
    "lasso": lasso(SOME),
    "lasso, another column": lasso(Block("last", slice(6, 7))),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_term_and_option_is_here() -> None:
    """A term, or an option of one, that no case has fails: it would be tested nowhere."""
    classes = {
        cls
        for _, cls in inspect.getmembers(all_terms, inspect.isclass)
        if cls.__module__ == all_terms.__name__ and hasattr(cls, "along")
    }
    made = [case.term(problem().X) for case in CASES.values()]
    assert classes == {type(term) for term in made}
    for cls in classes:
        for name in cls.__dataclass_fields__:
            values = {repr(getattr(term, name)) for term in made if type(term) is cls}
            assert len(values) > 1 or (cls, name) in ONE_VALUE, f"{cls.__name__}.{name}"


ONE_VALUE = {  # a value at zero that nothing follows from, and the one graph there is
    *((cls, "norm2") for cls in (Ridge, Lasso, Smoothness, GraphSimilarity)),
    (GraphSimilarity, "operator"),
}


def dense(model: RowModel) -> RowModel:
    """A model in NumPy arrays."""
    pulls, curves = ({j: np.asarray(A) for j, A in part.items()} for part in (model.pulls, model.curves))
    return RowModel(np.asarray(model.S), np.asarray(model.M), model.coupling, pulls, curves)


def half_gradient(model: RowModel, X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """``U S - X M + sum_j L_j U pulls[j]``."""
    g = U @ model.S - X @ model.M
    for j, A in model.pulls.items():
        g = g + L[j] @ U @ reference.full(A)
    return g


def slopes(value: Callable[[np.ndarray], float], A: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a value in every entry of A (exact for quadratics but for rounding)."""
    slope = np.empty_like(A)
    for index in np.ndindex(*A.shape):
        up, down = A.copy(), A.copy()
        up[index] += step
        down[index] -= step
        slope[index] = (value(up) - value(down)) / (2 * step)
    return slope


def check_gradient(term: Term, X: np.ndarray, U: np.ndarray, V: np.ndarray, convert: Convert = np.asarray) -> None:
    """The model has half the gradient of the term's value (finite differences)."""
    model = dense(term.model(state(X, U, V, convert)))
    slope = slopes(lambda A: float(term.value(state(X, A, V, convert))), U)
    np.testing.assert_allclose(2 * half_gradient(model, X, U), slope, rtol=1e-6, atol=1e-6)


def check_quartic(term: Term, X: np.ndarray, U: np.ndarray, V: np.ndarray, convert: Convert = np.asarray) -> None:
    """c1..c4 give the change of the value along any direction, for any step."""
    D = np.random.default_rng(5).standard_normal(U.shape)
    c = [float(part) for part in term.along(state(X, U, V, convert), sums(X, U, D, convert))]
    start = float(term.value(state(X, U, V, convert)))
    for t in (-0.7, 0.1, 0.5, 1.0, 2.0):
        change = float(term.value(state(X, U + t * D, V, convert))) - start
        assert np.polyval([*c[::-1], 0.0], t) == pytest.approx(change, rel=1e-10, abs=1e-9 * (1 + term.norm2))


@cases
@libraries
def test_value(case: Case, convert: Convert) -> None:
    """The value is that of the formula, entry by entry."""
    X, U, V = case.problem()
    term = case.term(X)
    assert float(term.value(state(X, U, V, convert))) == pytest.approx(case.value(X, U, V), rel=1e-12)
    assert term.coupled == case.couples
    if not isinstance(term, Reconstruction | Smoothness | Ridge):
        assert term.norm2 == pytest.approx(case.value(X, 0 * U, V), rel=1e-12)


@cases
@libraries
def test_gradient(case: Case, convert: Convert) -> None:
    """Every term's model has the gradient of the term."""
    X, U, V = case.problem()
    check_gradient(case.term(X), X, U, V, convert)


@cases
@libraries
def test_quartic(case: Case, convert: Convert) -> None:
    """Every term's quartic is exact."""
    X, U, V = case.problem()
    check_quartic(case.term(X), X, U, V, convert)


@cases
def test_tensors_agree_with_numpy(case: Case) -> None:
    """Value, model, quartic, components' problem and scale on tensors are those on arrays."""
    X, U, V = case.problem()
    D = np.random.default_rng(5).standard_normal(U.shape)
    results = []
    for convert in LIBRARIES.values():
        term, s, d = case.term(X), state(X, U, V, convert), sums(X, U, D, convert)
        model = dense(term.model(s))
        parts = [
            term.value(s),
            *term.along(s, d),
            *model[:3],
            *(part[j] for part in (model.pulls, model.curves) for j in sorted(part)),
            *(
                [term.curvature(s), term.pull(s), term.error2(s), term.rest(s)]
                if isinstance(term, Reconstruction)
                else []
            ),
            *([term.best_scale(s)] if isinstance(term, ScalesCodes) else []),
        ]
        results.append([part.now() if isinstance(part, Form) else part for part in parts])
        assert all(np.asarray(A).dtype == np.float64 for A in results[-1])
    for known, found in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(known), rtol=1e-12, atol=1e-13)


@cases
def test_model_is_convex(case: Case) -> None:
    """<A[D], D> >= 0 for every direction D, coupling and operators included.

    A graph similarity keeps a share of the graph's curvature, with which the model may be indefinite. What holds: the
    model without it is convex, and the share is less than the whole.
    """
    X, U, V = case.problem()
    model = dense(case.term(X).model(state(X, U, V)))
    rng = np.random.default_rng(1)
    for _ in range(100):
        D = rng.standard_normal(U.shape) * (rng.random(U.shape) < 0.5)
        curvature = np.vdot(D @ model.S + model.coupling * U @ (D.T @ U), D)
        curves = sum(np.vdot(L[j] @ D @ reference.full(A), D) for j, A in model.curves.items())
        assert curvature >= -1e-12 * np.vdot(D, D)
        if case.convex:
            assert curvature + curves >= -1e-12 * np.vdot(D, D)
    if not case.convex:
        ((j, curve),) = model.curves.items()
        np.testing.assert_allclose(curve, all_terms._NEWTON * model.pulls[j])
        assert 0 < all_terms._NEWTON < 1


@cases
def test_curvature_of_the_model(case: Case) -> None:
    """The model has the term's curvature; similarities leave out ``2 <D, (UU' - T) D>`` for their target T.

    That is Gauss-Newton. Of a graph T the model keeps a share.
    """
    X, U, V = case.problem()
    term = case.term(X)
    model = dense(term.model(state(X, U, V)))
    for seed in range(3):
        D = np.random.default_rng(seed).standard_normal(U.shape)
        curvature = np.vdot(D @ model.S + model.coupling * U @ (D.T @ U), D)
        curvature += sum(np.vdot(L[j] @ D @ reference.full(A), D) for j, A in model.curves.items())
        c2 = float(term.along(state(X, U, V), sums(X, U, D))[1])
        if isinstance(term, GramSimilarity):
            c2 += 2 * np.sum((X[:, term.features.columns].T @ D) ** 2) - 2 * np.sum((U.T @ D) ** 2)
        elif isinstance(term, GraphSimilarity):
            c2 -= 2 * (1 - all_terms._NEWTON) * np.vdot(D, L[GRAPH] @ D) + 2 * np.sum((U.T @ D) ** 2)
        assert curvature == pytest.approx(c2, rel=1e-10)


@cases
@libraries
def test_components(case: Case, convert: Convert) -> None:
    """Curvature and pull are those of the problem that the components solve (finite differences in V)."""
    X, U, V = case.problem()
    term = case.term(X)
    assert isinstance(term, FitsComponents) == isinstance(term, Reconstruction)
    if not isinstance(term, Reconstruction):
        slope = slopes(lambda A: case.value(X, U, A), V)
        np.testing.assert_array_equal(slope, 0)  # nothing of it depends on V
        return
    columns, s = term.features.columns, state(X, U, V, convert)
    half = np.zeros_like(V)
    half[:, columns] = np.asarray(term.curvature(s)) @ V[:, columns] - np.asarray(term.pull(s)).T
    np.testing.assert_allclose(2 * half, slopes(lambda A: case.value(X, U, A), V), rtol=1e-6, atol=1e-6)
    rows = np.diag(L[MASK]) if term.mask is not None else np.ones(N)
    plain = reference.reconstruction(X[:, columns], U, V[:, columns], rows, [])
    assert float(term.error2(s)) == pytest.approx(plain, rel=1e-12)
    assert float(term.rest(s)) == pytest.approx(case.value(X, U, V) - plain, rel=1e-12, abs=1e-12)


@cases
@libraries
def test_best_scale(case: Case, convert: Convert) -> None:
    """No other factor of the codes gives a lower similarity term; without codes or a target it is 1."""
    X, U, V = case.problem()
    term = case.term(X)
    if not isinstance(term, ScalesCodes):
        return
    c = term.best_scale(state(X, 3 * U, V, convert))
    best = case.value(X, c * 3 * U, V)
    assert all(best < case.value(X, factor * c * 3 * U, V) for factor in (0.9, 0.99, 1.01, 1.1))
    assert term.best_scale(state(X, 0 * U, V, convert)) == 1.0
    without_target = 1.0 if isinstance(term, GramSimilarity) else 3 * c  # a graph is one without X
    assert term.best_scale(state(0 * X, U, V, convert)) == pytest.approx(without_target)


@cases
def test_exact(case: Case) -> None:
    """The value from residuals, where rows can tell: whole X, all rows."""
    X, U, V = case.problem()
    rows = MemoryRows(X, K, 1.0, [Operator(sparse.csr_array(np.diag(np.diag(A)) - A), np.diag(A)) for A in L])
    rows.begin(U.copy())
    term = case.term(X)
    found = term.exact(state(X, U, V), rows)
    whole = isinstance(term, Reconstruction | GramSimilarity) and term.features.columns == EVERY
    if whole and getattr(term, "mask", None) is None:
        assert found == pytest.approx(case.value(X, U, V), rel=1e-12)
    else:
        assert found is None


@pytest.mark.parametrize("name", ["reconstruction", "Gram"])
def test_exact_values_keep_their_digits(name: str) -> None:
    """Far below ||X||^2 the value from residuals still has digits when the difference has none."""
    rng = np.random.default_rng(0)
    V = np.eye(3, 7) if name == "Gram" else np.abs(np.linalg.qr(rng.standard_normal((7, 3)))[0].T)
    U = rng.random((40, 3))
    X = U @ V + 1e-9 * rng.random((40, 7))
    rows = MemoryRows(X, 3)
    rows.begin(U.copy())
    expected = CASES[name].value(X, U, V)
    assert CASES[name].term(X).exact(state(X, U, V), rows) == pytest.approx(expected, rel=1e-5)


def test_norms_that_changed() -> None:
    """Where cells were completed, values count with the norms of X as it is now."""
    X, U, V = problem()
    s = state(X, U, V)
    changed = State(s.Vt, s.P, s.Q, s.L, {"X": BlockNorms(11.0, lambda: 13.0)})
    for name, now in (("reconstruction", 11.0), ("Gram", 13.0)):
        term = CASES[name].term(X)
        assert term.value(changed) - term.value(s) == pytest.approx(now - term.norm2)


# -- the objective -----------------------------------------------------------------------------------------------------


def objective(X: np.ndarray, **weights: float) -> Objective:
    """Some of the cases, weighted."""
    names = {
        "fit": "reconstruction, smooth",
        "similar": "Gram",
        "smooth": "smoothness",
        "rows": "reconstruction of some rows",
    }
    return Objective({name: CASES[names[name]].term(X) for name in weights}, weights)


def test_value_is_the_objective() -> None:
    """The weighted sum of the terms is the objective written out entry by entry."""
    X, U, V = problem()
    terms = {name: CASES[name].term(X) for name in ("reconstruction", "Gram")}
    total = Objective(terms, {"reconstruction": 1.0, "Gram": 0.3})
    assert total.value(state(X, U, V)) == pytest.approx(reference.objective(X, U, V, alpha=0.3), rel=1e-12)


@libraries
def test_terms_add_up(convert: Convert) -> None:
    """Value, gradient and quartic are weighted sums; pulls of one operator are added, whatever their shape."""
    X, U, V = CASES["reconstruction of some rows"].problem()
    weights = {"fit": 0.5, "similar": 0.2, "smooth": 3.0, "rows": 2.0}
    total = objective(X, **weights)
    assert total.coupled
    assert len(total.with_components) == 2
    check_gradient(_AsTerm(total), X, U, V, convert)
    check_quartic(_AsTerm(total), X, U, V, convert)
    parts = sum(w * term.value(state(X, U, V)) for w, term in total.weighted())
    assert float(total.value(state(X, U, V, convert))) == pytest.approx(parts, rel=1e-12)
    assert total.size == pytest.approx(sum(w * t.norm2 for w, t in total.weighted()))
    both = Objective({"a": Smoothness(MASK), "b": CASES["reconstruction of some rows"].term(X)}, {"a": 1.0, "b": 2.0})
    for order in (both, Objective({name: both.terms[name] for name in "ba"}, both.weights)):
        check_gradient(_AsTerm(order), X, U, V, convert)


class _AsTerm:
    """An objective where a term is asked for."""

    norm2 = 1.0

    def __init__(self, total: Objective) -> None:
        self.value, self.model, self.along = total.value, total.model, total.along


def test_weight_zero_is_left_out() -> None:
    """A term of weight zero changes neither model nor value, but is still asked for its components."""
    X, U, V = problem()
    with_zero, alone = objective(X, similar=0.2, fit=0.0), objective(X, similar=0.2)
    s = state(X, U, V)
    assert with_zero.value(s) == alone.value(s)
    assert not with_zero.model(s).pulls
    np.testing.assert_array_equal(with_zero.model(s).S, alone.model(s).S)
    assert len(with_zero.with_components) == 1
    assert with_zero.best_scale(s) == alone.best_scale(s) != 1.0
    assert objective(X, fit=1.0).best_scale(s) == 1.0
    assert list(with_zero.without("fit").terms) == ["similar"]


@libraries
def test_state_moves_with_the_codes(convert: Convert) -> None:
    """After a step the small arrays are those of the new codes."""
    X, U, V = problem()
    D = np.random.default_rng(5).standard_normal(U.shape)
    moved, there = state(X, U, V, convert).moved(0.3, sums(X, U, D, convert)), state(X, U + 0.3 * D, V)
    for found, known in zip((moved.P, moved.Q, *moved.L), (there.P, there.Q, *there.L), strict=True):
        np.testing.assert_allclose(np.asarray(found), known, rtol=1e-12, atol=1e-12)
