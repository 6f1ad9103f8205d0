"""What a device does with a tile of codes, in plain Torch; by Triton kernels in `dspnmf.backends.cuda_fused_tiles`.

All arrays of the codes' shape are k x n. Small arrays come in float64 and leave in float64; steps are numbers or
tensors without dimensions, never looked at.

========  =======  ==============================================================================
U, D      k x n    codes, a direction for them
G         k x n    pull of the model, ``(X M)'`` and what operators add
W         k x n    what operators add to the curvature along a direction, or None
S         k x k    curvature of the model, common to all rows
C, T      k x k    coupling times the sums along a direction; the preconditioner
w                  arrays by name: U, D, G, and those of newton-cg (z, r, u, p, q, free)
========  =======  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from dspnmf._typing import Scalar
from dspnmf.backends.small_arrays import COMPONENT_SWEEPS, HOST, SETTLED

Tensor = torch.Tensor
Steps = tuple[Scalar, Scalar]
_TOLERANCE = {torch.float32: 1e-7, torch.float64: 1e-14}  # relative change of a solved row's last sweep
SOLVE_SWEEPS = 5000


class RowCurvature(NamedTuple):
    """Curvature ``weight_i diag(lengths)`` that differs from row to row, in the precision of the codes."""

    weight: Tensor  # n
    lengths: Tensor  # k


def inverse_diagonal(S: Tensor, rounding: float) -> Tensor:
    """1 / S_aa, and 0 where that is less than `rounding` of the largest: such a component is left as it is."""
    diagonal = S.diagonal()
    return torch.where(diagonal > rounding * diagonal.max(), 1 / diagonal, 0.0)


def as_step(t: Scalar, codes: Tensor) -> Tensor:
    """A step where the codes are and in their precision; nothing waits for the device."""
    return t.to(codes.dtype) if isinstance(t, Tensor) else torch.full((), t, dtype=codes.dtype, device=codes.device)


def stacked(scalars: Sequence[Scalar], device: torch.device) -> Tensor:
    """Scalars of the device and of the host as one float64 tensor on the device, without waiting."""
    on_device = (
        s.double() if isinstance(s, Tensor) else torch.full((), s, dtype=torch.float64, device=device) for s in scalars
    )
    return torch.stack(list(on_device))


class PlainTiles:
    """Torch operations, on any device, in any precision, for dense and sparse X.

    D, r, u, ... are changed in place; sums are returned.
    """

    def pull(self, X: Tensor, M: Tensor, k: int) -> Tensor:
        """(X M)'."""
        return (X @ M.to(X.dtype)).T.contiguous()

    def push(self, X: Tensor, D: Tensor) -> Tensor:
        """X'D, in float64 beyond blocks of a few thousand rows; for CSR, X is given transposed, in float64."""
        if X.layout == torch.sparse_csr:
            return X @ D.T.double().contiguous()
        total = torch.zeros(X.shape[1], len(D), dtype=torch.float64, device=X.device)
        for i in range(0, X.shape[0], 2**14):
            total += (X[i : i + 2**14].T @ D[:, i : i + 2**14].T).double()
        return total

    def _sweep(self, Y: Tensor, G: Tensor, S: Tensor, inverse: Tensor, rows: RowCurvature | None = None) -> Tensor:
        """One HALS sweep in place; the squared change."""
        change = torch.zeros((), dtype=torch.float64, device=Y.device)
        for a in range(len(S)):
            rest = G[a] - S[a] @ Y
            if rows is None:
                step = rest * inverse[a]
            else:  # a curvature of its own for every row
                more = rows.weight * rows.lengths[a]
                step = torch.where(S[a, a] + more > 0, (rest - more * Y[a]) / (S[a, a] + more), 0.0)
            new = torch.clamp(Y[a] + step, min=0)
            change += ((new - Y[a]) ** 2).sum(dtype=torch.float64)
            Y[a] = new
        return change

    def _inverse(self, S: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        small = S.to(dtype)
        return small, inverse_diagonal(small, 1e-14 if dtype == torch.float32 else 1e-30)

    def _swept(
        self, G: Tensor, U: Tensor, D: Tensor, t: Scalar, S: Tensor, sweeps: int, rows: RowCurvature | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Take the pending step; the codes after sweeps, and the squared change of each."""
        U.copy_(torch.clamp(U + t * D, min=0))
        S, inverse = self._inverse(S, U.dtype)
        Y = U.clone()
        return Y, [self._sweep(Y, G, S, inverse, rows) for _ in range(sweeps)]

    def look(
        self, G: Tensor, U: Tensor, D: Tensor, t: Scalar, S: Tensor, sweeps: int, stretch: float,
        rows: RowCurvature | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """Pending step, sweeps, new direction: first and last change, U'D, D'D."""
        Y, changes = self._swept(G, U, D, t, S, sweeps, rows)
        D.copy_(torch.maximum(stretch * (Y - U), -U))
        return [changes[0], changes[-1], _gram(U, D), _gram(D, D)]

    def face(
        self, G: Tensor, U: Tensor, D: Tensor, t: Scalar, S: Tensor, sweeps: int, rows: RowCurvature | None = None
    ) -> list[Tensor]:
        """Pending step, direction in D, its part A that ends at zero: <G,D>, <G,A>, U'D, D'D, U'A, A'A, D'A."""
        Y, _ = self._swept(G, U, D, t, S, sweeps, rows)
        D.copy_(Y - U)
        A = torch.where(Y == 0, D, 0)
        return [_dot(G, D), _dot(G, A), _gram(U, D), _gram(D, D), _gram(U, A), _gram(A, A), _gram(D, A)]

    def cg_start(self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, T: Tensor) -> list[Tensor]:
        """Shorten D; the residual r (G holds what operators pull there), preconditioned u: <r,u>."""
        U, D, kind = w["U"], w["D"], w["U"].dtype
        tau, sigma = (as_step(step, U) for step in steps)
        D.mul_(torch.where(U + D == 0, sigma, tau))
        slope = S.to(kind) @ (U + D) + C.to(kind) @ U - w["G"]
        w["free"].copy_((U + D > 0) | (slope < 0))
        w["r"].copy_(torch.where(w["free"].bool(), -slope, 0))
        return self._preconditioned(w, T)

    def cg_step(
        self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, T: Tensor, W: Tensor | None, first: bool
    ) -> list[Tensor]:
        """One conjugate-gradient step (Chronopoulos & Gear 1989): <r,u>; in the first z, p and q hold nothing."""
        kind = w["U"].dtype
        if first:
            for name in ("z", "p", "q"):
                w[name].zero_()
        alpha, beta = (as_step(step, w["U"]) for step in steps)
        curved = S.to(kind) @ w["u"] + C.to(kind) @ w["U"]
        curved = curved if W is None else curved + W
        w["p"].mul_(beta).add_(w["u"])
        w["q"].mul_(beta).add_(torch.where(w["free"].bool(), curved, 0))
        w["z"].add_(alpha * w["p"])
        w["r"].sub_(alpha * w["q"])
        return self._preconditioned(w, T)

    def _preconditioned(self, w: dict[str, Tensor], T: Tensor) -> list[Tensor]:
        w["u"].copy_(torch.where(w["free"].bool(), T.to(w["r"].dtype) @ w["r"], 0))
        return [_dot(w["r"], w["u"])]

    def residual_sums(self, w: dict[str, Tensor]) -> list[Tensor]:
        """U'u, u'u."""
        return [_gram(w["U"], w["u"]), _gram(w["u"], w["u"])]

    def project(self, w: dict[str, Tensor]) -> list[Tensor]:
        """The direction z to the projection: <G,z>, D'z, U'z, z'z."""
        here = w["U"] + w["D"]
        w["z"].copy_(torch.clamp(here + w["z"], min=0) - here)
        z = w["z"]
        return [_dot(w["G"], z), _gram(w["D"], z), _gram(w["U"], z), _gram(z, z)]

    def combine(self, w: dict[str, Tensor], tau: Scalar, stretch: float) -> list[Tensor]:
        """D = stretch (D + tau z): U'D, D'D."""
        U, D = w["U"], w["D"]
        D.copy_(torch.maximum(stretch * (D + as_step(tau, U) * w["z"]), -U))
        return [_gram(U, D), _gram(D, D)]

    def solve(self, G: Tensor, S: Tensor, rows: RowCurvature | None = None) -> Tensor:
        """Codes that minimise every sample's model: sweeps from zero until nothing changes, looked at every tenth."""
        S, inverse = self._inverse(S, G.dtype)
        Y = torch.zeros_like(G)
        for done in range(SOLVE_SWEEPS):
            change = self._sweep(Y, G, S, inverse, rows)
            if done % 10 == 9 and bool(change <= _TOLERANCE[G.dtype] ** 2 * _dot(Y, Y)):
                break
        return Y

    def components(self, Vt: Tensor, P: Tensor, Q: Tensor, rounding: float) -> Tensor:
        """HALS sweeps over the components, the later ones without effect once they change little."""
        Y, G, inverse = Vt.T.clone(), P.T, inverse_diagonal(Q, rounding)
        first = last = self._sweep(Y, G, Q, inverse)
        for _ in range(COMPONENT_SWEEPS - 1):
            new = Y.clone()
            change = self._sweep(new, G, Q, inverse)
            going = last > SETTLED * first
            Y, last = torch.where(going, new, Y), torch.where(going, change, 0.0)
        return Y.T.contiguous()

    def best_step(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """The lowest point of a quartic on [0, 1], and on [0, 2 LONGEST], by the host."""
        t = torch.tensor(HOST.best_step(c.tolist()), dtype=torch.float64, device=c.device)
        return t[0], t[1]


def _dot(A: Tensor, B: Tensor) -> Tensor:
    """<A, B> in float64."""
    return (A * B).sum(dtype=torch.float64)


def _gram(A: Tensor, B: Tensor) -> Tensor:
    """A B' over the samples, in float64 beyond blocks of a few thousand."""
    total = torch.zeros(len(A), len(B), dtype=torch.float64, device=A.device)
    for i in range(0, A.shape[1], 2**14):
        total += (A[:, i : i + 2**14] @ B[:, i : i + 2**14].T).double()
    return total
