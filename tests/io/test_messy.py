"""Files as people have them: what is read, what is said about it, and questions whose answers work."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from messy_files import Messy, Question, messy_files, questions

from dspnmf.io import ReadError, read


@pytest.mark.parametrize("file", messy_files(), ids=lambda file: file.name)
def test_messy_files(file: Messy, tmp_path: Path) -> None:
    """Without an option the right columns become features with the right values, and what was assumed is said."""
    (tmp_path / file.name).write_bytes(file.content)
    table = read(tmp_path / file.name)
    assert table.features.tolist() == file.features
    np.testing.assert_allclose(table.X, file.X, rtol=1e-3 if file.name == "exponents.csv" else 1e-12)
    assert [words for words in file.says if words not in "; ".join(table.assumed)] == []
    assert set(file.left_out) <= set(table.left_out)
    assert not file.index or table.index_name == file.index


def test_large_messy_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What PyArrow reads is the same, rows that are not samples included."""
    monkeypatch.setattr("dspnmf.io.large_text._WORTHWHILE", 0)
    for file in messy_files():
        (tmp_path / file.name).write_bytes(file.content)
        table = read(tmp_path / file.name)
        assert table.features.tolist() == file.features, file.name
        np.testing.assert_allclose(table.X, file.X, rtol=1e-3 if file.name == "exponents.csv" else 1e-12)


@pytest.mark.parametrize("file", questions(), ids=lambda file: file.name)
def test_what_cannot_be_decided_is_asked(file: Question, tmp_path: Path) -> None:
    """The message names options, and each of them reads the file as it says."""
    (tmp_path / file.name).write_bytes(file.content)
    with pytest.raises(ReadError) as caught:
        read(tmp_path / file.name)
    assert file.asks in str(caught.value)
    for words, X in file.answers:
        name, value = shlex.split(words)
        assert f"{name.removeprefix('--')}={value!r}" in str(caught.value)
        options: dict[str, Any] = {name.removeprefix("--"): value}
        np.testing.assert_allclose(read(tmp_path / file.name, **options).X, X, rtol=1e-12)


