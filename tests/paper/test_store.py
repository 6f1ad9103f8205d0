"""The store: keeps what was added, is never half made, and leaves foreign files alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dspnmf.paper.protocol import Run
from dspnmf.paper.store import Store, StoreError

SMALL = [Run("Wine", method, rank, repeat) for method in ("NMF", "DSP-NMF") for rank in (2, 3) for repeat in (0, 1)]


def test_store_keeps_and_resumes(tmp_path: Path) -> None:
    """What was added is there after reopening; failed runs are errors, not results, and are still missing."""
    with Store(tmp_path / "results.sqlite") as store:
        store.add(SMALL[0], {"svm": 0.5})
        store.add(SMALL[1], None, "ValueError: no")
        assert store.missing(SMALL) == SMALL[1:]
    with Store(tmp_path / "results.sqlite") as store:
        assert [(m.run, m.name, m.value) for m in store.measurements()] == [(SMALL[0], "svm", 0.5)]
        assert store.failures() == [(SMALL[1], "ValueError: no")]
        store.add(SMALL[1], {"svm": 0.7})
        assert store.failures() == []


def test_a_store_is_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any statement of its making, a store leaves a file that the next start can use."""
    path, connect = tmp_path / "results.sqlite", sqlite3.connect
    left: list[bytes] = []

    def traced(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.set_trace_callback(lambda statement: left.append(path.read_bytes()))
        return db

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced)
        Store(path).close()
    assert len(left) > 5
    for content in left:
        path.write_bytes(content)
        with Store(path) as store:
            store.add(SMALL[0], {"svm": 0.5})


@pytest.mark.parametrize("kind", ["text", "truncated", "other version", "other database"])
def test_foreign_and_damaged_stores_are_left_alone(kind: str, tmp_path: Path) -> None:
    """A file that is not a store of this version is refused with a clear message and not changed by a byte."""
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        for run in SMALL:
            store.add(run, {f"metric {i}": i for i in range(200)})
    if kind == "text":
        path.write_text("not a database, but somebody's notes\n" * 50)
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:3000] + b"garbage" * 300)
    elif kind == "other version":
        with sqlite3.connect(path) as db:
            db.execute("UPDATE meta SET value = '999'")
        db.close()
    else:
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE something (x)")
        db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="left as it is"):
        Store(path)
    assert path.read_bytes() == before
