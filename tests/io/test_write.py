"""Codes are written so that `read` finds every number and every name again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dspnmf.io import read, write_codes
from dspnmf.io.cell_units import CODES

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.just(np.inf)


@settings(max_examples=40, deadline=None)
@given(Z=arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3)), elements=numbers), data=st.data())
def test_codes_come_back(tmp_path_factory: pytest.TempPathFactory, Z: np.ndarray, data: st.DataObject) -> None:
    """What write_codes writes, read reads: every number to the last bit and every name, whatever is in it."""
    assume(not np.isin(Z, CODES).any())  # which mean that a value is missing, and codes are never negative
    folder = tmp_path_factory.mktemp("codes")
    names = [f"component {number}" for number in range(Z.shape[1])]
    index = data.draw(st.lists(texts, min_size=len(Z), max_size=len(Z), unique=True))
    called = data.draw(st.sampled_from(["", "who, exactly"]))
    for suffix in (".csv", ".tsv", ".parquet"):
        path = folder / f"codes{suffix}"
        write_codes(path, Z, index, called, names)
        found = read(path, index=called or None)
        assert found.X.tolist() == Z.tolist()
        assert found.index.tolist() == index
        assert (found.index_name, found.features.tolist()) == (called, names)


def test_codes_keep_their_precision(tmp_path: Path) -> None:
    """float32 codes are written with as few digits as they need, and Parquet keeps the type."""
    Z = np.random.default_rng(0).random((5, 2), dtype=np.float32)
    index = [str(row) for row in range(5)]
    for name in ("codes.csv", "codes.parquet"):
        write_codes(tmp_path / name, Z, index, "", ["a", "b"])
        assert np.array_equal(read(tmp_path / name).X.astype(np.float32), Z)
    assert read(tmp_path / "codes.parquet").X.dtype == np.float32
    assert pd.read_parquet(tmp_path / "codes.parquet").index.tolist() == index
    assert str(Z[0, 0]) in (tmp_path / "codes.csv").read_text()


def test_codes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A wrong ending or names that do not fit are errors, and the old file stays."""
    (tmp_path / "codes.csv").write_text("old")
    with pytest.raises(ValueError, match="1 rows and 2 columns have names"):
        write_codes(tmp_path / "codes.csv", np.ones((2, 2)), ["a"], "", ["x", "y"])
    with pytest.raises(ValueError, match=r"ends in '\.xls'"):
        write_codes(tmp_path / "codes.xls", np.ones((1, 2)), ["a"], "", ["x", "y"])
    assert [file.name for file in tmp_path.iterdir()] == ["codes.csv"]
    assert (tmp_path / "codes.csv").read_text() == "old"
