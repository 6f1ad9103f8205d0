"""Sums of blocks that lie transposed: few components and many take different ways."""

from __future__ import annotations

import numpy as np
import pytest

from dspnmf.backends.kernels import columns, couple, project


@pytest.mark.parametrize("k", [1, 2, 7, columns.MANY, columns.MANY + 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_conjugate_gradients(k: int, dtype: type) -> None:
    """What `couple` and `project` return are the products of the arrays they leave."""
    rng, n, C = np.random.default_rng(0), 300, np.random.default_rng(1).random((k, k)).astype(dtype)
    U, D, g, z, r, u = (rng.random((n, k)).astype(dtype) - dtype(0.3) for _ in range(6))
    free, here = rng.random((n, k)) > 0.3, U + D

    def same(found: object, known: np.ndarray) -> None:
        rounding = 100 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(found, known, rtol=rounding, atol=rounding * np.abs(known).max())

    coupled, projected = np.where(free, u + U @ C, 0), np.maximum(0, here + z) - here
    energy, Uu, uu = couple(U, r, u, free, C, 0, n, 128)
    slope, Dz, Uz, zz = project(U, D, g, z, 0, n, 128)
    precise = [A.astype(np.float64) for A in (U, D, g, r, u, z)]
    for found, known in ((u, coupled), (z, projected)):
        same(found, known)
    U, D, g, r, u, z = precise
    for found, known in ((Uu, U.T @ u), (uu, u.T @ u), (Dz, D.T @ z), (Uz, U.T @ z), (zz, z.T @ z)):
        same(found, known)
    same(energy, np.vdot(r, u))
    same(slope, np.vdot(g, z))
