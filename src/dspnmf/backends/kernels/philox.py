"""Random codes by the counter-based generator Philox4x32-10 (Salmon et al., SC 2011): any entry, without the others.

An entry is made of the four words that its row and column give under the key of the start: the distance of their sum
from its mean. That is nearly half-normal, and the same bits everywhere, because sums of 32-bit words are whole numbers
that float64 holds. `dspnmf.backends.triton_kernels.draw` does the same on a device.
"""

from __future__ import annotations

import numpy as np

from dspnmf._compiled import compiled
from dspnmf._typing import Array

MIDDLE = 2**33 - 2  # the mean of four words' sum
DEVIATION = 2.0**32 / np.sqrt(3.0)  # and its standard deviation


@compiled
def draw(out: Array, key: int, factor: float, first_row: int, lo: int, hi: int) -> None:
    """Codes of the rows ``lo:hi`` of `out`, whose first is row `first_row` of X: `factor` times whole numbers."""
    word, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for i in range(lo, hi):
        row = np.uint64(first_row + i)
        for a in range(out.shape[1]):
            c0, c1, c2, c3 = row & word, row >> half, np.uint64(a), np.uint64(0)
            k0, k1 = np.uint64(key) & word, np.uint64(key) >> half
            for _ in range(10):
                p, q = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
                c0, c1, c2, c3 = (q >> half) ^ c1 ^ k0, q & word, (p >> half) ^ c3 ^ k1, p & word
                k0, k1 = (k0 + np.uint64(0x9E3779B9)) & word, (k1 + np.uint64(0xBB67AE85)) & word
            out[i, a] = factor * abs(np.int64(c0 + c1 + c2 + c3) - np.int64(MIDDLE))
