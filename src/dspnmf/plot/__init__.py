"""Plots of fitted models and of their codes, with Matplotlib.

Every function draws on the Axes passed as `ax`, or on a new figure, and returns the Axes; none shows or saves anything.
"""

try:
    import matplotlib  # noqa: F401 - only to see whether it is installed
except ImportError as error:
    raise ImportError('dspnmf.plot needs Matplotlib, which is not installed: pip install "dspnmf[plot]".') from error

from dspnmf.plot._codes import codes, points, structure
from dspnmf.plot._consensus import consensus
from dspnmf.plot._models import components, convergence, correlation, stability
from dspnmf.plot._selection import selection

__all__ = [
    "codes",
    "components",
    "consensus",
    "convergence",
    "correlation",
    "points",
    "selection",
    "stability",
    "structure",
]
