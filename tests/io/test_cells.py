"""Folders of counts as Cell Ranger writes them: cells are rows, genes have names, and damage is said."""

from __future__ import annotations

import gzip
from pathlib import Path

import h5py
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


def hdf5(path: Path, *, old: bool = False, kinds: bool = False) -> Path:
    """A file of this or the older version of Cell Ranger."""
    columns = sparse.csc_array(COUNTS)
    with h5py.File(path, "w") as file:
        group = file.create_group("GRCh38" if old else "matrix")
        for name in ("data", "indices", "indptr", "shape"):
            group[name] = np.asarray(getattr(columns, name))
        group["barcodes"] = np.array([b"AAAC-1", b"AAAG-1"])
        group["genes" if old else "features/id"] = np.array([b"ENSG1", b"ENSG2", b"ENSG3"])
        group["gene_names" if old else "features/name"] = np.array([b"TP53", b"ACTB", b"ACTB"])
        if not old:
            group["features/feature_type"] = np.array(
                [b"Gene Expression"] * 2 + [b"Antibody" if kinds else b"Gene Expression"]
            )
            group["features/genome"] = np.array([b"GRCh38"] * 3)
    return path


@pytest.mark.parametrize("old", [False, True])
def test_one_file_is_read_as_the_folder(old: bool, tmp_path: Path) -> None:
    """The HDF5 file of Cell Ranger gives the table of the folder, of this version and of the older one."""
    (tmp_path / "folder").mkdir()
    table, expected = read(hdf5(tmp_path / "x.h5", old=old)), read(folder(tmp_path / "folder"))
    np.testing.assert_array_equal(table.X.toarray(), COUNTS.T)
    assert table.features.tolist() == expected.features.tolist()
    assert table.index.tolist() == expected.index.tolist()
    assert read(hdf5(tmp_path / "kinds.h5", kinds=True)).features.tolist() == ["TP53", "ACTB"]


def test_one_file_that_is_damaged(tmp_path: Path) -> None:
    """Counts of another shape than their names, and indices outside it, are refused."""
    with h5py.File(hdf5(tmp_path / "x.h5"), "a") as file:
        file["matrix/shape"][...] = [3, 3]
    with pytest.raises(ReadError, match="its counts are 3 x 3, but there are 3 genes and 2 cells"):
        read(tmp_path / "x.h5")
    with h5py.File(hdf5(tmp_path / "y.h5"), "a") as file:
        file["matrix/indices"][...] = 7
    with pytest.raises(ReadError, match="sparse matrix"):
        read(tmp_path / "y.h5")
