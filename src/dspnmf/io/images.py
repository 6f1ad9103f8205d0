"""Folders of pictures: every picture is a sample, every pixel a feature, and a sub-folder a label."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspnmf.io.errors import library, parsing, quoted, refused
from dspnmf.io.limits import check_shape, check_size
from dspnmf.io.names import positions, texts
from dspnmf.io.options import Options
from dspnmf.io.table import Table

SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".tif", ".tiff", ".bmp")
FOLDER = "folder"
_FORMATS = ("PNG", "JPEG", "PPM", "TIFF", "BMP")  # others may run programs
_GREY = ("L", "I", "F", "I;16", "I;16B", "I;16L")  # as Pillow calls what needs no conversion


def read_images(path: Path, options: Options) -> Table:
    """A table from a folder of pictures, in the order of their names; colour becomes grey."""
    options.only(path, "a folder of pictures", "label")
    files = _files(path)
    folders = [file.parent.relative_to(path).as_posix() for file in files]
    if "." in folders and len(set(folders)) > 1:
        raise refused(path, "some pictures are in sub-folders and some are not. Put all into sub-folders, or none.")
    columns = {} if "." in folders else {FOLDER: texts(folders)}
    if options.label is not None and options.label not in columns:
        known = f"{quoted(FOLDER)} is the only label" if columns else "it has no sub-folders, which are the labels"
        raise refused(path, f"label={quoted(options.label)} is not there: {known}.")
    X, shape = _pixels(path, files)
    return Table(
        X=X,
        features=positions(X.shape[1]),
        index=texts([file.relative_to(path).as_posix() for file in files]),
        index_name="file",
        columns=columns,
        label=FOLDER if columns else None,
        picture=shape,
    )


def _files(path: Path) -> list[Path]:
    """All pictures in a folder and below it, but for hidden ones."""
    found = []
    for folder, inside, names in os.walk(path):
        inside[:] = [name for name in inside if not name.startswith(".")]
        found += [Path(folder, name) for name in names if name.lower().endswith(SUFFIXES) and not name.startswith(".")]
    if not found:
        raise refused(
            path, f"there is no picture in this folder ({', '.join(SUFFIXES)}). Name another folder, or a file."
        )
    return sorted(found, key=lambda file: file.relative_to(path).as_posix())


def _pixels(path: Path, files: list[Path]) -> tuple[NDArray[np.float32], tuple[int, int]]:
    """One picture a row, in float32, which holds every grey value of 8 and 16 bits exactly."""
    image = library("PIL.Image", "cli", path)
    first = _grey(image, files[0])
    check_shape(path, (len(files), first.size), 4, sum(file.stat().st_size for file in files))
    X = np.empty((len(files), first.size), np.float32)
    for row, file in enumerate(files):
        pixels = first if row == 0 else _grey(image, file)
        if pixels.shape != first.shape:
            raise refused(
                file,
                f"it has {pixels.shape[0]} x {pixels.shape[1]} pixels, but {files[0].name} has {first.shape[0]} x "
                f"{first.shape[1]}. All pictures must have the same size: crop or scale them first.",
            )
        X[row] = pixels.ravel()
    return X, (int(first.shape[0]), int(first.shape[1]))


def _grey(image: Any, file: Path) -> NDArray[Any]:
    """The grey values of one picture."""
    with parsing(file, "picture"), image.open(file, formats=_FORMATS) as picture:
        width, height = picture.size
        check_size(file, 4 * width * height, f"{width:,} x {height:,} pixels")
        if getattr(picture, "n_frames", 1) > 1:
            raise refused(file, f"it has {picture.n_frames} pictures in it, but must have one. Split it.")
        grey = picture if picture.mode in _GREY else picture.convert("L")
        return np.asarray(grey)
