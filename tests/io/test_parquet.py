"""Parquet files become tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dspnmf.io import ReadError, read


def test_parquet(tmp_path: Path) -> None:
    """Columns of numbers are features, gaps are NaN, pandas' index is the index, the others are kept as they are."""
    path = tmp_path / "x.parquet"
    frame = pd.DataFrame({"a": [1.5, None], "kind": pd.Categorical(["u", "v"]), "n": [1, 2], "ok": [True, False]})
    frame.index = pd.Index(["r1", "r2"], name="row")
    frame.to_parquet(path)
    found = read(path, label="kind")
    assert np.array_equal(found.X, [[1.5, 1], [np.nan, 2]], equal_nan=True)
    assert (found.index.tolist(), found.index_name) == (["r1", "r2"], "row")
    assert found.columns["ok"].tolist() == [True, False]
    assert found.labels is not None
    assert found.labels.tolist() == ["u", "v"]
    assert read(path, exclude=["n"]).columns["n"].tolist() == [1, 2]
    frame.reset_index(drop=True).to_parquet(path)
    assert read(path).index.tolist() == ["0", "1"]
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.float32()), "d": pa.array([[1], [2]])}), path)
    with pytest.raises(ReadError, match="column 'd' holds 'list"):
        read(path)
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.float32())}), path)
    assert read(path).X.dtype == np.float32
