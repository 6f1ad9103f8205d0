"""The paper's Tables 1-5 from our results: every cell ours, published and the difference, as CSV, Markdown and LaTeX.

What stands side by side is comparable. Averages and first places of both sides are taken over the same data sets (those
that were run and that the paper has), first places also among the same methods. A method without a result on one of
these data sets has no average. A data set that the paper does not have has no published values and is in no average.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from dspnmf.paper.protocol import RANKS, RUNS, TABLE_METHODS
from dspnmf.paper.published import DATASETS, TASKS, Cell, published, rankings
from dspnmf.paper.results import Results

Column = tuple[str, str]
STATISTICS = Cell._fields
_TITLES = {"svm": "SVM: accuracy", "knn": "3 nearest neighbours: accuracy", "kmeans": "k-means: mutual information"}
_RANKINGS = {"nmf": "First places among the NMF methods", "all": "First places among all methods"}
_OTHERS = {
    "trustworthiness": "Trustworthiness",
    "neighbour_recall": "Neighbour recall",
    "structure_error": "Structure error",
    "component_correlation": "Component correlation",
    "reconstruction_error": "Reconstruction error",
    "iterations": "Iterations",
}
_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}  # fmt: skip


class Entry(NamedTuple):
    """One cell: our value and the published one, None where there is none.

    >>> Entry(0.75, 0.5).difference
    0.25
    """

    ours: float | None
    published: float | None

    @property
    def difference(self) -> float | None:
        """Ours less published."""
        return None if self.ours is None or self.published is None else self.ours - self.published


@dataclass(frozen=True)
class Table:
    """Rows are methods, columns are (group, statistic); `number` is the paper's, 0 for a table it does not have.

    >>> table = Table(1, "SVM", "", (("Wine", "mean"),), ("NMF",), {("NMF", ("Wine", "mean")): Entry(0.75, 0.5)}, 2)
    >>> print(table.csv().splitlines()[1])
    NMF,Wine,mean,0.75,0.50,+0.25
    """

    number: int
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[str, ...]
    entries: Mapping[tuple[str, Column], Entry]
    decimals: int

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"table{self.number}" if self.number else "other"

    @property
    def caption(self) -> str:
        """The number, where it has one, and the title."""
        return f"Table {self.number}. {self.title}" if self.number else self.title

    def texts(self, row: str, column: Column) -> tuple[str, str, str]:
        """Ours, published and difference of a cell as they are printed; empty where there is none."""
        entry = self.entries[row, column]
        ours, theirs, difference = (_shown(v, self.decimals) for v in (*entry, entry.difference))
        return ours, theirs, f"+{difference}" if float(difference or 0) > 0 else difference

    def csv(self) -> str:
        """One line a cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["method", "group", "statistic", "ours", "published", "difference"])
        for row in self.rows:
            writer.writerows([row, *column, *self.texts(row, column)] for column in self.columns)
        return text.getvalue()

    def markdown(self) -> str:
        """One line a method; a cell reads ours / published / difference, or ours alone."""
        lines = [["Method", *(" ".join(column) for column in self.columns)], ["---", *["---:"] * len(self.columns)]]
        lines += [[row, *(self._joined(row, column) for column in self.columns)] for row in self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
        return f"## {self.caption}\n\n{self.note}\n\n{table}\n"

    def latex(self) -> str:
        """A table to be included in a document; three lines a method: ours, published, difference."""
        lines = []
        for row in self.rows:
            kinds = zip(*(self.texts(row, column) for column in self.columns), strict=True)
            for kind, numbers in zip(("ours", "published", "difference"), kinds, strict=True):
                if kind == "ours" or any(numbers):
                    signed = [number.replace("-", "$-$").replace("+", "$+$") for number in numbers]
                    lines.append(" & ".join([_escaped(row) if kind == "ours" else "", kind, *signed]) + r" \\")
            lines.append(r"\addlinespace")
        return "\n".join(
            [
                r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
                r"\begin{table}",
                rf"\caption{{{_escaped(self.title)}. {_escaped(self.note)}}}",
                r"\resizebox{\linewidth}{!}{%",
                rf"\begin{{tabular}}{{ll{'r' * len(self.columns)}}}",
                r"\toprule",
                *self._latex_head(),
                r"\midrule",
                *lines[:-1],
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table}",
                "",
            ]
        )

    def _joined(self, row: str, column: Column) -> str:
        """A cell of the Markdown table."""
        ours, theirs, difference = self.texts(row, column)
        return f"{ours or 'n/a'} / {theirs} / {difference or 'n/a'}" if theirs else ours

    def _latex_head(self) -> list[str]:
        """Groups above their statistics."""
        groups = list(dict.fromkeys(group for group, _ in self.columns))
        widths = [sum(group == column[0] for column in self.columns) for group in groups]
        over = [
            rf"\multicolumn{{{width}}}{{c}}{{{_escaped(group)}}}" for group, width in zip(groups, widths, strict=True)
        ]
        under = [_escaped(statistic) for _, statistic in self.columns]
        return [" & ".join(["", "", *over]) + r" \\", " & ".join(["Method", "", *under]) + r" \\"]


