"""Every benchmark of this folder in a process of its own, and the page they make: README.md.

    python benchmarks/_run.py [--full] [--page FILE] [NAME ...]

One that fails, or does not end within its limit, loses nothing of the others: the page says so in its place. `--full`
takes the sizes that need minutes each (`_report.full`). Names of benchmarks run these alone, and print what they would
put on the page; with `--page` the page is written, wherever that says.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
FULL = "DSPNMF_BENCHMARKS_FULL"  # the variable of the environment by which benchmarks know (`_report.full`)
LIMITS = {False: 900.0, True: 3600.0}  # seconds of one benchmark; whether at full size
FIRST = "whole_fit.py"  # on the page; the others follow by name


def section(path: Path, full: bool = False, limit: float | None = None) -> tuple[str, str | None]:
    """What a benchmark prints, with its name and its time; and what went wrong, if anything did."""
    begin, limit = time.perf_counter(), limit or LIMITS[full]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-u", path.name], cwd=path.parent, stdout=out, stderr=errors,
            env={**os.environ, FULL: "1" if full else ""}, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(limit)
            failure = f"exit code {code}: {_text(errors).rpartition(chr(10))[2]}" if code else None
        except subprocess.TimeoutExpired:
            failure = f"not done after {limit / 60:.3g} minutes"
        finally:
            _end(process)
        said = _text(out)
    took = f"`{path.name}` took {time.perf_counter() - begin:.0f} s."
    if failure is None:
        return f"\n{said}\n\n{took}\n", None
    return f"\n## {path.name} failed\n\n{failure}\n\n{said}\n\n{took}\n", f"{path.name}: {failure}"


def _text(file: object) -> str:
    """What was written to a file."""
    file.seek(0)  # type: ignore[attr-defined]
    return file.read().decode(errors="replace").strip()  # type: ignore[attr-defined,no-any-return]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started: a worker left behind would slow the next one down."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def main(arguments: list[str], folder: Path = HERE) -> int:
    """Run them; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files of this folder; all, if there are none")
    parser.add_argument("--full", action="store_true", help="full sizes")
    parser.add_argument("--page", type=Path, help="where the page is written; README.md, if all are run")
    options = parser.parse_args(arguments)
    everything = sorted(folder.glob("[a-z]*.py"), key=lambda path: (path.name != FIRST, path.name))
    files = [folder / name for name in options.names] or everything
    begin, sections, failures = time.perf_counter(), [], []
    for path in files:
        text, failure = section(path, options.full)
        print(text, flush=True)
        sections.append(text)
        failures += [failure] if failure else []
    sizes = "full sizes" if options.full else "default sizes"
    minutes = (time.perf_counter() - begin) / 60
    summary = f"This run, at {sizes}, took {minutes:.0f} minutes on {os.cpu_count()} cores."
    page = options.page or (None if options.names else folder / "README.md")
    if page is not None:
        header = (folder / "_header.md").read_text(encoding="utf-8").rstrip()
        failed = "".join(f"\n- failed: {failure}" for failure in failures)
        head = f"{header}\n\n{summary}\n{failed and failed + chr(10)}"
        page.write_text("\n".join([head, *sections]), encoding="utf-8")
    print(summary, *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
