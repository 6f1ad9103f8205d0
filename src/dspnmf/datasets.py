"""The paper's data sets, loaded by name with `load`. Three come with scikit-learn, the others are files.

Sources and checksums are in ``datasets.toml``. Files are looked for in `data_folder()` and verified before they are
parsed. Only `fetch` uses the network. Nothing is rescaled: X holds the published values (the paper's protocol scales
each feature later).
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from dspnmf._typing import Array
from dspnmf._validation import FLAG, Allowed, number, one_of, whole

Indices = NDArray[np.intp]
Folder = str | os.PathLike[str] | None

_EMBEDDED = {"BC": load_breast_cancer, "Wine": load_wine, "Digits": load_digits}
_CATALOGUE = tomllib.loads(files("dspnmf").joinpath("datasets.toml").read_text(encoding="utf-8"))
_URLS: dict[str, str] = _CATALOGUE["urls"]
_SHA256: dict[str, str] = _CATALOGUE["sha256"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """One data set: n samples (rows) of m features, their labels, and where they come from.

    The name of row i's class is ``classes[y[i]]`` (the published number where classes have no names: COIL20, Digits).
    Rows that are images have an `image_shape` (height, width), and ``X[i].reshape(image_shape)`` is upright: the
    COIL-20 file stores its 32 x 32 images column by column, so its features are reordered here. Rows that are spectra
    have `bands` True, and `positions` (n, 2) are their row and column in a scene of `scene_shape`. `sha256` has the
    checksum of each file that was read, and is empty for data that scikit-learn ships.

    >>> digits = load("Digits")
    >>> digits.X[0].reshape(digits.image_shape).shape
    (8, 8)
    """

    name: str
    X: Array
    y: Indices
    classes: tuple[str, ...]
    source: str
    licence: str
    image_shape: tuple[int, int] | None = None
    bands: bool = False
    positions: Indices | None = None
    scene_shape: tuple[int, int] | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


class _Entry(NamedTuple):
    """One data set of ``datasets.toml``."""

    source: str
    licence: str
    variables: tuple[tuple[str, str], ...] = ()
    image_shape: tuple[int, int] | None = None
    fraction: float = 1.0
    surfaces: tuple[str, ...] = ()
    least: int = 1

    @property
    def files(self) -> list[str]:
        """Names of its files."""
        return list(dict.fromkeys(file for file, _ in self.variables))


_ENTRIES = {name: _Entry(**entry) for name, entry in _CATALOGUE["datasets"].items()}


def names() -> list[str]:
    """Names of the data sets that `load` knows.

    >>> names()
    ['BC', 'Wine', 'Digits', 'COIL20', 'IndianPines', 'Pavia', 'PaviaCrop']
    """
    return list(_ENTRIES)


def data_folder(data_dir: Folder = None) -> Path:
    """Folder of the files: `data_dir`, else the environment variable DSPNMF_DATA, else ``dspnmf`` in the user's cache.

    >>> data_folder("somewhere").name
    'somewhere'
    """
    chosen = data_dir or os.environ.get("DSPNMF_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "dspnmf"
    return Path(chosen or cache).expanduser()


def load(
    name: str, data_dir: Folder = None, *, fraction: float | None = None, seed: int = 0, unverified: bool = False
) -> Dataset:
    """Load one of the data sets in `names`, sub-sampled as in the paper, from the files in `data_folder(data_dir)`.

    `fraction` is the share of every class to draw, in (0, 1]; by default the paper's: 0.2 for "IndianPines" and "Pavia"
    and 1 for the others. A class of c rows gives floor(fraction c + 1/2) of them, at least 1; rows keep their order.
    With the same `seed` a larger fraction contains the smaller one. Of a scene only labelled pixels are taken, and in
    "IndianPines" and "Pavia" only classes with at least 390 of them. "PaviaCrop" does not replace "Pavia".
    `unverified` accepts a file whose checksum is not known ("PaviaU.mat"); a known one must always match.

    >>> wine = load("Wine")
    >>> wine.X.shape, wine.classes[wine.y[0]]
    ((178, 13), 'class_0')
    >>> load("Digits", fraction=0.1).X.shape
    (179, 64)
    """
    share = Allowed(lambda value: number(0, strict=True).test(value) and value <= 1, "a number in (0, 1] or None")
    _check(name=(name, one_of(*_ENTRIES)), fraction=(1 if fraction is None else fraction, share))
    _check(seed=(seed, whole(0)), unverified=(unverified, FLAG))
    entry, folder = _ENTRIES[name], data_folder(data_dir)
    content = {file: _read(name, folder / file, unverified) for file in entry.files}
    variables = [_variable(content[file], file, variable) for file, variable in entry.variables]
    if entry.surfaces:
        parts = _scene(*variables, surfaces=entry.surfaces, least=entry.least)
    else:
        parts = _images(*variables) if variables else _embedded(name)
        parts["image_shape"] = entry.image_shape and tuple(entry.image_shape)
    hashes = {file: hashlib.sha256(found).hexdigest() for file, found in content.items()}
    everything = Dataset(name=name, source=entry.source, licence=entry.licence, sha256=hashes, **parts)
    return _subsample(everything, entry.fraction if fraction is None else fraction, seed)


def fetch(name: str, data_dir: Folder = None, *, unverified: bool = False) -> list[Path]:
    """Download the files of a data set from their publishers; the only function here that uses the network.

    The addresses are the publishers' own: the page of Deng Cai (Zhejiang University) for COIL-20 in 32 x 32, the GIC of
    the University of the Basque Country for the scenes. A file appears under its name only when it is complete and its
    SHA-256 is right; one that is already there and right is not downloaded again, a damaged one is replaced.
    Needs pooch: ``pip install "dspnmf[paper]"``. `unverified` as in `load`.

    >>> fetch("Wine")  # comes with scikit-learn
    []
    """
    _check(name=(name, one_of(*_ENTRIES)), unverified=(unverified, FLAG))
    folder = data_folder(data_dir)
    for file in _ENTRIES[name].files:
        if file not in _URLS:
            raise ValueError(
                f"{name} cannot be downloaded: the publisher gives no address of {file}. Put the file into "
                f"{folder} yourself; load checks its SHA-256. Source: {_ENTRIES[name].source}."
            )
        _check_known(name, file, unverified)
    return [_download(folder, file) for file in _ENTRIES[name].files]


def _check(**given: tuple[Any, Allowed]) -> None:
    """Check arguments given as name=(value, what is allowed)."""
    for name, (value, allowed) in given.items():
        if not allowed.test(value):
            raise ValueError(f"{name}={value!r} is not allowed: it must be {allowed.words}. Pass such a value.")


def _check_known(name: str, file: str, unverified: bool) -> None:
    """Refuse a file without a known checksum unless the user accepts it with `unverified`."""
    if file not in _SHA256 and not unverified:
        raise ValueError(
            f"{name} needs {file}, whose SHA-256 is not known to this project, so it cannot be verified. If you trust "
            "your copy or your connection, say so with unverified=True."
        )


def _read(name: str, path: Path, unverified: bool) -> bytes:
    """Read a file once and verify it, so that the bytes verified are the bytes parsed."""
    _check_known(name, path.name, unverified)
    source = f"Source: {_ENTRIES[name].source}."
    again = f"dspnmf.datasets.fetch({name!r}{', unverified=True' * unverified})" if path.name in _URLS else ""
    try:
        content = path.read_bytes()
    except OSError as error:
        what = "that file cannot be read" if path.parent.is_dir() else "there is no such folder"
        raise type(error)(
            f"{name} needs {path.name} in {path.parent}, but {what} ({error.strerror}). Pass data_dir=, or set the "
            "environment variable DSPNMF_DATA, to the folder that has it"
            + (f", or run {again}." if again else f"; no address to fetch it from is known. {source}")
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256.get(path.name, found):
        raise ValueError(
            f"{path} is not the published file: its SHA-256 is {found}, but it must be {_SHA256[path.name]}. It is "
            "damaged or another version: delete it, then "
            + (f"get it with {again}." if again else f"put the right one there. {source}")
        )
    return content


def _variable(content: bytes, file: str, variable: str) -> NDArray[Any]:
    """One variable of a MATLAB 5 file (plain arrays: nothing in such a file is ever executed)."""
    try:
        return loadmat(io.BytesIO(content), variable_names=[variable])[variable]
    except Exception as error:  # an unverified file may hold anything, and SciPy raises anything
        what = f"{file} has no readable variable {variable!r} ({error!r})"
        raise ValueError(f"{what}: it must be the publisher's MATLAB 5 file. Download it again.") from error


def _download(folder: Path, file: str) -> Path:
    """Download one file with pooch: to a temporary file in the same folder, verified, then moved to its name."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError('fetch needs pooch, which is not installed: pip install "dspnmf[paper]".') from error
    by_hand = f"or download the file by other means and put it into {folder}; load checks it."
    url, logger = _URLS[file], pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # pooch prints; a library does not
    try:
        return Path(pooch.retrieve(url, _SHA256.get(file), fname=file, path=folder))
    except OSError as error:  # requests' errors too
        raise OSError(
            f"{file} could not be downloaded from {url} to {folder} ({error}). Nothing half-written was left: check "
            f"the network and that the folder can be written, and try again; {by_hand}"
        ) from error
    except ValueError as error:
        raise ValueError(f"{url} sent something else than {file}. {error} Try again later, {by_hand}") from error
    finally:
        logger.setLevel(level)


