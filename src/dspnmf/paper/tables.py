"""The paper's Tables 1-5 with our results next to the published ones, as CSV, Markdown and LaTeX.

Both sides are comparable: averages and first places are taken over the same data sets (those that were run and that the
paper has), first places also among the same methods. A method without a result on one of these data sets has no
average. A data set that the paper does not have has no published values and is in no average.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from dspnmf.paper.protocol import RUNS, TABLE_METHODS, ranks_of
from dspnmf.paper.published import DATASETS, TASKS, Cell, published, rankings
from dspnmf.paper.results import Results

Column = tuple[str, str]
STATISTICS = Cell._fields
_TITLES = {"svm": "SVM: accuracy", "knn": "3 nearest neighbours: accuracy", "kmeans": "k-means: mutual information"}
_RANKINGS = {"nmf": "First places among the NMF methods", "all": "First places among all methods"}
_OTHER = ("trustworthiness", "neighbour_recall", "structure_error", "component_correlation", "reconstruction_error",
          "iterations")  # fmt: skip
_LATEX = str.maketrans({"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
                        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"})  # fmt: skip


class Entry(NamedTuple):
    """One cell: our value and the published one, None where there is none."""

    ours: float | None
    published: float | None

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        return None if self.ours is None or self.published is None else self.ours - self.published


@dataclass(frozen=True)
class Table:
    """Rows are methods, columns are (group, statistic); `number` is the paper's, 0 for a table it does not have."""

    number: int
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[str, ...]
    entries: Mapping[tuple[str, Column], Entry]
    decimals: int

    @property
    def name(self) -> str:
        """File name without its suffix."""
        return f"table{self.number}" if self.number else "other"

    @property
    def caption(self) -> str:
        """The paper's number of the table, where it has one, and the title."""
        return f"Table {self.number}. {self.title}" if self.number else self.title

    def texts(self, row: str, column: Column) -> tuple[str, str, str]:
        """Ours, published and difference of a cell as printed; empty where there is none."""
        entry = self.entries[row, column]
        ours, theirs, difference = (_rounded(value, self.decimals) for value in (*entry, entry.difference))
        return ours, theirs, f"+{difference}" if float(difference or 0) > 0 else difference

    def csv(self) -> str:
        """The table as CSV, one line per cell."""
        cells = ([row, *column, *self.texts(row, column)] for row in self.rows for column in self.columns)
        return csv_text(("method", "group", "statistic", "ours", "published", "difference"), cells)

    def markdown(self) -> str:
        """The table as Markdown, one line per method; a cell is ours / published / difference, or ours alone."""
        lines = [["Method", *(" ".join(column) for column in self.columns)], ["---", *["---:"] * len(self.columns)]]
        for row in self.rows:
            texts = [self.texts(row, column) for column in self.columns]
            lines.append([row, *(f"{a or 'n/a'} / {b} / {c or 'n/a'}" if b else a for a, b, c in texts)])
        table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
        return f"## {self.caption}\n\n{self.note}\n\n{table}\n"

    def latex(self) -> str:
        """The table as LaTeX, to be included in a document; three lines per method: ours, published, difference."""
        groups = Counter(group for group, _ in self.columns)
        over = [rf"\multicolumn{{{width}}}{{c}}{{{group.translate(_LATEX)}}}" for group, width in groups.items()]
        under = [statistic.translate(_LATEX) for _, statistic in self.columns]
        body = []
        for row in self.rows:
            kinds = zip(*(self.texts(row, column) for column in self.columns), strict=True)
            for kind, numbers in zip(("ours", "published", "difference"), kinds, strict=True):
                if kind == "ours" or any(numbers):
                    signed = [number.replace("-", "$-$").replace("+", "$+$") for number in numbers]
                    body.append(_latex_line(row.translate(_LATEX) if kind == "ours" else "", kind, *signed))
            body.append(r"\addlinespace")
        lines = [
            r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
            r"\begin{table}",
            rf"\caption{{{self.title.translate(_LATEX)}. {self.note.translate(_LATEX)}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{ll{'r' * len(self.columns)}}}",
            r"\toprule",
            _latex_line("", "", *over),
            _latex_line("Method", "", *under),
            r"\midrule",
            *body[:-1],
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def tables(results: Results) -> tuple[Table, ...]:
    """Tables 1-5 of the paper."""
    scores = (_score_table(number, task, results) for number, task in enumerate(TASKS, 1))
    return (*scores, *(_first_place_table(number, ranking, results) for number, ranking in enumerate(_RANKINGS, 4)))


def extra_table(results: Results) -> Table:
    """The other measurements, averaged over the data sets that were run."""
    sets, columns = results.datasets, tuple((name.replace("_", " ").capitalize(), "mean") for name in _OTHER)
    entries = {
        (method, column): Entry(cell and cell.mean, None)
        for method in results.methods
        for name, column in zip(_OTHER, columns, strict=True)
        for cell in [_average([results.cell(name, method, data) for data in sets])]
    }
    note = (
        f"Means over ranks and runs, averaged over {listed(sets)}; empty where a method has no such value on one of "
        "them. Trustworthiness and neighbour recall (1 is best) say how well neighbours survive in the codes; the "
        "structure error is how far similarities are from those of the data, and the reconstruction error how far the "
        "product is from the data (0 is best); the component correlation is the mean cosine between two components."
    )
    return Table(0, "Other measurements", note, columns, tuple(results.methods), entries, 3)


def shared_datasets(results: Results) -> list[str]:
    """Data sets with results that the paper has too, in its order."""
    return [data for data in DATASETS if any(results.cell(task, m, data) for task in TASKS for m in results.methods)]


def average(results: Results, task: str, method: str) -> tuple[Cell | None, Cell | None]:
    """Our and the published average over `shared_datasets`; None where a method has no value on one of them."""
    sets, theirs = shared_datasets(results), published(task).get(method, {})
    return _average([results.cell(task, method, data) for data in sets]), _average([theirs.get(data) for data in sets])


def extent(results: Results) -> str:
    """The ranks and runs behind the tables in words, and whether these are the paper's; empty without results."""
    ranks = sorted({m.run.rank for m in results.measurements if m.run.experiment == "tables" and m.run.rank})
    runs = len({m.run.repeat for m in results.measurements if m.run.experiment == "tables"})
    if not ranks:
        return ""
    theirs = sorted({rank for data in results.datasets for rank in ranks_of(data)})
    made = f"ranks {listed(ranks)} and {runs} run{'s' * (runs > 1)}"
    if set(ranks) >= set(theirs) and runs >= RUNS:
        return f"{made}, as in the paper"
    return f"{made} where the paper has ranks {listed(theirs)} and {RUNS} runs, which may explain any difference"


def listed(words: Iterable[object]) -> str:
    """Words as a list in a sentence: "BC, Wine and Digits"."""
    *most, last = [str(word) for word in words] or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV with a head line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def _score_table(number: int, task: str, results: Results) -> Table:
    """One of Tables 1-3: the scores of a task."""
    sets, theirs = results.datasets, published(task)
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
        f"over {listed(shared_datasets(results))}; the paper prints its own over {len(DATASETS)} data sets. A max is "
        "the best of all ranks and runs, chosen with these same scores, so it is optimistic for every method."
        f"{_incomplete(results)}"
    )
    if other := [data for data in sets if data not in DATASETS]:
        note += f" The paper has no values of {listed(other)}, which is in no average."
    return Table(number, _TITLES[task], note, columns, rows, entries, 3)


