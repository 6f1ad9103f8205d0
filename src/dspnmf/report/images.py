"""Numbers on a grid as small PNG pictures, as addresses that a page can hold."""

from __future__ import annotations

import base64
import io
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dspnmf.report.fit_inputs import FloatArray

MAX_SIDE = 400  # pixels; of larger grids neighbours are averaged
# From nothing to the largest number, evenly in lightness; the blues of the page.
_STOPS = ((7, 18, 31), (0, 61, 112), (20, 120, 180), (110, 185, 235), (240, 248, 255))


def picture(values: FloatArray, shape: tuple[int, int], top: float = 0.0) -> str:
    """Numbers, line by line, as the address of a picture: dark the smallest (or 0), light `top` (or the largest).

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf.report.images import picture
    >>> picture(np.arange(4.0), (2, 2))[:22]
    'data:image/png;base64,'
    """
    try:
        Image = import_module("PIL.Image")
    except ImportError as error:
        raise ImportError('Pictures need Pillow: install it with pip install "dspnmf[report]".') from error
    image = Image.fromarray(np.asarray(values, dtype=np.float32).reshape(shape))
    grid = np.asarray(image.reduce(-(-max(shape) // MAX_SIDE)))
    low, high = min(0.0, float(grid.min())), top if top > 0 else float(grid.max())
    share = np.minimum((grid - low) / (high - low), 1) if high > low else np.zeros_like(grid)
    image = Image.fromarray(np.rint(255 * share).astype(np.uint8))
    image.putpalette(palette())
    file = io.BytesIO()
    image.save(file, "png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def palette() -> bytes:
    """256 colours between the stops."""
    at, stops = np.linspace(0, len(_STOPS) - 1, 256), np.array(_STOPS, dtype=np.float64)
    mixed = [np.interp(at, np.arange(len(_STOPS)), stops[:, channel]) for channel in range(3)]
    return np.rint(np.stack(mixed, axis=1)).astype(np.uint8).tobytes()
