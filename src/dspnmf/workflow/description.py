"""What a command says of its data: how the file was read, what its columns are taken for, how they are scaled."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspnmf._option_words import option
from dspnmf.io import Table
from dspnmf.io.errors import plain, quoted
from dspnmf.report.fit_measurements import stored
from dspnmf.workflow.scaling import WORDS

_NAMED = 4  # features that are named at either end


def described(path: Path, table: Table) -> list[str]:
    """Lines about a table before it is scaled."""
    n, m = table.X.shape
    lines = [f"Read {plain(path)}{': ' if table.assumed else ''}{'; '.join(table.assumed)}."]
    named = f", named by {quoted(table.index_name)}" if table.index_name else ""
    label = f"; label {quoted(table.label)}" if table.label else ""
    lines.append(f"{n:,} sample{'s' * (n != 1)}{named}{label}")
    names = [str(name) for name in table.features]
    shown = names if m <= 2 * _NAMED + 1 else [*names[:_NAMED], "...", *names[-_NAMED:]]
    lines.append(f"{m:,} feature{'s' * (m != 1)}: {', '.join(plain(name, 40) for name in shown)}")
    if table.left_out:
        left = [f"{quoted(name)} ({why})" for name, why in table.left_out.items()]
        more = f", ... ({len(left):,} in all)" if len(left) > 2 * _NAMED else ""
        lines.append(f"Left out: {', '.join(left[: 2 * _NAMED])}{more}")
    if not table.in_file and (missing := int(np.isnan(stored(table.X)).sum())):
        lines.append(f"Missing: {missing:,} of {n * m:,} cells")
    return lines


def scaling(scale: str, why: str) -> str:
    """A line about the scaling, with the reason where it was not asked for."""
    return f"Scaled: {WORDS[scale]}" + (f", as {why} ({option('scale')} for another way)" if why else "")


def assumptions(table: Table, why: str) -> dict[str, Any]:
    """The same for metrics.json."""
    return {"assumed": list(table.assumed), "left_out": dict(table.left_out), "scale_because": why}


def fit_command(data: str, read_options: Mapping[str, Any], choice: Mapping[str, Any]) -> str:
    """The call of ``dspnmf fit`` that fits what a selection chose, with the same options about the file."""
    words = ["dspnmf", "fit", data]
    for name, value in read_options.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
            continue
        for one in value if isinstance(value, tuple | list) else (value,):
            words += [f"--{name.replace('_', '-')}", str(one)]
    words += ["--rank", str(choice["n_components"]), "--alpha", f"{choice['alpha']:.6g}", "--scale", choice["scale"]]
    return shlex.join(words)
