"""What the experiments beside the tables say, in sentences: lambda, alpha, convergence, Theorem 2."""

from __future__ import annotations

from statistics import fmean, median

from scipy.stats import spearmanr

from dspnmf.paper.measure import PASSES
from dspnmf.paper.protocol import ALPHA_RANK, CURVE_LENGTH, CURVE_RANK, LAMBDA_RANK
from dspnmf.paper.published import TASKS
from dspnmf.paper.results import Results, Step, Tradeoff
from dspnmf.paper.tables import listed

_CLOSE = 0.01  # of the lowest objective: what counts as arrived


def experiments(results: Results) -> tuple[str, ...]:
    """One sentence or two for each experiment that has results.

    >>> from dspnmf.paper.results import Results
    >>> experiments(Results(()))
    ()
    """
    return (*_lambda(results), *_alpha(results), *_rises(results), *_arrivals(results), *_theorem(results))


def _lambda(results: Results) -> list[str]:
    """How far scores move along the sweep of lambda."""
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
    sentence = (
        f"The weight lambda, from {min(settings):g} to {max(settings):g} at rank {LAMBDA_RANK}: with the default "
        f"solver no score moves by more than {max(default)[0]:.3f}, as lambda is only the unit of the codes."
    )
    if printed:
        moved, data, task = max(printed)
        sentence += (
            f" With the rule as printed, scores move by up to {moved:.3f} ({TASKS[task]} on {data}): there, lambda "
            "decides how far the rule gets."
        )
    return [sentence]


def _alpha(results: Results) -> list[str]:
    """Which alpha scores best, and what keeping the structure costs."""
    found = {data: {fit.alpha for fit in results.tradeoffs(data)} for data in results.datasets}
    sets = [data for data, alphas in found.items() if alphas]
    settings = sorted(set.intersection(*(found[data] for data in sets))) if sets else []
    if not settings:
        return []
    where = f"over {listed(sets)}"
    sentences = _best_alpha(results, sets, settings, where)
    low, high = ({data: _errors(results, data, alpha) for data in sets} for alpha in (settings[0], settings[-1]))
    structure, fit = ([fmean(end[data][i] for data in sets) for end in (low, high)] for i in (0, 1))
    sentences.append(
        f"What structure costs: from alpha = {settings[0]:g} to {settings[-1]:g} the error of the similarities goes "
        f"from {structure[0]:.3f} to {structure[1]:.3f} and the error of the reconstruction from {fit[0]:.3f} to "
        f"{fit[1]:.3f} (relative, averages {where})."
    )
    return sentences


def _best_alpha(results: Results, sets: list[str], settings: list[float], where: str) -> list[str]:
    """Which alpha scores best, of those with every score on every data set."""
    means = {}
    for alpha in settings:
        found = [_score(results, data, task, alpha) for data in sets for task in TASKS]
        if len(known := [score for score in found if score is not None]) == len(found):
            means[alpha] = fmean(known)
    if not means:
        return []
    best, least = max(means, key=lambda alpha: means[alpha]), min(means)
    return [
        f"The weight alpha of the structure (in units in which both terms weigh the same, at rank {ALPHA_RANK}): the "
        f"average of the three scores {where} is highest at alpha = {best:g}, {means[best]:.3f}, against "
        f"{means[least]:.3f} at alpha = {least:g}{' (plain NMF)' * (least == 0)}. The best of "
        f"{len(means)} settings was picked by the scores it is praised with, and all lie between "
        f"{min(means.values()):.3f} and {means[best]:.3f}."
    ]


def _score(results: Results, data: str, task: str, alpha: float) -> float | None:
    """Mean over the runs at one alpha, where they were scored."""
    return next((p.mean for p in results.sweep("alpha", task, "DSP-NMF", data) if p.at == alpha), None)


def _errors(results: Results, data: str, alpha: float) -> tuple[float, float]:
    """Structure and reconstruction error at one alpha, means over the runs."""
    fits = [fit for fit in results.tradeoffs(data) if fit.alpha == alpha]
    return fmean(fit.structure for fit in fits), fmean(fit.reconstruction for fit in fits)


def _rises(results: Results) -> list[str]:
    """Solvers whose objective rises."""
    counts = {s: [n for data in results.datasets if (n := results.rises(data).get(s)) is not None] for s in PASSES}
    counts = {solver: values for solver, values in counts.items() if values}
    if not counts:
        return []
    rising = [f"{solver} in {fmean(values):.0f}" for solver, values in counts.items() if any(values)]
    never = [solver for solver, values in counts.items() if not any(values)]
    sentence = f"What is minimised should never rise. Of {CURVE_LENGTH} iterations at rank {CURVE_RANK} it rises with "
    return [sentence + f"{listed(rising)} (averages over the data sets), and never with {listed(never)}."]


def _arrivals(results: Results) -> list[str]:
    """Iterations and passes until a solver stays within one per cent of the lowest objective."""
    curves = [results.convergence(data) for data in results.datasets]
    parts = []
    for solver in PASSES:
        found = [_arrival(curve[solver]) for curve in curves if solver in curve]
        arrived = [step for step in found if step is not None]
        if arrived:
            iterations, passes = (median(getattr(s, name) for s in arrived) for name in ("iteration", "passes"))
            cost = f"after {iterations:.0f} iterations, {passes:.0f} readings of the data (median)"
            parts.append(f"{solver} on {len(arrived)} of {len(found)} data sets {cost}")
        elif found:
            parts.append(f"{solver} on none of {len(found)}")
    if not parts:
        return []
    within = f"within {_CLOSE:.0%} of the lowest objective that any solver reached from the same start"
    return [f"Coming to stay {within}, in {CURVE_LENGTH} iterations: {'; '.join(parts)}."]


def _arrival(curve: list[Step]) -> Step | None:
    """The first step from which on all are close."""
    found = None
    for step in reversed(curve):
        if step.excess > _CLOSE:
            break
        found = step
    return found


def _theorem(results: Results) -> list[str]:
    """Theorem 2 along the sweep of alpha: smaller errors, less overlap."""
    sums, larger = {}, {}
    for data in results.datasets:
        fits = results.tradeoffs(data)
        sums[data] = _agreement(fits, [fit.reconstruction + fit.structure for fit in fits])
        larger[data] = _agreement(fits, [max(fit.reconstruction, fit.structure) for fit in fits])
    if not any(value is not None for value in sums.values()):
        return []
    count = max(len(results.tradeoffs(data)) for data in results.datasets)
    shown, other = (
        listed(f"{value:.2f} ({data})" for data, value in found.items() if value is not None)
        for found in (sums, larger)
    )
    return [
        "Theorem 2 says that components stop overlapping as both errors vanish. Neither vanishes here, but the "
        f"tendency can be looked for: over the {count} fits of the sweep of alpha, the rank correlation (1: always "
        f"together, 0: unrelated) between the overlap of components and the sum of both errors is {shown}; with the "
        f"larger of both errors in place of the sum it is {other}."
    ]


def _agreement(fits: list[Tradeoff], errors: list[float]) -> float | None:
    """Spearman's correlation of errors with the overlap of components, where both vary."""
    overlap = [fit.correlation for fit in fits]
    if len(set(errors)) < 2 or len(set(overlap)) < 2:
        return None
    return float(spearmanr(errors, overlap)[0])