def _embedded(name: str) -> dict[str, Any]:
    """Data shipped with scikit-learn."""
    bunch = _EMBEDDED[name]()
    X, y = bunch.data.astype(np.float64), bunch.target.astype(np.intp)
    return {"X": X, "y": y, "classes": tuple(map(str, bunch.target_names))}


def _images(fea: NDArray[Any], gnd: NDArray[Any]) -> dict[str, Any]:
    """COIL-20: images of 32 x 32, stored column by column in the file and row by row here."""
    X = fea.reshape(-1, 32, 32).transpose(0, 2, 1).reshape(len(fea), -1).astype(np.float64)
    return {"X": X, "y": gnd.ravel().astype(np.intp) - 1, "classes": tuple(map(str, np.unique(gnd)))}


def _scene(cube: NDArray[Any], labels: NDArray[Any], *, surfaces: Sequence[str], least: int) -> dict[str, Any]:
    """The labelled pixels of a scene, of classes with at least `least` (0 means unlabelled)."""
    if cube.ndim != 3 or cube.shape[:2] != labels.shape:
        shapes = f"The scene has shape {cube.shape}, its labels have {labels.shape}"
        raise ValueError(f"{shapes}: they must agree. Download both files from the publisher again.")
    kept = np.flatnonzero(np.bincount(labels.ravel(), minlength=len(surfaces) + 1)[1:] >= least) + 1
    inside = np.isin(labels, kept)
    X, y = cube[inside].astype(np.float64), np.searchsorted(kept, labels[inside])
    where = {"bands": True, "positions": np.argwhere(inside), "scene_shape": labels.shape}
    return {"X": X, "y": y, "classes": tuple(surfaces[label - 1] for label in kept.tolist()), **where}


def _subsample(data: Dataset, fraction: float, seed: int) -> Dataset:
    """Draw a share of every class: the first rows of a permutation of it, then in their old order."""
    random, chosen = np.random.default_rng(seed), []
    for label in range(len(data.classes)):
        rows = random.permutation(np.flatnonzero(data.y == label))
        chosen.append(rows[: max(1, int(fraction * len(rows) + 0.5))])
    kept = np.sort(np.concatenate(chosen))
    positions = None if data.positions is None else data.positions[kept]
    return replace(data, X=data.X[kept], y=data.y[kept], positions=positions)
