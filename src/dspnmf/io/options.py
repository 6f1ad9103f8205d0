"""What can be said about a file when it is read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from dspnmf.io.errors import quoted, refused


@dataclass(frozen=True)
class Options:
    """The options of `read`; see there."""

    label: str | None = None
    index: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    variable: str | None = None
    exclude: tuple[str, ...] = ()

    def only(self, path: Path, kind: str, *allowed: str) -> None:
        """Refuse what would be ignored."""
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name not in allowed and value not in (None, ()):
                known = f"it takes {', '.join(allowed)}" if allowed else "it takes no options"
                raise refused(path, f"{option.name}={quoted(value)} means nothing for {kind}: {known}.")
