"""DSPNMFCV: the right rank, an honest score, the same answer however it is computed."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dspnmf import DSPNMF, DSPNMFCV
from dspnmf.selection import candidates, fits, held_out_cells, results
from dspnmf.selection.fits import path, scored_path
from dspnmf.selection.held_out_rows import LabelScoring, NeighbourScoring, folds
from dspnmf.stability import stability


def planted(k: int, noise: float, seed: int, shape: tuple[int, int] = (300, 60)) -> np.ndarray:
    """X = UV + noise (a share of the norm), cut at 0; half the cells of U and V are zero."""
    rng = np.random.default_rng(seed)
    U, V = (rng.gamma(1.0, size=size) * (rng.random(size) < 0.5) for size in ((shape[0], k), (k, shape[1])))
    X, E = U @ V, rng.standard_normal(shape)
    return np.maximum(X + E * (noise * np.linalg.norm(X) / np.linalg.norm(E)), 0)


def quick(**parameters: Any) -> DSPNMFCV:
    """A small search."""
    return DSPNMFCV(**{"n_components": [2, 3], "alphas": 3, "cv": 3, "random_state": 0, "tol": 1e-3, **parameters})


@pytest.fixture(scope="module")
def wine_labels() -> Any:
    """The classes of wine."""
    return load_wine().target


@parametrize_with_checks([DSPNMFCV([1, 2], alphas=2, cv=2, max_iter=8)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """All of scikit-learn's estimator checks, none expected to fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


# -- the rank, without labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "noise"), [(3, 0.05), (6, 0.2)])
def test_planted_rank(k: int, noise: float) -> None:
    """The rank the data were made with is found."""
    search = DSPNMFCV([2, 3, 4, 5, 6, 7, 9], alphas=[0.0], cv=3, random_state=0, tol=1e-3)
    assert search.fit(planted(k, noise, 0, (150, 40))).n_components_ == k
    assert int(np.argmin(search.rank_results_["mean_error"])) == search.n_components_ - 2


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "off"), [(0.05, 0), (0.2, 1)])
@pytest.mark.parametrize("k", [3, 6, 12])
def test_planted_ranks(k: int, noise: float, off: int) -> None:
    """In 8 of 10 cases at least, of ranks 2 to 16: exactly with 5 % noise, within one with 20 %."""
    found = [
        DSPNMFCV(range(2, 17), alphas=[0.0], random_state=seed, n_jobs=2).fit(planted(k, noise, seed)).n_components_
        for seed in range(10)
    ]
    assert sum(abs(rank - k) <= off for rank in found) >= 8, found


def test_held_out_cells_of_an_array() -> None:
    """All folds together hold out every cell once, and each takes an even share of every row."""
    X = np.ones((11, 7))
    seen = np.zeros(X.shape)
    for fold in range(3):
        rows, columns = held_out_cells.held_out(X, fold, 3, 0)
        seen[rows, columns] += 1
        assert set(np.bincount(rows, minlength=11)) <= {2, 3}
    assert (seen == 1).all()


def test_held_out_cells_of_a_sparse_matrix() -> None:
    """Zeros are held out like other cells, no more than X stores, and no two folds alike."""
    X = sparse.random_array((400, 300), density=0.01, rng=np.random.default_rng(0), format="csr")
    cells = [set(zip(*held_out_cells.held_out(X, fold, 5, 0), strict=True)) for fold in range(5)]
    assert all(0.9 * X.nnz < len(cell) <= X.nnz for cell in cells)
    assert not cells[0] & cells[1] or len(cells[0] & cells[1]) < 0.1 * len(cells[0])
    stored = sum(X[row, column] != 0 for row, column in cells[0])
    assert 0 < stored < 0.05 * X.nnz


