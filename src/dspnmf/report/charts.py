"""Charts as data, drawn by ``assets/chart.js``. Nothing here knows what is plotted, nor how it looks.

A `Figure` has one or more `View`s to choose from; a view is a row of `Chart`s (small multiples) with one legend. Styles
are numbers: the page gives each a colour, a dash pattern and a marker of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = Sequence[float] | NDArray[np.generic]
KINDS = ("line", "points", "curve", "path")  # a curve is a line without markers, a path a thin one
STYLES = 12  # that differ in colour, dash pattern and marker
_DIGITS = 6  # significant ones, in the page


@dataclass(frozen=True)
class Axis:
    """One axis. The label names the quantity and its unit.

    On a logarithmic axis a zero is drawn left of the other values (on y it is not drawn). `ticks` are set where values
    are few; otherwise they are chosen by the page. `low` cuts the axis.
    """

    label: str
    log: bool = False
    ticks: tuple[float, ...] = ()
    low: float | None = None


@dataclass(frozen=True)
class Series:
    """Named points, joined by a line or not; `low` and `high` bound a band.

    `ramp` (0 to 1) instead of a `style` is for series in an order: it sets shade and size. `notes` are shown in the
    tooltip of a point, `marks` are written next to it. `size` is the radius of a marker in pixels.
    """

    name: str
    x: Numbers
    y: Numbers
    kind: str = "line"
    low: Numbers = ()
    high: Numbers = ()
    style: int = 0
    ramp: float | None = None
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    size: float = 4

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r} cannot be drawn: it must be one of {', '.join(map(repr, KINDS))}.")
        for name in ("x", "y", "low", "high"):
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
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
    """Series on two axes. Without any, the page shows the text `empty`."""

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
    """Views to choose from, under one title; `choice` names what is chosen. `text` are plain sentences.

    `band` says what the bands of series are from and to.
    """

    id: str
    title: str
    text: tuple[str, ...]
    views: tuple[View, ...]
    choice: str = ""
    band: str = "lowest to highest run"


def plain(part: object) -> Any:
    """A description as JSON's own types; numbers to six digits, and those JSON cannot hold as null."""
    if is_dataclass(part) and not isinstance(part, type):
        return {field.name: plain(getattr(part, field.name)) for field in fields(part)}
    if isinstance(part, Mapping):
        return {str(key): plain(value) for key, value in part.items()}
    if isinstance(part, Sequence) and not isinstance(part, str):
        return [plain(value) for value in part]
    if isinstance(part, float):
        return float(f"{part:.{_DIGITS}g}") if math.isfinite(part) else None
    return part
