"""Rows: every way to store X gives the same sums, whatever the blocks and threads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dspnmf import _threads
from dspnmf._threads import spread, team
from dspnmf.backends import MemoryRows, RowModel

N, M, K = 333, 21, 4


def data(dtype: Any = np.float64) -> np.ndarray:
    """Half of it zeros."""
    rng = np.random.default_rng(0)
    X = rng.random((N, M))
    return np.where(X < 0.5, 0, X).astype(dtype)


def memory_mapped(X: np.ndarray, folder: Path) -> np.ndarray:
    """X from a read-only file."""
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


LAYOUTS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "C": lambda X, _: X,
    "Fortran": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "memory-mapped": memory_mapped,
    "CSR matrix": lambda X, _: sparse.csr_matrix(X),
    "CSR array": lambda X, _: sparse.csr_array(X),
}


def rows_of(X: Any, block: int | None = None) -> MemoryRows:
    """Rows with the same random codes."""
    rows = MemoryRows(X, K, scale=2.0)
    rows.begin(np.random.default_rng(1).random((N, K)).astype(X.dtype))
    if block:
        rows._block = block
    return rows


def model(dtype: Any = np.float64) -> RowModel:
    """A convex model."""
    rng = np.random.default_rng(2)
    B = rng.random((K, K))
    return RowModel(B @ B.T + np.eye(K), rng.random((M, K)), 0.3)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_block_size_does_not_matter(block: int) -> None:
    """Blocks of any size give the same result."""
    expected = rows_of(data()).look(model(), 3)
    sums = rows_of(data(), block).look(model(), 3)
    for mine, theirs in zip(sums, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows split among many threads give the sums of one."""
    expected = rows_of(data()).look(model(), 3)
    monkeypatch.setattr(_threads, "_WORTH_A_THREAD", 1.0)
    with team():
        monkeypatch.setitem(_threads._state, "threads", 5)
        sums = rows_of(data(), 16).look(model(), 3)
    for mine, theirs in zip(sums, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_spread_covers_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces are consecutive, cut at blocks, and cover everything; small work is one piece a thread."""
    monkeypatch.setattr(_threads, "_WORTH_A_THREAD", 1.0)
    with team():
        monkeypatch.setitem(_threads._state, "threads", 3)
        assert len(spread(lambda lo, hi: [(lo, hi)], 100, 1e6, block=8)) == 3
        parts = spread(lambda lo, hi: [(lo, hi)], 100, 6 * _threads._PIECE, block=8)
    assert parts[0][0] == 0
    assert parts[-1][1] == 100
    assert len(parts) == 6
    assert all(before[1] == after[0] and after[0] % 8 == 0 for before, after in pairwise(parts))


def test_team_restores_blas_threads() -> None:
    """After a fit BLAS has the threads it had before, also when fits are nested."""
    controller = _threads.ThreadpoolController().select(user_api="blas")
    before = [lib["num_threads"] for lib in controller.info()]
    with team(), team():
        assert all(lib["num_threads"] == 1 for lib in controller.info())
    assert [lib["num_threads"] for lib in controller.info()] == before


def test_solve_with_dependent_components() -> None:
    """A singular curvature (two equal components) still gives an optimum."""
    rng = np.random.default_rng(0)
    V = rng.random((3, M))
    V = np.vstack([V, V[1]])
    X = data()
    codes = rows_of(X).solve(RowModel(V @ V.T, V.T, 0.0))
    slope = codes @ (V @ V.T) - X @ V.T / 2.0
    assert np.isfinite(codes).all()
    assert np.abs(slope[codes > 1e-12]).max() < 1e-10
    assert slope.min() > -1e-10


def test_rows_without_codes_are_refused() -> None:
    """A look before `begin` is an error; after `release` it works on the codes there are."""
    rows = MemoryRows(data(), K, 2.0)
    with pytest.raises(RuntimeError, match="call begin first"):
        rows.look(model(), 1)
    rows = rows_of(data())
    expected = rows_of(data()).look(model(), 2)
    rows.release()
    np.testing.assert_array_equal(rows.look(model(), 2).PD, expected.PD)