def test_holding_out() -> None:
    """Exactly the cells named become NaN, in arrays and in sparse matrices, stored or not."""
    X = np.random.default_rng(0).random((30, 20)) * (np.random.default_rng(1).random((30, 20)) < 0.3)
    rows, columns = held_out_cells.held_out(X, 1, 4, 7)
    expected = X.copy()
    expected[rows, columns] = np.nan
    np.testing.assert_array_equal(held_out_cells.without(X, rows, columns), expected)
    for kind in (sparse.csr_matrix, sparse.csr_array):
        masked = held_out_cells.without(kind(X), rows, columns)
        np.testing.assert_array_equal(masked.toarray(), expected)
        assert np.isnan(masked.data).sum() == len(rows)


def test_errors_are_of_held_out_cells_only() -> None:
    """Noise that cannot be predicted leaves an error of its size, however well the fit knows the other cells."""
    X = planted(3, 0.2, 1)
    found = DSPNMFCV([3, 16], alphas=[0.0], cv=3, random_state=0, tol=1e-3).fit(X).rank_results_
    assert 0.02 < found["mean_error"][0] < found["mean_error"][1]
    columns = [f"split{fold}_error" for fold in range(3)]
    np.testing.assert_allclose(found["mean_error"], np.mean([found[name] for name in columns], axis=0))
    np.testing.assert_allclose(found["std_error"], np.std([found[name] for name in columns], axis=0))
    assert found["stability"][0] > found["stability"][1]
    assert len(pd.DataFrame(found)) == 2


# -- the weight ----------------------------------------------------------------------------------------------------


def test_neighbours_as_defined(wine: np.ndarray) -> None:
    """The score without labels is the share of nearest training rows kept, by brute force."""
    (fold, *_), rng = folds(4, wine, None, 0), np.random.default_rng(0)
    train, test = wine[fold.train], wine[fold.test]
    Z, Z_test = rng.random((len(train), 3)), rng.random((len(test), 3))
    near = [[set(np.argsort(np.linalg.norm(A - b, axis=1))[:10]) for b in B] for A, B in ((train, test), (Z, Z_test))]
    expected = np.mean([len(one & other) / 10 for one, other in zip(*near, strict=True)])
    assert NeighbourScoring(10).of_fold(train, test, fold)(Z, Z_test) == pytest.approx(expected)
    assert NeighbourScoring(10).of_fold(train, test, fold)(5 * train, 5 * test) == 1.0


def test_scores_as_by_hand(wine: np.ndarray, wine_labels: Any) -> None:
    """Scores are those of a classifier on codes of a fit that saw neither the rows nor the labels held out."""
    search = quick(n_components=3, alphas=[0.5], tol=1e-4).fit(wine, wine_labels)
    seeds = np.random.RandomState(0)
    cut = seeds.randint(2**31 - 1, size=3)[0]
    starts = seeds.randint(2**31 - 1, size=3)
    splits = StratifiedKFold(3, shuffle=True, random_state=cut).split(wine, wine_labels)
    for fold, (train, test) in enumerate(splits):
        model = DSPNMF(3, alpha=0.5, normalize=True, random_state=starts[fold])
        classifier = KNeighborsClassifier(3).fit(model.fit_transform(wine[train]), wine_labels[train])
        expected = classifier.score(model.transform(wine[test]), wine_labels[test])
        assert search.cv_results_[f"split{fold}_test_score"][0] == pytest.approx(expected)


def test_the_path(wine: np.ndarray) -> None:
    """The first fit is one of its own, each other begins where the last ended, with components at unit length."""
    first = DSPNMF(3, random_state=3, normalize=False)
    alphas = np.array([0.0, 0.01, 1.0])
    (plain, Z), (second, _), (third, _) = path(wine, None, alphas, first)
    np.testing.assert_array_equal(plain.components_, clone(first).set_params(alpha=0.0).fit(wine).components_)
    length = np.linalg.norm(plain.components_, axis=1)
    U, V = Z * length, plain.components_ / length[:, None]
    start = np.linalg.norm(wine - U @ V) ** 2 + 0.01 * np.linalg.norm(wine @ wine.T - U @ U.T) ** 2
    assert second.objective_history_[0] == pytest.approx(start, rel=1e-8)
    assert [model.get_params() for model in (plain, second, third)] == [
        {**first.get_params(), "alpha": alpha} for alpha in alphas
    ]


