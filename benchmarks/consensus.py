"""Does ConsensusNMF find the gene programs of single cells, better than the best of its runs, and at what price?

Counts of 5,000 cells x 1,000 genes with 12 known programs, three seeds, generated as in the paper on consensus NMF
(Kotliar et al., eLife 8, 2019), which follows Splatter (Zappia et al., Genome Biology 18, 2017):

- Genes share a background mean (gamma). A program multiplies that of a tenth of the genes by log-normal factors.
- Ten identity programs, of which a cell has one: the commonest in about a third of the cells, every next one in
  1 / 1.5 of that, so that the rarest is that of some 40 cells. Two activity programs, each with a share between .1 and
  .7 in 30 % of the cells.
- Depth of cells is log-normal; 20 % of the cells are doublets, sums of two cells. Counts are Poisson with gamma means
  (a biological coefficient of variation that falls with the mean, as in Splatter).

Cells are scaled to the median depth, genes to unit variance; programs are compared by cosine in that space.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import _report
from dspnmf import NMF, ConsensusNMF
from dspnmf.stability import match

CELLS, GENES, IDENTITY, ACTIVITY, DOUBLETS, RUNS, SINGLE, SEEDS = 5_000, 1_000, 10, 2, 0.2, 100, 10, 3
RARER, DEPTH, CHANGE = 1.5, 7.0, 2.0  # of programs, one after the other; mean of log depth; of log factors of genes


def programs(rng: np.random.Generator) -> np.ndarray:
    """Expression of every gene in every program, each adding up to 1."""
    k = IDENTITY + ACTIVITY
    changed = rng.random((k, GENES)) < 0.1
    factors = np.where(changed, np.exp(rng.normal(CHANGE, 1.0, (k, GENES))), 1.0)
    means = rng.gamma(0.6, 1 / 0.3, GENES) * np.maximum(factors, 1 / factors)
    return means / means.sum(axis=1, keepdims=True)


def counts(G: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts of cells that use these programs."""
    common = RARER ** -np.arange(IDENTITY)
    usage = np.eye(IDENTITY + ACTIVITY)[rng.choice(IDENTITY, CELLS, p=common / common.sum())]
    for activity in range(IDENTITY, IDENTITY + ACTIVITY):
        share = rng.uniform(0.1, 0.7, CELLS) * (rng.random(CELLS) < 0.3)
        usage *= 1 - share[:, None]
        usage[:, activity] += share
    mean = rng.lognormal(DEPTH, 0.78, CELLS)[:, None] * (usage @ G)
    doublets = int(DOUBLETS * CELLS)
    mean[:doublets] += mean[rng.integers(CELLS, size=doublets)]
    variation = (0.1 + 1 / np.sqrt(mean)) * np.sqrt(60 / rng.chisquare(60, GENES))
    return rng.poisson(rng.gamma(1 / variation**2, mean * variation**2))


def prepared(C: np.ndarray, G: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells at the median depth with genes of unit variance, and the programs in the same unit."""
    depth = C.sum(axis=1, keepdims=True)
    X = C / np.maximum(depth, 1) * np.median(depth)
    spread = X.std(axis=0)
    spread[spread == 0] = 1
    return (X / spread).astype(np.float32), G / spread


def seconds(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def single(X: np.ndarray, k: int, seed: int) -> tuple[float, np.ndarray]:
    """Seconds and components of a fit at the defaults."""
    model = NMF(k, random_state=seed)
    return seconds(lambda: model.fit(X)), model.components_


def compared(seed: int) -> tuple[object, ...]:
    """Cosines of the consensus and of the best run with the programs, and times, for one seed."""
    rng = np.random.default_rng(seed)
    G = programs(rng)
    X, true = prepared(counts(G, rng), G)
    k = len(G)
    best = NMF(k, n_init=RUNS, random_state=seed).fit(X)
    many = ConsensusNMF(NMF(k), n_runs=RUNS, random_state=seed)
    times, components = zip(*(single(X, k, start) for start in range(SINGLE)), strict=True)
    together, one = seconds(lambda: many.fit(X)), float(np.mean(times))
    singles = [match(true, found)[1] for found in components]
    found, of_best = (match(true, model.components_)[1] for model in (many, best))
    ends = [f"{each.min():.3f} / {each.mean():.3f}" for each in (found, of_best)]
    usual = f"{np.mean([each.min() for each in singles]):.3f} / {np.mean([each.mean() for each in singles]):.3f}"
    kept = f"{(many.groups_ >= 0).mean():.1%}"
    return (seed, *ends, usual, kept, f"{one * 1e3:.0f} ms", f"{together:.1f} s", together / one)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    header = (
        "seed", "consensus: cosine of the worst program / mean", f"best of {RUNS} runs by objective",
        f"single runs (mean of {SINGLE})", "components kept", f"one fit (mean of {SINGLE})",
        f"consensus of {RUNS} runs", "ratio",
    )  # fmt: skip
    rows = [compared(seed) for seed in range(SEEDS)]
    title = (
        f"Gene programs of {CELLS:,} cells x {GENES:,} genes, {IDENTITY + ACTIVITY} programs, {DOUBLETS:.0%} doublets"
    )
    _report.table(title, header, rows)
    _report.versions()


if __name__ == "__main__":
    main()
