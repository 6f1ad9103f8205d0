"""HDF5 and AnnData files become tables; no other file is opened."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy import sparse

import fuzz_files
from dspnmf.io import ReadError, read, sandbox
from io_helpers import X, dense, write_hdf5


def test_hdf5(tmp_path: Path) -> None:
    """The only matrix of a file is X, wherever it is; others by their paths, with labels beside them."""
    path = write_hdf5(tmp_path / "x.h5", **{"deep/er/X": X.astype("f4"), "y": np.arange(6)})
    found = read(path, label="y")
    assert np.array_equal(found.X, X.astype("f4"))
    assert found.X.dtype == np.float32
    assert found.labels is not None
    assert found.labels.tolist() == list(range(6))
    write_hdf5(path, a=X, b=X[:2], words=[b"one", b"two"])
    found = read(path, variable="/b", label="words")
    assert found.X.shape == (2, 4)
    assert found.columns["words"].tolist() == ["one", "two"]


def test_large_datasets_stay_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 1 GiB X is an HDF5 dataset, so that a fit reads it in blocks."""
    monkeypatch.setattr(sandbox, "IN_MEMORY", 10)
    found = read(write_hdf5(tmp_path / "x.h5", X=X)).X
    assert isinstance(found, h5py.Dataset)
    assert np.array_equal(found[...], X)
    found.file.close()


def test_hdf5_opens_no_other_file(tmp_path: Path) -> None:
    """Links and datasets that lie in other files are refused, whatever those are."""
    secret = write_hdf5(tmp_path / "secret.h5", X=X)
    (tmp_path / "secret.bin").write_bytes(X.tobytes())
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(secret, "X", X.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(secret), "X")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", X.shape, X.dtype, external=[(str(tmp_path / "secret.bin"), 0, X.nbytes)])
    for name in ("link", "virtual", "raw"):
        with pytest.raises(ReadError, match="in another file, which is not opened"):
            read(tmp_path / "x.h5", variable=name)


def test_hdf5_follows_no_link_through_another_file(tmp_path: Path) -> None:
    """A link inside the file that leads through a link to another file is refused as well."""
    secret = write_hdf5(tmp_path / "secret.h5", **{"deep/X": X})
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["outside"] = h5py.ExternalLink(str(secret), "deep")
        file["inside"] = h5py.SoftLink("/outside/X")
    with pytest.raises(ReadError, match="in another file, which is not opened"):
        read(tmp_path / "x.h5", variable="inside")


def test_hdf5_groups_that_only_look_like_an_array(tmp_path: Path) -> None:
    """Groups of arrays called data, values or mask are groups, unless they say that they are one array."""
    content = {"a/data": X, "a/ir": X[:2], "a/jc": X[:3], "b/values": X[:, :3], "b/mask": X > 0.5}
    path = write_hdf5(tmp_path / "x.h5", **content)
    for name in content:
        assert np.array_equal(read(path, variable=name).X, content[name])


@pytest.mark.parametrize("thin", [False, True])
def test_anndata(tmp_path: Path, thin: bool) -> None:
    """X, names of cells and genes, and columns about cells, with categories by their names."""
    values = np.random.default_rng(0).random((fuzz_files.ROWS, fuzz_files.COLUMNS))
    path = tmp_path / "x.h5ad"
    with h5py.File(path, "w") as file:
        fuzz_files.anndata(file, values, thin)
        file["layers/counts"] = 2 * values
        file["obs/depth"] = np.arange(12.0)
        file["obs/odd"] = np.zeros(3)
        file["obs/flag/values"], file["obs/flag/mask"] = np.arange(12), np.arange(12) == 1
    found = read(path, label="kind")
    expected = np.where(values > 0.5, values, 0).astype("f4") if thin else values
    assert sparse.issparse(found.X) == thin
    assert np.array_equal(dense(found), expected)
    assert found.features.tolist() == [f"var{gene}" for gene in range(5)]
    assert found.index.tolist() == [f"obs{cell}" for cell in range(12)]
    assert found.index_name == "names"
    assert found.labels is not None
    assert found.labels.tolist()[:3] == ["", "a", "b"]
    assert found.columns["depth"].tolist() == list(range(12))
    assert np.isnan(found.columns["flag"][1])
    assert "odd" not in found.columns
    assert np.array_equal(read(path, variable="layers/counts").X, 2 * values)
    with pytest.raises(ReadError, match=r"it has no column 'kinds'\. Is it 'kind'"):
        read(path, label="kinds")
