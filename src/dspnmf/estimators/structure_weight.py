"""The weight of a structure term: a number, or the one that follows from the data.

At U = 0 the terms are ``||X||^2`` and ``||XX'||^2``; with their ratio as weight, the natural one, both count the same,
whatever the unit of X and the number of rows. ``alpha="auto"`` is 100 times that.
"""

from __future__ import annotations

from collections.abc import Mapping

from dspnmf._validation import either, number, one_of
from dspnmf.objective.objective import Term

ALPHA = either(number(0), one_of("auto"))
TIMES_NATURAL = 100.0


def structure_weight(alpha: float | str, size: float, terms: Mapping[str, Term], weights: Mapping[str, float]) -> float:
    """The weight of the term "structure" next to that of "reconstruction"; `size`: the solver's unit of a number."""
    if isinstance(alpha, str):
        return TIMES_NATURAL * natural_weight(terms, weights["reconstruction"])
    return float(alpha) * size


def natural_weight(terms: Mapping[str, Term], reconstruction: float = 1.0) -> float:
    """The ratio of the terms at U = 0; 0 where there is no structure."""
    structure = terms["structure"].norm2
    return reconstruction * terms["reconstruction"].norm2 / structure if structure > 0 else 0.0
