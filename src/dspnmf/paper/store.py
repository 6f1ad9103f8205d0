"""The measurements in one SQLite file, one row each.

A run is written in one transaction when it has ended, so a killed process loses at most the runs in progress. A failed
run is stored with its error and counts as missing. A file that is damaged, of another version or something else is
refused and left unchanged.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from dspnmf.paper.protocol import VERSION, Run

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (id TEXT PRIMARY KEY, content TEXT NOT NULL, error TEXT);
CREATE TABLE measurements (
    run TEXT NOT NULL REFERENCES runs (id), name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (run, name)
);
"""


class StoreError(RuntimeError):
    """The file cannot be used; it was left unchanged."""


class Measurement(NamedTuple):
    """One number of one run."""

    run: Run
    name: str
    value: float


class Session(NamedTuple):
    """Runs that one call made, and how long it took, in seconds."""

    runs: int
    seconds: float


class Store(AbstractContextManager["Store"]):
    """Measurements in a file, created where there is none; a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        fresh = not path.exists() or path.stat().st_size == 0
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path)
            self._db.execute("PRAGMA synchronous = NORMAL")
            if fresh:  # in one transaction: a killed process leaves an empty file
                version = f"INSERT INTO meta VALUES ('version', '{VERSION}');"
                self._db.executescript("BEGIN;" + _SCHEMA + version + "COMMIT;")
            self._check()
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{path} is damaged or not a results file ({error}). It was left as it is: "
                "move it away, or choose another output folder."
            ) from error

    def _check(self) -> None:
        """Refuse a file of another version or with damaged pages."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if row is None or row[0] != str(VERSION):
            found = "none" if row is None else row[0]
            raise StoreError(
                f"{self.path} holds results of protocol version {found}, this is version {VERSION}: they cannot be "
                "combined. It was left as it is: choose another output folder, or the matching version."
            )
        broken = self._db.execute("PRAGMA quick_check").fetchone()[0]
        if broken != "ok":
            raise sqlite3.DatabaseError(broken)

    def add(self, run: Run, values: dict[str, float] | None, error: str | None = None) -> None:
        """Write the measurements or the error of a run, in one transaction."""
        with self._db:
            self._db.execute("DELETE FROM measurements WHERE run = ?", (run.id,))
            content = json.dumps(asdict(run), sort_keys=True)
            self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (run.id, content, error))
            rows = [(run.id, name, float(value)) for name, value in (values or {}).items()]
            self._db.executemany("INSERT INTO measurements VALUES (?, ?, ?)", rows)

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """The runs that have no result: never made, or failed."""
        done = {row[0] for row in self._db.execute("SELECT id FROM runs WHERE error IS NULL")}
        return [run for run in runs if run.id not in done]

    def measurements(self) -> list[Measurement]:
        """Every measurement of the runs that succeeded, sorted by run and name."""
        query = "SELECT content, name, value FROM measurements JOIN runs ON run = id WHERE error IS NULL"
        return sorted(Measurement(Run(**json.loads(c)), name, value) for c, name, value in self._db.execute(query))

    def failures(self) -> list[tuple[Run, str]]:
        """The runs that failed and their errors, sorted."""
        query = "SELECT content, error FROM runs WHERE error IS NOT NULL"
        return sorted((Run(**json.loads(content)), error) for content, error in self._db.execute(query))

    def versions(self) -> list[dict[str, str]]:
        """The package versions recorded with the results, oldest first."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'versions'").fetchone()
        return [] if row is None else json.loads(row[0])

    def record_versions(self, versions: Mapping[str, str]) -> None:
        """Record the package versions of the next results; {} stands for earlier results without a record."""
        found = self.versions()
        if not found and self._db.execute("SELECT 1 FROM runs WHERE error IS NULL").fetchone():
            found = [{}]
        if versions not in found:
            with self._db:
                content = json.dumps([*found, dict(versions)])
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('versions', ?)", (content,))

    def begin_session(self) -> None:
        """Count another session of runs, of no runs and no time yet."""
        self._record_sessions([*self.sessions(), Session(0, 0.0)])

    def extend_session(self, seconds: float) -> None:
        """Another run of the last session has ended, so many seconds after the session began."""
        *earlier, last = self.sessions()
        self._record_sessions([*earlier, Session(last.runs + 1, seconds)])

    def sessions(self) -> list[Session]:
        """Runs and wall time of every session, oldest first: one, unless it was interrupted or runs were added."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'sessions'").fetchone()
        return [] if row is None else [Session(*session) for session in json.loads(row[0])]

    def _record_sessions(self, sessions: list[Session]) -> None:
        """Replace the record of sessions."""
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('sessions', ?)", (json.dumps(sessions),))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def digest(measurements: Iterable[Measurement]) -> str:
    """SHA-256 of measurements in their order, one line each."""
    found = hashlib.sha256()
    for run, name, value in measurements:
        found.update(f"{run.id} {name} {value!r}\n".encode())
    return found.hexdigest()
