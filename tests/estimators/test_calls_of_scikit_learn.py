"""Calls as users of scikit-learn write them: every one does here what it does there, with the import changed.

Each is run with scikit-learn's classes and with ours. What comes out has the same type, shape, index and columns, and
is as good; or there is an error that says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import decomposition
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dspnmf

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
Call = Callable[[Any], Any]
DIGITS, LABELS = (part[:200] for part in load_digits(return_X_y=True))
DIGITS = DIGITS / 16
FRAME = pd.DataFrame(DIGITS[:60, 18:30], index=[f"row {i}" for i in range(60)], columns=[f"x{j}" for j in range(12)])
TEXTS = [
    "the cat sat on the mat",
    "a dog and a cat",
    "stocks rose in trading",
    "the market fell",
    "dogs chase cats",
] * 4


def error(X: Any, W: Any, H: Any) -> float:
    """||X - WH||."""
    return float(np.linalg.norm((X.toarray() if sparse.issparse(X) else np.asarray(X)) - np.asarray(W) @ np.asarray(H)))


def grid_search(of: Any) -> Any:
    """The best of some ranks and penalties, by a classifier."""
    pipe = Pipeline([("nmf", of.NMF(init="nndsvda", max_iter=50)), ("classify", LogisticRegression(max_iter=300))])
    grid = {"nmf__n_components": [2, 8], "nmf__alpha_W": [0.0, 1e-3], "nmf__solver": ["cd"]}
    found = GridSearchCV(pipe, grid, cv=2).fit(DIGITS, LABELS)
    return found.best_params_["nmf__n_components"], found.best_score_ > 0.6, sorted(found.cv_results_)


def cross_validation(of: Any) -> Any:
    """Scores of a pipeline."""
    scores = cross_val_score(
        make_pipeline(of.NMF(8, max_iter=50), LogisticRegression(max_iter=300)), DIGITS, LABELS, cv=3
    )
    return scores.shape, bool(scores.mean() > 0.6)


def text_pipeline(of: Any) -> Any:
    """Topics of texts: sparse input, and the words of a topic."""
    words = TfidfVectorizer()
    X = words.fit_transform(TEXTS)
    model = of.NMF(
        n_components=2, random_state=1, beta_loss="kullback-leibler", solver="mu", max_iter=300, alpha_W=5e-4
    )
    W = model.fit_transform(X)
    top = words.get_feature_names_out()[np.argsort(model.components_, axis=1)[:, -3:]]
    return type(W), W.shape, top.shape, model.transform(words.transform(["a dog"])).shape


def column_transformer(of: Any) -> Any:
    """Some columns factorized, others scaled, names kept."""
    columns = ColumnTransformer(
        [("nmf", of.NMF(2, random_state=0), ["x0", "x1", "x2"]), ("rest", MinMaxScaler(), ["x5"])]
    )
    out = columns.set_output(transform="pandas").fit_transform(FRAME)
    return type(out), list(out.columns), list(out.index)


def union_of_features(of: Any) -> Any:
    """Next to another decomposition."""
    both = FeatureUnion([("nmf", of.NMF(3, random_state=0)), ("pca", decomposition.PCA(2))]).fit(DIGITS)
    return both.transform(DIGITS).shape, list(both.get_feature_names_out())


def copies(of: Any) -> Any:
    """clone, get_params, set_params, a wrong name."""
    model = clone(of.NMF(4, init="nndsvda", tol=1e-3)).set_params(n_components=3, max_iter=20)
    with pytest.raises(ValueError, match="Invalid parameter 'rank'"):
        model.set_params(rank=3)
    return {
        name: model.get_params()[name] for name in ("n_components", "init", "tol", "max_iter", "alpha_H", "l1_ratio")
    }


def frames(of: Any) -> Any:
    """Pandas in, pandas out, with index and names."""
    out = of.NMF(3, random_state=0).set_output(transform="pandas").fit(FRAME).transform(FRAME)
    return type(out), out.shape, list(out.index), list(out.columns), dict(out.dtypes.astype(str))


def names_of_features(of: Any) -> Any:
    """Names in and out, and what is known of the features."""
    model = of.NMF(3, random_state=0).fit(FRAME)
    return list(model.get_feature_names_out()), list(model.feature_names_in_), model.n_features_in_, model.n_components_


def other_columns(of: Any) -> Any:
    """Columns in another order are refused."""
    with pytest.raises(ValueError, match="feature names should match"):
        of.NMF(2, random_state=0).fit(FRAME).transform(FRAME[FRAME.columns[::-1]])


def width(of: Any) -> Any:
    """So are rows of another width."""
    with pytest.raises(ValueError, match=r"X has 4 features, but (NMF|MiniBatchNMF) is expecting 12"):
        of.NMF(2, random_state=0).fit(FRAME.to_numpy()).transform(np.ones((3, 4)))


def not_fitted(of: Any) -> Any:
    """A model that was not fitted says so."""
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        of.NMF(2).transform(DIGITS)


def negative(of: Any) -> Any:
    """Negative data are refused, whatever made them."""
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        make_pipeline(StandardScaler(), of.NMF(2)).fit(DIGITS)


def custom_start(of: Any) -> Any:
    """fit_transform(X, W=, H=), of either precision."""
    found = []
    for dtype in (np.float64, np.float32):
        rng = np.random.RandomState(0)
        X, W, H = (A.astype(dtype) for A in (DIGITS, rng.random_sample((200, 4)), rng.random_sample((4, 64))))
        model = of.NMF(4, init="custom", max_iter=100)
        Z = model.fit_transform(X, W=W, H=H)
        found.append((Z.dtype, Z.shape, model.components_.dtype, error(X, Z, model.components_) < 33))
    return found


def sparse_forms(of: Any) -> Any:
    """CSR and CSC, matrices and arrays."""
    made = (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.csc_array)
    return [(type(Z := of.NMF(3, random_state=0).fit_transform(kind(DIGITS))), Z.shape) for kind in made]


def back(of: Any) -> Any:
    """inverse_transform(X=...) rebuilds the data."""
    model = of.NMF(10, init="nndsvda", max_iter=300)
    Z = model.fit_transform(DIGITS)
    return model.inverse_transform(X=Z).shape, bool(np.allclose(model.inverse_transform(Z), Z @ model.components_))


def as_a_function(of: Any) -> Any:
    """non_negative_factorization, and with update_H=False."""
    W, H, steps = of.non_negative_factorization(DIGITS, n_components=4, init="random", random_state=0, max_iter=300)
    Z, kept, _ = of.non_negative_factorization(DIGITS[:9], H=H, update_H=False, n_components=4, random_state=0)
    return W.shape, H.shape, type(steps), Z.shape, kept is H or bool(np.array_equal(kept, H)), error(DIGITS, W, H) < 33


def batches(of: Any) -> Any:
    """MiniBatchNMF, whole and by partial_fit."""
    model = of.MiniBatchNMF(n_components=4, batch_size=50, random_state=0, beta_loss="frobenius").fit(DIGITS)
    stream = of.MiniBatchNMF(n_components=4, random_state=0)
    for i in range(0, 200, 50):
        stream.partial_fit(DIGITS[i : i + 50])
    errors = [error(DIGITS, part.transform(DIGITS), part.components_) < 35 for part in (model, stream)]
    return model.components_.shape, stream.n_steps_, errors


def rank_auto(of: Any) -> Any:
    """n_components="auto" and None."""
    rng = np.random.RandomState(0)
    X, W, H = rng.random_sample((9, 5)), rng.random_sample((9, 2)), rng.random_sample((2, 5))
    given = of.NMF(n_components="auto", init="custom").fit(X, W=W, H=H)
    return given.n_components_, of.NMF(n_components=None).fit(X).n_components_


def errors_of_losses(of: Any) -> Any:
    """reconstruction_err_ is what scikit-learn's definition makes of the factors, for every loss."""
    X, same = DIGITS[:60] + 0.1, []
    for loss in ("frobenius", "kullback-leibler", "itakura-saito", 1.5):
        model = of.NMF(3, beta_loss=loss, solver="mu", init="nndsvda", max_iter=40)
        W = model.fit_transform(X)
        found = decomposition._nmf._beta_divergence(X, W, model.components_, loss, square_root=True)
        same.append(bool(np.isclose(found, model.reconstruction_err_, rtol=1e-3)))
    return same


