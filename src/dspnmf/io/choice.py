"""Which of several arrays in a file are the data, and which the labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.cells import whole
from dspnmf.io.errors import quoted, refused
from dspnmf.io.names import find
from dspnmf.io.options import Options

_SHOWN = 8


class Seen(NamedTuple):
    """What is known of an array before it is read."""

    shape: tuple[int, ...]
    real: bool = True


def choose(path: Path, arrays: Mapping[str, Seen], options: Options, *, scenes: bool = False) -> str:
    """The array with the data: the one that is asked for, or the only one that can be it.

    With `scenes`, three dimensions are a scene: height x width x bands.
    """
    if options.label is not None:
        find(path, options.label, list(arrays), "array", "label")
    if options.variable is not None:
        find(path, options.variable, list(arrays), "array", "variable")
        return options.variable
    allowed = (2, 3) if scenes else (2,)
    able = {
        name: seen.shape
        for name, seen in arrays.items()
        if seen.real and len(seen.shape) in allowed and 0 not in seen.shape and name != options.label
    }
    able = {name: shape for name, shape in able.items() if min(shape) > 1} or able
    cubes = [name for name, shape in able.items() if len(shape) == 3]
    if len(cubes) == 1 and all(shape == able[cubes[0]][:2] for shape in able.values() if len(shape) == 2):
        return cubes[0]  # the others are maps of the same scene
    if len(able) != 1:
        many = f"{len(able)} arrays" if able else "no array"
        shown = [f"{quoted(name)} {seen.shape}" for name, seen in list(arrays.items())[:_SHOWN]]
        more = f", ... ({len(arrays)} in all)" if len(arrays) > _SHOWN else ""
        fix = "Name one with variable." if able else "Check how it was made."
        raise refused(path, f"it has {many} of samples x features: {', '.join(shown) or 'it is empty'}{more}. {fix}")
    return next(iter(able))


def labels(path: Path, name: str, values: NDArray[Any], n: int, grid: tuple[int, int] | None = None) -> NDArray[Any]:
    """One label a sample, from a column, a line, or a map of the scene."""
    if values.shape not in ((n,), (n, 1), (1, n), grid):
        raise refused(
            path,
            f"label={quoted(name)} has shape {values.shape}, but there are {n:,} samples. Name an array with one label "
            "for each.",
        )
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind not in "fiubU":
        raise refused(path, f"label={quoted(name)} holds {quoted(values.dtype)}, but must hold numbers or text.")
    return whole(values.ravel())
