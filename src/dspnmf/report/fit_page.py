# Pages write products with a real multiplication sign.
# ruff: noqa: RUF001
"""The page of a fit: what was fitted, how well, and what came out, compared with plain NMF of the same rank."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from dspnmf import __version__
from dspnmf._atomic_files import write_text
from dspnmf.io import Table
from dspnmf.report import fit_components as components
from dspnmf.report import fit_figures, fit_summary
from dspnmf.report.fit_measurements import Baseline, FitInputs, RandomState, fit_inputs, measured
from dspnmf.report.formatting import capital, counted
from dspnmf.report.page import Assets, render, require

ASSETS = Assets(
    (*Assets().styles, "fit.css"), ("scale.js", "chart.js", "figure.js", "codes.js", "theme.js"), pictures=True
)
_NARROW = 10  # components up to which two tables of cosines fit next to each other
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def fit_report(
    model: BaseEstimator,
    table: Table,
    Z: ArrayLike,
    *,
    baseline: Baseline = None,
    facts: dict[str, Any] | None = None,
    title: str | None = None,
    settings: Mapping[str, str] | None = None,
    random_state: RandomState = 0,
) -> str:
    """The page of a fit: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    model, table, Z, baseline, random_state
        As in `fit_facts`. Names, labels, grid and picture of the table decide how results are shown.
    facts : dict, optional
        The result of `fit_facts` for the same arguments, so that nothing is measured twice.
    title : str, optional
        By default the method and its rank.
    settings : mapping of str to str, optional
        File, scaling, time: shown as they are.

    Returns
    -------
    str
        The page. The same arguments with a seed give the same bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report import fit_report
    >>> table = Table(np.eye(4), np.array(list("abcd")), np.arange(4).astype(str))
    >>> model = DSPNMF(2, random_state=0)
    >>> "Four &lt;features&gt;" in fit_report(model, table, model.fit_transform(table.X), title="Four <features>")
    True
    """
    require()
    if facts is not None and facts["baseline"] is None:
        baseline = False
    inputs = fit_inputs(model, table, Z, baseline, random_state)
    if facts is None or (inputs.baseline is None) != (facts["baseline"] is None):
        facts = measured(inputs)
    text = render("fit.html", ASSETS, **_content(inputs, facts, title, dict(settings or {})))
    return text.encode("utf-8", "replace").decode("utf-8")  # names may hold halves of characters


def write_fit_report(model: BaseEstimator, table: Table, Z: ArrayLike, path: Path, **options: Any) -> None:
    """Write `fit_report` (same arguments and options) to a file, which is replaced in one stroke.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dspnmf import NMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report import write_fit_report
    >>> table = Table(np.eye(4), np.array(list("abcd")), np.arange(4).astype(str))
    >>> model = NMF(2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_fit_report(model, table, model.fit_transform(table.X), Path(folder) / "report.html")
    """
    write_text(Path(path), fit_report(model, table, Z, **options))


def _content(inputs: FitInputs, facts: dict[str, Any], title: str | None, settings: dict[str, str]) -> dict[str, Any]:
    """The variables of the template."""
    kind = components.kind_of(inputs)
    n, m = inputs.shape
    versions = {"dspnmf": __version__, "Python": platform.python_version()} | {p: version(p) for p in _PACKAGES}
    return {
        "title": title or f"{facts['method']} of rank {facts['rank']}",
        "over": f"A fit of {counted(n, 'sample')} × {counted(m, 'feature')}",
        "headline": fit_summary.headline(facts),
        "fits": [capital(fit.label) for fit in inputs.fits],
        "measures": fit_summary.measures(facts),
        "notes": fit_summary.notes(inputs, facts),
        "settings": [*settings.items(), *fit_summary.settings(inputs, facts)],
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "convergence": fit_figures.convergence(inputs),
        "kind": kind,
        "left_out": components.left_out(inputs),
        "spectra": components.spectra(inputs) if kind == "spectra" else None,
        "bars": components.bars(inputs) if kind == "bars" else [],
        "all_bars": m <= components.ALL_BARS,
        "pictures": components.pictures(inputs) if kind == "pictures" else [],
        "maps": components.maps(inputs),
        "codes": fit_figures.scatter(inputs),
        "shown": len(inputs.scatter_rows),
        "total": n,
        "structure": fit_figures.structure(inputs),
        "neighbours": fit_figures.neighbours(inputs),
        "cosines": fit_summary.cosine_tables(inputs),
        "broad": facts["rank"] > _NARROW,
    }
