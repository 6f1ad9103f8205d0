"""One way to read any file of data: by the end of its name, or by what is in a folder."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from dspnmf.io.arrays import read_npy, read_npz
from dspnmf.io.errors import ReadError, plain, quoted, refused
from dspnmf.io.h5ad import read_h5ad
from dspnmf.io.images import SUFFIXES as PICTURES
from dspnmf.io.images import read_images
from dspnmf.io.market import read_market
from dspnmf.io.matlab import read_mat
from dspnmf.io.options import Options
from dspnmf.io.parquet import read_parquet
from dspnmf.io.stores import read_hdf5, read_zarr
from dspnmf.io.table import Table
from dspnmf.io.text import read_text

_Reader = Callable[[Path, Options], Table]
_TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".psv")
_READERS: dict[str, _Reader] = {
    **dict.fromkeys(_TEXT, read_text),
    **dict.fromkeys((".parquet", ".pq"), read_parquet),
    ".npy": read_npy,
    ".npz": read_npz,
    ".mtx": read_market,
    ".mat": read_mat,
    ".h5ad": read_h5ad,
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), read_hdf5),
}
_KNOWN = (
    ".csv, .tsv, .txt (also .gz), .parquet, .npy, .npz, .mtx (also .gz), .mat, .h5ad, .h5, .hdf5, a .zarr folder, or a "
    "folder of pictures"
)
_BEGINNINGS = {  # of files that may have a wrong name, and the names they should have
    b"PAR1": ("a Parquet file", ".parquet"),
    b"\x93NUMPY": ("a NumPy array", ".npy"),
    b"PK\x03\x04": ("a zip archive (if it is a spreadsheet, save it as CSV)", ".npz"),
    b"\x89HDF\r\n\x1a\n": ("an HDF5 file", ".h5 or .h5ad"),
    b"MATLAB ": ("a MATLAB file", ".mat"),
    b"%%MatrixMarket": ("a Matrix Market file", ".mtx"),
    b"\x1f\x8b": ("a gzip file", ".gz"),
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
) -> Table:
    r"""Read a file of data into a table of numbers with names.

    float32 stays float32 and everything else becomes float64; grey values of pictures become float32. Negative numbers
    and NaN (for empty cells, NA, nan, null, ?) are read as they are. Files are not trusted: nothing is unpickled or
    executed, and a file that claims to be larger than it can be is refused before memory is taken for it.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.txt`` and the like, also compressed (``.gz``); ``.parquet``; ``.npy``; ``.npz`` (arrays,
        or a SciPy sparse matrix); ``.mtx``, also ``.mtx.gz``; ``.mat``; ``.h5ad``; ``.h5``, ``.hdf5``; a Zarr folder;
        or a folder of pictures of one size. Arrays above 1 GiB in .npy, Zarr and HDF5 stay in the file.
    label : str, optional
        Which column has the labels; in files of arrays (.npz, .mat, .h5, Zarr) which other array has them.
    index : str, optional
        Which column names the rows. By default the first column, if it is text that differs in every row or has no
        name where others have one; in Parquet and .h5ad the index that is noted there.
    delimiter : str, optional
        What parts the cells of a text file, such as ";" or "tab"; " " is any white space. By default what fits best.
    header : bool, optional
        Whether the first row of a text file has names. By default it has if a text is above numbers, or if its numbers
        can only be names: 0, 1, 2... or eight and more that rise (wave lengths).
    variable : str, optional
        Which array to read, in files that have several.
    exclude : sequence of str
        Columns that are no features, although they may have numbers; they are kept in ``columns``.

    Returns
    -------
    table : Table
        Columns of text are in ``columns`` and are no features. A scene of height x width x bands (.mat) becomes pixels
        x bands, with its ``grid``. A second feature of the same name "a" becomes "a.1".

    Raises
    ------
    ReadError
        With one line or two that name the file, what is wrong and where, and what to do: rows of different length, a
        text in a column of numbers, bytes that are no UTF-8, a file that is cut off...

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
    options = Options(
        label, index, delimiter, header, variable, (exclude,) if isinstance(exclude, str) else tuple(exclude)
    )
    try:
        reader = _reader(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries say of damaged files is said by the error, or is no matter
            return reader(path, options)
    except ReadError as error:
        hint = _mistaken(path)
        if not hint:
            raise
        raise ReadError(f"{error} {hint}") from error
    except OSError as error:
        raise refused(
            path, f"it cannot be read ({plain(error.strerror or error)}). Check the file and its rights."
        ) from error


def _reader(path: Path) -> _Reader:
    """What reads a path."""
    name = path.name.lower()
    if path.is_dir():
        marks = ("zarr.json", ".zarray", ".zgroup")
        return read_zarr if name.endswith(".zarr") or any((path / mark).is_file() for mark in marks) else read_images
    if not path.exists():
        close = difflib.get_close_matches(path.name, _neighbours(path), n=2)
        hint = f"Is it {' or '.join(map(quoted, close))}?" if close else "Check the name and the folder."
        raise refused(path, f"there is no such file. {hint}")
    if not path.is_file():
        raise refused(path, "it is no file, but a pipe or a device. Save the data in a file.")
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in _READERS or (name.endswith(".gz") and suffix not in (*_TEXT, ".mtx")):
        what = (
            "it is one picture, which is one sample: name the folder" if suffix in PICTURES else "its type is not known"
        )
        raise refused(path, f"{what}. Known are {_KNOWN}.")
    if not path.stat().st_size:
        raise refused(path, "it is empty. Check how it was made.")
    return _READERS[suffix]


def _neighbours(path: Path) -> list[str]:
    """Names of files in the same folder, of which one may be meant."""
    try:
        return sorted(os.listdir(path.parent))[:1000]  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def _mistaken(path: Path) -> str:
    """A hint where the beginning of a file says something else than its name."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        begin = file.read(16)
    for mark, (what, suffix) in _BEGINNINGS.items():
        if begin.startswith(mark) and path.suffix.lower() not in (
            suffix,
            ".h5",
            ".hdf5",
            ".hdf",
            ".h5ad",
            ".mat",
            ".pq",
        ):
            return f"It begins like {what}: should its name end in {suffix}?"
    return ""
