"""Components of a fit on its page: as pictures, as spectra or as bars of the features that weigh most."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics.pairwise import cosine_similarity

from dspnmf import metrics
from dspnmf.report.charts import Axis, Chart, Figure, Series, View
from dspnmf.report.fit_measurements import Fit, FitInputs, FloatArray
from dspnmf.report.formatting import MISSING, capital, cut, percent
from dspnmf.stability import match

MAX_DRAWN = 40  # components; the scatter plot has all
_NUMBERED_SPECTRUM = 30  # features that are only numbered are a spectrum if there are more
_NAMED_SPECTRUM = 8  # features named by quantities (wavelengths) are a spectrum if there are more
_MAX_POINTS = 24_000  # of all spectra together
ALL_BARS, TOP_BARS = 15, 10  # features of a component: all up to so many, otherwise the largest
_BRIGHT = 0.995  # quantile of the codes that gets the brightest colour of a map: outliers would darken the rest
MAX_SIDE = 400  # pixels; of larger grids neighbours are averaged
# From nothing to the largest number, evenly in lightness; the blues of the page.
_STOPS = ((7, 18, 31), (0, 61, 112), (20, 120, 180), (110, 185, 235), (240, 248, 255))
ORDER = (
    "Each component has the number of its column in the codes, and the share of the squares of X that it explains. The "
    "one that explains most comes first."
)
UNIT = "A weight times a code is in the unit of X."
_LARGEST_TABLE = 40  # components whose cosines are written as numbers; more are a picture
_UNNAMED = "feature (number)"  # the axis of features that are only numbered
_NUMBERED = re.compile(r"^(?P<before>\D*?)[ _.:-]?(?P<number>\d+(?:\.\d+)?)(?P<after>\D*)$")


class Positions(NamedTuple):
    """Features on an axis."""

    label: str
    at: FloatArray
    counting: bool  # whether the numbers only count


class Bar(NamedTuple):
    """A feature of a component: lengths are shares (0 to 100) of the longest bar, `baseline` is plain NMF's."""

    name: str
    text: str
    length: float
    baseline: float | None


class Picture(NamedTuple):
    """A picture with its caption."""

    title: str
    address: str
    text: str


class CosineTable(NamedTuple):
    """Cosines of components: cells of text and shade (0 to 10), or a picture where there are many."""

    name: str
    mean: str
    numbers: tuple[int, ...]  # of the components, as in the codes
    cells: tuple[tuple[tuple[str, int], ...], ...]
    address: str = ""


def kind_of(inputs: FitInputs) -> str:
    """How components are shown: as "pictures", "spectra" or "bars"; "" where there are none."""
    table, m = inputs.table, inputs.shape[1]
    if inputs.fit.V is None:
        return ""
    if table.picture is not None and table.picture[0] * table.picture[1] == m:
        return "pictures"
    found = None if sparse.issparse(table.X) else positions(table.features)
    if found is None:
        return "bars"
    return "spectra" if m > (_NUMBERED_SPECTRUM if found.counting else _NAMED_SPECTRUM) else "bars"


def positions(features: Sequence[object] | NDArray[np.str_]) -> Positions | None:
    """Where features lie on an axis, if their names are numbers in an order, alone or after a common word."""
    found = [_NUMBERED.match(str(name).strip()) for name in features]
    if not all(found) or len({(m["before"], m["after"]) for m in found if m}) != 1 or found[0] is None:
        return None
    at, word, after = np.array([float(m["number"]) for m in found if m]), found[0]["before"], found[0]["after"]
    steps = np.diff(at)
    if len(at) < 2 or not ((steps > 0).all() or (steps < 0).all()):
        return None
    counting, word = bool((steps == 1).all()), word.strip(" _.:-")
    what = after.strip(" _.:-()[]") or ("number" if counting else "as named")
    return Positions(f"{word or 'feature'} ({what})", at, counting)


def contributions(fit: Fit) -> FloatArray:
    """How much each component adds to ZV: ||z_a|| ||v_a||; the codes alone where there are no components."""
    codes = np.linalg.norm(fit.Z, axis=0)
    return codes if fit.V is None else codes * np.linalg.norm(fit.V, axis=1)


