"""As scikit-learn's users expect: checks, frames, pipelines, callbacks, warnings."""

from __future__ import annotations

import io
import logging
import pickle
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from dspnmf import DSPNMF, NMF


@parametrize_with_checks([DSPNMF(), NMF()])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """All of scikit-learn's estimator checks, none expected to fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the checks fit tiny noise with max_iter of their own
        check(estimator)


@pytest.mark.parametrize("cls", [DSPNMF, NMF])
def test_frames(cls: type) -> None:
    """A data frame keeps its index; feature names are checked; set_output names the codes."""
    X, _ = load_wine(return_X_y=True, as_frame=True)
    X.index = [f"sample {i}" for i in range(len(X))]
    model = cls(3, random_state=0, tol=1e-3).set_output(transform="pandas")
    Z = model.fit_transform(X)
    assert list(Z.columns) == [f"{cls.__name__.lower()}{i}" for i in range(3)]
    assert list(Z.index) == list(X.index)
    assert list(model.feature_names_in_) == list(X.columns)
    assert isinstance(model.transform(X), pd.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[X.columns[::-1]])


def test_clone_and_pickle(wine: np.ndarray) -> None:
    """A clone has the parameters only; a pickled model transforms alike."""
    model = DSPNMF(3, alpha=0.4, random_state=0).fit(wine)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(wine), model.transform(wine))
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        clone(model).transform(wine)


def test_parameters_after_the_fit_do_not_change_it(wine: np.ndarray) -> None:
    """Transform uses what was fitted, not what a parameter says now."""
    model = DSPNMF(3, random_state=0).fit(wine)
    before = model.transform(wine)
    model.set_params(alpha=100.0, lam=5.0, n_components=7)
    np.testing.assert_array_equal(model.transform(wine), before)


def test_pipeline_and_grid_search() -> None:
    """Scaling, factorization and a classifier in one pipeline, tuned in parallel."""
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(MinMaxScaler(clip=True), DSPNMF(random_state=0), KNeighborsClassifier(3))
    grid = {"dspnmf__n_components": [2, 5], "dspnmf__alpha": [0.0, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(X, y)
    assert search.best_score_ > 0.9
    scores = cross_val_score(search.best_estimator_, X, y, cv=3)
    assert scores.mean() > 0.9


def test_the_advice_on_negative_values_works() -> None:
    """A search whose new rows fall below the training minimum says MinMaxScaler(clip=True), and with it none fails."""
    X, y = load_wine(return_X_y=True)
    pipeline = Pipeline([("scale", MinMaxScaler()), ("codes", DSPNMF(3, random_state=0)), ("svm", SVC())])
    with pytest.warns(UserWarning, match=r"MinMaxScaler\(clip=True\)"):
        scores = cross_val_score(pipeline, X, y)
    assert np.isnan(scores).any()
    scores = cross_val_score(pipeline.set_params(scale=MinMaxScaler(clip=True)), X, y)
    assert scores.mean() > 0.9


def test_codes_cluster(digits: np.ndarray) -> None:
    """Codes go straight into k-means."""
    Z = DSPNMF(10, normalize=True, random_state=0).fit_transform(digits)
    assert len(np.unique(KMeans(10, n_init=1, random_state=0).fit_predict(Z))) == 10


def test_inverse_transform(wine: np.ndarray) -> None:
    """inverse_transform is Z @ components_, for dense and sparse codes."""
    model = DSPNMF(3, random_state=0)
    Z = model.fit_transform(wine)
    np.testing.assert_array_equal(model.inverse_transform(Z), Z @ model.components_)
    np.testing.assert_allclose(model.inverse_transform(sparse.csr_matrix(Z)), Z @ model.components_)


class Recorder:
    """A callback that counts, scores, and may ask to stop."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.begun: list[str] = []
        self.shapes: list[tuple[int, ...]] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clean."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Remember the task."""
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator: Any, context: Any, *, X: Any, fitted_estimator: Any) -> bool:
        """Use the estimator as it is now."""
        if context.task_name == "iteration":
            self.shapes.append(fitted_estimator.transform(X).shape)
        return self.stop_after is not None and len(self.shapes) >= self.stop_after


