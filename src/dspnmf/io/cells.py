"""Folders of counts as 10x Genomics' Cell Ranger writes them: matrix.mtx (genes x cells), names of genes, barcodes."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from dspnmf.io.columns import distinct, texts
from dspnmf.io.errors import parsing, quoted, refused
from dspnmf.io.limits import check_size
from dspnmf.io.named_arrays import as_float, check_matrix
from dspnmf.io.sandbox import ChildProcess
from dspnmf.io.table import Options, Table

_MATRIX = ("matrix.mtx", "matrix.mtx.gz")
_GENES = ("features.tsv", "features.tsv.gz", "genes.tsv", "genes.tsv.gz")
_BARCODES = ("barcodes.tsv", "barcodes.tsv.gz")
_EXPRESSION = "Gene Expression"


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
    kinds = {line[2] for line in genes if len(line) > 2}
    if len(kinds) > 1 and _EXPRESSION in kinds:  # antibodies and the like are counted in other numbers
        kept = np.array([len(line) > 2 and line[2] == _EXPRESSION for line in genes])
        X, genes = X[:, np.flatnonzero(kept)], [line for line, keep in zip(genes, kept, strict=True) if keep]
    names = [line[1] if len(line) > 1 and line[1] else line[0] for line in genes]
    return Table(X, texts(distinct(names)), texts(distinct(barcodes)), index_name="barcode")


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
