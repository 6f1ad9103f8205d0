"""Folders of counts as Cell Ranger writes them: cells are rows, genes have names, and damage is said."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse

from dspnmf.io import ReadError, read

COUNTS = np.array([[3, 0], [0, 5], [1, 2]])  # three genes x two cells


def folder(path: Path, *, zipped: bool = False, old: bool = False, kinds: bool = False) -> Path:
    """A folder of this or the older version of Cell Ranger."""
    io.mmwrite(path / "matrix.mtx", sparse.coo_matrix(COUNTS), field="integer")
    genes = ["ENSG1\tTP53", "ENSG2\tACTB", "ENSG3\tACTB"]
    if not old:
        genes = [f"{gene}\t{kind}" for gene, kind in zip(genes, ("Gene Expression",) * 3, strict=True)]
    if kinds:
        genes[2] = "CD3\tCD3\tAntibody Capture"
    (path / ("genes.tsv" if old else "features.tsv")).write_text("\n".join(genes) + "\n")
    (path / "barcodes.tsv").write_text("AAAC-1\nAAAG-1\n")
    if zipped:
        for file in list(path.iterdir()):
            (path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    return path


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_cells_are_rows(zipped: bool, old: bool, tmp_path: Path) -> None:
    """The matrix is turned round; genes have their symbols, a second one a number, and cells their barcodes."""
    table = read(folder(tmp_path, zipped=zipped, old=old))
    assert sparse.issparse(table.X)
    np.testing.assert_array_equal(table.X.toarray(), COUNTS.T)
    assert (table.features.tolist(), table.index.tolist()) == (["TP53", "ACTB", "ACTB.1"], ["AAAC-1", "AAAG-1"])
    assert table.index_name == "barcode"


def test_only_genes_are_features(tmp_path: Path) -> None:
    """Antibodies counted along with genes are left out."""
    table = read(folder(tmp_path, kinds=True))
    assert table.features.tolist() == ["TP53", "ACTB"]
    np.testing.assert_array_equal(table.X.toarray(), COUNTS[:2].T)


def test_missing_and_foreign_files_are_said(tmp_path: Path) -> None:
    """A folder without names, or with those of another run, is refused with what is wrong."""
    (folder(tmp_path) / "barcodes.tsv").write_text("AAAC-1\n")
    with pytest.raises(ReadError, match=r"matrix\.mtx is 3 x 2, but there are 3 genes and 1 cells"):
        read(tmp_path)
    (tmp_path / "features.tsv").unlink()
    with pytest.raises(ReadError, match=r"no 'features\.tsv' with the names of the genes"):
        read(tmp_path)
