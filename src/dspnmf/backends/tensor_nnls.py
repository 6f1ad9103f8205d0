"""Non-negative least squares for many rows at once, on tensors.

The method is block principal pivoting (Kim & Park, SIAM Journal on Scientific Computing 33(6), 2011).

Every row guesses which of its codes are positive, solves for these alone, and exchanges those that came out negative
with those that should grow, until none is left; where that goes round in circles, those by which most is gained. A
row's system is as small as the fewer of its positive codes and its zeros: with T the inverse of the curvature, the
minimum over the positive codes is ``T (g + q)``, and the q that keeps the zeros at zero solves a system of entries of
T. It is solved by elimination. Rows where rounding leaves too much of the slope are solved by conjugate gradients,
whose preconditioner is T. Rows that are solved are set aside.

========  =======  ==============================================
G         k x n    pull of every row
S         k x k    curvature common to rows
F         k x n    true for codes taken to be positive
Y         k x n    codes
========  =======  ==============================================
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, Self

import numpy as np
import torch

from dspnmf.backends.memory_rows import MemoryRows
from dspnmf.backends.row_model import RowModel, Ties

Tensor = torch.Tensor
AT_ONCE = 2**25  # codes that are solved for at once
PATIENCE = 1  # exchanges of all wrong codes that may fail to make them fewer, before only some are exchanged
ROUNDS = 40  # beyond 3 k, the rows that are left go to the host
FACTORED = 2**24  # entries of the systems that are factorized at once
_ARRAYS = 24  # of the codes' shape and of float64, at most, at the same time
_WORTHWHILE = 0.8  # of the rows are left: then it pays to set the others aside
_CORRECTED = 2  # eliminations, each from what the one before has left, before conjugate gradients


class RowCurvature(NamedTuple):
    """Curvature ``weight_i diag(lengths)`` that differs from row to row."""

    weight: Tensor  # n
    lengths: Tensor  # k


def solve_rows(
    G: Tensor, S: Tensor, rows: RowCurvature | None = None, start: Tensor | None = None,
    kind: type[Problem] | None = None,
) -> Tensor:  # fmt: skip
    """The Y >= 0 that minimises ``1/2 y'(S + weight_i diag(lengths)) y - g'y`` for every column, in G's precision.

    A good `start` saves time. `kind` says how it is done.
    """
    codes, step = torch.empty_like(G), max(1, _at_once(G.device) // len(S))
    for i in range(0, G.shape[1], step):
        part = slice(i, i + step)
        own = None if rows is None else RowCurvature(rows.weight[part].double(), rows.lengths.double())
        precision = 1e-13 if G.dtype == torch.float64 else 1e-8
        problem = (kind or Problem)(G[:, part].double(), S.double(), own, precision)
        codes[:, part] = _pivoted(problem, problem.inverse @ problem.G if start is None else start[:, part])
    return codes


def _at_once(device: torch.device) -> int:
    """Codes that are solved for at once: as many as a quarter of a device's free memory has room for."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return int(max(AT_ONCE, free // (4 * 8 * _ARRAYS)))