def ordered(inputs: FitInputs) -> NDArray[np.intp]:
    """Numbers of the components: those that explain most of X first, those that are empty last."""
    sizes = contributions(inputs.fit)
    by = sizes if inputs.shares is None else np.where(sizes > 0, inputs.shares, -np.inf)
    return np.argsort(-by, kind="stable")


def drawn(inputs: FitInputs) -> NDArray[np.intp]:
    """Numbers of the components that are drawn: all, or those that explain most."""
    return ordered(inputs)[:MAX_DRAWN]


def empty(fit: Fit) -> NDArray[np.intp]:
    """Numbers of the components that no sample uses, or that have no weight."""
    return np.flatnonzero(contributions(fit) == 0)


def name_of(a: int, inputs: FitInputs) -> str:
    """A component by its number, with what it explains, or that it is empty."""
    if a in empty(inputs.fit):
        return f"Component {a + 1}, empty"
    return f"Component {a + 1}" + ("" if inputs.shares is None else f", {percent(float(inputs.shares[a]))}")


def left_out(inputs: FitInputs) -> str:
    """A sentence on the components that are not drawn, or nothing."""
    number = inputs.fit.Z.shape[1] - len(drawn(inputs))
    return f"The {number} components that explain least are not drawn." if number else ""


def compared(inputs: FitInputs) -> list[tuple[str, FloatArray]]:
    """Name and components of the fit; then the baseline's most similar ones (each used once), at the same lengths."""
    V, baseline = inputs.fit.V, inputs.baseline
    assert V is not None
    if baseline is None or baseline.V is None:
        return [(inputs.fit.label, V)]
    matched = baseline.V[match(V, baseline.V)[0]]
    lengths, others = (np.linalg.norm(A, axis=1, keepdims=True) for A in (V, matched))
    matched = matched * lengths / np.where(others > 0, others, 1)
    return [(inputs.fit.label, V), (f"{baseline.label}, most similar", matched)]


