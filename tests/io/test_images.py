"""Folders of images become tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspnmf.io import ReadError, read
from io_helpers import save_images


def test_images(tmp_path: Path) -> None:
    """Images are rows in the order of their names, colour becomes grey, and sub-folders are labels."""
    grey = np.arange(12, dtype="u1").reshape(3, 4)
    colour = np.stack([grey] * 3, -1)
    save_images(tmp_path / "a", b__2_png=grey, b__1_tif=colour, a__9_pgm=grey + 1, c_txt_bmp=grey)
    with pytest.raises(ReadError, match="some images are in sub-folders and some are not"):
        read(tmp_path / "a")
    (tmp_path / "a" / "c.txt.bmp").unlink()
    (tmp_path / "a" / "b" / "._2.png").write_bytes(b"what a Mac leaves behind")
    found = read(tmp_path / "a")
    assert found.index.tolist() == ["a/9.pgm", "b/1.tif", "b/2.png"]
    assert (found.index_name, found.label, found.picture) == ("file", "folder", (3, 4))
    assert found.labels is not None
    assert found.labels.tolist() == ["a", "b", "b"]
    assert found.X.dtype == np.float32
    assert np.array_equal(found.X, np.stack([grey + 1, grey, grey]).reshape(3, 12))


def test_images_of_16_bits(tmp_path: Path) -> None:
    """Grey values of 16 bits are kept exactly."""
    deep = np.arange(12, dtype="u2").reshape(3, 4) * 5000
    save_images(tmp_path, a_png=deep, b_tif=deep)
    found = read(tmp_path)
    assert np.array_equal(found.X, np.stack([deep, deep]).reshape(2, 12))
    assert found.label is None


def test_images_that_do_not_fit(tmp_path: Path) -> None:
    """The first image of another size, one that is cut off and a folder without any are named."""
    save_images(tmp_path, a_png=np.arange(12, dtype="u1").reshape(3, 4), b_png=np.zeros((4, 3), "u1"))
    with pytest.raises(ReadError, match=r"b\.png: it has 4 x 3 pixels, but a\.png has 3 x 4"):
        read(tmp_path)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:50])
    with pytest.raises(ReadError, match=r"b\.png: it is not a readable image"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match="there is no image in this folder"):
        read(tmp_path / "empty")
    with pytest.raises(ReadError, match="it is one image, which is one sample: name the folder"):
        read(tmp_path / "a.png")
