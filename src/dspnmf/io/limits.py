"""How much memory a file may ask for. A few bytes can claim any size, so claims are compared with the file's size.

What needs more than `FREE` bytes of memory must come from a file with at least one byte for each `RATIO` of them. Real
files are far below that (numbers rarely compress to a hundredth), made-up headers far above.
"""

from __future__ import annotations

import os
from pathlib import Path

from dspnmf.io.errors import refused

FREE = 2**26
RATIO = 256
IN_MEMORY = 2**30  # larger arrays in .npy, Zarr and HDF5 files stay in the file, and a fit reads them in blocks
_NAME = 48  # bytes of the name of a row or column


def check_size(path: Path, needed: int, what: str, size: int | None = None) -> None:
    """Refuse `what` if its `needed` bytes are implausible for a file of `size` bytes, or more than this machine has."""
    if needed <= FREE:
        return
    if size is None:
        size = sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    if needed > FREE + RATIO * size:
        raise refused(
            path,
            f"it claims to hold {what}, {amount(needed)} in memory, but has only {size:,} bytes: it is damaged, or "
            "compressed more than is plausible. If you trust it, save it again without compression.",
        )
    if needed > memory():
        raise refused(
            path,
            f"{what} take {amount(needed)} in memory, but this machine has {amount(memory())}. Save them as a .npy or "
            "Zarr array, which is read in blocks.",
        )


def check_array(path: Path, shape: tuple[int, ...], needed: int, size: int | None = None) -> None:
    """The same for an array of `needed` bytes, with the names of its rows and columns."""
    check_size(path, needed + _NAME * sum(shape), f"{times(shape)} numbers", size)


def times(shape: tuple[int, ...]) -> str:
    """A shape in words: 1,000 x 20."""
    return " x ".join(f"{length:,}" for length in shape)


def memory() -> int:
    """Bytes of memory this machine has; 2**60 where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**60


def amount(count: int) -> str:
    """Bytes in words: 3 GB."""
    for power, unit in ((24, "YB"), (21, "ZB"), (18, "EB"), (15, "PB"), (12, "TB"), (9, "GB"), (6, "MB")):
        if count >= 10**power:
            return f"{count / 10**power:,.3g} {unit}"
    return f"{count:,} bytes"
