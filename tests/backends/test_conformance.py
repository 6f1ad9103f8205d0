"""Every method of every kind of rows, and of their data, against the formulas of `reference`.

What a backend declares among its capabilities must work as the reference does; what it does not is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from implementations import GOALS, IMPLEMENTATIONS, Implementation, StandIn, small_parts
from scipy import sparse

import reference
from dspnmf._threads import team
from dspnmf._validation import check_backend
from dspnmf.backends.forms import Form
from dspnmf.backends.protocol import Backend, Capability, ConjugateGradientRows, Data, MultiplicativeRows, Rows
from dspnmf.backends.row_model import X_BLOCK, Completion, DivergenceModel, Operator, RandomCodes, RowModel, Ties
from dspnmf.backends.small_arrays import inverse

N, M, K, SCALE = 150, 12, 5, 1.7  # K: sweeps take four components at once, and then one
TOLERANCE = {np.float64: 1e-10, np.float32: 2e-4}  # relative to the largest number of an array
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]


def samples(dtype: type, *, missing: bool) -> np.ndarray:
    """X with zeros, a row of zeros, and if asked NaN in a tenth of its cells and in a whole column."""
    rng = np.random.default_rng(0)
    X = (rng.random((N, K)) ** 2 @ rng.random((K, M)) + 0.1 * rng.random((N, M))) * (rng.random((N, M)) < 0.7)
    X[7] = 0
    if missing:
        X[rng.random((N, M)) < 0.1] = np.nan
        X[:, 5] = np.nan
    return X.astype(dtype)


def start(dtype: type = np.float64) -> np.ndarray:
    """Codes, a fifth of them zero, and so those of a row of zeros (that end at zero but for rounding)."""
    rng = np.random.default_rng(4)
    U = rng.random((N, K)) * (rng.random((N, K)) < 0.8)
    U[7] = 0
    return U.astype(dtype)


class Case:
    """An implementation at work on one X."""

    def __init__(self, implementation: Implementation, dtype: type, folder: Path) -> None:
        self.implementation, self.dtype, self.tolerance = implementation, dtype, TOLERANCE[dtype]
        self.X = samples(dtype, missing=implementation.missing)
        self.data: Data = implementation.data(self.X, folder)
        X64 = self.X.astype(np.float64)
        self.filled = np.where(np.isnan(X64), reference.column_means(X64), X64)

    def needs(self, *capabilities: Capability) -> None:
        """Skip where the backend does not declare what a test is of; that it refuses it is tested elsewhere."""
        for capability in capabilities:
            if capability not in self.data.backend.capabilities:
                pytest.skip(f"X is {self.data.backend.name}, which declares no {capability!r}")

    def rows(self, between: str = "none", data: Data | None = None) -> Any:
        """Rows with codes."""
        if between != "none":
            self.needs("operators")
            if self.dtype is np.float32 and between != "both":
                pytest.skip("operators one by one are tested in float64")
        rows = (data or self.data).rows(K, SCALE, OPERATORS[between])
        rows.begin(start(self.dtype))
        return rows

    def known(self, between: str = "none", X: np.ndarray | None = None) -> reference.ReferenceRows:
        """The reference for them."""
        dense = [np.diag(operator.diagonal) - operator.off.toarray() for operator in OPERATORS[between]]
        rows = reference.ReferenceRows(self.filled if X is None else X, K, SCALE, dense)
        rows.begin(start(self.dtype))
        return rows

    def same(self, found: Any, known: Any, factor: float = 1.0) -> None:
        """Whether results agree, relative to the largest number of each array."""
        if isinstance(known, tuple):
            parts = list(found) if isinstance(found, tuple) else [found.slope, found.UD, found.DD, found.DLD]
            assert len(parts) == len(known)
            for one, other in zip(parts, known, strict=True):
                self.same(one, other, factor)
            return
        found = found.now() if isinstance(found, Form) else found
        found, known = (np.asarray(A.cpu() if hasattr(A, "cpu") else A) for A in (found, known))
        assert found.shape == known.shape
        difference = np.abs(found - known).max(initial=0.0)
        assert difference <= factor * self.tolerance * max(np.abs(known).max(initial=0.0), 1e-12)

    def same_codes(self, rows: Rows, known: np.ndarray, codes: Any = None, factor: float = 1.0) -> None:
        """Whether codes agree, those given or the current ones."""
        blocks = list(rows.save_codes(codes))
        assert all(isinstance(block, np.ndarray) and block.dtype == self.dtype for block in blocks)
        self.same(np.concatenate(blocks), known, factor)


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Implementation]:
    """Each of them, cutting X into small parts."""
    small_parts(monkeypatch)
    with request.param.around(), team():
        yield request.param


@pytest.fixture(params=[np.float64, np.float32])
def case(request: pytest.FixtureRequest, implementation: Implementation, tmp_path: Path) -> Case:
    """X in both precisions."""
    if request.param is np.float32 and not implementation.float32:
        pytest.skip("float32 is tested on another layout of the same class of rows")
    return Case(implementation, request.param, tmp_path)


# -- operators and models ----------------------------------------------------------------------------------------------


def graph(seed: int, *, signed: bool) -> sparse.csr_array:
    """A random symmetric matrix without diagonal."""
    A = sparse.random_array((N, N), density=0.05, rng=np.random.default_rng(seed), format="csr")
    A = sparse.csr_array(sparse.triu(A, 1))
    if signed:
        A.data -= 0.5
    return sparse.csr_array(A + A.T)


def laplacian() -> Operator:
    """The Laplacian of a graph: its diagonal differs from row to row."""
    A = graph(1, signed=False)
    return Operator(A, np.asarray(A.sum(axis=1)).ravel() + 0.1)


LAPLACIAN = laplacian()
CONSTANT = Operator(0.2 * graph(2, signed=True), np.full(N, 0.7))
MASK = Operator(sparse.csr_array((N, N)), (np.arange(N) % 3 == 0).astype(float))
OPERATORS: dict[str, tuple[Operator, ...]] = {
    "none": (),
    "Laplacian": (LAPLACIAN,),
    "constant diagonal": (CONSTANT,),
    "both": (LAPLACIAN, CONSTANT),
    "mask": (CONSTANT, MASK),
    "pull alone": (LAPLACIAN,),
    "curve alone": (LAPLACIAN,),
}
between = pytest.mark.parametrize("between", list(OPERATORS))


def square(rng: np.random.Generator) -> np.ndarray:
    """A convex k x k matrix."""
    A = rng.random((K, K))
    return A @ A.T / K + 0.1 * np.eye(K)


def model_of(between: str = "none", width: int = M) -> RowModel:
    """A convex model with a part for every operator: matrices, or diagonals where a diagonal varies."""
    rng = np.random.default_rng(3)
    pulls: dict[int, np.ndarray] = {}
    curves: dict[int, np.ndarray] = {}
    for j, operator in enumerate(OPERATORS[between]):
        constant = operator is CONSTANT
        if between != "curve alone":
            pulls[j] = 0.2 * (rng.random(K) if operator is LAPLACIAN and between != "pull alone" else square(rng))
        if between != "pull alone":
            curves[j] = 0.1 * (square(rng) if constant else rng.random(K))
    return RowModel(square(rng), rng.random((width, K)) / 2, 0.005, pulls, curves)


def adopted(model: RowModel, rows: Rows) -> RowModel:
    """The model where the rows keep their small arrays."""
    adopt = rows.small.adopt
    pulls, curves = ({j: adopt(K) for j, K in part.items()} for part in (model.pulls, model.curves))
    return RowModel(adopt(model.S), adopt(model.M), model.coupling, pulls, curves)


# -- data --------------------------------------------------------------------------------------------------------------


def test_facts(case: Case) -> None:
    """Shape, type, largest entry, mean and norms are those of X, missing cells at the means of their columns."""
    data, X = case.data, case.filled
    assert (data.shape, data.dtype) == (X.shape, np.dtype(case.dtype))
    assert data.largest == np.nanmax(case.X)
    assert data.block() == X_BLOCK
    case.same(data.mean(), X.mean())
    for scale in (1.0, SCALE):
        case.same(data.norm2(scale), np.sum((X / scale) ** 2))
        case.same(data.gram_norm2(scale), reference.gram_norm2(X / scale))


def test_wide_data(implementation: Implementation, tmp_path: Path) -> None:
    """Norms of an X with more features than samples."""
    X = samples(np.float64, missing=False)[:5]
    found = implementation.data(X, tmp_path).gram_norm2(SCALE) if "Dask" not in implementation.name else None
    assert found is None or found == pytest.approx(reference.gram_norm2(X / SCALE), rel=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense columns", "CSR columns"])
def test_further_columns(case: Case, kind: Any) -> None:
    """Blocks of columns stand next to X, each with its name, in the rows too."""
    case.needs("features")
    labels = ((np.arange(N) % 3)[:, None] == np.arange(3)).astype(case.dtype)
    wide = case.data.widened("labels", kind(labels)).widened("more", kind(2 * labels[:, :2]))
    assert [wide.block(name).columns for name in ("X", "labels", "more")] == [
        slice(0, M),
        slice(M, M + 3),
        slice(M + 3, M + 5),
    ]
    with pytest.raises((KeyError, ValueError), match="other"):
        wide.block("other")
    assert (wide.shape, case.data.block()) == ((N, M), X_BLOCK)
    rows = case.rows(data=wide)
    assert rows.shape == (N, M + 5)
    case.same(rows.sums(), case.known(X=np.hstack([case.filled, labels, 2 * labels[:, :2]])).sums())


def test_unit_rows(case: Case) -> None:
    """Rows at unit length are a block of their own; rows that miss cells have no length."""
    case.needs("features")
    if case.implementation.missing:
        with pytest.raises(ValueError, match="needs complete rows"):
            case.data.with_unit_rows(SCALE)
        return
    wide, unit = case.data.with_unit_rows(SCALE), reference.unit_rows(case.filled, SCALE)
    assert wide.block("unit rows").columns == slice(M, 2 * M)
    case.same(wide.gram_norm2(SCALE, "unit rows"), reference.gram_norm2(unit / SCALE))
    case.same(case.rows(data=wide).sums(), case.known(X=np.hstack([case.filled, unit])).sums())


def test_similarity_block(case: Case) -> None:
    """Similarities to be preserved are those of X, or of a second X where the first is completed."""
    wide, name = case.data.with_similarity_block()
    assert (name, wide.block(name).columns) == (
        ("similarities", slice(M, 2 * M)) if case.implementation.missing else ("X", slice(None))
    )
    case.same(wide.gram_norm2(SCALE, name), reference.gram_norm2(case.filled / SCALE))


def test_without_features(case: Case) -> None:
    """Rows of graphs alone have one empty column."""
    case.needs("graphs")
    data = case.data.without_features()
    assert (data.shape, data.dtype, data.largest, data.norm2(SCALE)) == ((N, 1), np.dtype(case.dtype), 0.0, 0.0)
    rows, known = case.rows("both", data), case.known("both", np.zeros((N, 1)))
    model = model_of("both", width=1)
    case.same(rows.look(adopted(model, rows), 2), known.look(model, 2))


def test_some_rows(case: Case) -> None:
    """Some rows for the host, dense and in float64, in the order asked for."""
    case.needs("batches")
    some = np.array([3, N - 1, 0, 77])
    found = case.data.some_rows(some)
    assert (type(found), found.dtype) == (np.ndarray, np.float64)
    np.testing.assert_array_equal(found, case.X[some])
    labels = np.random.default_rng(1).random((N, 2)).astype(case.dtype)
    np.testing.assert_array_equal(case.data.widened("labels", labels).some_rows(some, "labels"), labels[some])


def test_on_host(case: Case) -> None:
    """X for the host, where neighbours are searched: only complete rows have any."""
    case.needs("graphs")
    if case.implementation.missing:
        with pytest.raises(ValueError, match="needs complete rows"):
            case.data.on_host()
        return
    X = case.data.on_host()
    assert isinstance(X, np.ndarray) or sparse.issparse(X)
    assert sparse.issparse(X) == ("CSR" in case.implementation.name)
    np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, case.X)


def test_column_means(case: Case) -> None:
    """Means of known cells; where a column has none, that of all of them."""
    case.needs("missing")
    case.same(case.data.column_means(), reference.column_means(case.X.astype(np.float64)))


def test_singular_vectors(case: Case) -> None:
    """The leading singular vectors give back the best approximation of that rank."""
    case.needs("svd")
    left, values, right = case.data.singular_vectors(M, np.random.RandomState(0))
    assert (left.shape, values.shape, right.shape) == ((N, M), (M,), (M, M))
    case.same(values, np.linalg.svd(case.filled, compute_uv=False))
    case.same((left * values) @ right, case.filled)


def test_whole_matrix(case: Case) -> None:
    """X' and X in float64."""
    case.needs("whole matrix")
    if case.implementation.missing:
        pytest.skip("methods that take all of X take complete ones")
    X = case.filled
    turned, wide = case.data.transposed(), case.data.as_float64()
    assert (turned.shape, turned.dtype, turned.largest) == ((M, N), np.dtype(case.dtype), X.max())
    assert (wide.shape, wide.dtype, wide.largest) == ((N, M), np.float64, X.max())
    case.same(turned.norm2(SCALE), np.sum((X / SCALE) ** 2))
    rows = turned.rows(K, SCALE)
    rows.begin(start(case.dtype)[:M].copy())
    case.same(rows.sums()[0], X @ start()[:M].astype(case.dtype) / SCALE)
    rows = wide.rows(K, SCALE)
    rows.begin(start())
    np.testing.assert_allclose(rows.sums()[0], X.T @ start() / SCALE, rtol=1e-12)