def test_the_grid_of_weights(digits: np.ndarray) -> None:
    """0, then powers of ten times the weight at which both terms are equal at U = 0; or those given, in order."""
    alphas = candidates.alpha_grid(7, digits)
    natural = np.linalg.norm(digits) ** 2 / np.linalg.norm(digits @ digits.T) ** 2
    np.testing.assert_allclose(alphas, natural * np.array([0, 0.1, 1, 10, 100, 1e3, 1e4]), rtol=1e-9)
    np.testing.assert_allclose(candidates.alpha_grid(2, digits), [0, natural * np.sqrt(1e3)], rtol=1e-9)
    np.testing.assert_array_equal(candidates.alpha_grid([3, 0, 1.5, 3], digits), [0, 1.5, 3])
    np.testing.assert_array_equal(candidates.alpha_grid(3, np.zeros((4, 3))), [0, 0.1, 1e4])


def test_a_weight_is_worth_having(digits: np.ndarray) -> None:
    """On digits, structure helps new rows: with and without labels some alpha above 0 is chosen, and beats 0."""
    y = load_digits().target
    for labels in (None, y[:500]):
        search = DSPNMFCV(10, alphas=4, cv=3, random_state=0, tol=1e-3).fit(digits[:500], labels)
        assert search.alpha_ > 0
        assert search.best_score_ > search.cv_results_["mean_test_score"][0] + 0.01


def test_ranks_by_default() -> None:
    """Ranks of "auto" stop at the features and at the training rows; there is always one."""
    assert candidates.rank_grid("auto", 100, 13).tolist() == [2, 3, 5, 8, 12]
    assert candidates.rank_grid("auto", 4, 13).tolist() == [2, 3]
    assert candidates.rank_grid("auto", 100, 1).tolist() == [1]
    assert candidates.rank_grid([5, 2, 5], 100, 13).tolist() == [2, 5]
    assert candidates.rank_grid(4, 100, 13).tolist() == [4]


# -- honesty -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label_weight", [0.0, 10.0])
def test_shuffled_labels_score_at_chance(label_weight: float, digits: np.ndarray) -> None:
    """Labels that say nothing score one in ten on rows held out, also where they take part in the fit."""
    y = np.random.default_rng(0).permutation(load_digits().target[:600])
    search = DSPNMFCV(8, alphas=[0.0, 0.01], label_weights=[label_weight], cv=3, random_state=0, tol=1e-3)
    search.fit(digits[:600], y)
    assert (np.abs(search.cv_results_["mean_test_score"] - 0.1) < 3 * np.sqrt(0.09 / 600)).all()


def test_a_leak_would_not_score_at_chance(digits: np.ndarray) -> None:
    """The check above has teeth: codes of rows that were fitted with their labels tell shuffled labels."""
    y = np.random.default_rng(0).permutation(load_digits().target[:600])
    Z = DSPNMF(8, alpha=0.0, label_weight=10.0, random_state=0, normalize=True, tol=1e-3).fit_transform(digits[:600], y)
    (fold, *_) = folds(3, digits[:600], y, 0)
    score = LabelScoring(None, lambda model, A, b: model.score(A, b), y, 0).of_fold(None, None, fold)
    assert score(Z[fold.train], Z[fold.test]) > 0.1 + 3 * np.sqrt(0.09 / 200)


