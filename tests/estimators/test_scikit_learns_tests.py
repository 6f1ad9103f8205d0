"""scikit-learn's own tests of its NMF, from the installed package, with our classes in place of its own.

One line of their file is changed: the import of the classes that are tested. Every test runs. Those listed below check
what is scikit-learn's own (exact texts, private attributes, the last digits of its path), each with the reason; what
they mean is asserted at the end of this file.
"""

from __future__ import annotations

import importlib.util
import inspect
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils._testing import assert_allclose

from dspnmf import NMF, MiniBatchNMF, non_negative_factorization

_IMPORTS = "from sklearn.decomposition import NMF, MiniBatchNMF, non_negative_factorization\n"
_OURS = "from dspnmf import NMF, MiniBatchNMF, non_negative_factorization\n"

TEXTS = {  # errors and warnings of the same types, in other words: run without the comparison of texts
    "test_convergence_warning": "the warning says how far the fit was from converged",
    "test_non_negative_factorization_checking": "the errors name the array, its type and what to do",
    "test_nmf_custom_init_shape_error": "the errors say both shapes",
    "test_parameter_checking": "the error says which solvers go with the loss",
}
STARTS = {  # run with `init=None`, scikit-learn's default, where our NMF has another
    "test_nmf_true_reconstruction": "the exact factorization is found from it, not from every random start",
    "test_nmf_minibatchnmf_equivalence": "MiniBatchNMF has scikit-learn's default, NMF begins at random",
}
PRIVATE = {  # run with their private attribute as another name of our public one
    "test_nmf_n_components_auto": "_n_components is n_components_",
}
TOLERANCES = {  # run with a wider tolerance
    "test_nmf_sparse_input": (
        1e-5,
        "sums of dense and sparse X differ in rounding, and codes of an exact rank grow it",
    ),
    "test_nmf_true_reconstruction": (
        1e-7,
        "zeros are found to 1e-20, and theirs are compared with no tolerance at all",
    ),
}
EXACT = (
    "with as many components as features the factorization is exact and has no single answer; ours goes on until the "
    "error is rounding, which is another for each precision (test_precisions_agree_in_what_is_determined)"
)
FAILING = {  # test, and of its cases those whose names begin like this
    ("test_nmf_float32_float64_consistency", ""): EXACT,
    ("test_minibatch_nmf_partial_fit", ""): "holds in scikit-learn because components_ of both models are the same "
    "array, the H given, which is changed in place; their batches differ (X[j : j + batch_size] overlap)",
    ("test_nmf_multiplicative_update_sparse", ""): "beta_loss=2 are squares, which have solvers of their own: after 20 "
    "iterations these are elsewhere than the rule for 1.99999 (test_other_losses_vary_smoothly runs the rest of it)",
}

pytestmark = [pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]


def _module(**changes: str) -> ModuleType:
    """Their tests, with one line changed, or `changes` in addition."""
    spec = importlib.util.find_spec("sklearn.decomposition.tests.test_nmf")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    module = ModuleType("scikit_learns_tests")
    for theirs, ours in {_IMPORTS: _OURS, **changes}.items():
        assert theirs in source
        source = source.replace(theirs, ours)
    exec(compile(source, spec.origin, "exec"), vars(module))
    return module


_theirs = _module()
_tests = {name: test for name, test in vars(_theirs).items() if name.startswith("test_")}
globals().update(_tests)