# -- capabilities ------------------------------------------------------------------------------------------------------

METHODS: dict[Capability, dict[str, tuple[Any, ...]]] = {  # capability -> the methods of `Data` it stands for
    "features": {"widened": ("labels", np.ones((N, 1))), "with_unit_rows": (1.0,)},
    "graphs": {"on_host": (), "without_features": ()},
    "missing": {"column_means": ()},
    "batches": {"some_rows": (np.array([0]),)},
    "divergences": {"has_zeros": (), "divergence_rows": (K, SCALE)},
    "svd": {"singular_vectors": (2, np.random.RandomState(0))},
    "whole matrix": {"transposed": (), "as_float64": ()},
}
ROWS: dict[Capability, tuple[type, type]] = {  # capability -> what rows have then, beyond what all have
    "newton-cg": (ConjugateGradientRows, Rows),
    "multiplicative": (MultiplicativeRows, Rows),
}


def test_capabilities(implementation: Implementation, tmp_path: Path) -> None:
    """Rows have the methods of what is declared; what is not declared is refused, with the name of the backend."""
    case = Case(implementation, np.float64, tmp_path)
    backend: Backend = case.data.backend
    assert backend.capabilities <= set(get_args(Capability))
    assert {*METHODS, *ROWS, "operators"} == set(get_args(Capability))
    rows = case.data.rows(K, SCALE)
    for name in (*Rows.__annotations__, *_methods(Rows, object)):
        assert hasattr(type(rows), name) or hasattr(rows, name), name
    for capability, protocols in ROWS.items():
        for name in _methods(*protocols):
            assert hasattr(rows, name) == (capability in backend.capabilities), name
    assert rows.completes == implementation.missing
    for capability in get_args(Capability):
        if capability in backend.capabilities:
            check_backend(StandIn(), backend, {capability: "this"})
            continue
        with pytest.raises(ValueError, match=f"this needs .*, but X is {backend.name}"):
            check_backend(StandIn(), backend, {capability: "this"})
        for name, arguments in METHODS.get(capability, {}).items():
            with pytest.raises(NotImplementedError, match=f"X is {backend.name}, .*{capability}"):
                getattr(case.data, name)(*arguments)
    if "operators" not in backend.capabilities:
        with pytest.raises(NotImplementedError, match="operator"):
            case.data.rows(K, SCALE, OPERATORS["both"])
        for part in ({"pulls": {0: np.ones(K)}}, {"curves": {0: np.ones(K)}}):
            with pytest.raises(NotImplementedError, match="operators"):
                case.rows().look(model_of()._replace(**part), 1)
        with pytest.raises(NotImplementedError, match="operators"):
            case.rows().solve(model_of(), Ties(np.ones((N, K))))


