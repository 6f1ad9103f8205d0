"""Counts as Cell Ranger (10x Genomics) writes them: folders of matrix.mtx (genes x cells) and names, or HDF5 files."""

from __future__ import annotations

import gzip
from pathlib import Path

from scipy import sparse

from dspnmf.io.columns import distinct, texts
from dspnmf.io.errors import parsing, quoted, refused
from dspnmf.io.limits import check_size
from dspnmf.io.named_arrays import as_float, check_matrix, sparse_array, table_of_arrays
from dspnmf.io.sandbox import ChildProcess
from dspnmf.io.table import Options, Table

_MATRIX = ("matrix.mtx", "matrix.mtx.gz")
_GENES = ("features.tsv", "features.tsv.gz", "genes.tsv", "genes.tsv.gz")
_BARCODES = ("barcodes.tsv", "barcodes.tsv.gz")
_EXPRESSION = "Gene Expression"
_SPARSE = ("data", "indices", "indptr", "shape")
_KINDS = "features/feature_type"
_NAMES = ("features/name", "features/id", "gene_names", "genes", _KINDS, "barcodes")  # symbols before identifiers


def is_cell_folder(path: Path) -> bool:
    """Whether a folder holds a matrix of counts."""
    return any((path / name).is_file() for name in _MATRIX)


def read_cells(path: Path, options: Options) -> Table:
    """A table of cells x genes; of several kinds of features only the genes."""
    matrix = _member(path, _MATRIX, "the counts")
    genes = _lines(_member(path, _GENES, "the names of the genes"))
    barcodes = [line[0] for line in _lines(_member(path, _BARCODES, "the names of the cells"))]
    with ChildProcess(matrix, "matrix_market") as file:
        info = file.arrays["matrix"]
        info.check_real(matrix, "matrix")
        check_matrix(matrix, info.shape, "matrix")
        if info.shape != (len(genes), len(barcodes)):
            what = f"{matrix.name} is {info.shape[0]:,} x {info.shape[1]:,}, but there are {len(genes):,} genes and "
            raise refused(path, f"{what}{len(barcodes):,} cells: the files are not of one run. Copy the folder again.")
        X = as_float(file.load("matrix")).T.tocsr()
    kinds = [line[2] if len(line) > 2 else "" for line in genes]
    return _table(X, [line[1] if len(line) > 1 and line[1] else line[0] for line in genes], kinds, barcodes)


def read_hdf5(path: Path, options: Options) -> Table:
    """A table from an HDF5 file: of cells x genes if Cell Ranger wrote it, else of its only matrix."""
    with ChildProcess(path, "hdf5") as file:
        group = _group(file)
        if group is None or options.variable or options.label:
            return table_of_arrays(path, file.arrays, file.load, options)
        parts = {part: file.load(f"{group}{part}") for part in _SPARSE}
        names = {part: [*map(str, file.load(f"{group}{part}"))] for part in _NAMES if f"{group}{part}" in file.arrays}
    genes = next(names[part] for part in _NAMES if part in names)
    shape = tuple(int(length) for length in parts["shape"].ravel())
    if shape != (len(genes), len(names["barcodes"])):
        what = f"its counts are {' x '.join(map(str, shape))}, but there are {len(genes):,} genes and "
        raise refused(path, f"{what}{len(names['barcodes']):,} cells: it is damaged. Copy it again.")
    X = sparse_array(path, "csr", parts, shape[::-1])  # columns of genes x cells are rows of cells x genes
    return _table(X, genes, names.get(_KINDS, [""] * len(genes)), names["barcodes"])


def _group(file: ChildProcess) -> str | None:
    """The group of an HDF5 file that holds counts, with its slash."""
    for name in file.arrays:
        group = name.removesuffix("barcodes")
        inside = {other.removeprefix(group) for other in file.arrays if other.startswith(group)}
        if name.endswith("/barcodes") and inside.issuperset(_SPARSE) and not inside.isdisjoint(_NAMES[:4]):
            return group
    return None


def _table(X: sparse.csr_array, genes: list[str], kinds: list[str], barcodes: list[str]) -> Table:
    """The table; of several kinds of features only genes, as antibodies and the like are counted in other numbers."""
    if len(set(kinds)) > 1 and _EXPRESSION in kinds:
        kept = [at for at, kind in enumerate(kinds) if kind == _EXPRESSION]
        X, genes = X[:, kept], [genes[at] for at in kept]
    return Table(X, texts(distinct(genes)), texts(distinct(barcodes)), index_name="barcode")


def _member(path: Path, names: tuple[str, ...], what: str) -> Path:
    """The file of the folder that has one of these names."""
    found = [path / name for name in names if (path / name).is_file()]
    if not found:
        raise refused(path, f"it has no {quoted(names[0])} with {what}. Copy the whole folder of Cell Ranger.")
    return found[0]


def _lines(path: Path) -> list[list[str]]:
    """The cells of each line of a file of names."""
    with parsing(path, "file of names"), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        text = bytearray()
        while part := file.read(2**20):
            text += part
            check_size(path, 4 * len(text), "names")
        return [line.split("\t") for line in text.decode("utf-8").splitlines()]
