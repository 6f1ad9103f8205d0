"""Rewrites the tables, the summary and the page in docs/reproduction from its measurements.csv (``make readme``).

No run is repeated: only texts and layout can change, when the code that writes them has. With the folder of a
reproduction (``python docs/update_reproduction.py out/full DATA``), its measurements are taken over first. Where it has
not all runs of a method on a data set, the committed ones of the run before stay, and the provenance names them.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from dspnmf.paper.protocol import Run
from dspnmf.paper.reproduce import MEASURED, prepare, write_tables
from dspnmf.paper.results import Results
from dspnmf.paper.store import Measurement, Store, digest
from dspnmf.paper.tables import csv_text, listed

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


def take_over(run: Path, data_dir: str) -> Results:
    """Write the measurements and the provenance of a reproduction, with the committed ones of what it lacks."""
    comparison, committed = prepare(run, data_dir=data_dir), committed_results()
    with Store(comparison.store) as store:
        lacking = {_group(run) for run in store.missing(comparison.runs)}
    new = comparison.results()
    kept = [m for m in committed.measurements if _group(m.run) in lacking]
    measurements = tuple(sorted([*(m for m in new.measurements if _group(m.run) not in lacking), *kept]))
    provenance = comparison.provenance() | {MEASURED: digest(measurements)}
    if kept:
        sets: dict[str, list[str]] = {}
        for method, data in dict.fromkeys((m.run.method, m.run.dataset) for m in kept):
            sets.setdefault(method, []).append(data)
        earlier = "; ".join(f"{method} on {listed(names)}" for method, names in sorted(sets.items()))
        provenance["from the run before this one"] = earlier
    head = ("experiment", "data set", "method", "rank", "run", "setting", "name", "value")
    rows = (
        [run.experiment, run.dataset, run.method, run.rank, run.repeat, repr(run.setting), name, repr(value)]
        for run, name, value in measurements
    )
    (FOLDER / "measurements.csv").write_text(csv_text(head, rows), encoding="utf-8")
    (FOLDER / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
    return Results(measurements, new.failures, new.absent)


def _group(run: Run) -> tuple[str, str, str]:
    """Runs that are taken over together."""
    return run.experiment, run.dataset, run.method


if __name__ == "__main__":
    from dspnmf.report import write_reproduction

    results = take_over(Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else committed_results()
    provenance = json.loads((FOLDER / "provenance.json").read_text(encoding="utf-8"))
    if provenance[MEASURED] != digest(results.measurements):
        raise ValueError("measurements.csv is not that of provenance.json: take both from the same run.")
    tables, summary = write_tables(results, FOLDER)
    write_reproduction(results, tables, summary, FOLDER / "index.html", provenance=provenance)
    print(f"wrote tables, summary and page into {FOLDER.name}")