def _methods(protocol: type, less: type) -> list[str]:
    """Names that a protocol has and another has not."""
    return [name for name in vars(protocol) if not name.startswith("_") and name not in vars(less)]


def test_curves_that_no_rows_take(implementation: Implementation, tmp_path: Path) -> None:
    """Two diagonals that vary, or a matrix for one, are refused with the number of the operator."""
    case = Case(implementation, np.float64, tmp_path)
    case.needs("operators")
    rows = case.data.rows(K, SCALE, (CONSTANT, LAPLACIAN, MASK))
    rows.begin(start())
    for curves, match in (({1: np.eye(K)}, "curve of operator 1 couples"), ({1: np.ones(K), 2: np.ones(K)}, "1 and 2")):
        with pytest.raises(ValueError, match=match):
            rows.look(adopted(RowModel(np.eye(K), np.ones((M, K)), curves=curves), rows), 1)


# -- codes -------------------------------------------------------------------------------------------------------------


def test_codes(case: Case) -> None:
    """Codes are drawn, scaled, saved, restored and begun from; all of them come back as they were."""
    rows = case.data.rows(K, SCALE)
    assert (rows.shape, rows.k, rows.scale, np.dtype(rows.dtype)) == ((N, M), K, SCALE, np.dtype(case.dtype))
    assert rows.sweep_cost >= 2 * N * K**2
    assert 2 * np.count_nonzero(case.X) * K <= rows.product_cost <= 2 * N * M * K
    key = 0x5DEECE66D2C6F41B
    known = reference.random_codes(key, 0.3, N, K, case.dtype)
    codes = rows.draw(RandomCodes(key, 0.3, K, np.dtype(case.dtype)))
    np.testing.assert_array_equal(np.concatenate(list(rows.save_codes(codes))), known)
    for factors in (np.arange(1.0, K + 1), 0.3):
        codes, known = rows.scaled(codes, factors), (known * np.asarray(factors, np.float64)).astype(case.dtype)
        np.testing.assert_array_equal(np.concatenate(list(rows.save_codes(codes))), known)
    blocks = [known[:5], known[5:70], known[70:]]
    rows.begin(rows.restore_codes(blocks))
    case.same_codes(rows, known)
    rows.begin(rows.codes)
    case.same_codes(rows, known)
    case.same(rows.sums()[1], known.T.astype(np.float64) @ known)


