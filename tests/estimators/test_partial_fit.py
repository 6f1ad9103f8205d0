"""Batches: what a stream learns is what a fit on all its rows learns, about; and it can be cut, saved and resumed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dspnmf
from dspnmf import DSPNMF, NMF, MiniBatchNMF
from dspnmf.backends import MemoryRows, RowModel
from dspnmf.backends.batch_history import RowsWithHistory
from dspnmf.backends.chunk_facts import norm2
from dspnmf.backends.memory import MEMORY, MemoryData
from dspnmf.estimators.partial_fit import _Size
from dspnmf.estimators.transform_state import BatchSums, TransformState
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, Reconstruction
from dspnmf.persistence._contents import name_of
from dspnmf.solvers.descent import Descent
from dspnmf.solvers.hals import Hals
from dspnmf.solvers.loop import iterate
from model_files import assert_same

BOTH = (DSPNMF, NMF)


@pytest.fixture(scope="module")
def planted() -> np.ndarray:
    """6,000 x 30 of rank 5 with noise, rows in no order."""
    rng = np.random.default_rng(0)
    return rng.random((6_000, 5)) ** 3 @ rng.random((5, 30)) ** 3 + 0.05 * rng.random((6_000, 30))


def batches(X: Any, size: int) -> Iterator[Any]:
    """Some rows at a time."""
    for i in range(0, X.shape[0], size):
        yield X[i : i + size]


def streamed(model: Any, X: Any, size: int) -> Any:
    """The model after one pass."""
    for batch in batches(X, size):
        model.partial_fit(batch)
    return model


def objective(model: Any, X: np.ndarray) -> float:
    """DSP-NMF's objective (at alpha = 0 for NMF) with the codes the model gives to all rows, term by term."""
    Z, V = model.transform(X).astype(np.float64), np.asarray(model.components_, dtype=np.float64)
    alpha, lam = getattr(model, "alpha", 0.0), getattr(model, "lam", 1.0)
    pairs = np.linalg.norm(X.T @ X) ** 2 - 2 * lam * np.linalg.norm(X.T @ Z) ** 2 + np.linalg.norm(lam * Z.T @ Z) ** 2
    return float(np.linalg.norm(X - Z @ V) ** 2 + alpha * pairs)


def natural(X: np.ndarray) -> float:
    """The alpha at which both terms are of one size."""
    return float(np.linalg.norm(X) ** 2 / np.linalg.norm(X.T @ X) ** 2)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", [{}, {"init": "nndsvda"}, {"n_init": 2, "normalize": True}])
def test_one_batch_is_a_fit(cls: type, options: dict[str, Any], wine: np.ndarray) -> None:
    """The first batch is fitted with every parameter, to the last bit as `fit` does."""
    one, whole = cls(3, random_state=0, **options).partial_fit(wine), cls(3, random_state=0, **options).fit(wine)
    np.testing.assert_array_equal(one.components_, whole.components_)
    np.testing.assert_array_equal(one.transform(wine), whole.transform(wine))
    assert (one.n_iter_, one.n_samples_seen_, one.n_steps_) == (whole.n_iter_, len(wine), 1)


def test_a_custom_start_begins_the_first_batch(wine: np.ndarray) -> None:
    """W and H start the first batch and are not needed later."""
    rng = np.random.default_rng(0)
    W, H = rng.random((80, 3)), rng.random((3, 13))
    model = NMF(3, init="custom").partial_fit(wine[:80], W=W, H=H)
    np.testing.assert_array_equal(model.components_, NMF(3, init="custom").fit(wine[:80], W=W, H=H).components_)
    assert model.partial_fit(wine[80:]).n_steps_ == 2


@pytest.mark.parametrize("strength", [0.0, 1.0, 30.0])
def test_one_pass_is_near_the_fit(strength: float, planted: np.ndarray) -> None:
    """After one pass over mixed rows the objective is within 5 % of the fit's, though alpha weighs ever more."""
    alpha = strength * natural(planted)
    whole = objective(DSPNMF(5, alpha=alpha, random_state=5).fit(planted), planted)
    one = objective(streamed(DSPNMF(5, alpha=alpha, random_state=5), planted, 150), planted)
    assert one < 1.05 * whole


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0])
def test_one_pass_over_digits(alpha: float, digits: np.ndarray) -> None:
    """Also on real data, with six batches and with every alpha from nothing to nothing else."""
    X = digits[np.random.default_rng(0).permutation(len(digits))]
    whole = objective(DSPNMF(10, alpha=alpha, random_state=0).fit(X), X)
    assert objective(streamed(DSPNMF(10, alpha=alpha, random_state=0), X, 300), X) < 1.05 * whole


