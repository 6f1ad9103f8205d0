"""Does DSPNMFCV choose well, and how long does it take against GridSearchCV?

(1) Planted ranks: X = UV + noise (300 x 60, U and V half zeros, noise as a share of the norm), ranks 2 to 16 to choose
from, ten seeds: how often the rank is found, exactly and within one.
(2) The weight, at rank 10: 40 % of the rows are held out, alpha is chosen on the rest. Then every alpha of the grid is
fitted to the rest, and 3-NN on its codes scored on the rows held out (mean of three starts, and over splits). What the
choice loses against the best alpha of the grid, that is, the one with the best mean over the splits.
(3) Six ranks, seven alphas, five folds on Digits, two processes: scikit-learn's GridSearchCV fits the same grid.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import minmax_scale

import _data
import _report
from dspnmf import DSPNMF, DSPNMFCV, datasets
from dspnmf.selection.candidates import RANKS, alpha_grid
from dspnmf.selection.fits import path
from dspnmf.selection.results import RULES, chosen

SEEDS, STARTS, RANK, JOBS = 10, 3, 10, 2
SPLITS = {"BC": 10, "Wine": 10, "Digits": 4, "COIL20": 4, "IndianPines": 8}  # more where scores vary more


def planted(k: int, noise: float, seed: int) -> np.ndarray:
    """X = UV + noise, cut at 0."""
    rng = np.random.default_rng(seed)
    U, V = (rng.gamma(1.0, size=size) * (rng.random(size) < 0.5) for size in ((300, k), (k, 60)))
    X, E = U @ V, rng.standard_normal((300, 60))
    return np.maximum(X + E * (noise * np.linalg.norm(X) / np.linalg.norm(E)), 0)


def ranks() -> list[list[object]]:
    """How often planted ranks are found, by either rule."""
    rows: list[list[object]] = []
    for noise in (0.05, 0.2):
        for k in (3, 6, 12):
            off: dict[str, list[int]] = {rule: [] for rule in RULES}
            for seed in range(SEEDS):
                search = DSPNMFCV(range(2, 17), alphas=[0.0], random_state=seed, n_jobs=JOBS).fit(
                    planted(k, noise, seed)
                )
                found = search.rank_results_
                errors = np.array([found[f"split{fold}_error"] for fold in range(search.n_splits_)]).T
                for rule in RULES:
                    off[rule].append(abs(int(found["n_components"][chosen(-errors, rule)]) - k))
            cells = [f"{np.sum(np.array(off[rule]) <= most)} of {SEEDS}" for rule in RULES for most in (0, 1)]
            rows.append([f"{noise:.0%}", k, *cells])
    return rows


def data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Data sets and classes; those in files only where they are at hand."""
    here = _data.folder()
    names = [name for name in SPLITS if name in _data.real()]
    found = {name: datasets.load(name, here) for name in names}
    return {name: (minmax_scale(one.X), one.y) for name, one in found.items()}


def scores(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """What every alpha of the grid scores on the rows held out."""
    found = []
    for seed in range(STARTS):
        fits = path(X, None, grid, DSPNMF(RANK, normalize=True, random_state=seed))
        found.append([KNeighborsClassifier(3).fit(Z, y).score(model.transform(X_test), y_test) for model, Z in fits])
    return np.mean(found, axis=0)


def weights() -> list[list[object]]:
    """What the choice of alpha loses."""
    rows: list[list[object]] = []
    for name, (X, y) in data().items():
        tables, choices = [], []
        for split in range(SPLITS[name]):
            A, B, a, b = train_test_split(X, y, test_size=0.4, stratify=y, random_state=split)
            grid = alpha_grid(7, A)
            tables.append(scores(A, a, B, b, grid))
            searches = [DSPNMFCV(RANK, random_state=split, n_jobs=JOBS).fit(A, labels) for labels in (a, None)]
            choices.append([int(np.searchsorted(grid, search.alpha_)) for search in searches])
        means, at = np.mean(tables, axis=0), np.array(choices)
        picked = [float(np.mean([row[i] for row, i in zip(tables, at[:, who], strict=True)])) for who in (0, 1)]
        best, natural = float(means.max()), ["0", "0.1", "1", "10", "100", "1,000", "10,000"]
        cells = [f"{score:.3f} ({best - score:+.3f} lost)" for score in picked]
        rows.append([name, SPLITS[name], f"{best:.3f} at {natural[means.argmax()]}", *cells, f"{means[0]:.3f}"])
    return rows


def times() -> list[list[object]]:
    """Seconds of a whole search, and of scikit-learn's for the same candidates."""
    X, y = data()["Digits"]
    rows: list[list[object]] = []
    seconds = {}
    DSPNMFCV(2, alphas=2, cv=2, random_state=0, n_jobs=JOBS).fit(X)  # starts the processes
    for name, labels, score in (("without labels", None, "neighbours kept"), ("with labels", y, "accuracy")):
        begin = time.perf_counter()
        search = DSPNMFCV(RANKS, random_state=0, n_jobs=JOBS).fit(X, labels)
        seconds[name] = time.perf_counter() - begin
        shown = f"{search.best_score_:.4f} ({score})"
        rows.append([f"DSPNMFCV {name}", f"{seconds[name]:.0f} s", search.n_components_, shown])
    chain = make_pipeline(DSPNMF(normalize=True, random_state=0), KNeighborsClassifier(3))
    candidates = {"dspnmf__n_components": list(RANKS), "dspnmf__alpha": list(alpha_grid(7, X))}
    begin = time.perf_counter()
    peer = GridSearchCV(chain, candidates, cv=StratifiedKFold(5, shuffle=True, random_state=0), n_jobs=JOBS).fit(X, y)
    taken = time.perf_counter() - begin
    rank, shown = peer.best_params_["dspnmf__n_components"], f"{peer.best_score_:.4f} (accuracy)"
    rows.append(["GridSearchCV with labels", f"{taken:.0f} s", rank, shown])
    rows.append(["ratio, with labels", seconds["with labels"] / taken, "", ""])
    return rows


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    header = ("noise", "rank", "best: found", "within one", "one-se: found", "within one")
    _report.table("DSPNMFCV: planted ranks found without labels", header, ranks())
    header = ("data", "splits", "best alpha / natural weight", "chosen with labels", "without labels", "alpha = 0")
    _report.table("DSPNMFCV: 3-NN accuracy on held-out rows at the alpha chosen", header, weights())
    header = ("Digits, 6 ranks x 7 alphas x 5 folds", "time", "rank chosen", "score")
    _report.table("DSPNMFCV: time of a search", header, times())
    _report.versions()


if __name__ == "__main__":
    main()
