"""Batches where errors are measured by a divergence: of earlier rows a bound is left, which no batch raises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import decomposition

import dspnmf
import reference
from divergent import counts, powers, start
from dspnmf import DSPNMF, NMF, MiniBatchNMF
from dspnmf.backends.divergence_history import DivergenceBound, DivergenceRowsWithHistory
from dspnmf.backends.memory import MEMORY, MemoryData
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import DivergenceModel
from dspnmf.objective.divergence import Divergence
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.terms import GramSimilarity
from dspnmf.solvers.divergence import DivergenceDescent
from dspnmf.solvers.loop import iterate

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
losses = pytest.mark.parametrize("beta", [1, 0, 0.5, 1.5, 3])


def rows_of(X: Any, k: int = 3, seed: int = 1) -> tuple[Any, Any]:
    """Rows with codes, and components."""
    W, H = start(X, k, seed)
    rows = MemoryData(X, MEMORY, float(X.max())).divergence_rows(k, 1.0)
    rows.begin(W)
    return rows, np.ascontiguousarray(H.T)


def streamed(model: Any, X: Any, size: int) -> Any:
    """The model after one pass."""
    for i in range(0, X.shape[0], size):
        model.partial_fit(X[i : i + size])
    return model


def error(model: Any, X: Any, beta: float) -> float:
    """The divergence with the codes the model gives to all rows."""
    dense = X.toarray() if sparse.issparse(X) else X
    return reference.divergence(dense, np.maximum(model.transform(X) @ model.components_, 1e-50), beta)


@losses
def test_what_is_left_of_a_batch_bounds_its_divergence(beta: float) -> None:
    """At the components it was made with it is the divergence, at all others no less."""
    X = powers()
    rows, Vt = rows_of(X)
    bound = DivergenceBound.of(rows.improve(DivergenceModel(beta, Vt), 0), beta, Vt)
    codes = rows.codes.copy()
    assert bound.value(beta, Vt) == pytest.approx(reference.divergence(X, codes @ Vt.T, beta), rel=1e-9)
    half = bound.weighted(0.5)
    rng = np.random.default_rng(0)
    for size in (0.01, 0.3, 3.0):
        V = Vt * np.exp(size * rng.standard_normal(Vt.shape))
        actual = reference.divergence(X, codes @ V.T, beta)
        assert bound.value(beta, V) >= actual * (1 - 1e-9)
        assert half.value(beta, V) == pytest.approx(bound.value(beta, V) / 2, rel=1e-9)
        if size == 0.01:
            assert bound.value(beta, V) <= actual * 1.01


@losses
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_missing_cells_have_no_part_in_what_is_left_of_a_batch(kind: Any, beta: float) -> None:
    """The bound is that of the known cells: their divergence at the components it was made with, and never less."""
    X, missing = powers(), np.random.default_rng(3).random(powers().shape) < 0.2
    missing[:, 4] = True
    rows, Vt = rows_of(kind(np.where(missing, np.nan, X)))
    codes, known = rows.codes.copy(), ~missing
    bound = DivergenceBound.of(rows.improve(DivergenceModel(beta, Vt), 0), beta, Vt)
    rng = np.random.default_rng(0)
    for size in (0.0, 0.3, 3.0):
        V = Vt * np.exp(size * rng.standard_normal(Vt.shape))
        actual = reference.divergence(X[known], (codes @ V.T)[known], beta)
        assert bound.value(beta, V) >= actual * (1 - 1e-9)
        if size == 0:
            assert bound.value(beta, V) == pytest.approx(actual, rel=1e-9)


@pytest.mark.parametrize("loss", ["kullback-leibler", "itakura-saito", 1.5])
def test_a_stream_of_incomplete_rows_comes_close_to_a_fit(loss: Any) -> None:
    """Batches with missing cells, one feature missing in all of the first, end near a fit on all known cells."""
    X = powers(400, 30)
    missing = np.random.default_rng(0).random(X.shape) < 0.2
    missing[:80, 7] = True
    A, beta = np.where(missing, np.nan, X), {"kullback-leibler": 1, "itakura-saito": 0}.get(loss, loss)
    parameters = {"beta_loss": loss, "missing": "mask", "random_state": 0, "max_iter": 50}
    whole = NMF(4, **parameters).fit(A)
    for model in (streamed(NMF(4, **parameters), A, 80), MiniBatchNMF(4, batch_size=80, **parameters).fit(A)):
        product = np.maximum(model.transform(A) @ model.components_, 1e-50)
        assert reference.divergence(X[~missing], product[~missing], beta) <= 1.15 * whole.objective_
        column = ~missing[:, 7]
        alone = reference.divergence(X[column, 7], np.full(column.sum(), X[column, 7].mean()), beta)
        assert reference.divergence(X[column, 7], product[column, 7], beta) < 0.9 * alone


@losses
@pytest.mark.parametrize("alpha", [0.0, 0.03, 3.0])
def test_a_batch_never_raises_its_objective_and_the_bound_of_others(beta: float, alpha: float) -> None:
    """A descent takes both together: its objective is their sum, with the similarities of all rows; no iteration rises.

    The codes of earlier rows stay as they are.
    """
    (earlier, Vt), (later, _) = rows_of(powers()), rows_of(powers(seed=1), seed=2)
    bound = DivergenceBound.of(earlier.improve(DivergenceModel(beta, Vt), 2), beta, Vt)
    U, X = earlier.codes.copy(), np.vstack([powers(), powers(seed=1)])
    terms: dict[str, Term] = {"reconstruction": Divergence(beta, 1.0)}
    terms |= {"structure": GramSimilarity(float(np.square(X @ X.T).sum()))} if alpha else {}
    objective = Objective(terms, {"reconstruction": 1.0, "structure": alpha})
    both: Rows = DivergenceRowsWithHistory(later, bound, powers().T @ U, U.T @ U, 40)  # type: ignore[assignment]
    update = DivergenceDescent()
    value, s = update.begin(both, objective, Vt)
    steps, values = iterate(both, objective, update, value, s), [value]
    next(steps)
    for _ in range(15):
        value, s = next(steps)
        values.append(value)
    assert (np.diff(values) <= 1e-12 * abs(values[0])).all()
    assert values[-1] < 0.9 * values[0]
    now = reference.divergence(powers(seed=1), later.codes @ s.Vt.T, beta)
    codes = np.vstack([U, later.codes])
    now += alpha * float(np.square(X @ X.T - codes @ codes.T).sum())
    assert values[-1] == pytest.approx(now + bound.value(beta, s.Vt), rel=1e-9)


@pytest.mark.parametrize("alpha", [1e-4, 1e-2])
@pytest.mark.parametrize("beta", [1, 1.5])
def test_a_stream_preserves_similarities(beta: float, alpha: float) -> None:
    """One pass in batches with a structure term ends near a fit on all rows, far below a pass without it."""
    X = counts(400, 30)
    parameters = {"beta_loss": beta, "random_state": 0, "max_iter": 50}

    def objective(model: Any) -> float:
        Z = model.transform(X)
        return error(model, X, beta) + alpha * float(np.square(X @ X.T - Z @ Z.T).sum())

    whole = DSPNMF(4, alpha=alpha, **parameters).fit(X)
    model = streamed(DSPNMF(4, alpha=alpha, **parameters), X, 80)
    assert model.alpha_ == alpha
    assert not hasattr(model, "structure_err_")
    assert objective(model) <= 1.1 * whole.objective_
    assert objective(model) <= 0.2 * objective(streamed(DSPNMF(4, alpha=0, **parameters), X, 80))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_stream_comes_close_to_a_fit(kind: Any) -> None:
    """One pass in batches ends near the divergence of a fit on all rows; its error is a bound."""
    X = kind(counts(400, 30))
    parameters = {"beta_loss": "kullback-leibler", "random_state": 0, "max_iter": 50}
    whole = NMF(4, **parameters).fit(X)
    model = streamed(NMF(4, **parameters), X, 80)
    assert (model.n_samples_seen_, model.n_steps_) == (400, 5)
    assert not hasattr(model, "objective_")
    assert error(model, X, 1) <= 1.05 * whole.objective_
    assert np.sqrt(2 * error(model, X, 1)) <= model.reconstruction_err_ * (1 + 1e-6) <= 1.2 * whole.reconstruction_err_


def test_penalties_shrink_what_a_stream_learns() -> None:
    """L1 in partial_fit gives sparser components than none, as in a fit on all rows."""
    X = counts(200, 30)
    plain, sparser = (
        streamed(NMF(4, beta_loss=1, random_state=0, alpha_H=weight, l1_ratio=1.0), X, 50).components_
        for weight in (0.0, 0.2)
    )
    assert sparser.sum() < 0.9 * plain.sum()


def test_forgetting_follows_the_newest_rows() -> None:
    """With a small factor, rows of another kind outweigh those before."""
    old, new = counts(200, 30, 2, seed=0), counts(200, 30, 2, seed=5)
    fast, slow = (
        streamed(NMF(2, beta_loss=1, random_state=0, forget_factor=f), np.vstack([old, new]), 50) for f in (0.1, 1.0)
    )
    assert error(fast, new, 1) < 0.95 * error(slow, new, 1)


def test_features_that_appear_late_are_learned() -> None:
    """A word that no earlier row had becomes part of the components, whose codes stay finite."""
    X = counts(200, 30)
    X[:100, 5] = 0
    X[100:, 5] += 1
    model = NMF(3, beta_loss=1, random_state=0).partial_fit(X[:100])
    assert model.components_[:, 5].max() < 1e-6
    model.partial_fit(X[100:])
    assert model.components_[:, 5].max() > 1e-3
    product = (model.transform(X[100:]) @ model.components_)[:, 5]
    assert 0.5 * X[100:, 5].mean() < product.mean() < 2 * X[100:, 5].mean()


def test_rows_of_zeros_begin_nothing() -> None:
    """The first rows that are not zero are fitted as a first batch."""
    X = counts()
    late = NMF(3, beta_loss=1, random_state=0).partial_fit(np.zeros((5, 25))).partial_fit(X)
    np.testing.assert_allclose(late.components_, NMF(3, beta_loss=1, random_state=0).partial_fit(X).components_)
    assert (late.n_samples_seen_, late.n_steps_) == (45, 2)


def test_what_does_not_go_with_batches_is_an_error_that_says_what_does() -> None:
    """Another loss than that of the first batch, and zeros where they have no divergence are named."""
    X = counts()
    for before, now in ((1, "frobenius"), ("frobenius", 1)):
        model = NMF(3, beta_loss=before).partial_fit(X).set_params(beta_loss=now)
        with pytest.raises(ValueError, match=f"beta_loss={now!r}, but this NMF began with {before!r}"):
            model.partial_fit(X)
    with pytest.raises(ValueError, match="contains zeros"):
        NMF(3, beta_loss=0).partial_fit(powers()).partial_fit(X)
    streamed(DSPNMF(3, beta_loss=1, alpha=0), X, 20)


def test_a_saved_stream_goes_on_where_it_was(tmp_path: Any) -> None:
    """A model file holds the bound; one that does not fit is refused."""
    X = counts(80)
    model = NMF(3, beta_loss=1, random_state=0).partial_fit(X[:40])
    dspnmf.save(model, tmp_path / "model.skops")
    loaded = dspnmf.load(tmp_path / "model.skops").partial_fit(X[40:])
    np.testing.assert_array_equal(loaded.components_, model.partial_fit(X[40:]).components_)
    state = model._transform_state
    for bad in ({"pull": np.ones((3, 3))}, {"push": -np.ones((25, 3))}, {"constant": np.nan}, {"mass": -1.0}):
        divergence = replace(state.divergence, batches=replace(state.divergence.batches, **bad))
        model._transform_state = replace(state, divergence=divergence)
        dspnmf.save(model, tmp_path / "bad.skops")
        with pytest.raises(ValueError, match=next(iter(bad))):
            dspnmf.load(tmp_path / "bad.skops")


@pytest.mark.parametrize("loss", ["kullback-leibler", 1.5])
def test_batches_of_a_fit_are_as_good_as_scikit_learns(loss: Any) -> None:
    """`MiniBatchNMF` ends at most at the divergence scikit-learn's does, and says what it is."""
    X = sparse.csr_array(counts(600, 40))
    parameters = {"beta_loss": loss, "batch_size": 100, "init": "random", "random_state": 0}
    peer = decomposition.MiniBatchNMF(4, **parameters).fit(X)
    model = MiniBatchNMF(4, **parameters).fit(X)
    distance = error(model, X, 1 if loss == "kullback-leibler" else 1.5)
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(2 * distance), rel=1e-8)
    assert model.reconstruction_err_ <= peer.reconstruction_err_
    assert model.n_steps_ > 6


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_streams_of_tensors(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches on a device end where batches in memory end, about."""
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    from device_tensors import AnyDevice, tensor
    from dspnmf.backends import tensors

    torch.set_num_threads(1)  # small tensors are not worth more
    X = kind(counts(200, 30))
    expected = streamed(NMF(3, beta_loss=1, random_state=0), X, 50)
    monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    model = NMF(3, beta_loss=1, random_state=0)
    for i in range(0, 200, 50):
        model.partial_fit(tensor(X[i : i + 50], "cpu"))
    assert isinstance(model.components_, torch.Tensor)
    model.components_ = model.components_.numpy()
    assert error(model, X, 1) <= 1.01 * error(expected, X, 1)