def test_steps(case: Case) -> None:
    """A step is taken when codes are asked for, in whichever way, and once; nothing becomes negative."""
    known, model = case.known(), model_of()
    rows = case.rows()
    for settle in ("codes", "save_codes", "sums", "release", "some_codes"):
        if settle == "some_codes" and "batches" not in case.data.backend.capabilities:
            continue
        rows.look(adopted(model, rows), 1, 1.9)
        known.look(model, 1, 1.9)
        rows.step(1.2)
        known.step(1.2)
        if settle == "codes":
            case.same_codes(rows, known.U, rows.codes)
        elif settle == "sums":
            case.same(rows.sums(), known.sums())
        elif settle == "release":
            rows.release()
        elif settle == "some_codes":
            some = np.array([N - 1, 0, 70])
            assert rows.some_codes(some).dtype == np.float64
            case.same(rows.some_codes(some), known.U[some])
        case.same_codes(rows, known.U)
        case.same(rows.sums(), known.sums())
        rows.begin(rows.codes)
        known.begin(known.U)


def test_sums_to_float64_rounding(implementation: Implementation, tmp_path: Path) -> None:
    """X'U, U'U and ||XX'||^2 of float32 numbers have the digits of float64: products of two are exact there."""
    case = Case(implementation, np.float32, tmp_path)
    case.tolerance = 1e-14
    X = case.filled.astype(np.float32).astype(np.float64)
    case.same(case.rows().sums(), case.known(X=X).sums())
    case.same(case.data.gram_norm2(1.0), reference.gram_norm2(X))


