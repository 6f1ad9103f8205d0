"""One way to read any file of data: by the end of its name, or by what is in a folder."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dspnmf._option_words import option
from dspnmf.io.arrays import read_in_child, read_mat, read_npy, read_zarr
from dspnmf.io.cells import is_cell_folder, read_cells, read_hdf5
from dspnmf.io.errors import ReadError, plain, quoted, refused
from dspnmf.io.h5ad import read_h5ad
from dspnmf.io.images import SUFFIXES as IMAGES
from dspnmf.io.images import read_images
from dspnmf.io.orientation import oriented
from dspnmf.io.parquet import read_parquet
from dspnmf.io.spreadsheet import SUFFIXES as SPREADSHEETS
from dspnmf.io.spreadsheet import instead, read_spreadsheet
from dspnmf.io.table import Options, Table
from dspnmf.io.text import read_text


class _Format(NamedTuple):
    """A format of files: what it is called, how names end, what reads it, and the options that mean something."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, Options], Table]
    options: tuple[str, ...] = ()


_NAMED = ("variable", "label", "transpose")  # options of formats with named arrays
_COLUMNS = ("label", "index", "exclude", "include", "transpose")
_TEXT_OPTIONS = (*_COLUMNS, "delimiter", "header", "decimal", "thousands", "encoding", "skip_rows", "na")
_TEXT = _Format("a text file", (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".psv"), read_text, _TEXT_OPTIONS)
_SHEET_OPTIONS = (*_COLUMNS, "variable", "header", "decimal", "thousands", "skip_rows", "na")
_SHEET = _Format("a spreadsheet", SPREADSHEETS, read_spreadsheet, _SHEET_OPTIONS)
_MTX = _Format("a .mtx file", (".mtx",), partial(read_in_child, kind="matrix_market"), ("transpose",))
_ZARR = _Format("a Zarr store", (".zarr",), read_zarr, _NAMED)
_CELLS = _Format("a folder of counts of cells (matrix.mtx)", (), read_cells)
_IMAGES = _Format("a folder of images", (), read_images, ("label",))
_FORMATS = (
    _TEXT,
    _SHEET,
    _MTX,
    _Format("a Parquet file", (".parquet", ".pq"), read_parquet, _COLUMNS),
    _Format("a .npy file", (".npy",), read_npy, ("transpose",)),
    _Format("a .npz file", (".npz",), partial(read_in_child, kind="npz"), _NAMED),
    _Format("a .mat file", (".mat",), read_mat, _NAMED),
    _Format("a .h5ad file", (".h5ad",), read_h5ad, _NAMED),
    _Format("an HDF5 file", (".h5", ".hdf5", ".hdf"), read_hdf5, _NAMED),
)
_KNOWN = (
    ".csv, .tsv, .txt (also .gz), .xlsx, .parquet, .npy, .npz, .mtx (also .gz), .mat, .h5ad, .h5, .hdf5, a .zarr "
    "folder, a folder of images, or a folder with matrix.mtx, genes and barcodes"
)
_BEGINNINGS = {  # of files that may have a wrong name, and how their names should end
    b"PAR1": (".parquet", ".pq"),
    b"\x93NUMPY": (".npy",),
    b"PK\x03\x04": (".xlsx", ".xlsm", ".npz"),
    b"\xd0\xcf\x11\xe0": (".xls",),
    b"\x89HDF\r\n\x1a\n": (".h5", ".h5ad", ".hdf5", ".hdf", ".mat"),
    b"MATLAB ": (".mat",),
    b"%%MatrixMarket": (".mtx",),
    b"\x1f\x8b": (".gz",),
}