@pytest.mark.parametrize("label_weight", [0.0, 5.0])
def test_held_out_labels_reach_no_fit(label_weight: float, wine: np.ndarray, wine_labels: Any) -> None:
    """Components of a fold are the same, bit by bit, whatever the labels of the rows held out; not of others."""
    (fold, *_) = folds(3, wine, wine_labels, 0)
    scoring = LabelScoring(None, lambda model, A, b: model.score(A, b), wine_labels, 0)
    first = DSPNMF(3, label_weight=label_weight, random_state=0, max_iter=20, tol=0)

    def components(y: Any) -> np.ndarray:
        return scored_path(wine, y, fold, np.array([0.0, 0.1]), first, scoring)[-1].components

    other_test, other_train = wine_labels.copy(), wine_labels.copy()
    other_test[fold.test] = 2 - other_test[fold.test]
    other_train[fold.train] = np.random.default_rng(0).permutation(other_train[fold.train])
    np.testing.assert_array_equal(components(other_test), components(wine_labels))
    same = np.array_equal(components(other_train), components(wine_labels))
    assert same == (label_weight == 0)


def test_rows_without_labels(wine: np.ndarray, wine_labels: Any) -> None:
    """Rows labelled -1 are in every training set, never scored, and no class of their own."""
    y = np.where(np.arange(len(wine)) % 3 == 0, -1, wine_labels)
    parts = folds(4, wine, y, 0)
    for part in parts:
        assert set(np.flatnonzero(y == -1)) <= set(part.train)
        assert not set(part.train) & set(part.test)
    np.testing.assert_array_equal(np.sort(np.concatenate([part.test for part in parts])), np.flatnonzero(y != -1))
    search = quick(label_weights=[0.0, 1.0]).fit(wine, y)
    assert search.best_score_ > 0.85
    assert search.cv_results_["param_label_weight"].tolist() == [0.0] * 3 + [1.0] * 3 + [0.0] * 3 + [1.0] * 3


def test_labels_help_where_they_are_few(wine: np.ndarray, wine_labels: Any) -> None:
    """A label weight that is chosen is the one the last fit has."""
    search = quick(label_weights=[2.0]).fit(wine, wine_labels)
    assert search.label_weight_ == search.best_estimator_.label_weight == search.best_params_["label_weight"] == 2.0
    assert search.best_estimator_.label_components_.shape == (search.n_components_, 3)


# -- the choice and what comes of it -------------------------------------------------------------------------------


def test_rules() -> None:
    """The rule "best" takes the best mean, the first of equals; "one-se" the first within a standard error of it."""
    scores = np.array([[0.70, 0.70, 0.70], [0.85, 0.95, 0.87], [0.90, 0.96, 0.90], [0.90, 0.96, 0.90]])
    assert results.chosen(scores, "best") == 2
    assert scores[2].std(ddof=1) / np.sqrt(3) == pytest.approx(0.02)
    assert results.chosen(scores, "one-se") == 2
    scores[1] += 0.015
    assert results.chosen(scores, "one-se") == 1
    assert results.chosen(scores[:, :1], "one-se") == 2


def test_one_standard_error_is_simpler(wine: np.ndarray, wine_labels: Any) -> None:
    """The rule "one-se" takes the smallest rank and weights where folds differ more than candidates do."""

    def scoring(model: Any, Z: Any, y: Any) -> float:
        return float(0.001 * model.n_features_in_ + y.mean())

    parameters = {"scoring": scoring, "cv": KFold(3), "label_weights": [0.0, 1.0], "tol": 1e-2}
    best, simple = (quick(rule=rule, **parameters).fit(wine, wine_labels) for rule in results.RULES)
    assert (best.n_components_, best.label_weight_, best.alpha_) == (3, 0.0, 0.0)
    assert (simple.n_components_, simple.label_weight_, simple.alpha_) == (2, 0.0, 0.0)
    assert simple.best_score_ == pytest.approx(best.best_score_ - 0.001)


