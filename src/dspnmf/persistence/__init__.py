"""Models in files: `save` and `load`, on skops. No pickle is ever loaded.

A file is a zip archive as skops lays it out, with one member more: a note of its format and of the versions that wrote
it. What a file may hold is an explicit list (`dspnmf.persistence._contents`); everything else is refused unread. Models
whose parts do not fit each other are refused too (`dspnmf.persistence._fitted_models`).
"""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zipfile import BadZipFile, ZipFile

import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from dspnmf import _atomic_files as _files
from dspnmf._untrusted_files import StoredArchive
from dspnmf.persistence._contents import (
    Description,
    ModelFileError,
    check_arrays,
    check_model,
    native,
    own_classes,
    portable,
    refused,
    skops,
    trusted,
)
from dspnmf.persistence._fitted_models import check_sound

__all__ = ["ModelFileError", "load", "save"]

_SCHEMA = "schema.json"
MEMBER = "dspnmf.json"
FORMAT = 3
# A format -> what makes the description of a model (skops's schema) one of the next format. Whoever renames or moves an
# attribute or a class that older files hold adds one to FORMAT, and an entry here.
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
_PICKLED = (b"\x80", b"ZF", b"x\x01", b"x^", b"x\x9c", b"x\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x04\x22\x4d\x18")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    The file is there completely or not at all, and one of the same name is replaced. Tensors and CuPy arrays become
    NumPy arrays in it (the model itself stays as it is); callbacks are left out.

    Parameters
    ----------
    model : estimator
        An estimator of dspnmf, fitted or not, or a scikit-learn ``Pipeline`` that holds one.
    path : path
        File to write, by custom with the suffix ``.skops``.

    See Also
    --------
    dspnmf.load : The way back.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import dspnmf
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> X = load_wine().data
    >>> model = make_pipeline(MinMaxScaler(clip=True), dspnmf.DSPNMF(3, random_state=0)).fit(X)
    >>> with TemporaryDirectory() as folder:
    ...     dspnmf.save(model, Path(folder) / "wine.skops")
    ...     again = dspnmf.load(Path(folder) / "wine.skops")
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    path, dump = Path(path), skops().dump
    check_model(model)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it, such as {path / 'model.skops'}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}: create it, or choose another path.")
    content = io.BytesIO()
    dump(portable(model), content)
    with ZipFile(content, "a") as archive:
        archive.writestr(MEMBER, json.dumps(present()._asdict()))
        description = Description(json.loads(archive.read(_SCHEMA)))
    if names := refused(description, content, own_classes(model)):
        raise TypeError(
            f"{type(model).__name__} cannot be saved, because dspnmf.load would refuse its {', '.join(names)}. Model "
            "files hold estimators of dspnmf and scikit-learn, arrays and plain values: keep other parts apart."
        )
    with StoredArchive(content) as archive:
        check_arrays(archive, description)
    with _files.complete(path) as file:
        file.write(content.getbuffer())


