"""Small arrays: k x k and m x k in float64, and scalars made of them, where the rows keep them.

Terms and solvers are written once, in arithmetic that NumPy arrays and tensors on a device share. The operations that
differ are here: functions that follow the type of their argument, and a `Small` that rows bring with them. On a device
nothing is decided by looking at a number, because that would wait for all work under way; `fetch` brings the numbers of
an iteration to the host at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dspnmf._typing import Array, Scalar, SmallArray

COMPONENT_SWEEPS = 10  # at most; they cost no look at X
LONGEST = 2.0  # how far beyond the model's minimum a direction may reach
SETTLED = 0.01  # of the first sweep's squared change: further sweeps are not worth it
# Q is a running sum: a diagonal entry this far below the largest says nothing (by the bytes of X's numbers)
ROUNDING_OF_Q = {4: 1e-6, 8: 1e-13}
_MERGED = 1e-8  # imaginary part, relative, of two real roots that rounding made a complex pair


class Small:
    """What differs between the host's memory and a device's; here for the host: NumPy."""

    threads = True  # whether starts may be divided among threads

    def where(self, condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
        """`yes` if the condition holds, else `no`."""
        return yes if condition else no

    def over(self, going: Scalar) -> bool:
        """Whether the host knows, without waiting, that `going` is false."""
        return not going

    def stack(self, scalars: SmallArray) -> SmallArray:
        """Scalars for `fetch`, in one array."""
        return scalars

    def fetch(self, scalars: SmallArray) -> list[float]:
        """Numbers for the host, in one transfer."""
        return [float(scalar) for scalar in scalars]

    def repeated(
        self, owners: Sequence[object], function: Callable[..., tuple[SmallArray, ...]], *arguments: Scalar
    ) -> tuple[SmallArray, ...]:
        """``function(*arguments)``, which its owners call again and again with arrays of the same shapes.

        A device records what it did and repeats that, so nothing in the function may depend on what arrays hold.
        """
        return function(*arguments)

    def unrecorded(self) -> Small:
        """The same for rows that do part of their work on the host: nothing is recorded."""
        return self

    def host(self, A: SmallArray) -> Array:
        """A small array for the host."""
        return np.asarray(A)

    def adopt(self, A: SmallArray) -> SmallArray:
        """A small array of the host where the rows keep theirs."""
        return A

    def best_step(self, c: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
        """The t in [0, 1] with the lowest ``c1 t + c2 t^2 + c3 t^3 + c4 t^4``; and that in [0, 2 LONGEST]."""
        return best_step(c), best_step(c, 2 * LONGEST)

    def components(self, Vt: SmallArray, P: SmallArray, Q: SmallArray, rounding: float) -> SmallArray:
        """HALS sweeps on ``min ||X - UV||^2`` over V >= 0 until one changes a tenth of what the first did."""
        return components(Vt, P, Q, rounding)

    def inverse(self, S: SmallArray, floor: float, tiny: float) -> SmallArray:
        """Inverse of a symmetric matrix, its eigenvalues kept above `floor` of the largest and above `tiny`."""
        values, vectors = np.linalg.eigh(S)
        return (vectors / np.maximum(values, max(floor * values[-1], tiny))) @ vectors.T


HOST = Small()


# -- by the type of the argument: NumPy arrays, or tensors (which are never named here, so Torch is not imported) ------


def dot(A: SmallArray, B: SmallArray) -> Scalar:
    """<A, B>."""
    return float(np.vdot(A, B)) if isinstance(A, np.ndarray) else (A * B).sum()


def trace(A: SmallArray) -> Scalar:
    """The sum of the diagonal."""
    return float(np.trace(A)) if isinstance(A, np.ndarray) else A.diagonal().sum()


def diagonal_matrix(d: SmallArray) -> SmallArray:
    """The matrix with this diagonal."""
    return np.diag(d) if isinstance(d, np.ndarray) else d.diag()


def as_matrix(K: SmallArray) -> SmallArray:
    """A pull or curve of a `RowModel` as a matrix; one dimension stands for a diagonal."""
    return diagonal_matrix(K) if K.ndim == 1 else K


def identity_like(A: SmallArray) -> SmallArray:
    """The identity of the size of A, where A is."""
    return np.eye(len(A)) if isinstance(A, np.ndarray) else A.new_ones(len(A)).diag()


def zeros_like(A: SmallArray) -> SmallArray:
    """Zeros of the shape of A, where A is."""
    return np.zeros_like(A) if isinstance(A, np.ndarray) else A.new_zeros(A.shape)


def with_rows(A: SmallArray, rows: slice, part: SmallArray) -> SmallArray:
    """A copy of A in which `part` stands in place of some rows."""
    copy = A.copy() if isinstance(A, np.ndarray) else A.clone()
    copy[rows] = part
    return copy


# -- NumPy -------------------------------------------------------------------------------------------------------------


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