def test_order_hardly_matters(planted: np.ndarray) -> None:
    """Batches of the same rows in other orders end within a percent of each other."""
    alpha, rng, found = natural(planted), np.random.default_rng(0), []
    for _ in range(3):
        X = planted[rng.permutation(len(planted))]
        found.append(objective(streamed(DSPNMF(5, alpha=alpha, random_state=0), X, 300), X))
    assert max(found) < 1.01 * min(found)


def test_earlier_codes_must_follow(planted: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the codes of earlier rows left as they are, a growing structure term would cost several percent."""
    alpha = natural(planted)
    free = objective(streamed(DSPNMF(5, alpha=alpha, random_state=0), planted, 150), planted)
    monkeypatch.setattr(RowsWithHistory, "_swept", lambda self, model: self._T)
    assert objective(streamed(DSPNMF(5, alpha=alpha, random_state=0), planted, 150), planted) > 1.03 * free


@pytest.mark.parametrize("cls", BOTH)
def test_a_new_kind_of_rows(cls: type, digits: np.ndarray) -> None:
    """Batches sorted by their norm cost some quality and no more."""
    X = digits[np.argsort(np.linalg.norm(digits, axis=1))]
    options = {} if cls is NMF else {"alpha": natural(X)}
    whole = objective(cls(6, random_state=0, **options).fit(X), X)
    assert objective(streamed(cls(6, random_state=0, **options), X, 300), X) < 1.2 * whole


@pytest.mark.parametrize("cls", BOTH)
def test_single_rows(cls: type, wine: np.ndarray) -> None:
    """A batch may be one row."""
    X = wine[np.random.default_rng(0).permutation(len(wine))]
    whole = objective(cls(3, random_state=0).fit(X), X)
    model = cls(3, random_state=0).partial_fit(X[:60])
    assert objective(streamed(model, X[60:], 1), X) < 1.1 * whole
    assert (model.n_samples_seen_, model.n_steps_) == (len(X), 1 + len(X) - 60)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 1.0])
def test_no_iteration_rises(alpha: float, wine: np.ndarray) -> None:
    """Codes of the batch, components and T descend together on the exact objective of all rows."""
    rng = np.random.default_rng(0)
    U, V, B = rng.random((100, 3)), rng.random((3, 13)), wine[100:]
    reconstruction, structure = Reconstruction(norm2(wine)), GramSimilarity(np.linalg.norm(wine @ wine.T) ** 2)
    total = Objective(
        {"reconstruction": reconstruction, "structure": structure}, {"reconstruction": 1.0, "structure": alpha}
    )
    batch = MemoryRows(B, 3)
    batch.begin(rng.random((len(B), 3)))
    rows: Any = RowsWithHistory(batch, wine[:100].T @ U, U.T @ U, 100)
    update = Descent(Hals())
    steps = iterate(rows, total, update, *update.begin(rows, total, V.T.copy()))
    values = [next(steps)[0] for _ in range(30)]
    s = next(steps)[1]
    assert np.all(np.diff(values) <= 1e-9 * values[0])
    assert values[-1] < 0.5 * values[0]
    Z = np.vstack([U @ rows._T, batch.codes])  # the codes the sums stand for
    assert rows._T.min() >= 0
    np.testing.assert_allclose(s.P, wine.T @ Z, rtol=1e-9, atol=1e-9)
    exact = np.linalg.norm(wine - Z @ s.Vt.T) ** 2 + alpha * np.linalg.norm(wine @ wine.T - Z @ Z.T) ** 2
    np.testing.assert_allclose(total.value(s), exact, rtol=1e-9)


def test_what_is_stationary_stays(wine: np.ndarray) -> None:
    """Where the fit of all rows has converged, mixing the codes of some of them has nothing to gain."""
    model = DSPNMF(3, alpha=0.1, tol=0, max_iter=300, random_state=0)
    Z = model.fit_transform(wine)
    some, rest = wine[:100], wine[100:]
    batch = MemoryRows(rest, 3)
    batch.begin(Z[100:].copy())
    rows = RowsWithHistory(batch, some.T @ Z[:100], Z[:100].T @ Z[:100], 100)
    V, P, Q = model.components_, wine.T @ Z, Z.T @ Z
    everyone = RowModel(V @ V.T + 0.2 * Q, V.T + 0.2 * P, 0.2)
    assert np.abs(rows._swept(everyone) - np.eye(3)).max() < 0.15  # some rows alone are not stationary
    alone = RowsWithHistory(batch, P, Q, len(wine))
    np.testing.assert_allclose(alone._swept(everyone), np.eye(3), atol=1e-5)


def test_forgetting_follows_drift() -> None:
    """When the components change, a model that forgets describes the new rows better, one that does not the old."""
    rng = np.random.default_rng(0)
    old, new = (rng.random((2_000, 3)) @ rng.random((3, 20)) ** 4 + 0.02 * rng.random((2_000, 20)) for _ in range(2))
    errors = {}
    for f in (1.0, 0.5):
        model = streamed(streamed(NMF(3, forget_factor=f, random_state=0), old, 200), new, 200)
        errors[f] = [np.linalg.norm(X - model.inverse_transform(model.transform(X))) for X in (old, new)]
    assert errors[0.5][1] < 0.1 * errors[1.0][1]
    assert errors[1.0][0] < 0.5 * errors[0.5][0]


@pytest.mark.parametrize("cls", BOTH)
def test_forgetting_means_weights(cls: type, wine: np.ndarray) -> None:
    """With f = 1/4 the rows before count as if they were a half of themselves: their sums are a quarter."""
    options = {} if cls is NMF else {"alpha": 0.1}
    light = cls(3, forget_factor=0.25, random_state=0, **options).partial_fit(wine[:90])
    heavy = copy.deepcopy(light).set_params(forget_factor=1.0)
    sums = heavy._transform_state.batches
    quarter = replace(sums, P=sums.P / 4, Q=sums.Q / 4, norm2=sums.norm2 / 4, mass=sums.mass / 4)
    heavy._transform_state = replace(heavy._transform_state, batches=quarter)
    for model in (light, heavy):
        model.partial_fit(wine[90:])
    np.testing.assert_array_equal(light.components_, heavy.components_)
    assert light.reconstruction_err_ == heavy.reconstruction_err_


@pytest.mark.parametrize("cls", BOTH)
def test_resume(cls: type, wine: np.ndarray) -> None:
    """A copy, a model read from a file and the model itself go on to the same components, bit by bit."""
    model = cls(3, forget_factor=0.9, random_state=0).partial_fit(wine[:60]).partial_fit(wine[60:120])
    data = skops.io.dumps(model)
    trusted = [name_of(kind) for kind in (cls, TransformState, BatchSums)]
    assert set(skops.io.get_untrusted_types(data=data)) <= set(trusted)
    others = [copy.deepcopy(model), skops.io.loads(data, trusted=trusted)]
    model.partial_fit(wine[120:])
    for other in others:
        np.testing.assert_array_equal(other.partial_fit(wine[120:]).components_, model.components_)
        np.testing.assert_array_equal(other.transform(wine), model.transform(wine))
        assert vars(other).keys() == vars(model).keys()


@pytest.mark.parametrize("cls", BOTH)
def test_same_seed_same_result(cls: type, wine: np.ndarray) -> None:
    """Two streams with one seed agree to the last bit."""
    one, other = (streamed(cls(3, random_state=4), wine, 50) for _ in range(2))
    np.testing.assert_array_equal(one.components_, other.components_)


@pytest.mark.parametrize("cls", BOTH)
def test_fit_then_batches_then_fit(cls: type, wine: np.ndarray) -> None:
    """After `fit` a stream goes on from there; another `fit` begins anew and leaves nothing of the stream."""
    model = cls(3, random_state=0).fit(wine[:90])
    fitted = set(vars(model))
    first_batch = cls(3, random_state=0).partial_fit(wine[:90])
    np.testing.assert_array_equal(
        model.partial_fit(wine[90:]).components_, first_batch.partial_fit(wine[90:]).components_
    )
    assert (model.n_samples_seen_, model.n_steps_) == (len(wine), 2)
    model.fit(wine)
    np.testing.assert_array_equal(model.components_, cls(3, random_state=0).fit(wine).components_)
    assert (model.n_samples_seen_, model.n_steps_) == (len(wine), 1)
    assert set(vars(model)) == fitted


@pytest.mark.parametrize("cls", BOTH)
def test_what_is_known_afterwards(cls: type, wine: np.ndarray) -> None:
    """The error is that of all rows seen; what needs all of them at once is gone, after one batch and after more."""
    model = cls(3, random_state=0).fit(wine[:90])
    for batch in (wine[90:130], wine[130:]):
        model.partial_fit(batch)
        for name in ("objective_", "objective_history_", "structure_err_"):
            assert not hasattr(model, name)
    best = np.linalg.norm(wine - model.transform(wine) @ model.components_)
    assert 0.95 * best < model.reconstruction_err_ < 1.15 * best
    assert not hasattr(cls(3, random_state=0).partial_fit(wine), "objective_")


def test_sparse_is_dense() -> None:
    """A sparse batch teaches what the same batch does as an array, and the two may alternate."""
    rng = np.random.default_rng(0)
    X = rng.random((400, 4)) @ rng.random((4, 25)) * (rng.random((400, 25)) < 0.3)
    for cls in BOTH:
        dense = streamed(cls(4, random_state=0), X, 100)
        stored = streamed(cls(4, random_state=0), sparse.csr_matrix(X), 100)
        np.testing.assert_allclose(stored.components_, dense.components_, rtol=1e-6, atol=1e-8)
        mixed = cls(4, random_state=0).partial_fit(X[:100]).partial_fit(sparse.csc_matrix(X[100:200]))
        streamed(mixed, X[200:], 100)
        np.testing.assert_allclose(mixed.components_, dense.components_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("cls", BOTH)
def test_float32(cls: type, digits: np.ndarray) -> None:
    """Single precision stays, and ends near double precision."""
    X = digits[::3]
    narrow, wide = streamed(cls(5, random_state=0), X.astype(np.float32), 150), streamed(cls(5, random_state=0), X, 150)
    assert narrow.components_.dtype == narrow.transform(X.astype(np.float32)).dtype == np.float32
    assert abs(objective(narrow, X) / objective(wide, X) - 1) < 0.02


@pytest.mark.parametrize("cls", BOTH)
def test_normalize(cls: type, wine: np.ndarray) -> None:
    """Unit-length components, codes in their unit: what they say together is the same."""
    plain, unit = (streamed(cls(3, normalize=flag, random_state=0), wine, 60) for flag in (False, True))
    np.testing.assert_allclose(np.linalg.norm(unit.components_, axis=1), 1.0)
    np.testing.assert_allclose(
        unit.inverse_transform(unit.transform(wine)), plain.inverse_transform(plain.transform(wine)), rtol=1e-9
    )


def test_lam_is_a_unit(wine: np.ndarray) -> None:
    """Also in a stream, lam changes codes and components by one factor and nothing else."""
    one, other = (streamed(DSPNMF(3, lam=lam, random_state=0), wine, 60) for lam in (1.0, 100.0))
    np.testing.assert_allclose(other.components_, 10 * one.components_, rtol=1e-6)
    np.testing.assert_allclose(other.transform(wine), one.transform(wine) / 10, rtol=1e-6, atol=1e-9)


def test_cosine_similarities(wine: np.ndarray) -> None:
    """Cosines may be what a stream preserves: its codes keep them nearly as well as the fit's."""
    X = wine[np.random.default_rng(0).permutation(len(wine))] + 0.1
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)

    def gap(model: Any) -> float:
        Z = model.transform(X)
        return float(np.linalg.norm(unit @ unit.T - Z @ Z.T))

    whole = DSPNMF(3, alpha=10.0, similarity="cosine", random_state=0).fit(X)
    one = streamed(DSPNMF(3, alpha=10.0, similarity="cosine", random_state=0), X, 60)
    assert one.components_.shape == (3, 13)
    assert gap(one) < 1.1 * gap(whole)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_a_later_batch_may_be_larger(unit: float, planted: np.ndarray) -> None:
    """The unit the solver works in stays that of the first batch, whatever comes later."""
    X = np.vstack([planted[:500] * unit, planted[500:3000]])
    for cls, options in ((NMF, {}), (DSPNMF, {"alpha": natural(X)})):
        whole = objective(cls(5, random_state=0, **options).fit(X), X)
        model = streamed(cls(5, random_state=0, **options), X, 500)
        assert objective(model, X) < 1.05 * whole


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**70])
def test_units(unit: float, wine: np.ndarray) -> None:
    """Data in another unit give the same stream in that unit (alpha scaled with it)."""
    one = streamed(DSPNMF(3, alpha=0.5, random_state=0), wine, 60)
    other = streamed(DSPNMF(3, alpha=0.5 / unit**2, random_state=0), wine * unit, 60)
    np.testing.assert_allclose(other.components_, one.components_, rtol=1e-7)
    np.testing.assert_allclose(other.transform(wine * unit) / unit, one.transform(wine), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(other.reconstruction_err_ / unit, one.reconstruction_err_, rtol=1e-7)


@pytest.mark.parametrize("cls", BOTH)
def test_rows_of_zeros(cls: type, wine: np.ndarray) -> None:
    """Batches of zeros teach nothing, first or later, and are counted; the first other rows begin."""
    zeros = np.zeros((20, 13))
    model = cls(3, random_state=0).partial_fit(zeros).partial_fit(zeros).partial_fit(wine)
    np.testing.assert_array_equal(model.components_, cls(3, random_state=0).fit(wine).components_)
    assert (model.n_samples_seen_, model.n_steps_) == (40 + len(wine), 3)
    before = objective(model, wine)
    assert objective(model.partial_fit(zeros), wine) < 1.05 * before


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("k", [1, 7])
def test_degenerate_batches(cls: type, k: int) -> None:
    """Constant rows, one row, empty columns, more components than anything: finite, non-negative, no warning."""
    parts = [np.full((3, 4), 2.0), np.eye(4), np.hstack([np.zeros((5, 2)), np.ones((5, 2))]), np.ones((1, 4)) * 1e6]
    for kind in (np.float64, np.float32):
        model = cls(k, random_state=0, max_iter=8, tol=0)
        for part in parts * 2:
            model.partial_fit(part.astype(kind))
            for array in (model.components_, model.transform(part.astype(kind))):
                assert np.isfinite(array).all()
                assert array.min() >= 0
            assert np.isfinite(model.reconstruction_err_)


def test_the_size_of_the_objective(digits: np.ndarray) -> None:
    """A hundred rows tell how large the objective is well enough to know when a batch is done."""
    k, alpha = 10, 1.0
    model = DSPNMF(k, alpha=alpha, random_state=0)
    Z = model.fit_transform(digits)
    data = MemoryData(digits, MEMORY, 1.0)
    rows = data.rows(k, 1.0)
    rows.begin(Z.copy())
    terms = {"reconstruction": Reconstruction(data.norm2(1.0)), "structure": GramSimilarity(0.0)}
    total = Objective(terms, {"reconstruction": 1.0, "structure": alpha})
    about = _Size(data, rows, total, len(digits), "X")(State(model.components_.T.copy(), *rows.sums()))
    assert 0.5 < about / model.objective_ < 2


def test_iterations_follow_tol_and_max_iter(wine: np.ndarray) -> None:
    """A later batch stops by tol or max_iter, and says so where it had to stop early."""
    X = wine[np.argsort(wine[:, 0])]
    loose, strict = (DSPNMF(3, tol=tol, max_iter=2000, random_state=0).partial_fit(X[:90]) for tol in (1e-2, 1e-5))
    assert loose.partial_fit(X[90:]).n_iter_ < strict.partial_fit(X[90:]).n_iter_ < 2000
    model = DSPNMF(3, random_state=0).partial_fit(X[:90])
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 iterations .*Increase max_iter"):
        model.set_params(max_iter=1, tol=1e-9).partial_fit(X[90:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.set_params(max_iter=3, tol=0).partial_fit(X[90:]).n_iter_ == 3


def test_frames(wine: np.ndarray) -> None:
    """Batches may be data frames; their columns must stay in order."""
    frame = pd.DataFrame(wine, columns=[f"c{i}" for i in range(13)])
    model = NMF(3, random_state=0).partial_fit(frame[:90]).partial_fit(frame[90:])
    np.testing.assert_array_equal(
        model.components_, NMF(3, random_state=0).partial_fit(wine[:90]).partial_fit(wine[90:]).components_
    )
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[frame.columns[::-1]])


def test_tensors(wine: np.ndarray) -> None:
    """Tensors of the CPU are batches too; components are one then."""
    torch = pytest.importorskip("torch")
    model = NMF(3, random_state=0).partial_fit(torch.from_numpy(wine[:90])).partial_fit(torch.from_numpy(wine[90:]))
    expected = NMF(3, random_state=0).partial_fit(wine[:90]).partial_fit(wine[90:])
    np.testing.assert_array_equal(model.components_.numpy(), expected.components_)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"forget_factor": 0.0}, r"forget_factor=0.0 is not allowed in DSPNMF: it must be a number > 0 and <= 1"),
        ({"forget_factor": 1.5}, "forget_factor=1.5 is not allowed"),
        ({"forget_factor": True}, "forget_factor=True is not allowed"),
        ({"similarity": "knn"}, r"similarity='knn' does not work with partial_fit.*'gram', 'cosine', or fit"),
        ({"similarity": np.eye(5)}, "similarity=a matrix does not work with partial_fit"),
        ({"solver": "mm"}, r"solver='mm' does not work with partial_fit.*'auto', .*'newton-cg', 'hals'"),
        ({"solver": "paper"}, "solver='paper' does not work with partial_fit"),
    ],
)
def test_what_a_stream_cannot_be(options: dict[str, Any], text: str) -> None:
    """Parameters that make no sense for batches are refused before any work."""
    with pytest.raises(ValueError, match=text):
        DSPNMF(2, **options).partial_fit(np.ones((5, 4)))


