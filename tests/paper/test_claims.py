"""What the paper says, checked one sentence a test, in the paper's notation: X (m x n) = W (m x k) H (k x n).

`docs/claims.md` lists every claim and refers to these tests by name.
"""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import minmax_scale

from contradictions import averages
from dspnmf import DSPNMF, NMF
from dspnmf.metrics import component_correlation
from dspnmf.paper.published import DATASETS, TASKS, published, rankings

FAMILY = ("GNMF", "SymNMF", "SDNMF", "DSP-NMF")


def problem(seed: int = 0, m: int = 5, n: int = 7, k: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, W and H, all positive."""
    rng = np.random.default_rng(seed)
    return rng.random((m, n)), rng.random((m, k)), rng.random((k, n))


def objective(X: np.ndarray, W: np.ndarray, H: np.ndarray, lam: float) -> float:
    """Eq. (eq-sn-our)."""
    return float(np.sum((X - W @ H) ** 2) + np.sum((X.T @ X - lam * H.T @ H) ** 2))


def gradient(X: np.ndarray, W: np.ndarray, H: np.ndarray, lam: float) -> np.ndarray:
    """The derivative by H in Appendices A and B (eq-fprime)."""
    return -2 * W.T @ X + 2 * W.T @ W @ H - 4 * lam * H @ X.T @ X + 4 * lam**2 * H @ H.T @ H


def best(task: str, statistic: str, data: str, methods: tuple[str, ...] = FAMILY) -> float:
    """The best printed score of these methods."""
    return max(getattr(published(task)[method][data], statistic) for method in methods)


# the model


def test_dot_product_of_unit_columns_is_the_cosine() -> None:
    """For unit columns, X'X holds the cosines."""
    X, _, _ = problem()
    X = X / np.linalg.norm(X, axis=0)
    assert (X.T @ X)[1, 4] == pytest.approx(X[:, 1] @ X[:, 4] / np.linalg.norm(X[:, 1]) / np.linalg.norm(X[:, 4]))


def test_expanded_objective() -> None:
    """The objective in traces is the objective."""
    X, W, H = problem()
    lam = 2.5
    t = np.trace
    expanded = t(X.T @ X) - 2 * t(X.T @ W @ H) + t(H.T @ W.T @ W @ H)
    expanded += t(X.T @ X @ X.T @ X) - 2 * lam * t(X.T @ X @ H.T @ H) + lam**2 * t(H.T @ H @ H.T @ H)
    assert expanded == pytest.approx(objective(X, W, H, lam), rel=1e-12)


def test_gradient_of_the_appendix() -> None:
    """The derivative by H in Appendix A is that of the objective (finite differences)."""
    X, W, H = problem()
    for a, b in ((0, 0), (2, 5)):
        E = np.zeros_like(H)
        E[a, b] = 1e-6
        slope = (objective(X, W, H + E, 2.5) - objective(X, W, H - E, 2.5)) / 2e-6
        assert slope == pytest.approx(gradient(X, W, H, 2.5)[a, b], rel=1e-6)


def test_normalization_leaves_the_product() -> None:
    """Eq. (eq-norm): columns of W of unit length, WH unchanged."""
    _, W, H = problem()
    length = np.linalg.norm(W, axis=0)
    np.testing.assert_allclose((W / length) @ (H * length[:, None]), W @ H)


# the update rules


def test_lee_and_seung_does_not_rise() -> None:
    """Eqs. (eq-h0) and (eq-i0), the rule of plain NMF, never raise ||X - WH||^2."""
    X, W, H = problem()
    values = []
    for _ in range(200):
        H = H * (W.T @ X) / (W.T @ W @ H)
        W = W * (X @ H.T) / (W @ H @ H.T)
        values.append(np.sum((X - W @ H) ** 2))
    assert np.diff(values).max() <= 1e-14 * values[0]


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_theorem_1_is_false(factor: float) -> None:
    """For m = n = k = 1 and W = 0 both rules (lam^2 as printed, 2 lam^2 as derived) alternate, and F rises."""
    x, lam, h = 1.0, 1.0, 0.7
    values = []
    for _ in range(6):
        values.append(x**2 + (x**2 - lam * h**2) ** 2)
        h = h * (2 * lam * h * x**2) / (factor * lam**2 * h**3)
    assert values[0] == pytest.approx(values[2])
    assert values[1] == pytest.approx(values[3])
    assert max(np.diff(values)) > 0.1


def test_the_printed_rule_is_not_the_derived_one() -> None:
    """At a point where the derivative vanishes the rule with 2 lam^2 stays, and Eq. (eq-ourh) with lam^2 moves on."""
    H = np.random.default_rng(0).random((2, 6))
    W = np.eye(2)  # X = WH and X'X = H'H: a minimum, F = 0, at lam = 1
    X = W @ H
    assert np.abs(gradient(X, W, H, 1.0)).max() < 1e-12
    pull, quadratic, quartic = W.T @ X + 2 * H @ X.T @ X, W.T @ W @ H, H @ H.T @ H
    np.testing.assert_allclose(H * pull / (quadratic + 2 * quartic), H)
    assert np.abs(H * pull / (quadratic + quartic) / H - 1).min() > 0.1


def test_a_fit_does_not_need_lambda() -> None:
    """F(W, H; lam) = F(W / sqrt(lam), sqrt(lam) H; 1): whatever lam does, a factor of the codes does."""
    X, W, H = problem()
    for lam in (1e-2, 7.0, 1e3):
        moved = objective(X, W / np.sqrt(lam), np.sqrt(lam) * H, 1.0)
        assert moved == pytest.approx(objective(X, W, H, lam), rel=1e-12)


def test_no_lambda_replaces_a_weight() -> None:
    """A factor f on the second term changes the ratio of both terms at the minimum; by the above, no lam does."""
    X = minmax_scale(load_wine().data)
    errors = []
    for alpha in (1e-3, 1.0):
        model = DSPNMF(3, alpha=alpha, random_state=0).fit(X)
        errors.append((model.reconstruction_err_, model.structure_err_))
    assert errors[0][0] < 0.99 * errors[1][0]
    assert errors[0][1] > 1.5 * errors[1][1]


# Appendix B


def test_second_derivative_of_appendix_b_is_wrong() -> None:
    """Finite differences give 4 lam^2 ((H'H)_bb + (HH')_aa + h_ab^2) in place of the printed 12 lam^2 (H'H)_bb."""
    X, W, H = problem()
    lam, a, b = 2.5, 1, 3
    E = np.zeros_like(H)
    E[a, b] = 1e-6
    measured = (gradient(X, W, H + E, lam) - gradient(X, W, H - E, lam))[a, b] / 2e-6
    common = 2 * (W.T @ W)[a, a] - 4 * lam * (X.T @ X)[b, b]
    right = common + 4 * lam**2 * ((H.T @ H)[b, b] + (H @ H.T)[a, a] + H[a, b] ** 2)
    printed = common + 12 * lam**2 * (H.T @ H)[b, b]
    assert measured == pytest.approx(right, rel=1e-6)
    assert abs(measured - printed) > 0.1 * abs(measured)


def test_inequalities_of_appendix_b_are_false() -> None:
    """A sum of non-negative terms is at least each of them once, not twice or twelve times."""
    W, H = np.eye(3), np.eye(3)
    assert (W.T @ W @ H)[0, 0] < 2 * (W.T @ W)[0, 0] * H[0, 0]
    assert (H @ H.T @ H)[0, 0] < 12 * H[0, 0] * (H.T @ H)[0, 0]


def test_auxiliary_function_of_appendix_b_is_none() -> None:
    """G (eq-lema2) must be at least F; in one dimension with W = 0 it is below F at the point the rule goes to."""
    x, lam, h = 1.0, 1.0, 0.7

    def F(h: float) -> float:
        return x**2 + (x**2 - lam * h**2) ** 2

    slope, curve = -4 * lam * h * x**2 + 4 * lam**2 * h**3, 2 * lam**2 * h**3 / h
    target = h - slope / (2 * curve)  # the minimum of G, where the rule goes
    assert target == pytest.approx(h * (2 * lam * h * x**2) / (2 * lam**2 * h**3))
    assert F(h) + slope * (target - h) + curve * (target - h) ** 2 < F(target)


# Theorem 2


def test_theorem_2_needs_the_rank_of_h() -> None:
    """W with a left inverse, X = WH and X'X = lam H'H do not give W'W = lam I, if H has not full row rank."""
    W, H, lam = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [0.0, 0.0]]), 2.0
    X = W @ H
    assert np.linalg.matrix_rank(W) == 2
    np.testing.assert_allclose(X.T @ X, lam * H.T @ H)
    assert np.abs(W.T @ W - lam * np.eye(2)).max() >= 1


