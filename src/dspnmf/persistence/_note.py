"""The note next to a model in its file: which format, written by which versions. It is read before anything else."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import sklearn

MEMBER = "dspnmf.json"
FORMAT = 2
# A format -> what makes the description of a model (skops's schema) one of the next format. Whoever renames or moves an
# attribute or a class that older files hold adds one to FORMAT, and an entry here.
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


class ModelFileError(ValueError):
    """A file that is no model file, is damaged, or is not to be trusted; the message says which, and what to do."""


class Note(NamedTuple):
    """Format and versions."""

    format: int
    dspnmf: str
    sklearn: str


def present() -> Note:
    """What is written now."""
    return Note(FORMAT, import_module("dspnmf").__version__, sklearn.__version__)


def write(archive: ZipFile) -> None:
    """Add the note to a file."""
    archive.writestr(MEMBER, json.dumps(present()._asdict()))


def read(archive: ZipFile, path: Path) -> Note:
    """The note of a file; one of a format that is not known here is an error."""
    found = json.loads(archive.read(MEMBER))
    note = Note(int(found["format"]), str(found["dspnmf"]), str(found["sklearn"]))
    here = present()
    if note.format > here.format:
        raise ModelFileError(
            f"{path} was saved by dspnmf {note.dspnmf} (format {note.format}), this is {here.dspnmf} (up to format "
            f'{here.format}): upgrade with pip install --upgrade "dspnmf[models]".'
        )
    if missing := [number for number in range(note.format, here.format) if number not in UPGRADES]:
        raise ModelFileError(
            f"{path} was saved by dspnmf {note.dspnmf} (format {note.format}), and dspnmf {here.dspnmf} no longer "
            f"reads format {missing[0]}: load it with dspnmf {note.dspnmf}, or fit the model again."
        )
    return note


def upgraded(schema: dict[str, Any], note: Note) -> dict[str, Any]:
    """The description of a model of an older format as one of the present."""
    for number in range(note.format, FORMAT):
        schema = UPGRADES[number](schema)
    return schema


def warn_of_versions(note: Note, path: Path) -> None:
    """Say that another scikit-learn saved the file: what it keeps in its own estimators changes between releases."""
    here = present().sklearn
    if _release(note.sklearn) != _release(here):
        warnings.warn(
            f"{path} was saved with scikit-learn {note.sklearn}, this is {here}: compare its codes with those of the "
            "day it was saved, then save it again, or fit it again.",
            UserWarning,
            stacklevel=3,
        )


def _release(text: str) -> list[str]:
    """The part of a version in which releases with changes differ.

    >>> _release("1.9.1")
    ['1', '9']
    """
    return text.split(".")[:2]