def test_results(wine: np.ndarray, wine_labels: Any) -> None:
    """`cv_results_` goes into a data frame, one row a candidate, simplest first, with GridSearchCV's names."""
    search = quick().fit(wine, wine_labels)
    frame = pd.DataFrame(search.cv_results_)
    assert frame.param_n_components.tolist() == [2] * 3 + [3] * 3
    assert frame.param_alpha.tolist() == search.alphas_.tolist() * 2
    splits = frame[[f"split{fold}_test_score" for fold in range(search.n_splits_)]]
    np.testing.assert_allclose(frame.mean_test_score, splits.mean(axis=1))
    np.testing.assert_allclose(frame.std_test_score, splits.std(axis=1, ddof=0))
    assert frame.rank_test_score[search.best_index_] == 1
    assert frame.params[search.best_index_] == search.best_params_
    assert frame.mean_test_score[search.best_index_] == search.best_score_
    assert (frame.mean_fit_time > 0).all()
    assert frame.stability.between(0.3, 1).all()
    assert search.rank_results_ is None


@pytest.mark.parametrize("normalize", [False, True])
def test_the_last_fit(normalize: bool, wine: np.ndarray) -> None:
    """The choice is fitted to all rows; codes, transform and inverse are its own."""
    search = quick(normalize=normalize)
    Z = search.fit_transform(wine)
    model = search.best_estimator_
    assert (model.n_components, model.alpha) == (search.n_components_, search.alpha_)
    assert (model.init, model.normalize, model.n_init) == ("random", normalize, 1)
    np.testing.assert_allclose(search.transform(wine), Z, rtol=1e-6, atol=1e-8 * Z.max())
    np.testing.assert_array_equal(search.inverse_transform(Z), Z @ model.components_)
    np.testing.assert_array_equal(search.components_, model.components_)
    lengths = np.linalg.norm(search.components_, axis=1)
    assert np.allclose(lengths, 1) == normalize
    assert search.stability_.shape == (search.n_components_,)
    assert 0.5 < search.stability_.min() <= search.stability_.max() <= 1


def test_stability_is_over_the_folds(wine: np.ndarray, wine_labels: Any) -> None:
    """`stability_` compares the last fit with the fits of the folds."""
    search = quick(n_components=3, alphas=[0.5], tol=1e-4).fit(wine, wine_labels)
    seeds = np.random.RandomState(0)
    cut, starts = seeds.randint(2**31 - 1, size=3)[0], seeds.randint(2**31 - 1, size=3)
    runs = [
        DSPNMF(3, alpha=0.5, random_state=seed).fit(wine[part.train]).components_
        for seed, part in zip(starts, folds(3, wine, wine_labels, cut), strict=True)
    ]
    np.testing.assert_allclose(search.stability_, stability([search.components_, *runs]), rtol=1e-5)


@pytest.mark.parametrize("labelled", [False, True])
def test_the_same_in_parallel(labelled: bool, wine: np.ndarray, wine_labels: Any) -> None:
    """One process, two, or two threads: the same tables and the same model, to the last bit."""
    y = wine_labels if labelled else None
    alone = quick().fit(wine, y)
    both = [quick(n_jobs=2).fit(wine, y)]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        both.append(quick().fit(wine, y))
    for other in both:
        for name in ("mean_test_score", "std_test_score", "stability", "mean_n_iter"):
            np.testing.assert_array_equal(other.cv_results_[name], alone.cv_results_[name])
        if not labelled:
            np.testing.assert_array_equal(other.rank_results_["mean_error"], alone.rank_results_["mean_error"])
        np.testing.assert_array_equal(other.components_, alone.components_)
        np.testing.assert_array_equal(other.stability_, alone.stability_)


