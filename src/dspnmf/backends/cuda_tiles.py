"""What a device does with a tile of codes, in plain Torch; by Triton kernels in `dspnmf.backends.cuda_fused`.

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

import torch

from dspnmf._typing import Scalar
from dspnmf.backends.row_model import RowModel, Slope
from dspnmf.backends.small_arrays import (
    COMPONENT_SWEEPS,
    HOST,
    SETTLED,
    ConjugateStep,
    Small,
    conjugate_step,
    coupling_part,
)
from dspnmf.backends.tensor_nnls import RowCurvature, solve_rows

Tensor = torch.Tensor
Steps = tuple[Scalar, Scalar]
SUMMED = 2**24  # numbers that are summed in float64 at once
# of the largest diagonal entry of a curvature: less says nothing, and such a component is left as it is
VANISHING = {torch.float32: 1e-14, torch.float64: 1e-30}


def least_diagonal(kind: torch.dtype) -> float:
    """Entries of a curvature below this have no inverse."""
    return 1e-34 if kind == torch.float32 else 1e-300


def inverse_diagonal(S: Tensor, rounding: float) -> Tensor:
    """1 / S_aa, and 0 where that is `rounding` of the largest, or too small: such a component is left as it is."""
    diagonal = S.diagonal()
    least = torch.clamp(rounding * diagonal.max(), min=least_diagonal(S.dtype))
    return torch.where(diagonal > least, 1 / diagonal, 0.0)


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
        """X'D in float64; for CSR, X is given transposed, in float64."""
        if X.layout == torch.sparse_csr:
            return X @ D.T.double().contiguous()
        total = torch.zeros(X.shape[1], len(D), dtype=torch.float64, device=X.device)
        step = max(1, SUMMED // int(X.shape[1]))
        for i in range(0, X.shape[0], step):
            total += X[i : i + step].T.double() @ D[:, i : i + step].T.double()
        return total

    def gram(self, C: Tensor, *left: Tensor) -> list[Tensor]:
        """C C', and A C' for every A in `left`."""
        return [gram(A, C) for A in (C, *left)]

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

    def _sweeps(self, Y: Tensor, G: Tensor, S: Tensor, sweeps: Scalar, rows: RowCurvature | None) -> list[Tensor]:
        """HALS sweeps in place; the squared changes of the first and of the last."""
        S = S.to(Y.dtype)
        inverse = inverse_diagonal(S, VANISHING[Y.dtype])
        changes = [self._sweep(Y, G, S, inverse, rows) for _ in range(int(sweeps))]
        return [changes[0], changes[-1]]

    def look(
        self, G: Tensor, U: Tensor, D: Tensor, t: Tensor, S: Tensor, sweeps: Scalar, stretch: Scalar,
        rows: RowCurvature | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """Pending step, sweeps, new direction: first and last change, D'D, U'D."""
        U.copy_(torch.clamp(U + t * D, min=0))
        D.copy_(U)
        changes = self._sweeps(D, G, S, sweeps, rows)
        D.copy_(torch.maximum(stretch * (D - U), -U))
        return [*changes, *self.gram(D, U)]

    def face(
        self, G: Tensor, U: Tensor, D: Tensor, t: Tensor, S: Tensor, sweeps: int, rows: RowCurvature | None = None
    ) -> list[Tensor]:
        """Pending step, direction in D, its part A that ends at zero: <G,D>, <G,A>, D'D, U'D, A'A, U'A, D'A."""
        U.copy_(torch.clamp(U + t * D, min=0))
        D.copy_(U)
        self._sweeps(D, G, S, sweeps, rows)
        D.sub_(U)
        A = torch.where(U + D == 0, D, 0)
        return [_dot(G, D), _dot(G, A), *self.gram(D, U), *self.gram(A, U, D)]

    def cg_start(self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor) -> Tensor:
        """Shorten D; the residual r (G holds what operators pull there): U'r."""
        U, D, kind = w["U"], w["D"], w["U"].dtype
        tau, sigma = (as_step(step, U) for step in steps)
        D.mul_(torch.where(U + D == 0, sigma, tau))
        slope = S.to(kind) @ (U + D) + C.to(kind) @ U - w["G"]
        w["free"].copy_((U + D > 0) | (slope < 0))
        w["r"].copy_(torch.where(w["free"].bool(), -slope, 0))
        return self.gram(w["r"], U)[1]

    def cg_step(
        self, w: dict[str, Tensor], steps: Steps, S: Tensor, C: Tensor, W: Tensor | None, first: bool
    ) -> Tensor:
        """One conjugate-gradient step (Chronopoulos & Gear 1989): U'r; in the first z, p and q hold nothing."""
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
        return self.gram(w["r"], w["U"])[1]

    def couple(self, w: dict[str, Tensor], C: Tensor, T: Tensor) -> list[Tensor]:
        """The preconditioned residual: u = T r + C U on the free entries, zero on the others. <r,u>, u'u, U'u."""
        kind = w["U"].dtype
        w["u"].copy_(torch.where(w["free"].bool(), T.to(kind) @ w["r"] + C.to(kind) @ w["U"], 0))
        return [_dot(w["r"], w["u"]), *self.gram(w["u"], w["U"])]

    def project(self, w: dict[str, Tensor], steps: Steps, first: bool) -> list[Tensor]:
        """The last conjugate-gradient step, then the direction z to the projection: <G,z>, z'z, D'z, U'z."""
        here, (alpha, beta) = w["U"] + w["D"], (as_step(step, w["U"]) for step in steps)
        end = alpha * w["u"] if first else w["z"] + alpha * (w["u"] + beta * w["p"])
        w["z"].copy_(torch.clamp(here + end, min=0) - here)
        return [_dot(w["G"], w["z"]), *self.gram(w["z"], w["D"], w["U"])]

    def combine(self, w: dict[str, Tensor], tau: Scalar, stretch: Scalar) -> list[Tensor]:
        """D = stretch (D + tau z): D'D, U'D."""
        U, D = w["U"], w["D"]
        D.copy_(torch.maximum(stretch * (D + as_step(tau, U) * w["z"]), -U))
        return self.gram(D, U)

    def solve(self, G: Tensor, S: Tensor, rows: RowCurvature | None = None) -> Tensor:
        """Codes that minimise every sample's model."""
        return solve_rows(G, S, rows)

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

    def best_step(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The lowest point of a quartic on [0, 1], that on [0, 2 LONGEST], and its value at the first; by the host."""
        t = torch.tensor(HOST.best_step(c.tolist()), dtype=torch.float64, device=c.device)
        return t[0], t[1], t[2]

    def coupling_part(self, Ur: Tensor, preconditioner: Tensor) -> Tensor:
        """The C of ``T r + C' U``, as codes are stored here."""
        C: Tensor = coupling_part(Ur, preconditioner)
        return C

    def conjugate_step(
        self, small: Small, along: Slope, model: RowModel, before: ConjugateStep | None, reduction: float, eps: float
    ) -> ConjugateStep:
        """The next step, of a model without operators."""
        return conjugate_step(small, along, model, before, reduction, eps)


def _dot(A: Tensor, B: Tensor) -> Tensor:
    """<A, B> in float64."""
    return (A * B).sum(dtype=torch.float64)


def gram(A: Tensor, B: Tensor) -> Tensor:
    """A B' over the samples, in float64."""
    total = torch.zeros(len(A), len(B), dtype=torch.float64, device=A.device)
    step = max(1, SUMMED // len(A))
    for i in range(0, A.shape[1], step):
        total += A[:, i : i + step].double() @ B[:, i : i + step].double().T
    return total
