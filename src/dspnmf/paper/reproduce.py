"""The whole reproduction: check what it needs, make the runs, write tables, summary and provenance.

Nothing is printed here, and nothing is written outside the output folder. Tables and summary hold rounded scores and no
times, so they are the same byte for byte however often the runs were interrupted.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from dspnmf import datasets
from dspnmf._atomic_files import write_text
from dspnmf.paper import protocol, runner
from dspnmf.paper.results import Results
from dspnmf.paper.runner import Progress
from dspnmf.paper.store import Session, Store, digest
from dspnmf.paper.summary import Summary, summary
from dspnmf.paper.tables import Table, csv_text, extra_table, tables

_PACKAGES = ("dspnmf", "numpy", "scipy", "scikit-learn", "numba", "umap-learn")
_FORMATS = {"csv": Table.csv, "md": Table.markdown, "tex": Table.latex}
MEASURED = "SHA-256 of the measurements"  # in the provenance; of what is in measurements.csv
_OTHER_FILES = ("summary.md", "measurements.csv", "provenance.json", "index.html")


@dataclass(frozen=True)
class Comparison:
    """A reproduction that is ready to run; `prepare` makes it and has checked everything."""

    out: Path
    runs: tuple[protocol.Run, ...]
    data_dir: str | None
    absent: Mapping[str, str]
    command: str
    checksums: Mapping[str, str]

    @property
    def store(self) -> Path:
        """The file of measurements."""
        return self.out / "results.sqlite"

    def missing(self) -> int:
        """Number of runs without a result."""
        with Store(self.store) as store:
            return len(store.missing(self.runs))

    def run(self, jobs: int, callback: Callable[[Progress], None] = lambda progress: None) -> None:
        """Make the runs that are missing, in `jobs` processes; call it again after an interrupt to continue."""
        with Store(self.store) as store:
            if store.missing(self.runs):
                store.record_versions(_versions())
        runner.execute(self.runs, self.store, data_dir=self.data_dir, jobs=jobs, callback=callback)

    def results(self) -> Results:
        """The results of the planned runs; of an error the first line, without the path of the data folder."""
        planned, folder = set(self.runs), str(datasets.data_folder(self.data_dir))
        with Store(self.store) as store:
            measurements = tuple(m for m in store.measurements() if m.run in planned)
            failures = tuple(
                (run, error.partition("\n")[0].replace(folder, "the data folder"))
                for run, error in store.failures()
                if run in planned
            )
        return Results(measurements, failures, self.absent)

    def provenance(self) -> dict[str, str]:
        """Command, wall time, versions and checksums; several versions where the runs were continued with others."""
        with Store(self.store) as store:
            recorded = store.versions() or [_versions()]
            sessions = [_duration(session) for session in store.sessions() if session.runs]
        names = dict.fromkeys(name for versions in recorded for name in versions)
        found = {name: dict.fromkeys(versions.get(name, "not recorded") for versions in recorded) for name in names}
        about = {"command": self.command, "protocol": str(protocol.VERSION)}
        about |= {name: ", then ".join(values) for name, values in found.items()}
        if sessions:
            about["wall time"] = ", then ".join(sessions)
        about[MEASURED] = digest(self.results().measurements)
        return about | {f"SHA-256 of {file}": value for file, value in self.checksums.items()}

    def write(self, folder: Path) -> tuple[Results, tuple[Table, ...], Summary]:
        """Write tables, summary, measurements and provenance to a folder; return results, tables and summary."""
        results = self.results()
        head = ("experiment", "data set", "method", "rank", "run", "setting", "name", "value")
        rows = (
            [run.experiment, run.dataset, run.method, run.rank, run.repeat, repr(run.setting), name, repr(value)]
            for run, name, value in results.measurements
        )
        write_text(folder / "measurements.csv", csv_text(head, rows))
        write_text(folder / "provenance.json", json.dumps(self.provenance(), indent=2) + "\n")
        return results, *write_tables(results, folder)


def prepare(
    out: Path, *, quick: bool = False, sets: tuple[str, ...] | None = None, data_dir: str | None = None
) -> Comparison:
    """Check everything that the reproduction needs, before any work starts.

    A data set whose files are missing or cannot be verified is left out, with the reason. It is an error, and nothing
    changes, if no data set is left, a package is missing, or `out` cannot be written or has a store of another version.
    """
    chosen = sets or (protocol.EMBEDDED_SETS if quick else protocol.TABLE_SETS)
    if unknown := [name for name in chosen if name not in datasets.names()]:
        raise ValueError(
            f"sets has {unknown[0]!r}, which is not a data set: choose from {', '.join(datasets.names())}."
        )
    checksums, absent = _available(chosen, data_dir)
    present = tuple(name for name in dict.fromkeys(chosen) if name not in absent)
    if not present:
        raise ValueError("None of the data sets can be run. " + " ".join(absent.values()))
    runs = tuple(protocol.plan(quick=quick, sets=present))
    command = f"dspnmf reproduce --{'quick' if quick else 'full'}" + (f" --sets {','.join(sets)}" if sets else "")
    comparison = Comparison(out, runs, data_dir, absent, command, checksums)
    _check_files(out)
    _check_umap(comparison)
    _check_writable(out)
    Store(comparison.store).close()  # refuses one of another version
    return comparison


def write_tables(results: Results, out: Path) -> tuple[tuple[Table, ...], Summary]:
    """Write every table in every format, and the summary; return both."""
    found, text = (*tables(results), extra_table(results)), summary(results)
    for table in found:
        for suffix, formatted in _FORMATS.items():
            write_text(out / f"{table.name}.{suffix}", formatted(table))
    write_text(out / "summary.md", text.markdown())
    return found, text


def _available(names: Iterable[str], data_dir: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of the files of all data sets that can be loaded, and why the others cannot."""
    checksums: dict[str, str] = {}
    absent: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            checksums |= datasets.load(name, data_dir).sha256
        except (OSError, ValueError) as error:
            text = str(error).replace(str(datasets.data_folder(data_dir)), "the data folder")
            hint = "load it with unverified=True; here only verified files are run"
            absent[name] = text.replace("say so with unverified=True", hint)
    return checksums, absent


