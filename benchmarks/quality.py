"""How low does the objective get per iteration, and does it ever rise?

(1) 20 iterations against 500 of the corrected rule of the paper (`paper-appendix`) from the same scaled start.
(2) After 20 and 100 iterations against PLANC's projected Gauss-Newton conjugate gradients (the figures of the table are
theirs, median of three seeds; theirs needs the n x n matrix, ours does not).
(3) The largest rise of any history, relative to ||X||^2 + alpha ||XX'||^2.
"""

from __future__ import annotations

import numpy as np

import _data
import _report
from dspnmf import DSPNMF

RANKS, SEEDS = (5, 10, 20), 5
PLANC = {
    ("Digits", 10): (259_772, 256_609),
    ("Digits", 20): (50_523, 46_721),
    ("BC", 10): (83.5, 63.7),
    ("BC", 20): (27.4, 7.27),
    ("syn", 10): (3.149e8, 3.0844e8),
    ("syn", 20): (112_733, 82_515),
}


def scaled_start(X: np.ndarray, k: int, seed: int) -> dict[str, np.ndarray]:
    """Uniform codes with the best single factor for the structure term, and components to match."""
    rng = np.random.default_rng(seed)
    U, V = rng.random((len(X), k)), rng.random((k, X.shape[1])) * np.sqrt(X.mean() / k)
    factor = np.linalg.norm(X.T @ U) / np.linalg.norm(U.T @ U)
    return {"W": factor * U, "H": V / factor}


def rise(X: np.ndarray, model: DSPNMF) -> float:
    """Largest increase of a history, in units of what its sums are made of."""
    X = X.astype(np.float64)
    return float(np.diff(model.objective_history_).max() / (np.sum(X**2) + np.sum((X.T @ X) ** 2)))


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def against_the_rule(sets: dict[str, np.ndarray]) -> tuple[list[list[object]], dict[str, float]]:
    """Ratios F / F_rule for every data set, rank and seed; largest rises."""
    rows: list[list[object]] = []
    ratios: dict[str, list[float]] = {"newton-cg": [], "hals": []}
    rises = dict.fromkeys(("newton-cg", "hals", "mm", "newton-cg float32", "hals float32", "mm float32"), -np.inf)
    for name, X in sets.items():
        for k in RANKS:
            cell: dict[str, list[float]] = {"newton-cg": [], "hals": []}
            for seed in range(SEEDS):
                start = scaled_start(X, k, seed)
                rule = DSPNMF(k, solver="paper-appendix", init="custom", max_iter=500, tol=0).fit(X, **start)
                for solver in ("newton-cg", "hals", "mm"):
                    model = DSPNMF(k, solver=solver, init="custom", max_iter=20, tol=0).fit(X, **start)
                    rises[solver] = max(rises[solver], rise(X, model))
                    if solver in cell:
                        cell[solver].append(model.objective_ / rule.objective_)
                    single = X.astype(np.float32)
                    model.fit(single, **start)
                    rises[f"{solver} float32"] = max(rises[f"{solver} float32"], rise(single, model))
            for solver, values in cell.items():
                ratios[solver] += values
            rows.append([name, k, *(f"{geometric(v):.3f} (max {max(v):.3f})" for v in cell.values())])
    rows.append(["all", "", *(f"{geometric(v):.3f} (max {max(v):.3f})" for v in ratios.values())])
    return rows, rises


def against_planc(sets: dict[str, np.ndarray]) -> list[list[object]]:
    """Median of three seeds after 20 and 100 iterations over PLANC's."""
    rows: list[list[object]] = []
    ratios: list[tuple[float, float]] = []
    for (name, k), theirs in PLANC.items():
        histories = [
            DSPNMF(k, max_iter=100, tol=0, random_state=s).fit(sets[name]).objective_history_ for s in range(3)
        ]
        mine = np.median([history[[20, 100]] for history in histories], axis=0)
        ratios.append((float(mine[0] / theirs[0]), float(mine[1] / theirs[1])))
        rows.append(
            [
                name,
                k,
                f"{mine[0]:.6g} / {theirs[0]:.6g}",
                ratios[-1][0],
                f"{mine[1]:.6g} / {theirs[1]:.6g}",
                ratios[-1][1],
            ]
        )
    rows.append(["geometric mean", "", "", geometric([r[0] for r in ratios]), "", geometric([r[1] for r in ratios])])
    return rows


def main() -> None:
    """Print the tables."""
    sets = _data.real()
    rows, rises = against_the_rule(sets)
    _report.table(
        "Objective after 20 iterations over 500 of the paper's corrected rule", ("data", "k", "newton-cg", "hals"), rows
    )
    rows = against_planc({**sets, "syn": _data.synthetic()})
    _report.table("Default solver over PLANC", ("data", "k", "F at 20", "ratio", "F at 100", "ratio"), rows)
    _report.table(
        "Largest rise of any history above",
        ("solver", "rise / (||X||^2 + ||XX'||^2)"),
        [[s, f"{r:.1e}"] for s, r in rises.items()],
    )
    _report.versions()


if __name__ == "__main__":
    main()
