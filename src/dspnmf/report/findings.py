# Pages write Greek letters and a real minus sign.
# ruff: noqa: RUF001
"""What the figures show, in sentences computed from the results: nothing is claimed that was not measured."""

from __future__ import annotations

from statistics import fmean

from dspnmf.paper.protocol import RUNS
from dspnmf.paper.published import TASKS
from dspnmf.paper.results import Results
from dspnmf.paper.tables import listed

_RISE = 1.1  # an increase by less than a tenth is not called one


def of_ranks(results: Results) -> tuple[str, ...]:
    """How to read the rank curves."""
    if not results.methods:
        return ("The runs behind the tables were not made.",)
    return (
        f"Means of up to {RUNS} runs; the band of a method, from its lowest to its highest run, appears when the "
        "method is pointed at. Dashed: all features, without reduction. Dotted: the mean the paper prints for DSP-NMF, "
        "over all ranks.",
    )


def of_lambda(results: Results) -> tuple[str, ...]:
    """How far scores move with lambda."""
    spans = {
        method: [s for d in results.datasets for task in TASKS if (s := _span(results, task, method, d)) is not None]
        for method in ("DSP-NMF", "DSP-NMF (printed rule)")
    }
    if not all(spans.values()):
        return ("The sweep of λ was not run.",)
    default, printed = (max(found) for found in spans.values())
    return (
        "λ is a unit: a factor in λ divides the codes by its root and changes nothing else. With the default solver no "
        f"mean score moves by more than {_amount(default)} along the sweep. With the printed rule, whose start is not "
        f"scaled and which does not converge, mean scores move by up to {_amount(printed)}. Lines are means of the "
        "runs, bands reach from the lowest to the highest run.",
    )


def of_alpha(results: Results) -> tuple[str, ...]:
    """What the weight of the structure term buys, and what it costs."""
    sentences = []
    for dataset in results.datasets:
        structure, fit = (
            results.sweep("alpha", name, "DSP-NMF", dataset) for name in ("structure_error", "reconstruction_error")
        )
        if len(structure) > 1 and len(fit) > 1:
            sentences.append(
                f"{dataset}: the structure error goes from {structure[0].mean:.3f} to {structure[-1].mean:.3f}, "
                f"the reconstruction error from {fit[0].mean:.3f} to {fit[-1].mean:.3f}."
            )
    if not sentences:
        return ("The sweep of α was not run.",)
    return (
        "α weighs the structure term. 0 is plain NMF; 1, in the unit of the axis, gives both terms the same weight at "
        "the outset. From the smallest to the largest α:",
        *sentences,
    )


def of_convergence(results: Results, length: int) -> tuple[str, ...]:
    """Which solvers rose, and what the curves are."""
    counts: dict[str, list[float]] = {}
    for dataset in results.datasets:
        for solver, count in results.rises(dataset).items():
            counts.setdefault(solver, []).append(count)
    if not counts:
        return ("The convergence curves were not run.",)
    never = [solver for solver, found in counts.items() if max(found) == 0]
    rose = [f"{max(found):.0f} ({solver})" for solver, found in counts.items() if max(found) > 0]
    said = (
        f"The objective rose in up to {listed(rose)} of {length} iterations." if rose else "The objective never rose."
    )
    if rose and never:
        said += f" It never rose with {listed(never)}."
    return (
        "Median of the runs. All solvers begin with the same random codes; the published rules take them as they are, "
        "the others at their best scale. After the first iterations not every one is drawn, so a curve that goes up "
        "and down at every step shows only some of its steps. A curve that leaves at the bottom is within a millionth "
        "of the lowest objective found.",
        said,
    )


def of_components(results: Results) -> tuple[str, ...]:
    """What the sweep of alpha says about Theorem 2, one sentence a data set."""
    sentences = [s for dataset in results.datasets if (s := _turn(results, dataset))]
    if not sentences:
        return ("The sweep of α was not run.",)
    return (
        "Theorem 2: where both terms vanish, components do not overlap. It speaks of both errors at once; along the "
        "sweep one is paid for with the other.",
        *sentences,
    )


def _turn(results: Results, dataset: str) -> str:
    """Where the components of a data set are least alike, and what happens beyond."""
    fits = results.tradeoffs(dataset)
    alphas = sorted({t.alpha for t in fits})
    if len(alphas) < 2:
        return ""
    correlation, structure, fit = (
        {alpha: fmean(getattr(t, name) for t in fits if t.alpha == alpha) for alpha in alphas}
        for name in ("correlation", "structure", "reconstruction")
    )
    first, last = alphas[0], alphas[-1]
    lowest = min(alphas, key=lambda alpha: correlation[alpha])
    if structure[lowest] >= structure[first]:
        return (
            f"{dataset}: components are least alike, with a mean cosine of {correlation[lowest]:.3f}, where the "
            f"structure error is {structure[lowest]:.3f}; here the sweep does not show what the theorem says."
        )
    said = (
        f"{dataset}: as the structure error falls from {structure[first]:.3f} to {structure[lowest]:.3f}, the mean "
        f"cosine of two components falls from {correlation[first]:.3f} to {correlation[lowest]:.3f}."
    )
    if correlation[last] < _RISE * correlation[lowest]:
        return said
    if fit[last] > _RISE * fit[lowest]:
        said += (
            " Beyond, structure is bought at the cost of fit: the reconstruction error grows from "
            f"{fit[lowest]:.3f} to {fit[last]:.3f},"
        )
        return f"{said} and the mean cosine rises again, to {correlation[last]:.3f}."
    return f"{said} Beyond, it rises again, to {correlation[last]:.3f}."


def _span(results: Results, task: str, method: str, dataset: str) -> float | None:
    """Largest less smallest mean score of a sweep of lambda."""
    means = [point.mean for point in results.sweep("lambda", task, method, dataset)]
    return max(means) - min(means) if len(means) > 1 else None


def _amount(value: float) -> str:
    """A difference of scores, or that there is next to none."""
    return f"{value:.3f}" if value >= 5e-4 else "0.0005"