# -- looks -------------------------------------------------------------------------------------------------------------


@between
def test_look(case: Case, between: str) -> None:
    """Sums, directions of sweeps and what they lead to, over several looks with steps and stretches between them."""
    rows, known, model = case.rows(between), case.known(between), model_of(between)
    theirs = adopted(model, rows)
    case.same(rows.sums(), known.sums())
    for sweeps, t, stretch in ((1, 0.7, 1.0), (3, 1.3, 1.6), (2, 1.0, 1.0)):
        case.same(rows.look(theirs, sweeps, stretch), known.look(model, sweeps, stretch))
        rows.step(rows.small.adopt(np.asarray(t)) if case.implementation.device else t)
        known.step(t)
    case.same(rows.sums(), known.sums())
    case.same_codes(rows, known.U)


@between
def test_newton_cg(case: Case, between: str) -> None:
    """Both passes of newton-cg and the conjugate gradients between them."""
    case.needs("newton-cg")
    rows, known, model = case.rows(between), case.known(between), model_of(between)
    theirs, adopt = adopted(model, rows), rows.small.adopt
    fewest, most = rows.cg_steps
    assert 0 < fewest < most
    for tau, sigma, floor in ((0.6, 0.6, 1e-7), (0.5, 0.5, 0.3) if model.curves else (0.5, 1.0, 0.3)):
        D, A, DA = known.face(model, 2)
        case.same(rows.face(theirs, 2), (D, A, DA))
        curvature = known.common_curvature(model)
        case.same(rows.common_curvature(theirs), curvature)
        T = inverse(curvature, floor, 0.0)
        UD = tau * D[1] - (tau - sigma) * A[1]
        C = 0.1 * model.S / np.trace(model.S) * np.linspace(0.5, 1.5, len(model.S))
        residual = known.cg_start(tau, sigma, model, UD, T)
        case.same(rows.cg_start(tau, sigma, theirs, adopt(UD), adopt(T)), residual)
        along = known.couple(C)
        case.same(rows.couple(adopt(C)), along)
        for alpha, beta in ((0.4, 0.0), (0.3, 0.2), (0.2, 0.7)):
            found = rows.cg_step(alpha, beta, theirs, adopt(along[1]), adopt(T))
            case.same(found, known.cg_step(alpha, beta, model, along[1], T))
            along = known.couple(-C)
            case.same(rows.couple(adopt(-C)), along)
        rows.cg_last(0.25, 0.5)
        known.cg_last(0.25, 0.5)
        case.same(rows.project(), known.project())
        case.same(rows.combine(0.8, 1.3), known.combine(0.8, 1.3))
        rows.step(0.9)
        known.step(0.9)
    case.same_codes(rows, known.U)
    rows.release()
    case.same_codes(rows, known.U)
    rows.begin(rows.codes)  # what was freed is made anew
    case.same(rows.face(theirs, 1), known.face(model, 1))


