"""Non-negative least squares for many rows at once, on tensors.

The method is block principal pivoting (Kim & Park, SIAM Journal on Scientific Computing 33(6), 2011).

Every row guesses which of its codes are positive, solves for these alone, and exchanges those that came out negative
with those that should grow, until none is left. The systems of all rows are solved together, by conjugate gradients
whose preconditioner is the inverse of the curvature common to rows: where nearly all codes of a row are positive,
a few steps are enough. Rows that are solved are set aside; the last ones are solved by factorizations, because among
them are those whose wrong codes are fewer than the rounding of conjugate gradients lets one see.

========  =======  ==============================================
G         k x n    pull of every row
S         k x k    curvature common to rows
F         k x n    1 for codes taken to be positive, 0 otherwise
Y         k x n    codes
========  =======  ==============================================
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
import torch

from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.row_model import RowModel, Ties

Tensor = torch.Tensor
AT_ONCE = 2**25  # codes that are solved for at once
PATIENCE = 3  # exchanges of all wrong codes that may fail to make them fewer, before only some are exchanged
ROUNDS = 40  # beyond 3 k, the rows that are left go to the host
FACTORED = 2**24  # entries of the systems that are factorized at once


class RowCurvature(NamedTuple):
    """Curvature ``weight_i diag(lengths)`` that differs from row to row."""

    weight: Tensor  # n
    lengths: Tensor  # k


def solve_rows(G: Tensor, S: Tensor, rows: RowCurvature | None = None, start: Tensor | None = None) -> Tensor:
    """The Y >= 0 that minimises ``1/2 y'(S + weight_i diag(lengths)) y - g'y`` for every column, in G's precision.

    A good `start` saves time.
    """
    codes, step = torch.empty_like(G), max(1, AT_ONCE // len(S))
    for i in range(0, G.shape[1], step):
        part = slice(i, i + step)
        own = None if rows is None else RowCurvature(rows.weight[part].double(), rows.lengths.double())
        precision = 1e-13 if G.dtype == torch.float64 else 1e-8
        problem = _Problem(G[:, part].double(), S.double(), own, precision)
        codes[:, part] = _pivoted(problem, problem.inverse @ problem.G if start is None else start[:, part].double())
    return codes


class _Problem:
    """Rows that are still to be solved, in float64."""

    def __init__(self, G: Tensor, S: Tensor, rows: RowCurvature | None, precision: float) -> None:
        self.G, self.S, self.rows, self.precision = G, S, rows, precision
        curvature = S if rows is None else S + rows.weight.mean() * rows.lengths.diag()
        ridge = torch.clamp(1e-14 * curvature.diagonal().max(), min=1e-300)
        self.inverse = torch.linalg.inv_ex(curvature + ridge * torch.ones_like(G[:, 0]).diag())[0]
        self.diagonal = self._times(S.diagonal()[:, None], 1.0)

    def _times(self, product: Tensor, Y: Tensor | float) -> Tensor:
        """With the rows' own curvature along Y."""
        return product if self.rows is None else product + self.rows.weight * self.rows.lengths[:, None] * Y

    def curved(self, Y: Tensor) -> Tensor:
        """The curvature along Y."""
        return self._times(self.S @ Y, Y)

    def only(self, some: Tensor) -> _Problem:
        """Some of the rows."""
        part = copy(self)
        part.G = self.G[:, some]
        if self.rows is not None:
            part.rows = self.rows._replace(weight=self.rows.weight[some])
            part.diagonal = self.diagonal[:, some]
        return part

    def on_face(self, F: Tensor, Y: Tensor) -> Tensor:
        """The minimum over the codes in F, from Y: of a few rows exactly, unless a system is singular."""
        if Y.shape[1] * len(self.S) ** 2 > FACTORED:
            return self._by_gradients(F, Y)
        found = self._by_factors(F)
        rest = (F * (self.G - self.curved(found))).abs() <= self.precision * self._size(found)
        solved = rest.all(0)
        return found if bool(solved.all()) else torch.where(solved, found, self._by_gradients(F, Y))

    def _by_factors(self, F: Tensor) -> Tensor:
        """The same by a Cholesky factorization for every row."""
        free = F.T
        A = self.S * (free[:, :, None] * free[:, None, :])
        diagonal = A.diagonal(dim1=1, dim2=2)
        diagonal.add_((1 - free) * self.S.diagonal().max())
        if self.rows is not None:
            diagonal.add_(free * self.rows.weight[:, None] * self.rows.lengths)
        factors = torch.linalg.cholesky_ex(A)[0]
        found: Tensor = torch.cholesky_solve((free * self.G.T)[:, :, None], factors)[:, :, 0].T
        return F * found

    def _by_gradients(self, F: Tensor, Y: Tensor) -> Tensor:
        """The same from Y, by preconditioned conjugate gradients."""
        goal = self.precision**2 * (F * self.G * (self.inverse @ (F * self.G))).sum(0)
        r = F * (self.G - self.curved(Y))
        u = F * (self.inverse @ r)
        p, energy = u, (r * u).sum(0)
        found, left, own = torch.empty_like(Y), torch.arange(Y.shape[1], device=Y.device), self
        for _ in range(2 * len(self.S)):
            q = F * own.curved(p)
            curvature = (p * q).sum(0)
            going = (energy > goal) & (curvature > 0)
            count = int(going.sum())
            if count == 0:
                break
            if 2 * count < len(left):  # go on with these rows alone
                found[:, left] = Y
                some = going.nonzero()[:, 0]
                own = own.only(some)
                left, F, Y, r, p, q = left[some], *(A[:, some] for A in (F, Y, r, p, q))
                goal, energy, curvature, going = (a[some] for a in (goal, energy, curvature, going))
            alpha = torch.where(going, energy / curvature, 0.0)
            Y, r = torch.addcmul(Y, alpha, p), torch.addcmul(r, alpha, q, value=-1)
            u = F * (self.inverse @ r)
            before, energy = energy, (r * u).sum(0)
            p = torch.addcmul(u, torch.where(going, energy / before, 0.0), p)
        found[:, left] = Y
        return found

    def _size(self, Y: Tensor) -> Tensor:
        """Of the numbers whose difference a slope is."""
        return self.G.abs() + self._times(self.S.abs() @ Y.abs(), Y.abs())

    def wrong(self, F: Tensor, Y: Tensor) -> Tensor:
        """Codes in F that are negative, and others along which the model falls, beyond rounding."""
        falls = (self.G - self.curved(Y) > 10 * self.precision * self._size(Y)) & (self.diagonal > 0)
        return torch.where(F > 0, -Y / Y.abs().amax(0) > 10 * self.precision, falls)

    def by_host(self) -> Tensor:
        """An exact active set for every row, by the loops for rows in memory."""
        pull, S = self.G.T.cpu().numpy(), self.S.cpu().numpy()
        own = () if self.rows is None else tuple(part.cpu().numpy() for part in self.rows)
        rows = MemoryRows(np.zeros((len(pull), 1)), len(S))
        codes = rows.solve(RowModel(S, np.zeros((1, len(S)))), Ties(np.ascontiguousarray(pull), *own))
        return torch.from_numpy(np.ascontiguousarray(codes.T)).to(self.G)