def eliminated(A: Tensor, chosen: Tensor, b: Tensor, more: Tensor | None = None) -> Tensor:
    """For every row the z that is zero but for chosen codes (k x n, true or false) and solves ``A z = b`` for these.

    By Cholesky factorizations, some rows at a time. `more` (k x n) is added to the diagonals of A.
    """
    z = torch.zeros_like(b)
    width = int(chosen.sum(0).max())
    step = max(1, FACTORED // max(width, 1) ** 2)
    for i in range(0, b.shape[1] if width else 0, step):
        mask = chosen[:, i : i + step].T
        held, codes = mask.to(torch.int8).sort(dim=1, descending=True, stable=True)
        held, codes = held[:, :width].to(b.dtype), codes[:, :width]
        systems = A[codes[:, :, None], codes[:, None, :]] * (held[:, :, None] * held[:, None, :])
        diagonal = 1 - held
        if more is not None:
            diagonal = diagonal + held * more[:, i : i + step].T.gather(1, codes)
        systems.diagonal(dim1=1, dim2=2).add_(diagonal)
        given = held * b[:, i : i + step].T.gather(1, codes)
        found = torch.cholesky_solve(given[:, :, None], torch.linalg.cholesky_ex(systems)[0])[:, :, 0]
        z[:, i : i + step] = torch.zeros_like(b[:, i : i + step].T).scatter_(1, codes, held * found).T
    return z


class Solved(NamedTuple):
    """Codes, and where the model falls: the pull, less what curvature takes from it."""

    codes: Tensor
    slope: Tensor


class Wrong(NamedTuple):
    """Codes to be exchanged (k x n, true or false), how many every row has, and rows that are not solved well."""

    codes: Tensor
    many: Tensor
    short: Tensor


class Problem:
    """Rows that are still to be solved, in float64."""

    def __init__(self, G: Tensor, S: Tensor, rows: RowCurvature | None, precision: float) -> None:
        self.G, self.S, self.rows, self.precision = G, S, rows, precision
        curvature = S if rows is None else S + rows.weight.mean() * rows.lengths.diag()
        ridge = torch.clamp(1e-14 * curvature.diagonal().max(), min=1e-300)
        self.inverse = torch.linalg.inv_ex(curvature + ridge * torch.ones_like(G[:, 0]).diag())[0].contiguous()
        self.diagonal = self._times(S.diagonal()[:, None], 1.0)

    def _times(self, product: Tensor, Y: Tensor | float) -> Tensor:
        """With the rows' own curvature along Y."""
        return product if self.rows is None else product + self.rows.weight * self.rows.lengths[:, None] * Y

    def curved(self, Y: Tensor) -> Tensor:
        """The curvature along Y."""
        return self._times(self.S @ Y, Y)

    def only(self, some: Tensor) -> Self:
        """Some of the rows."""
        part = copy(self)
        part.G = self.G[:, some]
        if self.rows is not None:
            part.rows = self.rows._replace(weight=self.rows.weight[some])
            part.diagonal = self.diagonal[:, some]
        return part

    def on_face(self, F: Tensor) -> tuple[Solved, Wrong]:
        """The minimum over the codes in F; of rows that elimination leaves unsolved by conjugate gradients."""
        found = self.solved(self.by_elimination(F, F * self.G))
        wrong = self.wrong(F, found)
        for trial in range(_CORRECTED):
            short = wrong.short.nonzero()[:, 0]
            if len(short) == 0:
                break
            part, F_short, Y, slope = self.only(short), F[:, short], *(A[:, short] for A in found)
            last = trial == _CORRECTED - 1
            Y = part.by_gradients(F_short, Y) if last else Y + part.by_elimination(F_short, F_short * slope)
            again = part.solved(Y)
            for whole, own in zip(found, again, strict=True):
                whole[:, short] = own
            for judged, own in zip(wrong, part.wrong(F_short, again), strict=True):
                judged[..., short] = own
        return found, wrong

    def by_elimination(self, F: Tensor, slope: Tensor) -> Tensor:
        """The minimum over the codes in F, from where the slope is what is given.

        By elimination among the codes in F or among the others, whichever are fewer.
        """
        if self.rows is not None:
            return eliminated(self.S, F, slope, self.rows.weight * self.rows.lengths[:, None])
        few = 2 * F.sum(0) <= len(self.S)
        direct = eliminated(self.S, F & few, slope)
        turned = self.inverse @ slope
        turned -= self.inverse @ eliminated(self.inverse, ~(F | few), turned)
        return torch.where(few, direct, F * turned)

    def by_gradients(self, F: Tensor, Y: Tensor) -> Tensor:
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

    def solved(self, Y: Tensor) -> Solved:
        """Codes, and what they are judged by."""
        return Solved(Y, self.G - self.curved(Y))

    def wrong(self, F: Tensor, found: Solved) -> Wrong:
        """Codes in F that are negative, and others along which the model falls, beyond rounding."""
        Y, least = found.codes, 10 * self.precision
        size = self.G.abs() + (self.G - found.slope).abs()  # of the numbers whose difference the slope is
        falls = (found.slope > least * size) & (self.diagonal > 0)
        codes = torch.where(F, -Y / Y.abs().amax(0) > least, falls)
        return Wrong(codes, codes.sum(0), (F & (found.slope.abs() > self.precision * size)).any(0))

    def _gains(self) -> tuple[Tensor, Tensor]:
        """What squares of codes, and of slopes, are multiplied by for the gain of an exchange."""
        loose, stiff = self.inverse.diagonal()[:, None], self.diagonal
        return torch.where(loose > 0, 1 / loose, 0.0), torch.where(stiff > 0, 1 / stiff, 0.0)

    def exchanged(self, F: Tensor, found: Solved, wrong: Tensor, everything: Tensor, share: Tensor) -> Tensor:
        """F with wrong codes exchanged: all of a row, or those by which at least a share of the most is gained.

        What is gained, about, is what the exchange of a code alone would change.
        """
        of_codes, of_slopes = self._gains()
        gain = torch.where(F, found.codes.square() * of_codes, found.slope.square() * of_slopes) * wrong
        return F ^ (wrong & ((gain >= share * gain.amax(0)) | everything))

    def by_host(self) -> Tensor:
        """An exact active set for every row, by the loops for rows in memory."""
        pull, S = self.G.T.cpu().numpy(), self.S.cpu().numpy()
        own = () if self.rows is None else tuple(part.cpu().numpy() for part in self.rows)
        rows = MemoryRows(np.zeros((len(pull), 1)), len(S))
        codes = rows.solve(RowModel(S, np.zeros((1, len(S)))), Ties(np.ascontiguousarray(pull), *own))
        return torch.from_numpy(np.ascontiguousarray(codes.T)).to(self.G)


def _pivoted(problem: Problem, start: Tensor) -> Tensor:
    """Codes of all rows of a problem, by exchanging wrong codes; those that are positive at the start are the guess."""
    k, n = problem.G.shape
    codes = torch.empty_like(problem.G)
    F = (start > 0) & (problem.diagonal > 0)
    left = torch.arange(n, device=F.device)
    fewest, patience = torch.full_like(left, k + 1), torch.full_like(left, PATIENCE)
    for turn in range(3 * k + ROUNDS):
        found, wrong = problem.on_face(F)
        going = wrong.many.nonzero()[:, 0]
        if len(going) == 0:
            Y = found.codes
            break
        fewer = wrong.many < fewest
        # a share of its own for every row and round: this breaks cycles
        share = torch.frac(0.7548776662 * left.double() + 0.5698402910 * turn)
        F = problem.exchanged(F, found, wrong.codes, fewer | (patience > 0), share)
        patience, fewest = torch.where(fewer, PATIENCE, patience - 1), torch.minimum(fewest, wrong.many)
        if len(going) < _WORTHWHILE * len(left):
            codes[:, left] = found.codes
            problem, F = problem.only(going), F[:, going]
            left, fewest, patience = left[going], fewest[going], patience[going]
    else:
        Y = problem.by_host()
    codes[:, left] = Y
    return torch.clamp(codes, min=0)