def test_theorem_2_holds_with_it() -> None:
    """With H of full row rank, X'X = lam H'H determines W'W = lam I; the converse needs no rank."""
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((6, 3)))
    W, H, lam = np.sqrt(2.0) * Q, rng.random((3, 8)), 2.0
    X = W @ H
    np.testing.assert_allclose(X.T @ X, lam * H.T @ H)
    inverse = np.linalg.pinv(H)
    np.testing.assert_allclose(inverse.T @ (X.T @ X) @ inverse, lam * np.eye(3), atol=1e-12)


def test_theorem_2_multiplies_errors() -> None:
    """For "approximately" the error of X'X comes back multiplied by the inverse of H, twice."""
    rng = np.random.default_rng(0)
    H = np.vstack([rng.random(8), rng.random(8)])
    H[1] = H[0] + 1e-3 * H[1]  # of full rank, but barely
    W = np.array([[1.0, 0.5], [0.0, 0.8]])
    X = W @ H
    near = np.linalg.norm(X.T @ X - 1.445 * H.T @ H) / np.linalg.norm(X.T @ X)
    assert near < 0.05
    assert np.linalg.norm(W.T @ W - 1.445 * np.eye(2)) > 0.5


# what the codes are good for


def test_components_overlap_less_than_those_of_nmf() -> None:
    """On digits the components of DSP-NMF have smaller cosines than those of plain NMF."""
    X = load_digits().data / 16
    ours, plain = (component_correlation(cls(10, random_state=0).fit(X).components_) for cls in (DSPNMF, NMF))
    assert ours < 0.9 * plain


