"""The small side: k x k and m x k arrays in float64, and scalars made of them, where the rows keep them.

Terms and solver are written once, in arithmetic that NumPy arrays and tensors on a device share. The few operations
that differ are here: `dot` and `trace` by type, and a `Small` that rows bring with them. On a device nothing is decided
by looking at a number, because that would wait for all work under way; `fetch` brings the numbers of an iteration to
the host at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from dspnmf.backends.row_model import Array

COMPONENT_SWEEPS = 10  # at most; they cost no look at X
LONGEST = 2.0  # how far beyond the model's minimum a direction may reach
SETTLED = 0.01  # of the first sweep's squared change: further sweeps are not worth it
# Q is a running sum: a diagonal entry this far below the largest says nothing (by the bytes of X's numbers)
ROUNDING_OF_Q = {4: 1e-6, 8: 1e-13}
_MERGED = 1e-8  # imaginary part, relative, of two real roots that rounding made a complex pair
Scalar = Any  # a float, or a tensor without dimensions


class Small(Protocol):
    """What differs between the host's memory and a device's."""

    def where(self, condition: Any, yes: Scalar, no: Scalar) -> Scalar:
        """`yes` if the condition holds, else `no`."""

    def over(self, going: Any) -> bool:
        """Whether the host knows, without waiting, that something is going on no more."""

    def fetch(self, scalars: Sequence[Scalar]) -> list[float]:
        """Numbers for the host, in one transfer."""

    def host(self, A: Any) -> Array:
        """A small array for the host."""

    def adopt(self, A: Array) -> Any:
        """A small array of the host where the rows keep theirs."""

    def best_step(self, c: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
        """The t in [0, 1] with the lowest ``c1 t + c2 t^2 + c3 t^3 + c4 t^4``; and that in [0, 2 LONGEST]."""

    def components(self, Vt: Any, P: Any, Q: Any, rounding: float) -> Any:
        """HALS sweeps on ``min ||X - UV||^2`` over V >= 0 until one changes a tenth of what the first did."""

    def inverse(self, S: Any, floor: float, tiny: float) -> Any:
        """Inverse of a symmetric matrix, its eigenvalues kept above `floor` of the largest and above `tiny`."""


class Host:
    """NumPy."""

    def where(self, condition: Any, yes: Scalar, no: Scalar) -> Scalar:
        """One of the two."""
        return yes if condition else no

    def over(self, going: Any) -> bool:
        """Everything is known here."""
        return not going

    def fetch(self, scalars: Sequence[Scalar]) -> list[float]:
        """They are here already."""
        return [float(scalar) for scalar in scalars]

    def host(self, A: Any) -> Array:
        """The array itself."""
        return np.asarray(A)

    def adopt(self, A: Array) -> Any:
        """The array itself."""
        return A

    def best_step(self, c: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
        """By the roots of a cubic."""
        return best_step(c), best_step(c, 2 * LONGEST)

    def components(self, Vt: Any, P: Any, Q: Any, rounding: float) -> Any:
        """By the compiled sweep."""
        return components(Vt, P, Q, rounding)

    def inverse(self, S: Any, floor: float, tiny: float) -> Any:
        """By its eigenvectors."""
        values, vectors = np.linalg.eigh(S)
        return (vectors / np.maximum(values, max(floor * values[-1], tiny))) @ vectors.T


HOST = Host()


def dot(A: Any, B: Any) -> Scalar:
    """<A, B>."""
    return float(np.vdot(A, B)) if isinstance(A, np.ndarray) else (A * B).sum()


def trace(A: Any) -> Scalar:
    """The sum of the diagonal."""
    return float(np.trace(A)) if isinstance(A, np.ndarray) else A.diagonal().sum()


def best_step(c: Any, end: float = 1.0) -> float:
    """The t in [0, end] with the lowest ``c1 t + c2 t^2 + c3 t^3 + c4 t^4``; 0 where nothing lies below zero."""
    given = np.asarray(c, dtype=np.float64)
    size = np.abs(given).max()
    if not size > 0:
        return 0.0
    c = np.where(np.abs(given) > 1e-30 * size, given / size, 0.0)
    stationary = np.roots([4 * c[3], 3 * c[2], 2 * c[1], c[0]])
    real = stationary[np.abs(stationary.imag) <= _MERGED * np.abs(stationary)].real
    candidates = np.append(real[(real > 0) & (real < end)], end)
    values = candidates * (c[0] + candidates * (c[1] + candidates * (c[2] + candidates * c[3])))
    best = int(values.argmin())
    return float(candidates[best]) if values[best] < 0 else 0.0


def components(Vt: Array, P: Array, Q: Array, rounding: float = ROUNDING_OF_Q[8]) -> Array:
    """HALS sweeps on ``min ||X - UV||^2`` over V >= 0 until one changes a tenth of what the first did."""
    from dspnmf.backends import kernels

    Vt, P, block = Vt.copy(), np.ascontiguousarray(P), max(1, min(128, len(Vt)))
    first = kernels.sweep_rows(Vt, P, Q, rounding, block)
    for _ in range(COMPONENT_SWEEPS - 1):
        if kernels.sweep_rows(Vt, P, Q, rounding, block) <= SETTLED * first:
            break
    return Vt
