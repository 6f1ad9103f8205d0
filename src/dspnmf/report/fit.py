# Pages write Greek letters, products and a real minus sign.
# ruff: noqa: RUF001
"""The page of a fit: what was fitted, how well, and what came out, with plain NMF of the same rank as yardstick."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspnmf import __version__
from dspnmf._atomic_files import write_text
from dspnmf.report import components
from dspnmf.report.case import Case, examine
from dspnmf.report.codes import scatter
from dspnmf.report.facts import Facts, facts_of
from dspnmf.report.numbers import described, headline, heat, measures, spoken
from dspnmf.report.page import Assets, render, require
from dspnmf.report.quality import convergence, neighbours, structure
from dspnmf.report.texts import capital, counted

if TYPE_CHECKING:
    from dspnmf.io import Table

_SHARED = Assets()
ASSETS = Assets(
    (*_SHARED.styles, "fit.css"), ("scale.js", "chart.js", "figure.js", "codes.js", "theme.js"), pictures=True
)
_BESIDE = 10  # components up to which two squares fit beside each other
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def fit_report(
    model: Any,
    table: Table,
    Z: Any,
    *,
    yardstick: Any = None,
    facts: Facts | None = None,
    title: str | None = None,
    settings: Mapping[str, str] | None = None,
    random_state: Any = 0,
) -> str:
    """The page of a fit: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    model : fitted estimator
        Any of the family.
    table : Table
        What it was fitted on, after scaling; its names, labels, grid and picture decide how results are shown.
    Z : array-like of shape (n_samples, n_components)
        Its codes of the table.
    yardstick : fitted NMF, (fitted NMF, its codes), False or None, default=None
        Plain NMF of the same data at the same rank. None: it is fitted here (see `fit_yardstick`); False: left out.
    facts : dict, optional
        What `fit_facts` gave for the same arguments, so that nothing is measured twice.
    title : str, optional
        By default the method and its rank.
    settings : mapping of str to str, optional
        File, scaling, time: shown as they are.
    random_state : int, RandomState or None, default=0
        Seed of the yardstick where the model has none, and of the rows that stand for all where there are many. The
        same arguments with a seed give the same bytes.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from dspnmf import DSPNMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report import fit_report
    >>> X = np.random.default_rng(0).random((20, 4))
    >>> table = Table(X, np.array(list("abcd")), np.arange(20).astype(str))
    >>> model = DSPNMF(2, random_state=0)
    >>> html = fit_report(model, table, model.fit_transform(X), title="Four <features>")
    >>> "Four &lt;features&gt;" in html
    True
    """
    require()
    if facts is not None and facts["yardstick"] is None:
        yardstick = False
    case = examine(model, table, Z, yardstick, random_state)
    if facts is None or (case.yardstick is None) != (facts["yardstick"] is None):
        facts = facts_of(case)
    text = render("fit.html", ASSETS, **_content(case, facts, title, dict(settings or {})))
    return text.encode("utf-8", "replace").decode("utf-8")  # names may hold halves of characters


def write_fit_report(
    model: Any,
    table: Table,
    Z: Any,
    path: Path,
    *,
    yardstick: Any = None,
    facts: Facts | None = None,
    title: str | None = None,
    settings: Mapping[str, str] | None = None,
    random_state: Any = 0,
) -> None:
    """Write what `fit_report` gives to a file, which is replaced in one stroke.

    Parameters
    ----------
    model, table, Z, yardstick, facts, title, settings, random_state
        As in `fit_report`.
    path : Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dspnmf import NMF
    >>> from dspnmf.io import Table
    >>> from dspnmf.report import write_fit_report
    >>> X = np.random.default_rng(0).random((20, 4))
    >>> table = Table(X, np.array(list("abcd")), np.arange(20).astype(str))
    >>> model = NMF(2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_fit_report(model, table, model.fit_transform(X), Path(folder) / "report.html")
    ...     print([file.name for file in Path(folder).iterdir()])
    ['report.html']
    """
    text = fit_report(
        model, table, Z,
        yardstick=yardstick, facts=facts, title=title, settings=settings, random_state=random_state,
    )  # fmt: skip
    write_text(Path(path), text)


def _content(case: Case, facts: Facts, title: str | None, settings: dict[str, str]) -> dict[str, Any]:
    """What the template shows."""
    kind = components.kind_of(case)
    n, m = case.shape
    return {
        "title": title or f"{facts['method']} of rank {facts['rank']}",
        "over": f"A fit of {counted(n, 'sample')} × {counted(m, 'feature')}",
        "headline": headline(facts),
        "fits": [capital(fit.label) for fit in case.fits],
        "measures": measures(facts),
        "sampled": spoken(case, facts),
        "settings": [*settings.items(), *described(case, facts)],
        "versions": _versions(),
        "convergence": convergence(case),
        "kind": kind,
        "left_out": components.left_out(case),
        "spectra": components.spectra(case) if kind == "spectra" else None,
        "bars": components.bars(case) if kind == "bars" else [],
        "all_bars": m <= components.ALL_BARS,
        "pictures": components.pictures(case) if kind == "pictures" else [],
        "maps": components.maps(case),
        "codes": scatter(case),
        "shown": len(case.shown),
        "total": n,
        "structure": structure(case),
        "neighbours": neighbours(case),
        "matrices": heat(case),
        "broad": facts["rank"] > _BESIDE,
    }


def _versions() -> str:
    """What the numbers depend on."""
    found = {"dspnmf": __version__, "Python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    return ", ".join(f"{name} {number}" for name, number in found.items())
