"""Every benchmark of this folder in a process of its own, and the page they make: README.md.

One that fails, or does not end within its limit, loses nothing of the others: the page says so in its place. Names of
benchmarks as arguments run these alone, and print what they would put on the page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 1800.0  # seconds of one benchmark


def section(path: Path) -> tuple[str, str | None]:
    """What a benchmark prints, with its name and its time; and what went wrong, if anything did."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, path.name], cwd=path.parent, capture_output=True, text=True, timeout=LIMIT
        )
        said, wrong = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else []
        failure = f"exit code {done.returncode}: {' '.join(wrong)}" if done.returncode else None
    except subprocess.TimeoutExpired as error:
        said, failure = (error.stdout or b"").decode(), f"not done after {LIMIT / 60:.0f} minutes"
    took = f"`{path.name}` took {time.perf_counter() - begin:.0f} s."
    if failure is None:
        return f"{said.rstrip()}\n\n{took}\n", None
    return f"\n## {path.name} failed\n\n{failure}\n{said.rstrip()}\n\n{took}\n", f"{path.name}: {failure}"


def main(names: list[str], folder: Path = HERE) -> int:
    """Run them; 1 if one failed."""
    files = [folder / name for name in names] or sorted(folder.glob("[a-z]*.py"))
    begin, sections, failures = time.perf_counter(), [], []
    for path in files:
        text, failure = section(path)
        print(text, flush=True)
        sections.append(text)
        failures += [failure] if failure else []
    minutes = f"All of them took {(time.perf_counter() - begin) / 60:.0f} minutes on {os.cpu_count()} cores."
    if not names:
        header = (folder / "_header.md").read_text(encoding="utf-8").rstrip()
        failed = "".join(f"\n- failed: {failure}" for failure in failures)
        page = "\n".join([f"{header} {minutes}{failed and chr(10) + failed}\n", *sections])
        (folder / "README.md").write_text(page, encoding="utf-8")
    print(minutes, *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
