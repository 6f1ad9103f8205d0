"""Pictures of fitted models and of their codes, with Matplotlib.

Every function draws on the Axes given, or on those of a new figure, and returns them; none shows or saves anything.
"""

try:
    import matplotlib  # noqa: F401 - that it is there
except ImportError as error:
    raise ImportError('dspnmf.plot needs Matplotlib, which is not installed: pip install "dspnmf[plot]".') from error

from dspnmf.plot._choice import selection, stability
from dspnmf.plot._codes import codes, structure
from dspnmf.plot._components import components, correlation
from dspnmf.plot._descent import convergence

__all__ = ["codes", "components", "convergence", "correlation", "selection", "stability", "structure"]
