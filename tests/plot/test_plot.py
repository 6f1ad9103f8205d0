"""Plots: what is drawn is the data, every axis is labelled, and nothing is shown or left empty."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dspnmf import DSPNMF, NMF, NPE, metrics

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from dspnmf import plot
from dspnmf.plot import _style


@pytest.fixture(autouse=True)
def _nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No function shows a picture; what was drawn can be drawn to the end, and is put away."""
    monkeypatch.setitem(mpl.rcParams, "figure.dpi", 40)  # what is looked at here are the artists
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("a picture was shown"))
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.fixture(scope="module")
def model(wine: np.ndarray) -> Any:
    """A fit of five components."""
    return DSPNMF(5, random_state=0, max_iter=6, tol=0).fit(wine)


@pytest.fixture(scope="module")
def images(digits: np.ndarray) -> Any:
    """A fit of images, as a pipeline."""
    return make_pipeline(FunctionTransformer(None), NMF(7, random_state=0, max_iter=4, tol=0)).fit(digits[:300])


def texts(ax: Axes) -> list[str]:
    """What the legend says."""
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def offsets(ax: Axes, which: int = 0) -> np.ndarray:
    """The points of a scatter plot."""
    return np.asarray(ax.collections[which].get_offsets())


# -- convergence -----------------------------------------------------------------------------------------------------


def test_convergence_of_one(model: Any) -> None:
    """One line, the history, on a logarithmic axis that says so; no legend."""
    ax = plot.convergence(model)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), model.objective_history_)
    np.testing.assert_array_equal(line.get_xdata(), np.arange(model.n_iter_ + 1))
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("iteration", "objective (log scale)", "log")
    assert ax.get_legend() is None


def test_convergence_of_several(model: Any, images: Any) -> None:
    """One line a model with its name and its own colour; relative histories begin at 1."""
    ax = plot.convergence({"one": model, "other": images}, relative=True)
    assert texts(ax) == ["one", "other"]
    assert [line.get_ydata()[0] for line in ax.lines] == [1.0, 1.0]
    assert len({line.get_color() for line in ax.lines}) == 2
    assert ax.get_ylabel().startswith("objective / objective at the start")


class WithHistory(NMF):
    """A fitted model with a history of our choice."""

    def __init__(self, history: Any = ()) -> None:
        self.history = history
        self.objective_history_ = np.array(history)


@pytest.mark.parametrize("history", [[3.0, 2.5, 2.4], [3.0, 0.0]])
def test_convergence_is_linear_where_little_happens(history: list[float]) -> None:
    """Values of one size are on a linear axis, and so are those that have no logarithm."""
    ax = plot.convergence(WithHistory(history))
    assert (ax.get_yscale(), ax.get_ylabel()) == ("linear", "objective")


def test_convergence_refuses() -> None:
    """Models that are not fitted, have no history, or are none."""
    with pytest.raises(NotFittedError):
        plot.convergence(DSPNMF())
    with pytest.raises(ValueError, match="NPE has no history to draw"):
        plot.convergence(NPE(2).fit(np.random.default_rng(0).random((20, 4))))
    with pytest.raises(ValueError, match=r"models=\{\} is empty"):
        plot.convergence({})


# -- components ------------------------------------------------------------------------------------------------------


def test_components_as_images(images: Any) -> None:
    """One picture for each component, of that component, and no empty Axes in addition."""
    axes = plot.components(images, shape=(8, 8))
    assert axes.shape == (7,)
    assert len(axes[0].figure.axes) == 7
    for number, ax in enumerate(axes):
        np.testing.assert_array_equal(ax.images[0].get_array(), images[-1].components_[number].reshape(8, 8))
        assert ax.get_title() == f"component {number}"
        assert ax.images[0].norm.vmin == 0
    assert len(plot.components(images, shape=(8, 8), n=3)) == 3


def test_components_with_signs(wine: np.ndarray) -> None:
    """Signed components are drawn around zero."""
    ax = plot.components(NPE(1).fit(wine[:, :12]), shape=(3, 4))[0]
    assert ax.images[0].norm.vmin == -ax.images[0].norm.vmax


def test_components_as_bars(model: Any) -> None:
    """The strongest features by name, the strongest on top."""
    names = np.array([f"f{j}" for j in range(13)])
    axes = plot.components(model, names=names, top=4)
    assert axes.shape == (5,)
    for row, ax in zip(model.components_, axes, strict=True):
        widths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_array_equal(widths, np.sort(row)[::-1][:4])
        assert [label.get_text() for label in ax.get_yticklabels()] == list(names[np.argsort(-row, kind="stable")[:4]])
        assert ax.yaxis_inverted()
        assert ax.get_xlabel() == "weight"