def test_callbacks(wine: np.ndarray) -> None:
    """Every iteration of every start is a task, with a fitted estimator to look at."""
    recorder = Recorder()
    model = DSPNMF(2, n_init=2, max_iter=5, tol=0, random_state=0).set_callbacks(recorder).fit(wine)
    assert recorder.begun.count("iteration") == 10
    assert recorder.begun.count("start") == 2
    assert recorder.shapes == [(178, 2)] * 10
    assert model.n_iter_ == 5


def test_callbacks_change_nothing(wine: np.ndarray) -> None:
    """A fit that is watched ends where one that is not does."""
    watched = DSPNMF(2, max_iter=7, tol=0, random_state=0).set_callbacks(Recorder()).fit(wine)
    alone = DSPNMF(2, max_iter=7, tol=0, random_state=0).fit(wine)
    np.testing.assert_allclose(watched.objective_history_, alone.objective_history_, rtol=1e-9)


def test_callbacks_can_stop(wine: np.ndarray) -> None:
    """A callback that returns True ends the fit, without a convergence warning."""
    model = DSPNMF(2, max_iter=50, tol=1e-12, random_state=0).set_callbacks(Recorder(stop_after=3)).fit(wine)
    assert model.n_iter_ == 3


def test_progress_bar(wine: np.ndarray) -> None:
    """scikit-learn's ProgressBar shows the fit."""
    out = io.StringIO()
    with redirect_stdout(out):
        DSPNMF(2, max_iter=5, tol=0, random_state=0).set_callbacks(ProgressBar()).fit(wine)
    assert "DSPNMF" in out.getvalue()


def test_verbose_prints_each_line_once() -> None:
    """Lines go to standard error once, also when logging is set up between two fits."""
    code = (
        "import logging, numpy as np; from dspnmf import DSPNMF\n"
        "for _ in range(2):\n"
        "    DSPNMF(1, max_iter=2, tol=0, verbose=1).fit(np.eye(3))\n"
        "    logging.basicConfig(format='%(message)s')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert lines == ["iteration 1", "iteration 2"] * 2


def test_convergence_warning_only_when_true(wine: np.ndarray) -> None:
    """A warning with the last relative change when max_iter ended the fit; silence when tol did, or tol is 0."""
    with pytest.warns(
        ConvergenceWarning, match=r"max_iter=3 iterations .* changed by \d\.\de-?\+?\d+ .*Increase max_iter"
    ):
        DSPNMF(3, max_iter=3, random_state=0).fit(wine)
    model = DSPNMF(3, max_iter=500, random_state=0).fit(wine)
    assert model.n_iter_ < 500
    DSPNMF(3, max_iter=3, tol=0, random_state=0).fit(wine)


def test_verbose_logs(wine: np.ndarray, caplog: pytest.LogCaptureFixture) -> None:
    """verbose=2 logs every second iteration through the logger "dspnmf"."""
    with caplog.at_level(logging.INFO, logger="dspnmf"):
        DSPNMF(2, max_iter=6, tol=0, verbose=2, random_state=0).fit(wine)
    assert [record.message.split(":")[0] for record in caplog.records] == ["iteration 2", "iteration 4", "iteration 6"]


def test_memory_mapped_file(wine: np.ndarray, tmp_path: Any) -> None:
    """A memory-mapped array is fitted as it is."""
    np.save(tmp_path / "x.npy", wine)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = DSPNMF(3, random_state=0, max_iter=10, tol=0).fit_transform(wine)
    np.testing.assert_array_equal(DSPNMF(3, random_state=0, max_iter=10, tol=0).fit_transform(mapped), expected)
