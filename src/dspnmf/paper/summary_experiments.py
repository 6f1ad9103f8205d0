"""The experiments on lambda, alpha, convergence and Theorem 2 in sentences, all computed from the numbers."""

from __future__ import annotations

from statistics import fmean, median

from scipy.stats import spearmanr

from dspnmf.paper.protocol import ALPHA_RANK, CURVE_LENGTH, CURVE_RANK, LAMBDA_RANK, PASSES
from dspnmf.paper.published import TASKS
from dspnmf.paper.results import Results, Step
from dspnmf.paper.tables import listed

_CLOSE = 0.01  # above the lowest objective, relative to it: what counts as converged


def experiments(results: Results) -> tuple[str, ...]:
    """One or two sentences on each experiment that has results."""
    return tuple(sentence for sentences in by_experiment(results).values() for sentence in sentences)


def by_experiment(results: Results) -> dict[str, list[str]]:
    """The sentences of `experiments` on "lambda", "alpha", "convergence" and "components" (Theorem 2)."""
    return {
        "lambda": _lambda(results),
        "alpha": _alpha(results),
        "convergence": [*_rises(results), *_convergence(results)],
        "components": _theorem(results),
    }


def _lambda(results: Results) -> list[str]:
    """The largest change of a score with lambda."""
    default, printed = (
        [
            (max(means) - min(means), data, task)
            for data in results.datasets
            for task in TASKS
            if (means := [point.mean for point in results.sweep("lambda", task, method, data)])
        ]
        for method in ("DSP-NMF", "DSP-NMF (printed rule)")
    )
    if not default:
        return []
    settings = [p.at for data in results.datasets for p in results.sweep("lambda", "svm", "DSP-NMF", data)]
    change = max(default)[0]
    moved = f"change by up to {change:.3f}" if change >= 0.001 else "do not change in their first three decimals"
    sentence = (
        f"lambda from {min(settings):g} to {max(settings):g} at rank {LAMBDA_RANK}: the scores of the default solver "
        f"{moved}, because lambda only sets the scale of the codes."
    )
    if printed:
        change, data, task = max(printed)
        sentence += (
            f" Those of the printed rule change by up to {change:.3f} ({TASKS[task]} on {data}), because that rule "
            "does not converge and lambda decides where it is when it stops."
        )
    return [sentence]


def _alpha(results: Results) -> list[str]:
    """Which alpha scores best, and how both errors depend on it."""
    fits = {data: found for data in results.datasets if (found := results.tradeoffs(data))}
    alphas = sorted(set.intersection(*({fit.alpha for fit in found} for found in fits.values()))) if fits else []
    if not alphas:
        return []
    (structure, fit), (structure_end, fit_end) = (
        [
            fmean(fmean(getattr(f, error) for f in found if f.alpha == alpha) for found in fits.values())
            for error in ("structure", "reconstruction")
        ]
        for alpha in (alphas[0], alphas[-1])
    )
    return [
        *_best_alpha(results, list(fits), alphas),
        f"What the structure costs: from alpha = {alphas[0]:g} to {alphas[-1]:g} the relative error of the "
        f"similarities goes from {structure:.3f} to {structure_end:.3f}, that of the reconstruction from {fit:.3f} to "
        f"{fit_end:.3f} (averages over {listed(fits)}).",
    ]


def _best_alpha(results: Results, sets: list[str], alphas: list[float]) -> list[str]:
    """The alpha with the best average score, of those with every score on every data set."""
    scores = [
        {point.at: point.mean for point in results.sweep("alpha", task, "DSP-NMF", data)}
        for data in sets
        for task in TASKS
    ]
    means = {alpha: fmean(row[alpha] for row in scores) for alpha in alphas if all(alpha in row for row in scores)}
    if not means:
        return []
    best, least = max(means, key=lambda alpha: means[alpha]), min(means)
    return [
        f"alpha, the weight of the structure term, in units of ||X||^2 / ||XX'||^2 (rank {ALPHA_RANK}): the average of "
        f"the three scores over {listed(sets)} is highest at alpha = {best:g}: {means[best]:.3f}. It is "
        f"{means[least]:.3f} at alpha = {least:g}{' (plain NMF)' * (least == 0)}. The best of {len(means)} settings "
        "was chosen with these same scores, so it is optimistic; all of them lie between "
        f"{min(means.values()):.3f} and {means[best]:.3f}."
    ]


def _rises(results: Results) -> list[str]:
    """In how many iterations the objective rises, by solver."""
    found = [results.rises(data) for data in results.datasets]
    counts = {s: fmean(values) for s in PASSES if (values := [row[s] for row in found if s in row])}
    rising = [f"{count:.0f} ({solver})" for solver, count in counts.items() if count > 0]
    never = [solver for solver, count in counts.items() if count == 0]
    parts = [f"rises in {listed(rising)} of {CURVE_LENGTH} iterations at rank {CURVE_RANK}"] if rising else []
    parts += [f"never rises with {listed(never)}"] if never else []
    return [f"The objective {' and '.join(parts)} (averages over the data sets)."] if parts else []


def _convergence(results: Results) -> list[str]:
    """Iterations and passes over the data until a solver stays close to the lowest objective."""
    curves = [results.convergence(data) for data in results.datasets]
    parts = []
    for solver in PASSES:
        found = [_converged(curve[solver]) for curve in curves if solver in curve]
        converged = [step for step in found if step is not None]
        if converged:
            iterations, passes = (median(getattr(s, name) for s in converged) for name in ("iteration", "passes"))
            cost = f"after {iterations:.0f} iterations, {passes:.0f} passes over the data (median)"
            parts.append(f"{solver} on {len(converged)} of {len(found)} data sets {cost}")
        elif found:
            parts.append(f"{solver} on none of {len(found)}")
    goal = f"{_CLOSE:.0%} of the lowest objective that any solver reaches from the same start"
    return [f"Which solvers come within {goal}, and stay there: {'; '.join(parts)}."] if parts else []


def _converged(curve: list[Step]) -> Step | None:
    """The first step from which all later ones are close to the lowest objective."""
    found = None
    for step in reversed(curve):
        if step.excess > _CLOSE:
            break
        found = step
    return found


def _theorem(results: Results) -> list[str]:
    """Theorem 2 in the experiment on alpha: the rank correlation of errors and overlap."""
    fits = {data: results.tradeoffs(data) for data in results.datasets}
    texts = []
    for combined in (sum, max):
        errors = {data: [combined((fit.reconstruction, fit.structure)) for fit in fits[data]] for data in fits}
        found = {data: _rank_correlation(errors[data], [fit.correlation for fit in fits[data]]) for data in fits}
        texts.append([f"{value:.2f} ({data})" for data, value in found.items() if value is not None])
    if not texts[0]:
        return []
    return [
        "Theorem 2 says that components stop overlapping as both errors vanish. Neither vanishes here, but a tendency "
        f"can be measured: over the {max(map(len, fits.values()))} fits with different alpha, the rank correlation (1: "
        "always together, 0: unrelated) between the overlap of components and the sum of both errors is "
        f"{listed(texts[0])}; with the larger of both errors instead of the sum it is {listed(texts[1])}."
    ]


def _rank_correlation(a: list[float], b: list[float]) -> float | None:
    """Spearman's rank correlation; None where one of both does not vary."""
    return float(spearmanr(a, b)[0]) if len(set(a)) > 1 and len(set(b)) > 1 else None