def test_components_know_the_columns(wine: np.ndarray) -> None:
    """A model fitted on a data frame has names, and is drawn as bars; without names features have numbers."""
    frame = pd.DataFrame(np.tile(wine, 3), columns=[f"column {j}" for j in range(39)])
    axes = plot.components(NMF(2, max_iter=2, tol=0, random_state=0).fit(frame), top=2)
    assert axes[0].get_yticklabels()[0].get_text().startswith("column ")
    axes = plot.components(NMF(2, max_iter=2, tol=0, random_state=0).fit(wine), top=20)
    assert len(axes[0].patches) == 13
    assert axes[0].get_ylabel() == "feature"


def test_components_as_lines(images: Any) -> None:
    """Many features without names are curves, one for each component, with the same limits."""
    axes = plot.components(images)
    assert axes.shape == (7,)
    for row, ax in zip(images[-1].components_, axes, strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), row)
    assert len({ax.get_ylim() for ax in axes}) == 1
    assert [ax.get_xlabel() for ax in axes] == [""] * 5 + ["feature"] * 2


def test_components_on_one_axes(images: Any) -> None:
    """Lines may share one Axes, and are distinguished by a legend; numbers as names are its axis."""
    _, given = plt.subplots()
    where = np.linspace(400, 2500, 64)
    ax = plot.components(images, "lines", names=where, ax=given)
    assert ax is given
    assert texts(ax) == [str(number) for number in range(7)]
    np.testing.assert_array_equal(ax.lines[3].get_xdata(), where)


def test_axes_given_are_used(model: Any, images: Any) -> None:
    """Every function draws on the Axes passed, and opens no other figure."""
    figure, axes = plt.subplots(2, 4)
    assert plot.components(images, shape=(8, 8), ax=axes)[6] is axes[1, 2]
    assert plot.components(model, "bars", n=4, ax=axes[0])[3] is axes[0, 3]
    assert plot.convergence(model, ax=axes[1, 3]) is axes[1, 3]
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "pie"}, r"kind='pie' cannot be drawn: it must be one of 'auto', 'images', 'lines', 'bars'"),
        ({"kind": "images"}, r"needs the shape of a picture: pass shape=\(height, width\)"),
        ({"shape": (3, 4)}, r"shape=\(3, 4\) does not have the 13 features"),
        ({"names": ["a"]}, r"names has shape \(1,\), but the model has 13 features"),
        ({"n": 0}, r"n=0 leaves nothing to draw"),
        ({"top": 0}, r"top=0 leaves nothing to draw"),
        ({"ax": "here"}, r"ax has 1 Axes, but 5 are drawn on"),
    ],
)
def test_components_refuse(options: dict[str, Any], text: str, model: Any) -> None:
    """What cannot be drawn is refused before a figure is made."""
    with pytest.raises(ValueError, match=text):
        plot.components(model, **options)
    assert not plt.get_fignums()


def test_no_components() -> None:
    """A model without components is refused."""
    with pytest.raises(ValueError, match="WithHistory has no components to draw"):
        plot.components(WithHistory([2.0, 1.0]))
    with pytest.raises(NotFittedError):
        plot.correlation(NMF())


def test_correlation(model: Any) -> None:
    """The heat map has the cosines, written too where there is room, and their mean above."""
    ax = plot.correlation(model)
    V = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
    np.testing.assert_allclose(ax.images[0].get_array(), V @ V.T, atol=1e-12)
    assert len(ax.texts) == 25
    assert ax.texts[0].get_text() == "1.00"
    assert ax.get_title() == f"mean cosine {metrics.component_correlation(model.components_):.2f}"
    assert ax.get_xlabel() == ax.get_ylabel() == "component"


def test_correlation_of_many(digits: np.ndarray) -> None:
    """Where numbers would not fit none are written."""
    assert not plot.correlation(NMF(20, max_iter=2, tol=0, random_state=0).fit(digits[:100])).texts


# -- codes -----------------------------------------------------------------------------------------------------------


