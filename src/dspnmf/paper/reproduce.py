"""The whole comparison as files: which data sets can be run, their runs, then tables, summary and provenance.

Nothing is printed here, and nothing is written outside of the output folder. Tables and summary have no times and are
rounded, so that they are the same byte for byte whenever and however often the runs were interrupted.
"""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from dspnmf import datasets
from dspnmf._atomic_files import write_text
from dspnmf.paper import protocol, runner
from dspnmf.paper.results import Results
from dspnmf.paper.runner import Progress
from dspnmf.paper.store import Store
from dspnmf.paper.summary import Summary, summary
from dspnmf.paper.tables import Table, extra_table, tables

_PACKAGES = ("dspnmf", "numpy", "scipy", "scikit-learn", "numba", "umap-learn")
_FORMS = {"csv": Table.csv, "md": Table.markdown, "tex": Table.latex}
_OTHER_FILES = ("results.sqlite", "summary.md", "measurements.csv", "provenance.json", "index.html")
_UNVERIFIED = "say so with unverified=True"


@dataclass(frozen=True)
class Comparison:
    """A comparison that is ready to run: made by `prepare`, which has checked everything."""

    out: Path
    runs: tuple[protocol.Run, ...]
    data_dir: str | None
    absent: Mapping[str, str]
    command: str
    checksums: Mapping[str, str]

    @property
    def store(self) -> Path:
        """Where measurements are kept."""
        return self.out / "results.sqlite"

    def missing(self) -> int:
        """Runs that have no result yet."""
        with Store(self.store) as store:
            return len(store.missing(self.runs))

    def run(self, jobs: int, watch: Callable[[Progress], None] = lambda progress: None) -> None:
        """Run what is missing; interrupted, it goes on when it is called again."""
        with Store(self.store) as store:
            if store.missing(self.runs):
                store.note(_versions())
        runner.execute(self.runs, self.store, data_dir=self.data_dir, jobs=jobs, watch=watch)

    def results(self) -> Results:
        """What the runs of this comparison gave; of an error its first line, without the place of the data."""
        everything, planned = Results.read(self.store, self.absent), set(self.runs)
        folder = str(datasets.data_folder(self.data_dir))
        return replace(
            everything,
            measurements=tuple(m for m in everything.measurements if m.run in planned),
            failures=tuple(
                (run, error.partition("\n")[0].replace(folder, "the data folder"))
                for run, error in everything.failures
                if run in planned
            ),
        )

    def provenance(self) -> dict[str, str]:
        """What the numbers depend on, and nothing about the machine; of several starts, the versions of each."""
        with Store(self.store) as store:
            noted = store.versions() or [_versions()]
        names = dict.fromkeys(name for versions in noted for name in versions)
        found = {name: dict.fromkeys(versions.get(name, "not recorded") for versions in noted) for name in names}
        about = {"command": self.command, "protocol": str(protocol.VERSION)}
        about |= {name: ", then ".join(values) for name, values in found.items()}
        return about | {f"SHA-256 of {file}": value for file, value in self.checksums.items()}

    def write(self) -> tuple[Results, tuple[Table, ...], Summary]:
        """Write tables, summary, measurements and provenance, and return what a page is made of."""
        results = self.results()
        found, other, words = tables(results), extra_table(results), summary(results)
        for table in (*found, other):
            for form, written in _FORMS.items():
                write_text(self.out / f"{table.name}.{form}", written(table))
        write_text(self.out / "summary.md", words.markdown())
        write_text(self.out / "measurements.csv", _measurements(results))
        write_text(self.out / "provenance.json", json.dumps(self.provenance(), indent=2) + "\n")
        return results, (*found, other), words


def prepare(
    out: Path, *, quick: bool = False, sets: tuple[str, ...] | None = None, data_dir: str | None = None
) -> Comparison:
    """Check everything a comparison needs before any work starts.

    A data set whose files are missing or cannot be verified is left out, with the reason; if none is left, or `out`
    cannot be written, or has a store that cannot be continued, or a package is missing, it says so and changes nothing.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(prepare(Path(folder), quick=True, sets=("Wine",)).runs)
    59
    """
    chosen = sets or (protocol.EMBEDDED_SETS if quick else protocol.TABLE_SETS)
    if unknown := [name for name in chosen if name not in datasets.names()]:
        raise ValueError(f"sets has {unknown[0]!r}, which is no data set: choose from {', '.join(datasets.names())}.")
    checksums, absent = _available(chosen, data_dir)
    present = tuple(name for name in dict.fromkeys(chosen) if name not in absent)
    if not present:
        raise ValueError("None of the data sets can be run. " + " ".join(absent.values()))
    runs = tuple(protocol.plan(quick=quick, sets=present))
    _check_names(out)
    _check_packages(runs, out / "results.sqlite")
    _check_folder(out)
    with Store(out / "results.sqlite"):
        pass
    command = f"dspnmf reproduce --{'quick' if quick else 'full'}" + (f" --sets {','.join(sets)}" if sets else "")
    return Comparison(out, runs, data_dir, absent, command, checksums)


def _available(names: Iterable[str], data_dir: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of the files of data sets that can be loaded, and the reason of those that cannot."""
    checksums: dict[str, str] = {}
    absent: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            checksums |= datasets.load(name, data_dir).sha256
        except (OSError, ValueError) as error:
            text = str(error).replace(str(datasets.data_folder(data_dir)), "the data folder")
            absent[name] = text.replace(_UNVERIFIED, "load it with unverified=True; here only verified files are run")
    return checksums, absent


def _check_names(out: Path) -> None:
    """No folder is where a file is to be written."""
    known = (*tables(Results(())), extra_table(Results(())))
    for name in (*_OTHER_FILES, *(f"{table.name}.{form}" for table in known for form in _FORMS)):
        if (out / name).is_dir():
            raise IsADirectoryError(
                f"{out / name} is a folder, but a file is to be written there: move it away, or choose another output "
                "folder."
            )


def _check_packages(runs: tuple[protocol.Run, ...], path: Path) -> None:
    """What runs need that have no result yet is missed before the work, not in each of them."""
    missing: Iterable[protocol.Run] = runs
    if path.exists():
        with Store(path) as store:
            missing = store.missing(runs)
    if find_spec("umap") is None and (count := sum(run.method == "UMAP" for run in missing)):
        raise ImportError(
            f"{count} runs of UMAP need umap-learn, which is not installed: install it with "
            'pip install "dspnmf[paper]". A quick comparison does without it.'
        )


def _check_folder(out: Path) -> None:
    """A folder that can be written, made where it is missing."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise type(error)(
            f"The output folder {out} cannot be written ({error.strerror}): choose another one, or free its place."
        ) from error


def _versions() -> dict[str, str]:
    """Of Python and the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _measurements(results: Results) -> str:
    """Every number of every run, sorted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["experiment", "data set", "method", "rank", "run", "setting", "name", "value"])
    for run, name, value in results.measurements:
        row = [run.experiment, run.dataset, run.method, run.rank, run.repeat, repr(run.setting), name, repr(value)]
        writer.writerow(row)
    return text.getvalue()