def tables(results: Results) -> tuple[Table, ...]:
    """Tables 1-5 of the paper.

    >>> [table.title for table in tables(Results(()))][3:]
    ['First places among the NMF methods', 'First places among all methods']
    """
    scores = (_scores(number, task, results) for number, task in enumerate(TASKS, 1))
    return (*scores, *(_firsts(number, name, results) for number, name in enumerate(_RANKINGS, 4)))


def extra_table(results: Results) -> Table:
    """What else was measured, averaged over the data sets that were run.

    >>> extra_table(Results(())).columns[0]
    ('Trustworthiness', 'mean')
    """
    sets, columns = results.datasets, tuple((label, "mean") for label in _OTHERS.values())
    entries = {
        (method, (label, "mean")): Entry(_average([results.cell(name, method, data) for data in sets], "mean"), None)
        for method in results.methods
        for name, label in _OTHERS.items()
    }
    note = (
        f"Means over ranks and runs, averaged over {listed(sets)}; empty where a method has no such value on one of "
        "them. Trustworthiness and neighbour recall (1 is best) say how well neighbours survive in the codes; the "
        "structure error is how far similarities are from those of the data, and the reconstruction error how far the "
        "product is from the data (0 is best); the component correlation is the mean cosine between two components."
    )
    return Table(0, "Other measurements", note, columns, tuple(results.methods), entries, 3)


def compared(results: Results) -> list[str]:
    """Data sets with results that the paper has too, in its order.

    >>> compared(Results(()))
    []
    """
    return [data for data in DATASETS if any(results.cell(task, m, data) for task in TASKS for m in results.methods)]


def average(results: Results, task: str, method: str) -> tuple[Cell | None, Cell | None]:
    """Our and the published average over the data sets `compared`; None where a method has no value on one of them.

    >>> average(Results(()), "svm", "GNMF")
    (None, None)
    """
    sets, theirs = compared(results), published(task).get(method, {})
    pairs = ([results.cell(task, method, data) for data in sets], [theirs.get(data) for data in sets])
    means, maxima = ([_average(cells, statistic) for cells in pairs] for statistic in STATISTICS)
    ours, printed = (
        None if mean is None or best is None else Cell(mean, best) for mean, best in zip(means, maxima, strict=True)
    )
    return ours, printed


def extent(results: Results) -> str:
    """What the numbers are taken over, in words, and whether that is less than the paper's; no results: nothing.

    >>> extent(Results(()))
    ''
    """
    ranks = sorted({m.run.rank for m in results.measurements if m.run.experiment == "tables" and m.run.rank})
    runs = len({m.run.repeat for m in results.measurements if m.run.experiment == "tables"})
    if not ranks:
        return ""
    theirs = sorted({rank for data in results.datasets for rank in ranks_of(data)})
    made = f"ranks {listed(ranks)} and {runs} run{'s' * (runs > 1)}"
    if set(ranks) >= set(theirs) and runs >= RUNS:
        return f"{made}, as in the paper"
    return f"{made} where the paper has ranks {listed(theirs)} and {RUNS} runs, so a difference need not mean anything"


def ranks_of(data: str) -> tuple[int, ...]:
    """The ranks that the paper takes for a data set.

    >>> ranks_of("Wine")
    (2, 3, 5, 7, 9, 11)
    """
    return tuple(rank for rank in RANKS if data != "Wine" or rank <= 11)