def test_codes_without_labels(wine: np.ndarray) -> None:
    """Points are two columns of the codes, and the axes name them."""
    ax = plot.codes(wine, which=(2, -1))
    np.testing.assert_array_equal(offsets(ax), wine[:, [2, 12]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 2", "component 12")
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    "y", [np.arange(178) % 3, np.array(["a", "b", "c"])[np.arange(178) % 3], np.arange(178) % 3 * 1.0]
)
def test_codes_with_labels(y: Any, wine: np.ndarray) -> None:
    """Every label has its points, its colour and its entry in the legend, whether it is a word or a whole number."""
    ax = plot.codes(wine, y)
    assert texts(ax) == [str(label) for label in np.unique(y)]
    for number, label in enumerate(np.unique(y)):
        np.testing.assert_array_equal(offsets(ax, number), wine[y == label][:, :2])
        assert to_hex(ax.collections[number].get_facecolor()[0]).upper() == _style.COLOURS[number]


def test_codes_with_many_labels(wine: np.ndarray) -> None:
    """More labels than colours differ by their markers; too many words are refused, too many numbers are a scale."""
    looks = [tuple(map(str, _style.point(number).items())) for number in range(_style.STYLES)]
    assert len(set(looks)) == _style.STYLES == 28
    assert len(plot.codes(wine, np.arange(178) % 28).collections) == 28
    assert len(plot.codes(wine, np.arange(178)).collections) == 1
    with pytest.raises(ValueError, match="y has 178 different labels, but 28 can be distinguished"):
        plot.codes(wine, np.arange(178).astype(str))


def test_codes_with_numbers(wine: np.ndarray) -> None:
    """Other numbers are a scale, named after their column; a missing one is drawn too."""
    y = pd.Series(np.where(np.arange(178) == 5, np.nan, wine[:, 4]), name="magnesium")
    ax = plot.codes(pd.DataFrame(wine), y)
    assert len(offsets(ax)) == 178
    np.testing.assert_array_equal(np.ma.filled(ax.collections[0].get_array(), np.nan), y)
    assert ax.figure.axes[1].get_ylabel() == "magnesium"


def test_codes_of_tensors(wine: np.ndarray) -> None:
    """Codes that are tensors are drawn like any other."""
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    ax = plot.codes(torch.from_numpy(wine), torch.arange(178) % 2)
    assert texts(ax) == ["0", "1"]


def test_codes_refuse(wine: np.ndarray) -> None:
    """Components that are not there, labels of another length, Axes that are none."""
    with pytest.raises(ValueError, match=r"which=\(0, 13\) names a component that Z does not have: it has 0 to 12"):
        plot.codes(wine, which=(0, 13))
    with pytest.raises(ValueError, match=r"y has shape \(4,\), but must have \(178,\)"):
        plot.codes(wine, [1, 2, 3, 4])
    with pytest.raises(TypeError, match="is not an Axes"):
        plot.codes(wine, ax=5)


# -- structure -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_structure_draws_all_pairs(kind: Any, wine: np.ndarray) -> None:
    """Points are the similarities of all pairs, with the factor that fits best over the whole matrices."""
    X, Z = wine[:40], wine[:40, :3]
    ax = plot.structure(kind(X), Z)
    i, j = np.triu_indices(40, 1)
    gram, codes = X @ X.T, Z @ Z.T
    factor = np.sum(gram * codes) / np.sum(codes * codes)
    np.testing.assert_allclose(offsets(ax), np.column_stack([gram[i, j], factor * codes[i, j]]), rtol=1e-12)
    assert ax.get_title() == f"structure error {metrics.structure_error(X, Z):.3f}"
    (diagonal,) = ax.lines
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert ax.get_xlim() == ax.get_ylim()


def test_structure_of_codes_that_keep_it(wine: np.ndarray) -> None:
    """Codes that are the data in another unit lie on the diagonal, and the error is 0."""
    ax = plot.structure(wine[:30], 7 * wine[:30])
    points = offsets(ax)
    np.testing.assert_allclose(points[:, 0], points[:, 1], rtol=1e-12)
    assert ax.get_title() == "structure error 0.000"


def test_structure_of_many_pairs(digits: np.ndarray) -> None:
    """Many pairs are counted in cells: so many as asked for, the same for the same seed, never a sample with itself."""
    X = digits[:500]
    first, again, other = (plot.structure(X, X, n_pairs=4000, random_state=seed) for seed in (0, 0, 1))
    counts = [np.asarray(ax.collections[0].get_array()) for ax in (first, again, other)]
    assert counts[0].sum() == 4000
    np.testing.assert_array_equal(counts[0], counts[1])
    assert counts[0].shape != counts[2].shape or (counts[0] != counts[2]).any()
    i, j = plot._codes._pairs(500, 4000, np.random.RandomState(0))
    assert (i < j).all()
    assert first.figure.axes[1].get_ylabel() == "pairs"


def test_structure_of_nothing(wine: np.ndarray) -> None:
    """Codes of zero keep nothing, and are drawn; too few samples or pairs are refused."""
    assert plot.structure(wine, np.zeros((178, 2))).get_title() == "structure error 1.000"
    with pytest.raises(ValueError, match="n_pairs=0 of 178 samples"):
        plot.structure(wine, wine, n_pairs=0)
    with pytest.raises(ValueError, match="of 1 samples"):
        plot.structure(wine[:1], wine[:1])


# -- selection and stability -----------------------------------------------------------------------------------------


def search(ranks: tuple[int, ...], alphas: tuple[float, ...], *, labels: bool = True) -> Any:
    """What a search would have found: the best is the highest rank at the second alpha."""
    grid = [(k, a) for k in ranks for a in alphas]
    score = np.array([k + (a == alphas[len(alphas) > 1]) for k, a in grid], dtype=float)
    best = grid[int(score.argmax())]
    found = SimpleNamespace(
        cv_results_={
            "param_n_components": np.ma.array([k for k, _ in grid], dtype=object),
            "param_alpha": np.ma.array([a for _, a in grid], dtype=object),
            "mean_test_score": score,
            "std_test_score": np.full(len(grid), 0.25),
        },
        n_components_=best[0],
        alpha_=best[1],
    )
    if not labels:
        found.rank_results_ = {
            "n_components": np.array(ranks),
            "mean_error": 1 / np.array(ranks),
            "std_error": np.full(len(ranks), 0.1),
            "stability": np.linspace(1, 0.5, len(ranks)),
        }
    return found


def test_selection_over_alpha() -> None:
    """One line a rank with its bars; alpha = 0 stands one step left of the others; the choice is ringed."""
    ax = plot.selection(search((2, 5), (0.0, 0.1, 10.0)))
    assert texts(ax) == ["rank 2", "rank 5"]
    assert len(ax.containers) == 2
    data = ax.containers[1].lines[0]
    np.testing.assert_allclose(data.get_xdata() / data.get_xdata()[0], [1, 100, 10_000])
    np.testing.assert_array_equal(data.get_ydata(), [5, 6, 5])
    bars = ax.containers[1].lines[2][0].get_segments()
    np.testing.assert_allclose([segment[:, 1] for segment in bars], [[4.75, 5.25], [5.75, 6.25], [4.75, 5.25]])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "0.1", "10"]
    np.testing.assert_allclose(ax.get_xticks(), [0.001, 0.1, 10])
    ring = ax.lines[-1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (data.get_xdata()[1], 6)
    assert ax.get_title() == "chosen: rank 5, alpha 0.1"
    assert (ax.get_xlabel(), ax.get_xscale(), ax.get_ylabel()) == ("alpha (log scale)", "log", "score")


def test_selection_without_labels() -> None:
    """Error and stability of every rank come first, with bars and the choice."""
    axes = plot.selection(search((8, 2, 4), (0.0, 1.0), labels=False))
    assert [ax.get_ylabel() for ax in axes] == ["error", "stability (0 to 1)", "score"]
    np.testing.assert_array_equal(axes[0].containers[0].lines[0].get_xdata(), [2, 4, 8])
    np.testing.assert_array_equal(axes[0].containers[0].lines[0].get_ydata(), [1 / 2, 1 / 4, 1 / 8])
    assert len(axes[0].containers[0].lines[2][0].get_segments()) == 3
    assert [ax.lines[-1].get_xdata()[0] for ax in axes[:2]] == [8, 8]
    assert axes[0].get_title() == "chosen: rank 8"
    without = search((2, 4), (0.0, 1.0), labels=False)
    del without.rank_results_["stability"]
    assert len(plot.selection(without)) == 2


def test_selection_of_one_alpha() -> None:
    """With one alpha scores are drawn over the rank; with nothing but 0 too."""
    for alpha in (1.0, 0.0):
        ax = plot.selection(search((2, 3, 5), (alpha,)))
        assert ax.get_xlabel() == "rank (number of components)"
        np.testing.assert_array_equal(ax.get_xticks(), [2, 3, 5])
        assert ax.get_title() == f"chosen: rank 5 (alpha {alpha:g})"
    assert plot.selection(search((3,), (0.0,))).get_xticklabels()[0].get_text() == "0"


def test_selection_of_many_alphas() -> None:
    """Ticks have room however many alphas there are."""
    ax = plot.selection(search((2,), (0.0, *np.logspace(-5, 5, 31))))
    assert len(ax.get_xticklabels()) <= 9
    assert ax.get_xticklabels()[0].get_text() == "0"


def test_selection_refuses() -> None:
    """Anything but a fitted search."""
    with pytest.raises(NotFittedError):
        plot.selection(DSPNMF())
    with pytest.raises(ValueError, match="NPE has no cv_results_: pass a fitted DSPNMFCV"):
        plot.selection(NPE(1).fit(np.random.default_rng(0).random((20, 4))))
    with pytest.raises(ValueError, match="ax has 1 Axes, but 3 are drawn on"):
        plot.selection(search((2,), (1.0,), labels=False), ax=plt.subplots()[1])


def test_stability() -> None:
    """Bars are the scores, from 0 to 1, with their names and their mean."""
    ax = plot.stability([1 + 1e-15, 0.5, 0.25], names=["a", "b", "c"])
    assert [bar.get_height() for bar in ax.patches] == [1 + 1e-15, 0.5, 0.25]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert ax.get_ylim() == (0, 1)
    assert ax.get_title() == "mean stability 0.58"
    long = plot.stability([1.0, 0.5], names=["a long name of a component", "another, as long as this"])
    assert long.get_xticklabels()[0].get_rotation() == 45


def test_stability_of_a_model() -> None:
    """A model that was fitted from several starts has scores of its own; one start says nothing."""
    ax = plot.stability(SimpleNamespace(stability_=np.array([0.25, 0.75])))
    assert [bar.get_height() for bar in ax.patches] == [0.25, 0.75]
    with pytest.raises(ValueError, match=r"fitted from one start.*set n_init=5"):
        plot.stability(SimpleNamespace(stability_=None))


@pytest.mark.parametrize("scores", [[1.2], [-0.1], [np.nan], [], [[0.5]]])
def test_stability_refuses(scores: Any) -> None:
    """Scores outside 0 to 1, none, or a table."""
    with pytest.raises(ValueError, match="must be one number from 0 to 1 for each component"):
        plot.stability(scores)


def test_stability_needs_as_many_names() -> None:
    """One name for each."""
    with pytest.raises(ValueError, match="names has 1 entries, but there are 2 scores"):
        plot.stability([0.5, 0.5], names=["a"])


# -- without Matplotlib ------------------------------------------------------------------------------------------------


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Matplotlib is missing the import says how to get it."""
    for name in [name for name in sys.modules if name.startswith("dspnmf.plot")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "dspnmf\[plot\]"'):
        importlib.import_module("dspnmf.plot")


def test_points_are_samples_or_features(wine: np.ndarray) -> None:
    """With X every sample is a point, at its two largest codes; without, every feature, at its weights."""
    model = DSPNMF(3, random_state=0).fit(wine)
    ax = plot.points(model, wine, load_wine().target)
    largest = np.argsort(-metrics.explained_share(wine, model.transform(wine), model.components_))[:2]
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple(f"component {a}" for a in largest)
    assert len(ax.get_legend().get_texts()) == 3
    ax = plot.points(model, which=(0, 2), names=load_wine().feature_names)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), model.components_[[0, 2]].T)
    strongest = int(np.hypot(*model.components_[[0, 2]]).argmax())
    assert load_wine().feature_names[strongest] in [text.get_text() for text in ax.texts]


def test_points_need_two_components(wine: np.ndarray) -> None:
    """What cannot be drawn is said before anything is."""
    with pytest.raises(ValueError, match="points need two"):
        plot.points(DSPNMF(1, random_state=0).fit(wine))
    model = DSPNMF(2, random_state=0).fit(wine)
    with pytest.raises(ValueError, match="y colours samples, but X is None"):
        plot.points(model, y=load_wine().target)
    with pytest.raises(ValueError, match="which=\\(0, 5\\) names a component that the model does not have"):
        plot.points(model, which=(0, 5))
    with pytest.raises(ValueError, match="names has 2 entries, but the model has 13 features"):
        plot.points(model, names=["a", "b"])
