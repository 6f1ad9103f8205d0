"""The loops BLAS cannot do, compiled once and cached.

Every kernel works on the rows ``lo:hi`` of arrays that all have n rows (its first arguments), block by block, so that a
block of X is read from memory once and its pull, its sweeps and its sums are done while it is in cache. Kernels release
the GIL; who splits the rows among threads is none of their business. Block products run in X's precision, what leaves a
kernel is summed in float64.

========  =======  ================================================================
U, D, g   n x k    codes, a direction for them, half the gradient of the model
X         n x m    an array, or the tuple ``(data, indices, indptr)`` of a CSR matrix
M         m x k    pull of the model, ``G = X M``
S         k x k    curvature of the model, common to all rows
========  =======  ================================================================

Kernels that read X (`look`, `face`, `combine`) serve r starts at once: `starts` says where each is along the first axis
of U, D and g (r x n x k); S is r x k x k, and M has the pulls of all starts side by side (m x r k).

Shapes and formulas are those of the solver (`dspnmf.solvers.loop`); what a kernel computes is said in its first line.

numba caches a kernel by its own file: after changing one that others inline, remove the ``__pycache__`` next to it.
"""

from dspnmf.backends.kernels.divergence import improve
from dspnmf.backends.kernels.newton import cg_start, cg_step, combine, couple, face, project
from dspnmf.backends.kernels.nnls import LANES, exchange, finish, guess, pulled
from dspnmf.backends.kernels.philox import draw
from dspnmf.backends.kernels.products import checksum, moments, sums
from dspnmf.backends.kernels.sweeps import look, sweep_mixture, sweep_rows, take_step

__all__ = [
    "LANES",
    "cg_start",
    "cg_step",
    "checksum",
    "combine",
    "couple",
    "draw",
    "exchange",
    "face",
    "finish",
    "guess",
    "improve",
    "look",
    "moments",
    "project",
    "pulled",
    "sums",
    "sweep_mixture",
    "sweep_rows",
    "take_step",
]
