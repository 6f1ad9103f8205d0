"""What a look at a slab of rows says of their codes, where errors are measured by a beta divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from dspnmf.backends.cuda_tiles import Tensor

if TYPE_CHECKING:
    from dspnmf.backends.tensor_divergence import SmallModel
    from dspnmf.backends.tensor_slabs import DenseSums, Slab, StoredSums


class Weights(NamedTuple):
    """By what entries weigh in the derivatives: ``x y^(beta - 2)`` and, unless beta = 1, ``y^(beta - 1)``."""

    pull: Tensor
    push: Tensor | None


def weights_of(slab: Slab, y: Tensor, beta: float) -> Weights:
    """What the derivatives are made of."""
    if beta == 1:
        return Weights(slab.x / y, None)
    push = 1 / y if beta == 0 else y ** (beta - 1)
    if slab.known is not None:
        push *= slab.known
    return Weights(slab.x / y * push, push)


def pushed(slab: Slab, weights: Weights, model: SmallModel) -> Tensor:
    """What pushes the codes of every row (k x B, or k x 1 where it is the same for all)."""
    if weights.push is not None:
        return slab.times(weights.push, model.V.T)
    missing = slab.missing
    if missing is None:
        return model.totals
    return (model.totals - slab.times(missing, model.V.T)).clamp(min=0.0)


def curvature(slab: Slab, weights: Weights, y: Tensor, model: SmallModel) -> Tensor:
    """That of the divergence's bound, an entry for every pair of components."""
    convex, concave = model.bent
    bent = concave * weights.pull if concave != 1 else weights.pull
    if weights.push is not None and convex > 0:
        bent = bent + convex * weights.push
    return slab.times(bent / y, model.products)


def distances(slab: Slab, U: Tensor, y: Tensor, weights: Weights, push: Tensor, beta: float) -> Tensor:
    """The divergence of every row."""
    x = slab.x
    if beta == 1:  # of what is not stored, or zero, UV alone counts: it is in the product with `push`
        all_y = (U.double() * push).sum(0)
        return all_y + slab.row_sums(torch.special.xlogy(x, weights.pull)) - slab.row_sums(x)
    if beta == 0:
        ratio = x / y
        each = ratio - 1 - torch.log(ratio)
    else:
        power = y ** (beta - 1)
        of_x = x**beta / (beta * (beta - 1)) if beta > 0 else torch.where(x > 0, x**beta / (beta * (beta - 1)), 0.0)
        each = power * y / beta + of_x - x * power / (beta - 1)
    return slab.row_sums(each if slab.known is None else torch.where(slab.known > 0, each, 0.0))


class Look:
    """Codes of a slab, and what its entries say of them."""

    slab: Slab
    model: SmallModel
    U: Tensor  # k x B
    push: Tensor  # k x B, or k x 1 where it is the same for all rows
    distances: Tensor  # B, the divergence of every row, in float64

    def pull(self) -> Tensor:
        """What pulls the codes of every row (k x B)."""
        raise NotImplementedError

    def curvature(self) -> Tensor:
        """That of the divergence's bound, an entry for every pair of components."""
        raise NotImplementedError

    def add_pull(self, sums: DenseSums | StoredSums) -> None:
        """Add what pulls the components."""
        raise NotImplementedError

    def add_push(self, sums: DenseSums | StoredSums) -> None:
        """Add what pushes them; for Kullback-Leibler what missing cells take of that."""
        raise NotImplementedError

    def with_codes(self, rows: Tensor, codes: Tensor) -> Look:
        """A look at other codes of some rows (of which `rows` is true)."""
        return self.slab.look(torch.where(rows, codes, self.U), self.model)


@dataclass(frozen=True)
class PlainLook(Look):
    """With all entries kept."""

    slab: Slab
    model: SmallModel
    U: Tensor
    push: Tensor
    distances: Tensor
    y: Tensor  # UV where x has entries, never zero
    weights: Weights

    @classmethod
    def at(cls, slab: Slab, U: Tensor, model: SmallModel) -> Self:
        """From the entries."""
        y = slab.product(U, model.V).add_(model.floor)
        weights = weights_of(slab, y, model.beta)
        push = pushed(slab, weights, model)
        return cls(slab, model, U, push, distances(slab, U, y, weights, push, model.beta), y, weights)

    def pull(self) -> Tensor:
        """One product."""
        return self.slab.times(self.weights.pull, self.model.V.T)

    def curvature(self) -> Tensor:
        """One product, with all pairs."""
        return curvature(self.slab, self.weights, self.y, self.model)

    def add_pull(self, sums: DenseSums | StoredSums) -> None:
        """By the weights of the entries."""
        sums.add(self.weights.pull, self.U)

    def add_push(self, sums: DenseSums | StoredSums) -> None:
        """By the weights of the entries."""
        lost = self.slab.missing if self.weights.push is None else self.weights.push
        assert lost is not None
        sums.add(lost, self.U)