def test_random_state(wine: np.ndarray) -> None:
    """The same seed gives the same search, another one other folds and starts; a generator works too."""
    one, same, other = (quick(random_state=seed).fit(wine).cv_results_["mean_test_score"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    generator = quick(random_state=np.random.RandomState(1)).fit(wine).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(generator, one)


def test_classifiers_and_scorers(wine: np.ndarray, wine_labels: Any) -> None:
    """Any classifier and scorer of scikit-learn; one with a seed of its own to draw is given one."""
    search = quick(classifier=LogisticRegression(C=10), scoring="neg_log_loss").fit(wine, wine_labels)
    assert -1 < search.best_score_ < 0
    search.set_params(scoring=lambda model, Z, y: float(model.n_features_in_)).fit(wine, wine_labels)
    assert search.cv_results_["mean_test_score"].tolist() == [2.0] * 3 + [3.0] * 3
    forest = quick(classifier=RandomForestClassifier(5), alphas=[0.0])
    one, same = (clone(forest).fit(wine, wine_labels).cv_results_["mean_test_score"] for _ in range(2))
    np.testing.assert_array_equal(one, same)


def test_splitters(wine: np.ndarray, wine_labels: Any) -> None:
    """A splitter or a list of pairs in place of a number."""
    for y in (None, wine_labels):
        given = list(KFold(4, shuffle=True, random_state=5).split(wine))
        one = quick(cv=KFold(4, shuffle=True, random_state=5)).fit(wine, y)
        other = quick(cv=given).fit(wine, y)
        assert one.n_splits_ == 4
        np.testing.assert_array_equal(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


@pytest.mark.parametrize("rule", results.RULES)
def test_one_split(rule: str, wine: np.ndarray) -> None:
    """A single split is enough to choose by; it leaves cells to fit, and no folds to compare."""
    search = quick(cv=ShuffleSplit(1, random_state=0), rule=rule).fit(wine)
    assert 0 < search.rank_results_["mean_error"].min() < 0.3
    assert np.isnan(search.cv_results_["stability"]).all()
    assert np.isfinite(search.stability_).all()


def test_sparse_and_float32(wine: np.ndarray, wine_labels: Any) -> None:
    """A sparse X gives the scores of the dense one; float32 stays float32."""
    X = np.where(wine > 0.4, wine, 0)
    dense, csr = (quick(tol=1e-2).fit(kind(X), wine_labels) for kind in (np.asarray, sparse.csr_array))
    np.testing.assert_allclose(
        csr.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"], atol=2.5 / len(X)
    )
    single = quick(tol=1e-2).fit(sparse.csr_matrix(X.astype(np.float32)))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.rank_results_["mean_error"].max() < 1


def test_frames_and_pipelines() -> None:
    """A data frame keeps names and index; in a pipeline the labels do the choosing."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X / X.max()
    search = quick(alphas=[0.0, 1.0]).set_output(transform="pandas")
    Z = search.fit_transform(X)
    assert list(Z.columns) == [f"dspnmfcv{i}" for i in range(search.n_components_)]
    assert list(search.feature_names_in_) == list(X.columns)
    assert search.transform(X).index.equals(X.index)
    chain = make_pipeline(MinMaxScaler(clip=True), quick(alphas=[0.0, 1.0]), KNeighborsClassifier(3))
    assert chain.fit(X, y).score(X, y) > 0.9
    assert chain[1].rank_results_ is None


class Watcher:
    """A callback that counts tasks by their name, at their beginning and at their end."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clean."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Count the beginning."""
        self.seen[f"{context.task_name} begins"] += 1

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count the end."""
        self.seen[f"{context.task_name} ends"] += 1


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_callbacks_see_every_fold(wine: np.ndarray, n_jobs: int | None) -> None:
    """A callback sees every fold of every rank, every path and the last fit, in any process, and changes nothing."""
    watcher, watched = Watcher(), quick(alphas=[0.0, 1.0], n_jobs=n_jobs)
    watched.set_callbacks(watcher).fit(wine)
    assert watcher.seen["fold begins"] == watcher.seen["fold ends"] == 2 * 3 + 3 + 1
    for stage in ("fit", "ranks", "candidates", "choice"):
        assert (watcher.seen[f"{stage} begins"], watcher.seen[f"{stage} ends"]) == (1, 1)
    np.testing.assert_array_equal(watched.components_, quick(alphas=[0.0, 1.0]).fit(wine).components_)


def test_warnings_are_those_of_the_last_fit(wine: np.ndarray) -> None:
    """Fits of the search do not warn; the last one does, once."""
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as caught:
        quick(max_iter=2, tol=1e-9).fit(wine)
    assert len(caught) == 1


def test_verbose(wine: np.ndarray, caplog: pytest.LogCaptureFixture) -> None:
    """What was found is logged: errors of ranks, scores of candidates."""
    with caplog.at_level(logging.INFO, logger="dspnmf"):
        quick(verbose=1).fit(wine)
    lines = [record.message for record in caplog.records]
    assert len(lines) == 2 + 3
    assert lines[0].startswith("rank 2: 0.")
    assert lines[2].startswith("n_components=3, similarity=gram, diffusion_steps=128, label_weight=0, alpha=0: 0.")


# -- bad input -----------------------------------------------------------------------------------------------------

GOOD, HALF = np.ones((12, 4)) + np.eye(12, 4), np.arange(12) % 2
BAD: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({"n_components": []}, GOOD, None, r"n_components=\[\] is not allowed in DSPNMFCV: it must be one of 'auto' or"),
    ({"n_components": [2, 0]}, GOOD, None, r"n_components=\[2, 0\] is not allowed"),
    ({"n_components": "all"}, GOOD, None, "n_components='all' is not allowed"),
    ({"n_components": [2, 5]}, GOOD, None, "has 5, but no rank above n_features=4.*leave out ranks above 4"),
    ({"n_components": [7]}, np.ones((8, 9)), None, "no rank above the 4 samples of the smallest training set"),
    ({"alphas": 1}, GOOD, None, "alphas=1 is not allowed in DSPNMFCV.* be a whole number >= 2 or one of 'auto' or"),
    ({"alphas": ()}, GOOD, None, r"alphas=\(\) is not allowed"),
    ({"alphas": [1.0, -1.0]}, GOOD, None, r"alphas=\[1.0, -1.0\] is not allowed"),
    ({"label_weights": []}, GOOD, HALF, r"label_weights=\[\] is not allowed"),
    ({"label_weights": [0, 1]}, GOOD, None, r"label_weights=\[0, 1\] needs labels, but y is None"),
    ({"scoring": "accuracy"}, GOOD, None, "scoring='accuracy' needs labels, but y is None"),
    ({"classifier": LogisticRegression()}, GOOD, None, "classifier=.* needs labels"),
    ({"scoring": "nonsense"}, GOOD, HALF, "nonsense"),
    ({"classifier": MinMaxScaler()}, GOOD, HALF, r"classifier=MinMaxScaler\(\) is not allowed"),
    ({"rule": "worst"}, GOOD, None, "rule='worst' is not allowed .* one of 'best', 'one-se'"),
    ({"cv": 1}, GOOD, None, "cv=1 is not allowed"),
    ({"cv": 20}, GOOD, None, "cv=20 needs at least as many samples, but X has n_samples=12"),
    ({"n_init": 0}, GOOD, None, "n_init=0 is not allowed"),
    ({}, GOOD, HALF[:-1], "y has 11 labels, but X has 12 rows"),
    ({"cv": 4}, GOOD, np.arange(12) // 3, "Class 0 of y has 3 of n_samples=12, but cv=4 folds .*use cv=3"),
    ({}, GOOD, np.eye(12)[0], r"Class 1.0 of y has 1 of .* cv=2 folds need that many of each class: drop"),
    ({}, GOOD, np.zeros(12, int), "y has the one class 0 for n_samples=12"),
    ({}, GOOD, np.full(12, -1), "y has no labels for n_samples=12"),
    ({}, GOOD, np.linspace(0, 1, 12), "Unknown label type: continuous"),
    ({}, -GOOD, None, r"Negative values in data passed to DSPNMFCV: first at X\[0, 0\]"),
    ({}, np.where(np.arange(48).reshape(12, 4) == 6, np.nan, GOOD), HALF, r"contains NaN, first at X\[1, 2\]"),
]


@pytest.mark.parametrize(("parameters", "X", "y", "text"), BAD)
def test_bad_input(parameters: dict[str, Any], X: Any, y: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad grids, folds, labels and data are refused before anything is fitted, with what is allowed."""
    monkeypatch.setattr(DSPNMF, "fit_transform", lambda *_, **__: pytest.fail("work had begun"))
    monkeypatch.setattr(fits, "predict", lambda *_, **__: pytest.fail("work had begun"))
    with pytest.raises(ValueError, match=text):
        DSPNMFCV(**{"n_components": [2], "cv": 2, **parameters}).fit(X, y)


def test_elsewhere_and_too_early() -> None:
    """X that is not in memory is refused; so is transform before fit."""
    from dask import array

    with pytest.raises(ValueError, match="DSPNMFCV needs all of X in memory"):
        DSPNMFCV().fit(array.from_array(GOOD, chunks=6))
    with pytest.raises(NotFittedError):
        DSPNMFCV().transform(GOOD)


@pytest.mark.parametrize("X", [np.zeros((8, 3)), np.ones((6, 1)), np.eye(8), np.repeat(np.eye(2, 5), 4, axis=0)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_degenerate_data(X: np.ndarray, kind: Any) -> None:
    """Zeros, one feature, rows that share nothing, duplicates: finite results."""
    search = DSPNMFCV(alphas=3, cv=2, random_state=0, max_iter=10, tol=0).fit(kind(X))
    assert np.isfinite(search.transform(kind(X))).all()
    assert np.isfinite(search.rank_results_["mean_error"]).all()
    assert np.isfinite(search.stability_).all()


def test_units(wine: np.ndarray) -> None:
    """The grid follows the unit of X, so data in another unit give the same scores."""
    one, other = (quick(tol=1e-2).fit(unit * wine) for unit in (1.0, 1024.0))
    np.testing.assert_allclose(other.alphas_ * 1024**2, one.alphas_, rtol=1e-12)
    np.testing.assert_allclose(other.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], rtol=1e-9)


# -- similarities --------------------------------------------------------------------------------------------------


def test_similarities_to_choose_from(wine: np.ndarray, wine_labels: Any) -> None:
    """Every similarity has its own grid, "diffused" one for each number of steps; the choice is what is fitted."""
    kinds = {"similarities": ["gram", "diffused"], "diffusion_steps": [2, 6], "alphas": [0.5, "auto"]}
    search = DSPNMFCV([3], **kinds, cv=3, max_iter=30, tol=1e-3, random_state=0).fit(wine, wine_labels)
    found = search.cv_results_
    tried = list(zip(found["param_similarity"].tolist(), found["param_diffusion_steps"].tolist(), strict=True))
    assert tried == [("gram", 2)] * 2 + [("diffused", 2)] * 2 + [("diffused", 6)] * 2
    for row, (similarity, steps) in enumerate(tried):
        auto = DSPNMF(3, alpha="auto", similarity=similarity, diffusion_steps=steps, tol=0.1).fit(wine).alpha_
        pair = found["param_alpha"][row - row % 2 : row - row % 2 + 2]
        np.testing.assert_allclose(pair, sorted([0.5, auto]), rtol=1e-9)
    best = search.best_estimator_
    assert (best.similarity, best.diffusion_steps, best.alpha) == (
        search.similarity_,
        search.diffusion_steps_,
        search.alpha_,
    )
    assert search.alphas_.tolist() == found["param_alpha"][2 * (search.best_index_ // 2) :][:2].tolist()
    assert search.transform(wine).shape == (178, 3)


def test_similarities_without_labels(wine: np.ndarray) -> None:
    """Without labels similarities are compared by the neighbours that codes of held-out rows keep."""
    search = DSPNMFCV([3], similarities=["diffused", "cosine"], alphas="auto", cv=3, max_iter=30, tol=1e-3).fit(wine)
    assert search.cv_results_["param_similarity"].tolist() == ["diffused", "cosine"]
    assert 0.1 < search.best_score_ < 1
