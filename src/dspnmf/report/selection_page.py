"""The page of a selection: scores over the weight of the structure, held-out error over the rank, every candidate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dspnmf import __version__
from dspnmf._atomic_files import write_text
from dspnmf.report.charts import STYLES, Axis, Chart, Figure, Series, View
from dspnmf.report.page import Assets, render
from dspnmf.selection import DSPNMFCV

_ASSETS = Assets((*Assets().styles, "fit.css"))
_COLUMNS = {  # of the table: the key in `cv_results_`, and how it is written
    "Rank": ("param_n_components", "{:.0f}"),
    "Alpha": ("param_alpha", "{:.4g}"),
    "Label weight": ("param_label_weight", "{:g}"),
    "Score": ("mean_test_score", "{:.4f}"),
    "± over folds": ("std_test_score", "{:.4f}"),
    "Stability": ("stability", "{:.3f}"),
    "Position": ("rank_test_score", "{:.0f}"),
}


def selection_report(cv: DSPNMFCV, *, title: str | None = None, settings: Mapping[str, str] | None = None) -> str:
    """The page of a fitted `DSPNMFCV`: one HTML file that needs no other and asks for nothing outside.

    The title is by default the choice itself; settings (file, scaling) are shown as they are.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from dspnmf import DSPNMFCV
    >>> from dspnmf.report import selection_report
    >>> cv = DSPNMFCV([3], alphas=2, cv=3, random_state=0, tol=1e-3).fit(load_wine().data)
    >>> "Rank 3" in selection_report(cv)
    True
    """
    supervised = getattr(cv, "rank_results_", None) is None
    return render(
        "selection.html",
        _ASSETS,
        title=title or f"Rank {cv.n_components_}, alpha {cv.alpha_:.4g}",
        headline=_headline(cv, supervised),
        figures=[scores(cv, supervised), *([] if supervised else [ranks(cv)])],
        header=_COLUMNS,
        candidates=[
            [form.format(cv.cv_results_[name][i]) for name, form in _COLUMNS.values()]
            for i in np.argsort(cv.cv_results_["rank_test_score"], kind="stable")
        ],
        settings=[*dict(settings or {}).items(), ("Versions", f"dspnmf {__version__}")],
    )


def write_selection_report(cv: DSPNMFCV, path: Path, *, settings: Mapping[str, str] | None = None) -> None:
    """Write `selection_report` to a file, which is replaced in one stroke."""
    write_text(Path(path), selection_report(cv, settings=settings))


def _headline(cv: DSPNMFCV, supervised: bool) -> str:
    """The choice and its reason in a sentence."""
    how = "a classifier does best with its codes" if supervised else "it predicts held-out cells and keeps neighbours"
    rule = "the best mean" if cv.rule == "best" else "the simplest within one standard error of the best"
    return (
        f"Of {len(cv.cv_results_['params'])} candidates on {cv.n_splits_} folds, rank {cv.n_components_} with alpha "
        f"{cv.alpha_:.4g} was chosen because {how}, on data it has not seen; the rule was {rule}."
    )


def scores(cv: DSPNMFCV, supervised: bool) -> Figure:
    """Scores over alpha, one line for each rank (and similarity, label weight)."""
    found = cv.cv_results_
    names = ("param_n_components", "param_similarity", "param_diffusion_steps", "param_label_weight")
    settings = list(zip(*(found[name].tolist() for name in names), strict=True))
    keys = sorted(set(settings))
    several, kinds = len({key[3] for key in keys}) > 1, len({key[1:3] for key in keys}) > 1
    series = []
    for style, (rank, similarity, steps, weight) in enumerate(keys):
        here = np.array([i for i, setting in enumerate(settings) if setting == keys[style]])
        here = here[np.argsort(found["param_alpha"][here])]
        mean, spread = found["mean_test_score"][here], found["std_test_score"][here]
        name = f"rank {rank}"
        if kinds:
            name += f", {similarity}" + (f" {steps} steps" if similarity == "diffused" else "")
        name += f", label weight {weight:g}" if several else ""
        marks = tuple("chosen" if i == cv.best_index_ else "" for i in here)
        band = {"low": mean - spread, "high": mean + spread}
        series.append(Series(name, found["param_alpha"][here], mean, **band, style=style % STYLES, marks=marks))
    quantity = "score of the classifier" if supervised else "neighbours kept (share)"
    chart = Chart("Held-out rows", Axis("alpha", log=True), Axis(quantity), tuple(series), height=380)
    text = (
        "Mean over the folds; bands are one standard deviation. Alpha = 0 is plain NMF.",
        "Codes of held-out rows come from transform; "
        + ("their labels reach no fit." if supervised else "their neighbours are sought among the other rows."),
    )
    return Figure("scores", "Score over alpha", text, (View("", (chart,)),))


def ranks(cv: DSPNMFCV) -> Figure:
    """Error of held-out cells, and stability, over the rank."""
    found = cv.rank_results_ or {}
    x, error, spread = (np.asarray(found[name], np.float64) for name in ("n_components", "mean_error", "std_error"))
    marks = tuple("chosen" if rank == cv.n_components_ else "" for rank in x)
    axis = Axis("rank (count)", ticks=tuple(map(float, x)))
    errors = Series("error", x, error, low=np.maximum(error - spread, 0), high=error + spread, marks=marks)
    stability = Series("stability", x, found["stability"], style=2)
    charts = (
        Chart("Held-out cells", axis, Axis("share not predicted"), (errors,)),
        Chart("Stability", axis, Axis("cosine over folds (0 to 1)"), (stability,)),
    )
    text = (
        "Cells are hidden at random and predicted from the others: too small a rank misses structure, too large a one "
        "fits noise. Stability says how alike the components of different folds are.",
    )
    return Figure("ranks", "Rank", text, (View("", charts),))