def listed(words: Iterable[object]) -> str:
    """Words as a list in a sentence.

    >>> listed(["BC", "Wine", "Digits"])
    'BC, Wine and Digits'
    """
    *most, last = [str(word) for word in words] or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last


def _scores(number: int, task: str, results: Results) -> Table:
    """Tables 1-3."""
    sets, theirs, shared = results.datasets, published(task), compared(results)
    rows = tuple(m for m in TABLE_METHODS if m in results.methods or m in theirs)
    columns = tuple((group, statistic) for group in (*sets, "Average") for statistic in STATISTICS)
    entries = {}
    for method in rows:
        cells = {data: (results.cell(task, method, data), theirs.get(method, {}).get(data)) for data in sets}
        for group, pair in {**cells, "Average": average(results, task, method)}.items():
            for statistic in STATISTICS:
                entries[method, (group, statistic)] = Entry(*(cell and getattr(cell, statistic) for cell in pair))
    note = (
        f"Mean and max over {extent(results) or 'no runs yet'}. Published values have two decimals. Both averages are "
        f"over {listed(shared)}; the paper prints its own over {len(DATASETS)} data sets. A max is the best of all "
        "ranks and runs, chosen after the scores are known, so it flatters every method."
    )
    note += _gaps(results)
    if other := [data for data in sets if data not in DATASETS]:
        note += f" The paper has no values of {listed(other)}, which is in no average."
    return Table(number, _TITLES[task], note, columns, rows, entries, 3)


def _firsts(number: int, ranking: str, results: Results) -> Table:
    """Tables 4 and 5."""
    sets, printed = compared(results), rankings()[ranking]
    ranked = [m for m in printed if sets and all(results.cell(t, m, data) for t in TASKS for data in sets)]
    columns = tuple((label, statistic) for label in TASKS.values() for statistic in STATISTICS)
    entries = dict.fromkeys(((method, column) for method in printed for column in columns), Entry(None, None))
    for task, label in TASKS.items():
        theirs = published(task)
        for statistic in STATISTICS:
            ours = [{m: getattr(results.cell(task, m, data), statistic) for m in ranked} for data in sets]
            paper = [{m: getattr(theirs[m][data], statistic) for m in ranked} for data in sets]
            for method in ranked:
                entries[method, (label, statistic)] = Entry(_count(method, ours), _count(method, paper))
    counts = "; ".join(
        f"{method} {', '.join(f'{row[task].mean} and {row[task].max} ({TASKS[task]})' for task in TASKS)}"
        for method, row in printed.items()
    )
    note = (
        f"Number of data sets on which a method is first, of {listed(sets)}, by mean and by max. Published counts are "
        "taken again from the printed cells of the same data sets and methods. Methods equal in two decimals share a "
        f"place. The paper's own counts over its {len(DATASETS)} data sets, by mean and by max: {counts}."
    )
    note += _gaps(results)
    if left := [method for method in printed if method not in ranked]:
        note += f" Not ranked, for want of results on every one of these data sets: {listed(left)}."
    return Table(number, _RANKINGS[ranking], note, columns, tuple(printed), entries, 0)


def _gaps(results: Results) -> str:
    """Names what has fewer runs behind it than the rest of its data set, where runs failed or are still missing."""
    runs = {m.run for m in results.measurements if m.run.experiment == "tables" and m.run.method != "All"}
    counts = Counter((run.method, run.dataset) for run in runs)
    full = {data: max(count for (_, other), count in counts.items() if other == data) for _, data in counts}
    few = [f"{method} on {data}" for (method, data), count in sorted(counts.items()) if count < full[data]]
    return f" Over fewer runs than the others, since some failed or are missing: {listed(few)}." if few else ""


def _count(method: str, scores: list[dict[str, float]]) -> int:
    """On how many data sets nobody is better, in whole hundredths."""
    return sum(round(100 * row[method]) == max(round(100 * value) for value in row.values()) for row in scores)


def _average(cells: list[Cell | None], statistic: str) -> float | None:
    """Over all data sets, or none."""
    values = [getattr(cell, statistic) for cell in cells if cell is not None]
    return fmean(values) if values and len(values) == len(cells) else None


def _shown(value: float | None, decimals: int) -> str:
    """A number with its decimals, fewer where it is 10 or more, and no negative zero."""
    if value is None:
        return ""
    places = max(0, decimals + 1 - len(f"{abs(value):.0f}"))
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _escaped(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in text)
