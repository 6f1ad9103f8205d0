"""What does a fit on a GPU cost, what an iteration over one reading of X, and how long does a rule's objective take?

X is float32 on a CUDA device: planted factors and noise. Peers on the same data, in the same run: the paper's rule as
one would write it in Torch, torchnmf (where installed; plain NMF), and the two bare products through Torch in float32.
Without a CUDA device the figures of the last run on one (`gpu.md`) are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import _report

SHAPES = ((2_000_000, 512, 20), (200_000, 4_096, 50))
WHOLE = ((2_000_000, 512, 20), (500_000, 512, 80), (500_000, 512, 200), (20_000, 784, 10))
KEPT = Path(__file__).with_name("gpu.md")
RULE_ITERATIONS = 500


def data(n: int, m: int, k: int):
    """Planted non-negative factors and noise."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    W, H = (torch.rand(shape, device="cuda", generator=generator) ** 3 for shape in ((n, k), (k, m)))
    return W @ H + 0.05 * torch.rand(n, m, device="cuda", generator=generator)


def seconds(run: Callable[[], object], repeats: int = 15) -> float:
    """Median seconds of a call, all of its work included."""
    import torch

    times = []
    for _ in range(repeats + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[3:])


def rule(X, U, V, half: float) -> None:
    """One iteration of Eq. (ourh) and (ourw) at lam = 1, in place; `half` is 1 as printed, 2 in the appendix."""
    U *= (X @ V.T + 2 * (X @ (X.T @ U))) / (U @ (V @ V.T) + half * (U @ (U.T @ U)))
    V *= (U.T @ X) / ((U.T @ U) @ V)


