"""What does a fit on a GPU cost, what an iteration over one reading of X, and how long does a rule's objective take?

X is float32 on a CUDA device: planted factors and noise. Peers on the same data, in the same run: the paper's rule as
one would write it in Torch, torchnmf (where installed; plain NMF), and the two bare products through Torch in float32.
Without a CUDA device the figures of the last run on one (`gpu.md`) are shown, and that they are these; a run on one
replaces them. Counts are fitted by Kullback-Leibler: an iteration over two bare products, and the time to what the
multiplicative rule has after 100 iterations, in plain Torch and by torchnmf. Argument `counts`: these alone; `small`: a
small X, on the CPU where there is no GPU.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

import _report
import starts

SHAPES = ((2_000_000, 512, 20), (200_000, 4_096, 50))
WHOLE = ((2_000_000, 512, 20), (500_000, 512, 80), (500_000, 512, 200), (20_000, 784, 10))
COUNTS = ((200_000, 2_000, 10), (200_000, 2_000, 30))
SMALL = ((2_000, 200, 10),)
COUNT_ITERATIONS = 100
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
    times = []
    for _ in range(repeats + 3):
        wait()
        begin = time.perf_counter()
        run()
        wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[3:])


def wait() -> None:
    """Until the device has done all its work."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


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
    from dspnmf._threads import team
    from dspnmf.solvers.hals import Hals
    from dspnmf.solvers.newton_cg import NewtonCG

    X, shape, table = data(n, m, k), f"{n:,} x {m:,}, k = {k}", []
    U, V = start(X, k)
    M = V.T.contiguous()
    bare = seconds(lambda: X @ M) + seconds(lambda: U.T @ X)
    given = {"max_iter": 20, "tol": 0, "random_state": 0}
    for name, model, objective, inner in (
        ("DSPNMF", DSPNMF(k, **given), preserving, NewtonCG()),
        ("DSPNMF, hals", DSPNMF(k, solver="hals", **given), preserving, Hals()),
        ("NMF", NMF(k, **given), plain, Hals()),
    ):
        call = seconds(lambda model=model: model.fit(X), 3)
        checked_X = checked(X)
        steps = iterations(
            checked_X.rows(k, 1.0), objective(checked_X), U.T.contiguous(), M.double().cpu().numpy(), inner
        )
        with team():  # as in a fit
            step = seconds(lambda steps=steps: next(steps))
        over = (call / (20 * step), f"{step * 1e3:.2f} ms", step / bare)
        table.append((shape, name, f"{call * 1e3:.0f} ms", *over))
    return table


def accuracy(n: int, m: int, k: int, iterations: int = 30) -> tuple[object, ...]:
    """The largest relative difference between the history of a float32 fit and a direct evaluation in float64."""
    from _descent import checked, preserving
    from _descent import descent as descending
    from dspnmf.solvers.newton_cg import NewtonCG

    X = data(n, m, k)
    U, V = start(X, k)
    checked_X = checked(X)
    objective, rows = preserving(checked_X), checked_X.rows(k, 1.0)
    steps = descending(rows, objective, U.T.contiguous(), V.T.double().cpu().numpy(), NewtonCG())
    worst = 0.0
    for _ in range(iterations):
        value, s = next(steps)
        direct = objective_of(X, rows.codes.T, s.Vt.T, objective)
        worst = max(worst, abs(value / direct - 1))
    return f"{n:,} x {m:,}, k = {k}", iterations, f"{value / objective.size:.1e}", f"{worst:.1e}"


def counts(n: int, m: int, device: str, rank: int = 20):
    """Poisson counts of planted factors, dense; about a quarter is positive."""
    import torch

    rng, generator = np.random.default_rng(0), torch.Generator(device=device).manual_seed(0)
    drawn = (0.3 * rng.gamma(0.4, 1.0, (n, rank)), rng.gamma(0.4, 1.0, (rank, m)))
    W, H = (torch.from_numpy(factor).to(device, torch.float32) for factor in drawn)
    return torch.poisson(W @ H, generator=generator)


def divergence(X, U, V) -> float:
    """Kullback-Leibler, in float64, some rows at a time."""
    import torch

    total = 0.0
    for i in range(0, len(X), 2**14):
        x = X[i : i + 2**14].double()
        y = U[i : i + 2**14].double() @ V.double() + 1e-30
        total += float((torch.special.xlogy(x, x / y) - x + y).sum())
    return total


def count_rule(X, U, V) -> None:
    """One iteration of Lee and Seung's rule for Kullback-Leibler, in place."""
    U *= ((X / (U @ V + 1e-15)) @ V.T) / (V.sum(1) + 1e-15)
    V *= (U.T @ (X / (U @ V + 1e-15))) / (U.sum(0)[:, None] + 1e-15)