def _pivoted(problem: _Problem, start: Tensor) -> Tensor:
    """Codes of all rows of a problem, by exchanging wrong codes; those that are positive at the start are the guess."""
    k, n = problem.G.shape
    codes = torch.empty_like(problem.G)
    Y = torch.clamp(start, min=0)
    F = ((Y > 0) & (problem.diagonal > 0)).double()
    left, number = torch.arange(n, device=Y.device), torch.arange(1, k + 1, device=Y.device)[:, None]
    fewest, patience = torch.full_like(left, k + 1), torch.full_like(left, PATIENCE)
    for turn in range(3 * k + ROUNDS):
        Y = problem.on_face(F, F * Y)
        wrong = problem.wrong(F, Y)
        count = wrong.sum(0)
        if not bool(count.any()):
            break
        going = count.nonzero()[:, 0]
        if len(going) < len(left):
            codes[:, left] = Y
            problem = problem.only(going)
            left, F, Y, wrong = left[going], F[:, going], Y[:, going], wrong[:, going]
            count, fewest, patience = count[going], fewest[going], patience[going]
        fewer = count < fewest
        # the last wrong code, and about every second one, other ones in every round: this breaks cycles
        some = (number == (number * wrong).amax(0)) | ((number * 40503 + left * 30011 + turn * 12289) // 64 % 2 == 0)
        F = torch.where(wrong & (some | fewer | (patience > 0)), 1 - F, F)
        patience, fewest = torch.where(fewer, PATIENCE, patience - 1), torch.minimum(fewest, count)
    else:
        Y = problem.by_host()
    codes[:, left] = Y
    return torch.clamp(codes, min=0)