def spectra(inputs: FitInputs) -> Figure:
    """Each component over its features, the baseline's most similar one behind it."""
    groups, shown = compared(inputs), drawn(inputs)
    found = positions(inputs.table.features)
    assert found is not None
    starts = np.arange(0, len(found.at), -(-len(found.at) * len(shown) // _MAX_POINTS))
    charts = []
    for a in shown:
        series = tuple(
            Series(name, found.at[starts], np.maximum.reduceat(A[a], starts), kind, style=style)
            for (name, A), kind, style in zip(groups, ("curve", "path"), (0, 2), strict=False)
        )
        charts.append(Chart(name_of(a, inputs), Axis(found.label), Axis("weight"), series, height=220))
    about = f"The weights of the features. {UNIT} {ORDER}"
    if len(groups) > 1:
        about += " The thin line is the most similar component of plain NMF, scaled to the same length."
    step = starts[1] if len(starts) > 1 else 1
    thinned = f"Every point is the largest of {step} neighbouring features." if step > 1 else ""
    text = tuple(filter(None, (about, thinned, left_out(inputs))))
    return Figure("components", "Components", text, (View("", tuple(charts)),))


def bars(inputs: FitInputs) -> list[tuple[str, list[Bar]]]:
    """For each component the features of the largest absolute weight."""
    (_, V), *rest = compared(inputs)
    matched = rest[0][1] if rest else None
    found = positions(inputs.table.features)
    before = "feature " if found is not None and found.label == _UNNAMED else ""
    result = []
    for a in drawn(inputs):
        order = np.argsort(-np.abs(V[a]), kind="stable")
        if V.shape[1] > ALL_BARS:
            order = order[: max(1, min(TOP_BARS, np.count_nonzero(V[a])))]
        longest = max(float(np.abs(A[a, order]).max()) for A in (V, matched) if A is not None)
        share = 100 / longest if longest > 0 else 0.0
        rows = [
            Bar(
                before + cut(inputs.table.features[j]),
                _weight(float(V[a, j]), longest),
                round(share * abs(float(V[a, j])), 2),
                None if matched is None else round(share * float(matched[a, j]), 2),
            )
            for j in order
        ]
        result.append((name_of(a, inputs), [] if a in empty(inputs.fit) else rows))
    return result


def _weight(value: float, longest: float) -> str:
    """A weight to three digits; what is a millionth of the longest bar or less is as good as nothing."""
    if 0 < abs(value) <= 1e-6 * longest:
        return "≈ 0"
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def cosine_tables(inputs: FitInputs) -> list[CosineTable]:
    """Cosines between components, of each fit that has some; empty components have none."""
    found = []
    first = ordered(inputs)
    for fit in inputs.fits:
        if fit.V is None or len(fit.V) < 2:
            continue
        order = first if fit is inputs.fit else np.arange(len(fit.V))
        cosines = np.clip(cosine_similarity(fit.V), -1, 1)[np.ix_(order, order)]
        k, mean = len(cosines), f"{metrics.component_correlation(fit.V):.3f}"
        blank = np.isin(order, empty(fit))
        mean += ", with 0 for empty components" if blank.any() else ""
        if k > _LARGEST_TABLE:
            found.append(CosineTable(capital(fit.label), mean, (), (), picture(np.abs(cosines), (k, k), 1.0)))
            continue
        cells = tuple(
            tuple(_cell(float(v), i == j, bool(blank[i] or blank[j])) for j, v in enumerate(row))
            for i, row in enumerate(cosines)
        )
        found.append(CosineTable(capital(fit.label), mean, tuple(map(int, order + 1)), cells))
    return found


def _cell(cosine: float, own: bool, blank: bool) -> tuple[str, int]:
    """A cosine to two digits and its shade; 1 with itself, and a dash where a component is empty, have none."""
    if own or blank:
        return (MISSING if blank else "1"), -1
    text = f"{cosine:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
    return text, round(10 * abs(cosine))


def pictures(inputs: FitInputs) -> list[tuple[str, list[Picture]]]:
    """Each component as a picture, then the baseline's most similar ones in the same order."""
    shape, shown = inputs.table.picture, drawn(inputs)
    assert shape is not None
    groups = compared(inputs)
    top = {a: max(float(A[a].max()) for _, A in groups) for a in shown}  # both of a pair have the same colours
    return [
        (
            capital(name),
            [
                Picture(
                    name_of(a, inputs) if A is groups[0][1] else f"Like component {a + 1}",
                    picture(A[a], shape, top[a]),
                    f"up to {A[a].max():.3g}",
                )
                for a in shown
            ],
        )
        for name, A in groups
    ]


def maps(inputs: FitInputs) -> list[Picture]:
    """The codes of each component on the grid of the samples."""
    grid, Z = inputs.table.grid, inputs.fit.Z
    if grid is None or grid[0] * grid[1] != len(Z):
        return []
    return [
        Picture(name_of(a, inputs), picture(z, grid, float(np.quantile(z, _BRIGHT))), f"up to {z.max():.3g}")
        for a, z in ((a, Z[:, a]) for a in drawn(inputs))
    ]


def picture(values: FloatArray, shape: tuple[int, int], top: float = 0.0) -> str:
    """Numbers, line by line, as the address of a PNG: dark the smallest (or 0), light `top` (or the largest)."""
    try:
        Image = import_module("PIL.Image")
    except ImportError as error:
        raise ImportError('Pictures need Pillow: install it with pip install "dspnmf[report]".') from error
    image = Image.fromarray(np.asarray(values, dtype=np.float32).reshape(shape))
    grid = np.asarray(image.reduce(-(-max(shape) // MAX_SIDE)))
    low, high = min(0.0, float(grid.min())), top if top > 0 else float(grid.max())
    share = np.minimum((grid - low) / (high - low), 1) if high > low else np.zeros_like(grid)
    image = Image.fromarray(np.rint(255 * share).astype(np.uint8))
    at = np.linspace(0, len(_STOPS) - 1, 256)
    colours = [np.interp(at, range(len(_STOPS)), channel) for channel in zip(*_STOPS, strict=True)]
    image.putpalette(np.rint(np.stack(colours, axis=1)).astype(np.uint8).tobytes())
    file = io.BytesIO()
    image.save(file, "png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