def start(X, k: int):
    """Random codes at the best scale for the structure term, and components."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(1)
    U, V = (torch.rand(shape, device="cuda", generator=generator) for shape in ((len(X), k), (k, X.shape[1])))
    factor = float(torch.linalg.norm(X.T @ U) / torch.linalg.norm(U.T @ U))
    return U * factor, V / factor


def descent(X, U, V, inner):
    """Our iterations from the same start, and the objective."""
    from _descent import checked, preserving
    from _descent import descent as iterations

    data = checked(X)
    objective, Vt = preserving(data), V.T.double().cpu().numpy()
    return iterations(data.rows(U.shape[1], 1.0), objective, U.T.contiguous(), Vt, inner), objective


def objective_of(X, U, V, objective) -> float:
    """The objective of given factors, from sums in float64."""
    from dspnmf.objective.state import State

    P = sum(X[i : i + 2**17].double().T @ U[i : i + 2**17].double() for i in range(0, len(X), 2**17))
    return float(objective.value(State(V.T.double(), P, U.double().T @ U.double())))


def compare(n: int, m: int, k: int) -> tuple[list[tuple[object, ...]], tuple[object, ...]]:
    """Rows of the two tables for one shape."""
    import torch

    from dspnmf.solvers.hals import Hals
    from dspnmf.solvers.newton_cg import NewtonCG

    X = data(n, m, k)
    U, V = start(X, k)
    read = seconds(lambda: X.sum())
    M = V.T.contiguous()
    bare = seconds(lambda: X @ M) + seconds(lambda: U.T @ X)
    mine = {}
    for name, inner in (("hals, inner_iter=1", Hals(1)), ("newton-cg, auto", NewtonCG())):
        steps, objective = descent(X, U.clone(), V, inner)
        for _ in range(10):  # what an iteration costs once the face is found
            next(steps)
        mine[name] = seconds(lambda steps=steps: next(steps))
    A, B = U.clone(), V.clone()
    peers = {"paper's rule in Torch": seconds(lambda: rule(X, A, B, 1.0), 5)}
    try:
        from torchnmf.nmf import NMF

        model = NMF(X.shape, rank=k).cuda()
        few, many = (seconds(lambda i=i: model.fit(X, beta=2, tol=0, max_iter=i), 1) for i in (10, 30))
        peers["torchnmf (plain NMF)"] = (many - few) / 20
    except ImportError:
        pass
    shape = f"{n:,} x {m:,}, k = {k}"
    table = [
        (shape, name, f"{t * 1e3:.2f} ms", t / read, t / bare, *(peer / t for peer in peers.values()))
        for name, t in mine.items()
    ]
    return [list(peers), *table], to_objective(X, U, V, objective, shape, torch)


def to_objective(X, U, V, objective, shape: str, torch) -> tuple[object, ...]:
    """Time to the objective of the corrected rule after 500 iterations, from the same start."""
    from dspnmf.solvers.newton_cg import NewtonCG

    torch.cuda.synchronize()
    begin, A, B = time.perf_counter(), U.clone(), V.clone()
    for _ in range(RULE_ITERATIONS):
        rule(X, A, B, 2.0)
    torch.cuda.synchronize()
    theirs, goal = time.perf_counter() - begin, objective_of(X, A, B, objective)
    steps, _ = descent(X, U.clone(), V, NewtonCG())
    next(steps)
    begin = time.perf_counter()
    value, used = float("inf"), 0
    while value > goal and used < RULE_ITERATIONS:
        value, _ = next(steps)
        used += 1
    ours = time.perf_counter() - begin
    return (shape, f"{goal:.3e}", f"{value:.3e}", used, f"{ours * 1e3:.0f} ms", f"{theirs:.2f} s", theirs / ours)


def whole(n: int, m: int, k: int) -> list[tuple[object, ...]]:
    """The whole call of 20 iterations of the defaults, over its iterations; and these over their products with X."""
    from _descent import checked, plain, preserving
    from _descent import descent as iterations
    from dspnmf import DSPNMF, NMF
    from dspnmf.solvers.hals import Hals
    from dspnmf.solvers.newton_cg import NewtonCG

    X, shape, table = data(n, m, k), f"{n:,} x {m:,}, k = {k}", []
    U, V = start(X, k)
    M = V.T.contiguous()
    bare = seconds(lambda: X @ M) + seconds(lambda: U.T @ X)
    for cls, objective, inner in ((DSPNMF, preserving, NewtonCG()), (NMF, plain, Hals())):
        call = seconds(lambda cls=cls: cls(k, max_iter=20, tol=0, random_state=0).fit(X), 3)
        checked_X = checked(X)
        steps = iterations(
            checked_X.rows(k, 1.0), objective(checked_X), U.T.contiguous(), M.double().cpu().numpy(), inner
        )
        step = seconds(lambda steps=steps: next(steps))
        over = (call / (20 * step), f"{step * 1e3:.2f} ms", step / bare)
        table.append((shape, cls.__name__, f"{call * 1e3:.0f} ms", *over))
    return table


def main() -> None:
    """Print the tables, and keep them."""
    try:
        import torch

        available = torch.cuda.is_available()
    except ImportError:
        available = False
    if not available:
        print(KEPT.read_text(encoding="utf-8") if KEPT.exists() else "No CUDA device here, and no figures kept.")
        return
    each, goals, peers = [], [], ()
    for shape in SHAPES:
        (peers, *rows), goal = compare(*shape)
        each += rows
        goals.append(goal)
        torch.cuda.empty_cache()
    device = torch.cuda.get_device_name()
    calls = [row for shape in WHOLE for row in whole(*shape)]
    head = ("X", "class", "20 iterations, whole call", "over its iterations", "iteration", "over two bare products")
    _report.table(f"On a GPU ({device}): the whole call", head, calls)
    head = ("X", "solver", "iteration", "over reading X once", "over two bare products")
    _report.table(f"On a GPU ({device}): time per iteration", (*head, *(f"{p}, over ours" for p in peers)), each)
    head = ("X", "rule's objective (500 iterations)", "ours", "our iterations", "our time", "rule's time", "ratio")
    _report.table(f"On a GPU ({device}): time to the corrected rule's objective", head, goals)
    _report.versions()
    print(f"torch {torch.__version__}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
