"""Rewrites the tables, the summary and the page in docs/reproduction from its measurements.csv (``make readme``).

No run is repeated: only texts and layout can change, when the code that writes them has.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

from dspnmf.paper.protocol import Run
from dspnmf.paper.reproduce import MEASURED, write_tables
from dspnmf.paper.results import Results
from dspnmf.paper.store import Measurement, digest

FOLDER = Path(__file__).parent / "reproduction"


def committed_results(folder: Path = FOLDER) -> Results:
    """The committed measurements, and from the summary the data sets that were not run."""
    with (folder / "measurements.csv").open(encoding="utf-8", newline="") as file:
        measurements = tuple(
            Measurement(
                Run(
                    row["data set"],
                    row["method"],
                    int(row["rank"]),
                    int(row["run"]),
                    row["experiment"],
                    float(row["setting"]),
                ),
                row["name"],
                float(row["value"]),
            )
            for row in csv.DictReader(file)
        )
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    not_run = summary.partition("## What was not run\n\n")[2].partition("\n\n")[0].splitlines()
    return Results(measurements, absent=dict(line.removeprefix("- ").split(": ", 1) for line in not_run))


if __name__ == "__main__":
    from dspnmf.report import write_reproduction

    results = committed_results()
    provenance = json.loads((FOLDER / "provenance.json").read_text(encoding="utf-8"))
    if provenance[MEASURED] != digest(results.measurements):
        raise ValueError("measurements.csv is not that of provenance.json: take both from the same run.")
    tables, summary = write_tables(results, FOLDER)
    write_reproduction(results, tables, summary, FOLDER / "index.html", provenance=provenance)
    print(f"wrote tables, summary and page into {FOLDER.name}")
