"""The paper's data sets, loaded by name with `load`. Three come with scikit-learn, the others are files.

Files are looked for in `data_folder()` and their SHA-256 is checked before they are parsed. Only `fetch` uses the
network. Nothing is rescaled: X holds the published values (the paper's protocol scales each feature later).
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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

_EHU = "https://www.ehu.eus/ccwintco/uploads"
_URLS = {  # the publishers' own; none is known for the crop of Pavia
    "COIL20.mat": "http://www.cad.zju.edu.cn/home/dengcai/Data/COIL20/COIL20.mat",
    "Indian_pines_corrected.mat": f"{_EHU}/6/67/Indian_pines_corrected.mat",
    "Indian_pines_gt.mat": f"{_EHU}/c/c4/Indian_pines_gt.mat",
    "PaviaU.mat": f"{_EHU}/e/ee/PaviaU.mat",
    "PaviaU_gt.mat": f"{_EHU}/5/50/PaviaU_gt.mat",
}
_SHA256 = {  # PaviaU.mat is missing: its checksum is not known to this project, so it cannot be verified
    "COIL20.mat": "2a35c105dbb327492b90389e55612bcbf39187bc7c408252239903e4ce7d6958",
    "Indian_pines_corrected.mat": "ec2f8808710919d566f70f0d4aa885aae1ddfd42b734aba71c5e12ca65450939",
    "Indian_pines_gt.mat": "65c4687a8ab04f6da4789799bc3bc4f6e88bccac3ed6a2e6ae367e5e6b9e429c",
    "PaviaU_gt.mat": "23f6a426928f9b32984adffe659e29f554f9fb6c93b5a107528d308d5087a829",
    "PaviaU_subset_140x80.mat": "a86d1bf7c4dc03614a1000aef682e71b481c22f193e2542e3f80b1b0adf41f82",
}
_CROPS = ("Alfalfa", "Corn-notill", "Corn-mintill", "Corn", "Grass-pasture", "Grass-trees", "Grass-pasture-mowed",
          "Hay-windrowed", "Oats", "Soybean-notill", "Soybean-mintill", "Soybean-clean", "Wheat", "Woods",
          "Buildings-Grass-Trees-Drives", "Stone-Steel-Towers")  # fmt: skip
_SURFACES = ("Asphalt", "Meadows", "Gravel", "Trees", "Painted metal sheets", "Bare soil", "Bitumen",
             "Self-blocking bricks", "Shadows")  # fmt: skip
_UCI = "CC BY 4.0 (UCI Machine Learning Repository); the copy is the one that scikit-learn ships"
_UNSTATED = "no licence text comes with the files: cite the source, and ask the publisher before redistributing them"
_GIC = "Hyperspectral Remote Sensing Scenes, GIC, University of the Basque Country (UPV/EHU)"
_COIL = (
    "COIL-20: Nene, Nayar, Murase, CUCS-005-96, Columbia University, 1996; as 32 x 32 by Deng Cai, Zhejiang University"
)
_PINES = f"AVIRIS, 1992: Baumgardner, Biehl, Landgrebe, Purdue University; {_GIC}"
_PAVIA = f"Pavia University, ROSIS: P. Gamba, University of Pavia; {_GIC}"
_PAVIA_CROP = (
    "140 x 80 crop of Pavia University (rows 229-368, columns 89-168 of its label map, 8 of its 9 classes), from the "
    "code of Hinojosa, Bacca, Arguello, IEEE JSTSP 12(6), 2018. It must not be compared with published results on "
    "Pavia University: it is another data set"
)
_COIL_FILES = (("COIL20.mat", "fea"), ("COIL20.mat", "gnd"))  # and the variables in them
_PINES_FILES = (("Indian_pines_corrected.mat", "indian_pines_corrected"), ("Indian_pines_gt.mat", "indian_pines_gt"))
_PAVIA_FILES = (("PaviaU.mat", "paviaU"), ("PaviaU_gt.mat", "paviaU_gt"))
_CROP_FILES = (("PaviaU_subset_140x80.mat", "paviaU"), ("PaviaU_subset_140x80.mat", "paviaU_gt"))


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
    """How to read a data set: a function of the variables in its files, and the share of each class in the paper."""

    read: Callable[..., dict[str, Any]]
    source: str
    licence: str
    variables: tuple[tuple[str, str], ...] = ()
    fraction: float = 1.0


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
    entry = _ENTRIES[name]
    folder, files = data_folder(data_dir), dict.fromkeys(file for file, _ in entry.variables)
    content = {file: _read(name, folder / file, unverified) for file in files}
    parts = entry.read(*(_variable(content[file], file, variable) for file, variable in entry.variables))
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
    folder, files = data_folder(data_dir), list(dict.fromkeys(file for file, _ in _ENTRIES[name].variables))
    for file in files:
        if file not in _URLS:
            raise ValueError(
                f"{name} cannot be downloaded: this project knows no publisher's address of {file}. Put the file into "
                f"{folder} yourself; load checks its SHA-256. {_source(name)}"
            )
        _check_known(name, file, unverified)
    return [_download(folder, file) for file in files]


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
    again = f"dspnmf.datasets.fetch({name!r}{', unverified=True' * unverified})" if path.name in _URLS else ""
    try:
        content = path.read_bytes()
    except OSError as error:
        what = "that file cannot be read" if path.parent.is_dir() else "there is no such folder"
        raise type(error)(
            f"{name} needs {path.name} in {path.parent}, but {what} ({error.strerror}). Pass data_dir=, or set the "
            "environment variable DSPNMF_DATA, to the folder that has it"
            + (f", or run {again}." if again else f"; no address to fetch it from is known. {_source(name)}")
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256.get(path.name, found):
        raise ValueError(
            f"{path} is not the published file: its SHA-256 is {found}, but it must be {_SHA256[path.name]}. It is "
            "damaged or another version: delete it, then "
            + (f"get it with {again}." if again else f"put the right one there. {_source(name)}")
        )
    return content


def _source(name: str) -> str:
    """The source of a data set, for files without a known address."""
    return f"Source: {_ENTRIES[name].source}."


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


def _embedded(loader: Callable[[], Any], image_shape: tuple[int, int] | None = None) -> Callable[[], dict[str, Any]]:
    """A function that reads data shipped with scikit-learn."""

    def read() -> dict[str, Any]:
        bunch = loader()
        X, y = bunch.data.astype(np.float64), bunch.target.astype(np.intp)
        return {"X": X, "y": y, "classes": tuple(map(str, bunch.target_names)), "image_shape": image_shape}

    return read


def _coil(fea: NDArray[Any], gnd: NDArray[Any]) -> dict[str, Any]:
    """COIL-20: images of 32 x 32, stored column by column in the file and row by row here."""
    X = fea.reshape(-1, 32, 32).transpose(0, 2, 1).reshape(len(fea), -1).astype(np.float64)
    classes = tuple(map(str, np.unique(gnd)))
    return {"X": X, "y": gnd.ravel().astype(np.intp) - 1, "classes": classes, "image_shape": (32, 32)}


def _scene(surfaces: tuple[str, ...], least: int) -> Callable[..., dict[str, Any]]:
    """A function that reads the labelled pixels of a scene, of classes with at least `least` (0 means unlabelled)."""

    def read(cube: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
        if cube.ndim != 3 or cube.shape[:2] != labels.shape:
            shapes = f"The scene has shape {cube.shape}, its labels have {labels.shape}"
            raise ValueError(f"{shapes}: they must agree. Download both files from the publisher again.")
        kept = np.flatnonzero(np.bincount(labels.ravel(), minlength=len(surfaces) + 1)[1:] >= least) + 1
        inside = np.isin(labels, kept)
        X, y = cube[inside].astype(np.float64), np.searchsorted(kept, labels[inside])
        where = {"bands": True, "positions": np.argwhere(inside), "scene_shape": labels.shape}
        return {"X": X, "y": y, "classes": tuple(surfaces[label - 1] for label in kept), **where}

    return read


def _subsample(data: Dataset, fraction: float, seed: int) -> Dataset:
    """Draw a share of every class: the first rows of a permutation of it, then in their old order."""
    random, chosen = np.random.default_rng(seed), []
    for label in range(len(data.classes)):
        rows = random.permutation(np.flatnonzero(data.y == label))
        chosen.append(rows[: max(1, int(fraction * len(rows) + 0.5))])
    kept = np.sort(np.concatenate(chosen))
    positions = None if data.positions is None else data.positions[kept]
    return replace(data, X=data.X[kept], y=data.y[kept], positions=positions)


_ENTRIES = {
    "BC": _Entry(_embedded(load_breast_cancer), "Breast Cancer Wisconsin (Diagnostic), UCI", _UCI),
    "Wine": _Entry(_embedded(load_wine), "Wine recognition, UCI", _UCI),
    "Digits": _Entry(_embedded(load_digits, (8, 8)), "Optical Recognition of Handwritten Digits, UCI", _UCI),
    "COIL20": _Entry(_coil, _COIL, _UNSTATED, _COIL_FILES),
    "IndianPines": _Entry(_scene(_CROPS, least=390), _PINES, _UNSTATED, _PINES_FILES, fraction=0.2),
    "Pavia": _Entry(_scene(_SURFACES, least=390), _PAVIA, _UNSTATED, _PAVIA_FILES, fraction=0.2),
    "PaviaCrop": _Entry(_scene(_SURFACES, least=1), _PAVIA_CROP, _UNSTATED, _CROP_FILES),
}
