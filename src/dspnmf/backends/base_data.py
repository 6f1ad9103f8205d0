"""What classes of `Data` share: named blocks of columns, and refusals of what they are not capable of."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np
from scipy import sparse

from dspnmf.backends.chunk_facts import ChunkFacts, ordinary_unit
from dspnmf.backends.protocol import Backend, Capability
from dspnmf.backends.row_model import X_BLOCK, Block


def _refusal(capability: Capability) -> Any:
    """A method of `Data` that needs a capability, of a backend that has not declared it."""

    def refused(self: BaseData, *_: object, **__: object) -> NoReturn:
        self._refuse(capability)

    return refused


class BaseData:
    """Named blocks of columns, and refusals of what a backend has not declared among its capabilities.

    Estimators ask `check_backend` first, so the refusals are met only by code that did not.
    """

    blocks: dict[str, Any]  # name -> something with as many columns as the block has
    facts = ChunkFacts()  # of X, where one pass over its chunks has found them
    unit = 1.0  # the user's X over the one held here

    def __init__(self, X: Any, shape: tuple[int, int], dtype: np.dtype[Any], backend: Backend, largest: float) -> None:
        self.backend, self.largest = backend, largest
        self.shape, self.dtype = shape, dtype
        self.blocks = {"X": X}

    def mean(self) -> float:
        """The mean of X."""
        return self.facts.total / (self.shape[0] * self.shape[1]) * self.facts.unit

    def norm2(self, scale: float) -> float:
        """||X||^2 in the unit `scale`."""
        return self.facts.norm2(scale)

    def of_ordinary_size(self, scale: float) -> Self:
        """Itself, or a copy divided by `scale` where squares of numbers of that size leave the range of float32."""
        unit = ordinary_unit(scale, self.dtype)
        return self if unit == self.unit else self._divided(unit)

    def _divided(self, unit: float) -> Self:
        """A copy of X in another unit."""
        raise NotImplementedError

    def block(self, name: str = "X") -> Block:
        """The columns of a block."""
        if len(self.blocks) == 1:
            return X_BLOCK
        widths = self._widths()
        width, first = widths[name], sum(list(widths.values())[: list(widths).index(name)])
        return Block(name, slice(first, first + width))

    def _widths(self) -> dict[str, int]:
        """Columns of every block."""
        return {name: int(part.shape[1]) for name, part in self.blocks.items()}

    def _with_block(self, name: str, columns: Any) -> Self:
        wide = object.__new__(type(self))
        vars(wide).update(vars(self), blocks={**self.blocks, name: columns})
        return wide

    def _refuse(self, capability: Capability) -> NoReturn:
        raise NotImplementedError(f"X is {self.backend.name}, which is not capable of {capability!r}.")

    def with_similarity_block(self) -> tuple[Self, str]:
        """Itself: X stands still."""
        return self, "X"

    def with_ones(self, scale: float) -> Self:
        """X with a column of `scale`."""
        wide: Self = self.widened("ones", sparse.csr_array(np.full((self.shape[0], 1), scale, self.dtype)))
        return wide

    widened = with_unit_rows = _refusal("features")
    without_features = on_host = with_averaged_rows = _refusal("graphs")
    column_means = _refusal("missing")
    some_rows = _refusal("batches")
    singular_vectors = _refusal("svd")
    divergence_rows = has_zeros = _refusal("divergences")
    transposed = as_float64 = _refusal("whole matrix")
