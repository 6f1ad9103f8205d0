"""Writes the reproduced row into README.md, from the committed tables in docs/reproduction (``make readme``)."""

from __future__ import annotations

import csv
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
RESULTS = HERE / "reproduction"
BEGIN, END = "<!-- reproduction: begin -->\n", "<!-- reproduction: end -->\n"
TASKS = {"table1": "SVM accuracy", "table2": "3-NN accuracy", "table3": "k-means NMI"}


def row(folder: Path = RESULTS) -> str:
    """The headline of the summary, then DSP-NMF's row of Tables 1 to 3 with the published values, as Markdown."""
    headline = (folder / "summary.md").read_text(encoding="utf-8").split("\n\n")[1]
    cells = {task: _cells(folder / f"{name}.csv") for name, task in TASKS.items()}
    groups = list(dict.fromkeys(group for found in cells.values() for group, _ in found))
    lines = [["", *groups], ["---", *["---:"] * len(groups)]]
    lines += [[task, *(_cell_text(found, group) for group in groups)] for task, found in cells.items()]
    return f"{headline}\n\n" + "".join("| " + " | ".join(line) + " |\n" for line in lines)


def updated(text: str, folder: Path = RESULTS) -> str:
    """The text of a README with the row between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"README.md must have the lines {BEGIN.strip()!r} and {END.strip()!r}: put them back.")
    return before + BEGIN + row(folder) + END + after


def _cell_text(cells: dict[tuple[str, str], dict[str, str]], group: str) -> str:
    """Our mean and max, and the published ones in brackets where there are some."""
    mean, best = cells[group, "mean"], cells[group, "max"]
    published = f" ({mean['published']} / {best['published']})" if mean["published"] else ""
    return f"{mean['ours']} / {best['ours']}{published}"


def _cells(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The cells of DSP-NMF in a table, by group and statistic."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["method"] == "DSP-NMF"]
    return {(line["group"], line["statistic"]): line for line in lines}


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote the reproduced row into {README.name}")
