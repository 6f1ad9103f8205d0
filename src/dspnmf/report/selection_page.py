"""The page of a selection: scores over the weight of the structure, held-out error over the rank, every candidate."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from dspnmf import __version__
from dspnmf._atomic_files import write_text
from dspnmf.report.charts import STYLES, Axis, Chart, Figure, Series, View
from dspnmf.report.formatting import amount, counted, cut, percent
from dspnmf.report.page import Assets, render
from dspnmf.selection import DSPNMFCV
from dspnmf.selection.results import indistinguishable

_FEW = 3  # lines up to which all bands are shown (assets/figure.js)
_BAND = "one standard deviation on either side"
_ASSETS = Assets((*Assets().styles, "fit.css"))
_COLUMNS = {  # of the table: the key in `cv_results_`, and how it is written; similarities follow them
    "Rank": ("param_n_components", "{:.0f}"),
    "Alpha": ("param_alpha", ""),
    "Label weight": ("param_label_weight", "{:g}"),
    "Score": ("mean_test_score", "{:.4f}"),
    "± over folds": ("std_test_score", "{:.4f}"),
    "Stability": ("stability", "{:.3f}"),
    "Position": ("rank_test_score", "{:.0f}"),
}


def selection_report(
    cv: DSPNMFCV, *, title: str | None = None, settings: Mapping[str, str] | None = None, command: str | None = None
) -> str:
    """The page of a fitted `DSPNMFCV`: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    cv : DSPNMFCV
        A fitted search.
    title : str, optional
        By default the choice itself.
    settings : mapping of str to str, optional
        File ("Data"), scaling ("Scale"), labels ("Label"): shown as they are.
    command : str, optional
        The call of ``dspnmf fit`` that fits the choice; by default it is made from the settings, where they have
        "Data".

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
        title=title or f"Rank {cv.n_components_}, alpha {amount(float(cv.alpha_))}",
        headline=_headline(cv, supervised),
        notes=_differences(cv),
        calls=_calls(cv, settings or {}, command),
        figures=[scores(cv, supervised), *([] if supervised else [ranks(cv)])],
        **_table(cv),
        settings=[*dict(settings or {}).items(), ("Versions", f"dspnmf {__version__}")],
    )


def write_selection_report(cv: DSPNMFCV, path: Path, **options: Any) -> None:
    """Write `selection_report` (same options) to a file, which is replaced at once."""
    write_text(Path(path), selection_report(cv, **options))


def _headline(cv: DSPNMFCV, supervised: bool) -> str:
    """The choice and its reason in a sentence or two."""
    chosen = f"rank {cv.n_components_} with alpha {amount(float(cv.alpha_))}{_further(cv, cv.best_index_, ',')}"
    simplest = "; of the candidates within one standard error of the best, it is the simplest" * (cv.rule != "best")
    if supervised:
        return (
            f"Of {counted(len(cv.cv_results_['params']), 'candidate')}, {chosen} was chosen: {_classifier(cv)} has a "
            f"mean {_score(cv)} of {cv.best_score_:.3f} on the codes of held-out rows, over "
            f"{counted(cv.n_splits_, 'fold')}{simplest}."
        )
    ranks = (cv.rank_results_ or {})["n_components"]
    first = (
        f"Of the ranks {', '.join(f'{rank:g}' for rank in ranks)}, rank {cv.n_components_} predicts held-out cells best"
    )
    further = _further(cv, cv.best_index_, ",")
    return (f"{first}{simplest}. " if len(ranks) > 1 else "") + (
        f"Of {counted(len(cv.alphas_), 'weight')} at that rank, alpha {amount(float(cv.alpha_))}{further} "
        f"was chosen: {percent(cv.best_score_)} of the {counted(cv.n_neighbors, 'nearest neighbour')} of a held-out "
        f"row are still its nearest in the codes, over {counted(cv.n_splits_, 'fold')}."
    )


def _table(cv: DSPNMFCV) -> dict[str, list[Any]]:
    """All candidates, best first, without columns that say the same of each."""
    found = cv.cv_results_
    shown = {name: column for name, column in _COLUMNS.items() if name != "Label weight" or any(found[column[0]])}
    texts = {
        name: [form.format(v) if form else amount(float(v)) for v in found[key]] for name, (key, form) in shown.items()
    }
    kinds = [f"{_kind(cv, i)}" for i in range(len(found["params"]))]
    if len(set(kinds)) > 1:
        texts = {"Rank": texts.pop("Rank"), "Similarity": kinds, **texts}
    texts["Differs from the choice"] = [_differs(cv, i) for i in range(len(kinds))]
    order = np.argsort(found["rank_test_score"], kind="stable")
    return {"header": [*texts], "candidates": [[column[i] for column in texts.values()] for i in order]}


def _how_many(alike: int, others: int) -> str:
    """How many of the other candidates are like the choice."""
    if others == alike > 1:
        return f"None of the other {others} candidates can"
    return "1 other candidate cannot" if alike == 1 else f"{alike} of the other {others} candidates cannot"


def _kind(cv: DSPNMFCV, row: int) -> str:
    """The similarity of a candidate."""
    similarity, steps = cv.cv_results_["param_similarity"][row], cv.cv_results_["param_diffusion_steps"][row]
    return f"{similarity}" + (f", {steps} steps" if similarity == "diffused" else "")


