"""Data and rows of backends that hold X alone: what would need a capability is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dspnmf._typing import Array, Matrix, SmallArray
from dspnmf.backends.protocol import Backend, Capability, Data
from dspnmf.backends.row_model import X_BLOCK, Block, BlockNorms


class PlainData:
    """The part of `Data` that is the same for every X without further columns, missing cells or operators."""

    backend: Backend

    def block(self, name: str = "X") -> Block:
        """All columns are X's."""
        if name != "X":
            raise KeyError(name)
        return X_BLOCK

    def with_similarity_block(self) -> tuple[Data, str]:
        """Itself: X stands still."""
        return self, "X"  # type: ignore[return-value]  # the class that inherits this has the rest

    def widened(self, name: str, columns: Matrix) -> Data:
        """Refused."""
        self._refuse("features", f"further columns ({name!r})")

    def with_unit_rows(self, scale: float) -> Data:
        """Refused."""
        self._refuse("features", "rows of unit length next to X")

    def without_features(self) -> Data:
        """Refused."""
        self._refuse("operators", "a method that looks at operators only")

    def transposed(self) -> Data:
        """Refused."""
        self._refuse("whole matrix", "its transpose")

    def as_float64(self) -> Data:
        """Refused."""
        self._refuse("whole matrix", "X in another precision")

    def some_rows(self, rows: NDArray[np.intp], block: str = "X") -> Array:
        """Refused."""
        self._refuse("batches", "some rows of X in memory")

    def on_host(self) -> Matrix:
        """Refused."""
        self._refuse("graphs", "all of X in memory")

    def column_means(self) -> Array:
        """Refused."""
        self._refuse("missing", "missing cells")

    def singular_vectors(self, k: int, rng: np.random.RandomState) -> tuple[Array, Array, Array]:
        """Refused."""
        self._refuse("svd", "singular vectors of X")

    def _refuse(self, capability: Capability, what: str) -> NoReturn:
        raise NotImplementedError(f"X is {self.backend.name}, which does not offer {what} (capability {capability!r}).")


class PlainRows:
    """The part of `Rows` that is the same wherever X stays as it is."""

    completes = False

    def restart(self) -> None:
        """X is as it was."""

    def refresh(self, Vt: SmallArray) -> Mapping[str, BlockNorms] | None:
        """X is as it was."""
        return None
