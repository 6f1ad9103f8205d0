"""What a term is, and the objective: the weighted sum of named terms that the solver lowers.

A term is a quadratic plus at most a quartic in the codes. It gives its value, its part of the convex model around the
codes (`RowModel`), and the coefficients of its polynomial along a line. It sees the small arrays of `State` only, never
where the rows are. The terms there are: `dspnmf.objective.terms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import Rows
from dspnmf.backends.row_model import Block, RowModel, Sums
from dspnmf.backends.small_arrays import added, as_matrix, times
from dspnmf.objective.state import State

_LOST = 1e-9  # of a term at U = 0: below that, sums in float64 leave fewer than six digits of it
Quartic = tuple[Scalar, Scalar, Scalar, Scalar]  # c1..c4 of c1 t + c2 t^2 + c3 t^3 + c4 t^4


class Term(Protocol):
    """One summand of the objective, without its weight."""

    @property
    def coupled(self) -> bool:
        """Whether it ties rows to each other."""

    @property
    def norm2(self) -> float:
        """Its value at U = 0: rounding of `value` is relative to this."""

    def value(self, s: State) -> Scalar:
        """The term at the current codes and components; free, but a difference of large numbers."""

    def exact(self, s: State, rows: Rows) -> Scalar | None:
        """The same from the residuals, for one more look at X; None where that is out of reach."""

    def model(self, s: State) -> RowModel:
        """Convex model of half the term around the codes, with its gradient."""

    def along(self, s: State, d: Sums) -> Quartic:
        """c1..c4 of ``value(U + t D) - value(U) = c1 t + c2 t^2 + c3 t^3 + c4 t^4``."""


@runtime_checkable
class FitsComponents(Protocol):
    """A term with components of its own, which solve a least-squares problem of P and Q alone."""

    @property
    def features(self) -> Block:
        """The columns they belong to."""

    @property
    def shrinks(self) -> bool:
        """Whether components that no row uses are best at zero."""

    def curvature(self, s: State) -> SmallArray:
        """Of the problem the components solve, k x k."""

    def pull(self, s: State) -> SmallArray:
        """Its pull: P of these columns, and what penalties take from it."""


@runtime_checkable
class ScalesCodes(Protocol):
    """A term that says how large codes are best."""

    def best_scale(self, s: State) -> float:
        """The c that minimises the term at c U."""


@dataclass(frozen=True)
class Objective:
    """The weighted sum of terms: what the solver lowers, history records, tests check and the report plots."""

    terms: Mapping[str, Term]
    weights: Mapping[str, float]
    held: frozenset[str] = frozenset()  # terms whose components stay as they are

    def value(self, s: State) -> Scalar:
        """The objective."""
        return added(times(w, term.value(s)) for w, term in self.weighted())

    def model(self, s: State) -> RowModel:
        """Its convex model around the codes."""
        parts = [(w, term.model(s)) for w, term in self.weighted()]
        S: SmallArray = added(times(w, part.S) for w, part in parts)
        M: SmallArray = added(times(w, part.M) for w, part in parts)
        pulls, curves = _added((w, part.pulls) for w, part in parts), _added((w, part.curves) for w, part in parts)
        return RowModel(S, M, sum(w * part.coupling for w, part in parts), pulls, curves)

    def along(self, s: State, d: Sums) -> Quartic:
        """c1..c4 of the objective along U + t D, less its value at U."""
        return added_quartics(tuple(times(w, c) for c in term.along(s, d)) for w, term in self.weighted())

    def best_scale(self, s: State) -> float:
        """What a start's codes are multiplied by: the best factor for the first term that has one, or 1."""
        return next((term.best_scale(s) for _, term in self.weighted() if isinstance(term, ScalesCodes)), 1.0)

    @property
    def scales_codes(self) -> bool:
        """Whether some term says how large codes are best."""
        return any(isinstance(term, ScalesCodes) for _, term in self.weighted())

    @property
    def coupled(self) -> bool:
        """Whether some term ties rows together: then their directions are worth finding jointly."""
        return any(term.coupled for _, term in self.weighted())

    @cached_property
    def with_components(self) -> list[FitsComponents]:
        """The terms with components of their own, also those of weight 0: their errors are still reported."""
        moving = [term for name, term in self.terms.items() if name not in self.held]
        return [term for term in moving if isinstance(term, FitsComponents)]

    def holding(self, *names: str) -> Objective:
        """The same, for a descent of the codes: the components of these terms stay as they are."""
        return replace(self, held=frozenset(names))

    @property
    def size(self) -> float:
        """Its value at U = 0: of numbers as large as this it is the difference."""
        return sum(w * term.norm2 for w, term in self.weighted())

    def without(self, *names: str) -> Objective:
        """The same without some terms."""
        kept = {name: term for name, term in self.terms.items() if name not in names}
        return Objective(kept, {name: self.weights[name] for name in kept})

    def weighted(self) -> list[tuple[float, Term]]:
        """Terms that count, with their weights."""
        return [(self.weights[name], term) for name, term in self.terms.items() if self.weights[name] > 0]


def added_quartics(parts: Iterable[tuple[Scalar, ...]]) -> Quartic:
    """Quartics added up."""
    c1, c2, c3, c4 = (added(column) for column in zip(*parts, strict=True))
    return c1, c2, c3, c4


def _added(parts: Iterable[tuple[float, Mapping[int, SmallArray]]]) -> dict[int, SmallArray]:
    """Weighted sum of what several terms say of the same operators; a diagonal stays one where nothing else is said."""
    total: dict[int, SmallArray] = {}
    for w, part in parts:
        for operator, K in part.items():
            if operator not in total:
                total[operator] = 0.0 + w * K
            elif total[operator].ndim == K.ndim:
                total[operator] = total[operator] + w * K
            else:
                total[operator] = as_matrix(total[operator]) + w * as_matrix(K)
    return total


def exact_values(rows: Rows, objective: Objective, s: State) -> dict[str, float]:
    """The terms' values; from the residuals where one is too far below the numbers it is a difference of."""
    values = {}
    for name, term in objective.terms.items():
        (value,) = rows.small.fetch([term.value(s)])
        exact = term.exact(s, rows) if value < _LOST * term.norm2 else None
        values[name] = max(value, 0.0) if exact is None else float(exact)
    return values
