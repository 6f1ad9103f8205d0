"""A parameter that a class does not have: the error says what to use instead."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import dspnmf
from dspnmf import DSPNMF, DSPNMFCV, FRNMF, NMF, NPE, ONMF, SDNMF, MiniBatchNMF, non_negative_factorization

EVERY = [cls for cls in vars(dspnmf).values() if inspect.isclass(cls) and hasattr(cls, "get_params")]


@pytest.mark.parametrize(
    ("cls", "name", "words"),
    [
        (NMF, "max_iterations", "NMF has no parameter 'max_iterations': use max_iter"),
        (NMF, "regularization", "'regularization': NMF, MiniBatchNMF, DSPNMF, .* have the penalties alpha_W"),
        (DSPNMF, "n_topics", "DSPNMF has no parameter 'n_topics': use n_components"),
        (NMF, "alpha", "'alpha': DSPNMF has alpha, the weight of the structure, and penalties are alpha_W and alpha_H"),
        (NMF, "alpha_w", "'alpha_w': use alpha_W"),
        (NMF, "batch_size", "'batch_size': MiniBatchNMF has it"),
        (ONMF, "alpha_W", "'alpha_W': NMF, .* GDNMF have the penalties alpha_W .codes. and alpha_H"),
        (SDNMF, "alpha_H", "'alpha_H': NMF, .* GDNMF have the penalties alpha_W"),
        (FRNMF, "l1_ratio", "'l1_ratio': NMF, .* GDNMF have the penalties alpha_W"),
        (ONMF, "beta_loss", "'beta_loss': NMF, MiniBatchNMF and DSPNMF have it"),
        (NPE, "rank", "NPE has no parameter 'rank': use n_components"),
        (DSPNMFCV, "seed", "DSPNMFCV has no parameter 'seed': use random_state"),
    ],
)
def test_what_to_use_instead(cls: Any, name: str, words: str) -> None:
    """Names of other libraries and slips of the pen lead to the parameter there is."""
    with pytest.raises(TypeError, match=words):
        cls(**{name: 1})


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_nothing_else_changed(cls: Any) -> None:
    """Signatures are those of __init__; copies and clones are made as ever; the function passes the error on."""
    assert list(inspect.signature(cls).parameters) == list(inspect.signature(cls.__init__).parameters)[1:]
    model = cls()
    assert clone(model).get_params() == copy.deepcopy(model).get_params() == model.get_params()
    with pytest.raises(TypeError, match="has no parameter 'nonsense': it has"):
        cls(nonsense=1)


def test_the_function_keeps_h() -> None:
    """With update_H=False, H comes back as it is, and W is that of transform; what cannot be is an error."""
    X = np.random.default_rng(0).random((30, 6))
    model = NMF(3, random_state=0, alpha_W=1e-3, l1_ratio=0.5).fit(X)
    W, H, n_iter = non_negative_factorization(X, H=model.components_, update_H=False, alpha_W=1e-3, l1_ratio=0.5)
    np.testing.assert_allclose(W, model.transform(X), rtol=1e-8, atol=1e-10)
    assert H is model.components_
    assert n_iter == 1
    for given, words in (
        ({"update_H": False}, "H=None, but update_H=False keeps it"),
        ({"H": H, "n_components": 4, "update_H": False}, "n_components=4, but H has 3 rows"),
        ({"H": H[:, :4], "update_H": False}, r"H has shape \(3, 4\), but must have shape \(None, 6\)"),
    ):
        with pytest.raises(ValueError, match=words):
            non_negative_factorization(X, **given)


def test_a_shuffled_order_is_another_path() -> None:
    """`shuffle` draws the order of the components of a start that has one; a random start stays as it is."""
    X = np.random.default_rng(0).random((40, 8))
    plain, mixed = (
        NMF(4, init="nndsvda", shuffle=mix, random_state=0, max_iter=5, tol=0).fit(X) for mix in (0 > 1, 1 > 0)
    )
    assert not np.allclose(plain.components_, mixed.components_)
    one, other = (NMF(4, shuffle=mix, random_state=0).fit(X) for mix in (False, True))
    np.testing.assert_array_equal(one.components_, other.components_)


def test_mini_batches() -> None:
    """Batches stop early, codes are those of transform, the error is that of all rows, and files work too."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 4)) ** 3 @ rng.random((4, 30)) ** 3 + 0.05 * rng.random((600, 30))
    model = MiniBatchNMF(4, batch_size=100, random_state=0)
    Z = model.fit_transform(X)
    np.testing.assert_array_equal(model.transform(X), Z)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(X - Z @ model.components_), rel=1e-9)
    assert model.reconstruction_err_ <= 1.05 * NMF(4, random_state=0).fit(X).reconstruction_err_
    assert model.n_steps_ < 1200
    assert not hasattr(model, "objective_")
    one = MiniBatchNMF(4, random_state=0).fit(X)
    np.testing.assert_array_equal(one.components_, NMF(4, init=None, random_state=0).fit(X).components_)
    forgetful = MiniBatchNMF(4, batch_size=100, forget_factor=0.0, random_state=0, max_iter=3, tol=0).fit(X)
    assert np.isfinite(forgetful.components_).all()


def test_batches_end_when_they_gain_less_than_they_must() -> None:
    """A fit in batches ends the earlier, the more every batch must gain; its error is that of its codes."""
    X = load_digits().data[:900] / 16
    steps = []
    for tol in (1e-2, 1e-3, 1e-5):
        model = MiniBatchNMF(4, batch_size=100, tol=tol, max_no_improvement=5, random_state=0)
        Z = model.fit_transform(X)
        assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(X - Z @ model.components_), rel=1e-8)
        steps.append(model.n_steps_)
    assert 9 + 5 - 1 <= steps[0] < steps[1] < steps[2]
