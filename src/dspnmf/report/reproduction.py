# Pages write Greek letters and a real minus sign.
# ruff: noqa: RUF001
"""The page that ends a reproduction: every table and figure, ours beside what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dspnmf._atomic_files import write_text
from dspnmf.paper.protocol import (
    ALPHA_RANK,
    ALPHAS,
    CURVE_LENGTH,
    CURVE_RANK,
    LAMBDA_RANK,
    LAMBDAS,
    VERSION,
)
from dspnmf.paper.tables import extent
from dspnmf.report.figures import figures, power, rises, with_curves
from dspnmf.report.grids import grid
from dspnmf.report.page import render

if TYPE_CHECKING:
    from dspnmf.paper.results import Results
    from dspnmf.paper.summary import Summary
    from dspnmf.paper.tables import Table

TITLE = "The paper's comparison, beside its published numbers"
_SHORT = {"ranks": "Ranks", "lambda": "λ", "alpha": "α", "convergence": "Convergence", "components": "Theorem 2"}
_FORMATS = ("csv", "md", "tex")
_FILES = {"other": "Other measurements", "measurements": "Every measurement", "summary": "Summary"}


def write_reproduction(
    results: Results,
    tables: Sequence[Table],
    summary: Summary,
    path: Path,
    *,
    provenance: Mapping[str, str] | None = None,
) -> None:
    """Write the page of a reproduction: one HTML file that needs no other and asks for nothing outside.

    Parameters
    ----------
    results : Results
        What was measured; it may be part of the comparison, or nothing.
    tables : sequence of Table
        Ours beside published, as `dspnmf.paper.tables` makes them.
    summary : Summary
        What came out, in sentences.
    path : Path
        The file. It is replaced in one stroke. Files with the numbers that lie beside it (``table1.csv``,
        ``measurements.csv``, ...) are linked.
    provenance : mapping of str to str, optional
        Versions, command: shown as they are.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dspnmf.paper.results import Results
    >>> from dspnmf.paper.summary import Summary
    >>> from dspnmf.report import write_reproduction
    >>> nothing = Summary("Nothing was run.", (), (), (), (), (), ())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_reproduction(Results(()), [], nothing, Path(folder) / "index.html")
    ...     print("Nothing was run." in (Path(folder) / "index.html").read_text(encoding="utf-8"))
    True
    """
    curves = with_curves(results)
    text = render(
        "reproduction.html",
        title=TITLE,
        short=_SHORT,
        summary=summary,
        grids=[grid(table) for table in tables],
        figures=figures(results),
        rises=rises(results),
        rises_heads=["Solver", *curves],
        rises_caption=f"Iterations, of {CURVE_LENGTH}, in which the objective rose by more than rounding "
        "(mean of the runs)",
        settings=_settings(results),
        provenance=list((provenance or {}).items()),
        downloads=_downloads(path.parent),
    )
    write_text(path, text)


def _settings(results: Results) -> list[tuple[str, str]]:
    """How everything was run."""
    absent = "; ".join(f"{name}: {why}" for name, why in results.absent.items())
    found = [
        ("Data sets", ", ".join(results.datasets) or "none"),
        ("Not at hand", absent),
        ("Methods", ", ".join(results.methods) or "none"),
        (
            "Scaling",
            "every feature to [0, 1]; components of DSP-NMF, NMF and NS-NMF to unit length, codes accordingly",
        ),
        ("Ranks and runs", extent(results)),
        ("Codes", "learned from all samples, without labels; All stands for the features as they are"),
        ("Seeds", "follow from the name of a run (data set, method, rank, repeat), so that any run can be made alone"),
        ("SVM", "radial basis functions, C = 1000; accuracy in stratified 5-fold cross-validation"),
        ("3-NN", "3 nearest neighbours; accuracy in the same folds"),
        ("k-means", "as many clusters as classes, 10 starts; normalised mutual information with the classes"),
        ("Columns", "mean: over ranks and runs; max: the best of them"),
        ("λ", f"{power(LAMBDAS[0])} to {power(LAMBDAS[-1])}, rank {LAMBDA_RANK}"),
        ("α", f"0, and {power(ALPHAS[1])} to {power(ALPHAS[-1])} times ‖X‖² / ‖XXᵀ‖², rank {ALPHA_RANK}"),
        ("Convergence", f"{CURVE_LENGTH} iterations without a stopping rule, rank {CURVE_RANK}, λ = 1000"),
        ("Version of the protocol", str(VERSION)),
    ]
    return [(name, text) for name, text in found if text]


def _downloads(folder: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Files beside the page, and what is in them."""
    stems = {**{f"table{number}": f"Table {number}" for number in range(1, 6)}, **_FILES}
    found = {
        title: [(f"{stem}.{form}", form.upper()) for form in _FORMATS if (folder / f"{stem}.{form}").is_file()]
        for stem, title in stems.items()
    }
    return [(title, links) for title, links in found.items() if links]