def clusters(of: Any) -> Any:
    """Codes into k-means, as an ndarray, C-ordered and writable."""
    Z = of.NMF(5, random_state=0).fit_transform(DIGITS)
    Z *= 2
    return KMeans(3, n_init=1, random_state=0).fit(Z).labels_.shape, Z.flags["C_CONTIGUOUS"] or Z.flags["F_CONTIGUOUS"]


def in_processes(of: Any) -> Any:
    """Fits in two processes, whose models come back pickled."""
    fits = [joblib.delayed(of.NMF(3, random_state=seed, max_iter=20).fit)(DIGITS) for seed in range(2)]
    models = joblib.Parallel(n_jobs=2)(fits)
    return [
        (m.components_.shape, m.transform(DIGITS).shape, error(DIGITS, m.transform(DIGITS), m.components_) < 40)
        for m in models
    ]


def wrong_values(of: Any) -> Any:
    """Parameters that cannot be are a ValueError in fit, not before."""
    for wrong in ({"n_components": -1}, {"init": "name"}, {"solver": "sgd"}, {"tol": -1}, {"beta_loss": "mse"}):
        model = of.NMF(**{"n_components": 2, **wrong})
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.fit(DIGITS)


CALLS: list[Call] = [
    grid_search, cross_validation, text_pipeline, column_transformer, union_of_features, copies, frames,
    names_of_features, other_columns, width, not_fitted, negative, custom_start, sparse_forms, back, as_a_function,
    batches, rank_auto, errors_of_losses, clusters, in_processes, wrong_values,
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_does_what_it_does_in_scikit_learn(call: Call) -> None:
    """The same comes out, whichever of the two was imported."""
    assert call(dspnmf) == call(decomposition)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dspnmf.NMF(alpha=0.1), "penalties are alpha_W and alpha_H"),
        (lambda: dspnmf.NMF(regularization="both"), "penalties alpha_W"),
        (lambda: dspnmf.NMF(nls_max_iter=5), "use inner_iter"),
        (lambda: dspnmf.NMF(sparseness="data"), "penalties alpha_W"),
        (lambda: dspnmf.NMF(n_jobs=2), "threads follow the machine"),
        (lambda: dspnmf.NMF(batch_size=10), "MiniBatchNMF has it"),
        (lambda: dspnmf.non_negative_factorization(DIGITS, alpha=0.1), "penalties are alpha_W and alpha_H"),
    ],
)
def test_old_and_foreign_parameters_say_what_to_use(call: Callable[[], Any], words: str) -> None:
    """Parameters of earlier versions of scikit-learn, and of others, are errors with the way out."""
    with pytest.raises(TypeError, match=words):
        call()


def test_both_modules_are_compared() -> None:
    """The comparison has two sides, and every call above is in it."""
    assert isinstance(dspnmf, ModuleType)
    assert dspnmf.NMF is not decomposition.NMF
    own = {value for value in globals().values() if callable(value) and getattr(value, "__module__", "") == __name__}
    assert {f for f in own if not f.__name__.startswith("test_")} - {error} == set(CALLS)