@pytest.fixture(autouse=True)
def _as_listed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is listed of a test."""
    name, _, case = request.node.name.partition("[")
    for (listed, cases), reason in FAILING.items():
        if name == listed and case.startswith(cases):
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    if name in TEXTS:
        loose = SimpleNamespace(raises=_without_text(pytest.raises), warns=_without_text(pytest.warns))
        monkeypatch.setattr(_theirs, "pytest", loose)
    if name in TOLERANCES:
        monkeypatch.setattr(_theirs, "assert_allclose", _wider(TOLERANCES[name][0]))
    if name in STARTS:
        monkeypatch.setattr(_theirs, "NMF", partial(NMF, init=None))
    if name in PRIVATE:
        monkeypatch.setattr(NMF, "_n_components", property(lambda model: model.n_components_), raising=False)


def _wider(rtol: float, times: float = 1.0) -> Any:
    """Their comparison with this relative tolerance, and the absolute one they asked for, as many times as large."""
    return lambda actual, desired, rtol=rtol, atol=1e-8, **given: assert_allclose(
        actual, desired, rtol=rtol, atol=times * atol, **given
    )


def _without_text(check: Any) -> Any:
    """A check for an exception or a warning by its type alone."""
    return lambda kind, match="": check(kind)


def test_all_of_theirs_run() -> None:
    """Every test of the file is one of this module, and every name listed is one of them."""
    assert len(_tests) >= 35
    assert all(globals()[name] is test for name, test in _tests.items())
    assert {*TEXTS, *STARTS, *PRIVATE, *TOLERANCES, *(name for name, _ in FAILING)} <= set(_tests)


# -- what the listed tests mean ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [NMF, MiniBatchNMF])
def test_rank_follows_the_start(method: Any) -> None:
    """The rank "auto" is that of a given start; without one, and as None, that of the features."""
    rng = np.random.RandomState(0)
    X, W, H = rng.random_sample((6, 5)), rng.random_sample((6, 2)), rng.random_sample((2, 5))
    assert method("auto", init="custom", random_state=0).fit(X, W=W, H=H).n_components_ == 2
    for rank in ("auto", None):
        assert method(rank, random_state=0).fit(X).n_components_ == 5


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
def test_other_losses_vary_smoothly(container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their test of sparse X and of neighbouring losses, for every one of its losses but squares."""
    rest = _module(**{"(-1.2, 0, 0.2, 1.0, 2.0, 2.5)": "(-1.2, 0, 0.2, 1.0, 2.5)"})
    monkeypatch.setattr(rest, "assert_allclose", _wider(1e-4, 10))  # as many steps go further here
    rest.test_nmf_multiplicative_update_sparse(container)


@pytest.mark.parametrize("method", [NMF, MiniBatchNMF])
def test_precisions_agree_in_what_is_determined(method: Any) -> None:
    """float32 and float64 give the same product WH, also where W and H have many answers."""
    X = np.abs(np.random.RandomState(0).randn(50, 7))
    products = []
    for dtype in (np.float32, np.float64):
        model = method(7, random_state=0, tol=1e-6, max_iter=500)
        products.append(model.fit_transform(X.astype(dtype)) @ model.components_)
    assert_allclose(products[0], products[1], rtol=0, atol=0.02)


def test_the_function_has_the_parameters_of_theirs() -> None:
    """Whatever scikit-learn's classes and function are called with, ours take."""
    import sklearn.decomposition as peers

    for name in ("NMF", "MiniBatchNMF"):
        theirs = set(getattr(peers, name)().get_params())
        ours = set({"NMF": NMF, "MiniBatchNMF": MiniBatchNMF}[name]().get_params())
        assert theirs <= ours
    first = list(inspect.signature(non_negative_factorization).parameters)[:4]
    assert first == list(inspect.signature(peers.non_negative_factorization).parameters)[:4]


def test_batches_of_one_fit_are_those_of_partial_fit() -> None:
    """A fit in batches is what the same batches give one by one."""
    X = np.random.RandomState(0).random_sample((90, 6))
    whole = MiniBatchNMF(3, batch_size=30, max_iter=2, tol=0, max_no_improvement=None, random_state=0).fit(X)
    parts = MiniBatchNMF(3, tol=0, random_state=0, max_iter=2, forget_factor=0.7 ** (1 / 3))
    for i in (0, 30, 60, 0, 30, 60):
        parts.partial_fit(X[i : i + 30]).set_params(max_iter=4)  # what batches after the first are given in a fit
    assert whole.n_steps_ == parts.n_steps_ == 6
    assert_allclose(whole.components_, parts.components_)