def test_components_without_curvature(case: Case) -> None:
    """Where a component has no curvature its codes are left as they are; codes that are solved for are zero there."""
    model = model_of()
    model.S[1], model.S[:, 1] = 0.0, 0.0
    rows, known = case.rows(), case.known()
    case.same(rows.look(adopted(model, rows), 2), known.look(model, 2))
    if "newton-cg" in case.data.backend.capabilities:
        case.same(rows.face(adopted(model, rows), 2), known.face(model, 2))
    rows.step(1.0)
    known.step(1.0)
    case.same_codes(rows, known.U)
    model.M[:, 1] = 0.0
    case.same_codes(rows, known.solve(model), rows.solve(adopted(model, rows)))


@between
def test_map(case: Case, between: str) -> None:
    """A multiplicative rule sees the codes, what pulls them and what pushes them."""
    case.needs("multiplicative")
    rows, known, model = case.rows(between), case.known(between), model_of(between)

    def rule(U: np.ndarray, gain: np.ndarray, loss: np.ndarray) -> np.ndarray:
        return U * gain / (0.5 + loss) + 0.1

    for _ in range(2):
        case.same(rows.map(rule, model), known.map(rule, model))
        case.same_codes(rows, known.U)
        case.same(rows.sums(), known.sums())


def test_map_with_negative_diagonals(case: Case) -> None:
    """A diagonal below zero pulls, as other entries of an operator below zero do."""
    case.needs("multiplicative", "operators")
    operator = Operator(sparse.csr_array((N, N)), np.linspace(-1, 1, N))
    rows = case.data.rows(K, SCALE, (operator,))
    rows.begin(start(case.dtype))
    known = reference.ReferenceRows(case.filled, K, SCALE, [np.diag(operator.diagonal)])
    known.begin(start(case.dtype))
    model = model_of()._replace(pulls={0: np.ones(K)})
    case.same(rows.map(lambda U, gain, loss: gain + 2 * loss, model), known.map(lambda U, g, r: g + 2 * r, model))


@pytest.mark.parametrize("ties", ["no ties", "pulled", "pulled and tied"])
def test_solve(case: Case, ties: str) -> None:
    """Every row at the minimum of its own model, also where components are much alike and rows are tied to others."""
    if ties != "no ties":
        case.needs("operators")
    rng = np.random.default_rng(6)
    pull, weight, lengths = (rng.random(shape).astype(case.dtype) for shape in ((N, K), N, K))
    given = {"no ties": (), "pulled": (pull,), "pulled and tied": (pull, weight, lengths)}[ties]
    V = rng.random((K, M))
    V[1] = V[0] + 0.3 * V[1]
    model = RowModel(V @ V.T, V.T - 0.25)
    rows, known = case.rows(), case.known()
    codes = rows.solve(adopted(model, rows), Ties(*given) if given else None)
    expected = known.solve(model, *given)
    assert 0.1 < (expected == 0).mean() < 0.9
    factor = 10.0 if case.dtype is np.float64 else 50.0  # of a badly conditioned problem
    case.same_codes(rows, expected, codes, factor)


def test_residuals(case: Case) -> None:
    """||X - UV||^2 and ||XX' - UU'||^2 from residuals, with a step that is still to be taken."""
    rows, known, Vt = case.rows(), case.known(), np.random.default_rng(7).random((M, K))
    rows.look(adopted(model_of(), rows), 1)
    known.look(model_of(), 1)
    rows.step(0.5)
    known.step(0.5)
    case.same(rows.residual2(rows.small.adopt(Vt)), known.residual2(Vt))
    case.same(rows.gram_residual2(), known.gram_residual2())