def compare_counts(n: int, m: int, k: int, device: str) -> list[tuple[object, ...]]:
    """Our iteration over two bare products; and our time to what each peer reaches in 100, from the peer's start."""
    import torch

    from _descent import checked
    from dspnmf.backends.tensors import CudaBackend
    from dspnmf.objective.divergence import Divergence
    from dspnmf.objective.objective import Objective
    from dspnmf.solvers.divergence import DivergenceDescent
    from dspnmf.solvers.loop import iterate

    class AnyDevice(CudaBackend):
        kinds = ("cpu", "cuda")

    X = counts(n, m, device)
    objective = Objective({"reconstruction": Divergence(1.0, float(X.numel()))}, {"reconstruction": 1.0})

    def iterations(U, V):
        rows, update = checked(X, AnyDevice(X.device)).divergence_rows(k, 1.0), DivergenceDescent()
        rows.begin(U.T.contiguous())
        return iterate(rows, objective, update, *update.begin(rows, objective, V.T.double().contiguous()))

    def to(goal: float, U, V) -> tuple[float, int, float]:
        steps = iterations(U, V)
        next(steps)
        wait()
        begin, value, used = time.perf_counter(), float("inf"), 0
        while value > goal and used < COUNT_ITERATIONS:
            value, _ = next(steps)
            used += 1
        wait()
        return time.perf_counter() - begin, used, value

    generator = torch.Generator(device=device).manual_seed(1)
    U, V = (0.5 * torch.rand(shape, device=device, generator=generator) + 0.01 for shape in ((n, k), (k, m)))
    M = V.T.contiguous()
    bare = seconds(lambda: X @ M) + seconds(lambda: U.T @ X)
    steps = iterations(U.clone(), V)
    for _ in range(3):
        next(steps)
    mine = seconds(lambda: next(steps))
    peers = {"rule in Torch": (U, V, lambda A, B: [count_rule(X, A, B) for _ in range(COUNT_ITERATIONS)])}
    try:
        from torchnmf.nmf import NMF as TorchNMF

        model = TorchNMF(X.shape, rank=k).to(device)
        start_of = model.H.detach().clone(), model.W.detach().T.contiguous()
        model.fit(X, beta=1, tol=0, max_iter=2)  # what is compiled or cached, is

        def fitted(A, B) -> None:
            with torch.no_grad():
                model.H.copy_(A)
                model.W.copy_(B.T)
            model.fit(X, beta=1, tol=0, max_iter=COUNT_ITERATIONS)
            A.copy_(model.H.detach())
            B.copy_(model.W.detach().T)

        peers["torchnmf"] = (*start_of, fitted)
    except ImportError:
        print("torchnmf is not installed: the rule written in Torch alone is the peer.")
    table = []
    for name, (first, second, run) in peers.items():
        A, B = first.clone(), second.clone()
        wait()
        begin = time.perf_counter()
        run(A, B)
        wait()
        theirs, goal = time.perf_counter() - begin, divergence(X, A, B)
        to(goal, first.clone(), second.clone())  # once before it is timed
        ours, used, value = to(goal, first.clone(), second.clone())
        table.append(
            (f"{n:,} x {m:,}, k = {k}", f"{mine * 1e3:.2f} ms", mine / bare, name, f"{theirs:.2f} s", f"{ours:.2f} s",
             ours / theirs, used, f"{goal:.6g}", f"{value:.6g}")
        )  # fmt: skip
    return table


def count_tables(shapes: tuple[tuple[int, int, int], ...], device: str) -> None:
    """Print the table of counts."""
    rows = [row for shape in shapes for row in compare_counts(*shape, device)]
    head = (
        "X", "our iteration", "over two bare products", "peer", "peer, 100 iterations", "ours to its divergence",
        "ratio of times", "our iterations", "its divergence", "ours",
    )  # fmt: skip
    _report.table(f"Counts by Kullback-Leibler, dense float32 ({device})", head, rows)


def main() -> None:
    """Print the tables, and keep them."""
    try:
        import torch

        available = torch.cuda.is_available()
    except ImportError:
        available = False
    if "small" in sys.argv or (available and "counts" in sys.argv):
        count_tables(SMALL if "small" in sys.argv else COUNTS, "cuda" if available else "cpu")
        _report.versions()
        print(f"torch {torch.__version__}")
        return
    if not available:
        print(KEPT.read_text(encoding="utf-8").rstrip())
        print(
            "\nSkipped in this run, which had no CUDA device: the figures are those of the last run on one (`gpu.md`)."
        )
        return
    printed = io.StringIO()
    with redirect_stdout(printed):
        tables()
    KEPT.write_text(printed.getvalue(), encoding="utf-8")
    print(printed.getvalue())


def tables() -> None:
    """Print all tables of a CUDA device."""
    import torch

    each, goals, peers = [], [], ()
    for shape in SHAPES:
        (peers, *rows), goal = compare(*shape)
        each += rows
        goals.append(goal)
        torch.cuda.empty_cache()
    device = torch.cuda.get_device_name()
    calls = [row for shape in WHOLE for row in whole(*shape)]
    head = ("X", "fit", "20 iterations, whole call", "over its iterations", "iteration", "over two bare products")
    _report.table(f"On a GPU ({device}): the whole call", head, calls)
    head = ("X", "solver", "iteration", "over reading X once", "over two bare products")
    _report.table(f"On a GPU ({device}): time per iteration", (*head, *(f"{p}, over ours" for p in peers)), each)
    head = ("X", "rule's objective (500 iterations)", "ours", "our iterations", "our time", "rule's time", "ratio")
    _report.table(f"On a GPU ({device}): time to the corrected rule's objective", head, goals)
    head = (
        "X",
        "iterations",
        "objective over the squared norms of X and XX'",
        "largest relative difference of an entry",
    )
    _report.table("float32 history against direct evaluations in float64", head, [accuracy(*SHAPES[0])])
    head = ("class", "X (float32)", "one start", f"{starts.STARTS} starts", "ratio", "objective over that of one start")
    _report.table(f"{starts.STARTS} starts over one, k = {starts.K}", head, starts.on_device())
    count_tables(COUNTS, "cuda")
    _report.versions()
    print(f"torch {torch.__version__}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