def load(path: str | os.PathLike[str], *, classes: Sequence[type] = ()) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is run: one that names any type but those models are made of is refused.

    Parameters
    ----------
    path : path
        The file.
    classes : sequence of classes, optional
        What else the file may hold: estimators of your own (derived from `dspnmf.estimators.ComponentFactorization`),
        and those of scikit-learn whose compiled code can crash on a file that was tampered with (such as ``SVC``).

    Returns
    -------
    model : estimator
        As it was saved, with the same parameters; its ``transform`` gives the same codes, bit for bit, with the same
        versions of NumPy and SciPy on the same machine.

    Raises
    ------
    dspnmf.persistence.ModelFileError
        Where the file is something else, damaged, from a newer dspnmf, or not to be trusted; a ``ValueError``.

    See Also
    --------
    dspnmf.save : The way there, with an example.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import dspnmf
    >>> with TemporaryDirectory() as folder:
    ...     dspnmf.save(dspnmf.GNMF(4, beta=10.0), Path(folder) / "unfitted.skops")
    ...     dspnmf.load(Path(folder) / "unfitted.skops")
    GNMF(beta=10.0, n_components=4)
    """
    path, reader = Path(path), skops()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a model file: name the file in it.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}: check the path; dspnmf.save(model, path) writes one.")
    if not path.is_file():  # reading from a pipe might never end
        raise ModelFileError(f"{path} is not a regular file: copy the model into one first.")
    with path.open("rb") as file:
        try:
            note, content = _opened(file, path, classes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InconsistentVersionWarning)  # said once, below, with the file's name
                model = reader.load(content, trusted=trusted(classes))
            check_sound(model, path)
        except ModelFileError:
            raise
        except Exception as error:  # a damaged file may hold anything, and its readers raise anything
            raise ModelFileError(
                f"{path} is damaged ({type(error).__name__}: {error}): copy it again, or save the model again."
            ) from error
    _warn_of_versions(note, path)
    return model


def _opened(file: BinaryIO, path: Path, classes: Sequence[type]) -> tuple[Note, BinaryIO]:
    """The note of an open file, and the same content in the present format, with nothing but what may be in it."""
    try:
        archive = StoredArchive(file)
    except BadZipFile as error:
        raise ModelFileError(_not_an_archive(file, path)) from error
    with archive:
        members = archive.namelist()
        if _SCHEMA not in members:
            raise ModelFileError(f"{path} is a zip archive, but not a model file: pass one that dspnmf.save wrote.")
        if MEMBER not in members:
            raise ModelFileError(
                f"{path} was not written by dspnmf.save, but by skops alone: read it with skops.io.load, if you trust "
                "it, and save the model with dspnmf.save."
            )
        note, schema = _note(archive, path), json.loads(archive.read(_SCHEMA))
        for number in range(note.format, FORMAT):
            schema = UPGRADES[number](schema)
        content = file if note.format == FORMAT else _with_schema(archive, schema)
        description = Description(schema)
        if names := refused(description, content, classes):
            raise ModelFileError(
                f"{path} names types that no model is made of: {', '.join(names)}. Nothing of it was loaded or run. Do "
                "not trust the person who made it; if that was you, save the model again with dspnmf.save."
            )
        if names := native(description, classes):
            shown = ", ".join(name.rpartition(".")[2] for name in names)
            raise ModelFileError(
                f"{path} holds {', '.join(names)} of scikit-learn, whose compiled code would crash where a file was "
                f"tampered with. If you know where it comes from, pass classes=[{shown}]."
            )
        check_arrays(archive, description)
    return note, content


def _with_schema(archive: ZipFile, schema: Any) -> BinaryIO:
    """The same archive with another description of the model."""
    content = io.BytesIO()
    with ZipFile(content, "w") as copy:
        for name in set(archive.namelist()) - {_SCHEMA}:
            copy.writestr(name, archive.read(name))
        copy.writestr(_SCHEMA, json.dumps(schema))
    return content


def _not_an_archive(file: BinaryIO, path: Path) -> str:
    """What a file is that is not a zip archive."""
    file.seek(0)
    start = file.read(8)
    if start.startswith(b"PK"):
        return f"{path} is cut short or damaged: copy it again, or save the model again."
    if start.startswith(_PICKLED):
        return (
            f"{path} looks like a pickle or joblib file, which can run anything when it is loaded: dspnmf reads none. "
            "Load it yourself, if you trust it, and save the model with dspnmf.save."
        )
    return f"{path} is not a model file: pass one that dspnmf.save wrote."


class Note(NamedTuple):
    """Format and versions."""

    format: int
    dspnmf: str
    sklearn: str


def present() -> Note:
    """What is written now."""
    return Note(FORMAT, import_module("dspnmf").__version__, sklearn.__version__)


def _note(archive: ZipFile, path: Path) -> Note:
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


def _warn_of_versions(note: Note, path: Path) -> None:
    """Say that another scikit-learn saved the file: what it keeps in its own estimators changes between releases."""
    here = present().sklearn
    if note.sklearn.split(".")[:2] != here.split(".")[:2]:  # in these, releases with changes differ
        warnings.warn(
            f"{path} was saved with scikit-learn {note.sklearn}, this is {here}: compare its codes with those of the "
            "day it was saved, then save it again, or fit it again.",
            UserWarning,
            stacklevel=3,
        )
