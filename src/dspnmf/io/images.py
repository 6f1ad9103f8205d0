"""Folders of images, through Pillow: every image is a sample, every pixel a feature, and a sub-folder a label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf._option_words import option
from dspnmf.io.columns import positions, texts
from dspnmf.io.errors import library, parsing, plain, quoted, refused
from dspnmf.io.limits import check_array, check_size
from dspnmf.io.table import Options, Table

SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".tif", ".tiff", ".bmp")
_FOLDER = "folder"
_FORMATS = ("PNG", "JPEG", "PPM", "TIFF", "BMP")  # others may run programs
_GREY = ("L", "I", "F", "I;16", "I;16B", "I;16L")  # as Pillow calls what needs no conversion


def read_images(path: Path, options: Options) -> Table:
    """A table from a folder of images, in the order of their names; colour becomes grey."""
    relative = [file.relative_to(path) for file in path.rglob("*") if file.suffix.lower() in SUFFIXES]
    shown = sorted(file.as_posix() for file in relative if not any(part.startswith(".") for part in file.parts))
    if not shown:
        what = f"there is no image in this folder ({', '.join(SUFFIXES)})"
        raise refused(path, f"{what}. Name another folder, or a file.")
    folders = [Path(name).parent.as_posix() for name in shown]
    if "." in folders and len(set(folders)) > 1:
        raise refused(path, "some images are in sub-folders and some are not. Put all into sub-folders, or none.")
    columns = {} if "." in folders else {_FOLDER: texts(folders)}
    if options.label is not None and options.label not in columns:
        known = f"{quoted(_FOLDER)} is the only label" if columns else "it has no sub-folders, which are the labels"
        raise refused(path, f"{option('label', plain(options.label))} is not there: {known}.")
    X, shape = _pixels(path, [path / name for name in shown])
    return Table(
        X=X,
        features=positions(X.shape[1]),
        index=texts(shown),
        index_name="file",
        columns=columns,
        label=_FOLDER if columns else None,
        picture=shape,
    )


def _pixels(path: Path, files: list[Path]) -> tuple[NDArray[np.float32], tuple[int, int]]:
    """One image per row, in float32, which holds every grey value of 8 and 16 bits exactly."""
    first = _grey(files[0])
    check_array(path, (len(files), first.size), 4 * len(files) * first.size, sum(file.stat().st_size for file in files))
    X = np.empty((len(files), first.size), np.float32)
    for row, file in enumerate(files):
        pixels = first if row == 0 else _grey(file)
        if pixels.shape != first.shape:
            raise refused(
                file,
                f"it has {pixels.shape[0]} x {pixels.shape[1]} pixels, but {files[0].name} has {first.shape[0]} x "
                f"{first.shape[1]}. All images must have the same size: crop or scale them first.",
            )
        X[row] = pixels.ravel()
    return X, (first.shape[0], first.shape[1])


def _grey(file: Path) -> NDArray[Any]:
    """The grey values of one image."""
    with parsing(file, "image"), library("PIL.Image", "cli", file).open(file, formats=_FORMATS) as image:
        width, height = image.size
        check_size(file, 4 * width * height, f"{width:,} x {height:,} pixels")
        if getattr(image, "n_frames", 1) > 1:
            raise refused(file, f"it has {image.n_frames} images in it, but must have one. Split it.")
        return np.asarray(image if image.mode in _GREY else image.convert("L"))