def test_other_starts_end_elsewhere() -> None:
    """The fixed point may be a local minimum: converged fits from several starts have different objectives."""
    X = minmax_scale(load_wine().data)
    ends = [DSPNMF(8, random_state=seed, max_iter=500, tol=1e-9).fit(X).objective_ for seed in range(4)]
    assert max(ends) > 1.01 * min(ends)


def test_the_earlier_model_is_that_of_the_transpose() -> None:
    """The model of the paper's reference with W in place of H is DSP-NMF of the transposed data."""
    X = minmax_scale(load_wine().data)
    U, V, alpha, lam = np.full((178, 2), 0.5), np.full((2, 13), 0.25), 0.3, 2.0
    both = [np.sum((A - L @ R) ** 2) + alpha * np.sum((A @ A.T - lam * L @ L.T) ** 2) for A, L, R in [(X.T, V.T, U.T)]]
    direct = np.sum((X - U @ V) ** 2) + alpha * np.sum((X.T @ X - lam * V.T @ V) ** 2)
    assert both[0] == pytest.approx(direct)


# the paper's own numbers


def test_averages_do_not_say_best_in_clustering_by_max() -> None:
    """Text: "based on Avgm and Avgx our algorithm outperforms all". In k-means Avgx is a tie, SymNMF ahead in cells."""
    assert averages("kmeans")["DSP-NMF"].max == averages("kmeans")["SymNMF"].max == 0.69
    mean = {m: fmean(cell.max for cell in published("kmeans")[m].values()) for m in FAMILY}
    assert mean["SymNMF"] > mean["DSP-NMF"]
    for task, statistic in ((t, s) for t in TASKS for s in ("mean", "max") if (t, s) != ("kmeans", "max")):
        assert all(
            getattr(averages(task)["DSP-NMF"], statistic) > getattr(averages(task)[m], statistic) for m in FAMILY[:3]
        )


def test_best_on_almost_all_data_sets_by_mean() -> None:
    """Text: best by mean "in classification and in clustering for almost all the datasets": 5, 5 and 3 of 6."""
    first = {
        task: sum(published(task)["DSP-NMF"][data].mean >= best(task, "mean", data) for data in DATASETS)
        for task in TASKS
    }
    assert first == {"svm": 5, "knn": 5, "kmeans": 3}


def test_counterexamples_of_the_text_are_those_of_the_cells() -> None:
    """The counterexamples are right, also that SymNMF leads in clustering by max; three by mean are missing."""
    worse = {
        (task, s): [d for d in DATASETS if getattr(published(task)["DSP-NMF"][d], s) < best(task, s, d)]
        for task in TASKS
        for s in ("mean", "max")
    }
    assert worse["knn", "mean"] == ["Wine"]
    assert worse["knn", "max"] == ["Wine", "Digits"]
    assert worse["svm", "mean"] == ["Wine"]
    assert worse["svm", "max"] == []
    assert worse["kmeans", "mean"] == ["Wine", "COIL20", "Digits"]
    assert len(worse["kmeans", "max"]) == 5


def test_umap_is_not_first_everywhere() -> None:
    """Text: UMAP is best "based on both mean and max", DSP-NMF second. By 3-NN and max, Table 5 counts 3 against 2."""
    counts = rankings()["all"]
    assert counts["DSP-NMF"]["knn"].max == 3 > counts["UMAP"]["knn"].max == 2
    for task, statistic in (("svm", "mean"), ("svm", "max"), ("knn", "mean"), ("kmeans", "mean"), ("kmeans", "max")):
        assert all(
            getattr(counts["UMAP"][task], statistic) > getattr(row[task], statistic)
            for method, row in counts.items()
            if method != "UMAP"
        )


def test_se_is_no_worse_than_lle_in_classification() -> None:
    """Text: LLE and SymNMF compete most with UMAP and DSP-NMF. SE's averages are not below LLE's in SVM and 3-NN."""
    for task in ("svm", "knn"):
        se, lle = averages(task)["SE"], averages(task)["LLE"]
        assert se.mean > lle.mean
        assert se.max >= lle.max


def test_three_methods_were_first_once() -> None:
    """Text: SE and GNMF "perform the least. Each ranked first only once". Table 5 counts SDNMF first only once, too."""
    totals = {m: sum(cell.mean + cell.max for cell in row.values()) for m, row in rankings()["all"].items()}
    assert {m for m, total in totals.items() if total == 1} == {"SE", "GNMF", "SDNMF"}


def test_no_method_is_best_everywhere() -> None:
    """Observation ii: in no task is one NMF method best on all data sets by mean (equal ones count as best)."""
    for task in TASKS:
        for method in FAMILY:
            assert any(published(task)[method][data].mean < best(task, "mean", data) for data in DATASETS)
