"""The solver's loop without an estimator around it: what benchmarks time, one iteration after the other."""

from __future__ import annotations

from collections.abc import Iterator

from dspnmf import NMF
from dspnmf._typing import ArrayLike, Codes, SmallArray
from dspnmf.backends import Backend, Data, Rows, backend_for
from dspnmf.objective.objective import Objective, Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, Reconstruction
from dspnmf.solvers.descent import Descent, InnerSolver
from dspnmf.solvers.loop import iterate


def checked(X: ArrayLike, backend: Backend | None = None) -> Data:
    """X as the solver gets it, from its own backend or another."""
    return (backend or backend_for(X)).check(NMF(), X, reset=True)


def plain(data: Data) -> Objective:
    """``||X - UV||^2``."""
    return Objective({"reconstruction": Reconstruction(data.norm2(1.0))}, {"reconstruction": 1.0})


def preserving(data: Data, gram_norm2: float | None = None) -> Objective:
    """``||X - UV||^2 + ||XX' - UU'||^2``; the constant ``||XX'||^2`` is computed unless it is given."""
    norm2 = data.gram_norm2(1.0) if gram_norm2 is None else gram_norm2
    terms: dict[str, Term] = {"reconstruction": Reconstruction(data.norm2(1.0)), "structure": GramSimilarity(norm2)}
    return Objective(terms, dict.fromkeys(terms, 1.0))


def descent(
    rows: Rows, objective: Objective, codes: Codes, Vt: SmallArray, inner: InnerSolver
) -> Iterator[tuple[float, State]]:
    """Objective and state at the start and after every iteration, from codes (changed in place) and V'."""
    rows.begin(codes)
    update = Descent(inner)
    return iterate(rows, objective, update, *update.begin(rows, objective, Vt))
