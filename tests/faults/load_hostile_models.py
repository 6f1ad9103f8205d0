"""Run in a process of its own: make hostile files, load every model, resume every checkpoint, and use what comes back.

Writes a line of JSON for each file to ``results.jsonl``: before it is touched, and when that is done (what happened,
seconds, kilobytes).
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from hostile_models import CHECKPOINT, hostile_files, resumed, rows, whole_files

import dspnmf
from dspnmf.persistence import ModelFileError

SECONDS = 30


def memory(name: str) -> int:
    """What Linux says of this process's memory, in kB: VmRSS now, VmHWM the most since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def used(path: Path) -> str:
    """What came of one file: "refused", "works", or which method refused to work; others are named by their error."""
    X = rows()[0]
    if path.suffix == CHECKPOINT:
        model, X = resumed(path.stem.split("-", 2)[-1])
        try:
            Z = model.fit_transform(X, checkpoint_path=path, checkpoint_every=0)
        except ValueError as error:
            return "refused" if "checkpoint_path=" in str(error) else f"unclear ValueError: {error}"
        return "works" if np.isfinite(Z).all() and Z.shape[1] == 3 else "works, with codes that are not finite"
    try:
        model = dspnmf.load(path)
    except (ModelFileError, OSError):
        return "refused"
    in_pipeline = not type(model).__module__.startswith("dspnmf.")
    outcome = "works"
    for name, call in methods(model, X).items():
        try:
            result = call()
            if name == "transform" and result.shape[0] != 9:
                return f"unclear: codes of shape {result.shape}"
        except (ValueError, OSError) as error:
            outcome = f"works but for {name}" if str(error) else f"unclear {error!r}"
        except Exception as error:
            if not in_pipeline:  # what scikit-learn's own estimators hold is theirs to check
                return f"unclear {type(error).__name__} in {name}: {error}"
    return outcome


def methods(model: Any, X: np.ndarray) -> dict[str, Any]:
    """What is done with a model, by name."""
    calls: dict[str, Any] = {"repr": lambda: repr(model)}
    if hasattr(model, "transform"):
        calls["transform"] = lambda: np.asarray(model.transform(X[:9]))
        calls["float32"] = lambda: np.asarray(model.transform(X[:9].astype(np.float32)))
    if hasattr(model, "predict"):
        calls["predict"] = lambda: model.predict(X[:9])
    if hasattr(model, "inverse_transform"):
        codes = np.ones((2, getattr(model[-1] if hasattr(model, "steps") else model, "n_components_", 3)))
        calls["inverse_transform"] = lambda: model.inverse_transform(codes)
    if hasattr(model, "partial_fit"):
        calls["partial_fit"] = lambda: model.partial_fit(X[9:30].astype(model.components_.dtype))
        calls["partial_fit again"] = calls["partial_fit"]
    random_state = getattr(model, "random_state", None)
    if isinstance(random_state, np.random.RandomState):
        calls["random numbers"] = lambda: random_state.standard_normal(3000)
    return calls


def late(*_: Any) -> None:
    """A file takes too long."""
    raise TimeoutError("too long")


def main(folder: Path, count: int, seed: int, first: int) -> None:
    """All files from the one with number `first` on; they are made with the first."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGALRM, late)
    if first == 0:
        (folder / "whole").mkdir()
        (folder / "hostile").mkdir()
        for name, content in hostile_files(whole_files(folder / "whole"), count, seed):
            (folder / "hostile" / name).write_bytes(content)
    for path in sorted((folder / "whole").iterdir()):  # everything is compiled before memory is measured
        used(path)
    limit = 1024 * memory("VmSize") + 4 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with (folder / "results.jsonl").open("a") as file:
        for path in sorted((folder / "hostile").iterdir())[first:]:
            print(json.dumps({"file": path.name}), file=file, flush=True)
            Path("/proc/self/clear_refs").write_text("5")
            size, before, begin = path.stat().st_size, memory("VmRSS"), time.monotonic()
            signal.alarm(SECONDS)
            try:
                outcome = used(path)
            except BaseException as error:
                outcome = f"unclear {type(error).__name__}: {error}"
            signal.alarm(0)
            more = memory("VmHWM") - before - size // 1024
            seconds = time.monotonic() - begin
            line = {"file": path.name, "outcome": outcome, "seconds": seconds, "kilobytes": more}
            print(json.dumps(line), file=file, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