def read(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    index: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    variable: str | None = None,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    skip_rows: int | None = None,
    na: Sequence[str] = (),
    transpose: bool | None = None,
) -> Table:
    r"""Read a file of data into a table of numbers with names.

    float32 stays float32 and everything else becomes float64; grey values of images become float32. Negative numbers
    are read as they are; empty cells and words for missing values (NA, n.d., <LOD, -, #N/A, ...) become NaN. What a
    text file does not say about itself is found from all of it, and ``table.assumed`` says what was. Files are not
    trusted: nothing is unpickled or executed, and a file that claims to be larger than it can be is refused before
    memory is taken for it.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.txt`` and the like, also ``.gz``; ``.xlsx``; ``.parquet``; ``.npy``; ``.npz`` (arrays,
        or a SciPy sparse matrix); ``.mtx``, also ``.mtx.gz``; ``.mat``; ``.h5ad``; ``.h5``, ``.hdf5``; a Zarr folder; a
        folder of images of one size; or a folder of counts of single cells (``matrix.mtx``, ``features.tsv`` or
        ``genes.tsv``, ``barcodes.tsv``, also ``.gz``), which is genes x cells and becomes cells x genes, as do ``.h5``
        files of Cell Ranger. Arrays above 1 GiB in .npy, Zarr and HDF5 stay in the file.
    label : str, optional
        Which column has the labels; in files of arrays (.npz, .mat, .h5, Zarr) which other array has them.
    index : str, optional
        Which column names the rows. By default the first column, if it is text that differs in every row or has no
        name where others have one; in Parquet and .h5ad the index that is noted there.
    delimiter : str, optional
        What separates the cells of a text file, such as ";" or "tab"; " " is any blank. By default what fits best.
    header : bool, optional
        Whether the first row of a text file has names. By default it has if a text is above numbers, or if its numbers
        can only be names: 0, 1, 2... or eight and more that rise or fall (wave lengths). A second row of text has
        units, or names within the groups of the first.
    variable : str, optional
        Which array or sheet to read, in files that have several. By default the first sheet with numbers.
    exclude : sequence of str
        Columns that are not features, although they may have numbers; they are kept in ``columns``.
    include : sequence of str
        Columns of numbers that are features, although they look like row numbers, ids, labels, an axis or the time,
        which are left out by default (``table.left_out`` says why).
    decimal : {".", ","}, optional
        The decimal mark of a text file. By default the one that most cells are written with.
    thousands : {".", ",", " ", "'", "none"}, optional
        What separates thousands in a text file. By default what all cells agree with; a file in which 3.255 may be
        3.255 or 3255 is refused with the question.
    encoding : str, optional
        The encoding of a text file, such as "latin-1". By default UTF-8 or UTF-16, and Windows-1252 for what is
        neither.
    skip_rows : int, optional
        Lines above the table of a text file. By default lines that are shorter than the rows below them, and comments.
    na : sequence of str
        More words for missing values in a text file.
    transpose : bool, optional
        Whether samples are in columns. By default they are in rows, unless the first column is the axis of spectra,
        such as a wavelength, as files of instruments have it.

    Returns
    -------
    table : Table
        Columns of text are in ``columns`` and are not features. A scene of height x width x bands (.mat) becomes pixels
        x bands, with its ``grid``. A second feature of the same name "a" becomes "a.1".

    Raises
    ------
    ReadError
        With one line or two that name the file, what is wrong and where, and what to do: rows of different length, a
        text in a column of numbers, numbers that can be read in two ways, a file that is cut off...

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dspnmf.io import read
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "plants.csv"
    ...     _ = file.write_text("plant;height;width;kind\nrose;1,5;;red\niris;2;0,5;blue\n")
    ...     table = read(file, label="kind")
    >>> table.X
    array([[1.5, nan],
           [2. , 0.5]])
    >>> table.features.tolist(), table.index.tolist(), table.labels.tolist()
    (['height', 'width'], ['rose', 'iris'], ['red', 'blue'])
    """
    path = Path(path)
    excluded, included, missing = (
        (given,) if isinstance(given, str) else tuple(given) for given in (exclude, include, na)
    )
    options = Options(
        label,
        index,
        delimiter,
        header,
        variable,
        excluded,
        included,
        decimal,
        thousands,
        encoding,
        skip_rows,
        missing,
        transpose,
    )
    try:
        form = _format(path)
        for name, value in vars(options).items():
            if name not in form.options and value not in (None, ()):
                known = f"it takes {', '.join(map(option, form.options)) or 'no options'}"
                shown = option(name, plain(" ".join(map(str, value)) if isinstance(value, tuple) else value))
                raise refused(path, f"{shown} means nothing for {form.name}: {known}.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries say of damaged files is in the error, or does not matter
            return oriented(path, form.read(path, options), options)
    except ReadError as error:
        hint = _other_format(path)
        if not hint:
            raise
        raise ReadError(f"{error.template} {hint}") from error
    except OSError as error:
        what = f"it cannot be read ({plain(error.strerror or error)})"
        raise refused(path, f"{what}. Check the file and its permissions.") from error


def _format(path: Path) -> _Format:
    """The format of a file or folder."""
    name = path.name.lower()
    if path.is_dir():
        if is_cell_folder(path):
            return _CELLS
        marks = ("zarr.json", ".zarray", ".zgroup")
        return _ZARR if name.endswith(".zarr") or any((path / mark).is_file() for mark in marks) else _IMAGES
    if not path.exists():
        others = sorted(file.name for file in path.parent.iterdir())[:1000] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, others, n=2)
        hint = f"Is it {' or '.join(map(quoted, close))}?" if close else "Check the name and the folder."
        raise refused(path, f"there is no such file. {hint}")
    if not path.is_file():
        raise refused(path, "it is not a file, but a pipe or a device. Save the data in a file.")
    suffix = Path(name.removesuffix(".gz")).suffix
    form = next((form for form in _FORMATS if suffix in form.suffixes), None)
    if form is None or (name.endswith(".gz") and form not in (_TEXT, _MTX)):
        if other := instead(path):
            raise refused(path, f"{other}.")
        image = "it is one image, which is one sample: name the folder"
        raise refused(path, f"{image if suffix in IMAGES else 'its type is not known'}. Known are {_KNOWN}.")
    if not path.stat().st_size:
        raise refused(path, "it is empty. Check how it was made.")
    return form


def _other_format(path: Path) -> str:
    """A hint where the beginning of a file is that of another format than its name says."""
    if not path.is_file() or instead(path):
        return ""
    with path.open("rb") as file:
        begin = file.read(16)
    for mark, suffixes in _BEGINNINGS.items():
        if begin.startswith(mark) and path.suffix.lower() not in suffixes:
            kind = " or ".join(suffixes[::2]) if ".npz" in suffixes else suffixes[0]
            return f"It begins like a {kind} file: should its name end so?"
    return ""