def _further(cv: DSPNMFCV, row: int, end: str = "") -> str:
    """What a candidate has in addition to rank and alpha, where that is not the default; with an `end` then."""
    found = cv.cv_results_
    similarity, steps = found["param_similarity"][row], found["param_diffusion_steps"][row]
    weight = found["param_label_weight"][row]
    words = "" if similarity == "gram" else f", similarity {similarity}"
    words += f" in {steps} steps" if similarity == "diffused" else ""
    words += f", label weight {weight:g}" if weight > 0 else ""
    return words and words + end


def _classifier(cv: DSPNMFCV) -> str:
    """The classifier of a search, as it is written in Python."""
    classifier = KNeighborsClassifier(3) if cv.classifier is None else cv.classifier
    return cut(" ".join(repr(classifier).split()))


def _score(cv: DSPNMFCV) -> str:
    """What the classifier is scored by."""
    scoring = cv.scoring or "accuracy"
    return scoring if isinstance(scoring, str) else str(getattr(scoring, "__name__", "score"))


def _same(cv: DSPNMFCV) -> NDArray[np.bool_]:
    """Which candidates cannot be told apart from the choice."""
    found = cv.cv_results_
    scores = np.column_stack([found[f"split{fold}_test_score"] for fold in range(cv.n_splits_)])
    return indistinguishable(scores, cv.best_index_)


def _differs(cv: DSPNMFCV, candidate: int) -> str:
    """Whether a candidate differs from the choice, in a word."""
    return "chosen" if candidate == cv.best_index_ else "no" if _same(cv)[candidate] else "yes"


def _differences(cv: DSPNMFCV) -> list[str]:
    """How many candidates cannot be told apart from the choice, and the simplest of them."""
    if cv.n_splits_ < 2:
        return ["With one fold, nothing is known of chance: whether candidates differ cannot be said."]
    found = cv.cv_results_
    others = np.flatnonzero(_same(cv))  # simplest first
    others = others[others != cv.best_index_]
    if not len(others):
        return ["All other candidates differ from it by more than chance over the folds."]
    first = others[0]
    which = f"rank {found['param_n_components'][first]}, alpha {amount(float(found['param_alpha'][first]))}"
    which += _further(cv, first)
    simplest = "It is" if len(others) == 1 else "The simplest of them is"
    return [
        f"{_how_many(len(others), len(found['params']) - 1)} be told apart from the choice: over the folds, the mean "
        f"difference of the scores is at most twice the standard error. {simplest} {which} (score "
        f"{found['mean_test_score'][first]:.3f})."
    ]


def _counts(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a parameter of the similarity means something."""
    return name == "similarity" or given["similarity"] == "diffused"


def _calls(cv: DSPNMFCV, settings: Mapping[str, str], command: str | None) -> list[tuple[str, str]]:
    """How to fit the choice: in Python, and on the command line where the file is known."""
    parts = [f"n_components={cv.n_components_}", f"alpha={cv.alpha_:.6g}"]
    found, row = cv.cv_results_, cv.best_index_
    given = {name: found[f"param_{name}"][row] for name in ("similarity", "diffusion_steps")}
    given = {} if given["similarity"] == "gram" else {name: v for name, v in given.items() if _counts(name, given)}
    parts += [f"{name}={value if name == 'diffusion_steps' else repr(str(value))}" for name, value in given.items()]
    parts += [f"label_weight={cv.label_weight_:g}"] * (cv.label_weight_ > 0)
    parts += ["normalize=True"] * bool(cv.normalize)
    calls = [("Python", f"DSPNMF({', '.join(parts)}, random_state=0).fit(X{', y' * (cv.label_weight_ > 0)})")]
    if command is None and settings.get("Data"):
        words = ["dspnmf", "fit", settings["Data"], "--rank", str(cv.n_components_), "--alpha", f"{cv.alpha_:.6g}"]
        for name in ("Scale", "Label"):
            words += [f"--{name.lower()}", settings[name]] if settings.get(name) else []
        for name, value in given.items():
            words += ["--set", f"{name}={value}"]
        words += ["--label-weight", f"{cv.label_weight_:g}"] * (cv.label_weight_ > 0)
        command = f"{shlex.join(words)} --out FOLDER"
    return [*calls, *([("Command line", command)] if command else [])]


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
    quantity = f"{_score(cv)} on held-out rows" if supervised else "neighbours kept (share)"
    chart = Chart("Held-out rows", Axis("alpha", log=True), Axis(quantity), tuple(series), height=380)
    text = (
        f"Mean over the folds. The band of a line{' (point at it)' * (len(series) > _FEW)} is {_BAND}. "
        "Alpha = 0 is plain NMF.",
        "Codes of held-out rows come from transform; "
        + (
            f"{_classifier(cv)} has not seen them, and no fit has seen their labels."
            if supervised
            else "their neighbours are looked for among the other rows."
        ),
    )
    return Figure("scores", "Score over alpha", text, (View("", (chart,)),), band=_BAND)


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
        "Cells are hidden at random and predicted from the others: a rank that is too small misses something, one "
        "that is too large fits noise. Stability is how similar the components of different folds are (1: the same).",
    )
    return Figure("ranks", "Rank", text, (View("", charts),), band=_BAND)
