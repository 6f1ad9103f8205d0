"""Where measurements are kept: one SQLite file, one row a measurement.

A run is written in one transaction when it has ended, so a killed process loses at most the runs in flight. A failed
run is a row with its error; it is no result, and is run again. A file of another version, or one that is damaged or
something else, is named and left as it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from dspnmf.paper.protocol import VERSION, Run

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (id TEXT PRIMARY KEY, content TEXT NOT NULL, error TEXT);
CREATE TABLE measurements (
    run TEXT NOT NULL REFERENCES runs (id), name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (run, name)
);
"""


class StoreError(RuntimeError):
    """The file cannot be used; it was not touched."""


class Measurement(NamedTuple):
    """One number of one run."""

    run: Run
    name: str
    value: float


class Store:
    """Measurements in a file; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        fresh = not path.exists() or path.stat().st_size == 0
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path)
            self._db.execute("PRAGMA synchronous = NORMAL")
            if fresh:
                self._create()
            self._check()
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{path} is damaged or not a results file ({error}). It was left as it is: "
                "move it away, or choose another output folder."
            ) from error

    def _create(self) -> None:
        version = f"INSERT INTO meta VALUES ('version', '{VERSION}');"
        self._db.executescript("BEGIN;" + _SCHEMA + version + "COMMIT;")  # at once: killed, nothing is there

    def _check(self) -> None:
        row = self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if row is None or row[0] != str(VERSION):
            found = "none" if row is None else row[0]
            raise StoreError(
                f"{self.path} holds results of protocol version {found}, this is version {VERSION}: both cannot stand "
                "in one table. It was left as it is: choose another output folder, or the matching version."
            )
        broken = self._db.execute("PRAGMA quick_check").fetchone()[0]
        if broken != "ok":
            raise sqlite3.DatabaseError(broken)

    def add(self, run: Run, values: dict[str, float] | None, error: str | None = None) -> None:
        """Write a run that has ended, all of it or nothing."""
        with self._db:
            self._db.execute("DELETE FROM measurements WHERE run = ?", (run.id,))
            content = json.dumps(asdict(run), sort_keys=True)
            self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (run.id, content, error))
            rows = [(run.id, name, float(value)) for name, value in (values or {}).items()]
            self._db.executemany("INSERT INTO measurements VALUES (?, ?, ?)", rows)

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those without a result: never run, or failed."""
        done = {row[0] for row in self._db.execute("SELECT id FROM runs WHERE error IS NULL")}
        return [run for run in runs if run.id not in done]

    def measurements(self) -> list[Measurement]:
        """Every number, in an order that does not depend on when it was measured."""
        query = "SELECT content, name, value FROM measurements JOIN runs ON run = id WHERE error IS NULL"
        return sorted(Measurement(Run(**json.loads(c)), name, value) for c, name, value in self._db.execute(query))

    def failures(self) -> list[tuple[Run, str]]:
        """Runs that failed, with their error."""
        query = "SELECT content, error FROM runs WHERE error IS NOT NULL"
        return sorted((Run(**json.loads(content)), error) for content, error in self._db.execute(query))

    def versions(self) -> list[dict[str, str]]:
        """The versions of packages that results were made with, as far as they were noted, oldest first."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'versions'").fetchone()
        return [] if row is None else json.loads(row[0])

    def note(self, versions: Mapping[str, str]) -> None:
        """Note what the next results are made with; {} stands for results from before anything was noted."""
        found = self.versions()
        if not found and self._db.execute("SELECT 1 FROM runs WHERE error IS NULL").fetchone():
            found = [{}]
        if versions not in found:
            with self._db:
                content = json.dumps([*found, dict(versions)])
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('versions', ?)", (content,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