def file_names() -> tuple[str, ...]:
    """The files made from the measurements: tables, summary, provenance and the page."""
    known = (*tables(Results(())), extra_table(Results(())))
    return (*_OTHER_FILES, *(f"{table.name}.{suffix}" for table in known for suffix in _FORMATS))


def _check_files(out: Path) -> None:
    """An error if there is a folder with the name of a file to be written."""
    for name in ("results.sqlite", *file_names()):
        if (out / name).is_dir():
            fix = "move it away, or choose another output folder."
            raise IsADirectoryError(f"{out / name} is a folder, but a file is to be written there: {fix}")


def _check_umap(comparison: Comparison) -> None:
    """An error if runs of UMAP are missing and so is umap-learn."""
    missing: Iterable[protocol.Run] = comparison.runs
    if comparison.store.exists():
        with Store(comparison.store) as store:
            missing = store.missing(comparison.runs)
    if find_spec("umap") is None and (count := sum(run.method == "UMAP" for run in missing)):
        raise ImportError(
            f"{count} runs of UMAP need umap-learn, which is not installed: install it with "
            'pip install "dspnmf[paper]". A quick comparison does without it.'
        )


def _check_writable(out: Path) -> None:
    """Create the folder where it is missing; an error if it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise type(error)(
            f"The output folder {out} cannot be written ({error.strerror}): choose another one, or make it writable."
        ) from error


def _duration(session: Session) -> str:
    """Runs and wall time of a session in words."""
    minutes, seconds = divmod(round(session.seconds), 60)
    return f"{session.runs} runs in {f'{minutes} min ' * (minutes > 0)}{seconds} s"


def source_digest() -> str:
    """SHA-256 of the code of this package: names and contents of its modules and tables of numbers."""
    folder, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".toml")):
        found.update(f"{path.relative_to(folder).as_posix()} ".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _versions() -> dict[str, str]:
    """Versions of Python and of the packages that the numbers depend on."""
    found = {"python": platform.python_version(), "SHA-256 of the code": source_digest()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