def table(folder: Path, content: str | bytes, **options: Any) -> Any:
    """What a file with that content becomes."""
    (folder / "x.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return read(folder / "x.csv", **options)


def test_all_cells_decide(tmp_path: Path) -> None:
    """A mark that could separate thousands in hundreds of rows is a decimal mark if one cell far below says so."""
    rows = "1.234;2.345;5\n" * 400
    assert table(tmp_path, f"a;b;c\n{rows}1.5;2.345;5\n").X[0].tolist() == [1.234, 2.345, 5]
    assert table(tmp_path, f"a;b;c\n{rows}1.234.567;2.345;5\n").X[-1].tolist() == [1234567, 2345, 5]
    assert table(tmp_path, f"a;b;c\n{rows}4321;2.345;5\n").X[-1].tolist() == [4321, 2.345, 5]
    with pytest.raises(ReadError, match=r"may be 1\.234 or 1234"):
        table(tmp_path, f"a;b;c\n{rows}7;2.345;5\n")
    found = table(tmp_path, "a\tb\n1.234\t2.345\n5.125\t3.125\n")
    assert found.X[0].tolist() == [1.234, 2.345]
    assert "three decimals" in "; ".join(found.assumed)
    assert table(tmp_path, "a,b\n1.234,2.345\n5,3.125\n").X[1].tolist() == [5, 3.125]


def test_options_of_text(tmp_path: Path) -> None:
    """Decimal and thousands marks, encoding, lines to skip and words for missing values can be given."""
    content = "some words\na;b\n1.234;x\n5;2,5\n"
    found = table(tmp_path, content, decimal=",", thousands=".", skip_rows=1, na="x")
    np.testing.assert_array_equal(found.X, [[1234, np.nan], [5, 2.5]])
    assert (
        table(tmp_path, "gr\u00f6\u00dfe;b\n1;2\n3;4\n".encode("mac_roman"), encoding="mac_roman").features[0]
        == "größe"
    )
    for options, says in (
        ({"decimal": ";"}, "decimal=';' is not allowed"),
        ({"thousands": "x"}, "thousands='x' is not allowed"),
        ({"decimal": ",", "thousands": ","}, "are the same mark"),
    ):
        with pytest.raises(ReadError, match=says):
            table(tmp_path, content, **options)


def test_rows_that_do_not_fit_the_names(tmp_path: Path) -> None:
    """Decimal commas between commas double the cells: the message says so, and its advice works."""
    with pytest.raises(ReadError, match="quote numbers with decimal commas"):
        table(tmp_path, "a,b\n1,5,2,5\n3,5,4,5\n")
    assert table(tmp_path, "a,b\n1,5,2,5\n3,5,4,5\n", skip_rows=1).X.shape == (2, 4)
    assert table(tmp_path, 'a,b\n"1,5","2,5"\n"3,5","4,5"\n').X[0].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("name", "values", "is_feature"),
    [
        ("id", [3, 1, 1, 2], False),
        ("SampleID", [103, 101, 109, 102], False),
        ("patient_id", [1, 2, 3, 4], False),
        ("index", [4, 2, 3, 9], False),
        ("x", [5, 6, 7, 8, 9, 10], False),
        ("x", [1, 2, 4, 5, 7, 10, 11, 15, 16, 20], False),
        ("acid", [3, 1, 4, 2], True),
        ("x", [1, 2, 3], True),
        ("x", [1.5, 2.5, 3.5, 4.5, 5.5, 6.5], True),
        ("x", [3, 1, 4, 5, 9, 2, 6, 8, 7, 10], True),
        ("wavelength", [400, 401, 402, 430, 440, 450, 499, 500, 501, 502], True),
        ("time (s)", [0, 1, 2, 3, 4, 5], True),
        ("time (s)", [0, 1, 2, 3, 4, 5, 7, 8, 9.5, 12], False),
        ("year", [2001, 2002, 2003, 2004, 2005, 2006, 2007, 2008, 2009, 2010], False),
        ("depth", [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5], False),
        ("depth", [0.5, 1, 1.2, 2, 2.5, 3, 3.5, 4, 4.5, 7], True),
        ("class", [0, 1, 2, 0, 1, 2], False),
        ("target", [0.5, 1, 2, 0, 1, 2], True),
        ("replicate", [1, 2, 1, 2, 1, 2], False),
        ("x", [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5], False),
        ("count", [1, 5, 9, 10, 20, 30, 31, 44, 50, 51], True),
        ("NO", [40, 12, 31, 9], True),
    ],
)
def test_row_numbers_are_no_features(name: str, values: list[float], is_feature: bool, tmp_path: Path) -> None:
    """Ids and row numbers are left out, in text and Parquet, unless asked for; quantities that rise are not."""
    frame = pd.DataFrame({name: values, "other": np.random.default_rng(0).random(len(values))})
    frame.to_csv(tmp_path / "x.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "x.parquet")
    for file in ("x.csv", "x.parquet"):
        found = read(tmp_path / file)
        assert (name in found.features) == is_feature
        assert is_feature or name == found.index_name or name in found.left_out
        assert name in read(tmp_path / file, include=name).features
    if name == "wavelength":
        assert "rises from row to row" in read(tmp_path / "x.csv").assumed[-1]


def test_which_way_round(tmp_path: Path) -> None:
    """Spectra in columns are turned, unless told otherwise; any other table is turned when asked for."""
    rows = "".join(f"{wave},{wave / 7:.3f},{wave / 9:.3f}\n" for wave in range(400, 520, 10))
    turned = table(tmp_path, f"Wavenumber,first,second\n{rows}")
    assert turned.X.shape == (2, 12)
    assert turned.index.tolist() == ["first", "second"]
    assert "samples in columns, over the axis 'Wavenumber'" in turned.assumed
    assert table(tmp_path, f"Wavenumber,first,second\n{rows}", transpose=False).X.shape == (12, 2)
    assert table(tmp_path, f"Wavenumber,first,second\n{rows}", index="Wavenumber").X.shape == (12, 2)
    assert table(tmp_path, f"Wavenumber,first,second\n{rows}", include="Wavenumber").X.shape == (12, 3)
    genes = table(tmp_path, "gene,c1,c2\nA,1,2\nB,3,4\nC,5,6\n", transpose=True)
    assert (genes.features.tolist(), genes.index.tolist()) == (["A", "B", "C"], ["c1", "c2"])
    halves = "".join(f"{500 - at / 2},{at % 3},{at % 5}\n" for at in range(12))
    assert "axis, not a feature" in table(tmp_path, halves).assumed[-1]
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    assert read(tmp_path / "x.npy", transpose=True).X.tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(ReadError, match="with transpose=True columns are samples"):
        table(tmp_path, "gene,c1,c2\nA,1,2\nB,3,4\n", transpose=True, label="gene")


def test_rows_that_are_samples_stay(tmp_path: Path) -> None:
    """A sample called Total that is no sum stays, and so does the error where a file is cut off or a row too short."""
    assert table(tmp_path, "firm,a,b\nShell,1,2\nTotal,3,4\n").X.shape == (2, 2)
    assert table(tmp_path, "firm,a,b\nShell,1,2\nBP,2,2\nTotal,3,4\n").X.shape == (2, 2)
    whole = "firm,a,b\nShell,1,2\nEni,1,2\nBP,2,2\n"
    for cut in (f"trial\nfirm,a,b\nShell,1,2,3\n{whole[9:]}", f"{whole}Tot", f"{whole}Eni,2\nTotal,3,4\n"):
        with pytest.raises(ReadError, match="but the rows above have 3"):
            table(tmp_path, cut)
    assert table(tmp_path, f"trial\ntwo,long,lines,here\n{whole}").features.tolist() == ["a", "b"]
    found = table(tmp_path, "kind,a,b\nx1A,1A,3\ny,2A,4\n")  # names, no amperes
    assert found.features.tolist() == ["b"]
    assert table(tmp_path, "a,b\n-999,3\n-1000,4\n").X[0, 0] == -999


def test_lines_of_samples_are_known(tmp_path: Path) -> None:
    """The line of a sample is that of the file, whatever is above it and between."""
    found = table(tmp_path, "# x\na,b\n\n1,2\n# y\n3,4\n\n5,6\n")
    assert found.lines.tolist() == [4, 6, 8]
    units = table(tmp_path, "id,a,b\n,cm,g\nr,1,2\ns,3,4\n").units
    assert units == ("cm", "g")
