"""Arithmetic of one row whose errors are measured by a beta divergence; every loop here is one the compiler vectorises.

Functions of their own, because in a larger one the compiler counts references to every view of an array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dspnmf._compiled import compiled_reordering
from dspnmf._typing import Array

_LEAST, _ROOT_OF_TWO, _LOG_OF_TWO = 2.3e-308, 2**0.5, 0.6931471805599453
_BLOCK = 1000  # numbers whose product is formed: below 2^1000
ROWS = 4  # of a dense X whose ratios are added to the sums at once


@compiled_reordering
def reconstruct(G: Array, u: Array, floor: float, y: Array) -> None:
    """``y = u G + floor``."""
    k, p = G.shape
    least = G.dtype.type(floor)
    for e in range(p):
        y[e] = least
    a = 0
    while a + 4 <= k:
        u0, u1, u2, u3 = u[a], u[a + 1], u[a + 2], u[a + 3]
        g0, g1, g2, g3 = G[a], G[a + 1], G[a + 2], G[a + 3]
        for e in range(p):
            y[e] += u0 * g0[e] + u1 * g1[e] + u2 * g2[e] + u3 * g3[e]
        a += 4
    while a < k:
        u0, g0 = u[a], G[a]
        for e in range(p):
            y[e] += u0 * g0[e]
        a += 1


@compiled_reordering
def gather(Vt: Array, columns: NDArray[np.intp], p: int, G: Array) -> None:
    """``G = V`` in some columns (k x p); four at a time, and apart from `improve`, where views would be counted."""
    k, e = len(G), 0
    while e + 4 <= p:
        v0, v1, v2, v3 = Vt[columns[e]], Vt[columns[e + 1]], Vt[columns[e + 2]], Vt[columns[e + 3]]
        for a in range(k):
            G[a, e], G[a, e + 1], G[a, e + 2], G[a, e + 3] = v0[a], v1[a], v2[a], v3[a]
        e += 4
    while e < p:
        for a in range(k):
            G[a, e] = Vt[columns[e], a]
        e += 1


@compiled_reordering
def logarithms(values: Array, bits: NDArray[np.int64], powers: Array) -> None:
    """Positive numbers become their logarithms; `bits` is the same memory as integers.

    A library's logarithm is called number by number; this vectorises. The number is ``2^power (1 + s) / (1 - s)``, with
    |s| <= 0.172, and ``log((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + s^5 / 5 + ...)``.
    """
    for e in range(values.size):
        powers[e] = (bits[e] >> 52) - 1023
        bits[e] = (bits[e] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
    for e in range(values.size):
        part = values[e]  # from 1 to 2
        large = part > _ROOT_OF_TWO
        part = part / 2 if large else part
        power = powers[e] + 1 if large else powers[e]
        s = (part - 1) / (part + 1)
        z = s * s
        rest = z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z / 21)))
        rest = z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + rest))))))
        values[e] = power * _LOG_OF_TWO + 2 * (s + s * rest)


@compiled_reordering
def sum_of_logarithms(values: Array, bits: NDArray[np.int64]) -> float:
    """Sum of the logarithms of positive numbers, which are not kept; `bits` as above.

    Only one logarithm a block: the product of its parts, from 1 to 2, is finite.
    """
    total = 0.0
    for lo in range(0, values.size, _BLOCK):
        parts, block, product, power = values[lo : lo + _BLOCK], bits[lo : lo + _BLOCK], 1.0, 0
        for e in range(block.size):
            power += block[e] >> 52
            block[e] = (block[e] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        for e in range(parts.size):
            product *= parts[e]
        total += (power - 1023 * parts.size) * _LOG_OF_TWO + np.log(product)
    return total


@compiled_reordering
def distance(x: Array, y: Array, p: int, beta: float, ratio: Array, bits: NDArray[np.int64], powers: Array) -> float:
    """The divergence of y from x, entry by entry; the rest is memory, see `logarithms`."""
    total = 0.0
    if beta == 1:
        for e in range(p):
            ratio[e] = max(np.float64(x[e]) / np.float64(y[e]), _LEAST)
        logarithms(ratio[:p], bits[:p], powers[:p])
        for e in range(p):
            a, b = np.float64(x[e]), np.float64(y[e])
            total += b - a + a * ratio[e]
        return total
    if beta == 0:
        for e in range(p):
            ratio[e] = max(np.float64(x[e]) / np.float64(y[e]), _LEAST)
            total += ratio[e] - 1
        return total - sum_of_logarithms(ratio[:p], bits[:p])
    for e in range(p):
        a, b = np.float64(x[e]), np.float64(y[e])
        total += b**beta / beta
        if a > 0:
            total += a * (a ** (beta - 1) / (beta * (beta - 1)) - b ** (beta - 1) / (beta - 1))
    return total


@compiled_reordering
def weights(x: Array, y: Array, p: int, beta: float, pull: Array, push: Array) -> None:
    """``x y^(beta - 2)`` and, unless beta = 1, ``y^(beta - 1)``: what sums for the components are made of."""
    if beta == 1:
        for e in range(p):
            pull[e] = x[e] / y[e]
    elif beta == 0:
        for e in range(p):
            push[e] = 1 / y[e]
            pull[e] = x[e] * push[e] * push[e]
    else:
        for e in range(p):
            push[e] = y[e] ** y.dtype.type(beta - 1)
            pull[e] = x[e] / y[e] * push[e]


@compiled_reordering
def add_rows(u: Array, ratios: Array, rows: int, total: Array) -> None:
    """``total += u' ratios`` for up to four rows (k x m)."""
    for b in range(rows, ROWS):
        u[b] = 0
        ratios[b] = 0
    r0, r1, r2, r3 = ratios[0], ratios[1], ratios[2], ratios[3]
    for a in range(total.shape[0]):
        u0, u1, u2, u3, sums = u[0, a], u[1, a], u[2, a], u[3, a], total[a]
        for j in range(sums.size):
            sums[j] += u0 * r0[j] + u1 * r1[j] + u2 * r2[j] + u3 * r3[j]


@compiled_reordering
def scatter(values: Array, u: Array, columns: NDArray[np.intp], p: int, total: Array) -> None:
    """``total[columns] += values u``."""
    for e in range(p):
        sums, value = total[columns[e]], values[e]
        for a in range(u.size):
            sums[a] += value * u[a]


@compiled_reordering
def multiply(u: Array, S: Array, out: Array) -> None:
    """``out = u S``."""
    for c in range(u.size):
        out[c] = 0.0
    for a in range(u.size):
        for c in range(u.size):
            out[c] += u[a] * S[a, c]
