"""How components are best looked at: as pictures, as spectra or as the features that weigh most."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from dspnmf.report.charts import Axis, Chart, Figure, Series, View
from dspnmf.report.images import picture
from dspnmf.report.texts import capital, cut

if TYPE_CHECKING:
    from dspnmf._typing import Array
    from dspnmf.report.case import Case, Fit

MOST = 40  # components drawn; the scatter plot has all
MANY = 30  # features that are only numbered are a spectrum beyond so many
FEW = 8  # features named by quantities (wavelengths) are one beyond so many
POINTS = 24_000  # of all spectra together
ALL_BARS, TOP_BARS = 15, 10  # features of a component: all up to so many, otherwise the largest
_BRIGHT = 0.995  # share of samples below the brightest colour of a map: a few outliers would darken the rest
_NUMBERED = re.compile(r"^(?P<before>\D*?)[ _.:-]?(?P<number>\d+(?:\.\d+)?)(?P<after>\D*)$")


class Positions(NamedTuple):
    """Features on an axis."""

    label: str
    at: Array
    counting: bool  # whether the numbers only count


@dataclass(frozen=True)
class Bar:
    """A feature of a component: lengths are shares (0 to 100) of the longest bar; `peer` is plain NMF's."""

    name: str
    text: str
    length: float
    peer: float | None


@dataclass(frozen=True)
class Picture:
    """A picture with what stands below it."""

    title: str
    address: str
    text: str


def kind_of(case: Case) -> str:
    """By what is known of the features: "pictures", "spectra" or "bars"; "" where there are no components."""
    table, m = case.table, case.shape[1]
    if case.fit.V is None:
        return ""
    if table.picture is not None and table.picture[0] * table.picture[1] == m:
        return "pictures"
    found = None if sparse.issparse(table.X) else positions(table.features)
    return "spectra" if found is not None and m > (MANY if found.counting else FEW) else "bars"


def positions(features: Any) -> Positions | None:
    """Where features lie on an axis, if their names are numbers in an order, alone or after a common word.

    >>> positions(["450.5", "460.5", "470.5"]).label, positions(["band 1", "band 2"]).label
    ('feature (as named)', 'band (number)')
    >>> positions(["alcohol", "ash"]) is None
    True
    """
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


def contributions(fit: Fit) -> Array:
    """How much each component adds to ZV: ||z_a|| ||v_a||; the codes alone where there are no components."""
    codes = np.linalg.norm(fit.Z, axis=0)
    return codes if fit.V is None else codes * np.linalg.norm(fit.V, axis=1)


def drawn(case: Case) -> Array:
    """Numbers of the components that are drawn: all, or those that contribute most."""
    return np.sort(np.argsort(-contributions(case.fit), kind="stable")[:MOST])


def left_out(case: Case) -> str:
    """Which components are not drawn, in words."""
    number = case.fit.Z.shape[1] - len(drawn(case))
    return f"The {number} components that contribute least are not drawn." if number else ""


def peers(case: Case) -> Array | None:
    """For each component the yardstick's most alike (each used once), at the same length."""
    V, other = case.fit.V, None if case.yardstick is None else case.yardstick.V
    if V is None or other is None:
        return None
    lengths, others = (np.linalg.norm(A, axis=1) for A in (V, other))
    cosines = (V @ other.T) / np.maximum(np.outer(lengths, others), np.finfo(float).tiny)
    ours, theirs = linear_sum_assignment(-cosines)
    found = np.zeros_like(V)
    found[ours] = other[theirs] * (lengths[ours] / np.where(others[theirs] > 0, others[theirs], 1))[:, None]
    return found


def spectra(case: Case) -> Figure:
    """Each component over its features, the yardstick's most alike behind it."""
    V, beside, shown = case.fit.V, peers(case), drawn(case)
    found = positions(case.table.features)
    assert V is not None
    assert found is not None
    step = -(-V.shape[1] * len(shown) // POINTS)
    at = found.at[::step]
    charts = []
    for a in shown:
        series = [_spectrum(case.fit.label, V[a], at, step, "curve", 0)]
        if beside is not None and case.yardstick is not None:
            series.append(_spectrum(f"{case.yardstick.label}, most alike", beside[a], at, step, "path", 2))
        charts.append(Chart(f"Component {a + 1}", Axis(found.label), Axis("weight"), tuple(series), height=220))
    said = "Components over their features, in the unit of X divided by that of the codes."
    if beside is not None:
        said += " Behind each the component of plain NMF that is most alike, at the same length."
    thinned = f"Every point is the largest of {step} neighbouring features." if step > 1 else ""
    text = tuple(filter(None, (said, thinned, left_out(case))))
    return Figure("components", "Components", text, (View("", tuple(charts)),))


def _spectrum(name: str, values: Array, at: Array, step: int, kind: str, style: int) -> Series:
    """One line; of each `step` neighbours the largest."""
    values = np.maximum.reduceat(values, np.arange(0, len(values), step)) if step > 1 else values
    return Series(name, tuple(at.tolist()), tuple(values.tolist()), kind=kind, style=style)


def bars(case: Case) -> list[tuple[str, list[Bar]]]:
    """Of each component the features that weigh most, by their absolute weight."""
    V, beside, m = case.fit.V, peers(case), case.shape[1]
    assert V is not None
    result = []
    for a in drawn(case):
        order = np.argsort(-np.abs(V[a]), kind="stable")
        if m > ALL_BARS:
            order = order[: max(1, min(TOP_BARS, np.count_nonzero(V[a])))]
        longest = max(float(np.abs(A[a, order]).max()) for A in (V, beside) if A is not None)
        share = 100 / longest if longest > 0 else 0.0
        result.append((f"Component {a + 1}", [
            Bar(
                cut(case.table.features[j]),
                f"{V[a, j]:.3g}".replace("-", "\N{MINUS SIGN}"),
                round(share * abs(float(V[a, j])), 2),
                None if beside is None else round(share * float(beside[a, j]), 2),
            )
            for j in order
        ]))  # fmt: skip
    return result


def pictures(case: Case) -> list[tuple[str, list[Picture]]]:
    """Each component as a picture, then the yardstick's most alike in the same order."""
    V, beside, shape = case.fit.V, peers(case), case.table.picture
    assert V is not None
    assert shape is not None
    groups = [(case.fit.label, V)]
    if beside is not None and case.yardstick is not None:
        groups.append((f"{capital(case.yardstick.label)}, most alike", beside))
    return [
        (name, [Picture(f"Component {a + 1}", picture(A[a], shape), f"up to {A[a].max():.3g}") for a in drawn(case)])
        for name, A in groups
    ]


def maps(case: Case) -> list[Picture]:
    """The codes of each component where their samples lie."""
    grid, Z = case.table.grid, case.fit.Z
    if grid is None or grid[0] * grid[1] != len(Z):
        return []
    tops = {a: float(np.quantile(Z[:, a], _BRIGHT)) for a in drawn(case)}
    return [
        Picture(f"Component {a + 1}", picture(Z[:, a], grid, top), f"up to {Z[:, a].max():.3g}")
        for a, top in tops.items()
    ]