def test_bad_batches(wine: np.ndarray) -> None:
    """A batch of another width or precision, with bad cells or with a start is refused, and nothing changes."""
    model = DSPNMF(3, random_state=0).partial_fit(wine[:90])
    before = copy.deepcopy(vars(model))
    holes, negative = wine[90:].copy(), -wine[90:]
    holes[1, 2] = np.nan
    for X, start, text in (
        (wine[90:, :5], {}, "X has 5 features, but DSPNMF is expecting 13"),
        (wine[90:].astype(np.float32), {}, r"X is float32, but the rows before it were float64: pass X.astype"),
        (holes, {}, r"contains NaN, first at X\[1, 2\]"),
        (negative, {}, "Negative values"),
        (wine[90:] + 1j, {}, "Complex data not supported"),
        (np.empty((0, 13)), {}, "0 sample"),
        (wine[90:], {"H": np.ones((3, 13))}, "not the first batch"),
    ):
        with pytest.raises(ValueError, match=text):
            model.partial_fit(X, **start)
    assert_same(vars(model), before)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"alpha": 2.0}, r"alpha=2.0, but this DSPNMF began with 1.0.*set_params\(alpha=1.0\), or fit"),
        ({"lam": 3.0}, "lam=3.0, but this DSPNMF began with 1.0"),
        ({"n_components": 4}, "n_components=4, but this DSPNMF began with 3"),
        ({"similarity": "cosine"}, "similarity='cosine', but this DSPNMF began with 'gram'"),
    ],
)
def test_the_objective_stays(change: dict[str, Any], text: str, wine: np.ndarray) -> None:
    """A stream keeps the objective it began with."""
    model = DSPNMF(3, random_state=0).fit(wine)
    with pytest.raises(ValueError, match=text):
        model.set_params(**change).partial_fit(wine)


def test_batches_elsewhere(wine: np.ndarray) -> None:
    """A Dask array is no batch, and the message says what is; a fit of one can go on with rows in memory."""
    dask_array = pytest.importorskip("dask.array")
    far = dask_array.from_array(wine[:120], chunks=(60, 13))
    with pytest.raises(ValueError, match="batches in memory, but X is a Dask array: pass some of its rows"):
        NMF(3).partial_fit(far)
    model = NMF(3, random_state=0).fit(far).partial_fit(wine[120:])
    near = NMF(3, random_state=0).fit(wine[:120]).partial_fit(wine[120:])
    np.testing.assert_allclose(model.components_, near.components_, rtol=1e-6, atol=1e-9)


def test_methods_that_stream() -> None:
    """`partial_fit` exists where sums of the rows say all there is to know, and nowhere else."""
    methods = [getattr(dspnmf, name) for name in dspnmf.__all__ if name[0].isupper()]
    assert {cls for cls in methods if hasattr(cls, "partial_fit")} == {DSPNMF, NMF, MiniBatchNMF}