def test_small_residuals(implementation: Implementation, tmp_path: Path) -> None:
    """Residuals far below ||X||^2 keep their digits, where the difference of the sums has none."""
    U, V = start(), np.eye(K, M)
    X = U @ V + 1e-8 * np.random.default_rng(0).random((N, M))
    rows = implementation.data(X, tmp_path).rows(K, 1.0)
    rows.begin(U.copy())
    assert rows.residual2(rows.small.adopt(V.T)) == pytest.approx(np.sum((X - U @ V) ** 2), rel=1e-5)
    assert rows.gram_residual2() == pytest.approx(np.sum((X @ X.T - U @ U.T) ** 2), rel=1e-5)


# -- errors measured by a divergence ---------------------------------------------------------------------------------

losses = pytest.mark.parametrize("beta", [1.0, 1.5, 0.5])


def divergent(case: Case, beta: float, alpha: float = 0.0) -> tuple[Any, DivergenceModel, np.ndarray, np.ndarray]:
    """Rows with codes and a model with penalties; V and X in their unit."""
    case.needs("divergences")
    V = np.random.default_rng(5).random((K, M)) + 0.01
    X, U = case.X.astype(np.float64) / SCALE, start(case.dtype).astype(np.float64)
    rows: Any = case.data.divergence_rows(K, SCALE)
    rows.begin(start(case.dtype))
    adopt = rows.small.adopt
    similar = (adopt(X.T @ U), adopt(U.T @ U)) if alpha else ()
    return rows, DivergenceModel(beta, adopt(V.T), 0.03, 0.02, alpha, *similar), V, X


def codes_of(rows: Any, codes: Any = None) -> np.ndarray:
    """Codes in float64."""
    return np.concatenate([np.asarray(block, np.float64) for block in rows.save_codes(codes)])


def check_divergence_sums(case: Case, found: Any, U: np.ndarray, V: np.ndarray, X: np.ndarray, beta: float) -> None:
    """Whether sums that left a look are those of the codes it left."""
    value, pull, push, *rest = reference.divergence_sums(X, U, V, beta)
    case.same(found.value, value)
    case.same(found.pull, pull)
    case.same(found.push + case.data.rows(K, SCALE).small.adopt(np.zeros(push.shape)), push)  # of its shape, or one row
    case.same((found.ones, found.squares), tuple(rest))
    if found.P is not None and len(found.P):
        case.same((found.P, found.Q), (X.T @ U, U.T @ U))


@losses
def test_divergence_sums(case: Case, beta: float) -> None:
    """The divergence and the sums for the components, of the codes as they are; a copy of the codes can be kept."""
    rows, model, V, X = divergent(case, beta, 0.0 if case.implementation.missing else 0.1)
    check_divergence_sums(case, rows.improve(model, 0), start(case.dtype).astype(np.float64), V, X, beta)
    rows.remember()
    before = codes_of(rows)
    rows.improve(model, 1)
    assert np.abs(codes_of(rows) - before).max() > 0.01
    rows.recall()
    np.testing.assert_array_equal(codes_of(rows), before)
    zeros = (case.X == 0).any()
    assert case.data.has_zeros() == zeros
    assert zeros


@pytest.mark.parametrize("alpha", [0.0, 0.2], ids=["no structure", "structure"])
@losses
def test_divergence_sweeps(case: Case, beta: float, alpha: float) -> None:
    """Sweeps lower the objective with penalties and structure, much at first; sums are those of the new codes."""
    if case.implementation.missing and alpha > 0:
        pytest.skip("only complete rows have similarities")
    rows, model, V, X = divergent(case, beta, alpha)
    adopt = rows.small.adopt

    def objective(U: np.ndarray) -> float:
        value = float(reference.divergence_sums(X, U, V, beta)[0])  # type: ignore[arg-type]  # it is a number
        structure = alpha * np.square(X @ X.T - U @ U.T).sum() if alpha else 0.0
        return value + 0.03 * float(U.sum()) + 0.02 * float(np.square(U).sum()) + float(structure)

    values = [objective(start(case.dtype).astype(np.float64))]
    for sweeps in (1, 2, 1):
        found = rows.improve(model, sweeps)
        U = codes_of(rows)
        assert (U >= 0).all()
        check_divergence_sums(case, found, U, V, X, beta)
        values.append(objective(U))
        if alpha:
            model = model._replace(P=adopt(X.T @ U), Q=adopt(U.T @ U))
    assert values[1] < values[0] - 0.1 * (values[0] - values[-1])
    assert (np.diff(values) <= case.tolerance * values[0]).all()


