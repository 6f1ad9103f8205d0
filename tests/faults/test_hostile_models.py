"""Hostile model files and checkpoints: each is refused with a clear error, or becomes a model that works.

Run as a script with a number for that many files and a summary: ``python tests/faults/test_hostile_models.py 3000``.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

CHILD = Path(__file__).with_name("load_hostile_models.py")
MEGABYTES, SECONDS = 200, 20.0


class Study(NamedTuple):
    """What came of all files, and what must not have."""

    outcomes: dict[str, int]
    faults: list[str]
    seconds: float  # the longest
    megabytes: float  # the most, above the size of the file


def study(folder: Path, count: int, seed: int = 0) -> Study:
    """Make hostile files and use each, in a process that may crash: then another goes on behind the file it was at."""
    results, lines, faults = folder / "results.jsonl", [], []
    ended = 1
    while ended != 0:
        done = len(lines) + len(faults)
        command = [sys.executable, str(CHILD), str(folder), *map(str, (count, seed, done))]
        ended = subprocess.run(command, env=_environment(), timeout=600 + count, check=False).returncode
        written = [json.loads(line) for line in results.read_text().splitlines()]
        lines = [line for line in written if "outcome" in line]
        if ended != 0:
            faults.append(f"{written[-1]['file']}: the process ended with {ended}")
    for line in lines:
        slow, large = line["seconds"] > SECONDS, line["kilobytes"] > 1000 * MEGABYTES
        if line["outcome"].startswith("unclear") or slow or large:
            faults.append(f"{line['file']}: {line['outcome']}, {line['seconds']:.1f} s, {line['kilobytes']} kB more")
    outcomes = collections.Counter(line["outcome"].split(":")[0] for line in lines)
    return Study(
        dict(outcomes),
        faults,
        max(line["seconds"] for line in lines),
        max(line["kilobytes"] for line in lines) / 1000,
    )


def _environment() -> dict[str, str]:
    """Of the process that loads: what tests import is on its path."""
    tests = CHILD.parents[1]
    path = os.pathsep.join([str(tests), str(CHILD.parent), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def check(found: Study, count: int) -> None:
    """No crash, no unclear error, little time and memory; both refusals and models that work are among the results."""
    assert not found.faults, "\n".join(found.faults)
    assert sum(found.outcomes.values()) == count
    assert found.outcomes["refused"] > 0.4 * count
    assert found.outcomes["works"] > 0.03 * count


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_hostile_files(tmp_path: Path) -> None:
    """60 files, one of every kind of model and checkpoint among them."""
    check(study(tmp_path, 60), 60)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_many_hostile_files(tmp_path: Path) -> None:
    """As many as DSPNMF_HOSTILE_FILES says."""
    count = int(os.environ.get("DSPNMF_HOSTILE_FILES", "600"))
    check(study(tmp_path, count, seed=1), count)


def main() -> None:
    """Print a summary."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = study(Path(folder), count, seed)
    lines = [f"{number:6d} {outcome}" for outcome, number in sorted(found.outcomes.items(), key=lambda x: -x[1])]
    lines += [f"at most {found.seconds:.2f} s and {found.megabytes:.0f} MB above the size of the file"]
    lines += [f"{len(found.faults)} faults in {time.monotonic() - begin:.0f} s", *found.faults]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
