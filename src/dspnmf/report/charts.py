"""A chart as data: what ``assets/chart.js`` draws. Nothing here knows what is plotted, nor how it looks.

A `Figure` has one or more `View`s to choose from; a view is a row of `Chart`s (small multiples) with one legend. Styles
are numbers: the page gives each a colour, a dash pattern and a marker of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

KINDS = ("line", "points", "curve", "path")  # a curve is a line without markers, a path a thin one
STYLES = 12  # that the page tells apart by colour, dash pattern and marker
_DIGITS = 6  # significant ones, in the page


@dataclass(frozen=True)
class Axis:
    """One axis. The label names the quantity and its unit.

    On a logarithmic axis a zero has a place of its own, left of the others (on y it is not drawn). `ticks` are set
    where values are few; otherwise they are chosen by the page. `low` cuts the axis.
    """

    label: str
    log: bool = False
    ticks: tuple[float, ...] = ()
    low: float | None = None


@dataclass(frozen=True)
class Series:
    """Points with a name, as a line or apart; `low` and `high` bound a band.

    `ramp` (0 to 1) instead of a `style` is for series in an order: it sets shade and size. `notes` are read out with a
    point, `marks` are written beside it. `size` is the radius of a marker in pixels.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: str = "line"
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: int = 0
    ramp: float | None = None
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    size: float = 4

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r} cannot be drawn: it must be one of {', '.join(map(repr, KINDS))}.")
        for name in ("y", "low", "high", "notes", "marks"):
            values = getattr(self, name)
            if len(values) != len(self.x) and (values or name == "y"):
                raise ValueError(
                    f"Series {self.name!r} has {len(self.x)} x but {len(values)} {name}: give one for each."
                )


@dataclass(frozen=True)
class Level:
    """A dashed line at one y: a reference. A faint one is drawn with less weight."""

    name: str
    y: float
    faint: bool = False


@dataclass(frozen=True)
class Chart:
    """Series on two axes. Without any, the page says `empty` in their place.

    Examples
    --------
    >>> from dspnmf.report.charts import Axis, Chart, Series
    >>> chart = Chart("Wine", Axis("rank"), Axis("accuracy (share)"), (Series("NMF", (2, 3), (0.9, 0.95)),))
    >>> plain(chart)["series"][0]["y"]
    [0.9, 0.95]
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    levels: tuple[Level, ...] = ()
    empty: str = "Not run."
    height: int = 272  # pixels


@dataclass(frozen=True)
class View:
    """Charts shown at once."""

    label: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Figure:
    """Views to choose from, under one title; `choice` says what is chosen. `text` are plain sentences."""

    id: str
    title: str
    text: tuple[str, ...]
    views: tuple[View, ...]
    choice: str = ""


def plain(part: Any) -> Any:
    """A description as JSON's own types; numbers to six digits, and those JSON cannot hold as null.

    Examples
    --------
    >>> from dspnmf.report.charts import Level, plain
    >>> plain(Level("all features", 0.1234567))
    {'name': 'all features', 'y': 0.123457, 'faint': False}
    """
    if is_dataclass(part):
        return {field.name: plain(getattr(part, field.name)) for field in fields(part)}
    if isinstance(part, Mapping):
        return {str(key): plain(value) for key, value in part.items()}
    if isinstance(part, Sequence) and not isinstance(part, str):
        return [plain(value) for value in part]
    if isinstance(part, float):
        return float(f"{part:.{_DIGITS}g}") if math.isfinite(part) else None
    return part
