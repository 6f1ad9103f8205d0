"""Small arrays: k x k and m x k in float64, and scalars made of them, where the rows keep them.

Terms and solvers are written once, in arithmetic that NumPy arrays and tensors on a device share. The operations that
differ are here: functions that follow the type of their argument, and a `Small` that rows bring with them. On a device
nothing is decided by looking at a number, because that would wait for all work under way; `fetch` brings the numbers of
an iteration to the host at once. Inner products are noted and computed together (`dspnmf.backends.forms`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dspnmf._threads import dealt
from dspnmf._typing import Array, Scalar, SmallArray
from dspnmf.backends.forms import Form, Product

if TYPE_CHECKING:
    from dspnmf.backends.row_model import RowModel, Slope

COMPONENT_SWEEPS = 10  # at most; they cost no look at X
LONGEST = 2.0  # how far beyond the model's minimum a direction may reach
SETTLED = 0.01  # of the first sweep's squared change: further sweeps are not worth it
# Q is a running sum: a diagonal entry this far below the largest says nothing (by the bytes of X's numbers)
ROUNDING_OF_Q = {4: 1e-6, 8: 1e-13}
_STEPS = 200  # to a zero of a slope, at most
_TURN = 0.99  # share of the coupling between two components in the preconditioner of newton-cg, at most


class ConjugateStep(NamedTuple):
    """The next step of conjugate gradients, ``p = u + beta p, z += alpha p``, and what the one after it must know."""

    alpha: Scalar  # 0: all is done, or there is nothing to gain
    beta: Scalar
    start: Scalar  # slope at the beginning
    slope: Scalar  # slope before this step
    going: Scalar  # whether it is taken


class Small:
    """What differs between the host's memory and a device's; here for the host: NumPy."""

    def side_by_side(self, work: Callable[[int], None], n: int) -> None:
        """``work(item)`` for every item of ``range(n)``, none of which needs another: on all threads."""
        dealt(work, n)

    def where(self, condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
        """`yes` if the condition holds, else `no`."""
        return yes if condition else no

    def over(self, going: Scalar) -> bool:
        """Whether the host knows, without waiting, that `going` is false."""
        return not going

    def numbers(self, *scalars: Scalar) -> Sequence[Scalar]:
        """Scalars, all of them computed at once."""
        return scalars

    def stack(self, scalars: SmallArray) -> SmallArray:
        """Scalars for `fetch`, in one array."""
        return scalars

    def fetch(self, scalars: SmallArray) -> list[float]:
        """Numbers for the host, in one transfer."""
        return [float(scalar) for scalar in scalars]

    def fetch_all(self, scalars: SmallArray, arrays: Sequence[SmallArray]) -> tuple[list[float], list[Array]]:
        """Numbers and small arrays for the host, in one transfer."""
        return self.fetch(scalars), list(arrays)

    def repeated(
        self, owners: Sequence[object], function: Callable[..., tuple[SmallArray, ...]], *arguments: Scalar
    ) -> tuple[SmallArray, ...]:
        """``function(*arguments)``, which its owners call again and again with arrays of the same shapes.

        A device records what it did and repeats that, so nothing in the function may depend on what arrays hold. A
        recording is known by the function's name and its owners, and holds until rows begin anew.
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

    def best_step(self, c: Sequence[Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        """The t in [0, 1] with the lowest ``c1 t + c2 t^2 + c3 t^3 + c4 t^4``; that in [0, 2 LONGEST]; and it at t."""
        t = best_step(c)
        return t, best_step(c, 2 * LONGEST), quartic(c, t)

    def components(self, Vt: SmallArray, P: SmallArray, Q: SmallArray, rounding: float) -> SmallArray:
        """HALS sweeps on ``min ||X - UV||^2`` over V >= 0 until one changes a tenth of what the first did."""
        return components(Vt, P, Q, rounding)

    def coupling_part(self, Ur: SmallArray, preconditioner: SmallArray) -> SmallArray:
        """The C of ``r T + U C``, a residual preconditioned (`coupled` has the formula)."""
        return coupling_part(Ur, preconditioner)

    def conjugate_step(
        self, along: Slope, model: RowModel, before: ConjugateStep | None, reduction: float, eps: float
    ) -> ConjugateStep:
        """How far to go along the residual that `along` describes, after the step `before` (`conjugate_step`)."""
        return conjugate_step(self, along, model, before, reduction, eps)


HOST = Small()


# -- by the type of the argument: NumPy arrays, or tensors (which are never named here, so Torch is not imported) ------


def dot(A: SmallArray, B: SmallArray) -> Scalar:
    """<A, B>; of tensors a `Form`, to be computed with others."""
    return float(np.vdot(A, B)) if isinstance(A, np.ndarray) else Form(products=(Product(1.0, A, B),))


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


def log(A: SmallArray) -> SmallArray:
    """The logarithm, entry by entry."""
    return np.log(A) if isinstance(A, np.ndarray) else A.log()


def zeros_like(A: SmallArray) -> SmallArray:
    """Zeros of the shape of A, where A is."""
    return np.zeros_like(A) if isinstance(A, np.ndarray) else A.new_zeros(A.shape)


def with_rows(A: SmallArray, rows: slice, part: SmallArray | float) -> SmallArray:
    """A copy of A in which `part` stands in place of some rows."""
    copy = A.copy() if isinstance(A, np.ndarray) else A.clone()
    copy[rows] = part
    return copy


def added(parts: Iterable[Scalar]) -> Scalar:
    """Their sum; numbers of the host that are zero cost a device nothing."""
    counting = [part for part in parts if not (isinstance(part, float) and part == 0)]
    return reduce(add, counting) if counting else 0.0


def times(weight: float, A: SmallArray) -> SmallArray:
    """``weight A``; a weight of 1 costs a device nothing."""
    return A if weight == 1 else weight * A


def stepped(A: SmallArray, t: Scalar, B: SmallArray) -> SmallArray:
    """``A + t B``."""
    return A + t * B if isinstance(A, np.ndarray) or isinstance(t, float) else A.addcmul(B, t)


def quartic(c: Sequence[Scalar], t: Scalar) -> Scalar:
    """``c1 t + c2 t^2 + c3 t^3 + c4 t^4``."""
    c1, c2, c3, c4 = c
    return t * (c1 + t * (c2 + t * (c3 + t * c4)))


def model_curvature(along: Slope, model: RowModel) -> Scalar:
    """``<A[D], D>`` of the model, ``A[D] = D S + coupling U (D'U) + sum_j L_j D curves[j]``."""
    own = dot(along.DD, model.S) + model.coupling * dot(along.UD, along.UD.T)
    return added([own, *(dot(along.DLD[j], as_matrix(K)) for j, K in model.curves.items())])


def coupling_part(Ur: SmallArray, preconditioner: SmallArray) -> SmallArray:
    """The C of ``r T + U C``; the preconditioner is T and what `coupled` returns, stacked."""
    _, B, F, H = preconditioner
    W = B.T @ Ur @ B
    return B @ (F * (H * W - W.T)) @ B.T


def conjugate_step(
    small: Small, along: Slope, model: RowModel, before: ConjugateStep | None, reduction: float, eps: float
) -> ConjugateStep:
    """The next step of preconditioned conjugate gradients (Chronopoulos & Gear 1989).

    Its length is zero once the slope has fallen below ``reduction^2`` of that at the start, or where the curvature is
    only rounding: then a step has no end.
    """
    where, (slope, curvature) = small.where, small.numbers(along.slope, model_curvature(along, model))
    beta, start, going = 0.0, slope, True
    if before is not None:
        beta, start, going = where(before.going, slope / before.slope, 0.0), before.start, before.going
        curvature = curvature - beta * slope / before.alpha
    going = (slope > reduction**2 * start) & (curvature > eps * slope) & going
    return ConjugateStep(where(going, slope / where(going, curvature, 1.0), 0.0), beta, start, slope, going)


# -- NumPy -------------------------------------------------------------------------------------------------------------


def best_step(c: Sequence[Scalar], end: float = 1.0) -> float:
    """The t in [0, end] with the lowest ``c1 t + c2 t^2 + c3 t^3 + c4 t^4``; 0 where nothing lies below zero."""
    size = sum(abs(float(one)) for one in c)
    if not 0 < size < np.inf:
        return 0.0
    c1, c2, c3, c4 = (float(one) / size if abs(one) > 1e-30 * size else 0.0 for one in c)
    lowest, best, lo = 0.0, 0.0, 0.0
    for hi in (*_zeros_between(c2, 3 * c3, 6 * c4, end), end):  # the slope is monotone from lo to hi
        t = _upward_zero((c1, 2 * c2, 3 * c3, 4 * c4), lo, hi)
        if (value := quartic((c1, c2, c3, c4), t)) < lowest:
            lowest, best = value, t
        lo = hi
    return best


def _zeros_between(a: float, b: float, c: float, end: float) -> list[float]:
    """The zeros of ``a + b t + c t^2`` in (0, end), rising."""
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return []
    q = -0.5 * (b + math.copysign(math.sqrt(discriminant), b))
    return sorted(t for t in (a / q if q else 0.0, q / c if c else 0.0) if 0 < t < end)


def _upward_zero(slope: tuple[float, ...], lo: float, hi: float) -> float:
    """Where a cubic, monotone from lo to hi, goes from below zero to above; hi where it does not."""
    d0, d1, d2, d3 = slope
    if d0 + lo * (d1 + lo * (d2 + lo * d3)) > 0 or d0 + hi * (d1 + hi * (d2 + hi * d3)) <= 0:
        return hi
    t = 0.5 * (lo + hi)
    for _ in range(_STEPS):  # Newton's, or to the middle of the interval where these leave it
        value, rise = d0 + t * (d1 + t * (d2 + t * d3)), d1 + t * (2 * d2 + t * 3 * d3)
        lo, hi = (t, hi) if value < 0 else (lo, t)
        newton = t - value / rise if rise > 0 else lo
        before, t = t, newton if lo <= newton <= hi else 0.5 * (lo + hi)
        if t == before:
            break
    return t


def inverse(S: Array, floor: float, tiny: float) -> Array:
    """Inverse of a symmetric matrix, its eigenvalues kept above `floor` of the largest and above `tiny`."""
    values, vectors = np.linalg.eigh(S)
    found: Array = (vectors / np.maximum(values, max(floor * values[-1], tiny))) @ vectors.T
    return found


def coupled(T: Array, Q: Array, coupling: float) -> tuple[Array, Array, Array]:
    """Basis B and tables F, H: ``r T + U B (F * (H * W - W')) B'`` solves ``u / T + coupling U (u'U) = r``.

    W is ``B'(U'r)B``, and Q = U'U. In the basis, ``B B' = T`` and ``B'QB`` is diagonal, so pairs of entries of B'(U'u)B
    are solved for on their own: ``w_ij + rho_ij w_ji``. rho comes near 1 where codes may turn without changing U U'
    (then V alone says where to). It is held below _TURN, so that the solution is bounded, and positive definite in r.
    """
    root = np.linalg.cholesky(T)
    lengths, vectors = np.linalg.eigh(root.T @ Q @ root)
    lengths = coupling * np.maximum(lengths, 0.0)
    rho = np.sqrt(np.outer(lengths, lengths))
    held = coupling * np.minimum(1.0, _TURN / np.maximum(rho, _TURN))
    F = held / (1 - np.minimum(rho, _TURN) ** 2)
    return root @ vectors, F, held * lengths / max(coupling, 1e-300)


def components(Vt: Array, P: Array, Q: Array, rounding: float = ROUNDING_OF_Q[8]) -> Array:
    """HALS sweeps on ``min ||X - UV||^2`` over V >= 0 until one changes a tenth of what the first did."""
    from dspnmf.backends import kernels

    Vt, P, block = Vt.copy(), np.ascontiguousarray(P), max(1, min(128, len(Vt)))
    first = kernels.sweep_rows(Vt, P, Q, rounding, block)
    for _ in range(COMPONENT_SWEEPS - 1):
        if kernels.sweep_rows(Vt, P, Q, rounding, block) <= SETTLED * first:
            break
    return Vt
