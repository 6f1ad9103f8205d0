"""How much a file may ask for. A few bytes can claim any size, so a claim is compared with the file before it is met.

What needs more than `FREE` bytes of memory must come from a file with at least one byte for each `RATIO` of them. Files
that people have are far below it (numbers hardly compress to a hundredth), and made-up headers are far above.
"""

from __future__ import annotations

import os
from pathlib import Path

from dspnmf.io.errors import refused

FREE = 2**26
RATIO = 256
IN_MEMORY = 2**30  # larger arrays stay in their file, if it has them plainly, and a fit reads them from there
_NAME = 48  # bytes a row or a column costs: its name


def check_size(path: Path, needed: int, what: str, size: int | None = None) -> None:
    """Whether `needed` bytes for `what` are believable in a file of `size` bytes, and possible on this machine."""
    if needed <= FREE:
        return
    size = stored(path) if size is None else size
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
            "Zarr array, which is read piece by piece.",
        )


def check_shape(path: Path, shape: tuple[int, ...], itemsize: int, size: int | None = None) -> None:
    """The same for an array and the names of its rows and columns."""
    cells = itemsize
    for length in shape:
        cells *= length
    check_size(path, cells + _NAME * sum(shape), f"{' x '.join(f'{length:,}' for length in shape)} numbers", size)


def stored(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def memory() -> int:
    """Bytes of memory this machine has; where that cannot be asked, more than anyone has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**60


def amount(count: int) -> str:
    """Bytes in words.

    >>> amount(3_000_000_000)
    '3 GB'
    """
    for power, unit in ((24, "YB"), (21, "ZB"), (18, "EB"), (15, "PB"), (12, "TB"), (9, "GB"), (6, "MB")):
        if count >= 10**power:
            return f"{count / 10**power:,.3g} {unit}"
    return f"{count:,} bytes"