@pytest.mark.parametrize("fresh", [False, True], ids=["codes as they are", "new codes"])
@pytest.mark.parametrize("alpha", [0.0, 0.2], ids=["no structure", "structure"])
@pytest.mark.parametrize("beta", [1.0, 1.5])
def test_divergence_solve(case: Case, beta: float, alpha: float, fresh: bool) -> None:
    """Codes that are solved for fulfil the conditions of a minimum, row by row."""
    if case.implementation.missing and alpha > 0:
        pytest.skip("only complete rows have similarities")
    rows, model, V, X = divergent(case, beta, alpha)
    U = codes_of(rows, rows.solve_divergence(model, fresh=fresh))
    pull, push = reference.divergence_slope(X, U, V, beta)
    push += 0.03 + 0.04 * U
    if alpha:
        old = start(case.dtype).astype(np.float64)
        pull, push = pull + 4 * alpha * X @ (X.T @ old), push + 4 * alpha * U @ (old.T @ old)
    size = np.maximum(pull, push).max(axis=1, keepdims=True)
    near = 1e-3 if case.dtype is np.float64 else 2e-2
    assert (np.abs((push - pull) * U) <= near * size * U.max(axis=1, keepdims=True)).all()
    assert ((push - pull) >= -near * size)[X.sum(axis=1) > 0].all()
    rows.release()


# -- missing cells -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twice", [False, True], ids=["X once", "X twice"])
def test_refresh(case: Case, twice: bool) -> None:
    """Cells follow UV after every iteration, those of the similarities after 1, 2, 4; complete X stands still."""
    if not case.implementation.missing:
        rows = case.rows()
        assert rows.refresh(rows.small.adopt(np.ones((M, K)))) is None
        rows.restart()
        case.same(rows.sums(), case.known().sums())
        return
    labels = np.random.default_rng(2).random((N, 2)).astype(case.dtype)
    wide = case.data.with_similarity_block()[0] if twice else case.data
    rows = wide.widened("labels", labels).rows(K, SCALE)
    known = reference.ReferenceIncompleteRows(case.X.astype(np.float64), K, SCALE, twice=twice, more=labels)
    model = model_of(width=rows.shape[1])
    for _ in range(2):  # a second start begins where the first did
        rows.restart()
        known.restart()
        rows.begin(start(case.dtype))
        known.begin(start(case.dtype))
        for turn in range(5):
            case.same(rows.look(adopted(model, rows), 1), known.look(model, 1))
            rows.step(0.3)
            known.step(0.3)
            Vt = np.random.default_rng(turn).random((rows.shape[1], K))
            found, expected = rows.refresh(rows.small.adopt(Vt)), known.refresh(Vt)
            assert found is not None
            assert set(found) == set(expected)
            case.same(found["X"].norm2, expected["X"][0])
            for name, norms in expected.items():
                case.same(found[name].gram_norm2(), norms[1])
            case.same(rows.sums(), known.sums())
        case.same(rows.residual2(rows.small.adopt(Vt)), known.residual2(Vt))


@pytest.mark.parametrize("similar", [False, True], ids=["reconstruction", "with similarities"])
def test_solve_with_missing_cells(case: Case, similar: bool) -> None:
    """Codes of new rows and their cells fit each other; similarities are those of rows completed a few times."""
    if not case.implementation.missing:
        return
    rng = np.random.default_rng(9)
    V = rng.random((K, M))
    own, means = 0.8 * V.T, np.full(M, 0.4)
    model = RowModel(0.8 * V @ V.T + 3.0 * np.eye(K), own + (0.1 * rng.random((M, K)) if similar else 0.0))
    rows = case.data.rows(K, SCALE)
    known = reference.ReferenceIncompleteRows(case.X.astype(np.float64), K, SCALE)
    known.begin(start())
    expected = known.solve_completed(model, V.T, 0.8, means, GOALS if similar else 1)
    codes = rows.solve(model, None, Completion(V.T, 0.8, means))
    blocks = np.concatenate(list(rows.save_codes(codes)))
    assert np.abs(blocks - expected).max() <= (1e-6 if case.dtype is np.float64 else 1e-3) * expected.max()