def _first_place_table(number: int, ranking: str, results: Results) -> Table:
    """Table 4 or 5: on how many data sets each method is first."""
    sets, printed = shared_datasets(results), rankings()[ranking]
    ranked = [m for m in printed if sets and all(results.cell(t, m, data) for t in TASKS for data in sets)]
    columns = tuple((label, statistic) for label in TASKS.values() for statistic in STATISTICS)
    entries = dict.fromkeys(((method, column) for method in printed for column in columns), Entry(None, None))
    for task, label in TASKS.items():
        theirs = published(task)
        for statistic in STATISTICS:
            ours = [{m: getattr(results.cell(task, m, data), statistic) for m in ranked} for data in sets]
            paper = [{m: getattr(theirs[m][data], statistic) for m in ranked} for data in sets]
            for method in ranked:
                entries[method, (label, statistic)] = Entry(_first_places(method, ours), _first_places(method, paper))
    counts = "; ".join(
        f"{method} {', '.join(f'{row[task].mean} and {row[task].max} ({TASKS[task]})' for task in TASKS)}"
        for method, row in printed.items()
    )
    note = (
        f"Number of data sets on which a method is first, of {listed(sets)}, by mean and by max. Published counts are "
        "derived from the printed cells of the same data sets and methods. Methods equal in two decimals share a "
        f"first place. The paper's own counts over its {len(DATASETS)} data sets, by mean and by max: {counts}."
        f"{_incomplete(results)}"
    )
    if left := [method for method in printed if method not in ranked]:
        note += f" Not ranked, because results on some of these data sets are missing: {listed(left)}."
    return Table(number, _RANKINGS[ranking], note, columns, tuple(printed), entries, 0)


def _incomplete(results: Results) -> str:
    """A sentence on methods with fewer runs than others on the same data set, or nothing."""
    runs = {m.run for m in results.measurements if m.run.experiment == "tables" and m.run.method != "All"}
    counts = Counter((run.method, run.dataset) for run in runs)
    full = {data: max(count for (_, other), count in counts.items() if other == data) for _, data in counts}
    few = [f"{method} on {data}" for (method, data), count in sorted(counts.items()) if count < full[data]]
    return f" Over fewer runs than the others, since some failed or are missing: {listed(few)}." if few else ""


def _first_places(method: str, scores: list[dict[str, float]]) -> int:
    """Number of data sets on which no score is higher, in whole hundredths."""
    return sum(round(100 * row[method]) == max(round(100 * value) for value in row.values()) for row in scores)


def _average(cells: list[Cell | None]) -> Cell | None:
    """Average over all data sets; None where one has no value."""
    known = [cell for cell in cells if cell is not None]
    return Cell(*map(fmean, zip(*known, strict=True))) if known and len(known) == len(cells) else None


def _rounded(value: float | None, decimals: int) -> str:
    """A number with its decimals, fewer where it is 10 or more, and no negative zero; empty for None."""
    if value is None:
        return ""
    text = f"{value:.{max(0, decimals + 1 - len(f'{abs(value):.0f}'))}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _latex_line(*cells: str) -> str:
    """One line of a LaTeX table."""
    return " & ".join(cells) + r" \\"
